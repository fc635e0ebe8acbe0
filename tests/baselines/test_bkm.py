"""BKM: exact steps; the start; the collapse that is reported."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines import coclustering as bkm
from omcal.baselines.coclustering import BKM
from omcal.metrics import clustering_accuracy


def diagonal_blocks(noise, seed=0):
    """Four diagonal blocks, 300×200."""
    rng = np.random.RandomState(seed)
    p, q = np.repeat(np.arange(4), 75), np.repeat(np.arange(4), 50)
    return (p[:, None] == q) + noise * rng.randn(300, 200), p, q


def error(X, p, q, s):
    return np.square(X - np.where(p[:, None] == q, s[p][:, None], 0)).sum()


@given(seed=st.integers(0, 10_000), c=st.integers(1, 5))
@settings(max_examples=60, deadline=None)
def test_objective_never_rises_and_is_the_error(seed, c):
    rng = np.random.RandomState(seed)
    X = rng.randn(30, 12)
    end = bkm.fit_blocks(X, rng.randint(c, size=30), rng.randint(c, size=12), c)
    assert (np.diff(end.objective) <= 1e-10 * end.objective[0]).all()
    assert end.objective[-1] == pytest.approx(error(X, end.p, end.q, end.S))


def test_end_is_a_fixed_point():
    rng = np.random.RandomState(3)
    X = rng.rand(40, 15) + 2 * (rng.randint(3, size=40)[:, None] == rng.randint(3, size=15))
    end = bkm.fit_blocks(X, *bkm.aligned_start(X, 3, rng), 3)
    assert end.converged
    least = error(X, end.p, end.q, end.S)
    for labels, length in ((end.p, 40), (end.q, 15)):
        for i in range(length):
            before = labels[i]
            for other in range(3):
                labels[i] = other
                assert error(X, end.p, end.q, end.S) >= least - 1e-10
            labels[i] = before


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_blocks_are_recovered(noise):
    X, p, _ = diagonal_blocks(noise)
    model = BKM(4, random_state=0).fit(X)
    assert clustering_accuracy(p, model.labels_) >= 0.98
    np.testing.assert_array_equal(model.labels_[::75], model.feature_labels_[::50])


def test_collapse_on_dense_data_is_reported():
    X, y = load_digits(return_X_y=True)
    with pytest.warns(ConvergenceWarning, match="BKM found . clusters, not n_clusters=10"):
        labels = BKM(10, random_state=0).fit_predict(X / 16)
    assert clustering_accuracy(y, labels) == pytest.approx(0.102, abs=0.01)


def test_sparse_sweeps_are_the_dense_ones():
    X, _, _ = diagonal_blocks(0.3)
    X = np.where(X > 0.4, X, 0)
    rng = np.random.RandomState(0)
    begin = rng.randint(4, size=300), rng.randint(4, size=200)
    dense, thin = (bkm.fit_blocks(data, *begin, 4) for data in (X, sparse.csr_array(X)))
    np.testing.assert_array_equal(dense.p, thin.p)
    np.testing.assert_allclose(dense.objective, thin.objective)


def test_stopping_early_is_reported():
    X, _, _ = diagonal_blocks(2.0)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        BKM(4, max_iter=1, random_state=0).fit(X)
