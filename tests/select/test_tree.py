"""Trees over numbers of clusters, their page and their command."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import sparse
from sklearn.metrics.cluster import contingency_matrix

from browser import CHROMIUM, Browser
from omcal import OMCAL
from omcal.datasets import MultiViewData, make_multiview, save_views
from omcal.metrics import ari
from omcal.select import cluster_tree
from omcal.select.tree import default_levels, edges_of, numbered, similarity, top_features
from omcal.views.view import View


@pytest.fixture(scope="module")
def data():
    return make_multiview(240, n_clusters=4, noise=0.3, random_state=0)


@pytest.fixture(scope="module")
def tree(data):
    return cluster_tree(data.views, [2, 4, 6])


def test_levels_fit_together(tree, data):
    assert tree.numbers == (2, 4, 6)
    assert [len(sizes) for sizes in tree.sizes] == [2, 4, 6]
    assert ari(data.labels, tree.labels(4)) == 1
    for k, sizes in zip(tree.numbers, tree.sizes, strict=True):
        assert np.bincount(tree.labels(k)).tolist() == list(sizes)
    for level in (2, 4):
        edges = [edge for edge in tree.edges if edge.level == level]
        assert sum(edge.size for edge in edges) == 240
        for source in range(level):
            shares = [edge.share for edge in edges if edge.source == source]
            assert sum(shares) == pytest.approx(1)
    assert tree.jumps[0] == 0  # clusters that lie apart are not torn
    assert tree.stability[1] == 1
    assert "stability" in str(tree)


def test_labels_of_other_levels_are_refused(tree):
    with pytest.raises(ValueError, match="levels are 2, 4, 6"):
        tree.labels(3)


@given(st.lists(st.integers(0, 5), min_size=1, max_size=60), st.randoms())
def test_numbers_stay_along_branches(values, random):
    """A division of the clusters above changes no number of a cluster that keeps its samples."""
    above = numbered(np.unique(values, return_inverse=True)[1].reshape(-1), None)
    sizes = np.bincount(above)
    assert (np.diff(sizes) <= 0).all()  # the first level is numbered by size
    shuffled = np.array(random.sample(range(len(sizes)), len(sizes)))
    np.testing.assert_array_equal(numbered(shuffled[above], above), above)


def test_a_jump_is_no_main_edge():
    table = contingency_matrix(np.array([0, 0, 0, 1, 1, 1]), np.array([0, 0, 1, 1, 1, 2]))
    found = {(edge.source, edge.target): edge for edge in edges_of(2, table)}
    assert found[0, 0].main and found[1, 1].main and found[1, 2].main
    assert not found[0, 1].main and found[0, 1].share == pytest.approx(1 / 3)


def test_similarity_of_clusters():
    labels = np.array([0, 0, 1, 1])
    assert similarity(labels, [labels[::-1]]) == (1, 1)
    assert similarity(labels, [np.array([0, 0, 0, 1])]) == pytest.approx((2 / 3, 1 / 2))


@pytest.mark.parametrize("form", [np.asarray, sparse.csr_array])
def test_features_that_set_clusters_apart(form):
    labels = np.repeat([0, 1], 20)
    X = np.random.RandomState(0).normal(size=(40, 3))
    X[:, 1] += 9 * labels
    X[:, 2] = 7.0  # constant
    found = top_features(labels, [form(X)], [View("rna", X, ("a", "b", "c"))])
    assert found[1][0].name == "b" and found[1][0].deviation > 0.5
    assert found[0][0].name == "b" and found[0][0].deviation < -0.5
    assert {one.name: one.deviation for one in found[0]}["c"] == 0


def test_samples_that_views_lack_have_no_label(data):
    views = [view.copy() for view in data.views.values()]
    views[0][[3, 5]] = np.nan
    labels = cluster_tree(views, [2, 4]).labels(4)
    assert np.flatnonzero(labels < 0).tolist() == [3, 5]


def test_more_samples_than_asked_for(data):
    labels = cluster_tree(data.views, [2, 4], max_samples=100).labels(2)
    assert (labels >= 0).sum() == 100


@given(st.integers(1, 400), st.integers(2, 800))
def test_default_levels_have_the_suggestion(suggestion, most):
    levels = default_levels(suggestion, most)
    assert max(suggestion, 2) in levels and levels == sorted(set(levels))
    assert levels[0] == 2 and len(levels) <= 10


def test_the_page_has_all_levels_and_escapes_names(tree, tmp_path):
    path = tree.write(tmp_path / "tree.html", ids=["<b>"] * 240, title="a < b")
    text = path.read_text(encoding="utf-8")
    assert "a &lt; b" in text and "<b>" not in text
    assert text.count("data-level=") == 2 + 4 + 6
    assert "svg" in tree._repr_html_()
    assert "suggested number" not in text  # the levels were given
    text = replace(tree, suggestion=4).write(path).read_text(encoding="utf-8")
    assert "suggested number of clusters is bold" in text
    with pytest.raises(ValueError, match="239 entries for 240 samples"):
        tree.write(tmp_path / "other.html", ids=range(239))


@pytest.mark.slow
def test_a_tree_is_a_section_of_a_report(tree, data, tmp_path):
    model = OMCAL(4, n_anchors=20, random_state=0).fit(data.views)
    text = model.report(tmp_path / "report.html", tree=tree).read_text(encoding="utf-8")
    assert 'id="tree"' in text and text.count("data-level=") == 12
    model.fit([view[:100] for view in data.views.values()])
    with pytest.raises(ValueError, match="tree has 240 samples, and the model 100"):
        model.report(tmp_path / "other.html", tree=tree)


@pytest.mark.process
def test_the_command_writes_a_page(data, tmp_path):
    save_views(tmp_path / "data.npz", MultiViewData(data.views))
    words = ["tree", "data.npz", "--out", "tree.html", "--levels", "2,4", "--json"]
    done = subprocess.run(
        [sys.executable, "-m", "omcal", *words],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert [level["n_clusters"] for level in found["levels"]] == [2, 4]
    assert (tmp_path / "tree.html").stat().st_size > 10_000


@pytest.mark.process
@pytest.mark.skipif(CHROMIUM is None, reason="no chromium to open the page with")
def test_the_page_shows_features_and_gives_labels(tree, tmp_path):
    path = tree.write(tmp_path / "tree.html", ids=[f"s{i}" for i in range(240)])
    browser = Browser(tmp_path)
    try:
        page = browser.open(path, width=1400)
        page.click('g[data-level="1"][data-cluster="2"]')
        shown = page.text("#node")
        assert "cluster 2 of 4" in shown and "60 samples" in shown and "SD" in shown
        page.run('document.getElementById("level").value = "1"')
        page.click("#level-labels")
        lines = page.downloaded("labels-4.csv").read_text().splitlines()
        assert lines[0] == "sample,cluster"
        labels = tree.labels(4).tolist()
        assert lines[1:] == [f"s{i},{label}" for i, label in enumerate(labels)]
        assert page.complaints() == []
        page = browser.open(path, width=400)
        wide = """Array.from(document.querySelectorAll("#tree *")).filter(e =>
            e.scrollWidth > e.clientWidth + 1 && getComputedStyle(e).overflowX === "auto").length"""
        assert page.run(wide) == 0
        assert page.run("document.documentElement.scrollWidth") <= 400
        sizes = page.run("""Array.from(document.querySelectorAll("svg.tree text"), t =>
            [t.getBoundingClientRect().left, t.getBoundingClientRect().right,
             parseFloat(getComputedStyle(t).fontSize)])""")
        assert all(left >= 0 and right <= 400 and size >= 12 for left, right, size in sizes)
    finally:
        browser.close()
