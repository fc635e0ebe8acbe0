"""Labels of nearest centres by bounds, against all distances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal

from omcal.method import bounds, vectors
from omcal.method.vectors import IncompleteVectors, Vectors


@pytest.fixture(autouse=True)
def always(monkeypatch):
    monkeypatch.setattr(vectors, "_MANY_DISTANCES", 0)


@settings(max_examples=80, deadline=None)
@given(
    n=st.integers(1, 300),
    m=st.integers(1, 12),
    width=st.integers(1, 9),
    step=st.sampled_from([0.0, 1e-6, 0.01, 0.1, 1.0]),
    dtype=st.sampled_from([np.float32, np.float64]),
    far=st.sampled_from([0.0, 100.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_labels_are_those_of_all_distances_however_the_centres_move(
    n, m, width, step, dtype, far, seed
):
    rng = np.random.default_rng(seed)
    X = (far + rng.normal(size=(n, width))).astype(dtype)
    centres = (far + rng.normal(size=(m, width))).astype(dtype)
    vectors = Vectors(X)
    search = vectors.search(m)
    assert isinstance(search, bounds.MovingCentres)
    for _ in range(6):
        found = search(centres)
        d = np.square(X.astype(np.float64)[:, None] - centres.astype(np.float64)).sum(axis=2)
        chosen, least = d[np.arange(n), found], d.min(axis=1)
        # Of centres that are equally near to rounding, either will do.
        rounding = 64 * np.finfo(dtype).eps * (np.square(X).sum(axis=1) + np.square(centres).sum())
        assert (chosen <= least + rounding).all()
        some = rng.random(m) < 0.5  # the others stay where they are
        centres = centres + (step * some[:, None] * rng.normal(size=centres.shape)).astype(dtype)


def test_points_that_nothing_has_changed_for_are_not_looked_at():
    rng = np.random.default_rng(0)
    far = 20 * rng.normal(size=(5, 3))
    X = np.repeat(far, 200, axis=0) + rng.normal(size=(1000, 3))
    looked = []

    class Counted(Vectors):
        def _two_nearest(self, centres, some):
            looked.append(self.n if some is None else len(some))
            return super()._two_nearest(centres, some)

    search = Counted(X).search(5)
    first = search(far)
    assert_array_equal(search(far), first)
    assert_array_equal(search(far + 0.01), first)
    assert looked[0] == 1000 and sum(looked[1:]) < 50
    first[:] = -1  # what was handed out is the caller's
    assert search(far + 0.01).min() == 0
    assert_array_equal(search(far[::-1]), search(far)[::-1])


@pytest.mark.parametrize("share", [0.1, 0.9])
def test_few_or_most_are_looked_at_anew(share):
    # Points between two centres are unsure at the least move, the others never.
    n = int(1000 * share)
    X = np.concatenate([np.linspace(-0.01, 0.01, n), np.linspace(0.9, 1.1, 1000 - n)])[:, None]
    vectors = Vectors(X)
    search = vectors.search(2)
    for at in (0.0, 0.003, -0.004):
        centres = np.array([[-1.0 + at], [1.0 + at]])
        assert_array_equal(search(centres), vectors.nearest(centres)[0])


def test_points_with_absent_views_are_looked_at_each_time():
    rng = np.random.default_rng(1)
    present = rng.random((50, 2)) < 0.7
    X = rng.normal(size=(50, 4)) * np.repeat(present, 2, axis=1)
    incomplete = IncompleteVectors(X, present, (2, 2))
    search = incomplete.search(3)
    for _ in range(3):
        centres = rng.normal(size=(3, 4))
        assert_array_equal(search(centres), incomplete.nearest(centres)[0])
