"""Scaling of views: what it does to the data, block by block, dense and sparse."""

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from omcal.method import scaling
from omcal.method.moments import Moments
from omcal.method.scaling import SCALES, Scaling, ScalingPlan
from omcal.views.kinds import Kind
from omcal.views.view import KnownValues, View

quick = settings(max_examples=40, deadline=None)


def scaled(X, scale):
    view = View("x", X)
    return Scaling.fit(view, scale).apply(view.rows(slice(None)))


def dense(X):
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.fixture
def X():
    rng = np.random.default_rng(0)
    return rng.normal(size=(50, 6)) * [1, 10, 0.1, 1, 5, 2] + [0, 3, -5, 100, 0, 1]


# What each mode does


def test_feature_is_the_z_score_with_ddof_1(X):
    out = scaled(X, "feature")
    np.testing.assert_allclose(out.mean(axis=0), 0, atol=1e-13)
    np.testing.assert_allclose(out.std(axis=0, ddof=1), 1)
    # scikit-learn divides by n, not n - 1.
    np.testing.assert_allclose(
        out, StandardScaler().fit_transform(X) * np.sqrt((len(X) - 1) / len(X)), atol=1e-12
    )


def test_sample_is_the_z_score_of_each_row_with_ddof_1(X):
    expected = (X - X.mean(axis=1, keepdims=True)) / X.std(axis=1, ddof=1, keepdims=True)
    np.testing.assert_allclose(scaled(X, "sample"), expected, atol=1e-12)


def test_view_has_total_variance_1_and_is_one_factor(X):
    out = scaled(X, "view")
    assert out.var(axis=0, ddof=1).sum() == pytest.approx(1)
    assert np.ptp(out / X) == pytest.approx(0, abs=1e-12)


def test_none_is_the_data_themselves(X):
    assert np.shares_memory(scaled(X, None), X)


@pytest.mark.parametrize("scale", SCALES)
def test_the_input_is_not_changed_and_new_rows_get_the_fitted_scaling(X, scale):
    before = X.copy()
    fitted = Scaling.fit(View("x", X), scale)
    whole = fitted.apply(X)
    np.testing.assert_array_equal(X, before)
    np.testing.assert_allclose(fitted.apply(X[7:9]), whole[7:9], atol=1e-13)


# Constant features and rows


@pytest.mark.parametrize("value", [0.0, 1.0, 0.1, 1e5 / 3, -1e-20, 7e18])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("n", [2, 33, 5000])
def test_constant_features_become_zero(value, dtype, n):
    X = np.full((n, 3), value, dtype=dtype)
    X[:, 1] = np.linspace(0, 1, n)
    out = scaled(X, "feature")
    assert out.dtype == dtype
    np.testing.assert_allclose(out[:, [0, 2]], 0, atol=1e-6)
    assert out[:, 1].std(ddof=1) == pytest.approx(1, rel=1e-5)
    # Sparse input is not centred, but a constant feature tells nothing there either.
    np.testing.assert_array_equal(dense(scaled(sparse.csr_array(X), "feature"))[:, [0, 2]], 0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("form", ["C", "F", "csr"])
@pytest.mark.parametrize("width", [1, 2, 7, 100, 1000])
def test_constant_rows_become_zero(dtype, form, width):
    values = np.array([0.0, 0.1, 1 / 3, -7.7, 1e5 / 3], dtype=dtype)
    X = np.repeat(values[:, None], width, axis=1)
    X = sparse.csr_array(X) if form == "csr" else np.asarray(X, order=form)
    np.testing.assert_array_equal(dense(scaled(X, "sample")), 0)


@pytest.mark.parametrize("value", [0.0, 0.1, 1e5 / 3])
@pytest.mark.parametrize("n", [7, 1000, 30_001])
def test_a_constant_view_is_not_blown_up(value, n):
    out = scaled(np.full((n, 4), value), "view")
    np.testing.assert_allclose(out, value)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array])
def test_one_sample(scale, make):
    out = dense(scaled(make([[1.0, 2.0, 3.0]]), scale))
    expected = {"feature": [0, 0, 0], "view": [1, 2, 3], None: [1, 2, 3]}.get(scale)
    if expected:
        np.testing.assert_allclose(out, [expected])
    assert np.isfinite(out).all()


# Numbers


