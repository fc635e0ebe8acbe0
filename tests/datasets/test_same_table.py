"""One table, one result: the same columns in every format give the same views and clusters."""

import csv
import tempfile
import warnings
from pathlib import Path

import numpy as np
import pytest
from dataset_files import put_observations, to_dense
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import io

from omcal import OMCAL
from omcal.datasets import MultiViewData, join_views, load_views, save_views

NEEDS = {"xlsx": "openpyxl", "parquet": "pyarrow", "h5ad": "h5py", "h5ad frame": "h5py"}
NEEDS |= {"h5": "h5py", "zarr": "zarr", "pandas": "pandas", "polars": "polars", "arrow": "pyarrow"}


@st.composite
def tables(draw):
    """Named columns of floats, whole numbers and Booleans in groups, and ids.

    Floats have twelve decimals, which every format keeps to the last bit (Excel stores 16 digits):
    the views are equal, not close, and no label is decided by what a format has rounded off.
    """
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = draw(st.integers(12, 30))
    group = rng.integers(3, size=n)
    kinds = draw(st.lists(st.sampled_from("fibkm"), min_size=2, max_size=6))
    columns = {}
    for j, kind in enumerate(kinds):
        values = np.round(3 * group + rng.normal(size=n), 12)
        columns[f"c{j + 1}"] = {
            "f": values,
            "i": np.rint(values * 7).astype(int) - 50,
            "b": values > 3,
            "k": np.round(values * 1000) * 1000,  # with thousands
            "m": np.round(values, 3),  # with three decimals
        }[kind]
    ids = [f"s{i}" for i in rng.permutation(n)]
    return columns, np.array(ids), np.array(list("uvw"))[group]


def write_text(path, columns, ids, labels, cell=str, separator=","):
    with path.open("w", newline="") as file:
        writer = csv.writer(file, delimiter=separator)
        writer.writerow(["id", *columns, "label"])
        for i, values in enumerate(zip(*columns.values(), strict=True)):
            writer.writerow([ids[i], *map(cell, values), labels[i]])


def german(value):
    return f"{value:.12f}".replace(".", ",") if isinstance(value, float) else str(value)


def with_thousands(value):
    """At least four decimals, so that no number has a second meaning."""
    return f"{value:,.12f}" if isinstance(value, float) else str(value).upper()


def write_excel(path, columns, ids, labels):
    book = pytest.importorskip("openpyxl").Workbook()
    book.active.append(["id", *columns, "label"])
    for i in range(len(ids)):
        cells = [values[i].item() for values in columns.values()]
        book.active.append([str(ids[i]), *cells, str(labels[i])])
    book.save(path)


def write_frame(path, columns, ids, labels):
    """AnnData with a data frame in obsm, column by column."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        put_observations(file, ids, label=labels)
        frame = file.create_group("obsm/table", track_order=True)
        frame["_index"] = np.array(ids, dtype=object)
        frame.attrs["_index"] = "_index"
        for name, values in columns.items():
            frame[name] = values


def load(kind, folder, columns, ids, labels):
    """Write the table as `kind` and read it back."""
    path = folder / f"table.{kind.split()[0]}"
    named = {"id": ids, **columns, "label": labels}
    stacked = np.column_stack(list(columns.values())).astype(float)
    if kind == "csv":
        write_text(path, columns, ids, labels)
    elif kind == "tsv":
        write_text(path, columns, ids, labels, separator="\t")
    elif kind == "csv german":
        write_text(path, columns, ids, labels, german, ";")
    elif kind == "csv thousands":
        write_text(path, columns, ids, labels, with_thousands)
    elif kind == "xlsx":
        write_excel(path, columns, ids, labels)
    elif kind in ("parquet", "arrow"):
        import pyarrow.parquet

        table = pyarrow.table(named)
        if kind == "arrow":
            return join_views({"X": table})
        pyarrow.parquet.write_table(table, path)
    elif kind in ("pandas", "polars"):
        return join_views({"X": pytest.importorskip(kind).DataFrame(named)})
    elif kind == "npz":
        np.savez(path, X=stacked, label=labels, id=ids)
    elif kind == "mat":
        texts = {"label": labels.astype(object)[:, None], "id": ids.astype(object)[:, None]}
        io.savemat(path, {"X": stacked, **texts})
    elif kind == "h5ad frame":
        write_frame(path, columns, ids, labels)
    else:
        save_views(path, MultiViewData({"X": stacked}, labels=labels, ids=ids))
    return load_views(path)


KINDS = ["csv", "tsv", "csv german", "csv thousands", "xlsx", "parquet", "pandas", "polars"]
KINDS += ["arrow", "npz", "mat", "h5ad", "h5ad frame", "h5", "zarr"]


def loaded(kind, table):
    pytest.importorskip(NEEDS.get(kind, "numpy"))
    return load(kind, Path(tempfile.mkdtemp()), *table)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=15, deadline=None)
@given(tables())
def test_every_format_gives_the_same_view(kind, table):
    columns, ids, labels = table
    data = loaded(kind, table)
    (view,) = data.views.values()
    np.testing.assert_array_equal(to_dense(view), np.column_stack(list(columns.values())))
    assert data.ids.tolist() == ids.tolist() and data.labels.tolist() == labels.tolist()


@pytest.mark.long
@settings(max_examples=10, deadline=None)
@given(tables())
def test_every_format_gives_the_same_clusters(table):
    found = {}
    for kind in KINDS:
        view = to_dense(next(iter(loaded(kind, table).views.values())))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # small tables do not always converge
            found[kind] = OMCAL(3, random_state=0).fit([view]).labels_.tolist()
    assert len(set(map(tuple, found.values()))) == 1, found


@pytest.mark.parametrize("kind", ["csv", "xlsx", "parquet", "pandas", "polars", "arrow"])
def test_gaps_and_long_codes_are_the_same(tmp_path, kind):
    """Absent Booleans and numbers, decimals, an empty column, and codes of 17 digits."""
    from decimal import Decimal

    pa = pytest.importorskip("pyarrow")
    columns = {
        "id": ["x", "y", "z"],
        "flag": [True, None, False],
        "count": [4, None, 6],
        "price": [Decimal("1.50"), Decimal("2.25"), None],
        "code": [10**17 + 1, 10**17 + 2, 10**17 + 9],
        "nothing": [None, None, None],
        "f": [0.5, 1.5, 2.5],
    }
    path = tmp_path / f"t.{kind}"
    if kind == "csv":
        with path.open("w", newline="") as file:
            csv.writer(file).writerows([columns, *zip(*columns.values(), strict=True)])
    elif kind == "xlsx":
        book = pytest.importorskip("openpyxl").Workbook()
        for row in [list(columns), *zip(*columns.values(), strict=True)]:
            book.active.append([str(c) if isinstance(c, int) and c > 10**15 else c for c in row])
        book.save(path)
    elif kind == "parquet":
        import pyarrow.parquet

        pyarrow.parquet.write_table(pa.table(columns), path)
    else:
        frame = pa.table(columns) if kind == "arrow" else None
        data = join_views({"X": frame or pytest.importorskip(kind).DataFrame(columns)})
    if kind in ("csv", "xlsx", "parquet"):
        data = load_views(path)
    nan = np.nan
    expected = [[1, 4, 1.5, nan, 0.5], [nan, nan, 2.25, nan, 1.5], [0, 6, nan, nan, 2.5]]
    (view,) = data.views.values()
    np.testing.assert_array_equal(view, expected)
    assert data.ids.tolist() == ["x", "y", "z"]
    assert any("'code'" in note for note in data.notes)
