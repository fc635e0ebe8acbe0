"""Cells without a value take what the rest of their row suggests, wherever the data are."""

import warnings

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

import omcal
from omcal import OCAL, OMCAL, Consensus
from omcal.baselines import ConcatKMeans
from omcal.datasets import make_multiview
from omcal.metrics import ari
from omcal.select import n_clusters, tune_without_labels
from omcal.views.filling import Fill
from omcal.views.missing import MissingCells

MADE = make_multiview(240, n_clusters=3, n_views=2, n_features=6, noise=0.5, random_state=0)
A, B = (view.copy() for view in MADE.views.values())
HOLES = np.random.default_rng(1).random(A.shape) < 0.1
HOLED = np.where(HOLES, np.nan, A)


def filled(X):
    """Return rows with the values that a fit gives to missing cells."""
    fill = Fill.learn([X[~np.isnan(X).all(axis=1)]], np.nanmean(X, axis=0), True)
    return fill.apply(X)


WHOLE = filled(HOLED)

pytestmark = pytest.mark.filterwarnings("ignore:view '.*' lacks")


def fitted(X, **how):
    return OMCAL(3, n_anchors=12, random_state=0, **how).fit(X)


def test_a_fit_and_new_samples_have_the_same_values():
    model = fitted([HOLED, B])
    assert_array_equal(model.labels_, fitted([WHOLE, B]).labels_)
    assert model.n_missing_ == [int(HOLES.sum()), 0]
    assert ari(model.labels_, MADE.labels) > 0.9
    assert_array_equal(model.predict([HOLED, B]), model.predict([WHOLE, B]))
    assert_allclose(model.transform([HOLED, B]), model.transform([WHOLE, B]))


@pytest.mark.filterwarnings("ignore:.* samples lack more than half")
def test_it_is_said_with_the_counts():
    with pytest.warns(UserWarning, match=rf"view 'view1' lacks {HOLES.sum()} of its values \("):
        fitted([HOLED, B])
    few = HOLED.copy()
    few[:200, 2] = np.nan
    few[:20, :4] = np.nan
    with pytest.warns(UserWarning, match=r"1 features of view 'view1' lack more than half.*\(2\)"):
        model = fitted([few, B])
    assert any("samples lack more than half" in doubt.what for doubt in model.doubts_)


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["auto", "feature", "sample", "view", "unit", "log", None])
@pytest.mark.parametrize("rows", [slice(None), slice(7, 8)])
def test_every_scaling_and_a_single_cell(scale, rows):
    X = A.copy()
    X[rows] = HOLED[rows]
    X[7, 0] = np.nan
    middle = filled(X)
    how = {"scale": scale}
    assert_array_equal(fitted([X, B], **how).labels_, fitted([middle, B], **how).labels_)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_storage_does_not_matter(tmp_path, dtype):
    holed, other = HOLED.astype(dtype), B.astype(dtype)
    expected = fitted([holed, other])
    np.save(tmp_path / "a.npy", holed)
    np.save(tmp_path / "b.npy", other)
    stored = [np.load(tmp_path / f"{name}.npy", mmap_mode="r") for name in "ab"]
    masked = np.ma.masked_array(np.nan_to_num(holed), mask=np.isnan(holed))
    objects = np.where(np.isnan(holed), None, holed.astype(object))
    for X in (stored, [masked, other], [objects, other], {"view1": holed, "view2": other}):
        model = fitted(X)
        assert ari(model.labels_, expected.labels_) == 1
        assert_array_equal(model.predict(X), expected.predict([holed, other]))
    limited = fitted(stored, memory_limit="100kB", scratch_dir=tmp_path)
    assert ari(limited.labels_, expected.labels_) == 1


