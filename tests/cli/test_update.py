"""`omcal update`: labels, model, drift and report of new samples."""

import csv
import json

import numpy as np
import pytest

from omcal import OMCAL, Consensus, load
from omcal.datasets import make_multiview

DATA = make_multiview(600, n_clusters=3, noise=0.5, random_state=0)


def part(start, stop, shift=0.0):
    views = {name: view[start:stop] for name, view in DATA.views.items()}
    return {**views, "view1": views["view1"] + shift}


@pytest.fixture(params=["one run", "consensus"])
def week(request, tmp_path):
    model = OMCAL(3, random_state=0)
    if request.param == "consensus":
        model = Consensus(OMCAL(3), n_runs=3, random_state=0)
    model = model.fit(part(0, 300))
    model.cluster_names_ = ["a", "b", "c"]
    model.save(tmp_path / "model.omcal")
    np.savez(tmp_path / "new.npz", **part(300, 600))
    return tmp_path, model


@pytest.mark.slow
def test_labels_model_and_report_of_an_update(omcal, week):
    folder, model = week
    out, page = folder / "labels.csv", folder / "report.html"
    files = ("--out", out, "--report", page)
    done = omcal("update", folder / "model.omcal", folder / "new.npz", *files)
    assert done.code == 0, done.err
    assert "nothing has moved (false alarms: 1%)" in done.out
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    expected = model.predict(part(300, 600))
    assert np.mean([int(row["cluster"]) for row in rows] == expected) > 0.99
    assert all("abc"[int(row["cluster"])] == row["name"] for row in rows)
    again = load(folder / "model.omcal")
    assert again._sums.n == 600 and list(again.cluster_names_) == ["a", "b", "c"]
    text = page.read_text(encoding="utf-8")
    assert "samples of an update" in text and "nothing has moved (false alarms: 1%)" in text


@pytest.mark.slow
def test_drift_is_said_and_the_model_may_go_elsewhere(omcal, week):
    folder, _ = week
    np.savez(folder / "new.npz", **part(300, 600, shift=3.0))
    page = folder / "report.html"
    words = ("--save-model", folder / "other.omcal", "--half-life", 200, "--report", page, "--json")
    done = omcal("update", folder / "model.omcal", folder / "new.npz", *words)
    assert done.code == 0, done.err
    result = json.loads(done.out)
    assert {"view1"} == {one["name"] for one in result["drift"] if one["kind"] == "view"}
    section = page.read_text(encoding="utf-8").partition('<section id="drift"')[2]
    assert "standard deviations" in section.partition("</section>")[0]
    assert load(folder / "model.omcal")._sums.n == 300
    assert load(folder / "other.omcal")._sums.n == pytest.approx(300 * 0.5**1.5 + 300)


def test_all_views_are_needed(omcal, week):
    folder, _ = week
    np.savez(folder / "new.npz", view1=DATA.views["view1"], view2=DATA.views["view2"])
    done = omcal("update", folder / "model.omcal", folder / "new.npz")
    assert done.code == 2 and "an update needs all" in done.err


@pytest.mark.slow
def test_certainty_and_second_choice_are_columns(omcal, week):
    folder, _ = week
    for command in (
        ("update", folder / "model.omcal", folder / "new.npz"),
        ("predict", folder / "model.omcal", folder / "new.npz"),
        ("cluster", folder / "new.npz", "-c", 3, "--runs", 2),
    ):
        out = folder / "labels.csv"
        done = omcal(*command, "--out", out)
        assert done.code == 0, done.err
        rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
        assert all(0.3 < float(row["certainty"]) <= 1 for row in rows)
        assert all(len(row["certainty"]) <= 6 for row in rows)  # four digits, also of float32
        assert all(row["second"] in {"0", "1", "2"} - {row["cluster"]} for row in rows)
        assert "ARI 1.0" in " ".join(omcal("score", out, out).out.split())
        assert omcal(*command, "--no-certainty", "--out", out).code == 0
        assert "certainty" not in out.read_text(encoding="utf-8")
    refused = omcal("cluster", folder / "new.npz", "-c", 3, "--method", "fsmsc", "--certainty")
    assert refused.code == 2 and "--certainty" in refused.err


@pytest.mark.slow
def test_a_new_cluster_is_told_and_added_if_asked_for(omcal, tmp_path):
    data = make_multiview(800, n_clusters=4, noise=0.5, random_state=0)
    old, new = np.flatnonzero(data.labels < 3), np.flatnonzero(data.labels == 3)
    views = data.views.items()
    OMCAL(3, random_state=0).fit({k: v[old[:300]] for k, v in views}).save(tmp_path / "m.omcal")
    rows = np.concatenate([old[300:], new])
    np.savez(tmp_path / "new.npz", **{k: v[rows] for k, v in views})
    command = ("update", tmp_path / "m.omcal", tmp_path / "new.npz")
    told = omcal(*command, "--save-model", tmp_path / "same.omcal")
    assert told.code == 0 and "form a stable group" in told.out + told.err
    assert load(tmp_path / "same.omcal").n_clusters_ == 3
    done = omcal(*command, "--grow", "--json")
    assert done.code == 0, done.err
    assert len(json.loads(done.out)["cluster_sizes"]) == 4
    assert load(tmp_path / "m.omcal").n_clusters_ == 4
