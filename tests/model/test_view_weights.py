"""Weights of views: copies share one, and what is published stays available."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from omcal import OMCAL
from omcal.datasets import make_multiview
from omcal.method.weights import copies

DATA = list(make_multiview(400, n_clusters=4, noise=1.5, random_state=0).views.values())
ROWS = np.random.default_rng(1).choice(400, 30, replace=False)


def weights(views, weighting):
    """With anchors that copies of a view do not change."""
    anchors = [view[ROWS] for view in views]
    return OMCAL(
        4, weighting=weighting, scale=None, anchors=anchors, tol=1e-9, max_iter=2000, random_state=0
    ).fit(views)


@pytest.mark.slow
def test_copies_share_the_weight_of_one():
    a, b, c = DATA
    alone, copied = weights([a, b, c], "distinct"), weights([a, a, a, b, c], "distinct")
    found = copied.view_weights_
    assert_allclose(found[:3], found[0], rtol=1e-9)
    assert_allclose([found[:3].sum(), *found[3:]], alone.view_weights_, rtol=1e-3)
    np.testing.assert_array_equal(copied.labels_, alone.labels_)


@pytest.mark.slow
def test_copies_count_each_with_the_other_weights():
    a, b, c = DATA
    for weighting in ("agreement", "uniform"):
        one = weights([a, b, c], weighting).view_weights_
        with pytest.warns(UserWarning, match="are the same, and count twice"):
            three = weights([a, a, a, b, c], weighting).view_weights_
        assert three[:3].sum() > 1.4 * one[0], weighting


@pytest.mark.slow
def test_near_copies_share_nearly_one():
    """The less two views are alike, the more weight they have together."""
    a, b, c = DATA
    noise = np.random.default_rng(0).normal(size=a.shape)
    together = [
        weights([a, a + size * noise, b, c], "distinct").view_weights_[:2].sum()
        for size in (0.0, 0.03, 0.3)
    ]
    assert (np.diff(together) > 0).all()


def test_number_of_copies():
    same = np.array([[4.0, 4, 0], [4, 4, 0], [0, 0, 1]])
    assert_allclose(copies(same), [2, 2, 1])
    near = np.array([[1.0, 0.99], [0.99, 1.0]])
    assert_allclose(copies(near), 1 + 0.99**50, rtol=1e-12)
    assert_allclose(copies(np.diag([1.0, 0.0])), [1, 1])  # a graph without entries


@pytest.mark.sampled
@pytest.mark.parametrize("weighting", ["adaptive", "agreement", "distinct", "uniform"])
def test_weights_are_shares(weighting):
    found = weights(DATA, weighting).view_weights_
    assert (found >= 0).all()
    assert found.sum() == pytest.approx(1)
