"""One cell, in a process of its own: load, fit, score.

Without classes a clustering is scored by its stability, and by its agreement with the views.
"""

from __future__ import annotations

import contextlib
import hashlib
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

import joblib
import numpy as np
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.preprocessing import StandardScaler
from threadpoolctl import threadpool_limits

from omcal.baselines import Method
from omcal.datasets import PAPER_DATASETS, MultiViewData, load_paper_dataset
from omcal.experiments.methods import find_method
from omcal.experiments.plan import Cell, Plan, load_paper
from omcal.machine.arrays import Array
from omcal.machine.memory import memory_line
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
_LARGEST_ERROR = 500  # characters of a message to keep
_SAMPLES = 4000  # at most, drawn at random, whose neighbours are searched
_NEIGHBORS = 10


@dataclass(frozen=True)
class PaperData:
    """The data sets of the paper in a folder; the object is sent to the process of each cell."""

    folder: Path

    def checksums(self) -> dict[str, str]:
        """Return a checksum of each available data set."""
        found = {name: dataset.find(self.folder) for name, dataset in PAPER_DATASETS.items()}
        return {name: _file_checksum(source[1]) for name, source in found.items() if source}

    def load(self, name: str) -> MultiViewData:
        unit_length = load_paper().sizes[name].get("unit_length", False)
        data = load_paper_dataset(name, self.folder, unit_length=unit_length, strict=False)
        if data.labels is None or data.n_classes is None:
            raise ValueError(f"{name} has no classes to compare the clusters with.")
        return data

    def model(self, method: Method, **parameters: Any) -> Any:
        """Return the estimator to compare, with the settings of the paper if it has any."""
        return getattr(method.cls, "paper", method.make)(**parameters)

    def status(self, name: str, outcome: dict[str, Any]) -> str:
        """Return the status in the registry, or "differs" if the sizes are not as published."""
        dataset, here = PAPER_DATASETS[name], outcome.get("data")
        status = dataset.status(self.folder)
        if status == "exact" and here is not None:
            published = [dataset.n_samples, dataset.n_clusters, list(dataset.widths)]
            if published != [here["samples"], here["clusters"], here["features"]]:
                return "differs"
        return status


@dataclass(frozen=True)
class GivenData:
    """One data set in memory."""

    data: MultiViewData

    def checksums(self) -> dict[str, str]:
        data = self.data
        views = [(name, *_compact(view)) for name, view in data.views.items()]
        labels = None if data.labels is None else data.labels.astype(str)
        return {data.name: joblib.hash([views, labels, data.present])}

    def load(self, name: str) -> MultiViewData:
        return self.data

    def model(self, method: Method, **parameters: Any) -> Any:
        return method.make(**parameters)

    def status(self, name: str, outcome: dict[str, Any]) -> str:
        return "given"


Source = PaperData | GivenData


def _compact(view: Any) -> list[Array]:
    """Return the arrays of a view in memory order, so that equal views have equal checksums."""
    arrays = [view.indptr, view.indices, view.data] if sparse.issparse(view) else [view]
    return [np.ascontiguousarray(array) for array in arrays]


