"""FNMTF: exact steps, repair of emptied clusters, the limit of k-means."""

import numpy as np
import pytest
from common_cases import swept
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines._linalg import refill_empty
from omcal.baselines.coclustering import FNMTF, block_means, full_sweeps
from omcal.metrics import ari, evaluate


def tri_factorize(X, f, g, c, width):
    return swept(FNMTF(c), full_sweeps(X, f, g, c, width))


def error(X, f, g, S):
    return np.square(X - S[np.ix_(f, g)]).sum()


@pytest.fixture
def problem():
    rng = np.random.RandomState(0)
    X = rng.rand(60, 25)
    return X, rng.randint(4, size=60), rng.randint(3, size=25)


def test_block_means_are_the_best_fit(problem):
    X, f, g = problem
    S, explained = block_means(np.eye(4)[f].T @ X, f, g, 4, 3)
    np.testing.assert_allclose(S[1, 2], X[np.ix_(f == 1, g == 2)].mean())
    assert error(X, f, g, S) == pytest.approx(np.square(X).sum() - explained)


def test_empty_blocks_are_zero():
    FtX = np.array([[2.0, 4.0], [0.0, 0.0], [1.0, 3.0]])
    S, _ = block_means(FtX, np.array([0, 0, 2]), np.array([1, 1]), 3, 2)
    np.testing.assert_allclose(S, [[0, 1.5], [0, 0], [0, 2]])


@given(seed=st.integers(0, 10_000), c=st.integers(1, 6), width=st.integers(1, 8))
@settings(max_examples=40, deadline=None)
def test_objective_never_rises_and_is_the_error(seed, c, width):
    rng = np.random.RandomState(seed)
    X = rng.randn(30, 12)
    solution = tri_factorize(X, rng.randint(c, size=30), rng.randint(width, size=12), c, width)
    steps = np.diff(solution.objective)
    assert (steps <= 1e-10 * solution.objective[0]).all()
    assert solution.objective[-1] == pytest.approx(error(X, solution.p, solution.q, solution.S))
    assert len(np.unique(solution.p)) == c


def test_end_is_a_fixed_point(problem):
    X, f, g = problem
    end = tri_factorize(X, f, g, 4, 3)
    assert end.converged
    best_row = [np.square(x - end.S[:, end.q]).sum(axis=1).argmin() for x in X]
    best_column = [np.square(x - end.S[end.p].T).sum(axis=1).argmin() for x in X.T]
    np.testing.assert_array_equal(end.p, best_row)
    np.testing.assert_array_equal(end.q, best_column)


def test_sparse_sweeps_are_the_dense_ones(problem):
    X, f, g = problem
    X = np.where(X > 0.7, X, 0)
    dense, thin = tri_factorize(X, f, g, 4, 3), tri_factorize(sparse.csr_array(X), f, g, 4, 3)
    np.testing.assert_array_equal(dense.p, thin.p)
    np.testing.assert_array_equal(dense.q, thin.q)
    np.testing.assert_allclose(dense.objective, thin.objective)


def test_one_cluster_a_feature_is_kmeans():
    X, _ = load_digits(return_X_y=True)
    X = X[:400]
    labels = KMeans(10, n_init=1, tol=0, random_state=0).fit_predict(X)
    solution = tri_factorize(X, labels, np.arange(64), 10, 64)
    np.testing.assert_array_equal(solution.p, labels)


def test_blocks_are_recovered():
    rng = np.random.RandomState(0)
    f, g = rng.randint(3, size=90), rng.randint(4, size=40)
    X = rng.rand(3, 4)[np.ix_(f, g)] * 5 + 0.1 * rng.rand(90, 40)
    model = FNMTF(3, n_feature_clusters=4, random_state=0).fit(X)
    assert ari(f, model.labels_) == 1
    assert ari(g, model.feature_labels_) == 1


def test_emptied_cluster_takes_the_worst_sample():
    labels = np.array([0, 0, 0, 2, 3, 3])
    errors = np.array([1.0, 5.0, 2.0, 9.0, 0.0, 4.0])
    # Sample 3 is alone in its cluster: the next worst moves instead.
    np.testing.assert_array_equal(refill_empty(labels, errors, 4), [0, 1, 0, 2, 3, 3])


def test_exactly_fitted_samples_are_not_split():
    labels = np.array([0, 0, 2])
    np.testing.assert_array_equal(refill_empty(labels, np.zeros(3), 3), labels)
    with pytest.warns(ConvergenceWarning, match="1 clusters, not n_clusters=2"):
        FNMTF(2, init="random", random_state=0).fit(np.ones((10, 3)))


@pytest.mark.long
def test_digits_are_in_the_range_of_the_reference():
    X, y = load_digits(return_X_y=True)
    X = X / 16
    random = [FNMTF(10, init="random", random_state=s).fit_predict(X) for s in range(5)]
    kmeans = [FNMTF(10, random_state=s).fit_predict(X) for s in range(5)]
    fine = [FNMTF(10, n_feature_clusters=40, random_state=s).fit_predict(X) for s in range(5)]
    for labels, expected in ((random, 0.413), (kmeans, 0.670), (fine, 0.761)):
        accuracy = np.mean([evaluate(y, found)["accuracy"] for found in labels])
        assert accuracy == pytest.approx(expected, abs=0.07)


def test_too_many_feature_clusters_are_refused():
    with pytest.raises(ValueError, match="n_feature_clusters=5 must be at most"):
        FNMTF(2, n_feature_clusters=5).fit(np.ones((10, 3)))


def test_stopping_early_is_reported():
    X, _ = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        FNMTF(10, init="random", max_iter=1, random_state=0).fit(X)