def test_stored_nan_of_sparse_views():
    X = np.where(np.abs(A) > 1, A, 0)
    holes = HOLES & (X != 0)
    holed = sparse.csr_array(np.where(holes, np.nan, X))
    whole = sparse.csr_array(filled(np.where(holes, np.nan, X)))
    model = fitted([holed, B])
    assert_array_equal(model.labels_, fitted([whole, B]).labels_)
    assert np.isnan(holed.data).sum() == holes.sum()  # the user's own is left as it is


def test_data_frames_with_gaps():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(HOLED).add_prefix("f").convert_dtypes()
    assert frame.isna().sum().sum() == HOLES.sum()
    assert_array_equal(fitted([frame, B]).labels_, fitted([HOLED, B]).labels_)


@pytest.mark.slow
def test_dask():
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    from dask.distributed import Client, LocalCluster

    with (
        LocalCluster(
            1, threads_per_worker=1, processes=False, dashboard_address="127.0.0.1:0"
        ) as cluster,
        Client(cluster),
    ):
        X = [da.from_array(view, chunks=(60, -1)) for view in (HOLED, B)]
        model = fitted(X)
        assert ari(np.asarray(model.labels_), fitted([HOLED, B]).labels_) == 1
        assert_array_equal(model.predict(X).compute(), model.predict([HOLED, B]))


def test_a_row_without_values_is_an_absent_sample():
    X = HOLED.copy()
    X[:4] = np.nan
    model = fitted([X, B])
    there = np.arange(240) > 3
    assert model.n_missing_[0] == np.isnan(X[there]).sum()
    whole = np.where(there[:, None], filled(X), A)
    expected = OMCAL(3, n_anchors=12, random_state=0).fit([whole, B], present=[there, None])
    assert_array_equal(model.labels_, expected.labels_)


def test_new_samples_of_a_model_that_was_fitted_to_whole_data():
    model = fitted([A, B])
    middles = model._rule_middles()
    assert np.abs(middles[0] - A.mean(axis=0)).max() < 0.5 * A.std()
    assert ari(model.predict([HOLED, B]), model.labels_) > 0.95


def test_the_middles_are_in_the_file_of_a_model(tmp_path):
    model = fitted([HOLED, B])
    model.save(tmp_path / "model.omcal")
    loaded = omcal.load(tmp_path / "model.omcal")
    assert loaded.n_missing_ == model.n_missing_
    assert_array_equal(loaded.predict([HOLED, B]), model.predict([HOLED, B]))


@pytest.mark.slow
def test_joined_runs_selection_and_explanation():
    joined = Consensus(OMCAL(3, n_anchors=12), n_runs=3, random_state=0).fit([HOLED, B])
    assert joined.n_missing_ == [int(HOLES.sum()), 0]
    assert ari(joined.predict([HOLED, B]), MADE.labels) > 0.9
    found = [n_clusters([X, B], [2, 3, 4], n_runs=2, random_state=0) for X in (HOLED, WHOLE)]
    assert found[0].suggestion == found[1].suggestion
    trials = tune_without_labels([HOLED, B], 3, {"gamma": [0.1]}, n_fits=2, n_anchors=12)
    assert not trials[0].error
    model = fitted([HOLED, B])
    effects = model.describe_clusters([HOLED, B]).features
    assert all(np.isfinite(effect.mean) for effect in effects)
    assert model.explain_views([HOLED, B], n_resamples=0).views[0].agreement > 0.5


def test_infinity_is_refused_and_so_are_gaps_where_a_method_needs_all():
    X = HOLED.copy()
    X[3, 3] = np.inf
    for model in (OMCAL(3), OCAL(3)):
        with pytest.raises(ValueError, match=r"contains \d+ NaN and 1 infinity"):
            model.fit(X)
    with pytest.raises(ValueError, match=r"contains \d+ NaN and 0 infinity.*impute"):
        ConcatKMeans(3).fit([HOLED, B])


