"""The experiments of the paper: what was published, how cells run, what survives."""

import json
import os
import re
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import io

from omcal.cli import main
from omcal.cli.reproduce import RECORDS, _Silent
from omcal.experiments import records as records_module
from omcal.experiments.contents import (
    all_tables,
    difference,
    format_measured,
    published_numbers,
)
from omcal.experiments.figures import all_figures
from omcal.experiments.outputs import write_outputs
from omcal.experiments.paper import Published, load_paper
from omcal.experiments.plan import Cell, Plan, cell_key
from omcal.experiments.records import RecordError, RecordFile, read_records
from omcal.experiments.runner import Settings, run_cells
from omcal.experiments.summary import Measured, Summary
from omcal.experiments.tables import Entry, Table, ranked
from omcal.experiments.worker import Limits

PAPER = load_paper()
COMMAND = [sys.executable, "-c", "from omcal.cli import main; main()", "reproduce"]
ROOMY = Limits(seconds=60, gigabytes=4)


def write_mat(path, views, labels):
    cell = np.empty((1, len(views)), dtype=object)
    for v, view in enumerate(views):
        cell[0, v] = view
    io.savemat(path, {"X": cell, "Y": labels[:, None] + 1})


def write_data(folder, n=80, names=("Coil",)):
    """Small data sets with the names of the paper's."""
    folder.mkdir(exist_ok=True)
    for seed, name in enumerate(names):
        rng = np.random.default_rng(seed)
        labels = np.arange(n) % 4
        views = [rng.normal(size=(4, d))[labels] * 3 + rng.normal(size=(n, d)) for d in (7, 5)]
        write_mat(folder / f"{name}.mat", views, labels)
    return folder


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data")


def run_here(cells, data, path, **changes):
    settings = Settings(data, changes.pop("limits", ROOMY), **changes)
    return run_cells(cells, settings, path, _Silent())


def table_cells(*titles, dataset="Coil", seeds=1):
    plan = Plan(PAPER, seeds)
    return [plan.table_cell(dataset, PAPER.row(t), s) for s in range(seeds) for t in titles]


# what was published


def test_every_cell_of_every_table_is_there():
    c = PAPER.contents
    assert len(PAPER.datasets) == 9 and len(PAPER.single_datasets) == 3
    assert [len(c["methods"]), len(c["single_methods"]), len(PAPER.metrics)] == [9, 8, 6]
    assert list(c["sizes"]) == PAPER.datasets and list(c["single_sizes"]) == PAPER.single_datasets
    assert list(c["parameters"]) == PAPER.datasets
    assert all({"m", "beta", "gamma"} <= set(p) for p in c["parameters"].values())
    assert list(c["complexity"]) == c["methods"]
    assert list(c["results"]) == PAPER.metrics
    results = [v for t in c["results"].values() for row in t.values() for v in row]
    seconds = [v for row in c["seconds"].values() for v in row]
    single = [v for t in c["single_results"].values() for row in t.values() for v in row]
    assert (len(results), len(seconds), len(single)) == (9 * 9 * 6, 9 * 9, 3 * 8 * 7)
    for text in results + seconds + single:
        Published.parse(text)
    numbers = list(published_numbers(PAPER))
    assert len(numbers) == 486 + 81 + 168
    assert all(PAPER.value(d, row.title, metric) is not None for d, row, metric in numbers)


def tex_rows(tex, label):
    """The rows of a table in the paper's source, less its commands."""
    start = tex.index(r"\midrule", tex.index(rf"\label{{{label}}}"))
    body = tex[start : tex.index(r"\bottomrule", start)]
    body = re.sub(r"\\midrule\[[^]]*\]", "", body)
    body = re.sub(r"\\multirow\{\d+\}\{\*\}", "", body).replace("SL\\_MVGC", "SLMVGC")
    body = re.sub(r"\\(textbf|underline)", "", body)
    rows = [re.sub(r"[{}\s]", "", row).split("&") for row in body.split("\\\\")]
    return [row for row in rows if len(row) > 1]


