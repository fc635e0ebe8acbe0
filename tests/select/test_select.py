"""How many clusters there are."""

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics import euclidean_distances

from omcal.datasets import make_multiview
from omcal.model.structure import few_directions
from omcal.select.levels import bands, spaced
from omcal.select.number import (
    coarse_numbers,
    finer_numbers,
    modularity,
    n_clusters,
    null_like,
    scores,
)
from omcal.select.parameters import tune_without_labels


def as_long(*numbers):
    return [pytest.param(number, marks=pytest.mark.long) for number in numbers]


def separated(c, n=600, **options):
    return make_multiview(n, n_clusters=c, noise=0.3, random_state=c, **options)


@pytest.mark.slow
@pytest.mark.parametrize("c", [2, 7, 19, *as_long(3, 12, 30)])
def test_counts_separated_clusters(c):
    found = n_clusters(separated(c, 900).views, range(max(2, c - 3), c + 4))
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
@pytest.mark.parametrize("c", [2, 5, 12, 30, *as_long(3, 8, 16, 20, 23, 25, 27, 29)])
def test_counts_round_clusters_of_one_view(c):
    near = {2, 30, *range(max(2, c - 2), min(30, c + 2) + 1)}
    assert n_clusters(round_clusters(c, max(600, 40 * c)), near).suggestion == c


@pytest.mark.slow
def test_counts_clusters_of_few_samples():
    near = [2, *range(10, 15), 30]
    assert n_clusters(round_clusters(12, 300), near).suggestion == 12


@pytest.mark.slow
def test_counts_clusters_of_fewer_samples_than_neighbours():
    """0.6 roots of 320 samples would be 11 neighbours, of which 7 can be in the cluster."""
    labels = np.repeat(np.arange(40), 8)
    rng = np.random.RandomState(0)
    # A grid, shuffled for each view, so that other clusters are near each other.
    grid = np.array(np.meshgrid(*[np.arange(4)] * 3)).reshape(3, -1).T * 6.0
    views = [rng.permutation(grid)[labels] + rng.normal(size=(320, 3)) for _ in range(2)]
    found = n_clusters(views, [10, 20, 30, 40, 50])
    assert found.suggestion == 40


@given(
    st.lists(st.floats(0.01, 1), min_size=1, max_size=6),
    st.floats(0, 0.99),
    st.floats(0, 0.9),
)
def test_score_is_at_most_two_and_grows_with_stability(modularities, stability, chance):
    m = np.array(modularities)
    same = np.full(len(m), stability)
    low, high = (scores(m, s, np.full(len(m), chance)) for s in (same, same + 0.01))
    assert (high > low).all() and (high <= 2 + 1e-9).all()
    # With the same stability the modularity decides, up to rounding.
    assert m[low.argmax()] == pytest.approx(m.max(), rel=1e-12)


def test_stability_by_chance_counts_for_nothing():
    """Runs agree on two halves of anything; they do so no more than by chance."""
    stability, chance = np.array([0.95, 0.9]), np.array([0.95, 0.2])
    assert scores(np.array([0.5, 0.4]), stability, chance).argmax() == 1


