"""One way in: names of features, pairing of rows, and the same labels whatever the form."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_array_equal
from scipy import sparse

import omcal
from omcal import OMCAL
from omcal.datasets import DataError, MultiViewData, join_views, load_views, make_multiview
from omcal.metrics import ari
from omcal.views.adapt import NamedViews
from omcal.views.pair import Ids, Member, PairingError, pair

MADE = make_multiview(150, n_clusters=3, n_views=2, n_features=4, noise=0.5, random_state=0)
A, B = MADE.views.values()
NAMES = ["f0", "f1", "f2", "f3"]
IDS = np.array([f"s{i:03d}" for i in range(150)])


def model():
    return OMCAL(3, n_anchors=12, random_state=0)


def write(path, view, names, ids=None):
    """A CSV file of a view."""
    lines = [",".join([*(["id"] if ids is not None else []), *names])]
    for i, row in enumerate(view):
        lines.append(",".join([*([ids[i]] if ids is not None else []), *map(repr, row.tolist())]))
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture
def pd():
    return pytest.importorskip("pandas")


@pytest.fixture
def frames(pd):
    return pd.DataFrame(A).add_prefix("a"), pd.DataFrame(B).add_prefix("b")


# Names of features


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_columns_of_files_are_compared_by_name(tmp_path, ending):
    pd = pytest.importorskip("pandas")
    names = ["height", "age", "mass", "pulse"]
    table = pd.DataFrame(A * [1, 10, 100, 1000], columns=names)

    def written(frame):
        path = tmp_path / f"table.{ending}"
        frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path, index=False)
        return load_views(path).views

    fitted = model().fit(written(table))
    fitted.save(tmp_path / "model.omcal")
    for one in (fitted, omcal.load(tmp_path / "model.omcal")):
        expected = one.predict(written(table))
        assert_array_equal(one.predict(written(table[names[::-1]])), expected)
        with pytest.raises(ValueError, match=r"'age' missing, 'agee' not in fit; 'age' may be"):
            one.predict(written(table.rename(columns={"age": "agee"})))
        with pytest.raises(ValueError, match=r"'extra' not in fit"):
            one.predict(written(table.assign(extra=0.5)))
        with pytest.warns(UserWarning, match=r"'X' has no names .* taken to be in the same order"):
            assert_array_equal(one.predict({"X": table.to_numpy()}), expected)


def test_sparse_files_keep_absent_samples_on_their_way_to_fit():
    present = {"b": np.arange(150) % 5 > 0}
    data = MultiViewData(
        {"a": A, "b": sparse.csr_array(B * present["b"][:, None])}, present=present
    )
    expected = model().fit(dict(data.views), present=present).labels_
    assert_array_equal(model().fit(data.views).labels_, expected)


def test_names_of_a_table_decide_also_where_views_are_positions(pd, frames):
    table = pd.concat(frames, axis=1)
    fitted = model().set_params(views=[slice(0, 4), slice(4, 8)]).fit(table)
    expected = fitted.predict(table)
    assert_array_equal(fitted.predict(table[list(table)[::-1]]), expected)
    assert_array_equal(fitted.predict(table.assign(comment="none")), expected)


def test_columns_that_no_view_names_are_left_alone(pd, frames):
    table = pd.concat(frames, axis=1).assign(name="someone", when=pd.Timestamp("2020-01-01"))
    views = {"a": list(frames[0]), "b": list(frames[1])}
    fitted = model().set_params(views=views).fit(table)
    assert_array_equal(fitted.labels_, model().fit([A, B]).labels_)
    typo = {"a": ["a0", "a11"], "b": list(frames[1])}
    with pytest.raises(ValueError, match=r"does not have: \['a11'\]; 'a11' may be 'a1'; available"):
        model().set_params(views=typo).fit(table)


# Rows


def off_by_one(A, B):
    return {"A": A.drop(149), "B": B.drop(0)}


def shifted(A, B):
    return {"A": A.iloc[:140], "B": B.iloc[10:]}


def sampled(A, B):
    return {"A": A.iloc[:140], "B": B.sample(140, random_state=0)}


@pytest.mark.parametrize("cut", [off_by_one, shifted, sampled])
def test_frames_of_different_rows_are_refused_and_joined(frames, cut):
    tables = cut(*frames)
    with pytest.raises(ValueError, match=r"\d+ samples are in both, \d+ only in 'A'.*join_views"):
        model().fit(tables)
    data = join_views(tables)
    assert data.n_samples == 150 and data.present is not None
    found = model().fit(data.views).labels_
    assert ari(found, MADE.labels[data.ids.astype(int)]) > 0.9


def test_a_shuffled_frame_is_joined_by_its_index_everywhere(pd, frames, tmp_path):
    turned = frames[1].sample(frac=1, random_state=0)
    tables = {"A": frames[0], "B": turned}
    expected = model().fit({"A": A, "B": B}).labels_
    assert_array_equal(model().fit(tables).labels_, expected)
    joined = join_views(tables)
    assert_array_equal(joined.views["B"], B)
    assert joined.ids.tolist() == [str(i) for i in range(150)]
    pytest.importorskip("pyarrow")
    for ending in ("csv", "parquet"):
        paths = [tmp_path / f"{name}.{ending}" for name in tables]
        for path, table in zip(paths, tables.values(), strict=True):
            table.to_csv(path) if ending == "csv" else table.to_parquet(path)
        data = load_views(paths)
        assert_array_equal(data.views["B"], B)
        assert data.ids.tolist() == joined.ids.tolist()
        assert not any("left out" in note for note in data.notes), data.notes


def test_an_index_in_an_arrow_table_is_ids_and_no_feature(pd, frames):
    pa = pytest.importorskip("pyarrow")
    turned = frames[1].sample(frac=1, random_state=0)
    tables = [pa.Table.from_pandas(frames[0]), pa.Table.from_pandas(turned)]
    fitted = model().fit(tables)
    assert fitted.n_features_per_view_ == [4, 4]
    assert_array_equal(fitted.labels_, model().fit([A, B]).labels_)


def test_default_indices_of_different_lengths_are_refused(frames):
    with pytest.raises(ValueError, match=r"cannot be joined by id.*A: 150, B: 140"):
        model().fit({"A": frames[0], "B": frames[1].iloc[:140]})
    with pytest.raises(DataError, match=r"cannot be joined by id.*A: 150, B: 140"):
        join_views({"A": frames[0], "B": frames[1].iloc[:140]})


# Ids


@pytest.mark.parametrize("second", ["id", "sample_id"])
@pytest.mark.parametrize(("twice", "why"), [("s001", "more than once"), ("", "have no id")])
def test_repeated_and_empty_ids_are_refused_whatever_they_are_called(tmp_path, second, twice, why):
    bad = IDS.copy()
    bad[7] = twice
    first = write(tmp_path / "a.csv", A, NAMES, IDS)
    other = write(tmp_path / "b.csv", B, NAMES, bad)
    other.write_text(other.read_text().replace("id,", f"{second},", 1))
    with pytest.raises(DataError, match=rf"b\.csv: .*{why} in '{second}'"):
        load_views([first, other])


@pytest.mark.parametrize("spell", [str.upper, lambda i: "s0" + i[1:], lambda i: "\u00a0" + i])
def test_ids_that_are_written_differently_are_told(tmp_path, spell):
    ids = [spell(i) if int(i[1:]) > 20 else i for i in IDS]
    paths = [
        write(tmp_path / "a.csv", A, NAMES, IDS),
        write(tmp_path / "b.csv", B, NAMES, ids),
    ]
    if not any("\u00a0" in i for i in ids):  # the reader of CSV files may strip it
        with pytest.warns(UserWarning, match=r"ids differ only by case.*'s021' and "):
            data = load_views(paths)
        assert "differ only by case" in data.notes[-1]
    tables = [
        Member("a", 150, Ids("id", IDS)),
        Member("b", 150, Ids("id", np.array([spell(i) for i in IDS]))),
    ]
    if spell is str.upper:
        with pytest.raises(PairingError, match=r"150 ids differ only by case.*'s000' and 'S000'"):
            pair(tables, "outer")
    else:
        assert "differ only" in pair_hint(tables)


def pair_hint(tables):
    try:
        return pair(tables, "outer").hint
    except PairingError as error:
        return str(error)


def test_ids_keep_their_spaces():
    ids = ["\u00a0a", "a\r", " a", "a"]
    data = join_views(
        {
            "x": MultiViewData({"x": np.eye(4)}, ids=np.array(ids)),
            "y": MultiViewData({"y": np.eye(4)[::-1]}, ids=np.array(ids[::-1])),
        }
    )
    assert data.ids.tolist() == ids and np.array_equal(data.views["y"], np.eye(4))


def test_a_transposed_table_is_named(pd, frames, tmp_path):
    named = [frame.set_axis(IDS) for frame in frames]
    with pytest.raises(ValueError, match=r"called like samples of A.*Transpose it"):
        model().fit({"A": named[0], "B": named[1].T})
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, frame in zip(paths, named, strict=True):
        frame.T.to_csv(path)
    with pytest.raises(DataError, match=r"columns of a and b are called the same.*--transpose"):
        load_views(paths)
    assert load_views(paths, transpose=True).n_samples == 150


def test_a_transposed_table_with_numbers_for_names_is_named(tmp_path):
    paths = [tmp_path / "a.csv", tmp_path / "b.csv"]
    for path, n in zip(paths, (12, 9), strict=True):
        rows = [["feature", *range(40)], *([f"{path.stem}{i}", *A[:40, 0]] for i in range(n))]
        path.write_text("\n".join(",".join(map(str, row)) for row in rows))
    with pytest.raises(DataError, match=r"called the same \('0', '1'.*--transpose") as error:
        load_views(paths)
    assert "--id" not in str(error.value)
    assert load_views(paths, transpose=True).n_samples == 40


# Errors that help


def test_a_series_and_texts_are_refused_in_a_line(pd):
    with pytest.raises(ValueError, match=r"is a Series of shape \(150,\).*to_frame\(\)"):
        model().fit(pd.Series(A[:, 0]))
    words = [f"document number {i}" for i in range(600)]
    for X in (words, np.array(words), np.array(words, dtype=object)):
        with pytest.raises(ValueError, match="must be 2-D") as caught:
            model().fit(X)
        assert len(str(caught.value)) < 300


def test_loaded_views_can_be_split_by_scikit_learn():
    from sklearn.model_selection import GridSearchCV, train_test_split

    train, test = train_test_split(NamedViews({"a": A, "b": B}), random_state=0)
    assert train["b"].shape == (112, 4) and test.shape == (38, 8)

    def score(fitted, X, y):
        return ari(y, fitted.predict(X))

    search = GridSearchCV(model(), {"gamma": [0.1, 1.0]}, scoring=score, cv=2)
    search.fit(MADE.views, MADE.labels)
    assert search.best_score_ > 0.8


# One result


STORAGE = ["dense", "float32", "fortran", "csr", "csc", "pandas", "polars", "list", "disk"]


def stored(view, kind, name):
    if kind in ("pandas", "polars"):
        frame = pytest.importorskip(kind).DataFrame
        return frame({f"{name}{j}": column for j, column in enumerate(view.T)})
    if kind == "disk":
        path = Path(tempfile.mkdtemp()) / "view.npy"
        np.save(path, view)
        return np.load(path, mmap_mode="r")
    make = {
        "dense": np.asarray,
        "float32": lambda v: v.astype(np.float32),
        "fortran": np.asfortranarray,
        "csr": sparse.csr_array,
        "csc": sparse.csc_matrix,
        "list": lambda v: v.tolist(),
    }
    return make[kind](view)


@settings(max_examples=15, deadline=None, phases=(Phase.generate,))
@given(
    st.permutations(range(3)),
    st.integers(0, 1000),
    st.lists(st.sampled_from(STORAGE), min_size=3, max_size=3),
)
def test_the_same_labels_whatever_the_order_and_the_storage(views, seed, kinds):
    """Rows, columns and views permuted, in any storage: the same clusters of the same samples."""
    rng = np.random.default_rng(seed)
    made = make_multiview(90, n_clusters=3, n_views=3, n_features=4, noise=0.1, random_state=seed)
    arrays = [np.round(view * 64) for view in made.views.values()]
    rows = rng.permutation(90)
    X = {f"v{i}": stored(arrays[i][rows][:, rng.permutation(4)], kinds[i], "f") for i in views}
    labels = OMCAL(3, n_anchors=12, random_state=0).fit(X).labels_
    assert ari(labels, made.labels[rows]) == 1


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 1000), st.sampled_from(["pandas", "polars", "named"]))
def test_new_samples_with_columns_in_any_order(seed, kind):
    rng = np.random.default_rng(seed)
    fitted = OMCAL(3, n_anchors=9, random_state=0).fit(named_views(kind, [np.arange(4)] * 2))
    orders = [rng.permutation(4) for _ in range(2)]
    expected = fitted.predict(named_views(kind, [np.arange(4)] * 2))
    assert_array_equal(fitted.predict(named_views(kind, orders)), expected)


def named_views(kind, orders):
    arrays = {"a": A[:90], "b": B[:90]}
    names = {v: [f"{v}{j}" for j in order] for v, order in zip(arrays, orders, strict=True)}
    parts = {v: arrays[v][:, order] for v, order in zip(arrays, orders, strict=True)}
    if kind == "named":
        return NamedViews(parts, names)
    frame = pytest.importorskip(kind).DataFrame
    return {v: frame(dict(zip(names[v], parts[v].T, strict=True))) for v in parts}
