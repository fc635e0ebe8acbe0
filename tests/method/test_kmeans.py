"""When k-means stops, and where it ends."""

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from scipy.spatial.distance import cdist

from omcal.method import kmeans
from omcal.method.kmeans import drawn, lloyd, looked_at_in_order, start_rows
from omcal.method.points import Points
from omcal.method.vectors import Vectors


class Counted(Points):
    """Points on a line, which count how often they are asked for their nearest centres."""

    def __init__(self, x, spread=1.0):
        self.x, self.n, self._spread = np.asarray(x, dtype=float), len(x), spread
        self.asked = self.meant = 0

    spread = property(lambda self: self._spread)

    def __getitem__(self, some):
        return Counted(self.x[some])

    def distances_to(self, chosen):
        return (self.x[np.asarray(chosen), None] - self.x) ** 2

    def at(self, chosen):
        return self.x[list(chosen)]

    def nearest(self, centres):
        self.asked += 1
        d = (self.x[:, None] - centres) ** 2
        return d.argmin(axis=1), d.min(axis=1)

    def means(self, labels, centres):
        self.meant += 1
        return np.array([self.x[labels == j].mean() for j in range(len(centres))])

    def moved(self, before, after):
        return float(np.sum((after - before) ** 2))


def test_the_iterations_end_where_nothing_changes_any_more():
    points = Counted([0.0, 1.0, 10.0, 11.0])
    assert_allclose(kmeans._improved(np.array([0.0, 1.0]), points, 2, 100), [0.5, 10.5])
    # Twice with a change, and once more to see that there is none.
    assert (points.asked, points.meant) == (3, 2)
    assert_allclose(kmeans._improved(np.array([0.0, 1.0]), points, 2, 1), [0.0, 22 / 3])
    assert points.asked == 4


def test_the_iterations_end_where_the_centres_hardly_move(monkeypatch):
    monkeypatch.setattr(kmeans, "TOLERANCE", 0.5)
    x = [0.0, 1.0, 10.0, 13.0]  # the first step moves the second centre from 1 to 8
    for spread, asked in ((2 * 7.0**2, 1), (np.nextafter(2 * 7.0**2, 0), 2)):
        points = Counted(x, spread)
        kmeans._improved(np.array([0.0, 1.0]), points, 2, 100)
        assert points.asked == asked


def test_a_start_that_all_points_are_nearest_to_the_second_of():
    points = Counted([0.0, 1.0, 2.0])
    assert_allclose(kmeans._improved(np.array([50.0, 0.5]), points, 2, 100), [2.0, 0.5])


def test_the_last_point_may_be_a_centre_of_the_start():
    X = np.zeros((30, 2))
    X[-1] = 100
    for seed in range(3):
        assert kmeans._seed(Vectors(X), 2, 3, np.random.RandomState(seed))[1] == 29


def at(distances):
    """Points at these distances from the nearest centre."""
    return SimpleNamespace(nearest=lambda centres: (None, distances))


def test_empty_clusters_get_the_points_farthest_from_their_centres():
    labels = np.array([0, 0, 2, 2, 2])
    distances = np.array([1.0, 5.0, 5.0, 0.0, 9.0])
    # 9 is the farthest; of the two at 5 the first comes next.
    assert_array_equal(kmeans._filled(labels.copy(), at(distances), None, 4), [0, 3, 2, 2, 1])
    never = SimpleNamespace(nearest=pytest.fail)
    assert_array_equal(kmeans._filled(labels % 2, never, None, 1), labels % 2)
    zeros = np.zeros(100, dtype=int)
    many = kmeans._filled(zeros, at(np.ones(100)), None, 41)
    assert_array_equal(many, [*range(1, 41), *[0] * 60])


@pytest.mark.parametrize("unit", [1e-6, 1.0, 1e6])
@pytest.mark.parametrize("seed", range(3))
def test_empty_clusters_get_the_first_of_points_equally_far_in_any_unit(unit, seed):
    rng = np.random.default_rng(seed)
    steps = rng.integers(1, 4, size=1000)
    distances = unit * steps * (1 + 1e-9 * rng.normal(size=1000))  # equal but for rounding
    labels = np.zeros(1000, dtype=int)
    found = kmeans._filled(labels.copy(), at(distances), None, 600)
    order = sorted(range(1000), key=lambda i: -steps[i])
    assert_array_equal(found[order[:599]], np.arange(1, 600))
    assert not found[order[599:]].any()


@pytest.mark.parametrize("wide", [False, True])
def test_a_sample_ends_near_a_minimum_of_all_its_points(wide):
    rng = np.random.default_rng(6)
    d, m = (40, 5) if wide else (10, 5)
    centres = 6 * rng.normal(size=(m, d))
    X = centres[np.arange(256 * m) % m] + rng.normal(size=(256 * m, d))
    points = Vectors(X)
    found = lloyd(points, m, True, 3, np.random.RandomState(0))
    again = lloyd(points, m, True, 3, np.random.RandomState(0))
    assert_array_equal(found, again)
    nearest = cdist(found, centres).argmin(axis=1)
    assert sorted(nearest) == list(range(m))
    means = np.array([X[np.arange(len(X)) % m == j].mean(axis=0) for j in nearest])
    assert_allclose(found, means, atol=1e-9)


