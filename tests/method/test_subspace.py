"""The joint problem in the directions that matter, against the whole one."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from omcal import OMCAL, Consensus
from omcal.datasets import make_multiview
from omcal.method import subspace
from omcal.method.new_samples import joined_graph
from omcal.method.rows import Assignment
from omcal.method.solver import Problem, solve
from omcal.method.starts import spectral_bases
from omcal.method.subspace import ProjectedRows, subspace_pays
from omcal.places.memory import MemoryRows


def runs_of(rng, n, c, n_runs, wrong):
    """Runs that agree but for some samples, with clusters in another order each."""
    truth = rng.integers(c, size=n)
    truth[:c] = np.arange(c)
    runs = []
    for _ in range(n_runs):
        labels = np.where(rng.random(n) < wrong, rng.integers(c, size=n), truth)
        order = rng.permutation(c)
        other = (labels + 1 + rng.integers(max(c - 1, 1), size=n)) % c
        share = rng.integers(150, 256, size=n).astype(np.uint8)
        runs.append(Assignment(order[labels], 0, order[other], share))
    return runs


@pytest.mark.slow
@settings(max_examples=25, deadline=None)
@given(
    st.integers(2, 6),
    st.integers(2, 6),
    st.sampled_from([0.0, 0.1, 0.3]),
    st.sampled_from([0.05, 0.3, 1.0]),
    st.booleans(),
    st.integers(0, 2**32 - 1),
)
def test_solution_labels_and_objective_are_those_of_the_whole_problem(
    c, n_runs, wrong, beta, fast, seed
):
    rng = np.random.default_rng(seed)
    graphs = joined_graph(runs_of(rng, 60, c, n_runs, wrong), c)
    graphs = type(graphs)(graphs.indices, graphs.weights.astype(np.float64), graphs.n_anchors)
    problem = Problem(beta, 0.1, "fixed", np.ones(1), 15, 0.0, fast)
    whole = MemoryRows(graphs, c)
    StS = whole.gram()
    expected = solve(whole, StS, spectral_bases(StS[0], c)[0], problem)
    rows = MemoryRows(graphs, c)
    inside = ProjectedRows(rows, StS[0, 0], problem, c)
    found = inside.lifted(solve(inside, inside.gram(), inside.start, problem))
    assert found.consensus.sound
    assert_allclose(found.history, expected.history, rtol=1e-4)
    assert found.consensus.G.shape == expected.consensus.G.shape
    Z = found.consensus
    labels = labels_by_all_anchors(rows, Z)  # before the step below, which writes the next F
    step = inside.assign(Z.alpha, inside.W.T @ Z.f_step()[0], Z.f_step()[1], inside.W.T @ Z.G)
    assert_array_equal(step.labels, labels)


@pytest.mark.parametrize("runner_up", [False, True])
def test_rows_in_a_subspace_pass_on_what_is_asked(runner_up):
    rng = np.random.default_rng(0)
    graphs = joined_graph(runs_of(rng, 50, 4, 3, 0.2), 4)
    whole = MemoryRows(graphs, 4)
    problem = Problem(0.5, 0.1, "fixed", np.ones(1), 9, 0.0)
    rows = ProjectedRows(whole, whole.gram()[0, 0], problem, 4)
    W, G = rows.W, rows.start
    P, R = rng.normal(size=(W.shape[1], 4)), rng.normal(size=(4, 4))
    sums = rows.sweep(np.ones(1), P, R)
    again = MemoryRows(graphs, 4)
    expected = again.sweep(np.ones(1), W @ P, R)
    assert_allclose(sums.StF[0], W.T @ expected.StF[0], atol=1e-9)
    assert_allclose(sums.FtF, expected.FtF)
    found = rows.assign(np.ones(1), P, R, G, runner_up=runner_up)
    expected = again.assign(np.ones(1), W @ P, R, W @ G, runner_up=runner_up)
    assert_array_equal(found.labels, expected.labels)
    assert (found.second is not None) == runner_up
    if runner_up:
        assert_array_equal(found.second, expected.second)
        assert_array_equal(found.share, expected.share)


def labels_by_all_anchors(rows, Z):
    """Labels of the same F by all anchors."""
    again = MemoryRows(rows.graphs, rows.F.shape[1], F=rows.F.copy())
    return again.assign(Z.alpha, *Z.f_step(), Z.G).labels


def test_directions_are_left_out_only_below_the_threshold(monkeypatch):
    rng = np.random.default_rng(0)
    graphs = joined_graph(runs_of(rng, 200, 5, 6, 0.1), 5)
    rows = MemoryRows(graphs, 5)
    AtA = rows.gram()[0, 0]
    problem = Problem(0.5, 0.1, "fixed", np.ones(1), 9, 0.0)
    inside = ProjectedRows(rows, AtA, problem, 5)
    assert 5 <= inside.W.shape[1] < len(AtA)
    left_out = np.linalg.eigvalsh(AtA)[: len(AtA) - inside.W.shape[1]]
    limit = 0.25 * problem.tau * (1 + problem.gamma)
    assert np.sqrt(np.maximum(left_out, 0)).max() <= limit
    assert_allclose(inside.W.T @ inside.W, np.eye(inside.W.shape[1]), atol=1e-12)
    monkeypatch.setattr(subspace, "_NEGLIGIBLE", 1e9)  # at least as many as clusters stay
    assert ProjectedRows(rows, AtA, problem, 5).W.shape[1] == 5


def test_it_is_for_many_anchors_and_a_nuclear_norm():
    problem = Problem(0.3, 0.1, "fixed", np.ones(1), 9, 0.0)
    assert subspace_pays(301, problem)
    assert not subspace_pays(300, problem)
    assert not subspace_pays(1000, Problem(0.0, 0.1, "fixed", np.ones(1), 9, 0.0))


@pytest.mark.slow
@pytest.mark.parametrize("noise", [0.6, 1.5])
def test_joined_runs_are_the_same(monkeypatch, noise):
    views = make_multiview(240, n_clusters=6, noise=noise, random_state=0).views
    expected = Consensus(OMCAL(6), n_runs=6, random_state=0).fit(views)
    monkeypatch.setattr(subspace, "_MANY_ANCHORS", 10)
    found = Consensus(OMCAL(6), n_runs=6, random_state=0).fit(views)
    assert (found.labels_ == expected.labels_).mean() > 0.99
    assert_allclose(found.objective_[-1], expected.objective_[-1], rtol=1e-3)
    assert (found.predict(views) == found.labels_).mean() > 0.99
