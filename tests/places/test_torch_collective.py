"""Fits that several processes share, over loopback: the same as one process with all rows."""

import numpy as np
import pytest
from scipy import sparse

import rank_team
from large_fits import overlapping
from omcal import OMCAL, Consensus
from rank_team import SIZES, cut

pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
pytestmark = pytest.mark.process

N = 6000
VIEWS = overlapping(N)
UNEQUAL = {1: [N], 2: [0, N], 3: [1, N - 501, 500], 7: [0, 1, 1000, 0, N - 1311, 310, 0]}


def even(n, ranks):
    return [len(part) for part in np.array_split(np.arange(n), ranks)]


def assert_shared(found, expected, rtol=1e-9):
    """Each rank has the model of one process, bit by bit that of the others, and its labels.

    Sums over ranks are rounded otherwise, and steps ahead of the iterations amplify it.
    """
    for one in found:
        assert not hasattr(one, "error"), one.message
        np.testing.assert_array_equal(one.objective_, found[0].objective_)
        np.testing.assert_array_equal(one.view_weights_, found[0].view_weights_)
        assert (one.n_iter_, one.converged_) == (expected.n_iter_, expected.converged_)
        assert one.n_undecided_ == expected.n_undecided_
    labels = np.concatenate([one.labels_ for one in found])
    np.testing.assert_array_equal(labels, expected.labels_)
    np.testing.assert_allclose(found[0].objective_, expected.objective_, rtol=rtol)
    np.testing.assert_allclose(found[0].view_weights_, expected.view_weights_, atol=rtol)


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("shares", ["even", "unequal"])
def test_from_the_same_anchors_and_start(team, ranks, shares):
    sizes = even(N, ranks) if shares == "even" else UNEQUAL[ranks]
    first = OMCAL(4, random_state=0).fit(VIEWS)
    given = {"n_clusters": 4, "anchors": first.anchors_, "init": np.eye(20, 4)}
    expected = OMCAL(**given).fit(VIEWS)
    found = team.run(rank_team.fit, [(given, X) for X in cut(VIEWS, sizes)])
    assert_shared(found, expected)
    np.testing.assert_array_equal([len(one.labels_) for one in found], sizes)


def test_noise_is_said_to_have_no_structure(team):
    rng = np.random.RandomState(0)
    noise = [rng.normal(size=(600, 8)), rng.normal(size=(600, 5))]
    parts = cut(noise, [100, 0, 500])
    found = team.run(
        rank_team.structure_of, [({"n_clusters": 4, "random_state": 0}, X) for X in parts]
    )
    assert found[0] == found[1] == found[2]
    assert not found[0][0].found and "no cluster structure found" in found[0][1]


def test_a_group_by_its_name(team):
    given = {"n_clusters": 4, "random_state": 0}
    found = team.run(rank_team.fit_in, [(given, X) for X in cut(VIEWS, UNEQUAL[3])])
    assert_shared(found, OMCAL(**given).fit(VIEWS))


@pytest.mark.parametrize("ranks", SIZES)
@pytest.mark.parametrize("n", [N, 300])
def test_from_the_same_seed(team, ranks, n):
    """The sample that the anchors are chosen from is that of one process, too."""
    views = [view[:n] for view in VIEWS]
    given = {"n_clusters": 4, "random_state": 3, "n_init": 2}
    found = team.run(rank_team.fit, [(given, X) for X in cut(views, even(n, ranks))])
    assert_shared(found, OMCAL(**given).fit(views))


@pytest.mark.filterwarnings("ignore")  # of settings that are not made for these views
@pytest.mark.parametrize(
    "changes",
    [
        *({"weighting": name} for name in ("adaptive", "agreement", "distinct", "uniform")),
        {"weighting": [0.3, 0.7]},
        *({"scale": name} for name in ("log", "unit", "view", "feature", "sample", None)),
        {"scale": {"view1": "tfidf"}},
        {"anchors": "random"},
        {"init": "random", "accelerate": False, "max_iter": 15},
        {"n_neighbors": 3, "n_anchors": 30},
    ],
    ids=str,
)
def test_every_setting(team, changes):
    views = [np.abs(view) for view in VIEWS]
    given = {"n_clusters": 4, "random_state": 0, **changes}
    found = team.run(rank_team.fit, [(given, X) for X in cut(views, UNEQUAL[3])])
    assert_shared(found, OMCAL(**given).fit(views), rtol=1e-8)


