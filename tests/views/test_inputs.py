"""Every form of input gives the same clusters; memory, threads and blocks do not show."""

import os
import subprocess
import sys
import tracemalloc

import numpy as np
import pytest
from scipy import sparse

from omcal import OCAL, OMCAL
from omcal.baselines import ConcatKMeans
from omcal.method import anchors, graph, new_samples, scaling, vectors
from omcal.metrics import ari
from omcal.places import memory

SETTINGS = {"n_clusters": 4, "n_anchors": 16, "tol": 1e-5, "max_iter": 300, "random_state": 0}


def overlapping(n=300, widths=(6, 4), dtype=np.float64, seed=0):
    """Views whose four groups touch, so that a difference in the numbers would move labels."""
    rng = np.random.default_rng(seed)
    y = np.arange(n) % 4
    views = [2.0 * rng.normal(size=(4, d))[y] + rng.normal(size=(n, d)) for d in widths]
    return [X.astype(dtype) for X in views]


def fitted_labels(X, **settings):
    model = OMCAL(**{**SETTINGS, **settings}).fit(X)
    np.testing.assert_array_equal(model.predict(X), model.predict(X))
    return model.labels_


# Forms of input


def test_list_tuple_mapping_and_object_array_give_the_same():
    A, B = overlapping()
    expected = fitted_labels([A, B])
    objects = np.empty(2, dtype=object)
    objects[:] = [A, B]
    for X in ((A, B), {"a": A, "b": B}, objects, [A.tolist(), B]):
        np.testing.assert_array_equal(fitted_labels(X), expected)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "views",
    [
        [slice(0, 6), slice(6, 10)],
        [list(range(6)), list(range(6, 10))],
        {"a": slice(0, 6), "b": [6, 7, 8, 9]},
        (range(6), [-4, -3, -2, -1]),
    ],
)
@pytest.mark.parametrize("order", ["C", "F"])
def test_one_table_gives_the_same(views, order):
    A, B = overlapping()
    table = np.asarray(np.hstack([A, B]), order=order)
    np.testing.assert_array_equal(fitted_labels(table, views=views), fitted_labels([A, B]))


@pytest.mark.slow
def test_data_frames_give_the_same():
    pd = pytest.importorskip("pandas")
    A, B = overlapping()
    expected = fitted_labels([A, B])
    a = pd.DataFrame(A).add_prefix("a_")
    b = pd.DataFrame(B).add_prefix("b_")
    frame = pd.concat([a, b], axis=1)
    np.testing.assert_array_equal(fitted_labels([a, b]), expected)
    for views in ("prefix_", [list(a), list(b)], {"first": list(a), "second": list(b)}):
        np.testing.assert_array_equal(fitted_labels(frame, views=views), expected)


@pytest.mark.slow
@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
@pytest.mark.parametrize("scale", ["auto", "standard", "unit", "feature", "view", None])
def test_sparse_gives_the_same_as_dense(form, kind, scale):
    A, B = (np.where(np.abs(X) > 1, X, 0) for X in overlapping())
    make = getattr(sparse, f"{form}_{kind}")
    expected = fitted_labels([A, B], scale=scale)
    np.testing.assert_array_equal(fitted_labels([make(A), make(B)], scale=scale), expected)
    np.testing.assert_array_equal(fitted_labels([make(A), B], scale=scale), expected)
    table = make(np.hstack([A, B]))
    views = [slice(0, 6), slice(6, 10)]
    np.testing.assert_array_equal(fitted_labels(table, views=views, scale=scale), expected)


def test_a_dok_array_is_not_taken_for_a_mapping():
    A, _ = overlapping()
    X = sparse.dok_array(np.where(np.abs(A) > 1, A, 0))
    assert isinstance(X, dict)
    model = OMCAL(**SETTINGS).fit(X)
    assert model.n_features_per_view_ == [6]


@pytest.mark.slow
@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_memory_layout_does_not_matter(scale, dtype):
    views = overlapping(dtype=dtype)
    expected = fitted_labels(views, scale=scale)
    fortran = [np.asfortranarray(X) for X in views]
    frozen = [X.copy() for X in views]
    for X in frozen:
        X.setflags(write=False)
    strided = [np.repeat(X, 3, axis=0)[::3] for X in views]
    for other in (fortran, frozen, strided):
        np.testing.assert_array_equal(fitted_labels(other, scale=scale), expected)


def test_the_input_is_not_changed():
    views = overlapping()
    before = [X.copy() for X in views]
    for scale in ("feature", "sample", "view", None):
        OMCAL(**SETTINGS, scale=scale).fit(views).transform(views)
    for X, copy in zip(views, before, strict=True):
        np.testing.assert_array_equal(X, copy)


@pytest.mark.sampled
@pytest.mark.parametrize("dtype", ["uint8", "int16", "int64", "bool", "float16"])
def test_other_number_types(dtype):
    A, B = ((20 * X + 100).clip(0, 255).round() for X in overlapping())
    if dtype == "bool":
        A, B = A > 100, B > 100
    narrow = [A.astype(dtype), B.astype(dtype)]
    np.testing.assert_array_equal(
        fitted_labels(narrow), fitted_labels([X.astype(np.float64) for X in narrow])
    )