@given(st.integers(6, 3000))
def test_candidates_reach_a_quarter_of_the_samples(n):
    numbers = coarse_numbers(n)
    assert numbers[0] == 2 and numbers[-1] == max(2, n // 4)
    assert numbers == sorted(set(numbers))
    assert all(b <= max(a + 1, 1.3 * a) for a, b in pairwise(numbers))


@pytest.mark.slow
def test_many_small_clusters_are_found_without_candidates():
    """50 clusters of 8 samples: far beyond the root of 400 samples."""
    rng = np.random.RandomState(0)
    X = rng.normal(scale=6, size=(50, 8)).repeat(8, axis=0) + rng.normal(size=(400, 8))
    found = n_clusters(X)
    assert abs(found.suggestion - 50) <= 2


@pytest.mark.long
def test_far_numbers_are_not_tried_where_the_score_has_fallen():
    found = n_clusters(separated(3).views)
    assert found.suggestion == 3
    assert found.candidates[-1] < 100


@pytest.mark.slow
def test_progress_estimates_the_time(capsys):
    n_clusters(separated(3).views, [2, 3, 8], n_runs=2, progress=print)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2 and lines[-1].endswith("at most about 0 s left")


@pytest.mark.long
def test_counts_over_a_wide_range():
    assert n_clusters(separated(5).views, range(2, 21)).suggestion == 5


@pytest.mark.slow
def test_counts_in_one_view():
    X = separated(4).views["view1"]
    assert n_clusters(X, range(2, 9)).suggestion == 4


@pytest.mark.slow
def test_noise_has_no_number():
    noise = np.random.RandomState(0).normal(size=(400, 8))
    found = n_clusters([noise, noise[::-1]], range(2, 12))
    assert found.confidence < 0.4
    assert "no cluster structure found" in found.sentence()
    assert found.suggestion > 1  # of the candidates that were asked for


@pytest.mark.slow
def test_noise_is_one_cluster_where_no_number_is_asked_for():
    rng = np.random.RandomState(1)
    found = n_clusters([rng.normal(size=(150, 8)), rng.normal(size=(150, 5))], n_runs=2)
    assert found.suggestion == found.ranking[0] == 1
    assert str(found).startswith("1 cluster: no cluster structure found")
    assert n_clusters(separated(3, 150).views, n_runs=2).suggestion == 3


@pytest.mark.slow
def test_says_so_where_the_largest_is_best():
    found = n_clusters(separated(6).views, range(2, 7))
    assert found.suggestion == 6
    assert "try larger ones" in found.sentence()


@pytest.mark.slow
def test_curves_belong_to_the_candidates():
    found = n_clusters(separated(4).views, [6, 2, 4, 3])
    assert found.candidates == (2, 3, 4, 6)
    for curve in (found.modularity, found.stability, found.chance, found.score):
        assert len(curve) == 4
    assert found.stability[2] == pytest.approx(1.0, abs=0.02)
    assert found.modularity[2] == pytest.approx(
        0.75, abs=0.01
    )  # four equal clusters, no tie between
    assert found.n_samples == 600 and found.n_runs == 4
    assert "4 clusters, confidence" in str(found)
    assert found.ranking[0] == 4 and sorted(found.ranking) == [2, 3, 4, 6]
    json.dumps(found.to_dict(), allow_nan=False)


@given(n=st.integers(2, 30), k=st.integers(1, 5), c=st.integers(1, 5), seed=st.integers(0, 999))
def test_modularity_is_its_definition(n, k, c, seed):
    """(1 / 2m) Σ (Aᵢⱼ − kᵢkⱼ / 2m) over pairs of samples in one cluster, m ties Aᵢⱼ."""
    rng = np.random.default_rng(seed)
    near = (np.arange(n)[:, None] + rng.integers(1, n, size=(n, k))) % n
    A = np.zeros((n, n))
    np.add.at(A, (np.arange(n)[:, None], near), 1)
    A = A + A.T
    labels = rng.integers(c, size=n)
    expected = (A - np.outer(A.sum(0), A.sum(0)) / A.sum())[np.equal.outer(labels, labels)].sum()
    assert modularity(near, labels) == pytest.approx(expected / A.sum())


def test_runs_of_wide_views_are_those_to_all_features():
    """Directions of small variance are left out; the clusters stay."""
    data = separated(4, 200)
    rng = np.random.RandomState(0)
    X = data.views["view1"] @ rng.normal(size=(data.views["view1"].shape[1], 300))
    for rows in (X, sparse.csr_array(X)):
        fewer = few_directions(rows)
        assert fewer.shape == (200, 200) and fewer.dtype == np.float32
        distances = [euclidean_distances(Y) for Y in (fewer, X)]
        np.testing.assert_allclose(*distances, atol=1e-3 * distances[1].max())


@pytest.mark.slow
@pytest.mark.parametrize("value", [0.0, 3.0])
@pytest.mark.parametrize("rows", [np.asarray, sparse.csr_array])
def test_a_wide_view_that_says_nothing(value, rows):
    X = separated(3).views["view1"]
    nothing = rows(np.ones((len(X), 700)))
    nothing *= value  # zeros that are stored, where rows are sparse
    found = n_clusters([X, nothing], range(2, 5), scale=None)
    assert found.suggestion == 3


@pytest.mark.parametrize("n", [2, 5])
def test_fewer_samples_than_a_fit_needs_are_refused(n):
    with pytest.raises(ValueError, match=f"{n} samples are in every view; at least 6 are needed"):
        n_clusters([np.eye(n)])


@pytest.mark.parametrize("n", [6, 9])
def test_hardly_any_samples(n):
    X = np.repeat([[0.0, 1.0], [9.0, 3.0]], [n // 2, n - n // 2], axis=0)
    X += np.random.RandomState(0).normal(size=X.shape)
    assert n_clusters(X).suggestion in range(2, int(n**0.5) + 2)
    assert n_clusters(X, [2]).ranking == (2,)


@pytest.mark.slow
def test_float32_and_integers():
    views = [(8 * X).round() for X in separated(4).views.values()]
    found = [
        n_clusters([X.astype(dtype) for X in views], range(3, 6))
        for dtype in (np.float64, np.float32, np.int64)
    ]
    assert {(some.suggestion, some.ranking[:2]) for some in found} == {(4, found[0].ranking[:2])}


@pytest.mark.slow
def test_the_same_every_time():
    views = separated(3).views
    assert n_clusters(views, range(2, 6)) == n_clusters(views, range(2, 6))


@pytest.mark.slow
def test_uses_a_sample_of_many():
    found = n_clusters(separated(3).views, range(2, 6), max_samples=200)
    assert (found.suggestion, found.n_samples) == (3, 200)


@pytest.mark.slow
def test_sparse_and_missing():
    data = separated(3, missing=0.2)
    found = n_clusters(data.views, range(2, 6))
    assert found.suggestion == 3 and found.n_samples < 600
    views = [sparse.csr_array(X) for X in separated(3).views.values()]
    assert n_clusters(views, range(2, 6)).suggestion == 3


@pytest.mark.slow
def test_plot():
    matplotlib = pytest.importorskip("matplotlib", reason="the extra plot is not installed")
    matplotlib.use("Agg")
    found = n_clusters(separated(3).views, range(2, 6))
    drawn = found.plot().lines[:3]
    assert [line.get_label() for line in drawn] == [
        "modularity",
        "stability",
        "stability by chance",
    ]
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"candidates": [1, 2]}, "at least 2"),
        ({"candidates": []}, "candidates"),
        ({"candidates": [2.5]}, "integers"),
        ({"candidates": range(2, 400)}, "too many for 600 samples"),
        ({"n_runs": 1}, "n_runs=1"),
        ({"candidates": 5}, "candidates=5 must be a list of integers"),
        ({"max_samples": -1}, "max_samples=-1 must be an integer of at least 2"),
        ({"max_samples": 2.5}, "max_samples=2.5 must be"),
    ],
)
def test_refuses(arguments, message):
    with pytest.raises(ValueError, match=message):
        n_clusters(separated(3).views, **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"max_samples": -1}, "max_samples=-1 must be an integer of at least 2"),
        ({"n_clusters": "auto"}, "n_clusters='auto' must be an integer of at least 1"),
        ({"grid": {"beta": 0.1}}, r"grid\['beta'\]=0.1 must be a list of values"),
        ({"grid": {"scale": "auto"}}, r"grid\['scale'\]='auto' must be a list of values"),
        ({"grid": {"beta": []}}, r"grid\['beta'\]=\[\] must be a list of values"),
    ],
)
def test_settings_that_cannot_be_tried_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        tune_without_labels(
            separated(3).views, **{"n_clusters": 3, "grid": {"beta": [0.1, 0.3]}, **arguments}
        )