class Watched(Vectors):
    """Vectors that note how many of them take part in what."""

    def __init__(self, X, norms=None, notes=None):
        super().__init__(X, norms)
        self.notes = [] if notes is None else notes

    def __getitem__(self, some):
        return Watched(self.X[some], self._norms[some], self.notes)

    @property
    def among_themselves(self):
        self.notes.append(("start", self.n))
        return self

    def nearest(self, centres):
        self.notes.append(("nearest", self.n))
        return super().nearest(centres)


def test_a_sample_is_worked_on_from_coarse_to_fine():
    m = 8
    points = Watched(np.random.default_rng(8).normal(size=(256 * m, 3)))
    lloyd(points, m, True, 3, np.random.RandomState(0))
    # The start from 16 a centre, up to 10 iterations of 64, up to 3 of all.
    assert (
        points.notes
        == [("start", 16 * m)] + [("nearest", 64 * m)] * 10 + [("nearest", 256 * m)] * 3
    )
    few = Watched(points.X[:50])
    lloyd(few, m, True, 3, np.random.RandomState(0))
    assert {n for _, n in few.notes} == {50}


def test_of_points_that_are_no_sample_a_part_gives_the_start():
    m = 8
    points = Watched(np.random.default_rng(8).normal(size=(200 * m, 3)))
    lloyd(points, m, False, 9, np.random.RandomState(0), 64 * m)
    start, *rest = points.notes
    assert start == ("start", 64 * m)
    assert {n for _, n in rest} == {200 * m}
    whole = Watched(points.X)  # of all, whose distances are not kept where they are many
    lloyd(whole, m, False, 3, np.random.RandomState(0))
    assert {n for _, n in whole.notes} == {200 * m}
    assert "start" not in dict(whole.notes)


def test_where_a_part_gives_the_start():
    assert start_rows(1025, 10, 5, thorough=False) == 1024
    assert start_rows(1601, 10, 100, thorough=False) == 1600
    assert start_rows(1024, 10, 5, thorough=False) is None
    assert start_rows(1025, 10, 5, thorough=True) is None
    assert start_rows(1025, 10_000, 5, thorough=False) is None  # all products are there


@pytest.mark.parametrize("width", [3, 40])
def test_the_same_random_state_gives_the_same_centres_of_what_has_no_clusters(width):
    points = Vectors(np.random.default_rng(8).normal(size=(256 * 6, width)))
    first, second, other = (
        lloyd(points, 6, True, 3, np.random.RandomState(seed)) for seed in (0, 0, 1)
    )
    np.testing.assert_array_equal(first, second)
    assert not np.allclose(first, other)


@pytest.mark.parametrize("n", [1, 15, 16, 100, 700, 1300])
def test_points_that_are_looked_at_together_are_in_their_order(n):
    m = 5
    order = looked_at_in_order(n, m, np.random.RandomState(0))
    assert_array_equal(np.sort(order), np.arange(n))
    edges = [0, *(min(size * m, n) for size in (16, 64, 128)), n]
    for start, stop in pairwise(edges):
        assert (np.diff(order[start:stop]) > 0).all()
    # Those of a step are drawn from all points, not the first of them.
    assert n <= 16 * m or order[: 16 * m].max() > n / 2


@pytest.mark.sampled
@pytest.mark.parametrize(("n", "size"), [(40, 10), (600, 9), (30, 30)])  # by each of NumPy's ways
def test_any_first_of_the_numbers_drawn_are_as_likely_as_others(n, size):
    state, times, first = np.random.RandomState(0), 4000, 3
    counts = sum(np.bincount(drawn(n, size, state)[:first], minlength=n) for _ in range(times))
    expected = times * first / n
    chi_squared = ((counts - expected) ** 2).sum() / (expected * (1 - first / n))
    assert abs(chi_squared - (n - 1)) < 5 * (2 * (n - 1)) ** 0.5


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_the_first_points_are_in_the_memory_of_all(form):
    points = Vectors(form(np.random.default_rng(0).normal(size=(20, 4))))
    first = points[:7]
    stored = (lambda X: X) if form is np.asarray else (lambda X: X.data)
    assert first.n == 7
    assert np.shares_memory(stored(first.X), stored(points.X))
    for some in (slice(0, 50), slice(3, 9), np.array([4, 2])):
        expected = cdist(np.eye(4), as_dense(points.X)[some], "sqeuclidean")
        assert_allclose(points[some].nearest(np.eye(4))[1], expected.min(axis=0), atol=1e-12)


def as_dense(X):
    return X.toarray() if sparse.issparse(X) else X
