"""What counts as views, how one table is split, and what is refused."""

import tracemalloc

import numpy as np
import pytest
from scipy import sparse
from sklearn.base import BaseEstimator

from omcal.machine.threads import row_blocks, row_slice
from omcal.views.columns import split_columns
from omcal.views.reading import read_views
from omcal.views.view import View


class Estimator(BaseEstimator):
    """Something to write `n_features_in_` and the like on."""


def check(X, views=None, estimator=None, **options):
    estimator = estimator or Estimator()
    estimator.views = views
    return read_views(estimator, X, home="memory", absent=False, **options)


@pytest.fixture
def A():
    return np.random.default_rng(0).normal(size=(10, 3))


@pytest.fixture
def B():
    return np.random.default_rng(1).normal(size=(10, 2))


# One view


@pytest.mark.parametrize(
    ("given", "computed"),
    [
        ("float32", "float32"),
        ("float64", "float64"),
        ("float16", "float32"),
        ("bool", "float32"),
        ("uint8", "float32"),
        ("int16", "float32"),
        ("int32", "float64"),
        ("uint64", "float64"),
    ],
)
def test_the_type_to_compute_in_holds_every_value(given, computed):
    top = 1 if given == "bool" else np.finfo(given).max if "float" in given else np.iinfo(given).max
    array = np.array([[0, top]], dtype=given)
    view = View("x", array)
    assert view.dtype == np.dtype(computed)
    assert view.rows(slice(None)).dtype == np.dtype(computed)
    assert view.rows(slice(None))[0, 1] == np.asarray(top, dtype=given).astype(computed)


def test_rows_of_floats_are_not_copied(A):
    view = View("x", A)
    assert np.shares_memory(view.rows(slice(2, 5)), A)
    np.testing.assert_array_equal(view.rows(np.array([3, 1])), A[[3, 1]])


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csr_matrix])
@pytest.mark.parametrize("rows", [slice(2, 5), slice(None), slice(8, 30), slice(4, 4)])
def test_sparse_rows_of_floats_are_not_copied(A, form, rows):
    X = form(np.where(A > 0, A, 0))
    found = View("x", X).rows(rows)
    assert type(found) is form
    np.testing.assert_array_equal(found.toarray(), X.toarray()[rows])
    assert not found.nnz or np.shares_memory(found.data, X.data)


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array, sparse.csc_array])
def test_every_other_row(A, form):
    found = row_slice(form(A), slice(1, 8, 2))
    np.testing.assert_array_equal(found if form is np.asarray else found.toarray(), A[1:8:2])


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (7, 3), (11, 4), (5, 100), (4, 1)])
def test_row_blocks_cover_all_rows_once(n, size):
    blocks = list(row_blocks(n, size))
    assert [i for rows in blocks for i in range(n)[rows]] == list(range(n))
    lengths = [rows.stop - rows.start for rows in blocks]
    assert max(lengths, default=0) <= size
    assert all(lengths[0] - 1 <= length <= lengths[0] for length in lengths)


# Separate views


def test_a_list_a_tuple_and_an_object_array(A, B):
    objects = np.empty(2, dtype=object)
    objects[:] = [A, B]
    for X in ([A, B], (A, B), objects):
        estimator = Estimator()
        views = check(X, estimator=estimator)
        assert views.names == ("view1", "view2")
        assert views.widths == (3, 2)
        assert (views.n, len(views)) == (10, 2)
        assert views[0].array is A and views[1].array is B
        assert estimator.view_names_ == ["view1", "view2"]
        assert estimator.n_features_per_view_ == [3, 2]
        assert estimator.n_features_in_ == 5


def test_views_of_equal_shape_in_an_object_array(A):
    objects = np.empty(2, dtype=object)
    objects[0], objects[1] = A, -A
    assert check(objects).widths == (3, 3)


def test_a_mapping_names_its_views(A, B):
    estimator = Estimator()
    views = check({"text": A, "image": B}, estimator=estimator)
    assert views.names == ("text", "image")
    swapped = check({"image": -B, "text": -A}, estimator=estimator, reset=False)
    assert swapped.names == ("text", "image")
    np.testing.assert_array_equal(swapped[0].array, -A)
    by_position = check([A, B], estimator=estimator, reset=False)
    assert by_position.names == ("text", "image")


def test_names_that_read_the_same_do_not_swallow_a_view(A, B):
    with pytest.raises(ValueError, match=r"'1'"):
        check({1: A, "1": B})