def test_rows_of_constants_do_not_depend_on_the_layout():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 100))
    X[::4] = 0.1  # constant samples are 0 after scale="sample"
    centres = rng.normal(size=(16, 100))
    models = [
        OCAL(**{**SETTINGS, "tol": 1e-3}, anchors=[centres], scale="sample").fit(Y)
        for Y in (np.ascontiguousarray(X), np.asfortranarray(X))
    ]
    np.testing.assert_array_equal(models[0].labels_, models[1].labels_)
    np.testing.assert_allclose(models[0].objective_, models[1].objective_)


# predict


def test_predict_matches_named_views_by_name():
    A, B = overlapping()
    model = OMCAL(**SETTINGS).fit({"a": A, "b": B})
    expected = model.predict([A, B])
    np.testing.assert_array_equal(model.predict({"b": B, "a": A}), expected)


def test_predict_takes_other_forms_than_fit():
    A, B = overlapping()
    model = OMCAL(**SETTINGS).fit([A, B])
    expected = model.predict([A, B])
    for X in (
        [sparse.csr_array(A), np.asfortranarray(B)],
        (A.astype(np.float32), B.astype(np.float32)),
        {"view2": B, "view1": A},
    ):
        assert np.mean(model.predict(X) == expected) > 0.99


def test_predict_one_row_at_a_time_gives_the_same():
    A, B = overlapping()
    model = OMCAL(**SETTINGS).fit([A, B])
    rows = [model.predict([A[i : i + 1], B[i : i + 1]])[0] for i in range(40)]
    np.testing.assert_array_equal(rows, model.predict([A, B])[:40])


def test_columns_in_another_order_are_noticed():
    pd = pytest.importorskip("pandas")
    A, B = overlapping()
    a, b = pd.DataFrame(A).add_prefix("a"), pd.DataFrame(B).add_prefix("b")
    model = OMCAL(**SETTINGS).fit([a, b])
    expected = model.transform([a, b])
    try:
        found = model.transform([a[list(a)[::-1]], b])
    except ValueError:
        return  # refused, as scikit-learn does for one table
    np.testing.assert_allclose(found, expected)


# Precision and memory


@pytest.mark.parametrize(
    ("given", "out"), [("float32", "float32"), ("float64", "float64"), ("float16", "float32")]
)
def test_the_soft_indicator_has_the_type_of_the_data(given, out):
    views = overlapping(dtype=given)
    model = OMCAL(**SETTINGS).fit(views)
    assert model.transform(views).dtype == np.dtype(out)


def test_float32_gives_the_clusters_of_float64():
    views = overlapping()
    narrow = [X.astype(np.float32) for X in views]
    exact = [X.astype(np.float64) for X in narrow]
    assert np.mean(fitted_labels(narrow) == fitted_labels(exact)) > 0.99


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["feature", "view", None])
@pytest.mark.parametrize("offset", [1e3, 1e4])
def test_float32_with_a_large_mean(scale, offset):
    rng = np.random.default_rng(0)
    y = np.arange(400) % 4
    X = (6 * rng.normal(size=(4, 8))[y] + rng.normal(size=(400, 8)) + offset).astype(np.float32)
    for seed in range(3):
        settings = {**SETTINGS, "scale": scale, "random_state": seed}
        found = OMCAL(**settings).fit(X).labels_
        expected = OMCAL(**settings).fit(X.astype(np.float64)).labels_
        assert ari(expected, found) > 0.99


def extra_memory(fit, X):
    """Peak bytes taken by the fit, as a fraction of the data."""
    tracemalloc.start()
    try:
        fit(X)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    return peak / sum(x.nbytes for x in X)


@pytest.mark.memory
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:cluster . holds")  # there are none in what is drawn
@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
def test_no_copy_of_the_data_is_made(scale):
    rng = np.random.default_rng(0)
    X = [rng.random((30_000, d), dtype=np.float32) for d in (300, 200)]
    model = OMCAL(2, n_anchors=8, scale=scale, max_iter=2, random_state=0)
    assert extra_memory(model.fit, X) < 0.5
    assert extra_memory(model.predict, X) < 0.5


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_million_sparse_features():
    # 1000 documents of two subjects with words of their own; 8 GB as a dense array.
    rng = np.random.default_rng(0)
    y = np.arange(1000) % 2
    columns = np.sort(
        50 * y[:, None] + rng.permuted(np.tile(np.arange(50), (1000, 1)), axis=1)[:, :20]
    )
    starts = np.arange(0, 20_001, 20)
    X = sparse.csr_array((np.ones(20_000), 10_000 * columns.ravel(), starts), shape=(1000, 10**6))
    model = OCAL(2, n_anchors=8, beta=0.1, max_iter=20, random_state=0).fit(X)
    assert ari(y, model.labels_) > 0.95
    assert ari(y, model.predict(X)) > 0.95


