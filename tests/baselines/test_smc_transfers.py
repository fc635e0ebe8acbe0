"""SMC-AGC and SMC-OCL: the graph and the loop against the oracle, and what they refuse."""

import numpy as np
import pytest
from common_cases import each, on_axes, seeded
from scipy.linalg import polar
from scipy.spatial.distance import cdist
from sklearn.exceptions import ConvergenceWarning

import reference
from omcal.baselines._linalg import scaled
from omcal.baselines.smc import (
    SMCAGC,
    SMCOCL,
    anchor_codes,
    consensus,
    dense_anchor_graph,
    filtered_views,
    rows_with_sum_one,
)
from omcal.method.solver import Problem


@pytest.mark.parametrize("k", [1, 5, 11])
def test_graph_equals_the_oracle(k):
    rng = np.random.RandomState(0)
    X = rng.randn(40, 6)
    S, _ = dense_anchor_graph(X, X[:12], k)
    np.testing.assert_allclose(S, reference.anchor_graph(X, X[:12], k), atol=1e-12)
    assert (np.count_nonzero(S, axis=1) == k).all()
    assert (S[np.arange(12), np.arange(12)] == S[:12].max(axis=1)).all()


def test_graph_of_equal_and_of_few_anchors():
    X = np.repeat(np.random.RandomState(0).randn(3, 4), 5, axis=0)
    tied = dense_anchor_graph(X, X[:5], 2)[0]
    np.testing.assert_allclose(tied, np.repeat([[0.5, 0.5, 0, 0, 0]], 15, axis=0))
    np.testing.assert_array_equal(dense_anchor_graph(X, X[:1], 5)[0], np.ones((15, 1)))
    np.testing.assert_array_equal(
        dense_anchor_graph(X, X[[0, 5]], 5)[0], dense_anchor_graph(X, X[[0, 5]], 1)[0]
    )


def test_graph_is_the_minimum_of_its_objective():
    rng = np.random.RandomState(1)
    X, k = rng.randn(30, 5), 4
    S, cost = dense_anchor_graph(X, X[:9], k)
    d = cdist(X, X[:9], "sqeuclidean")
    near = np.sort(d, axis=1)
    ridge = (k * near[:, k] - near[:, :k].sum(axis=1)) / 2

    def costs(S):
        return (d * S).sum(axis=1) + ridge * np.square(S).sum(axis=1)

    np.testing.assert_allclose(cost, costs(S).sum())
    for _ in range(20):
        other = 0.99 * S + 0.01 * rng.dirichlet(np.ones(9), size=30)
        assert (costs(other) > costs(S)).all()


@pytest.mark.parametrize("normalized", [True, False])
@pytest.mark.parametrize("n_iter", [1, 7, 30])
def test_consensus_equals_the_oracle(normalized, n_iter):
    rng = np.random.RandomState(0)
    y = np.repeat(np.arange(3), 25)
    X = [rng.randn(75, width) + 3 * np.eye(3, width)[y] for width in (6, 4)]
    anchors = rng.choice(75, 9, replace=False)
    codes = np.stack([anchor_codes(x, x[anchors], 1.0) for x in X], axis=1)
    if normalized:
        codes = rows_with_sum_one(codes)
    G = polar(np.eye(3)[y[anchors]] + 0.5 * rng.randn(9, 3))[0]
    problem = Problem(0.3, 0.1, "adaptive", np.full(2, 0.5), n_iter, 0.0)
    solution, labels = consensus(codes, G, problem)
    expected = reference.algorithm1(codes.transpose(1, 0, 2), G, 0.3, 0.1, n_iter)
    assert expected.conditioning > 1e-6
    np.testing.assert_allclose(solution.history, expected.history, rtol=1e-9)
    np.testing.assert_allclose(solution.alpha, expected.alpha, atol=1e-7)
    np.testing.assert_allclose(solution.consensus.G, expected.G, atol=1e-7)
    np.testing.assert_array_equal(labels, expected.unclipped.argmax(axis=1))


def test_codes_of_zeros_stay_zeros():
    codes = np.array([[[1.0, 3.0], [0.0, 0.0]]])
    np.testing.assert_array_equal(rows_with_sum_one(codes), [[[0.25, 0.75], [0.0, 0.0]]])


@pytest.fixture(scope="module")
def unclear():
    return on_axes(spread=0.2)[0]


def test_estimators_run_the_steps(unclear):
    X, _ = filtered_views([scaled(x, "sample") for x in unclear], 5, 0.8, 1)
    agc = seeded(SMCAGC(3), n_anchors=8).fit(unclear)
    costs = [dense_anchor_graph(x, x[agc.anchor_indices_], 5)[1] for x in X]
    np.testing.assert_allclose(agc.objective_, [sum(costs)])
    ocl = seeded(SMCOCL(3), n_anchors=8, alpha=0.5).fit(unclear)
    np.testing.assert_array_equal(ocl.anchor_indices_, agc.anchor_indices_)
    codes = [rows_with_sum_one(anchor_codes(x, x[ocl.anchor_indices_], 0.5)) for x in X]
    A = np.tensordot(ocl.view_weights_, codes, axes=1)
    # At the end Z is near the mixture: the objective holds at least what the nuclear norm takes.
    assert 0 < ocl.objective_[-1] < 0.3 * np.linalg.norm(A, "nuc") + np.square(A).sum()
    assert np.all(np.diff(ocl.objective_) <= 1e-9 * ocl.objective_[0])
    np.testing.assert_allclose(ocl.basis_.T @ ocl.basis_, np.eye(3), atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_views_without_codes():
    noise = np.random.RandomState(0).rand(30, 3)
    X = {"noise": noise, "flat": np.full((30, 4), 5.0)}
    assert set(seeded(SMCAGC(3)).fit_predict(X)) == {0, 1, 2}
    with pytest.raises(ValueError, match="view 'flat' has only codes of zeros"):
        seeded(SMCOCL(3)).fit(X)
    assert len(seeded(SMCAGC(3)).fit_predict(X["flat"])) == 30


@each([SMCAGC(3), SMCOCL(3)])
def test_more_anchors_than_samples_are_refused(method, unclear):
    with pytest.raises(ValueError, match="n_anchors=76 must be at most the number of samples, 75"):
        seeded(method, n_anchors=76).fit(unclear)


def test_fewer_anchors_than_clusters_are_refused(unclear):
    with pytest.raises(ValueError, match="n_anchors=2 must be at least n_clusters=3; raise"):
        seeded(SMCOCL(3), n_anchors=2).fit(unclear)


def test_stopping_early_is_said(unclear):
    with pytest.warns(
        ConvergenceWarning, match="still changes by more than tol=1e-12 after max_iter=2"
    ):
        seeded(SMCOCL(3), max_iter=2, tol=1e-12).fit(unclear)
