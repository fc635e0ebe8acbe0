"""What goes wrong on one rank of a group: all ranks say so in one line, and none waits on."""

import numpy as np
import pytest

import rank_team
from large_fits import overlapping
from omcal import OMCAL, Consensus
from rank_team import Team, cut

pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
pytestmark = pytest.mark.process

N = 900
VIEWS = dict(zip("ab", overlapping(N, dtype=np.float64), strict=True))
GIVEN = {"n_clusters": 4, "random_state": 0}
SECONDS = 8  # the time-out of groups that lose someone


def shares(sizes=(300, 200, 400)):
    parts = cut(list(VIEWS.values()), sizes)
    return [
        (dict(GIVEN), {name: view.copy() for name, view in zip("ab", part, strict=True)})
        for part in parts
    ]


def said(team, given, work=rank_team.fit):
    """The one thing that all ranks say, and the kind of error; they can fit again afterwards."""
    answers = team.run(work, given)
    assert {answer.error for answer in answers} == {answers[0].error}
    assert {answer.message for answer in answers} == {answers[0].message}
    assert "\n" not in answers[0].message
    again = team.run(rank_team.fit, shares())
    assert not any(hasattr(answer, "error") for answer in again)
    return answers[0].error, answers[0].message


@pytest.mark.parametrize(
    ("name", "value"),
    [("n_clusters", 3), ("beta", 0.2), ("scale", {"a": "log"}), ("max_iter", 7), ("n_anchors", 9)],
)
def test_other_parameters(team, name, value):
    given = shares()
    given[2][0][name] = value
    kind, message = said(team, given)
    assert kind == "ValueError"
    assert message.startswith(f"the ranks of the group differ in {name} (rank 0: ")
    assert "; rank 2: " in message


def test_other_arrays_as_parameters(team):
    given = shares()
    anchors = OMCAL(**GIVEN).fit(VIEWS).anchors_
    for rank, (parameters, _) in enumerate(given):
        parameters["anchors"] = [anchors[0] + (rank == 1) * 1e-9, anchors[1]]
    assert "differ in anchors (rank 0: array (20, 6)" in said(team, given)[1]


def test_other_views_and_widths(team):
    given = shares()
    given[1][1]["c"] = given[1][1].pop("b")
    assert "differ in the views (rank 0: 'a', 'b'; rank 1: 'a', 'c')" in said(team, given)[1]
    given = shares()
    given[1][1]["b"] = given[1][1]["b"][:, :3]
    assert "the number of features of view 'b' (rank 0: 4; rank 1: 3)" in said(team, given)[1]
    given = shares()
    given[1][1]["b"] = given[1][1]["b"].astype(np.float32)
    assert "the type of view 'b' (rank 0: float64; rank 1: float32)" in said(team, given)[1]


def test_columns_in_another_order(team):
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    given = [
        (parameters, pd.DataFrame(X["a"], columns=list("uvwxyz"))) for parameters, X in shares()
    ]
    given[2] = (given[2][0], given[2][1][list("vuwxyz")])
    assert "the columns of X (rank 0: u, v, w, x, y, z; rank 2: v, u, w" in said(team, given)[1]


def test_other_versions(team):
    given = [(*share, "0.0.1" if rank == 1 else None) for rank, share in enumerate(shares())]
    _, message = said(team, given, rank_team.fit_with_version)
    assert message.startswith("the ranks of the group differ in the version of numpy (rank 0: ")
    assert "; rank 1: 0.0.1)" in message


@pytest.mark.parametrize("home", ["memory", "files", "tensors"])
def test_infinity_beside_nan_in_a_share(team, home, tmp_path):
    """Rank, view and how many there are, wherever the rows are."""
    given = shares()
    X = given[1][1]
    X["b"][[0, 7, 150], [1, 0, 2]] = np.nan
    X["b"][5, 0] = np.inf
    homes = []
    for rank, (parameters, X) in enumerate(given):
        folder = tmp_path / str(rank)
        folder.mkdir()
        homes.append((parameters, list(X.values()), home if rank == 1 else "memory", folder))
    kind, message = said(team, homes, rank_team.fit_at_home)
    assert kind == "ValueError"
    assert message.startswith("rank 1: view 'view2' contains 3 NaN and 1 infinity (inf) values")