def _file_checksum(path: Path) -> str:
    """Return the checksum of a file."""
    try:
        with path.open("rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except OSError:  # loading it will fail, and the records will have the error
        return "unreadable"


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
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        began = perf_counter()
        model.fit(data.views)
        seconds = perf_counter() - began
    weights = getattr(model, "view_weights_", None)
    # A figure of the paper shows rows of the consensus graph of some cells.
    drawn = isinstance(source, PaperData) and cell == Plan(load_paper(), 1).omcal_cell(cell.dataset)
    return {
        "status": "ok",
        **_scored(data, np.asarray(model.labels_)),
        "seconds": seconds,
        "clusters_found": len(np.unique(model.labels_)),
        "objective": _numbers(getattr(model, "objective_", [])),
        "view_weights": None if weights is None else _numbers(weights),
        "warnings": sorted({str(w.message)[:_LARGEST_ERROR] for w in caught}),
        "data": {
            "samples": data.n_samples,
            "clusters": data.n_classes,
            "features": list(data.widths),
            "notes": list(data.notes),
        },
        **({"graph_rows": _graph_rows(model, data)} if drawn else {}),
    }


def _scored(data: MultiViewData, labels: Array) -> dict[str, Any]:
    """Return the scores; without classes the agreement with the views, and the labels."""
    known = data.is_labelled
    if data.labels is not None and known.any():
        scores = evaluate(data.labels[known], labels[known])
        return {"scores": {title: float(scores[name]) for title, name in _TITLES.items()}}
    by_view = view_agreement(data, labels)
    return {
        "scores": {"agreement": float(np.mean(list(by_view.values())))},
        "view_agreement": by_view,
        "labels": labels.tolist(),
    }


def _numbers(values: Any) -> list[float]:
    return [float(value) for value in np.ravel(values)]


def _graph_rows(model: Any, data: MultiViewData) -> dict[str, Any]:
    """Return rows of the consensus graph before and after learning, for samples sorted by class."""
    assert data.labels is not None
    count = load_paper().run["structure_samples"]
    rows = np.random.RandomState(0).permutation(data.n_samples)[:count]
    rows = rows[np.lexsort((model.labels_[rows], data.labels[rows]))]
    graphs = consensus_graphs(model, {name: view[rows] for name, view in data.views.items()})
    classes = np.unique(data.labels[rows], return_inverse=True)[1]
    before, after = ([[float(f"{x:.3g}") for x in row] for row in graph] for graph in graphs)
    return {"classes": classes.tolist(), "before": before, "after": after}


def _redirect_output(log: Path) -> None:
    """Redirect the output of libraries, including C code, from the terminal to a file."""
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
    """Limit the memory beyond the libraries; larger allocations fail with MemoryError."""
    import resource  # Unix only

    limit = (memory_line("VmData") or 0) + int(gigabytes * 1e9)
    kind = resource.RLIMIT_DATA if sys.platform == "linux" else resource.RLIMIT_AS
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
        limit = min(limit, hard)
    resource.setrlimit(kind, (limit, hard))


def _peak_bytes() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak * (1 if sys.platform == "darwin" else 1024)


def _message(error: BaseException) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:_LARGEST_ERROR]


def view_agreement(data: MultiViewData, labels: Array) -> dict[str, float]:
    """Return for each view the share of nearest neighbours in the same cluster, less chance.

    Neighbours are the ten nearest samples in the standardised features of the view. The score is 1
    if all of them are in the cluster of their sample, and 0 if as many are as by chance.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(200, n_clusters=3, noise=0.1, n_noise_views=1, random_state=0)
    >>> found = view_agreement(data, data.labels)
    >>> found["view1"] > 0.95, abs(found["noise1"]) < 0.1
    (True, True)
    """
    some = np.sort(np.random.RandomState(0).permutation(data.n_samples)[:_SAMPLES])
    found = {}
    for name, view in data.views.items():
        here = some if data.present is None else some[data.present[name][some]]
        found[name] = _agreement(view[here], labels[here])
    return found


def _agreement(rows: Array, labels: Array) -> float:
    k = min(_NEIGHBORS, len(labels) - 1)
    shares = np.unique(labels, return_counts=True)[1] / len(labels)
    chance = float(np.sum(shares**2))
    if k < 1 or chance == 1.0:  # a single cluster contains all neighbours: no information
        return 0.0
    scaled = StandardScaler(with_mean=not sparse.issparse(rows)).fit_transform(rows)
    neighbors = NearestNeighbors(n_neighbors=k).fit(scaled).kneighbors(return_distance=False)
    same = float(np.mean(labels[neighbors] == labels[:, None]))
    return (same - chance) / (1 - chance)
