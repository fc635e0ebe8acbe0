"""Small data sets that the tests of files write and read back."""

import numpy as np
import pytest
from scipy import sparse

from omcal.datasets import MultiViewData


@pytest.fixture
def rng():
    return np.random.default_rng(0)


@pytest.fixture
def dense(rng):
    """Two dense views of different types and text labels."""
    return MultiViewData(
        {"a": rng.normal(size=(12, 5)), "b": rng.integers(0, 9, size=(12, 3))},
        labels=np.array(list("uvwuvwuvwuvw")),
    )


@pytest.fixture
def mixed(rng):
    """A dense and a sparse view and whole-number labels."""
    return MultiViewData(
        {
            "a": rng.normal(size=(12, 5)).astype(np.float32),
            "s": sparse.random_array((12, 20), density=0.3, format="csr", random_state=rng),
        },
        labels=np.arange(12) % 3,
    )


@pytest.fixture
def views(rng):
    """Two plain arrays of eight samples."""
    return [rng.normal(size=(8, 5)), rng.normal(size=(8, 3))]
