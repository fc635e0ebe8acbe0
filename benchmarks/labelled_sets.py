"""The labelled sets that defaults are judged on, and work on them shared out to processes."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # processes share the cores out

import json
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from omcal.datasets import MultiViewData, load_views, make_multiview, save_views
from omcal.metrics import ari, clustering_accuracy

Record = dict[str, Any]

# The yardstick: 17 circulating sets of several views, from 124 to 4000 samples.
YARDSTICK = (
    *("Coil", "Wiki", "Handwritten", "100leaves", "MNIST4", "MSRCv1", "HW2sources"),
    *("Dermatology", "Prokaryotic", "CESC", "WebKB", "Movies", "BBC4view", "Reuters1200"),
    *("Reuters600", "Cora", "CiteSeer"),
)
# Sets that were not looked at when defaults were chosen on the others: larger ones, more clusters.
FURTHER = (
    *("htad", "USPS_views_derived", "NoisyMNIST", "USPS_halves", "MNIST_halves"),
    *("silhouettes", "made_2", "made_5", "made_30", "made_100", "made_200"),
)


_IMAGES = {
    "USPS_halves": "USPS_raw.h5",
    "MNIST_halves": "mnist",
    "silhouettes": "caltech101_silhouettes_28.mat",
}


@cache
def load(folder: str, name: str) -> tuple[list[Any], np.ndarray]:
    """Views and classes of a set by its name."""
    if name.startswith("made_"):
        c = int(name.removeprefix("made_"))
        made = make_multiview(max(600, 30 * c), n_clusters=c, noise=1.0, random_state=c)
        return list(made.views.values()), made.labels
    found = [path for path in Path(folder).iterdir() if path.stem == name]
    data = load_views(found[0]) if found else _halves(Path(folder), name)
    assert data.labels is not None
    return list(data.views.values()), np.unique(data.labels, return_inverse=True)[1]


def _halves(folder: Path, name: str) -> MultiViewData:
    """Two views of images: their upper and their lower half; or a sample of NoisyMNIST."""
    if name == "NoisyMNIST":
        stored = np.load(folder / "NoisyMNIST_derived_30000_0.npz")
        views, y, most = {v: stored[v] for v in ("v1", "v2")}, stored["y"], 10_000
    else:
        data = load_views(folder / _IMAGES[name])
        assert data.labels is not None
        (X,) = data.views.values()
        views = {"top": X[:, : X.shape[1] // 2], "bottom": X[:, X.shape[1] // 2 :]}
        y, most = data.labels, 20_000
    rows = np.sort(np.random.RandomState(0).permutation(len(y))[:most])
    return MultiViewData({key: view[rows] for key, view in views.items()}, y[rows], name=name)


def write_plain(folder: str, target: str) -> None:
    """All sets as NumPy files, which need no other library to be read."""
    for name in (*YARDSTICK, *FURTHER):
        if not name.startswith("made_"):
            views, y = load(folder, name)
            named = {f"view{v}": view for v, view in enumerate(views)}
            save_views(Path(target) / f"{name}.npz", MultiViewData(named, y, name=name))


def accuracy(folder: str, name: str, make: Callable[[int, int], Any], seed: int) -> Record:
    """Return the scores of one fit to a set by its name."""
    return score(*load(folder, name), make, seed)


def score(views: list[Any], y: np.ndarray, make: Callable[[int, int], Any], seed: int) -> Record:
    """Return accuracy and ARI of one fit, None where the method refuses, and its CPU seconds."""
    began = time.process_time()
    found: Record = {"accuracy": None}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            model = make(len(np.unique(y)), seed)
            labels = model.fit(views).labels_
            found["accuracy"] = float(clustering_accuracy(y, labels))
            found["ari"] = float(ari(y, labels))
            found["iterations"] = int(getattr(model, "n_iter_", 0) or 0)
            found["converged"] = bool(getattr(model, "converged_", True))
        except (ValueError, MemoryError, np.linalg.LinAlgError) as error:
            found["error"] = f"{type(error).__name__}: {error}"[:200]
    return found | {"cpu": time.process_time() - began}


def quick_cells(
    records: Iterable[Record],
    slow: float,
    *,
    names: Iterable[str],
    titles: Iterable[str],
    seeds: Iterable[int],
    folder: str,
) -> list[tuple[str, str, int, str]]:
    """Return the cells of sets, methods and seeds, without pairs that were slow or had no result.

    A pair of set and method is slow where a record of it took more than `slow` CPU seconds.
    """
    left_out = {
        (r["set"], r["method"]) for r in records if r["cpu"] > slow or r["accuracy"] is None
    }
    pairs = [(name, title) for title in titles for name in names]
    return [(*pair, seed, folder) for seed in seeds for pair in pairs if pair not in left_out]


def run(
    work: Callable[..., Record],
    cells: Iterable[tuple[Any, ...]],
    out: Path,
    *,
    jobs: int,
    budget: float,
) -> list[Record]:
    """Records of `work(*cell)`, those in the file `out` included; after `budget` no more begin.

    The first entries of a cell are its set, its method and its seed.
    """
    records: list[Record] = json.loads(out.read_text()) if out.exists() else []
    known = {(r["set"], r["method"], r["seed"]) for r in records}
    waiting = [cell for cell in cells if cell[:3] not in known]
    began = time.perf_counter()
    with ProcessPoolExecutor(jobs) as pool:
        for record in _in_turn(pool, work, waiting, jobs, began + budget):
            records.append(record)
            if len(records) % 50 == 0:
                out.write_text(json.dumps(records) + "\n")
    out.write_text(json.dumps(records) + "\n")
    left = len(waiting) + len(known) - len(records)
    print(f"{len(records)} records, {left} cells left, {time.perf_counter() - began:.0f} s")
    return records


def _in_turn(
    pool: ProcessPoolExecutor,
    work: Callable[..., Record],
    cells: list[tuple[Any, ...]],
    jobs: int,
    deadline: float,
) -> Iterator[Record]:
    waiting = iter(cells)
    running = {pool.submit(work, *cell) for _, cell in zip(range(jobs), waiting, strict=False)}
    while running:
        done = next(as_completed(running))
        running.discard(done)
        yield done.result()
        cell = next(waiting, None)
        if cell is not None and time.perf_counter() < deadline:
            running.add(pool.submit(work, *cell))


def mean_and_error(values: list[float]) -> tuple[float, float]:
    """Mean and its standard error."""
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0
    return float(np.mean(values)), float(error)
