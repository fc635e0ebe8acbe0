"""How many clusters there are."""

import json

import numpy as np
import pytest
from scipy import sparse

from omcal.datasets import make_multiview
from omcal.method.graph import AnchorGraphs
from omcal.select.number import _Half, leave_out, n_clusters
from omcal.select.parameters import tune_without_labels


def separated(c, n=600, **options):
    return make_multiview(n, n_clusters=c, noise=0.3, random_state=c, **options)


@pytest.mark.slow
@pytest.mark.parametrize("c", [2, 3, 7, 12, 19, 30])
def test_counts_separated_clusters(c):
    found = n_clusters(separated(c, 900).views, range(max(2, c - 3), c + 4), n_resamples=2)
    assert found.suggestion == c
    assert found.confidence > 0.9


def round_clusters(c, n, d=6, distance=8.0):
    """Clusters of different sizes and standard deviation 1, with centres that lie apart."""
    rng = np.random.RandomState(c)
    centres = []
    while len(centres) < c:
        centre = rng.uniform(-12, 12, size=d)
        if all(np.linalg.norm(centre - other) >= distance for other in centres):
            centres.append(centre)
    shares = rng.uniform(0.5, 1.5, size=c)
    labels = rng.choice(c, size=n, p=shares / shares.sum())
    return np.array(centres)[labels] + rng.normal(size=(n, d))


@pytest.mark.slow
@pytest.mark.parametrize("c", [2, 3, 5, 8, 12, 16, 20, 23, 25, 27, 29, 30])
def test_counts_round_clusters_of_one_view(c):
    near = {2, 30, *range(max(2, c - 2), min(30, c + 2) + 1)}
    assert n_clusters(round_clusters(c, 600), near, n_resamples=2).suggestion == c


def test_counts_clusters_of_few_samples():
    near = [2, *range(10, 15), 30]
    assert n_clusters(round_clusters(12, 300), near, n_resamples=2).suggestion == 12


def test_a_sample_is_left_out_of_its_own_anchor():
    rng = np.random.RandomState(0)
    labels = np.array([0] * 6 + [1] * 4 + [2])
    views = [20 * rng.normal(size=(3, d))[labels] + rng.normal(size=(11, d)) for d in (2, 5)]

    def anchors(X, left_out=None):
        rows = np.arange(11) != left_out
        return np.array([X[rows & (labels == j)].mean(axis=0) for j in range(3)])

    distances = [np.square(X[:, None] - anchors(X)).sum(axis=2) for X in views]
    expected = [d.copy() for d in distances]
    leave_out(distances)
    for X, old, new in zip(views, expected, distances, strict=True):
        for i in range(10):
            old[i, labels[i]] = np.square(X[i] - anchors(X, i)[labels[i]]).sum()
        old[10, 2] = old[10].max()  # a sample with an anchor to itself
        assert new == pytest.approx(old)


@pytest.mark.slow
def test_counts_over_a_wide_range():
    assert n_clusters(separated(5).views, range(2, 21), n_resamples=2).suggestion == 5


def test_counts_in_one_view():
    X = separated(4).views["view1"]
    assert n_clusters(X, range(2, 9), n_resamples=2).suggestion == 4


def test_noise_has_no_number():
    noise = np.random.RandomState(0).normal(size=(400, 8))
    found = n_clusters([noise, noise[::-1]], range(2, 12))
    assert found.confidence < 0.4
    assert "guess" in found.sentence()


def test_says_so_where_the_largest_is_best():
    found = n_clusters(separated(6).views, range(2, 7), n_resamples=2)
    assert found.suggestion == 6
    assert "try larger ones" in found.sentence()


def test_curves_belong_to_the_candidates():
    found = n_clusters(separated(4).views, [6, 2, 4, 3], n_resamples=2)
    assert found.candidates == (2, 3, 4, 6)
    for curve in (found.gap, found.stability, found.objective, found.score):
        assert len(curve) == 4
    assert all(np.diff(found.objective[:3]) < 0)
    assert found.stability[2] == pytest.approx(1.0, abs=0.02)
    assert found.n_anchors >= 16 and found.n_samples == 600
    assert "4 clusters, confidence" in str(found)
    json.dumps(found.to_dict(), allow_nan=False)


def test_eigenvalues_are_those_of_the_mean_graph():
    rng = np.random.RandomState(0)
    indices = np.argsort(rng.rand(50, 2, 6), axis=2)[:, :, :3].astype(np.uint8)
    weights = rng.rand(50, 2, 3)
    weights /= weights.sum(axis=2, keepdims=True)
    graphs = AnchorGraphs(indices, weights, 6)
    A = graphs.side_by_side().toarray().reshape(50, 2, 6).mean(axis=1)
    expected = np.linalg.svd(A / np.sqrt(A.sum(axis=0)), compute_uv=False) ** 2
    assert _Half(graphs).eigenvalues == pytest.approx(expected)
    assert expected[0] == pytest.approx(1)


def test_the_same_every_time():
    views = separated(3).views
    assert n_clusters(views, range(2, 6)) == n_clusters(views, range(2, 6))


def test_uses_a_sample_of_many():
    found = n_clusters(separated(3).views, range(2, 6), max_samples=200, n_resamples=2)
    assert (found.suggestion, found.n_samples) == (3, 200)


def test_sparse_and_missing():
    data = separated(3, missing=0.2)
    found = n_clusters(data.views, range(2, 6), n_resamples=2)
    assert found.suggestion == 3 and found.n_samples < 600
    views = [sparse.csr_array(X) for X in separated(3).views.values()]
    assert n_clusters(views, range(2, 6), n_resamples=2).suggestion == 3


def test_plot():
    matplotlib = pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    matplotlib.use("Agg")
    found = n_clusters(separated(3).views, range(2, 6), n_resamples=2)
    assert [line.get_label() for line in found.plot().lines[:3]] == [
        "gap",
        "stability",
        "objective",
    ]
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": [1, 2]}, "at least 2"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [2.5]}, "integers"),
        ({"candidates": range(2, 400)}, "too many for 600 samples"),
        ({"n_resamples": 1}, "n_resamples=1"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        n_clusters(separated(3).views, **arguments)


def test_settings_are_tried_on_samples_that_some_views_lack():
    data = separated(4, 300)
    rng = np.random.RandomState(0)
    here = {"view1": (data.labels < 2) | (rng.uniform(size=300) < 0.3)}
    views = dict(data.views)
    views["view1"] = np.where(here["view1"][:, None], views["view1"], 1e6)  # not to be looked at
    grid = {"weighting": ["distinct", "adaptive"]}
    trials = tune_without_labels(views, 4, grid, present=here, n_fits=2)
    for trial in trials:
        assert trial.stability > 0.95 and trial.silhouette > 0.3 and trial.clusters_found == 4
        assert set(trial.explained) == set(views) and min(trial.explained.values()) > 0.5
    # Rows of NaN say the same.
    views["view1"] = np.where(here["view1"][:, None], data.views["view1"], np.nan)
    assert tune_without_labels(views, 4, grid, n_fits=2) == trials
    views["view2"] = np.where(here["view1"][:, None], np.nan, views["view2"])
    with pytest.raises(ValueError, match="in every view; X has 0"):
        tune_without_labels(views, 4, grid, n_fits=2)
    nowhere = dict.fromkeys(data.views, here["view1"])
    with pytest.raises(ValueError, match="absent from every view"):
        tune_without_labels(data.views, 4, grid, present=nowhere, n_fits=2)
