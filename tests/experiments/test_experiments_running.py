"""The cells of the experiments: how they run, and what survives."""

import errno
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

from experiment_cases import PAPER, record, run_command, table_cells, write_data
from omcal.cli import main
from omcal.cli.reproduce import RECORDS
from omcal.experiments import records as records_module
from omcal.experiments.outputs import write_outputs
from omcal.experiments.plan import Cell, Plan
from omcal.experiments.records import RecordFile, Summary, read_records
from omcal.experiments.runner import run_cells
from omcal.experiments.worker import Limits, PaperData

pytestmark = pytest.mark.process

COMMAND = [sys.executable, "-c", "from omcal.cli import main; main()", "reproduce"]
ROOMY = Limits(seconds=60, gigabytes=4)


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data")


def run_here(cells, data, path, **changes):
    return run_cells(cells, PaperData(data), changes.pop("limits", ROOMY), path, **changes)


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


def test_errors_become_rows_and_are_tried_again(data, tmp_path):
    path = tmp_path / RECORDS
    (data / "Wiki.mat").write_bytes(b"MATLAB 5.0 MAT-file, or so it says" * 20)
    # NMF refuses negative values.
    cells = [
        *table_cells("MLAN", dataset="Wiki"),
        Cell("Coil", "nmf", 0),
        *table_cells("MLAN"),
    ]
    run_here(cells, data, path)
    found = {(r["dataset"], r["method"]): r for r in read_records(path)}
    assert found["Wiki", "mlan"]["status"] == "error"
    assert "Wiki.mat" in found["Wiki", "mlan"]["error"]
    assert found["Coil", "nmf"]["status"] == "error"
    assert "ValueError" in found["Coil", "nmf"]["error"]
    assert found["Coil", "mlan"]["status"] == "ok"
    run_here(cells, data, path)
    assert len(read_records(path)) == 5
    # What was wrong is mended: its cell is run again, and finished.
    write_data(data, names=("Coil", "Wiki"))
    run_here(cells[:1], data, path)
    run_here(cells[:1], data, path)
    assert [r["status"] for r in read_records(path)[5:]] == ["ok"]


def test_the_same_command_runs_errors_again_and_says_so(data, tmp_path):
    path = tmp_path / RECORDS
    words = ["--data", data, "--out", tmp_path, "--only", "results,mlan,omcal", "--seeds", "1"]
    run_here(table_cells("MLAN"), data, path)
    (mlan,) = read_records(path)
    failed = {**mlan, "status": "error", "error": "OSError: the disk was gone"}
    path.write_text(json.dumps({k: v for k, v in failed.items() if k != "scores"}) + "\n")
    errors = run_command("reproduce", *words).stderr
    assert "0 of them finished before; 1 ended with an error and run again" in errors
    records = {r["method"]: r for r in read_records(path)}
    assert records["mlan"]["status"] == "ok"
    errors = run_command("reproduce", *words).stderr
    assert "of them finished before\n" in errors and "again" not in errors


def test_a_file_that_cannot_be_opened_is_a_row(data, tmp_path):
    (data / "Wiki.mat").symlink_to(tmp_path / "gone.mat")
    path = tmp_path / RECORDS
    run_here([*table_cells("MLAN", dataset="Wiki"), *table_cells("MLAN")], data, path)
    wiki, coil = read_records(path)
    assert wiki["status"] == "error" and "Wiki.mat" in wiki["error"]
    assert coil["status"] == "ok"


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


@pytest.mark.long
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
    errors = run_command("reproduce", *words).stderr
    finished = len(whole.splitlines())
    assert f"{finished} of them finished before" in errors
    assert path.read_bytes().startswith(whole)
    keys = [Cell.of(r).key for r in read_records(path)]
    plan = Plan(PAPER, 2, only=frozenset(only))
    assert sorted(keys) == sorted(cell.key for cell in plan.cells())
    assert all(r["status"] == "ok" for r in read_records(path))
    assert path.read_bytes().count(b"\n") == len(keys)
    assert (out / "report.html").exists() and (out / "tables" / "results_acc.tex").exists()


@pytest.mark.long
def test_a_full_disk_stops_with_a_message_and_whole_records(data, tmp_path):
    out = tmp_path / "out"
    words = ["--data", data, "--out", out, "--only", "results,mvschfd,fsmsc", "--seeds", 3]

    def no_file_beyond():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2500, resource.RLIM_INFINITY))

    # Where coverage is measured, its own file would be too large as well; and Matplotlib complains
    # where there is no home.
    alone = {name: os.environ[name] for name in os.environ if "COVERAGE" not in name}
    alone["MPLCONFIGDIR"] = str(tmp_path)
    process = start(*words, "--quiet", preexec_fn=no_file_beyond, env=alone)
    printed, errors = process.communicate(timeout=600)
    assert (process.returncode, printed) == (2, b""), errors
    assert errors.startswith(b"omcal: error: cannot save a record") and errors.count(b"\n") == 1
    content = (out / RECORDS).read_bytes()
    assert 0 < len(content) <= 2500 and content.endswith(b"\n")
    kept = len(read_records(out / RECORDS))
    assert kept == content.count(b"\n") > 0
    assert run_command("reproduce", *words, "--quiet").returncode == 0
    assert len(read_records(out / RECORDS)) == 6


def test_a_full_disk_leaves_the_tables_of_before(tmp_path, monkeypatch, capsys):
    (cell,) = table_cells("AMGL")
    (tmp_path / RECORDS).write_text(json.dumps(record(cell)) + "\n")
    words = ["reproduce", "--from-records", "--quiet", "--out", str(tmp_path)]
    with pytest.raises(SystemExit):
        main(words)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert len(before) > 30

    def full(path, data):
        path.write_text(data.decode()[:10])
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(SystemExit) as end:
        main(words)
    message = capsys.readouterr().err
    assert end.value.code == 2 and "no space" in message.lower() and "--from-records" in message
    after = {path: path.read_bytes() for path in tmp_path.rglob("*.*") if path.is_file()}
    assert after == before


def test_half_a_write_is_taken_back(tmp_path, monkeypatch):
    path = tmp_path / RECORDS
    real = os.write
    with RecordFile.open(path) as file:
        file.add({"a": 1})
        monkeypatch.setattr(records_module.os, "write", lambda d, line: real(d, line[:5]))
        with pytest.raises(OSError, match="the records before it are whole"):
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
        with pytest.raises(OSError, match="in use by another run"):
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


def test_without_matplotlib_nothing_is_begun(data, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(SystemExit) as end:
        main(["reproduce", "--data", str(data), "--out", str(tmp_path / "out")])
    assert end.value.code == 2 and "pip install matplotlib" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


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