def test_a_list_of_lists_is_one_ordinary_table(A):
    for X in (A.tolist(), list(A), tuple(map(tuple, A))):
        views = check(X)
        assert views.names == ("X",)
        np.testing.assert_array_equal(views[0].array, A)


def test_a_list_with_one_array_is_one_view(A):
    assert check([A]).widths == (3,)


def test_a_view_may_be_a_list_of_lists_beside_an_array(A, B):
    assert check([A, B.tolist()]).widths == (3, 2)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "dok", "lil", "bsr", "dia"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_sparse_of_every_form_is_one_table_or_one_of_the_views(A, form, kind):
    X = getattr(sparse, f"{form}_{kind}")(np.where(A > 0, A, 0))
    for views in (check(X), check([X]), check({"v": X})):
        assert len(views) == 1
        assert views[0].sparse
        assert views[0].array.format == "csr"
        np.testing.assert_array_equal(views[0].array.toarray(), np.where(A > 0, A, 0))


def test_entries_stored_twice_count_as_their_sum_and_the_input_stays():
    X = sparse.csr_array(
        (np.array([1.0, 1.0, 1.0, 2.0]), np.array([0, 0, 1, 1]), np.array([0, 3, 4])), shape=(2, 3)
    )
    for views in (check(X), check([X])):
        np.testing.assert_array_equal(np.sort(views[0].array.data), [1, 2, 2])
        np.testing.assert_array_equal(views[0].array.toarray(), X.toarray())
    assert X.nnz == 4


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16, np.int64, np.uint8, bool])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_data_stay_in_the_users_memory(A, dtype, order):
    X = np.asarray(np.abs(10 * A).astype(dtype), order=order)
    X.setflags(write=False)
    for views in (check([X, X]), check(X)):
        assert np.shares_memory(views[0].array, X)
        assert views[0].array.dtype == dtype


@pytest.mark.memory
def test_the_check_takes_little_memory():
    X = np.ones((2000, 500))
    tracemalloc.start()
    try:
        check([X, X[:, :100]])
        check(X, views=[slice(0, 100), slice(100, 500)])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 0.1 * X.nbytes


# One table


@pytest.mark.parametrize(
    "make", [np.asarray, sparse.csr_array, sparse.csc_matrix, sparse.dok_array]
)
@pytest.mark.parametrize(
    "views",
    [
        [slice(0, 3), slice(3, 5)],
        [[0, 1, 2], [3, 4]],
        (range(3), np.array([3, 4])),
        [[True, True, True, False, False], [-2, -1]],
        {"view1": slice(None, 3), "view2": [3, -1]},
    ],
)
def test_columns_of_a_table(A, B, make, views):
    estimator = Estimator()
    found = check(make(np.hstack([A, B])), views, estimator)
    assert found.names == ("view1", "view2")
    for view, expected in zip(found, (A, B), strict=True):
        array = view.array.toarray() if view.sparse else view.array
        np.testing.assert_array_equal(array, expected)
    assert (estimator.n_features_in_, estimator.n_features_per_view_) == (5, [3, 2])


def test_columns_may_be_shared_reordered_and_left_out(A):
    found = check(A, {"a": [2, 0], "b": slice(None, None, 2), "c": [2]})
    np.testing.assert_array_equal(found[0].array, A[:, [2, 0]])
    np.testing.assert_array_equal(found[1].array, A[:, [0, 2]])
    assert found.widths == (2, 2, 1)


def test_data_frames(A, B):
    pd = pytest.importorskip("pandas")
    columns = ["img_1", "img_2", "img_3", "txt_1", "txt_2"]
    frame = pd.DataFrame(np.hstack([A, B]), columns=columns)
    for views in (
        [columns[:3], columns[3:]],
        {"view1": columns[:3], "view2": columns[3:]},
        [frame.columns[:3], frame.columns[3:]],
        [pd.Series(columns[:3]), pd.Series([3, 4])],
        [slice(0, 3), [3, 4]],
    ):
        estimator = Estimator()
        found = check(frame, views, estimator)
        np.testing.assert_array_equal(found[0].array, A)
        np.testing.assert_array_equal(found[1].array, B)
        assert list(estimator.feature_names_in_) == columns
    found = check(frame, "prefix_")
    assert found.names == ("img", "txt")
    np.testing.assert_array_equal(found[1].array, B)
    assert check(frame.rename(columns=lambda c: c.replace("_", ".")), "prefix.").names == (
        "img",
        "txt",
    )
    assert check([frame[columns[:3]], frame[columns[3:]]]).widths == (3, 2)
    assert check(frame).widths == (5,)
    # One column may be given by its name alone.
    assert check(frame, {"a": "txt_1", "b": columns[:3]}).widths == (1, 3)


