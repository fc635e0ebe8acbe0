"""Updates and streams on devices and over ranks: those of one process in its memory."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import rank_team
from omcal import OMCAL, Consensus
from omcal.datasets import make_multiview
from omcal.model.updating import graphs_by_device
from rank_team import cut
from torch_cases import DEVICES, cut_small, host_views, tensor_views, torch

pytestmark = pytest.mark.filterwarnings("ignore")
DATA = list(make_multiview(1600, n_clusters=4, noise=0.6, random_state=0).views.values())
FIRST = [view[:600] for view in DATA]
BATCHES = [[view[start : start + 200] for view in DATA] for start in range(600, 1600, 200)]


def tensors(arrays, device):
    return [torch.from_numpy(array.copy()).to(device) for array in arrays]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("fitted", [True, False])
def test_on_a_device(device, fitted):
    found, expected = OMCAL(4, random_state=0), OMCAL(4, random_state=0)
    if fitted:
        found.fit(tensors(FIRST, device)), expected.fit(FIRST)
        for part, other in zip(found._sums.parts, expected._sums.parts, strict=True):
            assert_allclose(part, other, atol=1e-6)
    for number, batch in enumerate(BATCHES):
        if number == 3:  # found in the graphs, and filled
            batch = [view.copy() for view in batch]
            batch[0][5, :2] = np.nan
        found.partial_fit(tensors(batch, device))
        assert_array_equal(found.labels_, expected.partial_fit(batch).labels_)
    assert_allclose(found.basis_, expected.basis_, atol=1e-6)
    assert found._sums.n == expected._sums.n == (1600 if fitted else 1000)


@pytest.mark.parametrize("device", DEVICES)
def test_joined_runs_on_a_device(device):
    models = [Consensus(OMCAL(4), n_runs=3, random_state=0) for _ in range(2)]
    found, expected = models[0].fit(tensors(FIRST, device)), models[1].fit(FIRST)
    for batch in BATCHES[:2]:
        found.partial_fit(tensors(batch, device))
        assert_array_equal(found.labels_, expected.partial_fit(batch).labels_)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("joined", [False, True])
def test_graphs_that_a_device_builds(device, joined, monkeypatch):
    cut_small(monkeypatch)
    model = OMCAL(4, random_state=0)
    model = (Consensus(model, n_runs=3, random_state=0) if joined else model).fit(FIRST)
    batch = [view.copy() for view in BATCHES[0]]
    if not joined:
        batch[0][:20] = np.nan
    found = graphs_by_device(model._rule, tensor_views(batch, device), "cpu")
    expected = model._rule.graphs(host_views(batch))
    assert_array_equal(found.indices, expected.indices)
    assert_allclose(found.weights, expected.weights, atol=1e-6)
    assert_array_equal(found.present, expected.present)


def over_ranks(team, parameters, first, batches, sizes, **more):
    """What three ranks find, and what one process with all rows does."""
    parts = [cut(batch, sizes) for batch in batches]
    own = [None] * 3 if first is None else cut(first, [200, 0, 400])
    given = [
        (parameters, own[rank], [part[rank] for part in parts], *more.values()) for rank in range(3)
    ]
    found = team.run(rank_team.stream, given)
    for one in found:
        assert not hasattr(one, "error"), one.message
    return found, rank_team.stream(None, parameters, first, batches, *more.values())


def assert_shared(found, expected):
    assert len({one.G.tobytes() for one in found}) == 1
    for number, labels in enumerate(expected.labels):
        assert_array_equal(np.concatenate([one.labels[number] for one in found]), labels)
    assert_allclose(found[0].G, expected.G, atol=1e-6)
    assert [one.n for one in found] == [expected.n] * 3
    for part, other in zip(found[1].parts, expected.parts, strict=True):
        assert_allclose(part, other, atol=1e-5)


@pytest.mark.process
@pytest.mark.parametrize("first", [FIRST, None])
@pytest.mark.parametrize("half_life", [None, 500.0])
def test_over_ranks(team, first, half_life):
    parameters = {"n_clusters": 4, "random_state": 0, "half_life": half_life}
    assert_shared(*over_ranks(team, parameters, first, BATCHES, [120, 0, 80]))


@pytest.mark.process
def test_joined_runs_over_ranks(team):
    found, expected = over_ranks(
        team, {"n_clusters": 4}, FIRST, BATCHES[:2], [120, 79, 1], n_runs=3
    )
    assert_shared(found, expected)
    for table, other in zip(found[0].tables, expected.tables, strict=True):
        assert_array_equal(table, other)


@pytest.mark.process
def test_a_random_seed_is_that_of_the_leader(team):
    found, _ = over_ranks(team, {"n_clusters": 4}, None, BATCHES, [120, 0, 80])
    assert len({one.G.tobytes() for one in found}) == 1


@pytest.mark.process
def test_a_cluster_that_is_added_is_added_on_all_ranks(team):
    data = make_multiview(2000, n_clusters=5, noise=0.6, random_state=0)
    old, new = np.flatnonzero(data.labels < 4), np.flatnonzero(data.labels == 4)
    weeks = [old[:200], old[200:400], old[400:600]]
    for week in range(3):
        some = old[600 + 240 * week : 840 + 240 * week], new[60 * week : 60 * week + 60]
        weeks.append(np.random.default_rng(week).permutation(np.concatenate(some)))
    stream = [[view[rows] for view in data.views.values()] for rows in weeks]
    parameters = {"n_clusters": 4, "random_state": 0, "grow": True, "half_life": 400.0}
    parts = [cut(X, [len(X[0]) - 80, 0, 80]) for X in stream]
    given = [(parameters, None, [part[rank] for part in parts]) for rank in range(3)]
    expected = rank_team.stream(None, parameters, None, stream)
    assert expected.n_clusters == 5
    found = team.run(rank_team.stream, given)
    assert [one.n_clusters for one in found] == [5, 5, 5]
    assert_shared(found, expected)


@pytest.mark.process
def test_ranks_that_differ_are_refused(team):
    parts = cut(BATCHES[0], [100, 100])
    given = [
        ({"n_clusters": 4, "random_state": 0, "half_life": 100.0 + rank}, None, [X, X])
        for rank, X in enumerate(parts)
    ]
    for one in team.run(rank_team.stream, given):
        assert one.error == "ValueError" and "half_life" in one.message


@pytest.mark.process
def test_files_are_refused_with_a_group(team, tmp_path):
    for number, view in enumerate(FIRST):
        np.save(tmp_path / f"{number}.npy", view)
    stored = [str(tmp_path / f"{number}.npy") for number in range(len(FIRST))]
    for one in team.run(rank_team.stream_of_files, [(stored,), (stored,)]):
        assert one.error == "ValueError" and "batches in memory" in one.message
