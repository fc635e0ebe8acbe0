"""Tables as people have them: headers of numbers, ids, codes, decimal commas, encodings, Excel."""

import numpy as np
import pytest

from omcal.datasets import DataError, describe, load_views
from omcal.datasets._data import Contents
from omcal.datasets._selection import select

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(40, 6)).round(4)


def write(path, header, rows, separator=",", encoding="utf-8"):
    lines = [separator.join(map(str, row)) for row in ([header] if header else []) + list(rows)]
    path.write_text("\n".join(lines) + "\n", encoding=encoding)
    return path


# the first row


@pytest.mark.parametrize("index", [False, True])
@pytest.mark.parametrize("values", [VALUES, (VALUES * 100).astype(int)])
def test_the_default_columns_of_pandas_are_names(tmp_path, index, values):
    pandas = pytest.importorskip("pandas")
    pandas.DataFrame(values).to_csv(tmp_path / "data.csv", index=index)
    data = load_views(tmp_path / "data.csv")
    assert data.n_samples == 40 and np.array_equal(data.views["X"], values)
    assert any("taken as the names" in note for note in data.notes)


@pytest.mark.parametrize(
    ("header", "views"),
    [
        (["1990", "1995", "2000", "2005", "2010", "2015"], {"X": 6}),
        (["1_1", "1_2", "1_3", "2_1", "2_2", "2_3"], {"1": 3, "2": 3}),
    ],
)
def test_years_and_numbered_features_are_names(tmp_path, header, views):
    for values in (VALUES, (VALUES * 100).astype(int)):
        data = load_views(write(tmp_path / "data.csv", header, values))
        assert {name: view.shape[1] for name, view in data.views.items()} == views
        assert data.n_samples == 40 and data.feature_names[next(iter(views))][0] == header[0]


@pytest.mark.parametrize("text", ["1,2\n3,4\n", "0\n1\n0\n", "0,1,2\n5,0,1\n0,9,4\n"])
def test_a_first_row_that_may_be_either_is_asked_about(tmp_path, text):
    (tmp_path / "data.csv").write_text(text)
    with pytest.raises(DataError, match=r"its first row, .* may be the names"):
        load_views(tmp_path / "data.csv")
    n = text.count("\n")
    assert load_views(tmp_path / "data.csv", header=False).n_samples == n
    assert load_views(tmp_path / "data.csv", header=True).n_samples == n - 1


@pytest.mark.parametrize("first", ["5.1,3.5,1.4", "5.1,NA,0.2", "7,7,1", "-1,2,3"])
def test_a_first_row_of_data_is_a_sample(tmp_path, first):
    (tmp_path / "data.csv").write_text(f"{first}\n4.9,3,1\n4.7,3.2,1\n")
    data = load_views(tmp_path / "data.csv")
    assert data.n_samples == 3 and any("there is no header" in note for note in data.notes)


def test_header_is_for_tables_with_one(tmp_path):
    np.savez(tmp_path / "data.npz", a=np.eye(3))
    with pytest.raises(DataError, match="kind NumPy archive; header= is for CSV and Excel"):
        load_views(tmp_path / "data.npz", header=True)


# numbers and codes


def test_classes_that_differ_in_zeros_only(tmp_path):
    rows = [(*row, code) for row, code in zip(VALUES, ["1", "01", "001", "2"] * 10, strict=True)]
    names = [*"abcdef"]
    for name in ("label", "group"):
        data = load_views(write(tmp_path / "d.csv", [*names, name], rows), labels=name)
        assert data.n_classes == 4 and data.labels[:3].tolist() == ["1", "01", "001"]
        assert data.widths == (6,)


def test_codes_are_found_wherever_they_begin(tmp_path, monkeypatch):
    monkeypatch.setattr("omcal.datasets.readers._cells.BLOCK_CELLS", 8)
    codes = ["7", "8", *["12"] * 5, "007"]
    rows = [(code, x / 3) for x, code in enumerate(codes)]
    data = load_views(write(tmp_path / "d.csv", ["group", "a"], rows), labels="group")
    assert data.labels.tolist() == codes and data.widths == (1,)
    # Padded fractions are numbers all the same.
    rows = [(code, x / 3) for x, code in enumerate(["7", "8.5", *["12"] * 5, "007"])]
    data = load_views(write(tmp_path / "d.csv", ["group", "a"], rows))
    assert data.views["X"][:, 0].tolist() == [7, 8.5, *[12] * 5, 7]


