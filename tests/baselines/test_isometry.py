"""Wide data made narrow: distances, hence results, stay."""

import numpy as np
import pytest
from scipy import sparse
from sklearn.metrics import euclidean_distances

from omcal.baselines._linalg import narrow, squared_distances, squared_norms
from omcal.baselines.cgfkm import CGFKM
from omcal.baselines.ecpcs import ECPCS
from omcal.baselines.kmm import KMM
from omcal.metrics import ari


def wide_sparse(n=40, d=500):
    return sparse.random_array(
        (n, d), density=0.1, format="csr", random_state=np.random.default_rng(0)
    )


@pytest.mark.parametrize("X", [wide_sparse(), wide_sparse().toarray()], ids=["sparse", "dense"])
def test_distances_stay(X):
    Y = narrow(X)
    assert isinstance(Y, np.ndarray) and Y.shape[0] == 40 and Y.shape[1] <= 40
    np.testing.assert_allclose(euclidean_distances(Y), euclidean_distances(X), atol=1e-12)


def test_rank_is_found():
    rng = np.random.RandomState(0)
    X = rng.rand(30, 3) @ rng.rand(3, 100)
    assert narrow(X).shape[1] <= 6  # rounding may add a few


def test_common_offset_costs_no_digits():
    X = wide_sparse().toarray()
    Y = narrow(X + 1e8)
    np.testing.assert_allclose(euclidean_distances(Y), euclidean_distances(X), atol=1e-6)


def test_narrow_data_is_only_moved():
    X = np.random.RandomState(0).rand(50, 4)
    np.testing.assert_allclose(narrow(X), X - np.median(X, axis=0))
    S = sparse.csr_array(X)
    assert (narrow(S) != S).nnz == 0


def test_equal_samples_have_one_column_of_zeros():
    Y = narrow(np.full((5, 20), 3.7))
    assert Y.shape == (5, 1)
    assert not Y.any()


@pytest.mark.parametrize("method", [ECPCS, KMM, CGFKM])
def test_results_are_those_of_the_narrow_data(method):
    """Appending zero columns makes narrow data wide and changes no distance."""
    rng = np.random.RandomState(0)
    X = np.vstack([rng.randn(40, 5) + 3 * shift for shift in range(3)])
    wide = sparse.hstack([sparse.csr_array(X), sparse.csr_array((120, 400))], format="csr")
    found = [method(n_clusters=3, random_state=0).fit_predict(data) for data in (X, wide)]
    assert ari(*found) == 1


def test_equal_points_are_at_distance_zero():
    rng = np.random.RandomState(0)
    X = 1e3 * rng.rand(50, 7)
    squared = squared_distances(X, X)
    assert not np.diag(squared).any()
    away = ~np.eye(50, dtype=bool)
    np.testing.assert_allclose(squared[away], euclidean_distances(X, squared=True)[away], rtol=1e-9)


def test_overflow_is_refused():
    assert squared_norms(np.array([[3.0, 4.0]])) == [25.0]
    with pytest.raises(ValueError, match="range of float64"):
        squared_norms(np.full((2, 2), 1e160))
