"""The commands mean the same by the same options, and by options that are left out."""

import json

import numpy as np
import pytest
from numpy.testing import assert_array_equal

from omcal import OMCAL, Consensus
from omcal.datasets import MultiViewData, make_multiview
from omcal.experiments.plan import Cell
from omcal.experiments.worker import GivenData, outcome_of

# Noise at which single runs differ from the result of ten.
DATA = make_multiview(150, n_clusters=5, noise=2.0, random_state=3)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "data.npz"
    np.savez(path, **DATA.views)
    return path


@pytest.mark.slow
@pytest.mark.parametrize(
    "options", [(), ("--seed", 3), ("--runs", 1), ("--runs", 4), ("--weighting", "uniform")]
)
def test_explain_speaks_of_the_clusters_of_cluster(omcal, file, options):
    clustered = json.loads(omcal("cluster", file, "-c", 5, "--json", *options).out)
    ended = omcal("explain", file, "-c", 5, "--resamples", 0, "--json", *options)
    explained = json.loads(ended.out)
    assert explained["cluster_sizes"] == clustered["cluster_sizes"]
    assert explained["n_runs"] == clustered["n_runs"]
    assert explained["stability"] == clustered["stability"]
    assert [view["weight"] for view in explained["views"]] == pytest.approx(
        [view["weight"] for view in clustered["views"]]
    )
    assert clustered["notes"] == explained["notes"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the runs differ")
def test_the_joined_runs_of_compare_are_those_of_cluster(omcal, file):
    found = json.loads(omcal("cluster", file, "-c", 5, "--json").out)
    cell = Cell("data", "consensus", 0, {"n_clusters": 5})
    labels = outcome_of(cell, GivenData(MultiViewData(DATA.views)))["labels"]
    assert np.bincount(labels).tolist() == found["cluster_sizes"]
    model = Consensus(OMCAL(5, random_state=0), n_runs=10, random_state=0).fit(DATA.views)
    assert_array_equal(labels, model.labels_)
    four = Cell("data", "consensus", 0, {"n_clusters": 5, "n_runs": 4})
    labels = outcome_of(four, GivenData(MultiViewData(DATA.views)))["labels"]
    assert_array_equal(
        labels, Consensus(OMCAL(5), n_runs=4, random_state=0).fit_predict(DATA.views)
    )


@pytest.mark.process
def test_compare_combines_as_many_runs_as_are_asked_for(omcal, file, tmp_path):
    out = tmp_path / "table.md"
    words = ("compare", file, "-c", 5, "-m", "omcal,consensus", "--seeds", 1, "--runs", 3)
    ended = omcal(*words, "--json", "--out", out)
    one, joined = json.loads(ended.out)["runs"]
    assert "n_runs" not in one["parameters"] and joined["parameters"]["n_runs"] == 3
    rows = [line.split(" | ")[0] for line in out.read_text().splitlines() if "OMCAL" in line]
    assert rows == ["| OMCAL, one run", "| OMCAL, 3 runs"]
    ended = omcal(*words[:-1], 1)
    assert ended.code == 2 and "--runs" in ended.err