@pytest.fixture(params=["NumPy", pytest.param("compiled", marks=pytest.mark.slow)])
def _loops(request, monkeypatch):
    """Moments by NumPy, and by the loops that large data are given to."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason='the extra "fast" is not installed')
        monkeypatch.setattr(scaling, "compiled_pays", lambda n: True)


@pytest.mark.sampled
@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("offset", [0, 1e3, 1e5])
@pytest.mark.parametrize("scale", ["feature", "view"])
def test_float32_with_a_large_mean(offset, scale):
    rng = np.random.default_rng(1)
    X = (rng.normal(size=(20_000, 5)) + offset).astype(np.float32)
    fitted = Scaling.fit(View("x", X), scale)
    exact = X.astype(np.float64)
    deviation = exact.std(axis=0, ddof=1)
    if scale == "feature":
        np.testing.assert_allclose(fitted.center, exact.mean(axis=0), rtol=1e-7, atol=1e-7)
        np.testing.assert_allclose(fitted.factor, 1 / deviation, rtol=1e-5)
    else:
        np.testing.assert_allclose(fitted.factor, 1 / np.linalg.norm(deviation), rtol=1e-5)


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("offset", [0, 1e6, 1e9])
def test_float64_with_a_large_mean(offset):
    X = np.random.default_rng(2).normal(size=(500, 3)) + offset
    np.testing.assert_allclose(
        Scaling.fit(View("x", X), "feature").factor, 1 / X.std(axis=0, ddof=1), rtol=1e-9
    )


@pytest.mark.parametrize("offset", [10, 1000])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sparse_rows_with_a_large_mean(offset, dtype):
    # Rows without a zero are legal in a sparse view; their deviation must not drown in rounding.
    X = (np.random.default_rng(3).normal(size=(30, 40)) + offset).astype(dtype)
    expected = X / X.astype(np.float64).std(axis=1, ddof=1, keepdims=True)
    np.testing.assert_allclose(dense(scaled(sparse.csr_array(X), "sample")), expected, rtol=1e-3)


@pytest.mark.usefixtures("_loops")
@pytest.mark.parametrize("scale", ["feature", "view"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_blocks_do_not_show(monkeypatch, X, scale, dtype):
    X = (X + 1000).astype(dtype)
    whole = Scaling.fit(View("x", X), scale)
    monkeypatch.setattr(scaling, "_BLOCK_ENTRIES", 20)
    parts = Scaling.fit(View("x", X), scale)
    np.testing.assert_allclose(
        parts.factor, whole.factor, rtol=1e-5 if dtype == np.float32 else 1e-9
    )
    if scale == "feature":
        np.testing.assert_allclose(parts.center, whole.center, rtol=1e-7)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.int64, bool, np.float16])
def test_other_number_types_are_read_as_they_are(scale, dtype):
    X = (
        np.random.default_rng(4).integers(0, 200, size=(40, 5)) % (2 if dtype is bool else 200)
    ).astype(dtype)
    out, expected = scaled(X, scale), scaled(X.astype(np.float64), scale)
    assert out.dtype in (np.float32, np.float64)
    np.testing.assert_allclose(out, expected, atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("scale", SCALES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_order_and_read_only(X, scale, dtype):
    X = X.astype(dtype)
    frozen = X.copy()
    frozen.setflags(write=False)
    expected = scaled(X, scale)
    for other in (np.asfortranarray(X), frozen):
        out = scaled(other, scale)
        assert out.dtype == dtype
        np.testing.assert_allclose(
            out, expected, rtol=1e-5 if dtype == np.float32 else 1e-12, atol=1e-5
        )


# Sparse


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("make", [sparse.csr_array, sparse.csr_matrix])
def test_sparse_is_divided_but_not_centred(dtype, make):
    X = make(sparse.random(60, 8, density=0.4, random_state=0, dtype=dtype))
    full = X.toarray().astype(np.float64)
    expected = {
        "feature": full / full.std(axis=0, ddof=1),
        "sample": full / full.std(axis=1, ddof=1, keepdims=True),
        "view": full / np.sqrt(full.var(axis=0, ddof=1).sum()),
        None: full,
    }
    for scale in expected:
        out = scaled(X, scale)
        assert sparse.issparse(out)
        assert out.dtype == dtype
        assert out.nnz == X.nnz
        np.testing.assert_allclose(out.toarray(), expected[scale], rtol=1e-5)


@pytest.mark.sampled
@pytest.mark.parametrize("scale", SCALES)
def test_wide_sparse_data_are_never_densified(scale):
    rng = np.random.default_rng(0)
    columns = np.sort(rng.permutation(10**6)[:10_000].reshape(1000, 10), axis=1)
    starts = np.arange(0, 10_001, 10)
    X = sparse.csr_array((rng.random(10_000), columns.reshape(-1), starts), shape=(1000, 10**6))
    out = scaled(X, scale)  # 8 GB as a dense array
    assert sparse.issparse(out)
    assert out.nnz == X.nnz


# Folding


@pytest.mark.parametrize("scale", SCALES)
def test_fold_moves_the_scaling_into_the_product(X, scale):
    W = np.random.default_rng(5).normal(size=(6, 4))
    fitted = Scaling.fit(View("x", X), scale)
    folded, shift = fitted.fold(W)
    np.testing.assert_allclose(fitted.prepare(X) @ folded + shift, fitted.apply(X) @ W, atol=1e-9)


@pytest.mark.parametrize("scale", SCALES)
def test_undo_gives_the_prepared_rows_back(X, scale):
    X[:, 2] = 7.0
    fitted = Scaling.fit(View("x", X), scale)
    found = fitted.undo(fitted.apply(X))
    there = np.ones(6, dtype=bool) if fitted.factor is None else fitted.factor > 0
    np.testing.assert_allclose(found[:, there], fitted.prepare(X)[:, there], atol=1e-12)
    # A constant feature is where it was, if it was centred; else nothing is known of it.
    lost = np.zeros(6) if fitted.center is None else fitted.center
    np.testing.assert_allclose(found[:, ~there], np.tile(lost[~there], (50, 1)))


@pytest.mark.parametrize("offset", [1e3, -1e5])
def test_the_centre_is_taken_off_to_more_digits_than_the_type_has(offset):
    X = (np.random.default_rng(2).normal(size=(400, 3)) + offset + 1 / 3).astype(np.float32)
    exact = X.astype(np.float64)
    expected = (exact - exact.mean(axis=0)) / exact.std(axis=0, ddof=1)
    np.testing.assert_allclose(scaled(X, "feature"), expected, atol=1e-5)


def test_unit_is_one_factor_after_the_lengths(X):
    out = scaled(X, "unit")
    lengths = np.linalg.norm(X, axis=1, keepdims=True)
    assert np.ptp(out * lengths / X) == pytest.approx(0, abs=1e-12)
    assert out.var(axis=0, ddof=1).sum() == pytest.approx(1)


def test_one_feature_has_total_variance_1(X):
    for scale in ("standard", "view"):
        assert scaled(X[:, :1], scale).var(ddof=1) == pytest.approx(1)
    X[:, 1] = 3.0  # a constant one has no share of it
    assert scaled(X[:, :2], "standard").var(axis=0, ddof=1).sum() == pytest.approx(1)


@pytest.mark.parametrize(
    ("scale", "dtype", "compiled"),
    [
        ("feature", np.float64, True),
        ("view", np.float32, True),
        ("standard", np.int64, False),  # the loop takes floating numbers
        ("unit", np.float64, False),  # and rows as they are
        ("log", np.float64, False),
    ],
)
def test_what_the_compiled_loop_is_given(monkeypatch, X, scale, dtype, compiled):
    asked = []
    plain = Moments.of

    def note(block, *, compiled=False):
        asked.append(compiled)
        return plain(block)

    monkeypatch.setattr(Moments, "of", note)
    monkeypatch.setattr(scaling, "compiled_pays", lambda n: True)
    Scaling.fit(View("x", X.astype(dtype)), scale)
    assert asked == [compiled]
    monkeypatch.setattr(scaling, "compiled_pays", lambda n: False)
    Scaling.fit(View("x", X.astype(dtype)), scale)
    assert asked == [compiled, False]


def test_presence_is_counted_where_loops_are_compiled_too(monkeypatch):
    X = np.random.default_rng(0).poisson(0.3, size=(50, 120)).astype(float)
    expected = Scaling.fit(View("x", X), "tfidf")
    monkeypatch.setattr(scaling, "compiled_pays", lambda n: True)
    np.testing.assert_array_equal(Scaling.fit(View("x", X), "tfidf").weight, expected.weight)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", ["feature", "view", "unit", "log", "tfidf"])
def test_blocks_without_a_sample_that_is_there(monkeypatch, X, form, scale):
    present = np.zeros(50, dtype=bool)
    present[40:] = True
    expected = Scaling.fit(View("x", form(X[40:])), scale)
    monkeypatch.setattr(scaling, "_BLOCK_ENTRIES", 60)
    found = Scaling.fit(View("x", form(X), present=present), scale)
    for name in ("center", "factor", "unit", "weight"):
        one, other = getattr(found, name), getattr(expected, name)
        assert (one is None) == (other is None)
        if one is not None:
            np.testing.assert_allclose(one, other, rtol=1e-12)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_values_too_large_or_not_finite_are_told_by_view(X, form):
    X[3, 2] = 1e200
    text = (
        "^view 'x' holds values too large to be squared in float64; divide it by the largest of "
        r"them\.$"
    )
    with pytest.raises(ValueError, match=text):
        Scaling.fit(View("x", form(X)), "feature")
    for bad in (np.nan, np.inf):
        X[3, 2] = bad
        for scale in SCALES:
            with pytest.raises(ValueError, match=r"view 'x'.*(NaN|infinity)"):
                Scaling.fit(View("x", form(X)), scale)


def test_what_is_asked_for_by_view():
    assert scaling.scale_of("view", "a") == "view"
    assert scaling.scale_of(None, "a") is None
    by_name = {"a": "unit", "b": None}
    assert [scaling.scale_of(by_name, name) for name in "abc"] == ["unit", None, "auto"]
    assert [scaling.needs_sample(by_name, name) for name in "abc"] == [False, False, True]
    assert [scaling.needs_sample(scale, "a") for scale in ("tfidf", "log", "unit")] == [1, 1, 0]
    scaling.check_scale(by_name, ("a", "b", "c"))
    scaling.check_scale("anything", ("a",))  # names are checked elsewhere
    known = "'auto', 'tfidf', 'unit', 'log', 'standard', 'feature', 'sample', 'view', None"
    for asked, text in (
        ({"d": "unit"}, "scale names the view 'd'; the views are ['a', 'b']."),
        ({"a": "idf"}, f"scale={{'a': 'idf'}} is not known; use one of {known}."),
        ({"a": {}}, f"scale={{'a': {{}}}} is not known; use one of {known}."),
    ):
        with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
            scaling.check_scale(asked, ("a", "b"))


@pytest.mark.parametrize(
    ("mean", "deviation", "constant"),
    [(0, 0, True), (1e6, 9e-9, True), (1e6, 1.1e-8, False), (-1e6, 9e-9, True), (-5, 1e-13, False)],
)
def test_what_counts_as_constant_is_a_deviation_of_rounding(mean, deviation, constant):
    n = 10
    squares = (n - 1) * np.array([deviation, 2.0]) ** 2
    found = Moments(n, np.array([mean, 1.0]), squares)
    factor = ScalingPlan(Scaling(kind=Kind("feature")), True).finish(found).factor
    np.testing.assert_allclose(factor, [0 if constant else 1 / deviation, 0.5], rtol=1e-12)


@quick
@given(st.integers(0, 2**32 - 1), st.booleans(), st.booleans(), st.booleans(), st.booleans())
def test_the_middle_of_scaled_copies_of_a_row_is_the_row(seed, damps, weighs, centres, divides):
    rng = np.random.default_rng(seed)
    d, n = rng.integers(1, 8), rng.integers(1, 5)
    of_a_feature = [rng.uniform(0.2, 5, size=d) for _ in range(3)]
    unit, weight, factor = (
        one if asked else None
        for one, asked in zip(of_a_feature, (damps, weighs, divides), strict=True)
    )
    center = rng.normal(size=d) if centres else None
    steps = Scaling(center=center, factor=factor, unit=unit, weight=weight)
    row = 3 * rng.normal(size=d)
    assert_allclose(steps.middle(steps.apply(np.tile(row, (n, 1)))), row, rtol=1e-9)
    if not damps:  # linear steps take means to means
        rows = rng.normal(size=(n, d))
        assert_allclose(steps.middle(steps.apply(rows)), rows.mean(axis=0), atol=1e-12)


@quick
@given(st.integers(0, 2**32 - 1), st.sampled_from([np.asarray, sparse.csr_array]))
def test_levels_of_categories_are_not_weighted_more_than_numbers(seed, form):
    """A rare level keeps its deviation, a number gets 1; then the view has total variance 1."""
    rng = np.random.default_rng(seed)
    n, width, first = 40, int(rng.integers(1, 7)), int(rng.integers(0, 4))
    X = np.hstack(
        [
            rng.normal(size=(n, first)) * rng.uniform(0.1, 9, size=first),
            (rng.random((n, width)) < rng.uniform(0.05, 0.9, size=width)).astype(float),
        ]
    )
    X[0, first:], X[1, first:] = 0, 1  # no level is constant
    X[:, first:] *= rng.choice([1.0, 3.0], size=width)  # with 3, most deviate by more than 1
    fitted = Scaling.fit(View("x", form(X), levels_from=first), "auto")
    deviation = X.std(axis=0, ddof=1)
    kept = np.where(np.arange(first + width) < first, 1 / deviation, np.minimum(1 / deviation, 1))
    total = np.sum((kept * deviation) ** 2)
    assert_allclose(fitted.factor, kept / np.sqrt(total), rtol=1e-9)
    assert_allclose(dense(fitted.apply(form(X))).var(axis=0, ddof=1).sum(), 1)
    assert fitted.kind.name == "standard" and "categories" in fitted.kind.reason
    plain = Scaling.fit(View("x", form(X), levels_from=first), "feature")
    assert_allclose(plain.factor, 1 / deviation, rtol=1e-9)  # asked for, it is as for numbers


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("scale", ["feature", "standard", "view", "unit", "log"])
def test_moments_of_the_fitted_rows_are_kept(X, scale, form):
    X = np.abs(X)
    fitted = Scaling.fit(View("x", form(X)), scale)
    prepared = dense(fitted.prepare(form(X)))
    assert_allclose(fitted.mean, prepared.mean(axis=0), rtol=1e-9)
    assert_allclose(fitted.variance, prepared.var(axis=0, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("whole", [False, True])
def test_tfidf_keeps_the_presence_of_features(form, whole):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.4, size=(60, 9)) * (1.0 if whole else 0.3)
    X[:, 0] = 0
    fitted = Scaling.fit(View("x", form(X)), "tfidf")
    share = (X > 0).mean(axis=0)
    assert_allclose(fitted.mean, share)
    assert_allclose(fitted.variance, share * (1 - share))
    assert_allclose(fitted.weight, np.log(61 / (1 + (X > 0).sum(axis=0))) + 1)
    assert fitted.center is None and fitted.row == "unit"
    assert (fitted.unit is None) != whole
    assert_allclose(dense(fitted.apply(form(X))).var(axis=0, ddof=1).sum(), 1)
    assert np.ptp(fitted.factor) == 0


@pytest.mark.parametrize("out", [False, True])
@pytest.mark.parametrize("scale", SCALES)
def test_scaled_rows_are_put_where_they_are_asked_for(X, scale, out):
    fitted = Scaling.fit(View("x", X), scale)
    place = np.full_like(X, np.nan) if out else None
    found = fitted.apply(X, out=place)
    prepared = fitted.prepare(X)
    center = 0 if fitted.center is None else fitted.center
    expected = (prepared - center) * (1 if fitted.factor is None else fitted.factor)
    assert_allclose(found, expected, atol=1e-12)
    if out:
        assert_array_equal(place, found)


@quick
@given(st.integers(0, 2**32 - 1), st.sampled_from(SCALES))
def test_a_scaling_is_folded_for_some_of_the_features(seed, scale):
    rng = np.random.default_rng(seed)
    X = np.abs(rng.normal(size=(30, 7)) + rng.normal(size=7))
    fitted, W = Scaling.fit(View("x", X), scale), rng.normal(size=(7, 3))
    cut = int(rng.integers(0, 8))
    parts = [slice(0, cut), slice(cut, 7)]
    folded, shifts = zip(*(fitted.fold(W[some], some) for some in parts), strict=True)
    whole = fitted.prepare(X) @ np.concatenate(folded) + sum(shifts)
    assert_allclose(whole, fitted.apply(X) @ W, atol=1e-9)


def test_filled_cells_do_not_count_as_terms_of_a_document():
    counts = np.array([[1.0, 2.0], [0.0, 1.0], [0.0, 3.0], [2.0, 1.0]])
    kind, presence = Kind("tfidf", "few values"), np.array([0.5, 0.25])
    view = View("x", counts, known=KnownValues(kind, True, presence))
    assert not ScalingPlan.of(view, "tfidf", counts).centred
    plan = ScalingPlan.of(view, "auto", counts)
    scaling = plan.finish(plan.scan(counts))
    assert_allclose(scaling.mean, presence)
    assert_allclose(scaling.weight, np.log(5 / (1 + np.array([2, 1]))) + 1)


def test_a_plan_for_workers_has_no_sample():
    plan = ScalingPlan(Scaling(kind=Kind("tfidf")), True, np.ones((3, 2)), 1, np.ones(2))
    sent = plan.shared
    assert sent.sample is None
    assert (sent.steps, sent.centred, sent.levels_from) == (plan.steps, True, 1)
    assert sent.presence is plan.presence


@pytest.mark.parametrize(("name", "looks"), [("sample", False), (None, False), ("unit", True)])
def test_which_plans_need_a_scan(name, looks):
    plan = ScalingPlan(Scaling(kind=Kind(name)), True)
    assert plan.looks == looks
    assert plan.finish(None) is plan.steps
