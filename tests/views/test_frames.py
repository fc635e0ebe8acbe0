"""pandas and polars data frames with views= as a rule, a mapping or a list."""

import zipfile

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omcal import OCAL, OMCAL
from omcal.baselines import ConcatKMeans
from omcal.datasets import make_multiview

MADE = make_multiview(150, n_clusters=3, n_views=2, n_features=4, random_state=0)
A, B = MADE.views.values()
NAMES = [f"a_{j}" for j in range(4)] + [f"b_{j}" for j in range(4)]


@pytest.fixture(params=["pandas", "polars"])
def make(request):
    """Data frame from columns by name."""
    return pytest.importorskip(request.param).DataFrame


@pytest.fixture
def frame(make):
    return make(dict(zip(NAMES, np.hstack([A, B]).T, strict=True)))


def labels_of_arrays(views, **params):
    return OMCAL(3, random_state=0, **params).fit(views).labels_


@pytest.mark.sampled
@pytest.mark.parametrize(
    "views",
    [
        "prefix_",
        {"a": NAMES[:4], "b": NAMES[4:]},
        {"a": slice(0, 4), "b": slice(4, 8)},
        [list(range(4)), [4, 5, 6, 7]],
        [NAMES[:4], [f"b_{j}" for j in range(4)]],
    ],
)
def test_views_of_a_frame_are_those_of_its_arrays(frame, views):
    model = OMCAL(3, views=views, random_state=0).fit(frame)
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    assert model.view_names_ == (["view1", "view2"] if isinstance(views, list) else ["a", "b"])
    assert list(model.feature_names_in_) == NAMES
    assert_array_equal(model.predict(frame), model.predict(frame[NAMES]))


def test_positions_that_are_names_of_other_columns_are_refused():
    """After the first column is dropped, the column called 1 is at position 0."""
    pd = pytest.importorskip("pandas")
    table = pd.DataFrame(np.hstack([A, B]))
    views = {"a": [0, 1, 2, 3], "b": np.arange(4, 8)}
    model = OMCAL(3, views=views, random_state=0).fit(table)
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    rest = table.drop(columns=0)
    for wrong in ({"a": [1, 2, 3]}, {"a": np.arange(1, 3)}, [[1], ["2"]]):
        with pytest.raises(ValueError, match=r"names at other positions: 1.*; give names"):
            OMCAL(3, views=wrong).fit(rest)
    named = OMCAL(3, views={"a": ["1", "2", "3"], "b": slice(3, 7)}, random_state=0).fit(rest)
    assert named._view_columns == [("1", "2", "3"), ("4", "5", "6", "7")]


def test_a_lazy_frame_is_to_be_collected():
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame(A)
    for lazy in (frame.lazy(), {"a": frame.lazy()}, frame.with_columns(word=pl.lit("x")).lazy()):
        with pytest.raises(ValueError, match=r"is a LazyFrame, .*; pass its \.collect"):
            OMCAL(3).fit(lazy)


def test_other_separators_and_mixed_order(make):
    order = [0, 4, 1, 5, 2, 6, 3, 7]
    columns = {NAMES[j].replace("_", "."): np.hstack([A, B])[:, j] for j in order}
    model = OMCAL(3, views="prefix.", random_state=0).fit(make(columns))
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))


def test_some_columns_only(frame):
    model = OMCAL(3, views={"b": NAMES[4:]}, random_state=0).fit(frame)
    assert_array_equal(model.labels_, labels_of_arrays([B]))


def test_one_view_without_a_rule(frame):
    assert_array_equal(
        OCAL(3, random_state=0).fit(frame).labels_,
        OCAL(3, random_state=0).fit(np.hstack([A, B])).labels_,
    )


def test_separate_frames(make):
    frames = [
        make(dict(zip(NAMES[:4], A.T, strict=True))),
        make(dict(zip(NAMES[4:], B.T, strict=True))),
    ]
    model = OMCAL(3, random_state=0).fit(frames)
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    by_name = OMCAL(3, random_state=0).fit({"a": frames[0], "b": frames[1]})
    assert by_name.view_names_ == ["a", "b"]
    turned = [frames[0][NAMES[:4][::-1]], frames[1]]
    assert_array_equal(model.predict(turned), model.predict(frames))
    for columns in (["a_0", "a_1", "a_2"], [*NAMES[:4], "b_0"]):
        other = make({name: np.hstack([A, B])[:, NAMES.index(name)] for name in columns})
        wrong = "'a_3' missing" if len(columns) == 3 else "'b_0' not in fit"
        with pytest.raises(ValueError, match=f"columns of view 'view1'.*{wrong}"):
            model.predict([other, frames[1]])


