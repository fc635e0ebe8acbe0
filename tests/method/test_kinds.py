"""Views recognised by their numbers, and brought to one footing."""

import tracemalloc
import warnings

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.metrics import adjusted_rand_score

from omcal import OCAL, OMCAL, load
from omcal.method.scaling import Scaling
from omcal.views.kinds import (
    SAMPLE_ROWS,
    Kind,
    _quantile,
    recognise,
    sample_of,
    sample_slices,
    tail_columns,
    typical_values,
    usual_tail,
)
from omcal.views.view import View
from view_kinds import KINDS, RNG, Y, amounts, counts, embeddings


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("kind", KINDS)
def test_recognised(kind, dtype):
    X = KINDS[kind].astype(dtype)
    X = X.toarray() if sparse.issparse(X) else X
    for form in (X, sparse.csr_array(X)):
        found = recognise(sample_of(View("x", form)))
        assert found.name == kind
        assert len(found.reason) > 10


def filled(n, width, share):
    """Ones, but for a share of zeros."""
    X = np.ones(n * width)
    X[: round(share * n * width)] = 0
    return np.random.default_rng(1).permutation(X).reshape(n, width)


def test_what_each_kind_goes_by_is_told():
    assert str(recognise(filled(50, 100, 0.7))) == (
        "tfidf (70% of its values are zero, as in counts, terms or links)"
    )
    assert str(recognise(-filled(50, 100, 0.7))) == (
        "unit (70% of its values are zero, and some are negative)"
    )
    assert str(recognise(embeddings())) == "view (its rows have length 1, as embeddings have)"
    assert str(recognise(KINDS["standard"])) == "standard (plain numeric features)"
    for nothing in (np.empty((0, 4)), np.empty((4, 0)), sparse.csr_array((4, 4))):
        assert str(recognise(nothing)) == "standard (no values in the sample)"
    assert str(Kind(None)) == "none (as asked)"
    assert recognise(np.array([[1.0, 2.0]])).reason == "plain numeric features"


def test_mostly_zero_is_seven_tenths_of_a_hundred_features():
    assert recognise(filled(50, 100, 0.698)).name == "standard"
    assert recognise(filled(50, 99, 0.8)).name != "tfidf"


def test_length_one_says_something_from_four_features_on():
    assert recognise(embeddings(width=4)).name == "view"
    assert recognise(embeddings(width=3)).name == "standard"
    # All rows that are not zero have it, but for a hundredth.
    X = embeddings(width=8)
    X[3] = 0
    for factor, name in ((1.009, "view"), (0.991, "view"), (1.011, "standard"), (0.5, "standard")):
        X[5] = embeddings(width=8)[5] * factor
        assert recognise(X).name == recognise(sparse.csr_array(X)).name == name
    assert recognise(embeddings(width=8).astype(np.float32)).name == "view"


def tailed(ratio, width=4, n=201):
    """Positive numbers whose 99 % quantile is so many times their median of 1."""
    X = np.ones((n, width))
    X[:100] = 0.5
    X[-3:] = ratio
    return X


def test_a_long_tail_is_four_times_a_usual_value():
    assert recognise(tailed(4.0)).name == "log"
    assert recognise(tailed(3.99)).name == "standard"
    assert recognise(tailed(4.0)).reason == ("long tail: 99th percentile is 4.0 × the median")
    # In a usual feature, among those with ten positive values.
    X = np.hstack([tailed(1.0, 2), tailed(9.0, 3)])
    assert recognise(X).name == "log"
    X[10:, 2:] = 0
    assert recognise(X).name == "standard"
    X = np.zeros((201, 3))
    X[:9] = np.linspace(1, 100, 9)[:, None]
    assert recognise(X).name == "standard"
    X[:10] = np.r_[np.ones(9), 100][:, None]
    assert recognise(X).name == "log"


def test_whole_numbers_of_a_hundred_features_are_counts_from_a_shorter_tail_on():
    X = 2 * tailed(2.5, width=100)
    assert recognise(X).name == "tfidf"
    assert recognise(X[:, 1:]).name == "standard"
    assert recognise(X * 0.9).name == "standard"
    assert recognise(2 * tailed(2.0, width=100)).name == "standard"


def test_the_tail_is_that_of_features_from_the_first_to_the_last():
    # Of 600, every other column or so is looked at; the tail is in a little over half of them.
    X = np.hstack([tailed(9.0, 301), tailed(1.0, 299)])
    assert recognise(X).name == recognise(X[:, ::-1]).name == "log"
    X = np.hstack([tailed(9.0, 298), tailed(1.0, 302)])
    assert recognise(X).name == recognise(X[:, ::-1]).name == "standard"