def test_underscores_are_no_numbers(tmp_path):
    (tmp_path / "d.csv").write_text("a,b\n1.5,2\n1_1,3\n")
    with pytest.raises(DataError, match="row 2 has '1_1' in a column of numbers"):
        load_views(tmp_path / "d.csv")


def test_words_for_no_label(tmp_path):
    rows = [(*row, word) for row, word in zip(VALUES, ["a", "NA", "b", "a"] * 10, strict=True)]
    data = load_views(write(tmp_path / "d.csv", [*"abcdef", "label"], rows))
    assert data.n_classes == 2 and "10 samples have no label in 'label'" in data.notes


# separators, decimal marks, encodings


@pytest.mark.parametrize("separator", [";", "\t", ","])
@pytest.mark.parametrize("header", [["größe", *"bcdef"], None])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "latin-1", "utf-16", "utf-16-le"])
def test_decimal_commas_and_encodings(tmp_path, separator, header, encoding):
    quote = '"' if separator == "," else ""
    cells = [[f"{quote}{x}{quote}".replace(".", ",") for x in row] for row in VALUES]
    data = load_views(write(tmp_path / "d.csv", header, cells, separator, encoding))
    assert np.array_equal(data.views["X"], VALUES)
    if header:
        assert data.feature_names["X"].tolist() == header


def test_letters_of_latin_1_may_come_late(tmp_path):
    rows = [(*row, "plain") for row in VALUES] * 40 + [(*VALUES[0], "Zürich")]
    path = write(tmp_path / "d.csv", [*"abcdef", "label"], rows, encoding="latin-1")
    data = load_views(path)
    assert data.labels[-1] == "Zürich" and "read as CP1252" in data.notes


def test_marks_are_not_mixed(tmp_path):
    (tmp_path / "d.csv").write_text("a;b\n1,5;2\n2.5;3\n")
    with pytest.raises(DataError, match="row 1 has '1,5' in a column of numbers"):
        load_views(tmp_path / "d.csv")


# ids


@pytest.mark.parametrize(
    ("name", "ids"),
    [
        ("id", [1000 + 3 * i for i in range(40)]),
        ("id", list(range(1, 41))),
        ("sample_id", [f"s{i}" for i in range(40)]),
        ("ImageID", [10**17 + i for i in range(40)]),
        ("barcode", [f"{i:03d}" for i in range(40)]),
        ("filename", [f"{i}.png" for i in range(40)]),
    ],
)
def test_ids_are_ids(tmp_path, name, ids):
    rows = [(i, *row) for i, row in zip(ids, VALUES, strict=True)]
    path = write(tmp_path / "d.csv", [name, "a_1", "a_2", "a_3", "b_1", "b_2", "b_3"], rows)
    data = load_views(path)
    assert data.id_name == name and data.ids.tolist() == [str(i) for i in ids]
    assert data.widths == (3, 3) and describe(path)["ids"] == name


def test_a_column_that_numbers_the_rows_is_no_feature(tmp_path):
    rows = [(i, *row) for i, row in enumerate(VALUES)]
    path = write(tmp_path / "d.csv", ["time", *"abcdef"], rows)
    data = load_views(path)
    assert data.widths == (6,) and data.ids is None
    assert any("'time' (--id none" in note for note in data.notes)
    assert load_views(path, id=False).widths == (7,)
    assert load_views(path, id="time").ids[:2].tolist() == ["0", "1"]


