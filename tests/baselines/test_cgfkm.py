"""CGFKM: filter, weights and rounds number by number; exact steps."""

import numpy as np
import pytest
from real_views import load_reference, stored_matrix
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines import cgfkm
from omcal.baselines._graphs import neighbor_graph
from omcal.baselines.cgfkm import CGFKM
from omcal.metrics import ari, evaluate


@pytest.fixture(scope="module")
def reference(shared):
    (X,), stored = load_reference(shared, "cgfkm")
    return cgfkm.chebyshev_filtered(stored_matrix(stored, "graph"), X, 5), stored


def after_rounds(Y, labels, centers, count):
    found = cgfkm.FilteredMeans(Y, labels, centers)
    for _ in range(count):
        found.step()
    return found


def test_graph(shared):
    (X,), stored = load_reference(shared, "cgfkm")
    S = neighbor_graph(X, 5, symmetric=False).toarray()
    np.testing.assert_allclose(S, stored_matrix(stored, "graph"), atol=1e-9)


def test_filter(reference):
    Y, stored = reference
    flat = Y.reshape(5, -1)
    np.testing.assert_allclose(np.linalg.norm(flat, axis=1), stored["filter_norms"], rtol=1e-9)
    np.testing.assert_allclose(flat @ flat.T, stored["H"], rtol=1e-9)


def test_two_rounds_of_the_published_program(reference):
    Y, stored = reference
    start = stored["init_labels"], stored["init_centers"]
    one, two = (after_rounds(Y, *start, count) for count in (1, 2))
    np.testing.assert_allclose([one.beta, two.beta], stored["beta"], atol=1e-8)
    np.testing.assert_array_equal([one.labels, two.labels], stored["labels_history"])
    np.testing.assert_allclose(two.centers, stored["centers"], atol=1e-9)
    np.testing.assert_allclose(two.objective, stored["objective"], rtol=1e-8)


def test_to_convergence(reference):
    Y, stored = reference
    end = cgfkm.FilteredMeans(Y, stored["init_labels"], stored["init_centers"])
    CGFKM()._iterate(end.step)  # which warns where it does not converge
    assert len(end.objective) == 2 * 7
    assert end.objective[-1] == pytest.approx(3.977, abs=5e-4)
    assert ari(stored["labels"], end.labels) == pytest.approx(0.93, abs=5e-3)


def test_chebyshev_recursion():
    rng = np.random.RandomState(0)
    S, X = rng.rand(6, 6), rng.rand(6, 2)
    S /= S.sum(axis=1, keepdims=True)
    Y = cgfkm.chebyshev_filtered(S, X, 4)
    expected = [np.eye(6), S, 2 * S @ S - np.eye(6), 4 * S @ S @ S - 3 * S]
    np.testing.assert_allclose(Y, [T @ X for T in expected])
    np.testing.assert_array_equal(cgfkm.chebyshev_filtered(S, X, 1), [X])


@pytest.mark.parametrize("seed", range(5))
def test_objective_never_rises(seed):
    rng = np.random.RandomState(seed)
    X = rng.rand(80, 4)
    S = neighbor_graph(X, 4, symmetric=False)
    Y = cgfkm.chebyshev_filtered(S, X, 5)
    end = after_rounds(Y, rng.randint(6, size=80), X[:6], 50)
    assert (np.diff(end.objective) <= 1e-12 * end.objective[0]).all()
    error = np.tensordot(end.beta, Y, axes=1) - end.centers[end.labels]
    assert end.objective[-1] == pytest.approx(np.square(error).sum())
    assert end.beta.min() >= 0 and end.beta.sum() == pytest.approx(1)


def test_weights_are_the_best_mixture():
    rng = np.random.RandomState(0)
    Y, targets = rng.rand(3, 20, 2), rng.rand(20, 2)

    def error(beta):
        return np.square(np.tensordot(beta, Y, axes=1) - targets).sum()

    beta = after_rounds(Y, np.arange(20), targets, 1).beta
    others = rng.dirichlet(np.ones(3), size=500)
    assert error(beta) <= min(map(error, others)) + 1e-12


def test_empty_cluster_takes_the_farthest_sample():
    X = np.array([[0.0], [1.0], [2.0], [9.0]])
    labels, centers = cgfkm.lloyd_step(X, np.array([[1.0], [50.0]]))
    np.testing.assert_array_equal(labels, [0, 0, 0, 1])
    np.testing.assert_allclose(centers, [[1.0], [9.0]])


def test_one_filter_is_kmeans():
    X, _ = load_digits(return_X_y=True)
    model = CGFKM(10, n_filters=1, random_state=0).fit(X[:300])
    np.testing.assert_array_equal(model.filter_weights_, [1.0])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("max_iter", "accuracy"), [(2, 0.821), pytest.param(30, 0.821, marks=pytest.mark.long)]
)
def test_digits_are_in_the_range_of_the_reference(max_iter, accuracy):
    X, y = load_digits(return_X_y=True)
    model = CGFKM(10, max_iter=max_iter, random_state=0).fit(X)
    scores = evaluate(y, model.labels_)
    assert scores["accuracy"] == pytest.approx(accuracy, abs=0.05)
    assert scores["nmi"] == pytest.approx(0.821, abs=0.03)
    if max_iter == 2:
        assert model.n_iter_ == 2
        np.testing.assert_allclose(model.filter_weights_, [0.187, 0, 0.417, 0, 0.396], atol=0.02)


def test_stopping_early_is_reported():
    X = np.random.RandomState(0).rand(200, 4)
    with pytest.warns(ConvergenceWarning, match="max_iter=3"):
        CGFKM(10, max_iter=3, tol=0, random_state=0).fit(X)