def test_counts_add_up_and_wide_whole_numbers_stay_whole():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((50, 4)) < 0.3, np.nan, rng.integers(0, 9, size=(50, 4)))
    X = X[~np.isnan(X).all(axis=1)]
    whole = MissingCells.of(X)
    parts = MissingCells.of(X[:20]) + MissingCells.of(X[20:])
    thin = MissingCells.of(sparse.csr_array(np.where(X == 0, 0, X)))
    for other in (parts, thin):
        for name, value in vars(whole).items():
            assert_array_equal(vars(other)[name], value, name)
    assert whole.n_cells == np.isnan(X).sum()
    assert_allclose(whole.middle, np.nanmean(X, axis=0))
    wide = np.tile(X, 30)  # counts, if they are counts, must look like some
    assert_array_equal(MissingCells.of(wide).middle, np.rint(np.nanmean(wide, axis=0)))
    assert np.isnan(Fill.of_means(np.zeros(3)).apply(np.full((2, 3), np.nan))).all()


@pytest.mark.slow
@given(
    n=st.integers(3, 60),
    width=st.integers(1, 30),
    share=st.floats(0.01, 0.6),
    kind=st.sampled_from([np.float32, np.float64]),
    seed=st.integers(0, 99),
)
# Directions without variance, and one with a billionth of it.
@example(n=11, width=13, share=0.0625, kind=np.float32, seed=6)
@example(n=16, width=16, share=0.046875, kind=np.float32, seed=16)
@settings(max_examples=40, deadline=None)
def test_fills_keep_known_cells_and_do_not_depend_on_storage(n, width, share, kind, seed):
    rng = np.random.default_rng(seed)
    X = np.maximum(rng.normal(size=(n, 2)) @ rng.normal(size=(2, width)), 0).astype(kind)
    X[rng.random(X.shape) < share] = np.nan
    X[:, 0] = 1  # a constant feature, so that no row is empty
    mean = np.nanmean(np.vstack([X, np.zeros(width)]), axis=0)
    whole, thin = (Fill.learn([Y], mean, True) for Y in (X, sparse.csr_array(X)))
    # The least variances that count are sqrt(eps) of all, of which rounding changes thousandths.
    assert_allclose(
        whole.directions @ whole.directions.T, thin.directions @ thin.directions.T, atol=1e-4
    )
    full = whole.apply(X)
    assert_allclose(thin.apply(X), full, rtol=1e-5, atol=1e-6)
    assert full.dtype == kind and np.isfinite(full).all() and (full >= 0).all()
    assert_array_equal(full[~np.isnan(X)], X[~np.isnan(X)])
    assert_allclose(whole.apply(sparse.csr_array(X)).toarray(), full, rtol=1e-4, atol=1e-5)
    assert_allclose(np.vstack([whole.apply(X[:2]), whole.apply(X[2:])]), full, rtol=1e-4, atol=1e-5)
    assert_array_equal(whole.apply(full), full)


def test_what_the_other_cells_tell_is_taken_and_noise_gets_the_means():
    rng = np.random.default_rng(0)
    low_rank = rng.normal(size=(500, 3)) @ rng.normal(size=(3, 30)) + 0.1 * rng.normal(
        size=(500, 30)
    )
    errors = []
    for X in (low_rank, rng.normal(size=(500, 30))):
        holes = rng.random(X.shape) < 0.2
        left = filled(np.where(holes, np.nan, X)) - X
        errors.append((left[holes] ** 2).mean() / X[holes].var())
    assert errors[0] < 0.05 and errors[1] < 1.15


def test_counts_stay_counts():
    """Filled cells change neither the kind of a view nor the weights of its terms."""
    rng = np.random.default_rng(0)
    X = rng.poisson(0.2 * rng.gamma(0.5, size=(4, 150))[rng.integers(4, size=300)]).astype(float)
    X[:, 0] = 1
    holed = np.where(rng.random(X.shape) < 0.3, np.nan, X)
    known = ~np.isnan(holed)
    present = np.rint(300 * (known & (X != 0)).sum(axis=0) / known.sum(axis=0))
    for view in (holed, sparse.csr_array(holed)):
        model = OMCAL(4, random_state=0).fit(view)
        assert model.view_scales_[0].name == "tfidf"
        scaling = model._rule.learned.scalings[0]
        assert_allclose(scaling.weight, np.log(301 / (1 + present)) + 1)
        assert_array_equal(scaling.unit, 1)