def test_features_whose_tails_are_looked_at():
    assert_array_equal(tail_columns(5), np.arange(5))
    many = tail_columns(10_000)
    assert many[0] == 0 and many[-1] == 9999 and len(many) < 1000


def test_a_feature_of_few_values_has_no_tail():
    high, middle = np.array([9.0, 2.0]), np.array([1.0, 1.0])
    assert usual_tail(high, middle, np.array([1, 10**6])) == 2.0
    assert usual_tail(high, middle, np.array([1, 1])) == 0.0


def test_quantiles_are_of_the_values_that_are_there():
    sizes = np.array([[5.0, 9.0, 0.0], [0.0, 7.0, 0.0], [0.0, 3.0, 0.0]])
    counts = np.array([1, 3, 0])
    for q, expected in ((0.0, [5, 3, 0]), (0.5, [5, 7, 0]), (1.0, [5, 9, 0])):
        assert_array_equal(_quantile(sizes, counts, q), expected)


def dense_counts(width=200, seed=0):
    """Counts of which few are zero; how many there are in a sample says nothing of its class."""
    rng = np.random.default_rng(seed)
    means = rng.gamma(1.0, 8, size=width) * np.exp(rng.normal(0, 0.3, size=(4, width)))
    return rng.poisson(rng.lognormal(0, 0.6, size=(len(Y), 1)) * means[Y])


@pytest.mark.parametrize("form", [np.int64, np.float32, sparse.csr_array])
def test_counts_of_which_few_are_zero(form):
    X = dense_counts()
    assert (X == 0).mean() < 0.3
    view = form(X) if form is sparse.csr_array else X.astype(form)
    kind = recognise(sample_of(View("x", view)))
    assert kind.name == "tfidf" and "whole numbers" in kind.reason
    # A table of a few whole numbers may hold anything; fractions are amounts.
    assert recognise(dense_counts(30)).name != "tfidf" != recognise(X * 0.37).name
    plain, damped = (
        adjusted_rand_score(Y, OMCAL(4, scale=scale, random_state=0).fit([view]).labels_)
        for scale in ("auto", "log")
    )
    assert plain > 0.95 > damped + 0.3


@pytest.mark.parametrize(
    "X",
    [
        np.eye(5)[RNG.integers(5, size=100)],  # one-hot: rows of length 1, but no embedding
        RNG.integers(2, size=(100, 30)).astype(float),  # binary
        RNG.random((100, 120)) < 0.5,
        np.zeros((50, 4)),
        np.full((50, 4), 7.0),
        RNG.poisson(20, size=(100, 30)),
        -amounts(),  # a tail, but not of amounts
    ],
)
def test_everything_else_has_its_features_standardised(X):
    for form in (X.astype(float), X.astype(np.float32), sparse.csr_array(X.astype(float))):
        assert recognise(sample_of(View("x", form))).name == "standard"


@pytest.mark.parametrize("n", [1, 63, SAMPLE_ROWS, SAMPLE_ROWS + 1, 10**6])
def test_the_sample_is_bounded_and_spread(n):
    parts = sample_slices(n)
    rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    assert len(rows) == min(n, SAMPLE_ROWS)
    assert rows[0] == 0 and rows[-1] == n - 1
    assert (np.diff([part.start for part in parts]) > 0).all()
    assert (len(parts) == 1) == (n <= SAMPLE_ROWS)
    X = np.arange(min(n, 5000), dtype=float)[:, None]
    rows = np.concatenate([X[part] for part in sample_slices(len(X))])
    assert_array_equal(sample_of(View("x", X)), rows)


