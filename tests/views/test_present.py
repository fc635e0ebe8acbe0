"""Samples that are absent from views: against the dense form, and what users meet."""

import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from test_exact import clear_rows, compact

import reference
from omcal import OCAL, OMCAL, load
from omcal.baselines import ConcatKMeans
from omcal.datasets import load_views, make_multiview
from omcal.metrics import ari, clustering_accuracy
from omcal.views import present as present_module
from omcal.views.present import read_masks, rows_present, stand_in, stand_ins

MADE = make_multiview(300, n_clusters=3, random_state=0)
VIEWS = list(MADE.views.values())


def gone(n, n_views, share, seed=0):
    """Who is left when a share of the entries is taken away; everyone keeps a view."""
    rng = np.random.default_rng(seed)
    present = rng.random((n, n_views)) >= share
    nowhere = np.flatnonzero(~present.any(axis=1))
    present[nowhere, rng.integers(n_views, size=len(nowhere))] = True
    return present


PRESENT = gone(300, len(VIEWS), 0.3)


@pytest.mark.parametrize("rows_at_once", [7, 300])
def test_who_is_there_is_told_by_blocks(monkeypatch, rows_at_once):
    """A row is absent where all of it is NaN, and not where only its first number is."""
    monkeypatch.setattr(present_module, "_FIRST_ROWS", rows_at_once)
    X = np.where(PRESENT[:, [0]], VIEWS[0], np.nan)
    X[::10, 0] = np.nan
    found = rows_present(X)
    assert_array_equal(found, ~np.isnan(X).all(axis=1))
    assert not found.all() and np.isnan(X[found, 0]).any()


def with_gaps(views=VIEWS, present=PRESENT, value=np.nan):
    return [np.where(present[:, [v]], x, value) for v, x in enumerate(views)]


def fitted(X, **options):
    how = {"n_clusters": 3, "n_anchors": 12, "random_state": 0, **options}
    present = how.pop("present", None)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return OMCAL(**how).fit(X, present=present)


# Against the dense form


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 5), st.floats(0.05, 0.7))
def test_rows_that_stand_in_are_those_of_the_dense_form(seed, V, share):
    rng = np.random.default_rng(seed)
    m, n, k = 9, 25, 3
    anchors = [rng.normal(size=(m, 4)) for _ in range(V)]
    S = np.stack([reference.anchor_graph(rng.normal(size=(n, 4)), A, k) for A in anchors])
    present = gone(n, V, share, seed)
    graphs = compact(S, k, np.float64)
    stand_in(graphs.indices, graphs.weights, present, stand_ins(anchors))
    found = graphs.side_by_side().toarray().reshape(n, V, m).transpose(1, 0, 2)
    assert_allclose(found, reference.complete(S, present, anchors), atol=1e-15)


@pytest.mark.sampled
@pytest.mark.parametrize("weighting", ["adaptive", "agreement", "uniform"])
@pytest.mark.parametrize("share", [0.1, 0.3, 0.6])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_fit_equals_algorithm_1_on_completed_graphs(weighting, share, dtype):
    present = gone(300, len(VIEWS), share)
    X = [x.astype(dtype) for x in with_gaps(present=present)]
    first = fitted(X, weighting=weighting, scale=None, max_iter=1)
    G = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 3)))[0]
    how = {"anchors": first.anchors_, "init": G, "scale": None, "max_iter": 15, "tol": 0}
    model = fitted(X, weighting=weighting, accelerate=False, **how)

    S = [
        reference.anchor_graph(np.nan_to_num(x).astype(float), A, 5)
        for x, A in zip(X, first.anchors_, strict=True)
    ]
    S = reference.complete(np.stack(S), present, first.anchors_)
    expected = reference.algorithm1(S, G, 0.3, 0.1, 15, weighting)
    exact = dtype == np.float64
    assert_allclose(model.objective_, expected.history, rtol=1e-9 if exact else 1e-4)
    assert_allclose(model.view_weights_, expected.alpha, atol=1e-8 if exact else 1e-3)
    clear = clear_rows(expected.unclipped, 1e-7 if exact else 1e-2)
    _, labels = reference.by_size(expected.unclipped.argmax(axis=1), 3)
    assert_array_equal(model.labels_[clear], labels[clear])
    if weighting == "adaptive" and exact:
        assert (np.diff(model.objective_) <= 1e-9 * model.objective_[0]).all()