@pytest.mark.slow
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


def test_the_null_has_the_shapes_and_the_covariance_of_the_views():
    rng = np.random.RandomState(0)
    X = rng.normal(size=(4000, 2)) @ [[2.0, 1.0], [0.0, 0.5]]
    views = [X.astype(np.float32), -X[:, :1].astype(np.float32)]
    drawn = null_like(views, np.random.default_rng(0))
    assert [Y.shape for Y in drawn] == [(4000, 2), (4000, 1)]
    covariances = [np.cov(np.hstack(some), rowvar=False) for some in (views, drawn)]
    np.testing.assert_allclose(*covariances, atol=0.3)


@given(seed=st.integers(0, 1000), levels=st.integers(2, 5))
@settings(max_examples=20, deadline=None)
def test_the_null_keeps_the_levels_of_categories(seed, levels):
    """Each sample has one level, each level as many samples, and other features do not matter."""
    rng = np.random.RandomState(seed)
    level = rng.randint(levels, size=300)
    X = np.column_stack([20.0 * level, np.eye(levels)[level]]).astype(np.float32)
    X -= X.mean(axis=0)
    (drawn,) = null_like([X], np.random.default_rng(seed), [np.arange(1, levels + 1)])
    rows = [set(map(tuple, Y[:, 1:].tolist())) for Y in (X, drawn)]
    assert rows[0] == rows[1]
    np.testing.assert_array_equal(np.sort(drawn[:, 1:], axis=0), np.sort(X[:, 1:], axis=0))
    assert abs(np.corrcoef(drawn[:, 0], drawn[:, 1])[0, 1]) < 0.4