def test_every_value_is_the_papers(shared):
    tex = (shared / "paper" / "omcal.tex").read_text(encoding="utf-8")
    c = PAPER.contents
    found = {}
    metric = ""
    for first, method, *values in tex_rows(tex, "Tab:result"):
        metric = first or metric
        found[metric, method] = [v + ")" * (v.count("(") - v.count(")")) for v in values]
    assert {(m, k): v for m, t in c["results"].items() for k, v in t.items()} == found
    times = {row[0]: row[1:] for row in tex_rows(tex, "Tab:running time")}
    assert c["seconds"] == times
    dataset, single = "", {}
    for first, method, *values in tex_rows(tex, "Tab:result_single"):
        dataset = first or dataset
        single[dataset, method] = values
    assert {(d, k): v for d, t in c["single_results"].items() for k, v in t.items()} == single
    names = {"MNIST": "Mnist", "Cal101": "Caltech101"}
    for name, m, beta, gamma in tex_rows(tex, "Tab:detail of parameters"):
        printed = c["parameters"][names.get(name, name)]
        assert [printed["m"], printed["beta"], printed["gamma"]] == [
            int(m),
            float(beta),
            float(gamma),
        ]
    for label in ("Tab:detail of datasets", "Tab:detail of single datasets"):
        for name, n, clusters, features in tex_rows(tex, label):
            size = PAPER.size(names.get(name, name))
            listed = [int(d) for d in features.split(",")]
            assert (size["samples"], size["clusters"], size["features"]) == (
                int(n),
                int(clusters),
                listed,
            )


def test_the_impossible_number_of_anchors_is_replaced_and_said():
    printed = PAPER.contents["parameters"]["XMedia"]
    assert printed["m"] == 40 and PAPER.omcal_parameters("XMedia")["n_anchors"] >= 200
    tables = {t.name: t for t in all_tables(Plan(PAPER, 1), Summary([]))}
    assert any("XMedia" in note and "240" in note for note in tables["parameters"].notes)


def test_each_method_and_data_set_has_a_reason():
    titles = {row.title for single in (False, True) for row in PAPER.rows(single)}
    assert titles <= set(PAPER.reasons["method"])


@pytest.mark.parametrize("text", ["", "0.5(", "1.0(0.1", "NA", "0.5 (0.1)"])
def test_what_is_no_published_value(text):
    with pytest.raises(ValueError, match="no published value"):
        Published.parse(text)


# plan


def test_cells_come_once_and_seed_by_seed():
    cells = Plan(PAPER, 3).cells()
    keys = [cell.key for cell in cells]
    assert len(set(keys)) == len(keys)
    assert [cell.seed for cell in cells] == sorted(cell.seed for cell in cells)
    table = [c for c in cells if c.dataset in PAPER.datasets and c.method == "amgl"]
    assert len(table) == 9 * 3
    once = [c for c in cells if c.dataset in PAPER.datasets and c.method == "mlan"]
    assert len(once) == 9  # it uses no random numbers


def test_only_restricts_by_kind():
    plan = Plan(PAPER, 1, only=frozenset({"results", "Coil", "Wiki", "omcal"}))
    assert {(c.dataset, c.method) for c in plan.cells()} == {("Coil", "omcal"), ("Wiki", "omcal")}
    with pytest.raises(ValueError, match=r"'Koil' is unknown.*Coil"):
        Plan(PAPER, 1, only=frozenset({"Koil"})).require_known()


def test_the_papers_parameters_are_used():
    (cell,) = table_cells("OMCAL", dataset="Wiki")
    expected = {"n_anchors": 30, "beta": 0.1, "gamma": 0.1, "n_neighbors": 5, "max_iter": 60}
    assert expected.items() <= cell.parameters.items()


# tables


def test_mean_and_spread_of_a_sample():
    assert format_measured(Measured.of([0.5, 0.6, 0.7])) == "0.600(0.100)"
    assert format_measured(Measured.of([0.5])) == "0.500(-)"
    assert format_measured(Measured.of([3.14159]), "seconds") == "3.14"
    assert difference(Measured.of([0.6]), Published(0.594, 0.015)) == "+0.006"
    assert difference(Measured(word="OM"), Published(0.5, 0.1)) == ""
    assert difference(Measured.of([2.0]), Published(4.0), "seconds") == "×0.5"


def test_table_in_three_languages():
    row = ["a_b", *ranked(["0.9", "0.8", "0.7"], [0.9, 0.8, 0.7], largest=True)]
    table = Table("t", "Title, 50%", ["method", "x", "y", "z"], [row], ["m ≥ c"])
    assert table.markdown().splitlines()[-1] == "| a_b | **0.9** | <u>0.8</u> | 0.7 |"
    assert table.csv() == "method,x,y,z\na_b,0.9,0.8,0.7\n"
    latex = table.latex()
    assert r"a\_b & \textbf{0.9} & \underline{0.8} & 0.7 \\" in latex
    assert r"Title, 50\%" in latex and r"m $\geq$ c" in latex
    assert Entry("x").rank == 0