def test_what_is_wrong_with_one_rank_before_they_meet(team):
    given = shares()
    given[0][0]["n_clusters"] = -1
    kind, message = said(team, given)
    assert kind == "ValueError" and message.startswith("rank 0: The 'n_clusters' parameter")
    given = shares()
    given[2][1]["a"] = given[2][1]["a"][:-1]
    assert "rank 2: the views have different numbers of samples" in said(team, given)[1]
    given = shares()
    given[1][0]["memory_limit"] = "nonsense"
    assert "rank 1: memory_limit: " in said(team, given)[1]
    given = shares()
    given[1][0]["device"] = "cuda"
    given[1][0]["memory_limit"] = "1GB"
    assert "rank 1: memory_limit cannot be combined with device='cuda'" in said(team, given)[1]


def test_too_few_samples_in_all(team):
    empty = [(dict(GIVEN), {name: view[:0] for name, view in VIEWS.items()})] * 3
    assert "Found 0 sample(s)" in said(team, empty)[1]


def test_anchors_from_all_rows_are_refused(team):
    given = shares()
    for parameters, _ in given:
        parameters["anchors"] = "kmeans-full"
    assert "would take all rows to one rank; use anchors='kmeans'" in said(team, given)[1]


@pytest.mark.parametrize("step", ["gram", "sweep", "assign", "build"])
def test_a_failure_on_the_way(team, step):
    given = [(*share, step if rank == 2 else None) for rank, share in enumerate(shares())]
    kind, message = said(team, given, rank_team.fit_failing)
    assert (kind, message) == ("OSError", "rank 2: no space left on the device")


def test_ranks_that_come_to_other_numbers_stop(team):
    """As on processors that round differently; nothing goes on from sums that do not belong."""
    given = [(*share, rank == 1) for rank, share in enumerate(shares())]
    answers = team.run(rank_team.fit_rounding_differently, given)
    assert {answer.error for answer in answers} == {"RuntimeError"}
    assert all("came to different numbers" in answer.message for answer in answers)


@pytest.fixture
def alone(monkeypatch):
    """A process that belongs to no group, whatever other tests have left."""
    import torch.distributed as dist

    monkeypatch.setattr(dist, "is_initialized", lambda: False)


@pytest.mark.usefixtures("alone")
def test_joined_runs_at_once_are_refused():
    model = Consensus(OMCAL(4, group="world"), n_jobs=2)
    with pytest.raises(ValueError, match=r"n_jobs=2 cannot be combined with group"):
        model.fit(VIEWS)


@pytest.mark.usefixtures("alone")
def test_a_process_without_a_group():
    with pytest.raises(ValueError, match=r"group='world': this process belongs to no group; start"):
        OMCAL(4, group="world").fit(VIEWS)


def test_a_group_that_nobody_knows(team):
    answers = team.run(rank_team.fit_in, [(*share, "nonsense") for share in shares()])
    assert all("group='nonsense' is not known here; give 'world'" in a.message for a in answers)


@pytest.mark.long  # they wait for the time-out
@pytest.mark.parametrize("how", ["killed", "silent"])
def test_a_rank_that_is_lost(how):
    """Dead, or stopped for longer than the time-out: the others end in time, with one line."""
    team = Team(3, seconds=SECONDS)
    try:
        team.run(rank_team.fit, shares())  # everything is loaded
        hows = [None, how, None]
        given = [(*share, one, 2.5 * SECONDS) for share, one in zip(shares(), hows, strict=True)]
        answers = team.run(rank_team.fit_and_vanish, given)
        for rank in (0, 2):
            assert answers[rank].seconds < 2 * SECONDS
            assert answers[rank].error == "ConnectionError"
            assert answers[rank].message.startswith(f"rank {rank} of 3 has lost the other ranks: ")
            assert "\n" not in answers[rank].message
    finally:
        team.close()
