"""The same data in another form give the same labels: storage, type, order of columns, offset."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

from omcal import OMCAL
from omcal.method import span
from omcal.method.anchors import distinct_rows


def draw(kind, seed):
    """Samples of some clusters, with few different values unless they are plain; the clusters."""
    rng = np.random.default_rng(seed)
    n, d, c = (int(rng.integers(*ends)) for ends in ((60, 300), (4, 12), (2, 6)))
    y = rng.integers(c, size=n)
    noisy = np.where(rng.random(n) < 0.7, y, rng.integers(c, size=n))
    if kind == "one-hot":
        return np.eye(c + 2)[np.where(rng.random(n) < 0.8, noisy, rng.integers(c + 2, size=n))], c
    if kind == "two one-hot":
        return np.hstack([np.eye(c + 1)[noisy], np.eye(c)[rng.permutation(c)[y]]]), c
    if kind == "binary":
        return (rng.random((n, d)) < rng.random((c, d))[y]).astype(float), c
    if kind == "counts":
        return rng.poisson(rng.gamma(1, 3, (c, d))[y]).astype(float), c
    X = 2 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d))
    return np.rint(64 * X) / 64 + 1e8 * (kind == "far"), c


def forms(X, seed):
    order = np.random.default_rng(seed).permutation(X.shape[1])
    yield "permuted", X[:, order]
    yield "by columns", np.asfortranarray(X)
    yield "sparse", sparse.csr_array(X)
    yield "sparse by columns, permuted", sparse.csc_matrix(X[:, order])
    if np.array_equal(X.astype(np.float32), X):
        yield "float32", X.astype(np.float32)
        yield "float32, sparse", sparse.csr_array(X.astype(np.float32))


KINDS = ["one-hot", "two one-hot", "binary", "counts", "plain", "far"]


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 4])
def test_the_same_data_in_any_form_give_the_same_labels(kind, seed):
    check_forms(kind, seed, most_in_float32=0)


@pytest.mark.slow
@pytest.mark.parametrize("widest", [1 << 14, 100])
@pytest.mark.parametrize("seed", [4, 6, 8])
def test_wide_rows_in_any_form_give_the_same_labels(monkeypatch, seed, widest):
    """Anchors are found in a few directions, or in frequent features, of columns in any order."""
    monkeypatch.setattr(span, "_WIDEST_OF_ONE_RUN", widest)
    rng = np.random.default_rng(seed)
    y = rng.integers(6, size=1200)
    X = rng.poisson(0.25 * np.exp(0.9 * rng.normal(size=(6, 220)))[y]).astype(float)
    labels = OMCAL(6, random_state=0).fit([X]).labels_
    for form in (X[:, rng.permutation(220)], sparse.csr_array(X), X.astype(np.float32)):
        assert_array_equal(OMCAL(6, random_state=0).fit([form]).labels_, labels)


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**20))
def test_any_data_in_any_form_give_the_same_labels(kind, seed):
    # float32 may round a sample across the border of two clusters: seen in none of 1500 tables.
    check_forms(kind, seed, most_in_float32=0.02)


def check_forms(kind, seed, most_in_float32):
    X, c = draw(kind, seed)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = OMCAL(c, random_state=0).fit(X).labels_
        for form, same in forms(X, seed):
            found = OMCAL(c, random_state=0).fit(same).labels_
            if same.dtype == np.float64:
                assert_array_equal(found, expected, form)
            else:
                assert np.count_nonzero(found != expected) <= most_in_float32 * len(X), form


def binary_rows(seed, least, most):
    """Return between `least` and `most` rows of zeros and ones, and the number of their groups."""
    rng = np.random.default_rng(seed)
    n, d, c = (int(rng.integers(*ends)) for ends in ((least, most), (6, 30), (2, 7)))
    return (rng.random((n, d)) < rng.random((c, d))[rng.integers(c, size=n)]).astype(float), c


@pytest.mark.slow
@settings(max_examples=3)
@given(seed=st.integers(0, 2**20))
def test_many_binary_rows_in_any_form_give_the_same_labels(seed):
    """Enough rows for bounds in k-means."""
    X, c = binary_rows(seed, 4000, 9000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = OMCAL(c, random_state=0).fit(X).labels_
        for form, same in forms(X, seed):
            if same.dtype == np.float64:
                found = OMCAL(c, random_state=0).fit(same).labels_
                assert_array_equal(found, expected, form)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, pytest.param(4, marks=pytest.mark.long), 5])
def test_tens_of_thousands_of_binary_rows_in_float32_give_the_same_labels(seed):
    """k-means decides a million times between centres: rounding must not decide at any of them.

    31 of the seeds 0 to 31 give the same labels; in the other a sample lies between two centres
    nearer than float32 can tell.
    """
    X, c = binary_rows(seed, 30000, 60000)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = OMCAL(c, random_state=0).fit(X).labels_
        found = OMCAL(c, random_state=0).fit(X.astype(np.float32)).labels_
    assert_array_equal(found, expected)


def test_distinct_rows_in_any_form():
    X = np.array([[0.0, 1.0], [2.0, 0.0], [-0.0, 1.0], [2.0, 0.0], [3.0, 3.0]])
    for form in (X, sparse.csr_array(X), np.asfortranarray(X)):
        assert_array_equal(distinct_rows(form, 3, None), [0, 1, 4])
        assert_array_equal(distinct_rows(form, 3, np.array([9, 4, 2, 8, 1]))[:2], [4, 1])
        assert distinct_rows(form, 2, None) is None
    assert distinct_rows(np.arange(40.0).reshape(20, 2), 19, None) is None