def test_nothing_missing_is_the_ordinary_fit_bit_for_bit():
    plain = fitted(VIEWS)
    everyone = fitted(VIEWS, present=np.ones((300, len(VIEWS)), dtype=bool))
    assert_array_equal(plain.labels_, everyone.labels_)
    assert plain.objective_.tobytes() == everyone.objective_.tobytes()
    assert_array_equal(plain.transform(VIEWS), everyone.transform(VIEWS, present=[None] * 3))


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(5))
def test_rounding_does_not_choose_the_anchors(seed):
    rng = np.random.default_rng(seed)
    nudged = [x * (1 + 4e-16 * rng.integers(-1, 2, size=x.shape)) for x in with_gaps()]
    for found, expected in zip(
        fitted(nudged, max_iter=1).anchors_, fitted(with_gaps(), max_iter=1).anchors_, strict=True
    ):
        assert_allclose(found, expected, atol=1e-8)


# Every way to say it


@pytest.mark.parametrize("library", ["pandas", "polars"])
def test_masks_as_the_columns_of_a_data_frame(library):
    frame = pytest.importorskip(library).DataFrame
    masks = {"b": np.array([True, False, True]), "a": np.array([False, True, True])}
    found = read_masks(frame(masks), ["a", "b"], 3)
    assert_array_equal(found["a"], masks["a"])
    assert_array_equal(found["b"], masks["b"])


def test_nan_none_and_masks_say_the_same():
    expected = fitted(with_gaps())
    by_mask = fitted(with_gaps(value=1e6), present=PRESENT)
    by_masks = fitted(
        {f"view{v + 1}": x for v, x in enumerate(with_gaps(value=-3.0))},
        present={f"view{v + 1}": PRESENT[:, v] for v in range(len(VIEWS))},
    )
    by_none = fitted(
        {
            f"view{v + 1}": [
                row if here else None for row, here in zip(x, PRESENT[:, v], strict=True)
            ]
            for v, x in enumerate(VIEWS)
        }
    )
    for other in (by_mask, by_masks, by_none):
        assert_array_equal(other.labels_, expected.labels_)
        assert_allclose(other.objective_, expected.objective_, rtol=1e-12)


@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
def test_sparse_views_take_masks(scale):
    dense = [np.where(np.abs(x) > 0.5, x, 0) for x in VIEWS]
    empty = with_gaps(dense, value=0.0)
    X = [sparse.csr_array(x) for x in empty]
    model = fitted(X, present=PRESENT, scale=scale)
    assert ari(MADE.labels, model.labels_) > 0.5
    agree = model.predict(X, present=PRESENT) == model.labels_
    assert agree.mean() > 0.95


# In float32 some BLAS sums the products of a row otherwise in another block of rows.
@pytest.mark.slow
@pytest.mark.parametrize(("dtype", "close"), [(np.float64, 1e-12), (np.float32, 1e-7)])
def test_stored_views_and_scratch_files_give_the_same(tmp_path, dtype, close):
    X = [x.astype(dtype) for x in with_gaps()]
    expected = fitted(X)
    stored = []
    for v, x in enumerate(X):
        np.save(tmp_path / f"{v}.npy", x)
        stored.append(np.load(tmp_path / f"{v}.npy", mmap_mode="r"))
    from_disk = fitted(stored)
    in_files = fitted(stored, memory_limit=20_000, scratch_dir=tmp_path)
    for other in (from_disk, in_files):
        assert_array_equal(other.labels_, expected.labels_)
        assert_allclose(other.objective_, expected.objective_, rtol=close)
    assert_array_equal(expected.predict(stored), expected.predict(X))