def test_whole_numbers_and_float32(make):
    whole = np.round(np.hstack([A, B]) * 10).astype(np.int64)
    columns = {
        n: c.astype(np.float32 if i % 2 else np.int64)
        for i, (n, c) in enumerate(zip(NAMES, whole.T, strict=True))
    }
    model = OMCAL(3, views="prefix_", random_state=0).fit(make(columns))
    assert_array_equal(model.labels_, labels_of_arrays([whole[:, :4], whole[:, 4:]]))


def test_other_columns_at_prediction_are_an_error(frame, make):
    model = OMCAL(3, views="prefix_", random_state=0).fit(frame)
    expected = model.predict(frame)
    assert_array_equal(model.predict(frame[NAMES[::-1]]), expected)
    renamed = make(dict(zip([f"x{name}" for name in NAMES], np.hstack([A, B]).T, strict=True)))
    with pytest.raises(ValueError, match=r"feature names.*'a_0', .*missing, 'xa_0', .*not in fit"):
        model.predict(renamed)
    with pytest.raises(ValueError, match=r"'b_3' missing\. Give the columns of fit"):
        model.predict(frame[NAMES[:-1]])


def test_text_missing_values_and_bare_columns_are_named(make):
    columns = dict(zip(NAMES, np.hstack([A, B]).T, strict=True))
    with pytest.raises(ValueError, match="'age' has no '_' between"):
        OMCAL(3, views="prefix_").fit(make({**columns, "age": A[:, 0]}))
    holed = A[:, 0].copy()
    holed[3] = np.nan
    with pytest.warns(UserWarning, match="view 'a' lacks 1 of its values"):
        OMCAL(3, views="prefix_", random_state=0).fit(make({**columns, "a_0": holed}))
    with pytest.warns(UserWarning, match=r"columns left out: 'a_0' \(constant\)"):
        OMCAL(3, views="prefix_", random_state=0).fit(make({**columns, "a_0": ["text"] * 150}))


def test_nulls_of_polars_are_missing_values():
    polars = pytest.importorskip("polars")
    columns = dict(zip(NAMES, np.hstack([A, B]).T.tolist(), strict=True))
    columns["b_2"][7] = None
    with pytest.warns(UserWarning, match="view 'b' lacks 1 of its values"):
        OMCAL(3, views="prefix_", random_state=0).fit(polars.DataFrame(columns))


def test_the_soft_indicator_as_a_frame(frame, make):
    model = OMCAL(3, views="prefix_", random_state=0).fit(frame)
    library = make.__module__.partition(".")[0]
    model.set_output(transform=library)
    soft = model.transform(frame)
    assert type(soft).__module__.startswith(library)
    assert list(soft.columns) == ["omcal0", "omcal1", "omcal2"]


# the index of pandas


def with_index(view, names, order=None):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(view, index=names)
    return frame if order is None else frame.iloc[order]


NAMED = [f"sample {i}" for i in range(150)]
ORDER = np.random.default_rng(0).permutation(150)


@pytest.mark.sampled
@pytest.mark.parametrize("names", [NAMED, range(150), range(1000, 1150)])
def test_frames_in_another_order_are_aligned(names):
    frames = {"a": with_index(A, names), "b": with_index(B, names, ORDER)}
    model = OMCAL(3, random_state=0).fit(frames)
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    assert_array_equal(model.predict(frames), model.predict({"a": A, "b": B}))
    # The first view says in which order the labels are.
    turned = OMCAL(3, random_state=0).fit({"a": with_index(A, names, ORDER), "b": frames["b"]})
    assert_array_equal(turned.labels_, labels_of_arrays([A[ORDER], B[ORDER]]))