def customers(groups):
    """Return a table of three groups, which differ in two numbers, a city and a membership."""
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(len(groups), 2)) + 3 * np.array([[0, 0], [1, 0], [0, 1]])[groups]

    def mostly(levels):
        own = rng.random(len(groups)) < 0.5
        return np.where(own, levels[:3][groups], rng.choice(levels, size=len(groups)))

    return pd.DataFrame(
        {
            "spent": numbers[:, 0],
            "visits": numbers[:, 1],
            "city": mostly(np.array(["Bergen", "Oslo", "Narvik", "Bodø", "Molde"])),
            "member": mostly(np.array(["no", "silver", "gold"])),
        }
    )


@pytest.mark.slow
def test_levels_of_categories_are_no_clusters():
    """Five cities and three memberships are 15 atoms, and three groups."""
    table = customers(np.arange(420) % 3)
    assert n_clusters(table, [2, 3, 4, 9, 12, 15, 17]).suggestion == 3


@pytest.mark.slow
def test_confidence_is_the_lead_over_the_instability():
    found = n_clusters(separated(4).views, [2, 3, 4, 5, 6, 8], n_runs=2)
    score = dict(zip(found.candidates, found.score, strict=True))
    i = found.candidates.index(4)
    lead = score[4] - max(score[c] for c in (2, 6, 8))
    unstable = (1 - found.stability[i]) / max(1 - found.chance[i], 0.05)
    odds = 2.5 * lead / max(unstable, 0.01)
    assert found.confidence == pytest.approx(odds / (1 + odds))


@pytest.mark.slow
def test_the_result_is_a_table():
    found = n_clusters(separated(4).views, [2, 3, 4, 6], n_runs=2)
    assert found._repr_html_().count("<tr>") == 5
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = found.to_frame()
    assert frame["n_clusters"].tolist() == [2, 3, 4, 6]
    assert frame["score"].tolist() == list(found.score)


@pytest.mark.slow
def test_runs_that_agree_beyond_chance_are_structure():
    """Blurred clusters hardly separate neighbours, but runs find them, unlike in the null."""
    data = make_multiview(500, n_clusters=10, noise=1.9, random_state=0)
    found = n_clusters(data.views, [5, 10], n_runs=3)
    assert not found.structure.found and found.has_structure
    assert "no cluster structure" not in found.sentence()


@pytest.mark.slow
def test_clusters_within_clusters_are_reached():
    """Runs agree on three groups and on their seven parts, and on no number between them."""
    rng = np.random.default_rng(0)
    part = rng.integers(7, size=700)
    group = np.array([0, 0, 1, 1, 2, 2, 2])[part]

    def view(d, between_groups, between_parts):
        X = rng.normal(0, between_groups, (3, d))[group] + rng.normal(size=(700, d))
        return X + rng.normal(0, between_parts, (7, d))[part]

    assert n_clusters([view(60, 2.5, 0.6), view(15, 1.5, 1.0)]).suggestion == 7


def test_numbers_that_share_anchors_and_those_between():
    assert list(bands([2, 3, 4, 5, 6, 8, 20])) == [[2, 3], [4, 5, 6], [8], [20]]
    assert spaced([2, 3, 4, 5, 6, 7, 8, 9]) == [2, 4, 8, 9]
    assert spaced([7]) == [7]
    assert finer_numbers([12, 14, 17, 20], 1) == [13, 15, 16]
