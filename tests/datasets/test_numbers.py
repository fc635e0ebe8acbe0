"""Decimal marks, thousands separators and Booleans in text tables: read, or refused by name."""

import re
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from omcal.datasets import DataError, load_views


def write(path, names, rows, separator):
    """A text table; cells that hold the separator are quoted."""
    quoted = [[f'"{cell}"' if separator in cell else cell for cell in row] for row in rows]
    lines = [separator.join(row) for row in [names, *quoted]]
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(params=[",", ";", "\t"])
def separator(request):
    return request.param


def test_a_comma_that_may_separate_thousands_is_refused(tmp_path, separator):
    path = write(tmp_path / "d.csv", ["a", "b"], [["1,234", "5"], ["999", "7"]], separator)
    with pytest.raises(DataError, match=r"row 1 has '1,234', which may be 1234 or 1\.234"):
        load_views(path)


@pytest.mark.parametrize(
    ("cells", "values", "note"),
    [
        (["1,234", "1.5"], [1234, 1.5], "thousands separator ',': '1,234' was read as 1234"),
        (["1,234,567", "2"], [1234567, 2], "thousands separator ',': '1,234,567' was read as"),
        (["-1,234.5", "2"], [-1234.5, 2], "thousands separator ',': '-1,234.5' was read as"),
        (["1.234", "1,5"], [1234, 1.5], "thousands separator '.': '1.234' was read as 1234"),
        (["1.234,5", "2"], [1234.5, 2], "decimal mark ',': '1.234,5' was read as 1234.5"),
        (["1,234", "0,5"], [1.234, 0.5], "decimal mark ',': '0,5' was read as 0.5"),
        (["1,234", "0,123"], [1.234, 0.123], "decimal mark ',': '0,123' was read as 0.123"),
        (["1,234", "1234,567"], [1.234, 1234.567], "decimal mark ',': '1234,567' was read as"),
        (["1.234", "999"], [1.234, 999], "decimal mark '.': '1.234' was read as 1.234"),
        (["1,5e3", "2"], [1500, 2], "decimal mark ',': '1,5e3' was read as 1.5e3"),
    ],
)
def test_the_other_numbers_tell_which_mark_is_which(tmp_path, separator, cells, values, note):
    rows = [[cell, str(3 * i)] for i, cell in enumerate(cells)]
    data = load_views(write(tmp_path / "d.csv", ["a", "b"], rows, separator))
    assert data.views["X"][:, 0].tolist() == values
    assert any(said.startswith(note) for said in data.notes)


@pytest.mark.sampled
@pytest.mark.parametrize("block", [2, 2**20])
@pytest.mark.parametrize("late", ["0.5", "0,5"])
def test_all_rows_decide(tmp_path, separator, monkeypatch, block, late):
    """Whether the number that decides is in the first block of rows or in the last."""
    monkeypatch.setattr("omcal.datasets.readers._cells.BLOCK_CELLS", block)
    cells = ["1,234", *["999"] * 1500, late]
    path = write(tmp_path / "d.csv", ["a", "b"], [[c, "7"] for c in cells], separator)
    column = load_views(path).views["X"][:, 0]
    assert column[[0, 1, -1]].tolist() == [1234 if late == "0.5" else 1.234, 999, 0.5]


@pytest.mark.parametrize("block", [2, 2**20])
def test_points_are_decimal_marks_unless_commas_are(tmp_path, separator, monkeypatch, block):
    monkeypatch.setattr("omcal.datasets.readers._cells.BLOCK_CELLS", block)
    rows = [["1.234", "5"], ["22.500", "7"]]
    data = load_views(write(tmp_path / "d.csv", ["a", "b"], rows, separator))
    assert data.views["X"][:, 0].tolist() == [1.234, 22.5]
    assert data.notes == ("decimal mark '.': '1.234' was read as 1.234",)
    data = load_views(write(tmp_path / "d.csv", ["a", "b"], [*rows, ["0,5", "8"]], separator))
    assert data.views["X"][:, 0].tolist() == [1234, 22500, 0.5]


def test_ids_and_texts_with_commas_stay_as_they_are(tmp_path):
    rows = [["1,5", "1,234", "0.5", "7"], ["2,5", "Bonn, Rhein", "1.5", "9"]]
    data = load_views(write(tmp_path / "d.csv", ["id", "label", "a", "b"], rows, ";"))
    assert data.ids.tolist() == ["1,5", "2,5"] and data.labels.tolist() == ["1,234", "Bonn, Rhein"]


def test_addresses_are_no_numbers(tmp_path):
    rows = [["192.168.100.200", "0.5", "7"], ["10.0.0.1", "1.5", "9"]]
    data = load_views(write(tmp_path / "d.csv", ["host", "a", "b"], rows, ","))
    assert data.widths == (2,) and any("'host'" in note for note in data.notes)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(-(10**9), 10**9), min_size=3, max_size=12),
    st.sampled_from([(",", "."), (".", ","), ("", "."), ("", ",")]),
    st.sampled_from(",;\t"),
    st.integers(0, 4),
)
@example([1234, 999, 5], (",", "."), ";", 0)
@example([1234, 999, 5], (".", ","), ";", 0)
@example([1234, 2500, 7001], ("", ","), "\t", 3)
def test_formatted_numbers_come_back_or_are_refused(units, marks, separator, places):
    """Never another number than was written, whatever the marks."""
    thousands, decimal = marks
    values = [unit / 10**places for unit in units]
    swap = str.maketrans({",": thousands, ".": decimal})
    rows = [[f"{value:,.{places}f}".translate(swap), "7"] for value in values]
    path = write(Path(tempfile.mkdtemp()) / "d.csv", ["a", "b"], rows, separator)
    cells = [row[0] for row in rows]
    clear = [cell for cell in cells if not re.fullmatch(r"-?[1-9]\d{0,2}[.,]\d{3}|-?\d+", cell)]
    if not clear and any("," in cell for cell in cells):
        with pytest.raises(DataError, match="which may be"):
            load_views(path, id=False)
        return
    data = load_views(path, id=False)
    if not clear and any("." in cell for cell in cells):
        assert any(note.startswith("decimal mark '.'") for note in data.notes)
        values = [float(cell) for cell in cells]
    assert data.views["X"][:, 0].tolist() == [
        float(f"{value:.{max(places, 3)}f}") for value in values
    ]


# Booleans


@pytest.mark.parametrize("words", [("True", "False"), ("TRUE", "FALSE"), ("true", "false")])
def test_booleans_are_0_and_1(tmp_path, separator, words):
    yes, no = words
    rows = [["0.5", yes, yes], ["1.5", no, no], ["2.5", "", yes]]
    data = load_views(write(tmp_path / "d.csv", ["a", "flag", "label"], rows, separator))
    np.testing.assert_array_equal(data.views["X"], [[0.5, 1], [1.5, 0], [2.5, np.nan]])
    assert data.labels.tolist() == [True, False, True]


def test_a_word_among_booleans_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("omcal.datasets.readers._cells.BLOCK_CELLS", 4)
    rows = [["0.5", "True"], ["1.5", "False"], ["2.5", "maybe"]]
    with pytest.raises(DataError, match="row 3 has 'maybe' in a column of numbers"):
        load_views(write(tmp_path / "d.csv", ["a", "flag"], rows, ","))
