"""SMC-AGC and SMC-OCL: the graph and the loop against the oracle, and what both promise."""

import numpy as np
import pytest
from scipy import sparse
from scipy.linalg import polar
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import reference
from omcal.baselines._linalg import standardize_samples
from omcal.baselines._smc import anchor_codes, filtered_views
from omcal.baselines.smc_agc import SMCAGC, dense_anchor_graph
from omcal.baselines.smc_ocl import SMCOCL, consensus, rows_with_sum_one
from omcal.metrics import ari
from omcal.solver import Problem

# Degenerate data do not give the number of clusters asked for, and both methods say so.
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

METHODS = [SMCAGC(3), SMCOCL(3)]
VARIANTS = [SMCAGC(3, n_anchors=20), SMCOCL(3, normalize_codes=False), SMCOCL(3, n_anchors=3)]


def each(methods):
    return pytest.mark.parametrize("method", methods, ids=lambda method: str(method))


def seeded(method, **parameters):
    return clone(method).set_params(random_state=0, **parameters)


@parametrize_with_checks([SMCAGC(), SMCOCL()])
def test_scikit_learn_conventions(estimator, check):
    check(estimator)


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
def clear():
    rng = np.random.RandomState(0)
    y = rng.permutation(np.repeat(np.arange(3), [30, 20, 25]))
    return [rng.randn(75, width) + 10 * np.eye(3, width)[y] for width in (6, 4)], y


@pytest.fixture(scope="module")
def unclear():
    rng = np.random.RandomState(1)
    y = np.repeat(np.arange(3), 25)
    return [rng.randn(75, width) + 2 * np.eye(3, width)[y] for width in (6, 4)]


@each([SMCAGC(3, n_anchors=15), SMCOCL(3), SMCOCL(3, normalize_codes=False)])
def test_finds_clear_clusters(method, clear):
    X, y = clear
    assert ari(y, seeded(method).fit_predict(X)) == 1


def test_estimators_run_the_steps(unclear):
    X, _ = filtered_views([standardize_samples(x) for x in unclear], 5, 0.8, 1)
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


@each(METHODS + VARIANTS)
def test_same_seed_same_result(method, unclear):
    first, second = seeded(method).fit(unclear), seeded(method).fit(unclear)
    np.testing.assert_array_equal(first.labels_, second.labels_)
    np.testing.assert_array_equal(first.objective_, second.objective_)
    assert first.n_iter_ == len(first.objective_)


@each(METHODS + VARIANTS)
def test_order_of_views_only_reorders_their_weights(method, unclear):
    model, swapped = seeded(method).fit(unclear), seeded(method).fit(unclear[::-1])
    assert ari(model.labels_, swapped.labels_) == 1
    np.testing.assert_allclose(model.objective_, swapped.objective_, rtol=1e-9)
    if hasattr(model, "view_weights_"):
        np.testing.assert_allclose(model.view_weights_, swapped.view_weights_[::-1], atol=1e-7)


@each(METHODS)
def test_scale_and_offset_of_a_sample_change_nothing(method, unclear):
    rng = np.random.RandomState(3)
    factor, offset = rng.uniform(0.5, 2, (75, 1)), rng.randn(75, 1)
    X = np.hstack(unclear)
    model, other = seeded(method).fit([X]), seeded(method).fit([X * factor + offset])
    assert ari(model.labels_, other.labels_) == 1
    np.testing.assert_allclose(model.objective_, other.objective_, rtol=1e-9)


@each(METHODS)
def test_sparse_views_and_tables_give_the_labels_of_a_list(method, clear):
    X = [np.where(np.abs(x) > 1, x, 0) for x in clear[0]]
    labels = seeded(method).fit_predict(X)
    assert ari(labels, seeded(method).fit_predict([X[0], sparse.csr_array(X[1])])) == 1
    table = seeded(method, views=[slice(0, 6), slice(6, 10)])
    np.testing.assert_array_equal(labels, table.fit_predict(np.hstack(X)))


def degenerate():
    rng = np.random.RandomState(0)
    noise = rng.rand(30, 3)
    groups = np.repeat(rng.rand(3, 4), 10, axis=0)
    return {
        "three different samples": [groups, groups[:, :3]],
        "more groups than clusters": [np.repeat(rng.rand(10, 4), 3, axis=0)],
        "zero rows": [np.vstack([np.zeros((10, 3)), noise[10:]])] * 2,
        "one feature": [noise[:, :1], noise[:, 1:2]],
        "an outlier": [np.vstack([noise[1:], np.full((1, 3), 1e8)]), noise],
        "huge": [1e100 * noise, noise],
        "tiny": [1e-100 * noise, noise],
        "equal views": [noise, noise],
        "three samples": [noise[:3], noise[3:6]],
    }


@each(METHODS + VARIANTS)
@pytest.mark.parametrize("X", degenerate().values(), ids=degenerate().keys())
@pytest.mark.parametrize("n_clusters", [1, 3])
def test_degenerate_data_give_labels(method, X, n_clusters):
    n = len(X[0])
    n_anchors = None if method.n_anchors is None else min(method.n_anchors, n)
    model = seeded(method, n_clusters=n_clusters, n_anchors=n_anchors).fit(X)
    found = np.unique(model.labels_)
    assert model.labels_.shape == (n,) and len(found) <= n_clusters
    np.testing.assert_array_equal(found, np.arange(len(found)))
    for value in vars(model).values():
        if isinstance(value, np.ndarray) and value.dtype.kind == "f":
            assert np.isfinite(value).all()


def test_views_without_codes():
    noise = np.random.RandomState(0).rand(30, 3)
    X = {"noise": noise, "flat": np.full((30, 4), 5.0)}
    assert set(seeded(SMCAGC(3)).fit_predict(X)) == {0, 1, 2}
    with pytest.raises(ValueError, match="view 'flat' has only codes of zeros"):
        seeded(SMCOCL(3)).fit(X)
    assert len(seeded(SMCAGC(3)).fit_predict(X["flat"])) == 30


@each(METHODS)
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
