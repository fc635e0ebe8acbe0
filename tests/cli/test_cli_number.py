"""`--clusters` left out, and `omcal tree`."""

import json

import numpy as np
import pytest

from omcal.datasets import make_multiview


@pytest.fixture
def file(tmp_path):
    made = make_multiview(160, n_clusters=4, noise=0.3, random_state=0)
    np.savez(tmp_path / "data.npz", **made.views)
    return tmp_path / "data.npz"


@pytest.mark.slow
def test_clusters_may_be_left_out(omcal, file):
    ended = omcal("cluster", file, "--runs", "1")
    assert ended.code == 0
    assert "4 clusters, confidence" in ended.out  # said aloud


def test_a_dry_run_needs_the_number(omcal, file):
    ended = omcal("cluster", file, "--dry-run")
    assert ended.code == 2 and "give --clusters N" in ended.err


def test_tree(omcal, file):
    page = file.with_name("tree.html")
    ended = omcal("tree", file, "--levels", "2,4", "--out", page, "--json", "--quiet")
    found = json.loads(ended.out)
    assert ended.code == 0 and page.exists()
    assert [level["sizes"] for level in found["levels"]][1] == [40, 40, 40, 40]
    assert found["suggestion"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("--levels", "2,many"), "'many' must be a whole number"),
        (("--levels", "1,2"), "at least 2"),
        (("--levels", "2,100"), "beyond half of the 160 samples"),
        (("--out", "tree.csv"), ".html"),
    ],
)
def test_tree_refuses(omcal, file, words, message):
    ended = omcal("tree", file, *words)
    assert ended.code == 2 and message in ended.err
