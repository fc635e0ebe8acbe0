"""One cell, in a process of its own: load, fit, score."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import traceback
import warnings
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from omcal.datasets import MultiViewData
from omcal.experiments.methods import find_method
from omcal.experiments.paper import load_paper
from omcal.experiments.plan import Cell
from omcal.experiments.sources import Source
from omcal.experiments.unlabelled import pack_labels, view_agreement
from omcal.machine.arrays import Array
from omcal.metrics import evaluate
from omcal.model.subset_fits import consensus_graphs

_TITLES = {
    "ACC": "accuracy",
    "NMI": "nmi",
    "Purity": "purity",
    "ARI": "ari",
    "F-score": "f_score",
    "Precision": "precision",
}
_LARGEST_ERROR = 500  # characters of a message that are kept


@dataclass(frozen=True)
class Limits:
    """Limits of one cell."""

    seconds: float
    gigabytes: float
    threads: int = 1


def run_cell(cell: Cell, source: Source, limits: Limits, results: Connection, log: Path) -> None:
    """Run one cell in its own process, and send the outcome."""
    _redirect_output(log)
    threading.Thread(target=_end_with_parent, args=(results,), daemon=True).start()
    os.environ["OMP_NUM_THREADS"] = str(limits.threads)
    try:
        _limit_memory(limits.gigabytes)
        with threadpool_limits(limits.threads):
            outcome = outcome_of(cell, source)
    except MemoryError as error:
        outcome = {"status": "memory", "error": _message(error)}
    except BaseException as error:
        traceback.print_exc()
        outcome = {"status": "error", "error": _message(error)}
    results.send({**outcome, "peak_bytes": _peak_bytes()})


def outcome_of(cell: Cell, source: Source) -> dict[str, Any]:
    """Fit and score one cell in this process."""
    data = source.load(cell.dataset)
    parameters = {"n_clusters": data.n_classes, **cell.parameters}
    if parameters.get("scale") == "none":
        parameters["scale"] = None
    model = source.model(find_method(cell.method), random_state=cell.seed, **parameters)
    views: Any = data.views if len(data.views) > 1 else next(iter(data.views.values()))
    absences = {} if data.present is None else {"present": data.present}
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = perf_counter()
        model.fit(views, **absences)
        seconds = perf_counter() - began
    return {
        "status": "ok",
        **_judged(data, np.asarray(model.labels_)),
        "seconds": seconds,
        "clusters_found": len(np.unique(model.labels_)),
        "objective": _history(model),
        "view_weights": _weights(model),
        "warnings": sorted({str(w.message)[:_LARGEST_ERROR] for w in caught}),
        "data": {
            "samples": data.n_samples,
            "clusters": data.n_classes,
            "features": list(data.widths),
            "notes": list(data.notes),
        },
        **({"graph_rows": _graph_rows(model, data)} if cell.structure else {}),
    }


def _judged(data: MultiViewData, labels: Array) -> dict[str, Any]:
    """Return the scores; without classes the agreement of the views, and the labels."""
    known = data.is_labelled
    if data.labels is not None and known.any():
        found = evaluate(data.labels[known], labels[known])
        return {"scores": {title: float(found[name]) for title, name in _TITLES.items()}}
    by_view = view_agreement(data, labels)
    return {
        "scores": {"agreement": float(np.mean(list(by_view.values())))},
        "view_agreement": by_view,
        "labels": pack_labels(labels),
    }


def _history(model: Any) -> list[float]:
    return [float(value) for value in np.atleast_1d(getattr(model, "objective_", []))]


def _weights(model: Any) -> list[float] | None:
    weights = getattr(model, "view_weights_", None)
    return None if weights is None else [float(weight) for weight in np.ravel(weights)]


def _graph_rows(model: Any, data: MultiViewData) -> dict[str, Any]:
    """Return rows of the consensus graph before and after learning, for samples sorted by class."""
    assert data.labels is not None
    count = load_paper().run["structure_samples"]
    some = np.random.RandomState(0).permutation(data.n_samples)[:count]
    some = some[np.lexsort((model.labels_[some], data.labels[some]))]
    graphs = consensus_graphs(model, {name: view[some] for name, view in data.views.items()})
    classes = np.unique(data.labels[some], return_inverse=True)[1]
    before, after = ([[float(f"{x:.3g}") for x in row] for row in graph] for graph in graphs)
    return {"classes": classes.tolist(), "before": before, "after": after}


def _redirect_output(log: Path) -> None:
    """Send the output of libraries, also from C, to a file instead of the terminal."""
    descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    for stream in (1, 2):
        os.dup2(descriptor, stream)
    os.close(descriptor)


def _end_with_parent(results: Connection) -> None:
    """Exit when the process that waits for the results has ended."""
    with contextlib.suppress(EOFError, OSError):
        results.recv()
    os._exit(1)


def _limit_memory(gigabytes: float) -> None:
    """Let allocations beyond what the libraries already hold fail with MemoryError."""
    import resource  # of Unix

    limit = (memory_line("VmData") or 0) + int(gigabytes * 1e9)
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, hard))


def memory_line(name: str, process: int | str = "self") -> int | None:
    """Return the bytes that Linux reports for a process under a name such as VmData."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{process}/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_LARGEST_ERROR]