@pytest.mark.parametrize("ranks", [2, 7])
def test_samples_that_are_absent_from_views(team, ranks):
    """Also from all rows of a rank, and told by a mask."""
    rng = np.random.default_rng(0)
    views = [view.copy() for view in VIEWS]
    views[0][rng.random(N) < 0.2] = np.nan
    views[0][:900] = np.nan
    here = rng.random(N) < 0.9
    here[np.isnan(views[0][:, 0])] = True
    given = {"n_clusters": 4, "random_state": 0}
    edges = np.cumsum(even(N, ranks))[:-1]
    masks = [[None, mask] for mask in np.split(here, edges)]
    shares = [(given, X, mask) for X, mask in zip(cut(views, even(N, ranks)), masks, strict=True)]
    assert_shared(team.run(rank_team.fit, shares), OMCAL(**given).fit(views, present=[None, here]))


@pytest.mark.filterwarnings("ignore:view 'view2' shows other groups")
def test_sparse_views(team):
    rng = np.random.default_rng(0)
    words = rng.poisson(0.3 + 2 * (rng.random((4, 150)) < 0.1)[rng.integers(4, size=N)])
    views = [sparse.csr_array(words.astype(np.float32)), VIEWS[0]]
    given = {"n_clusters": 4, "random_state": 0}
    empty_dense = [[np.empty((0, 150)), np.empty((0, 6))]]
    edges = [(0, 0), (0, N)]
    shares = empty_dense + [[view[a:b] for view in views] for a, b in edges]
    expected = OMCAL(**given).fit(views)
    assert str(expected.view_scales_[0]).startswith("tfidf")
    assert_shared(team.run(rank_team.fit, [(given, X) for X in shares]), expected)


def test_every_rank_has_its_rows_where_it_wants(team, tmp_path):
    homes = ["memory", "files", "scratch files", "tensors", "memory", "files", "tensors"]
    sizes = [1000, 500, 1500, 900, 0, 100, 2000]
    given = {"n_clusters": 4, "random_state": 0, "n_anchors": 12}
    shares = []
    for home, X in zip(homes, cut(VIEWS, sizes), strict=True):
        folder = tmp_path / str(len(shares))
        folder.mkdir()
        shares.append((given, X, home, folder))
    # Tensors in float32 are rounded at other places than arrays.
    found = team.run(rank_team.fit_at_home, shares)
    assert_shared(found, OMCAL(**given).fit(VIEWS), rtol=1e-8)


@pytest.mark.parametrize(("n", "widths", "apart"), [(900, (6, 4), 1.5), (6000, (60, 40), 0.25)])
def test_joined_runs(team, tmp_path, n, widths, apart):
    """Written by each rank and read again, they are the same, certainties included.

    With many samples and features the runs share a span.
    """
    views = overlapping(n, widths, seed=2, apart=apart)
    given = {"n_clusters": 4}
    sizes = [0, 200, n - 200]
    expected = Consensus(OMCAL(**given), n_runs=4, random_state=0).fit(views)
    assert expected.stability_ < 1
    shares = [(given, X, tmp_path / str(r)) for r, X in enumerate(cut(views, sizes))]
    found = team.run(rank_team.fit_consensus, shares)
    for one in found:
        assert one.joined["stability_"] == pytest.approx(expected.stability_)
        for name, value in one.joined.items():
            np.testing.assert_array_equal(one.loaded[name], value)
    parts = [one.joined["certainty_"] for one in found]
    np.testing.assert_array_equal(np.concatenate(parts), expected.certainty_)
    predicted = np.concatenate([one.predicted for one in found])
    np.testing.assert_array_equal(predicted, expected.predict(views))
    assert_shared(found, expected)