def test_columns_of_a_data_frame_with_gaps_in_its_index(A):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(A, index=[5, 3, 99, 7, 1, 0, 2, 50, 51, 52])
    np.testing.assert_array_equal(check({"a": frame})[0].array, A)


def test_split_columns_keeps_slices():
    # A slice of a table is no copy; a list of positions is.
    assert split_columns([slice(1, 3)], 4) == {"view1": slice(1, 3)}


# What is refused


@pytest.mark.parametrize(
    ("views", "message"),
    [
        ("foo", r"views='foo' is not understood.*'prefix_'"),
        ("prefix", r"views='prefix' is not understood.*'prefix_'"),
        ("prefix_", r"views='prefix_' needs column names"),
        ([], r"views= is empty; give at least one"),
        ({}, r"views= is empty; give at least one"),
        (7, r"views=7 is not understood; give"),
        ([slice(3, 3)], r"'view1'.*selects none of 3 columns"),
        ([slice(5, 9)], r"'view1' = slice\(5, 9, None\).*a slice of the 3 columns"),
        ([slice(0, 2), slice(2, 4)], r"'view2'.*a slice of the 3 columns"),
        ([[0], []], r"'view2' selects no column"),
        ([[0, 3]], r"'view1' = \[0, 3\].*between 0 and 2"),
        ([[-4]], r"'view1'.*between 0 and 2"),
        ([[0.5]], r"'view1'.*between 0 and 2"),
        ([["a"]], r"'view1' names columns that X does not have: \['a'\]"),
        ([[True, False]], r"mask of 'view1' has 2 entries for 3 columns"),
        ({"u": [0], "w": [False, False, False]}, r"'w' selects no(ne)?"),
        ([0, [1, 2]], r"'view1'.*0"),
        ([None, [1, 2]], r"'view1'.*None"),
        ([slice("a", "b")], r"'view1'.*slice"),
    ],
)
def test_wrong_views(A, views, message):
    with pytest.raises(ValueError, match=message):
        check(A, views)


def test_a_column_without_the_separator(A):
    pd = pytest.importorskip("pandas")
    with pytest.raises(ValueError, match=r"views='prefix_': column 'age' has no '_'.*drop"):
        check(pd.DataFrame(A, columns=["a_1", "age", "b_1"]), "prefix_")


def test_views_beside_separate_views(A, B):
    with pytest.raises(ValueError, match=r"views=.*2 separate views; drop views="):
        check([A, B], [slice(0, 1)])


@pytest.mark.parametrize("X", [[], (), {}, np.empty(0, dtype=object)])
def test_no_view(X):
    with pytest.raises(ValueError, match=r"X holds no view; give at least one"):
        check(X)


def test_new_data_with_other_views(A, B):
    estimator = Estimator()
    check({"a": A, "b": B}, estimator=estimator)
    with pytest.raises(ValueError, match=r"X has 1 views? but .* fitted on 2: \['a', 'b'\]"):
        check([A], estimator=estimator, reset=False)
    with pytest.raises(ValueError, match=r"\['a', 'c'\].*\['a', 'b'\].*same names"):
        check({"a": A, "c": B}, estimator=estimator, reset=False)
    with pytest.raises(ValueError, match=r"view 'b' has 3 features but .* fitted on 2"):
        check({"a": A, "b": A}, estimator=estimator, reset=False)
    with pytest.raises(ValueError, match=r"1 view.*fitted on 2"):
        check(np.hstack([A, B]), estimator=estimator, reset=False)


def test_min_samples(A):
    for X in ([A[:1]], A[:1], {"a": A[:1]}):
        with pytest.raises(ValueError, match=r"1 sample\(s\).*minimum of 2"):
            check(X, min_samples=2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_large_finite_values_pass(dtype):
    top = np.finfo(dtype).max
    assert check([np.full((5, 2), top, dtype=dtype)]).n == 5  # their sum overflows
    assert check([np.array([[top, -top]], dtype=dtype)]).n == 1
