"""Small data with the names of the paper's, cells and records, to test the experiments with."""

import json
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import asdict
from io import StringIO
from subprocess import CompletedProcess

import numpy as np
import pytest
from scipy import io

from omcal import __version__
from omcal.cli import main
from omcal.experiments.plan import Plan, load_paper

PAPER = load_paper()


def run_command(*words):
    """Run a command of omcal in this process, whose cells start from a server that it keeps."""
    command, out, errors = [*map(str, words)], StringIO(), StringIO()
    with redirect_stdout(out), redirect_stderr(errors), pytest.raises(SystemExit) as end:
        main(command)
    return CompletedProcess(command, end.value.code, out.getvalue(), errors.getvalue())


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


def table_cells(*titles, dataset="Coil", seeds=1):
    plan = Plan(PAPER, seeds)
    return [plan.table_cell(dataset, PAPER.row(t), s) for s in range(seeds) for t in titles]


def record(cell, status="ok", **more):
    base = {
        **asdict(cell),
        "status": status,
        "data_status": "exact",
        "file_print": "1",
        "error": "why",
        "limits": {"seconds": 9, "gigabytes": 1},
        "threads": 1,
        "jobs": 1,
        "versions": {"omcal": __version__},
        "machine": {"system": "s", "processor": "p", "cores": 1},
    }
    if status == "ok":
        base |= {"scores": dict.fromkeys(PAPER.metrics, 0.5), "seconds": 1.0, "objective": [2, 1]}
    return base | more


def write_records(path):
    """One record of every quick cell of a data set with several views and of one with one."""
    plan = Plan(PAPER, 1, quick=True)
    rows = {"classes": [0, 0, 1], "before": np.eye(3).tolist(), "after": np.eye(3).tolist()}
    cells = [*plan.results(0), *plan.singleview(0), *plan.transfer(0), *plan.grid(0)]
    cells += plan.anchors(0)
    some = [cell for cell in cells if cell.dataset in ("Coil", "TDT2")]
    drawn = list(plan.structure(0))
    lines = [record(c, **({"graph_rows": rows} if c in drawn else {})) for c in some]
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