@pytest.mark.parametrize("scale", ["feature", "sample", None])
def test_tensors_give_the_same(torch, scale):
    how = {"anchors": fitted(with_gaps(), scale=scale).anchors_, "scale": scale}
    how["init"] = np.linalg.qr(np.random.default_rng(1).normal(size=(12, 3)))[0]
    expected = fitted(with_gaps(), **how)
    tensors = [torch.from_numpy(x) for x in with_gaps()]
    model = fitted(tensors, **how)
    assert_array_equal(model.labels_.numpy(), expected.labels_)
    assert_allclose(model.objective_, expected.objective_, rtol=1e-10)
    assert_array_equal(model.predict(tensors).numpy(), expected.predict(with_gaps()))
    masked = fitted([torch.nan_to_num(x) for x in tensors], present=PRESENT, **how)
    assert_array_equal(masked.labels_.numpy(), expected.labels_)
    chosen = fitted(tensors, scale=scale)  # anchors from what is there
    assert_allclose(chosen.anchors_[1], how["anchors"][1], atol=1e-8)


def test_saved_models_fill_gaps_the_same_way(tmp_path):
    model = fitted(with_gaps())
    model.save(tmp_path / "model.omcal")
    again = load(tmp_path / "model.omcal")
    assert_array_equal(again.predict(with_gaps()), model.predict(with_gaps()))


# New samples


def test_predict_of_the_training_data_gives_its_labels():
    model = fitted(with_gaps(), max_iter=500)
    assert (model.predict(with_gaps()) == model.labels_).mean() >= 0.999
    assert_array_equal(model.transform(with_gaps()).argmax(axis=1), model.predict(with_gaps()))


def test_a_view_of_new_samples_may_be_none():
    model = fitted(VIEWS)
    by_none = model.predict([VIEWS[0], None, None])
    by_nan = model.predict([VIEWS[0]] + [np.full_like(x, np.nan) for x in VIEWS[1:]])
    assert_array_equal(by_none, by_nan)
    assert ari(model.labels_, by_none) > 0.3


@pytest.mark.parametrize("name", ["Coil"])
def test_held_out_samples_of_real_data(shared, name):
    data = load_views(shared / "data" / f"{name}.mat")
    X, y = list(data.views.values()), data.labels
    how = {"n_clusters": 20, "n_anchors": 35, "gamma": 0.01, "scale": "sample", "max_iter": 60}
    whole = fitted(X, **how).labels_
    test = np.random.default_rng(0).random(len(y)) < 0.25
    gaps = with_gaps(X, gone(len(y), len(X), 0.3))
    model = fitted([x[~test] for x in gaps], **how)
    for views in (X, gaps):
        predicted = model.predict([x[test] for x in views])
        assert clustering_accuracy(whole[test], predicted) >= 0.95


# Errors


def test_samples_in_no_view_are_refused():
    X = [x.copy() for x in VIEWS]
    for x in X:
        x[[7, 9]] = np.nan
    with pytest.raises(ValueError, match=r"2 sample\(s\) are absent from every view.*number 7"):
        fitted(X)
    with pytest.raises(ValueError, match="absent from every view"):
        fitted(VIEWS).predict(X)


def test_views_with_too_few_samples_are_refused(tmp_path):
    X = [x.astype(np.float32) for x in VIEWS]
    X[1][11:] = np.nan
    message = "view 'view2' has 11 samples, fewer than n_anchors=12; lower n_anchors"
    with pytest.raises(ValueError, match=message):
        fitted(X)
    np.save(tmp_path / "view.npy", X[1])
    with pytest.raises(ValueError, match=message):
        fitted([X[0], np.load(tmp_path / "view.npy", mmap_mode="r"), X[2]])
    X[1][:] = np.nan
    with pytest.raises(ValueError, match="view 'view2' has 0 samples"):
        fitted(X)


