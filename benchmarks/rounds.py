"""Anchors of a few thousand samples with many features: k-means in rounds beside all features.

    python benchmarks/rounds.py FOLDER [--seeds 16]

writes benchmarks/results/rounds.md: the accuracy and the processor time of a fit on each set, with
`omcal.method.kmeans._in_rounds` and with iterations of all features until nothing changes.
"""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest import mock

import labelled_sets
import numpy as np
from labelled_sets import Record, accuracy, load, mean_and_error, run
from scipy import sparse
from scipy.io import loadmat

from omcal import OMCAL
from omcal.method import kmeans

RESULTS = Path(__file__).parent / "results" / "rounds.md"
IMAGES = ("USPS_halves", "NoisyMNIST", "NoisyMNIST 4000", "NoisyMNIST 7000")
HALVES = ("MNIST_halves 4000", "MNIST_halves 7000", "MNIST_halves 12000")
# Samples, clusters, and how far these lie apart in 550 features of noise.
DRAWN = ("drawn 4000 10 .16", "drawn 6000 6 .13", "drawn 9000 12 .15", "drawn 5000 10 .2")
SETS = (*IMAGES, *HALVES, *DRAWN, "TDT2")


def views_of(folder: str, name: str) -> tuple[list[Any], np.ndarray]:
    """Views and classes of a set; after its name, how many of its samples."""
    kind, *numbers = name.split()
    if kind == "TDT2":  # the ten largest classes, counts of terms
        stored = sparse.csr_array(loadmat(Path(folder) / "TDT2.mat")["fea"]).astype(np.float32)
        y = stored[:, [-2]].toarray().ravel()
        return [stored[:, :-2][y <= 10]], y[y <= 10]
    rng = np.random.RandomState(int(numbers[0]) if numbers else 0)
    if kind == "drawn":
        n, c, apart = int(numbers[0]), int(numbers[1]), float(numbers[2])
        y = rng.randint(c, size=n)
        middles = [apart * rng.normal(size=(c, width))[y] for width in (200, 300, 50)]
        return [(at + rng.normal(size=at.shape)).astype(np.float32) for at in middles], y
    views, y = load(folder, kind)
    rows = np.sort(rng.permutation(len(y))[: int(numbers[0])]) if numbers else slice(None)
    return [view[rows] for view in views], y[rows]


def by_all_features(centres: Any, points: Any, n_clusters: int) -> Any:
    return kmeans._improved(centres, points, n_clusters, kmeans.MAX_ITER)


METHODS: dict[str, Callable[..., Any]] = {"rounds": kmeans._in_rounds, "all": by_all_features}


def work(name: str, method: str, seed: int, folder: str) -> Record:
    with (
        mock.patch.object(kmeans, "_in_rounds", METHODS[method]),
        mock.patch.object(labelled_sets, "load", views_of),
    ):
        found = accuracy(folder, name, lambda c, seed: OMCAL(c, random_state=seed), seed)
    return {"set": name, "method": method, "seed": seed} | found


def table(records: list[Record]) -> str:
    of = {(r["set"], r["method"], r["seed"]): r for r in records}
    seeds, gains = sorted({r["seed"] for r in records}), []
    lines = [
        f"{len(seeds)} seeds; accuracy with all features, and what rounds change of it.",
        "",
        "| set | accuracy | gained | processor time of a fit, rounds / all features |",
        "|---|---|---|---|",
    ]
    for name in SETS:
        rounds, whole = ([of[name, method, seed] for seed in seeds] for method in METHODS)
        pairs = list(zip(rounds, whole, strict=True))
        gain, error = mean_and_error([a["accuracy"] - b["accuracy"] for a, b in pairs])
        gains.append(gain)
        before = np.mean([b["accuracy"] for b in whole])
        times = [a["cpu"] / b["cpu"] for a, b in pairs]
        cells = name, f"{before:.3f}", f"{gain:+.4f} ± {error:.4f}", f"{np.median(times):.2f}"
        lines.append(f"| {' | '.join(cells)} |")
    gain, error = mean_and_error(gains)
    return "\n".join([*lines, f"| mean | | {gain:+.4f} ± {error:.4f} | |", ""])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--seeds", type=int, default=16)
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    cells = [
        (name, method, seed, options.folder)
        for name in SETS
        for seed in range(options.seeds)
        for method in METHODS
    ]
    with tempfile.TemporaryDirectory() as folder:
        records = run(work, cells, Path(folder) / "records.json", jobs=options.jobs, budget=1e5)
    RESULTS.write_text(table(records), encoding="utf-8")
    print(table(records))


if __name__ == "__main__":
    main()