def record(cell, status="ok", **more):
    base = {
        **cell.identity,
        "status": status,
        "data_status": "exact",
        "file_print": "1",
        "error": "why",
        "limits": {"seconds": 9, "gigabytes": 1},
        "threads": 1,
        "jobs": 1,
        "versions": {"omcal": "0"},
        "machine": {"system": "s", "processor": "p", "cores": 1},
    }
    if status == "ok":
        base |= {"scores": dict.fromkeys(PAPER.metrics, 0.5), "seconds": 1.0, "objective": [2, 1]}
    return base | more


def test_words_for_what_gave_no_number():
    cells = table_cells("AMGL", "MLAN", "MCGC", "SMC")
    states = ("timeout", "memory", "error", "unavailable")
    summary = Summary([record(c, s) for c, s in zip(cells, states, strict=True)])
    words = [format_measured(summary.measure(cell, "ACC")) for cell in cells]
    assert words == ["---", "OM", "error", "n/a"]
    (not_run,) = table_cells("FSMSC")
    (absent,) = table_cells("FSMSC", dataset="Cifar10")
    assert summary.measure(not_run, "ACC").word == "·"
    assert summary.measure(absent, "ACC").word == "absent"


def test_a_later_record_of_the_same_cell_counts():
    (cell,) = table_cells("AMGL")
    better = record(cell, scores=dict.fromkeys(PAPER.metrics, 0.9))
    assert Summary([record(cell), better]).measure(cell, "ACC").mean == 0.9
    assert Summary([record(cell, "timeout"), better]).measure(cell, "ACC").mean == 0.9
    # An error of the same file does not undo a result, that of another file does.
    assert Summary([better, record(cell, "error")]).measure(cell, "ACC").mean == 0.9
    other = record(cell, "error", file_print="2")
    assert Summary([better, other]).measure(cell, "ACC").word == "error"


