"""BKM: exact steps, plain and weighted; starts; the collapse that is reported."""

import numpy as np
import pytest
from common_cases import swept
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines import coclustering as bkm
from omcal.baselines.coclustering import BKM
from omcal.metrics import ari, clustering_accuracy


def diagonal_blocks(noise, seed=0):
    """Four diagonal blocks, 300×200."""
    rng = np.random.RandomState(seed)
    p, q = np.repeat(np.arange(4), 75), np.repeat(np.arange(4), 50)
    return (p[:, None] == q) + noise * rng.randn(300, 200), p, q


def error(X, p, q, s):
    return np.square(X - np.where(p[:, None] == q, s[p][:, None], 0)).sum()


def fit_blocks(X, p, q, c, *, weighted=False):
    return swept(BKM(c), bkm.diagonal_sweeps(X, bkm.weights_of(X, weighted), p, q, c))


def weighted_error(X, p, q, s):
    r1, r2 = np.sqrt(X.sum(axis=1)), np.sqrt(X.sum(axis=0))
    fit = np.where(p[:, None] == q, s[p][:, None], 0)
    return np.square(X / np.outer(r1, r2) - fit * np.outer(r1, r2)).sum()


@given(seed=st.integers(0, 10_000), c=st.integers(1, 5), weighted=st.booleans())
@settings(max_examples=60, deadline=None)
def test_objective_never_rises_and_is_the_error(seed, c, weighted):
    rng = np.random.RandomState(seed)
    X = rng.rand(30, 12) if weighted else rng.randn(30, 12)
    begin = rng.randint(c, size=30), rng.randint(c, size=12)
    end = fit_blocks(X, *begin, c, weighted=weighted)
    assert (np.diff(end.objective) <= 1e-10 * end.objective[0]).all()
    measure = weighted_error if weighted else error
    assert end.objective[-1] == pytest.approx(measure(X, end.p, end.q, end.S))


@pytest.mark.parametrize("weighted", [False, True])
def test_end_is_a_fixed_point(weighted):
    rng = np.random.RandomState(3)
    X = rng.rand(40, 15) + 2 * (rng.randint(3, size=40)[:, None] == rng.randint(3, size=15))
    end = fit_blocks(X, *bkm.start(X, 3, 3, "aligned", rng), 3, weighted=weighted)
    measure = weighted_error if weighted else error
    assert end.converged
    least = measure(X, end.p, end.q, end.S)
    for labels, length in ((end.p, 40), (end.q, 15)):
        for i in range(length):
            before = labels[i]
            for other in range(3):
                labels[i] = other
                assert measure(X, end.p, end.q, end.S) >= least - 1e-10
            labels[i] = before


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.2])
def test_blocks_are_recovered(noise):
    X, p, _ = diagonal_blocks(noise)
    model = BKM(4, random_state=0).fit(X)
    assert clustering_accuracy(p, model.labels_) >= 0.98
    np.testing.assert_array_equal(model.labels_[::75], model.feature_labels_[::50])


def test_matched_start_pairs_the_two_sides():
    X, p, q = diagonal_blocks(0.2)
    first_p, first_q = bkm.start(X, 4, 4, "matched", np.random.RandomState(0))
    assert ari(p, first_p) == ari(q, first_q) == 1
    np.testing.assert_array_equal(first_p[::75], first_q[::50])


def test_matched_start_with_fewer_features_than_clusters():
    X = np.random.RandomState(0).rand(30, 2)
    p, q = bkm.start(X, 5, 5, "matched", np.random.RandomState(0))
    assert len(p) == 30 and len(q) == 2 and q.max() < 5


def test_random_start_is_worse_than_aligned():
    accuracy = {
        init: np.mean(
            [
                clustering_accuracy(p, fit_blocks(X, *begin, 4).p)
                for seed in range(5)
                for X, p, _ in [diagonal_blocks(0.2, seed)]
                for begin in [bkm.start(X, 4, 4, init, np.random.RandomState(seed))]
            ]
        )
        for init in ("aligned", "random")
    }
    assert accuracy["aligned"] == 1
    assert 0.5 < accuracy["random"] < 0.95


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
    for weighted in (False, True):
        dense, thin = (
            fit_blocks(data, *begin, 4, weighted=weighted) for data in (X, sparse.csr_array(X))
        )
        np.testing.assert_array_equal(dense.p, thin.p)
        np.testing.assert_allclose(dense.objective, thin.objective)


def test_weighted_variant_ignores_the_scale_of_rows_in_exact_blocks():
    X, p, _ = diagonal_blocks(0.0)
    X = X * np.random.RandomState(0).uniform(1, 100, size=(300, 1))
    model = BKM(4, weighted=True, random_state=0).fit(X)
    assert ari(p, model.labels_) == 1
    assert model.objective_[-1] == pytest.approx(0, abs=1e-9)


def test_weighted_variant_refuses_negative_data():
    with pytest.raises(ValueError, match=r"weighted=True \(least: -1\)"):
        BKM(2, weighted=True).fit(np.array([[1.0, -1], [2, 3], [1, 1]]))


def test_stopping_early_is_reported():
    X, _, _ = diagonal_blocks(0.2)
    with pytest.warns(ConvergenceWarning, match="max_iter=1"):
        BKM(4, init="random", max_iter=1, random_state=0).fit(X)
