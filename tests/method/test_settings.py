"""Parameters that hang together: chosen where they are left open, refused where they clash."""

import re

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omcal.method.settings import default_n_anchors, resolve_n_anchors, start_weights


@pytest.mark.parametrize(
    ("n", "c", "m"),
    [
        (1000, 2, 12),  # ten more than clusters
        (1000, 3, 15),  # five a cluster
        (21, 3, 10),  # half of the samples
        (10, 8, 9),  # one more than clusters
        (10**6, 150, 500),  # for the cost
        (10**6, 300, 600),  # two a cluster
    ],
)
def test_the_number_of_anchors_by_default(n, c, m):
    assert default_n_anchors(n, c) == m
    assert isinstance(default_n_anchors(n, c), int)


@pytest.mark.parametrize(
    ("n", "c", "k", "n_anchors", "anchors", "m"),
    [
        (60, 3, 5, None, "kmeans", 15),
        (60, 3, 20, None, "kmeans", 21),  # as many as neighbours ask for
        (13, 3, 12, None, "kmeans", 13),  # but not more than samples
        (60, 3, 5, 9, "kmeans", 9),
        (60, 3, 5, 60, "random", 60),
        (60, 60, 5, 60, "random", 60),
        (60, 3, 5, 9, np.zeros((11, 2)), 9),
        (60, 3, 5, None, np.zeros((11, 2)), 11),  # one view
        (60, 3, 5, None, [np.zeros((11, 2)), np.zeros((11, 4))], 11),
        (60, 3, 5, None, np.zeros((2, 11, 4)), 11),
        (60, np.int8(100) - np.int8(97), np.int8(5), np.int8(9), "kmeans", 9),
        (600, np.int8(100), 5, None, "kmeans", 300),  # 5 · 100 is beyond its type
    ],
)
def test_the_number_of_anchors(n, c, k, n_anchors, anchors, m):
    found = resolve_n_anchors(n, c, k, n_anchors, anchors)
    assert found == m and type(found) is int


@pytest.mark.parametrize(
    ("n", "c", "k", "n_anchors", "anchors", "text"),
    [
        (
            2,
            3,
            1,
            None,
            "kmeans",
            "n_clusters=3 must be at most the number of samples, n_samples=2.",
        ),
        (
            60,
            3,
            5,
            61,
            "kmeans",
            "n_anchors=61 must be at most the number of samples, n_samples=60; lower n_anchors.",
        ),
        (60, 8, 5, 7, "kmeans", "n_anchors=7 must be at least n_clusters=8; raise n_anchors."),
        (60, 3, 1, None, [], "n_anchors=0 must be at least n_clusters=3; raise n_anchors."),
        (
            60,
            3,
            6,
            6,
            "kmeans",
            "n_neighbors=6 must be smaller than the number of anchors, 6 (n_samples=60); "
            "use n_neighbors<=5 or n_anchors>=7.",
        ),
        (
            6,
            3,
            7,
            6,
            "kmeans",
            "n_neighbors=7 must be smaller than the number of anchors, 6 (n_samples=6); "
            "use n_neighbors<=5. Samples are rows: is the table transposed?",
        ),
        (
            6,
            3,
            6,
            5,
            "kmeans",
            "n_neighbors=6 must be smaller than the number of anchors, 5 (n_samples=6); "
            "use n_neighbors<=4. Samples are rows: is the table transposed?",
        ),
        (
            1,
            1,
            1,
            None,
            "kmeans",
            "n_neighbors=1 must be smaller than the number of anchors, 1 (n_samples=1); "
            "more samples are needed. Samples are rows: is the table transposed?",
        ),
        (
            3,
            1,
            1,
            1,
            "kmeans",
            "n_neighbors=1 must be smaller than the number of anchors, 1 (n_samples=3); "
            "use n_anchors>=2.",
        ),
    ],
)
def test_what_clashes_is_refused_with_a_remedy(n, c, k, n_anchors, anchors, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        resolve_n_anchors(n, c, k, n_anchors, anchors)


def test_weights_to_start_from():
    for name, rule in (("uniform", "fixed"), ("adaptive", "adaptive"), ("distinct", "distinct")):
        found, alpha = start_weights(name, 4)
        assert found == rule
        assert_array_equal(alpha, np.full(4, 0.25))
    found, alpha = start_weights((1, 0, 3), 3)
    assert found == "fixed"
    assert_array_equal(alpha, [0.25, 0, 0.75])
    assert_array_equal(start_weights([0.25, 0.25], 2)[1], [0.5, 0.5])


def test_weights_with_an_index_are_refused():
    """Their order need not be that of the views."""
    series = pytest.importorskip("pandas").Series({"b": 0.8, "a": 0.2})
    with pytest.raises(ValueError, match=r"whose index is not compared .*to_numpy"):
        start_weights(series, 2)
    assert_array_equal(start_weights(series.to_numpy(), 2)[1], [0.8, 0.2])


@pytest.mark.parametrize(
    ("weighting", "text"),
    [
        (["a", 1], "weighting=['a', 1] must be a name or numbers."),
        (
            [1, 2, 3],
            "weighting=[1, 2, 3] has shape (3,); give one weight for each of the 2 views.",
        ),
        ([-1, 2], "weighting=[-1, 2] must be non-negative numbers with a positive sum."),
        ([0, 0], "weighting=[0, 0] must be non-negative numbers with a positive sum."),
        (
            [np.inf, 1],
            "weighting=[inf, 1] must be non-negative numbers with a positive sum.",
        ),
    ],
)
def test_weights_that_are_none_are_refused(weighting, text):
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        start_weights(weighting, 2)
