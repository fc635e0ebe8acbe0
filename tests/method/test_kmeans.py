"""When k-means stops, and where it ends."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.spatial.distance import cdist

from omcal.method import kmeans
from omcal.method.kmeans import lloyd
from omcal.method.points import Points, Vectors


class Counted(Points):
    """Points on a line, which count how often they are asked for their nearest centres."""

    def __init__(self, x, spread=1.0):
        self.x, self.n, self.asked, self._spread = np.asarray(x, dtype=float), len(x), 0, spread

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
        new = np.array([self.x[labels == j].mean() for j in range(len(centres))])
        return new, float(np.sum((new - centres) ** 2))


def test_the_iterations_end_where_nothing_changes_any_more():
    points = Counted([0.0, 1.0, 10.0, 11.0])
    assert_allclose(kmeans._improved(np.array([0.0, 1.0]), points, 2, 100), [0.5, 10.5])
    assert points.asked == 3  # twice with a change, and once more to see that there is none
    assert_allclose(kmeans._improved(np.array([0.0, 1.0]), points, 2, 1), [0.0, 22 / 3])
    assert points.asked == 4


def test_the_iterations_end_where_the_centres_hardly_move(monkeypatch):
    monkeypatch.setattr(kmeans, "TOLERANCE", 0.5)
    x = [0.0, 1.0, 10.0, 13.0]  # the first step moves the second centre from 1 to 8
    for spread, asked in ((2 * 7.0**2, 1), (np.nextafter(2 * 7.0**2, 0), 2)):
        points = Counted(x, spread)
        kmeans._improved(np.array([0.0, 1.0]), points, 2, 100)
        assert points.asked == asked


def test_empty_clusters_get_the_points_farthest_from_their_centres():
    labels = np.array([0, 0, 2, 2, 2])
    distances = np.array([1.0, 5.0, 5.0, 0.0, 9.0])
    # 9 is the farthest; of the two at 5 the first comes next.
    assert_array_equal(kmeans._filled(labels.copy(), distances, 4), [0, 3, 2, 2, 1])
    assert_array_equal(kmeans._filled(labels % 2, distances, 1), labels % 2)


@pytest.mark.parametrize("wide", [False, True])
def test_a_sample_ends_near_a_minimum_of_all_its_points(wide):
    rng = np.random.default_rng(6)
    d, m = (40, 5) if wide else (10, 5)
    centres = 6 * rng.normal(size=(m, d))
    X = centres[np.arange(256 * m) % m] + rng.normal(size=(256 * m, d))
    points = Vectors(X)
    assert points.span_pays(m) == wide
    found = lloyd(points, m, True, 3, np.random.RandomState(0))
    again = lloyd(points, m, True, 3, np.random.RandomState(0))
    assert_array_equal(found, again)
    nearest = cdist(found, centres).argmin(axis=1)
    assert sorted(nearest) == list(range(m))
    means = np.array([X[np.arange(len(X)) % m == j].mean(axis=0) for j in nearest])
    assert_allclose(found, means, atol=1e-9)
