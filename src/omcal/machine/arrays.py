"""Type aliases for arrays and seeds, the conversion of arrays to NumPy, and sums that add up."""

from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # of any dtype
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Seed: TypeAlias = int | np.random.RandomState | None


def on_host(part: Any) -> Array:
    """Return an array from a device or a cluster as an array in the memory of this process."""
    if hasattr(part, "cpu"):
        return np.asarray(part.cpu())
    return np.asarray(part.compute() if hasattr(part, "compute") else part)


def as_dense(X: Any) -> Array:
    """Return a sparse matrix as a dense array, and a dense array unchanged."""
    return np.asarray(X.toarray() if hasattr(X, "toarray") else X)


class Additive:
    """Base of dataclasses whose fields are sums over samples; those of two sets are added."""

    def __add__(self, other: Self) -> Self:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return type(self)(*(mine + its for mine, its in both))