def test_ids_that_repeat(tmp_path):
    rows = [(i // 2, *row) for i, row in enumerate(VALUES)]
    path = write(tmp_path / "d.csv", ["patient_id", *"abcdef"], rows)
    data = load_views(path)
    assert data.ids is None and data.widths == (6,)
    assert any("'patient_id'" in note for note in data.notes)
    with pytest.raises(
        DataError, match="20 ids are there more than once in 'patient_id': '0', '1'"
    ):
        load_views(path, id="patient_id")
    with pytest.raises(DataError, match="id='nothing' is not in it"):
        load_views(path, id="nothing")
    with pytest.raises(DataError, match="no ids were found"):
        load_views(path, id=True)


def test_ids_of_arrays(tmp_path):
    ids = np.array([f"s{i}" for i in range(40)])
    np.savez(tmp_path / "d.npz", a=VALUES, ids=ids, other=np.arange(40) % 3)
    data = load_views(tmp_path / "d.npz")
    assert data.ids.tolist() == ids.tolist() and data.id_name == "ids"
    assert load_views(tmp_path / "d.npz", id=False).ids is None


def test_the_index_of_pandas_in_parquet(tmp_path):
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    names = [f"s{i}" for i in range(40)]
    frame = pandas.DataFrame(VALUES, columns=[*"abcdef"], index=names)
    frame.to_parquet(tmp_path / "d.parquet")
    assert load_views(tmp_path / "d.parquet").ids.tolist() == names


def test_a_table_of_features_by_samples(tmp_path):
    header = ["gene", *(f"cell{j}" for j in range(6))]
    rows = [(f"g{i}", *row) for i, row in enumerate(VALUES)]
    path = write(tmp_path / "d.csv", header, rows)
    data = load_views(path, transpose=True)
    assert np.array_equal(data.views["X"], VALUES.T) and data.ids.tolist() == header[1:]


# Excel


@pytest.fixture
def workbook(tmp_path):
    openpyxl = pytest.importorskip("openpyxl", reason="the extra io is not installed")
    book = openpyxl.Workbook()
    book.remove(book.active)

    def make(sheets):
        for title, rows in sheets.items():
            sheet = book.create_sheet(title)
            for row in rows:
                sheet.append(row)
        book.save(tmp_path / "book.xlsx")
        return tmp_path / "book.xlsx"

    return make


def test_each_sheet_is_a_view(workbook):
    ids = [f"s{i}" for i in range(40)]
    image = [(i, *map(float, row[:4])) for i, row in zip(ids, VALUES, strict=True)]
    text = [(i, *map(float, row[4:])) for i, row in zip(ids, VALUES, strict=True)][:4:-1]
    path = workbook(
        {
            "image": [("id", *"abcd"), *image],
            "text": [("id", "e", "f"), *text],
            "about": [("id", "class"), *((i, f"c{j % 3}") for j, i in enumerate(ids))],
            "empty": [],
        }
    )
    data = load_views(path)
    assert list(data.views) == ["image", "text"] and data.ids.tolist() == ids
    assert np.array_equal(data.views["image"], VALUES[:, :4])
    assert np.array_equal(data.views["text"][5:], VALUES[5:, 4:])
    assert data.present["text"].tolist() == [False] * 5 + [True] * 35
    assert data.labels[:4].tolist() == ["c0", "c1", "c2", "c0"]
    assert list(load_views(path, views=["text"]).views) == ["text"]


def test_one_sheet_is_a_table_like_others(workbook):
    path = workbook(
        {"Sheet1": [("a_1", "a_2", "b_1", "label"), *((1, 2.5, i, "x") for i in (4, 7))]}
    )
    data = load_views(path)
    assert {name: view.tolist() for name, view in data.views.items()} == {
        "a": [[1, 2.5], [1, 2.5]],
        "b": [[4], [7]],
    }
    assert data.labels.tolist() == ["x", "x"]


# files that are something else


def test_a_file_is_named_as_what_it_is(tmp_path):
    import zipfile

    with zipfile.ZipFile(tmp_path / "data.xlsx", "w") as archive:
        archive.writestr("word/document.xml", "<w/>")
    (tmp_path / "data.mat").write_text("<!DOCTYPE html><html>404</html>")
    (tmp_path / "old.xlsx").write_bytes(b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))
    for name, kind in {
        "data.xlsx": "a Word document",
        "data.mat": "a page of HTML",
        "old.xlsx": r"old kind, \.xls",
    }.items():
        with pytest.raises(DataError, match=f"this is {kind}" if kind[0] == "a" else kind):
            load_views(tmp_path / name)
    write(tmp_path / "table.mat", [*"abcdef"], VALUES)
    assert load_views(tmp_path / "table.mat").source == "CSV, table.mat"


# ids and names that were lost, and tables the wrong way round


def test_a_column_of_fractions_called_id_is_no_feature(tmp_path):
    rows = [(round(i + 0.5, 1), *row) for i, row in enumerate(VALUES)]
    path = write(tmp_path / "d.csv", ["id", *"abcdef"], rows)
    data = load_views(path)
    assert data.widths == (6,) and data.ids is None
    (note,) = [note for note in data.notes if note.startswith("columns that are neither")]
    assert "'id' (--id none, id=False" in note
    assert load_views(path, id=False).widths == (7,)
    assert load_views(path, id="id").ids[:2].tolist() == ["0.5", "1.5"]


def test_one_note_on_the_index_that_joins(tmp_path):
    rows = [(i + 7, *row) for i, row in enumerate(VALUES)]
    for name, features in {"a": "abcdef", "b": "ghijkl"}.items():
        write(tmp_path / f"{name}.csv", ["", *features], rows)
    data = load_views([tmp_path / "a.csv", tmp_path / "b.csv"])
    assert data.notes == ("joined by 'index': 40 samples, 40 in every table; a has 40, b 40",)


def test_ids_are_not_stripped(tmp_path):
    rows = [('"\u00a0a"', 1.5), ('"a\r"', 2.5), ('" a"', 4), ("a", 5)]
    path = tmp_path / "d.csv"
    path.write_bytes("\n".join(f"{i},{x}" for i, x in [("id", "v"), *rows]).encode())
    assert load_views(path).ids.tolist() == ["\u00a0a", "a\r", " a", "a"]


def test_a_blank_after_every_separator_belongs_to_no_cell(tmp_path):
    (tmp_path / "d.csv").write_text('v, id, w\n1.5, s1, 2\n2.5, "s,2", 3\n')
    data = load_views(tmp_path / "d.csv")
    assert data.ids.tolist() == ["s1", "s,2"] and data.widths == (2,)


def test_nul_in_a_name_is_refused(tmp_path):
    views = {"a": VALUES, "b": VALUES}
    for extra in ({"view_names": ["a", "b\0b"]}, {"y": ["k\0l", *"m" * 39]}):
        arrays = {"b\0b" if "view_names" in extra and k == "b" else k: v for k, v in views.items()}
        contents = {k: np.array(v) for k, v in {**arrays, **extra}.items()}
        with pytest.raises(DataError, match=r"\\x00.* holds a NUL character"):
            select(Contents("test", contents), tmp_path / "d")


@pytest.fixture
def turned(tmp_path):
    """Two tables of features by samples, and the labels of the samples."""
    cells = [f"cell{j}" for j in range(6)]
    for name, n in {"rna": 40, "protein": 9}.items():
        rows = [(f"{name}{i}", *row) for i, row in enumerate(VALUES[:n])]
        write(tmp_path / f"{name}.csv", ["feature", *cells], rows)
    write(tmp_path / "truth.csv", ["id", "label"], [(cell, f"k{cell[-1]}") for cell in cells])
    write(tmp_path / "plain.csv", ["label"], [[f"k{j}"] for j in range(6)])
    write(tmp_path / "atac.csv", ["id", "p", "q"], [(c, 0.5, j * j) for j, c in enumerate(cells)])
    return tmp_path


@pytest.mark.parametrize("names", [("rna", "protein"), ("rna", "atac")])
def test_turned_tables_are_advised_to_be_turned(turned, names):
    with pytest.raises(
        DataError, match=r"are called (the same|like samples).*--transpose"
    ) as error:
        load_views([turned / f"{name}.csv" for name in names])
    assert "--id" not in str(error.value)


@pytest.mark.parametrize("labels", ["truth", "plain"])
def test_labels_of_a_turned_table(turned, labels):
    with pytest.raises(DataError, match=r"the data.*--transpose"):
        load_views(turned / "rna.csv", labels=turned / f"{labels}.csv")
    data = load_views(turned / "rna.csv", labels=turned / f"{labels}.csv", transpose=True)
    assert data.labels.tolist() == [f"k{j}" for j in range(6)]