def test_without_a_seed_all_ranks_have_the_same_model(team):
    given = {"n_clusters": 4, "init": "random"}
    found = team.run(rank_team.fit, [(given, X) for X in cut(VIEWS, UNEQUAL[3])])
    for one in found[1:]:
        np.testing.assert_array_equal(one.objective_, found[0].objective_)
        for ours, theirs in zip(one.anchors, found[0].anchors, strict=True):
            np.testing.assert_array_equal(ours, theirs)
    other = team.run(rank_team.fit, [(given, X) for X in cut(VIEWS, UNEQUAL[3])])
    assert (other[0].anchors[0] != found[0].anchors[0]).any()


def test_predict_asks_nobody(team):
    """One rank predicts, the others do not take part."""
    given = {"n_clusters": 4, "random_state": 0}
    shares = [(given, X, rank == 1) for rank, X in enumerate(cut(VIEWS, even(N, 3)))]
    expected = OMCAL(**given).fit(VIEWS).predict(VIEWS)[N // 3 : 2 * N // 3]
    np.testing.assert_array_equal(team.run(rank_team.fit_then_predict, shares)[1], expected)


def test_one_rank_can_stop_all(team):
    """Its wish goes along with the next sweep: all end after the same iteration."""
    given = {"n_clusters": 4, "random_state": 0, "tol": 0, "max_iter": 30, "n_init": 2}
    wishes = [None, 4, None]
    shares = [(given, X, wish) for X, wish in zip(cut(VIEWS, UNEQUAL[3]), wishes, strict=True)]
    for iterations, n_iter, _ in team.run(rank_team.fit_and_stop, shares):
        assert iterations == [1, 2, 3, 4, 5] and n_iter == 5


def test_a_checkpoint_is_written_by_one_and_gone_on_from_by_any(team, tmp_path):
    """Other ranks with other shares come to the same result."""
    path = tmp_path / "fit.checkpoint"
    given = {"n_clusters": 4, "random_state": 0, "tol": 0, "max_iter": 60}
    given |= {"checkpoint": path, "init": "random"}
    shares = [(given, X, 43) for X in cut(VIEWS, UNEQUAL[3])]
    ended = team.run(rank_team.fit_until, shares)
    assert all("rank 0: the end" in said for said, _ in ended)
    assert [counts["save"] for _, counts in ended] == [8, 0, 0]
    assert path.exists()
    shares = [(given, X, None) for X in cut(VIEWS, UNEQUAL[7])]
    resumed = team.run(rank_team.fit_until, shares)
    assert not path.exists()
    # Forty sweeps were known; the last of them are repeated for F, and twenty are new.
    assert 20 < max(counts["sweep"] for _, counts in resumed) < 45
    with pytest.warns(match="all max_iter=60 iterations"):
        expected = OMCAL(**given | {"checkpoint": None}).fit(VIEWS)
    assert_shared([one for one, _ in resumed], expected)


@pytest.mark.filterwarnings("ignore:view '.*' lacks")
@pytest.mark.parametrize("sizes", [[3000, 3000], [0, N]])
def test_missing_cells_on_one_rank_alone(team, sizes):
    """All ranks fill with the means over all rows, also where one has no missing cell."""
    holed = [view.copy() for view in VIEWS]
    holed[0][3500::7, 2] = np.nan
    given = {"n_clusters": 4, "random_state": 0}
    found = team.run(rank_team.fit, [(given, X) for X in cut(holed, sizes)])
    assert_shared(found, OMCAL(**given).fit(holed))
    assert any("lacks 358 of its values" in doubt for doubt in found[1].doubts_)


@pytest.mark.filterwarnings("ignore:view '.*' lacks")
@pytest.mark.filterwarnings("ignore:missing values depend on the clusters")
def test_cells_that_are_missing_with_the_clusters_are_told(team):
    """The clusters of a rank by itself need not show it: each has some of the samples."""
    given = {"n_clusters": 4, "random_state": 0}
    labels = OMCAL(**given).fit(VIEWS).labels_
    holed = [view.copy() for view in VIEWS]
    holed[0][(labels == 1) & (np.random.default_rng(0).random(N) < 0.7), 2] = np.nan
    expected = [str(doubt) for doubt in OMCAL(**given).fit(holed).doubts_]
    assert any("depend on the clusters: '2'" in doubt for doubt in expected)
    for one in team.run(rank_team.fit, [(given, X) for X in cut(holed, [100, 0, N - 100])]):
        assert one.doubts_ == expected
