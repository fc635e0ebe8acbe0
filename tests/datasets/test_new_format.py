"""A file format is one reader and one entry: with those it is read, joined, and described."""

import json

import numpy as np
import pytest

from omcal.datasets import DataError, describe, load_views, readers
from omcal.datasets._data import Contents
from omcal.datasets.readers import Format


def is_records(path, start):
    return start.lstrip().startswith(b"[{")


def read_records(path):
    """Records of JSON, one per sample: each key is a column."""
    records = json.loads(path.read_text("utf-8"))
    columns = {key: np.array([record[key] for record in records]) for key in records[0]}
    return Contents("JSON records", columns, table=True)


ENTRY = Format("JSON records", is_records, read_records, (".json",))


@pytest.fixture
def records(monkeypatch):
    monkeypatch.setattr(readers, "FORMATS", [ENTRY, *readers.FORMATS])


def write(path, features, ids):
    path.write_text(json.dumps([{"id": i, **{f: 0.5 + len(i) for f in features}} for i in ids]))
    return path


def test_it_is_read_and_described(tmp_path, records):
    path = write(tmp_path / "a.json", ["a_1", "a_2", "b_1", "b_2"], ["x", "yy"])
    data = load_views(path)
    assert data.widths == (2, 2) and data.ids.tolist() == ["x", "yy"] and data.notes == ()
    assert describe(path)["format"] == "JSON records"
    with pytest.raises(DataError, match="kind JSON records; header= is for"):
        load_views(path, header=True)


def test_it_is_joined_with_others_and_found_in_folders(tmp_path, records):
    write(tmp_path / "a.json", ["f"], ["x", "yy"])
    (tmp_path / "b.csv").write_text("id,g\nyy,2.5\nx,1.5\n")
    data = load_views(tmp_path)
    assert list(data.views) == ["a", "b"]
    assert np.hstack(list(data.views.values())).tolist() == [[1.5, 1.5], [2.5, 2.5]]


def test_the_content_decides_not_the_name(tmp_path, records):
    path = write(tmp_path / "a.csv", ["f"], ["x", "yy"])
    assert describe(path)["format"] == "JSON records" and load_views(path).ids.tolist() == [
        "x",
        "yy",
    ]


def test_without_the_entry_it_is_text(tmp_path):
    with pytest.raises(DataError):
        load_views(write(tmp_path / "a.json", ["f"], ["x", "yy"]))