@pytest.mark.slow
def test_a_frame_that_is_merely_numbered_pairs_by_position():
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame
    for views in ([frame(A), frame(B)], [frame(A), B], [with_index(A, NAMED), B]):
        model = OMCAL(3, random_state=0).fit(views)
        assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    # Beside an index of names its numbers are names, too: nothing says that row i is row i.
    with pytest.raises(ValueError, match=r"no id of view1.*'sample 0'.*'0'.*reset_index"):
        OMCAL(3).fit([with_index(A, NAMED), frame(B)])


def test_an_index_with_repeats_is_one_if_it_is_the_same_everywhere():
    names = NAMED[:75] * 2
    model = OMCAL(3, random_state=0).fit([with_index(A, names), with_index(B, names)])
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    with pytest.raises(ValueError, match=r"75 ids .* once in the ids of 'view1': 'sample 0'"):
        OMCAL(3).fit([with_index(A, names), with_index(B, NAMED)])


def test_frames_of_other_samples_are_refused_with_the_counts():
    frames = {"a": with_index(A, NAMED).iloc[:140], "b": with_index(B, NAMED).iloc[20:]}
    message = r"120 samples are in both, 20 only in 'a', 10 only in 'b'.*join_views"
    with pytest.raises(ValueError, match=message):
        OMCAL(3).fit(frames)
    with pytest.raises(ValueError, match=message):
        ConcatKMeans(3).fit(frames)


def test_rows_that_cannot_be_told_are_refused():
    pandas = pytest.importorskip("pandas")
    frames = [with_index(A, NAMED), with_index(B, NAMED, ORDER)]
    for other, why in (
        (A, "'view3' cannot be joined by id, because there is none in it"),
        (pandas.DataFrame(A), "no id of view3 is in another table"),
    ):
        with pytest.raises(ValueError, match=why):
            OMCAL(3).fit([*frames, other])
    with pytest.raises(ValueError, match="present= does not say"):
        OMCAL(3).fit(frames, present=[None, np.arange(150) > 3])


# pyarrow


@pytest.mark.parametrize("kind", ["Table", "RecordBatch"])
def test_names_of_arrow_tables_are_names(kind, tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    make = getattr(pyarrow, kind).from_pydict
    whole = make(dict(zip(NAMES, np.hstack([A, B]).T, strict=True)))
    model = OMCAL(3, views="prefix_", random_state=0).fit(whole)
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    if kind == "Table":  # scikit-learn knows no names of record batches
        assert list(model.feature_names_in_) == NAMES
    separate = [whole.select(NAMES[:4]), whole.select(NAMES[4:])]
    model = OMCAL(3, random_state=0).fit(separate)
    assert_array_equal(model.labels_, labels_of_arrays([A, B]))
    model.save(tmp_path / "model.omcal")
    with zipfile.ZipFile(tmp_path / "model.omcal") as saved:
        header = saved.read("model.json").decode()
    assert '"a_0"' in header and str(A[0, 0])[:8] not in header
    turned = [whole.select(NAMES[3::-1]), separate[1]]
    assert_array_equal(model.predict(turned), model.predict(separate))
    with pytest.raises(ValueError, match=r"columns of view 'view1'.*'a_3' missing"):
        model.predict([whole.select(NAMES[:3]), separate[1]])


@pytest.mark.filterwarnings("ignore:view 'view.' contradicts")  # one is numbered
def test_text_and_nulls_in_arrow_tables():
    pyarrow = pytest.importorskip("pyarrow")
    text = pyarrow.table({"a": A[:, 0], "word": ["x"] * 150})
    with pytest.warns(UserWarning, match=r"columns left out: 'word' \(constant\)"):
        assert OMCAL(3, random_state=0).fit([A, text]).n_features_per_view_ == [4, 1]
    holed = pyarrow.table({"a": [None, *range(149)], "b": B[:, 0]})
    with pytest.warns(UserWarning, match="view 'view2' lacks 1 of its values"):
        OMCAL(3, random_state=0).fit([A, holed])


def test_numbers_in_columns_of_objects_are_read():
    pd = pytest.importorskip("pandas", reason="pandas is not installed")
    X = np.random.default_rng(0).normal(size=(40, 3))
    frame = pd.DataFrame(X).astype({0: object})
    expected = OCAL(2, random_state=0).fit(X).labels_
    assert_array_equal(OCAL(2, random_state=0).fit(frame).labels_, expected)
