"""--scale, also of single views, and embeddings in AnnData and MuData."""

import json

import numpy as np
import pytest

from omcal import OMCAL
from omcal.datasets import load_views, make_multiview

h5py = pytest.importorskip("h5py", reason="the extra hdf5 is not installed")

MADE = make_multiview(120, n_clusters=3, n_views=2, noise=1.5, random_state=0)
RNA, PROTEIN = MADE.views.values()
# Components as PCA gives them: the first has most of the variance.
PCA = RNA * np.geomspace(10, 0.1, RNA.shape[1])


@pytest.fixture
def h5ad(tmp_path):
    path = tmp_path / "cells.h5ad"
    with h5py.File(path, "w") as file:
        file["obs/index"] = [f"cell{i}" for i in range(120)]
        file["var/index"] = ["a", "b"]
        file["X"] = np.abs(RNA[:, :2])
        file["obsm/X_pca"], file["obsm/protein"] = PCA, PROTEIN
    return path


@pytest.fixture
def h5mu(tmp_path):
    path = tmp_path / "modalities.h5mu"
    with h5py.File(path, "w") as file:
        file["obs/index"] = [f"cell{i}" for i in range(120)]
        for name in ("rna", "protein"):
            group = file.create_group(f"mod/{name}")
            group["obs/index"] = file["obs/index"][()]
            group["X"] = PROTEIN if name == "protein" else np.abs(RNA[:, :2])
        file["mod/rna/obsm/X_pca"], file["mod/rna/obsm/X_umap"] = PCA, PCA[:, :2]
    return path


def test_readers_say_which_views_are_components(h5ad, h5mu):
    assert load_views(h5ad).scales == {"X_pca": "view"}
    assert load_views(h5ad, views=["X", "protein"]).scales == {}
    assert load_views(h5mu).scales == {"rna": "view"}
    assert load_views(h5mu, views=["rna/X_umap", "rna"]).scales == {
        "rna/X_umap": "view",
        "rna": "view",
    }
    both = load_views([h5ad, h5mu])
    assert both.scales == {"X_pca": "view", "rna": "view"}


def test_components_keep_the_relation_of_their_variances(omcal, h5ad):
    found = json.loads(omcal("cluster", h5ad, "-c", 3, "--runs", 1, "--json").out)
    assert [view["scale"].split()[0] for view in found["views"]] == ["view", "standard"]
    model = OMCAL(3, scale={"X_pca": "view"}, random_state=0)
    model.fit({"X_pca": PCA, "protein": PROTEIN})
    assert found["samples"]["clusters"] == model.labels_.tolist()
    shown = json.loads(omcal("inspect", h5ad, "--json").out)
    assert [view["scale"].split()[0] for view in shown["views"]] == ["view", "standard"]


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("said", "scales"),
    [
        ("auto", ["view", "standard"]),
        ("standard", ["standard", "standard"]),
        ("none", ["none", "none"]),
        ("protein=sample", ["view", "sample"]),
        ("feature,X_pca=none", ["none", "feature"]),
        ("auto, X_pca=standard", ["standard", "standard"]),
    ],
)
def test_scale_by_view(omcal, h5ad, said, scales):
    ended = omcal("cluster", h5ad, "-c", 3, "--runs", 1, "--json", "--scale", said)
    assert ended.code == 0, ended.err
    views = json.loads(ended.out)["views"]
    assert [view["scale"].split()[0] for view in views] == scales
    assert omcal("explain", h5ad, "-c", 3, "--runs", 1, "-q", "--scale", said).code == 0


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ("rna=log", "--scale names the view 'rna'; available: 'X_pca', 'protein'"),
        ("protein=lot", "--scale 'lot' is unknown; use one of auto, tfidf"),
        ("log,standard", "--scale 'log,standard' has two words for all views"),
        ("protein=log,protein=view", "names the view 'protein' twice"),
    ],
)
def test_bad_scales(omcal, h5ad, said, message):
    ended = omcal("cluster", h5ad, "-c", 3, "--scale", said)
    assert ended.code == 2 and message in ended.err


@pytest.mark.slow
def test_the_command_in_a_report_repeats_the_scales(omcal, h5ad, tmp_path):
    report = tmp_path / "report.html"
    omcal("cluster", h5ad, "-c", 3, "--scale", "auto,protein=sample", "--report", report)
    assert "--scale auto,protein=sample" in report.read_text()
