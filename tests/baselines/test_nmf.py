"""NMF: the factorisation, the label rule, the refusals."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.datasets import load_digits, make_blobs
from sklearn.decomposition import NMF

from omcal.baselines.nmf import NMFClustering, normalized_cut_weighted, unit_components
from omcal.metrics import ari, evaluate

not_converged = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X / 16, y


def test_unit_components_keep_the_product():
    rng = np.random.RandomState(0)
    F, Gt = rng.rand(10, 3), rng.rand(3, 6)
    Gt[1] = 0
    F1, Gt1 = unit_components(F, Gt)
    np.testing.assert_allclose(F1 @ Gt1, F @ Gt)
    np.testing.assert_allclose(np.linalg.norm(Gt1, axis=1), [1, 0, 1])


def test_labels_do_not_depend_on_how_the_factors_share_their_scale():
    rng = np.random.RandomState(0)
    F, Gt = rng.rand(50, 4), rng.rand(4, 6)
    share = np.array([1e-3, 1.0, 20.0, 5.0])
    first, _ = unit_components(F, Gt)
    second, _ = unit_components(F * share, Gt / share[:, None])
    assert np.any(F.argmax(axis=1) != (F * share).argmax(axis=1))
    np.testing.assert_array_equal(first.argmax(axis=1), second.argmax(axis=1))


@not_converged
def test_objective_is_the_error_of_the_stored_factors_and_falls(digits):
    X, _ = digits
    values = []
    for max_iter in (10, 20, 40, 80):
        model = NMFClustering(10, max_iter=max_iter, tol=0, random_state=0).fit(X)
        error = np.square(X - model.memberships_ @ model.components_).sum()
        assert model.objective_ == pytest.approx(error)
        values.append(model.objective_)
    assert (np.diff(values) < 0).all()


@not_converged
def test_best_of_several_starts_is_kept(digits):
    X, _ = digits
    rng = np.random.RandomState(0)
    starts = [
        NMF(10, init="random", solver="mu", max_iter=20, tol=1e-5, random_state=rng).fit(X)
        for _ in range(3)
    ]
    best = min(start.reconstruction_err_ for start in starts)
    model = NMFClustering(10, n_init=3, max_iter=20, random_state=0).fit(X)
    assert model.objective_ == pytest.approx(best**2)


@pytest.mark.long
@pytest.mark.slow
@not_converged
def test_digits_are_in_the_range_of_the_reference(digits):
    X, y = digits
    scores = [evaluate(y, NMFClustering(10, random_state=s).fit_predict(X)) for s in (0, 1)]
    assert np.mean([s["accuracy"] for s in scores]) == pytest.approx(0.475, abs=0.1)
    by_kmeans = NMFClustering(10, labels="kmeans", random_state=0).fit_predict(X)
    assert evaluate(y, by_kmeans)["accuracy"] == pytest.approx(0.696, abs=0.07)
    assert evaluate(y, by_kmeans)["nmi"] == pytest.approx(0.663, abs=0.05)


@not_converged
def test_positive_blobs_are_found():
    centers = [[9.0, 1, 1], [1, 9, 1], [1, 1, 9]]
    X, y = make_blobs(60, centers=centers, cluster_std=0.3, random_state=0)
    for labels in ("argmax", "kmeans"):
        assert ari(y, NMFClustering(3, labels=labels, random_state=0).fit_predict(X)) == 1


def test_normalized_cut_weighting_gives_unit_degrees():
    X = np.random.RandomState(0).rand(20, 5)
    weighted = normalized_cut_weighted(X)
    degree = (X @ X.T).sum(axis=1)
    expected = X @ X.T / np.sqrt(np.outer(degree, degree))
    np.testing.assert_allclose(weighted @ weighted.T, expected)
    stays_sparse = normalized_cut_weighted(sparse.csr_array(X))
    np.testing.assert_allclose(stays_sparse.toarray(), weighted)


def test_deterministic_start_ignores_the_seed(digits):
    X, _ = digits
    first, second = (
        NMFClustering(10, solver="cd", init="nndsvda", random_state=s).fit(X[:300]) for s in (0, 1)
    )
    np.testing.assert_array_equal(first.labels_, second.labels_)


@pytest.mark.parametrize("container", [np.asarray, sparse.csr_array])
def test_negative_data_is_refused(container):
    X = container(np.array([[1.0, 2], [3, -0.5], [2, 1]]))
    with pytest.raises(ValueError, match=r"Negative values in data .*-0\.5"):
        NMFClustering(2).fit(X)
