"""`omcal cluster --like`: numbers and names of an earlier model."""

import csv

import numpy as np
import pytest

from omcal import OMCAL
from omcal.datasets import make_multiview


@pytest.mark.slow
def test_numbers_and_names_are_kept(omcal, tmp_path):
    data = make_multiview(240, n_clusters=3, noise=0.4, random_state=0)
    old, out, model = (tmp_path / name for name in ("old.omcal", "labels.csv", "new.omcal"))
    np.savez(tmp_path / "new.npz", **{name: view[60:] for name, view in data.views.items()})
    first = OMCAL(3, random_state=0).fit({name: view[:180] for name, view in data.views.items()})
    turned = OMCAL(3, random_state=0).fit(
        {name: view[:180] for name, view in data.views.items()}, like=2 - first.labels_
    )
    turned.cluster_names_ = ["a", "b", "c"]
    turned.save(old)
    files = ("--like", old, "--out", out, "--save-model", model)
    done = omcal("cluster", tmp_path / "new.npz", "-c", 3, "--seed", 5, *files)
    assert done.code == 0, done.err
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    numbers = np.array([int(row["cluster"]) for row in rows])
    kept = numbers[:120] == turned.labels_[60:]
    assert np.mean(kept) > 0.95
    assert {row["name"] for row in rows} == {"a", "b", "c"}
    assert all("abc"[int(row["cluster"])] == row["name"] for row in rows)
    again = omcal("predict", model, tmp_path / "new.npz", "--out", tmp_path / "p.csv")
    assert again.code == 0 and (tmp_path / "p.csv").read_text().startswith("sample,cluster,name")
    refused = omcal("cluster", tmp_path / "new.npz", "-c", 3, "--like", old, "--dask")
    assert refused.code != 0 and "--like cannot be combined with --dask" in refused.err