def test_a_row_that_is_partly_nan_is_present():
    X = with_gaps()
    X[0][PRESENT[:, 0].argmax(), 0] = np.nan
    with pytest.warns(UserWarning, match="view 'view1' lacks 1 of its values"):
        assert fitted(X).n_missing_ == [1] + [0] * (len(X) - 1)


@pytest.mark.parametrize(
    ("present", "message"),
    [
        ({"nowhere": np.ones(300, bool)}, "masks for .'nowhere'., but the views are"),
        ([np.ones(300, bool)], "present has 1 masks for 3 views"),
        ({"view1": np.ones(300)}, "view 'view1' has shape .300,. and type float64"),
        ({"view1": np.ones(299, bool)}, "give 300 booleans"),
    ],
)
def test_wrong_masks(present, message):
    with pytest.raises(ValueError, match=message):
        fitted(VIEWS, present=present)


def test_one_view_cannot_have_gaps():
    X = VIEWS[0].copy()
    X[3] = np.nan
    with pytest.raises(ValueError, match="absent from every view"):
        OCAL(3).fit(X)


# masked arrays


def masked_rows(view, rows):
    masked = np.ma.array(view, copy=True)
    masked[rows] = np.ma.masked
    return masked


@pytest.mark.parametrize("filled", [0.0, np.inf])
def test_masked_rows_are_absent_samples(filled):
    data = make_multiview(120, n_clusters=3, n_views=2, random_state=0)
    A, B = data.views.values()
    there = np.arange(120) % 5 != 0
    hidden = np.where(there[:, None], B, filled)
    expected = OMCAL(3, random_state=0).fit([A, B], present=[None, there])
    masked = masked_rows(hidden, ~there)
    for X in ([A, masked], np.ma.hstack([A, masked])):
        views = None if isinstance(X, list) else [slice(0, 10), slice(10, 20)]
        model = OMCAL(3, random_state=0, views=views).fit(X)
        assert_array_equal(model.labels_, expected.labels_)
        assert_array_equal(model.predict(X), expected.predict([A, B], present=[None, there]))
    # Rows of NaN and masks given besides take more away.
    more = OMCAL(3, random_state=0).fit([A, masked], present=[None, np.arange(120) % 7 != 0])
    both = OMCAL(3, random_state=0).fit([A, B], present=[None, there & (np.arange(120) % 7 != 0)])
    assert_array_equal(more.labels_, both.labels_)


def test_single_masked_values_are_missing_cells():
    data = make_multiview(120, n_clusters=3, n_views=2, random_state=0)
    A, B = data.views.values()
    holed = np.ma.array(B)
    holed[3, 2:5] = np.ma.masked
    with pytest.warns(UserWarning, match="view 'view2' lacks 3 of its values"):
        OMCAL(3, random_state=0).fit([A, holed])
    for masked, count in ((holed, 3), (masked_rows(B, [0]), B.shape[1])):
        with pytest.raises(ValueError, match=f"view 'view2' contains {count} NaN.*impute"):
            ConcatKMeans(3).fit([A, masked])
    # A mask without a masked value says nothing.
    plain = OMCAL(3, random_state=0).fit([A, np.ma.array(B)])
    assert_array_equal(plain.labels_, OMCAL(3, random_state=0).fit([A, B]).labels_)


def test_a_masked_array_of_dask_is_refused():
    da = pytest.importorskip("dask.array", reason="the extra dask is not installed")
    masked = da.ma.masked_less(da.from_array(VIEWS[0]), 0)
    with pytest.raises(ValueError, match=r"view 'view2' is a masked array of Dask.*filled"):
        OMCAL(3).fit([da.from_array(VIEWS[1]), masked])


def test_masks_without_absent_samples_say_nothing():
    data = make_multiview(90, n_clusters=3, missing=0.2, random_state=0)
    complete = np.logical_and.reduce(list(data.present.values()))
    found = ConcatKMeans(3, random_state=0).fit(data.views[complete])
    arrays = [view[complete] for view in data.views.values()]
    assert_array_equal(found.labels_, ConcatKMeans(3, random_state=0).fit(arrays).labels_)