def test_from_records_alone(tmp_path):
    plan = Plan(PAPER, 1, quick=True)
    rows = {"classes": [0, 0, 1], "before": np.eye(3).tolist(), "after": np.eye(3).tolist()}
    cells = [*plan.results(0), *plan.singleview(0), *plan.transfer(0), *plan.grid(0)]
    cells += plan.anchors(0)
    some = [cell for cell in cells if cell.dataset in ("Coil", "TDT2")]
    lines = [record(c, **({"graph_rows": rows} if c.structure else {})) for c in some]
    (tmp_path / RECORDS).write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "--from-records", "--quick", "--quiet", "--out", str(tmp_path)])
    assert end.value.code == 0
    names = {path.stem for path in (tmp_path / "figures").iterdir()}
    assert names == {"convergence", "anchors", "anchors_time", "grid_coil", "structure_coil"}
    for name in names:
        assert (tmp_path / "figures" / f"{name}.svg").read_text().count("<path") > 5
        assert (tmp_path / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    tables = {path.name for path in (tmp_path / "tables").iterdir()}
    assert {f"results_acc.{kind}" for kind in ("md", "tex", "csv")} <= tables
    comparison = (tmp_path / "tables" / "comparison.csv").read_text().splitlines()
    assert len(comparison) == 1 + 735
    assert "Coil,OMCAL,ACC,0.500(-),1,1.000(0.000),-0.500,the paper's file" in comparison
    assert "Cifar10,OMCAL,ACC,absent,0,0.970(0.004),,absent" in comparison
    page = (tmp_path / "reproduction.md").read_text()
    assert "put Cifar10.mat into the folder" in page and "## Coil: the paper's file" in page
    assert "## Cifar10" not in page
    html = (tmp_path / "report.html").read_text()
    assert html.count("<svg") == len(names) and "https://" not in html.split("<svg")[0]


def test_figures_need_records():
    assert list(all_figures(Plan(PAPER, 1), Summary([]))) == []


# running


def test_a_cell_is_recorded_with_all_that_matters(data, tmp_path):
    path = tmp_path / RECORDS
    assert run_here(table_cells("OMCAL"), data, path) == []
    (found,) = read_records(path)
    assert found["status"] == "ok" and set(found["scores"]) == set(PAPER.metrics)
    assert found["scores"]["ACC"] > 0.9 and len(found["objective"]) == 60
    assert found["seconds"] > 0 and found["peak_bytes"] > 1e7
    assert found["versions"]["omcal"] and found["machine"]["cores"]
    assert found["data"]["samples"] == 80
    # The name is the paper's and the sizes are not.
    assert found["data_status"] == "differs"
    assert np.shape(found["graph_rows"]["after"]) == (80, 35)


def test_nothing_is_computed_twice_unless_the_file_changes(data, tmp_path):
    path = tmp_path / RECORDS
    run_here(table_cells("MLAN"), data, path)
    before = path.read_bytes()
    run_here(table_cells("MLAN"), data, path)
    assert path.read_bytes() == before
    write_data(data, n=90)
    run_here(table_cells("MLAN"), data, path)
    assert path.read_bytes().startswith(before)
    assert [r["data"]["samples"] for r in read_records(path)] == [80, 90]


def test_errors_become_rows_and_can_be_tried_again(data, tmp_path):
    path = tmp_path / RECORDS
    (data / "Wiki.mat").write_bytes(b"MATLAB 5.0 MAT-file, or so it says" * 20)
    # NMF refuses negative values; no method has the third name.
    cells = [
        *table_cells("MLAN", dataset="Wiki"),
        Cell("Coil", "nmf", 0),
        Cell("Coil", "smc-xyz", 0),
        *table_cells("MLAN"),
    ]
    run_here(cells, data, path)
    found = {(r["dataset"], r["method"]): r for r in read_records(path)}
    assert found["Wiki", "mlan"]["status"] == "error"
    assert "Wiki.mat" in found["Wiki", "mlan"]["error"]
    assert found["Coil", "nmf"]["status"] == "error"
    assert "ValueError" in found["Coil", "nmf"]["error"]
    assert found["Coil", "smc-xyz"]["status"] == "unavailable"
    assert found["Coil", "mlan"]["status"] == "ok"
    run_here(cells, data, path)
    assert len(read_records(path)) == 4
    run_here(cells, data, path, retry=True)
    assert len(read_records(path)) == 6


def test_over_the_memory_limit(tmp_path):
    data = write_data(tmp_path / "data", n=1500)
    path = tmp_path / RECORDS
    cells = table_cells("MCGC", seeds=2)
    run_here(cells, data, path, limits=Limits(60, 0.02))
    (found,) = read_records(path)  # one seed over a limit speaks for the others
    assert found["status"] == "memory" and "emory" in found["error"]
    assert Summary([found]).measure(cells[0], "ACC").word == "OM"


def test_over_the_time_limit_and_again_with_more_time(tmp_path):
    data = write_data(tmp_path / "data", n=1500)
    path = tmp_path / RECORDS
    cells = table_cells("SLMVGC", seeds=2)
    began = time.monotonic()
    run_here(cells, data, path, limits=Limits(0.3, 4))
    assert time.monotonic() - began < 20
    (found,) = read_records(path)
    assert found["status"] == "timeout"
    assert Summary([found]).measure(cells[0], "ACC").word == "---"
    run_here(cells, data, path, limits=Limits(0.2, 4))
    assert len(read_records(path)) == 1
    run_here(cells[:1], data, path, limits=Limits(0.4, 4))
    assert len(read_records(path)) == 2


def test_a_spent_budget_leaves_the_rest_for_later(data, tmp_path):
    path = tmp_path / RECORDS
    cells = table_cells("MLAN", "OMCAL")
    assert run_here(cells, data, path, budget=-1.0) == cells
    assert read_records(path) == []
    assert run_here(cells, data, path) == []


def start(*arguments, **options):
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options)