@pytest.mark.parametrize("as_sparse", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_total_variance_is_one(kind, as_sparse):
    X = KINDS[kind]
    X = X.toarray() if sparse.issparse(X) else X.astype(float)
    form = sparse.csr_array(X) if as_sparse else X
    for scale in ("auto", kind):
        scaled = Scaling.fit(View("x", form), scale).apply(form)
        assert sparse.issparse(scaled) == as_sparse
        dense = scaled.toarray() if as_sparse else scaled
        assert_allclose(dense.var(axis=0, ddof=1).sum(), 1, rtol=1e-10)


def test_tfidf_is_that_of_scikit_learn_on_damped_counts():
    X = counts().astype(float)
    expected = TfidfTransformer().fit_transform(np.log1p(X)).toarray()
    scaling = Scaling.fit(View("x", X), "auto")
    assert_allclose(scaling.prepare(X), expected, atol=1e-12)
    assert_allclose(
        Scaling.fit(View("x", sparse.csr_array(X)), "auto").prepare(sparse.csr_array(X)).toarray(),
        expected,
        atol=1e-12,
    )
    # Values that are no counts are taken as they are.
    weights = X * 0.37
    expected = TfidfTransformer().fit_transform(weights).toarray()
    assert_allclose(Scaling.fit(View("x", weights), "tfidf").prepare(weights), expected, atol=1e-12)


def test_log_does_not_depend_on_units():
    X = amounts()
    units = 10.0 ** np.arange(-6, 6)
    expected = Scaling.fit(View("x", X), "log").apply(X)
    assert_allclose(Scaling.fit(View("x", X * units), "log").apply(X * units), expected, atol=1e-9)
    assert_allclose(typical_values(X * units), typical_values(X) * units)


def test_typical_values_of_a_sparse_view_are_those_of_the_dense_one():
    X = np.where(RNG.random((40, 700)) < 0.01, amounts()[:40].repeat(59, axis=1)[:, :700], 0)
    X[:, 3] = 0
    stored = sparse.csr_array(X)
    stored.data[:5] = 0  # stored zeros are zeros
    found = typical_values(stored)
    assert_allclose(found, typical_values(stored.toarray()))
    assert found[3] == 1


def test_typical_values_are_medians_of_what_is_not_zero():
    X = np.array([[1.0, 0, -8], [2, 0, 4], [0, 0, 6], [5, 0, 0], [3, 0, 0], [9, 0, 0]])
    assert_array_equal(typical_values(X), [3, 1, 6])
    assert_array_equal(typical_values(X.astype(np.float32)), [3, 1, 6])


def test_explicit_steps_take_negative_values_and_zeros():
    X = RNG.normal(size=(50, 120))
    X[:, 3] = 0
    X[7] = 0
    for scale in ("tfidf", "log", "unit", "standard"):
        for form in (X, sparse.csr_array(X)):
            scaled = Scaling.fit(View("x", form), scale).apply(form)
            assert np.isfinite(scaled.data if sparse.issparse(scaled) else scaled).all()


@pytest.mark.filterwarnings("ignore:cluster . holds")  # of the poor fit, as rounding has it
def test_each_kind_of_view_is_clustered_by_defaults():
    for X in (counts(), amounts(), embeddings(), sparse.csr_array(counts(seed=3))):
        model = OCAL(4, random_state=0).fit(X)
        assert adjusted_rand_score(Y, model.labels_) > 0.9
        assert_array_equal(model.predict(X), model.labels_)
    # Word counts that are only z-scored by feature say little.
    poor = OCAL(4, scale="feature", random_state=0).fit(counts())
    assert adjusted_rand_score(Y, poor.labels_) < 0.7


def test_asked_for_by_view_and_told(tmp_path):
    views = {"text": counts(), "image": embeddings(), "body": amounts()}
    model = OMCAL(4, scale={"image": "standard"}, random_state=0).fit(views)
    assert [kind.name for kind in model.view_scales_] == ["tfidf", "standard", "log"]
    assert model.view_scales_[1].reason == "as asked"
    assert "zero" in model.view_scales_[0].reason
    path = tmp_path / "model.omcal"
    model.save(path)
    again = load(path)
    assert again.view_scales_ == model.view_scales_
    assert again.get_params()["scale"] == {"image": "standard"}
    assert_array_equal(again.predict(views), model.predict(views))
    with pytest.raises(ValueError, match=r"scale names the view 'txt'; the views are \['text'"):
        OMCAL(4, scale={"txt": "tfidf"}).fit(views)
    with pytest.raises(ValueError, match=r"scale={'text': 'idf'} is not known; use one of 'auto'"):
        OMCAL(4, scale={"text": "idf"}).fit(views)


@pytest.mark.memory
def test_a_wide_sparse_view_is_never_dense():
    X = sparse.random_array((1500, 200_000), density=1e-4, format="csr", random_state=RNG)
    tracemalloc.start()
    model = OCAL(3, n_anchors=6, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(X)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert model.view_scales_[0].name == "tfidf"
    assert peak < 1500 * 200_000 * 8 / 8


def test_absent_samples_do_not_count():
    X = counts().astype(float)
    with_gaps = X.copy()
    with_gaps[::7] = np.nan
    there = np.isfinite(with_gaps[:, 0])
    whole, part = (
        Scaling.fit(View("x", a, present=p), "auto")
        for a, p in ((X[there], None), (with_gaps, there))
    )
    assert_allclose(part.weight, whole.weight)
    assert_allclose(part.factor, whole.factor)
