import os

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omcal.cli.files import read_labels, write_labels
from omcal.datasets import DataError


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
        ('"a b"\n"c, d"\n', ["a b", "c, d"]),
        ("\ufeff1\r\n2\r\n", ["1", "2"]),
    ],
)
def test_read_labels(tmp_path, text, labels):
    path = tmp_path / "labels.csv"
    path.write_text(text, encoding="utf-8")
    assert_array_equal(read_labels(path), labels)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"a,b\n1,2\n",
        b"1\n2,3\n",
        b"label,y\n1,2\n",
        b"sample,cluster\n0,1\n0,2\n",
        b"x,label\n1,\n",
        b"\xff\xfe\x00",
    ],
)
def test_read_labels_refuses(tmp_path, content):
    path = tmp_path / "labels.csv"
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"labels\.csv"):
        read_labels(path)


def test_read_labels_from_npy(tmp_path):
    path = tmp_path / "labels.npy"
    np.save(path, [[3], [4], [3]])
    assert_array_equal(read_labels(path), [3, 4, 3])
    np.save(path, np.eye(3))
    with pytest.raises(DataError, match=r"\(3, 3\)"):
        read_labels(path)
    path.write_bytes(path.read_bytes()[:20])
    with pytest.raises(DataError, match="not a readable"):
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
        write_labels(path, Breaking())
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["labels.csv"]


def test_write_labels_follows_a_link(tmp_path):
    target, link = tmp_path / "target.csv", tmp_path / "link.csv"
    target.write_text("old")
    link.symlink_to(target)
    write_labels(link, np.array([1, 0]))
    assert link.is_symlink()
    assert_array_equal(read_labels(target), ["1", "0"])