@pytest.mark.memory
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(("dtype", "scale"), [("float32", "sample"), ("uint8", "feature")])
def test_rows_that_need_a_copy_are_copied_a_few_at_a_time(dtype, scale):
    X = np.random.default_rng(0).integers(0, 200, size=(6000, 1500)).astype(dtype)
    model = OCAL(2, n_anchors=8, anchors="random", scale=scale, max_iter=2, random_state=0)
    as_float32 = 4 / X.itemsize
    assert extra_memory(model.fit, [X]) < 0.5 * as_float32
    assert extra_memory(model.predict, [X]) < 0.5 * as_float32


# Threads and blocks


SCRIPT = """
import sys, warnings
import numpy as np
from omcal import OMCAL
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
y = np.arange(10000) % 6
views = [(rng.normal(size=(6, d))[y] + rng.normal(size=(10000, d))).astype("f4") for d in (200, 9)]
results = {}
for n in (1500, 10000):  # one block of rows, and several
    part = [X[:n] for X in views]
    model = OMCAL(6, random_state=0, max_iter=15).fit(part)
    results[f"fitted{n}"], results[f"predicted{n}"] = model.labels_, model.predict(part)
np.savez(sys.argv[1], **results)
"""


@pytest.mark.long
@pytest.mark.process
def test_the_number_of_threads_does_not_matter(tmp_path):
    results = []
    for threads in ("1", "2"):
        file = tmp_path / f"{threads}.npz"
        settings = dict.fromkeys(
            ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), threads
        )
        subprocess.run(
            [sys.executable, "-c", SCRIPT, str(file)], check=True, env={**os.environ, **settings}
        )
        results.append(np.load(file))
    for name in results[0]:
        np.testing.assert_array_equal(results[0][name], results[1][name])


@pytest.mark.sampled
@pytest.mark.parametrize("scale", ["feature", "sample"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_the_blocks_do_not_show(monkeypatch, scale, dtype):
    views = overlapping(dtype=dtype)
    whole = OMCAL(**SETTINGS, scale=scale).fit(views)
    expected = whole.predict(views)
    for module, name, size in (
        (scaling, "_BLOCK_ENTRIES", 100),
        (graph, "_BLOCK_ENTRIES", 333),
        (anchors, "_BLOCK_ENTRIES", 200),
        (vectors, "_BLOCK_ENTRIES", 500),
        (memory, "_BLOCK", 37),
        (new_samples, "BLOCK", 7),
    ):
        monkeypatch.setattr(module, name, size)
    parts = OMCAL(**SETTINGS, scale=scale).fit(views)
    np.testing.assert_array_equal(parts.labels_, whole.labels_)
    np.testing.assert_array_equal(parts.predict(views), expected)
    np.testing.assert_allclose(parts.objective_, whole.objective_, rtol=1e-5)


@pytest.mark.long
@pytest.mark.process
def test_importing_the_package_imports_no_optional_library():
    script = (
        "import sys, sklearn.cluster; before = set(sys.modules); import omcal; "
        "print(*{name.split('.')[0] for name in set(sys.modules) - before})"
    )
    out = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    optional = {"torch", "dask", "numba", "matplotlib", "pandas", "h5py", "typer", "rich"}
    assert not optional & set(out.stdout.split())


@pytest.mark.parametrize("model", [OMCAL(2), OCAL(2), ConcatKMeans(2)])
def test_a_second_view_in_the_place_of_y_is_refused(model):
    A, B = overlapping()
    for y in (B, sparse.csr_array(B), [B], {"b": B}):
        with pytest.raises(ValueError, match=r"shape \(300, 4\).*fit\(\[A, B\]\)"):
            model.fit(A, y)
    model.fit(A, np.arange(300) % 2)


def test_views_of_different_lengths_are_refused_with_their_shapes():
    A, B = overlapping()
    with pytest.raises(ValueError, match=r"'view1': 300 × 6, 'view2': 299 × 4"):
        OMCAL(2).fit([A, B[:-1]])


def test_views_as_lists_of_lists_are_refused_in_words_that_help():
    for widths in ((2, 2), (2, 3)):
        views = [np.ones((9, width)).tolist() for width in widths]
        with pytest.raises(ValueError, match=r"If X holds several views, pass a list of 2-D arr"):
            OMCAL(2).fit(views)


def test_views_that_are_no_list_of_arrays_are_refused_with_the_remedy():
    A = np.ones((9, 2))
    with pytest.raises(ValueError, match=r"three dimensions, \(2, 9, 2\)\. .*list\(X\)"):
        OMCAL(2).fit(np.stack([A, A]))
    with pytest.raises(ValueError, match=r"X is a generator, which can be read once; pass list"):
        OMCAL(2).fit(view for view in [A, A])


def test_repeated_names_of_columns_are_refused_by_name():
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(np.eye(9, 3), columns=["age", "size", "age"])
    for given in (frame, frame.assign(size="word")):
        with pytest.raises(ValueError, match=r"several columns named 'age'; rename or drop them"):
            OMCAL(2).fit(given)


def test_refused_values_are_not_listed():
    with pytest.raises(ValueError, match=r"view 'X': Complex data not supported$"):
        OMCAL(2).fit(np.ones((9, 2), complex))
