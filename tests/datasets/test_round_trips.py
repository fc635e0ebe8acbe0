"""What is written is read back, whatever it is called, or it is refused."""

import tempfile
from pathlib import Path

import numpy as np
import pytest
from dataset_files import same_views
from hypothesis import example, given, settings
from hypothesis import strategies as st
from scipy import sparse

from omcal.datasets import DataError, MultiViewData, load_views, save_views

NEEDS = {".parquet": "pyarrow", ".h5": "h5py", ".h5ad": "h5py", ".zarr": "zarr"}
ENDINGS = [".npz", ".mat", ".h5", ".h5ad", ".zarr", ".csv", ".parquet", ""]

# Names that mean something to a reader, a writer or a library.
STRANGE = st.sampled_from(
    ["allow_pickle", "file", "a_train", "a_test", "x_train", "y", "label", "class", "gt", "X"]
    + ["x", "data", "indices", "indptr", "shape", "format", "id", "index", "1", "1_1", "2020"]
    + ["vocab", "a:b", "größe", "a.data", "train", "test", "c1", "obs", "var", "self", "name"]
    + ["c\\d", "c/d"]
)
NAMES = st.one_of(STRANGE, st.text("abé_:. 1", min_size=1, max_size=4))
LABELS = st.sampled_from(
    [None, [1, 2, 1, 2], ["01", "1", "001", "2"], ["a", "", "b", "a"], [0.5, 1.5, 0.5, 2.0]]
)
IDS = st.sampled_from(
    # What could be taken for a gap, a number or a code.
    [["NA", "b", "nan", "none"], ["1.50", "1.5", "2", "3"], ["-1", "1e3", "1", "x"]]
    + [["=cmd()", "-x", "'=it", "@y"], ["a;=HYPERLINK(3)", "a,-x", "\t=x", "b|'@y"]]
    + [["\u00a0a", "a\r", " a", "a"], ["True", "False", "TRUE", "x"], ["1.5", "1,5", "x", "2"]]
    + [None, ["s1", "s2", "10", "2"], ["007", "7", "07", "0"], ["4", "2", "9", "3"]]
)


@st.composite
def data_sets(draw):
    names = draw(st.lists(NAMES, min_size=1, max_size=3, unique=True))
    widths = draw(st.lists(st.integers(1, 3), min_size=len(names), max_size=len(names)))
    rng = np.random.default_rng(draw(st.integers(0, 99)))
    views = {}
    for name, width in zip(names, widths, strict=True):
        view = rng.normal(size=(4, width))
        views[name] = sparse.csr_array(view * (view > 0)) if draw(st.booleans()) else view
    labels, ids = draw(LABELS), draw(IDS)
    return MultiViewData(
        views,
        labels=None if labels is None else np.array(labels),
        ids=None if ids is None else np.array(ids),
    )


def dense(*names, **rest):
    rng = np.random.default_rng(0)
    return MultiViewData({name: rng.normal(size=(4, 1)) for name in names}, **rest)


@pytest.mark.slow
@pytest.mark.parametrize("ending", ENDINGS)
@settings(max_examples=60, deadline=None)
@given(data_sets())
@example(dense("allow_pickle", "file"))
@example(dense("a_train", "a_test"))
@example(dense("a", "b"))
@example(dense("obs", "var"))
@example(dense("obs/x", "mod"))
@example(dense("c\\d", "c/d"))
@example(dense("a", "b", ids=np.array(["\u00a0a", "a\r", " a", "a"])))
@example(dense("y", labels=np.array(["1", "01", "001", "1"])))
@example(dense("data", "indices", "indptr", "shape"))
def test_written_is_read_or_refused(ending, data):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    path = Path(tempfile.mkdtemp()) / f"data{ending}"
    try:
        save_views(path, data)
    except DataError:
        assert not path.exists()
        return
    again = load_views(path)
    assert same_views(again, data)
    if data.labels is None:
        assert again.labels is None
    else:
        np.testing.assert_array_equal(again.labels, data.labels)
    if data.ids is None:
        assert again.ids is None
    else:
        assert again.ids.tolist() == data.ids.tolist()


@pytest.mark.parametrize("ending", ENDINGS)
def test_plain_data_are_never_refused(tmp_path, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    rng = np.random.default_rng(0)
    views = {"image": rng.normal(size=(9, 2)), "text": rng.normal(size=(9, 1))}
    ids = np.array([f"s{i}" for i in range(9)])
    data = MultiViewData(views, labels=np.arange(9) % 3, ids=ids)
    save_views(tmp_path / f"data{ending}", data)
    again = load_views(tmp_path / f"data{ending}")
    assert same_views(again, data) and again.ids.tolist() == ids.tolist()


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(0, 3000), min_size=1, max_size=8, unique=True),
    st.integers(1, 12),
    st.booleans(),
    st.sampled_from(["counts", "fractions", "small"]),
)
def test_a_header_of_numbers_is_never_a_sample(names, n, consecutive, kind):
    """Named by numbers, a table has its own number of samples, or it is asked what is meant."""
    if consecutive:
        names = list(range(names[0], names[0] + len(names)))
    rng = np.random.default_rng(n)
    values = {
        "counts": rng.integers(0, 50, size=(n, len(names))),
        "fractions": rng.normal(size=(n, len(names))),
        "small": rng.integers(0, 3, size=(n, len(names))),
    }[kind]
    path = Path(tempfile.mkdtemp()) / "data.csv"
    lines = [",".join(map(str, row)) for row in [names, *values.tolist()]]
    path.write_text("\n".join(lines) + "\n")
    assert load_views(path, header=True, id=False).n_samples == n
    try:
        data = load_views(path, id=False)
    except DataError:
        with pytest.raises(DataError, match="--header or --no-header"):
            load_views(path, id=False)
        return
    if data.n_samples == n + 1:  # numbers that the columns below have too are a sample
        assert kind != "fractions" and not consecutive
        assert any(values[:, j].min() <= name <= values[:, j].max() for j, name in enumerate(names))
        assert any("there is no header" in note for note in data.notes)
    else:
        np.testing.assert_array_equal(data.views["X"], values)
