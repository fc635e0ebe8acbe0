import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omcal.cli.outputs import write_labels
from omcal.cli.scores import read_label_pair
from omcal.datasets import DataError, MultiViewData
from omcal.datasets.loading import read_labels

NAMELESS = MultiViewData({"a": np.eye(2)})


@pytest.mark.parametrize(
    ("text", "labels"),
    [
        ("0\n1\n1\n", ["0", "1", "1"]),
        ("label\n0\n1\n", ["0", "1"]),
        ("species\n0\n1\n", ["0", "1"]),
        ("cat\ndog\ncat\n", ["cat", "dog", "cat"]),
        ("class\ncat\ndog\n", ["cat", "dog"]),
        ("sample,cluster\n0,5\n1,6\n", ["5", "6"]),
        ("sample,cluster\n1,6\n0,5\n", ["5", "6"]),
        ("name,Label\nx,5\ny,6\n", ["5", "6"]),
        ('"a b"\n"c, d"\n"a b"\n', ["a b", "c, d", "a b"]),
        ("species\ncat\ndog\n", ["cat", "dog"]),
        ("\ufeff1\r\n2\r\n", ["1", "2"]),
    ],
)
def test_read_labels(tmp_path, text, labels):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    assert_array_equal(read_labels(path).by_position().labels.astype(str), labels)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        b"1\n2,3\n",
        b"label,y\n1,2\n",
        b"sample,cluster\n0,1\n0,2\n",
        b"\xff\xfe\x00",
    ],
)
def test_read_labels_refuses(tmp_path, content):
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"labels\.csv"):
        read_labels(path)


def test_score_takes_the_files_that_labels_takes(tmp_path):
    """A column of any name beside the ids, other separators, and samples without a label."""
    true, pred = tmp_path / "true.csv", tmp_path / "pred.csv"
    true.write_text("id;species\nx;cat\ny;dog\nz;\n")
    pred.write_text("id,cluster\nz,0\ny,1\nx,2\n")
    y_true, y_pred, notes = read_label_pair(true, pred)
    assert (y_true.tolist(), y_pred.tolist()) == (["cat", "dog"], [2, 1])
    assert notes == ["1 samples without a label are left out"]
    true.write_text("id,label\nx,\ny,\nz,\n")
    with pytest.raises(DataError, match=r"no sample has a label in both .*true\.csv"):
        read_label_pair(true, pred)


def test_samples_numbered_from_0_match_by_position(tmp_path):
    true, pred = tmp_path / "true.csv", tmp_path / "pred.csv"
    true.write_text("id,label\nx,a\ny,b\n")
    pred.write_text("sample,cluster\n1,7\n0,5\n")
    y_true, y_pred, notes = read_label_pair(true, pred)
    assert (y_true.tolist(), y_pred.tolist()) == (["a", "b"], [5, 7])
    assert notes == [f"matched by position: {pred} has no ids"]


def test_read_labels_from_npy(tmp_path):
    path = tmp_path / "labels.npy"
    np.save(path, [[3], [4], [3]])
    assert_array_equal(read_labels(path).labels, [3, 4, 3])
    np.save(path, np.eye(3))
    with pytest.raises(DataError, match=r"\(3, 3\)"):
        read_labels(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(DataError, match="cannot be read"):
        read_labels(path)


def test_half_written_labels_never_get_their_name(tmp_path):
    class Breaking:
        def __len__(self):
            return 2

        def tolist(self):
            yield 1
            raise RuntimeError("broken off")

    path = tmp_path / "labels.csv"
    path.write_text("old")
    with pytest.raises(RuntimeError, match="broken off"):
        write_labels(path, Breaking(), NAMELESS, {})
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["labels.csv"]


def test_write_labels_follows_a_link(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_labels(link, np.array([1, 0]), NAMELESS, {})
    assert link.is_symlink()
    assert_array_equal(read_labels(target).labels, [1, 0])
