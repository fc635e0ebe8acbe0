"""Number, mean and variance of features, whole and in parts."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omcal.method.moments import Moments


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((30, 5)) < 0.3, 0, rng.normal(size=(30, 5)) + [0, 5, -3, 100, 0])
    X[:, 4] = 0
    return X


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csr_matrix])
def test_moments_of_rows(X, form, dtype):
    X = X.astype(dtype)
    found = Moments.of(form(X))
    exact = X.astype(np.float64)
    assert found.n == 30
    assert found.mean.dtype == found.squares.dtype == np.float64
    assert_allclose(found.mean, exact.mean(axis=0), rtol=1e-13)
    assert_allclose(found.squares, 30 * exact.var(axis=0), rtol=1e-12)
    assert_allclose(found.variance, exact.var(axis=0, ddof=1), rtol=1e-12)


@pytest.mark.slow  # it is compiled
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_moments_by_a_compiled_loop(X, dtype):
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    found = Moments.of(X.astype(dtype), compiled=True)
    expected = Moments.of(X.astype(dtype))
    assert found.n == 30
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert_allclose(found.squares, expected.squares, rtol=1e-10)
    constant = Moments.of(np.full((30, 2), 0.1, dtype=dtype), compiled=True)
    assert_array_equal(constant.squares, 0)


def test_rows_are_left_as_they_are(X):
    before = X.copy()
    Moments.of(X)
    assert_array_equal(X, before)


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(0, 30), max_size=4), st.integers(0, 2**31))
def test_those_of_parts_add_up(cuts, seed):
    X = np.random.default_rng(seed).normal(size=(30, 3)) + [0, 1e3, -1e6]
    parts = np.split(X, sorted(cuts))
    total = Moments.none(3)
    for part in parts:
        total = total + (Moments.of(part) if len(part) else Moments.none(3))
    assert total.n == 30
    assert_allclose(total.mean, X.mean(axis=0), rtol=1e-12, atol=1e-14)
    assert_allclose(total.variance, X.var(axis=0, ddof=1), rtol=1e-7)


def test_no_row_and_one_row():
    nothing = Moments.none(2)
    assert nothing.n == 0
    assert_array_equal([nothing.mean, nothing.squares, nothing.variance], 0)
    assert (nothing + nothing).n == 0
    one = Moments.of(np.array([[3.0, 4.0]]))
    assert_array_equal(one.mean, [3, 4])
    assert_array_equal(one.variance, 0)
    two = one + Moments.of(np.array([[5.0, 0.0]]))
    assert_array_equal(two.mean, [4, 2])
    assert_array_equal(two.variance, [2, 8])


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_how_many_values_are_not_zero(X, form):
    stored = form(X)
    if sparse.issparse(stored):
        stored.data[:3] = 0  # stored zeros are zeros
        X = stored.toarray()
    found = Moments.of_presence(stored)
    assert found.n == 30
    assert_allclose(found.mean * 30, np.count_nonzero(X, axis=0))
    assert_array_equal(found.squares, 0)
    assert_array_equal(Moments.of_presence(stored[:0]).mean, 0)
    assert_array_equal(Moments.of_presence(stored[:1]).mean, X[0] != 0)
    for bad in (np.nan, np.inf):
        X[2, 1] = bad
        assert np.isnan(Moments.of_presence(form(X)).squares).all()