def test_scikit_learn_is_told():
    assert OMCAL().__sklearn_tags__().input_tags.allow_nan
    assert not ConcatKMeans().__sklearn_tags__().input_tags.allow_nan


def test_tensors_stay_on_their_device():
    torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
    expected = fitted([HOLED, B])
    tensors = [torch.from_numpy(view) for view in (HOLED, B)]
    model = fitted(tensors)
    assert model.n_missing_ == expected.n_missing_
    assert ari(np.asarray(model.labels_), expected.labels_) == 1
    assert_array_equal(model.predict(tensors).numpy(), model.predict([HOLED, B]))


def test_infinity_beside_missing_cells_is_counted_right():
    from omcal.views.missing import count_missing
    from omcal.views.view import View, Views

    X = A.copy()
    X[[0, 7, 15], 1] = np.nan
    X[5, 1] = np.inf
    for array in (X, sparse.csr_array(X)):
        with pytest.raises(ValueError, match="3 NaN and 1 infinity"):
            count_missing(Views([View("a", array)]))
    with pytest.raises(ValueError, match="3 NaN and 1 infinity"):
        fitted([X, B])


def test_a_later_fit_without_gaps_says_nothing_of_them():
    model = fitted([HOLED, B])
    assert any("lacks" in str(doubt) for doubt in model.doubts_)
    model.fit([A, B])
    assert not any("lacks" in str(doubt) for doubt in model.doubts_)


def _with_gaps(seed, share_of_first):
    """Three clusters whose first feature is missing more often in the first of them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(3, size=240)
    X = 4 * rng.normal(size=(3, 6))[labels] + rng.normal(size=(240, 6))
    share = np.where(labels[:, None] == 0, share_of_first, 0.1) * (np.arange(6) == 0)
    share[:, 1:] = 0.1
    return np.where(rng.random(X.shape) < share, np.nan, X)


def _told(X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = OMCAL(3, n_anchors=12, random_state=0).fit(X)
    return [doubt for doubt in model.doubts_ if "depend on the clusters" in str(doubt)]


def test_what_is_missing_with_the_clusters_is_told():
    (doubt,) = _told(_with_gaps(0, 0.7))
    assert "'0' in view 'X'" in str(doubt) and "below 0.5 %" in str(doubt)


@pytest.mark.slow
def test_what_is_missing_with_the_clusters_is_told_in_dask():
    da = pytest.importorskip("dask.array")
    pytest.importorskip("distributed")
    from dask.distributed import Client, LocalCluster

    X = _with_gaps(0, 0.7)
    with (
        LocalCluster(n_workers=1, processes=False, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster),
    ):
        (doubt,) = _told(da.from_array(X, chunks=(70, 6)))
    (expected,) = _told(X)
    assert str(doubt) == str(expected)


@pytest.mark.slow
def test_cells_missing_at_random_are_no_doubt():
    """One false alarm in 200 views; the strength makes it rarer still."""
    from omcal.model.doubts import linked_gaps
    from omcal.views.missing import Gaps

    rng = np.random.default_rng(0)
    alarms = 0
    for _ in range(200):
        missing = rng.random((150, 8)) < rng.uniform(0.02, 0.5)
        gaps = Gaps(np.arange(150), np.arange(8), missing)
        alarms += linked_gaps(gaps, rng.integers(4, size=150), 4) is not None
    assert alarms <= 4
    assert not [seed for seed in range(4) if _told(_with_gaps(seed, 0.1))]