def test_killed_and_started_again(tmp_path):
    data = write_data(tmp_path / "data", n=100, names=("Coil", "Wiki"))
    out = tmp_path / "out"
    only = ("results", "Coil", "Wiki", "mlan", "fsmsc", "omcal")
    words = ["--data", data, "--out", out, "--only", ",".join(only), "--seeds", 2, "--jobs", 2]
    process = start(*words)
    path = out / RECORDS
    while len(read_records(path)) < 5:
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.02)
    os.kill(process.pid, signal.SIGKILL)
    process.communicate()
    kept = path.read_bytes()
    whole = kept[: kept.rfind(b"\n") + 1]
    # What a kill in the middle of a write would leave.
    path.write_bytes(whole + b'{"dataset": "Coil", "meth')
    _, errors = start(*words).communicate(timeout=600)
    finished = len(whole.splitlines())
    assert f"{finished} of them finished before".encode() in errors
    assert path.read_bytes().startswith(whole)
    keys = [cell_key(r) for r in read_records(path)]
    plan = Plan(PAPER, 2, only=frozenset(only))
    assert sorted(keys) == sorted(cell.key for cell in plan.cells())
    assert all(r["status"] == "ok" for r in read_records(path))
    assert path.read_bytes().count(b"\n") == len(keys)
    assert (out / "report.html").exists() and (out / "tables" / "results_acc.tex").exists()


def test_a_full_disk_stops_with_a_message_and_whole_records(data, tmp_path):
    out = tmp_path / "out"
    words = ["--data", data, "--out", out, "--only", "results,mvschfd,fsmsc", "--seeds", 3]

    def no_file_beyond():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, resource.RLIM_INFINITY))

    process = start(*words, "--quiet", preexec_fn=no_file_beyond)
    printed, errors = process.communicate(timeout=600)
    assert process.returncode == 2 and printed == b""
    assert errors.startswith(b"omcal: error: cannot save a record") and errors.count(b"\n") == 1
    content = (out / RECORDS).read_bytes()
    assert 0 < len(content) <= 2500 and content.endswith(b"\n")
    kept = len(read_records(out / RECORDS))
    assert kept == content.count(b"\n") > 0
    process = start(*words, "--quiet")
    process.communicate(timeout=600)
    assert process.returncode == 0 and len(read_records(out / RECORDS)) == 6


def test_half_a_write_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / RECORDS
    real = os.write
    with RecordFile.open(path) as file:
        file.add({"a": 1})
        monkeypatch.setattr(records_module.os, "write", lambda d, line: real(d, line[:5]))
        with pytest.raises(RecordError, match="the records before it are whole"):
            file.add({"b": 2})
        monkeypatch.undo()
        file.add({"c": 3})
    assert read_records(path) == [{"a": 1}, {"c": 3}]


@pytest.mark.parametrize("rest", [b'{"b": 2', b'{"b": 2}', b"\x00\xff", b"[1, 2]\n", b"\n\n"])
def test_whatever_stands_at_the_end(tmp_path, rest):
    path = tmp_path / RECORDS
    path.write_bytes(b'{"a": 1}\n' + rest)
    with RecordFile.open(path) as file:
        file.add({"c": 3})
    found = read_records(path)
    assert found[0] == {"a": 1} and found[-1] == {"c": 3}
    assert len(found) == (3 if rest == b'{"b": 2}' else 2)


def test_two_runs_do_not_share_a_file(tmp_path):
    path = tmp_path / RECORDS
    with RecordFile.open(path):
        second = RecordFile.open(path)
        with pytest.raises(RecordError, match="in use by another run"):
            second.__enter__()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--data DIR"),
        (["--data", "nowhere"], "no such folder"),
        (["--data", ".", "--only", "Koil"], "'Koil' is unknown"),
    ],
)
def test_bad_input_is_one_line(tmp_path, capsys, words, message):
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "--out", str(tmp_path), *words])
    assert end.value.code == 2
    assert message in capsys.readouterr().err


def test_absent_data_is_asked_for_and_nothing_invented(tmp_path):
    (tmp_path / "data").mkdir()
    written = write_outputs(Plan(PAPER, 1), tmp_path / RECORDS, tmp_path, tmp_path / "data")
    assert all(path.exists() for path in written)
    text = (tmp_path / "tables" / "datasets.md").read_text()
    assert text.count("put ") == 12
    ours = (tmp_path / "tables" / "results_acc.csv").read_text()
    assert not re.search(r"\d\.\d", ours)


def test_real_sets_are_recognised(shared, tmp_path):
    path = tmp_path / RECORDS
    cells = [*table_cells("OMCAL"), *table_cells("OMCAL", dataset="Wiki")]
    run_here(cells, shared / "data", path)
    found = {r["dataset"]: r for r in read_records(path)}
    assert found["Coil"]["scores"]["ACC"] == 1.0 and found["Coil"]["data_status"] == "exact"
    assert found["Wiki"]["scores"]["NMI"] == pytest.approx(0.56, abs=0.03)
    assert Path(path).exists()
