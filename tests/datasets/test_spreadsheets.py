"""Names that spreadsheets would run as formulas: they do not, and are read back the same."""

import csv
import re
from dataclasses import replace

import numpy as np
import pytest

from omcal.cli.outputs import write_labels
from omcal.datasets import MultiViewData, load_views, save_views
from omcal.datasets.loading import read_labels

NAMES = [
    "a;=HYPERLINK(3)",
    "b\t@x",
    "c,-x",
    "d|'+y",
    "\u00a0e",
    "f\r",
    " g ",
    "=cmd|'/c calc'!A0",
    "+1+2",
    "-x",
    "@SUM(A1)",
    "'=quoted",
    "'tis",
    "plain",
    "--",
]


def runs(cell):
    """Whether a spreadsheet would take a cell, or what it may split off it, for a formula."""
    try:
        float(cell)
    except ValueError:
        return any(part[:1] in tuple("=+-@\t\r") for part in re.split("[;,|\t]", cell))
    return False


@pytest.fixture
def data():
    rng = np.random.default_rng(0)
    n = len(NAMES)
    return MultiViewData(
        {"=a": rng.normal(size=(n, 2)), "@b": -rng.random((n, 3))},
        labels=np.array(NAMES),
        ids=np.array([f"{name}{i}" for i, name in enumerate(NAMES)]),
        id_name="id",
    )


def test_names_come_back_and_no_cell_is_a_formula(tmp_path, data):
    path = tmp_path / "data.csv"
    save_views(path, data)
    with path.open(newline="") as file:
        assert not [cell for row in csv.reader(file) for cell in row if runs(cell)]
    again = load_views(path, id="id")
    assert list(again.views) == ["=a", "@b"]
    assert again.labels.tolist() == NAMES
    assert again.ids.tolist() == data.ids.tolist()
    np.testing.assert_allclose(again.views["@b"], data.views["@b"])


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_files_of_clusters(tmp_path, data, ending):
    path = tmp_path / f"labels{ending}"
    data = replace(data, id_name="id")
    write_labels(path, np.arange(len(NAMES)) % 3, data, {})
    with path.open(newline="") as file:
        cells = [
            c for row in csv.reader(file, delimiter="\t" if ending == ".tsv" else ",") for c in row
        ]
    assert not [cell for cell in cells if runs(cell)]
    assert read_labels(path).ids.tolist() == data.ids.tolist()


def test_workbooks_hold_no_formula(tmp_path, data):
    openpyxl = pytest.importorskip("openpyxl")
    path = tmp_path / "labels.xlsx"
    write_labels(path, np.arange(len(NAMES)) % 3, data, {})
    sheet = openpyxl.load_workbook(path).active
    assert {cell.data_type for row in sheet.iter_rows() for cell in row} == {"s", "n"}
    written = [name.replace("\r", "_x000D_") for name in data.ids.tolist()]
    assert [row[0].value for row in sheet.iter_rows(min_row=2)] == written
    assert read_labels(path).ids.tolist() == data.ids.tolist()
