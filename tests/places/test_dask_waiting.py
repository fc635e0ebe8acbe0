"""Clusters that cannot work: too little memory for a worker, or no worker at all."""

import json
import logging
import re

import numpy as np
import pytest

from omcal import OMCAL
from omcal.cli import main
from omcal.datasets import make_multiview

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask.array as da
import distributed
from distributed import Client, LocalCluster

from omcal.places import cluster

MADE = make_multiview(600, n_clusters=3, random_state=0)


@pytest.fixture
def file(tmp_path):
    np.savez(tmp_path / "data.npz", **MADE.views)
    return str(tmp_path / "data.npz")


def command(capsys, *words):
    with pytest.raises(SystemExit) as end:
        main(["cluster", *words])
    return end.value.code, *capsys.readouterr()


@pytest.mark.parametrize("limit", ["1MB", "20MB", "100MB"])
def test_too_little_memory_for_a_worker_is_refused_at_once(file, capsys, monkeypatch, limit):
    monkeypatch.delattr(distributed.LocalCluster, "__init__")  # none is started
    code, out, err = command(capsys, file, "--clusters", "3", "--dask", "--memory-limit", limit)
    assert (code, out) == (2, "")
    assert "too little for a Dask worker" in err and err.count("\n") == 1
    least = int(re.search(r"at least (\d+)MB", err)[1])
    assert 100 < least < 2000


@pytest.mark.process
@pytest.mark.filterwarnings("ignore")
def test_the_least_that_is_named_works(file, capsys):
    _, _, err = command(capsys, file, "--clusters", "3", "--dask", "--memory-limit", "1MB")
    least = re.search(r"at least (\d+MB)", err)[1]
    words = ["--clusters", "3", "--dask", "--memory-limit", least, "--json"]
    code, out, err = command(capsys, file, *words)
    assert code == 0, err
    assert sum(json.loads(out)["cluster_sizes"]) == 600


@pytest.mark.slow
def test_a_cluster_without_workers_is_not_waited_for_in_silence(monkeypatch, caplog):
    assert cluster._SILENT_SECONDS == 5
    monkeypatch.setattr(cluster, "_SILENT_SECONDS", 0.2)
    monkeypatch.setattr(cluster, "_MOST_SECONDS", 1)
    views = [da.from_array(view, chunks=(200, -1)) for view in MADE.views.values()]
    with (
        LocalCluster(n_workers=0, processes=False, dashboard_address="127.0.0.1:0") as empty,
        Client(empty) as client,
    ):
        model = OMCAL(3, random_state=0, client=client)
        with (
            caplog.at_level(logging.WARNING, "omcal"),
            pytest.raises(ConnectionError, match=r"has had no worker for 1 s; start some"),
        ):
            model.fit(views)
        assert "has no workers; waiting for one, 1 s at most" in caplog.text
