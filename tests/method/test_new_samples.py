"""The rule for new samples, alone and of joined runs, against full matrices."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

from omcal.method import new_samples
from omcal.method.new_samples import (
    ConsensusPredictor,
    GraphModel,
    Predictor,
    indicate,
    joined_graph,
)
from omcal.method.rows import Assignment
from omcal.method.scaling import Scaling
from omcal.method.updates import ConsensusGraph
from omcal.views.view import View, Views

N, M, C, K = 50, 9, 3, 4


def consensus(m, weights, seed):
    rng = np.random.default_rng(seed)
    G = np.linalg.qr(rng.normal(size=(m, C)))[0]
    return ConsensusGraph(np.array(weights), G, np.diag(rng.uniform(0.2, 0.9, size=m)), 0.4)


def rule_of(seed):
    rng = np.random.default_rng(seed)
    learned = GraphModel([Scaling(), Scaling()], [rng.normal(size=(M, d)) for d in (2, 5)], K)
    return Predictor(learned, consensus(M, (0.3, 0.7), seed))


@pytest.fixture
def views():
    rng = np.random.default_rng(0)
    return Views([View(name, rng.normal(size=(N, d))) for name, d in (("a", 2), ("b", 5))])


@pytest.fixture
def rule():
    return rule_of(1)


def fixed_point_tol(Z, A):
    """U of rows A by plain iteration of Eq. 13: U = s (A + γ F Gᵀ) T G with F = max(U, 0)."""
    F = np.zeros((len(A), Z.G.shape[1]))
    for _ in range(500):
        U = (A + Z.gamma * F @ Z.G.T) @ Z.T @ Z.G / (1 + Z.gamma)
        F = np.maximum(U, 0)
    return U


def test_rows_of_new_samples_are_those_that_the_f_step_settles_at(rule, views, monkeypatch):
    graphs = rule.learned.graphs(views)
    S = graphs.side_by_side().toarray().reshape(N, 2, M)
    A = np.einsum("v,nvm->nm", rule.consensus.alpha, S)
    expected = fixed_point_tol(rule.consensus, A)
    for size in (new_samples._SETTLED, 7):
        monkeypatch.setattr(new_samples, "_SETTLED", size)
        U, labels = indicate(rule.consensus, graphs)
        assert_allclose(U, expected, atol=1e-8)
        assert_array_equal(labels, expected.argmax(axis=1))


@pytest.mark.slow
def test_compiled_or_not_new_samples_get_the_same_rows(rule, views):
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    Z = rule.consensus
    uninformative = ConsensusGraph(Z.alpha, Z.G, np.diag(np.eye(M)[0]), Z.gamma)
    graphs = rule.learned.graphs(views)
    for consensus in (Z, uninformative):
        plain, compiled = (indicate(consensus, graphs, compiled=way) for way in (False, True))
        assert_allclose(compiled[0], plain[0], atol=1e-9)
        assert_array_equal(compiled[1], plain[1])


def test_where_the_rule_says_nothing_the_basis_decides(rule, views):
    Z = rule.consensus
    uninformative = ConsensusGraph(Z.alpha, Z.G, np.diag(np.eye(M)[0]), Z.gamma)
    graphs = rule.learned.graphs(views)
    S = graphs.side_by_side().toarray().reshape(N, 2, M)
    A = np.einsum("v,nvm->nm", Z.alpha, S)
    U, labels = indicate(uninformative, graphs)
    zero = A[:, 0] == 0
    assert zero.any() and not zero.all()
    assert_array_equal(U[zero], 0)
    assert_array_equal(labels[zero], (A @ Z.G)[zero].argmax(axis=1))
    assert_array_equal(labels[~zero], U[~zero].argmax(axis=1))


def test_labels_and_indicator_of_blocks(rule, views, monkeypatch):
    U, labels = indicate(rule.consensus, rule.learned.graphs(views))
    monkeypatch.setattr(new_samples, "BLOCK", 8)
    assert [len(part) for part, _ in rule.blocks(views)] == [8, 7, 7, 7, 7, 7, 7]
    assert_array_equal(rule.labels(views), labels)
    assert_allclose(rule.indicator(views), np.maximum(U, 0), atol=1e-12)
    assert rule.n_clusters == C


def test_the_graph_of_joined_runs():
    c = 100  # the clusters of three runs are more than a byte holds
    rng = np.random.default_rng(0)
    labels = rng.integers(c, size=(3, N)).astype(np.uint8)
    seconds = (labels + 1) % c
    share = rng.integers(128, 256, size=(3, N)).astype(np.uint8)
    runs = [Assignment(*parts) for parts in zip(labels, (0, 0, 0), seconds, share, strict=True)]
    graphs = joined_graph(runs, c)
    assert graphs.n_anchors == 300 and graphs.n_views == 1
    assert graphs.weights.dtype == np.float32 and graphs.indices.dtype == np.uint16
    expected = np.zeros((N, 3, c))
    for b in range(3):
        expected[np.arange(N), b, labels[b]] = share[b] / 255 / 3
        expected[np.arange(N), b, seconds[b]] = (255.0 - share[b]) / 255 / 3
    assert_allclose(graphs.side_by_side().toarray(), expected.reshape(N, 300), rtol=1e-6)


def test_joined_runs_decide_by_their_clusters(views, monkeypatch):
    runs = [rule_of(seed) for seed in range(3)]
    joined = ConsensusPredictor(runs, consensus(3 * C, (1.0,), seed=3))
    assert joined.n_clusters == C
    assert [run.n_undecided for run in joined.assignments(views)] == [0, 0, 0]
    A = np.zeros((N, 3, C))
    for b, run in enumerate(runs):
        F = run.indicator(views)
        order = np.argsort(-F, axis=1)
        first, second = (np.take_along_axis(F, order[:, [i]], axis=1)[:, 0] for i in (0, 1))
        known = first > 0
        part = np.where(known, first**2 / np.where(known, first**2 + second**2, 1), 1)
        A[np.arange(N), b, run.labels(views)] = part / 3
        A[np.arange(N), b, order[:, 1]] += (1 - part) / 3
    expected = fixed_point_tol(joined.consensus, A.reshape(N, 3 * C))
    for size in (new_samples.BLOCK, 8):
        monkeypatch.setattr(new_samples, "BLOCK", size)
        U = np.concatenate([part for part, _ in joined.blocks(views)])
        assert_allclose(U, expected, atol=3e-3)  # shares are kept in 255ths
        assert_allclose(joined.indicator(views), np.maximum(U, 0))
        top = np.sort(expected, axis=1)
        clear = top[:, -1] - top[:, -2] > 0.01
        assert clear.mean() > 0.7
        assert_array_equal(joined.labels(views)[clear], expected.argmax(axis=1)[clear])


def test_views_whose_anchors_are_one_point_are_silent():
    def anchors(*values):
        return np.array(values, dtype=float)[:, None] * [1.0, 0.0]

    given = [
        anchors(0, 0),
        anchors(3, 3),
        anchors(-3, -3),
        anchors(1, 1 + 5e-13),
        anchors(1, 1 + 2e-12),
        anchors(-5, -5 - 1e-11),
        anchors(0, 1e-300),
        anchors(2, 2, 2, 3),
        np.empty((2, 0)),
    ]
    found = GraphModel([Scaling()] * len(given), given, 1).uninformative
    assert_array_equal(found, [True, True, True, True, False, False, False, False, True])
