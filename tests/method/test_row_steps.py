"""What is done to each row by itself, dense and sparse, against its definition."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from omcal.method.row_steps import damped, standard_rows, unit_rows, weighted

FORMS = [np.asarray, sparse.csr_array, sparse.csr_matrix]


@pytest.fixture(params=[np.float32, np.float64])
def X(request):
    rng = np.random.default_rng(0)
    X = np.where(rng.random((20, 6)) < 0.4, 0, 3 * rng.normal(size=(20, 6)))
    X[[4, -1]] = 0
    X[:, -1] = 0
    return X.astype(request.param)


def plain(block, dtype):
    """As a dense matrix, which must have that type."""
    assert block.dtype == dtype
    return block.toarray() if sparse.issparse(block) else block


def near(dtype):
    return {"rtol": 1e-5, "atol": 1e-6} if dtype == np.float32 else {"rtol": 1e-12, "atol": 1e-14}


@pytest.mark.parametrize("form", FORMS)
def test_damped(X, form):
    unit = np.array([0.1, 1.0, 2.0, 30.0, 5.0, 0.7])
    expected = np.sign(X) * np.log(1 + np.abs(X) / unit)
    found = damped(form(X), unit)
    assert type(found) is type(form(X))
    assert_allclose(plain(found, X.dtype), expected, **near(X.dtype))


@pytest.mark.parametrize("form", FORMS)
def test_weighted(X, form):
    weight = np.array([0.1, 1.0, 2.0, 30.0, 5.0, 0.7])
    found = weighted(form(X), weight)
    assert type(found) is type(form(X))
    assert_allclose(plain(found, X.dtype), X * weight, **near(X.dtype))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("width", [0, 1, 4])
def test_one_weight_for_all_features(form, width):
    X = np.arange(3.0 * width).reshape(3, width)
    found = weighted(form(X), np.full(width, 0.3))
    assert_allclose(plain(found, X.dtype), 0.3 * X)


@pytest.mark.parametrize("form", FORMS)
def test_unit_rows(X, form):
    lengths = np.linalg.norm(X.astype(np.float64), axis=1, keepdims=True)
    found = plain(unit_rows(form(X)), X.dtype)
    assert_allclose(found, X / np.where(lengths > 0, lengths, 1), **near(X.dtype))
    assert_array_equal(found[4], 0)


@pytest.mark.parametrize("step", [unit_rows, standard_rows])
@pytest.mark.parametrize("form", FORMS)
def test_rows_of_zeros_stay_so(form, step):
    assert_array_equal(plain(step(form(np.zeros((3, 4)))), np.float64), 0)


@pytest.mark.parametrize("form", FORMS)
def test_standard_rows(X, form):
    exact = X.astype(np.float64)
    deviation = exact.std(axis=1, ddof=1, keepdims=True)
    centred = exact if form is not np.asarray else exact - exact.mean(axis=1, keepdims=True)
    found = plain(standard_rows(form(X)), X.dtype)
    assert_allclose(found, centred / np.where(deviation > 0, deviation, 1), **near(X.dtype))
    assert_array_equal(found[4], 0)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_one_feature_are_constant(form):
    assert_array_equal(plain(standard_rows(form([[2.0], [0.0], [-3.0]])), np.float64), 0)


@pytest.mark.parametrize("step", [unit_rows, standard_rows])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1e154, 1e160, 1e300, -1e300])
def test_rows_too_large_to_be_squared_lose_only_their_size(step, form, size):
    rng = np.random.default_rng(1)
    X = rng.random((5, 4)) + 0.5
    huge = X.copy()
    huge[2] *= size
    expected = plain(step(form(X)), np.float64)
    expected[2] *= np.sign(size)
    found = plain(step(form(huge)), np.float64)
    assert_allclose(found, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("step", [unit_rows, standard_rows])
@pytest.mark.parametrize("form", FORMS)
def test_squares_may_be_beyond_the_type_of_the_rows(step, form):
    X = (1e25 * np.random.default_rng(1).random((5, 4))).astype(np.float32)
    expected = plain(step(form(X.astype(np.float64))), np.float64)
    assert_allclose(plain(step(form(X)), np.float32), expected, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("form", FORMS)
def test_rows_of_two_features(form):
    root = np.sqrt(2)  # of the deviation of two numbers that are 2 apart
    expected = [[-1 / root, 1 / root]] if form is np.asarray else [[1 / root, 3 / root]]
    assert_allclose(plain(standard_rows(form([[1.0, 3.0]])), np.float64), expected)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", FORMS)
def test_the_deviation_of_a_row_that_is_not_quite_constant(form, dtype):
    # A step of 16 roundings is a direction, one of a single rounding is none.
    eps = np.finfo(dtype).eps
    X = np.array([[1, 1, 1, 1 + 16 * eps], [1, 1, 1, 1 + eps], [1, 1, 1, 1]], dtype=dtype)
    found = plain(standard_rows(form(X)), dtype)
    assert np.abs(found[0]).max() > 1
    assert_array_equal(found[2], 0)
    if form is np.asarray or dtype is np.float64:  # sparse rows are looked at in float64
        assert_array_equal(found[1], 0)


@pytest.mark.parametrize("step", [unit_rows, standard_rows])
@pytest.mark.parametrize("form", FORMS)
def test_no_row_and_rows_of_nothing(step, form):
    assert step(form(np.empty((0, 3)))).shape == (0, 3)
    assert_array_equal(plain(step(form(np.zeros((2, 3)))), np.float64), 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("last", [255.0, 256.0, 2.5, -1.0, -257.0, np.inf])
def test_counts_from_a_table_are_damped_like_others(last, dtype):
    x = np.array([[0.0, 1.0, 7.0, last]], dtype=dtype)
    expected = np.copysign(np.log1p(np.abs(x)), x)
    for block in (x, sparse.csr_array(x)):
        found = damped(block, np.ones(4))
        found = found.toarray() if sparse.issparse(found) else found
        assert found.dtype == dtype
        np.testing.assert_array_equal(found, expected)
