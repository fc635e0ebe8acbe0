"""Counts of which few are zero: what each scaling makes of them.

    python benchmarks/dense_counts.py FOLDER > benchmarks/results/dense_counts.md

The made ones are of five classes, 300 features, 400 samples: means that differ by a factor of about
1.4 from class to class, noise of a negative binomial distribution, and totals that vary from sample
to sample. Real ones are the most frequent words of SCOTUS_counts in FOLDER (the ten largest
classes, 2500 documents) and the third view of CESC there. Mean accuracy of OMCAL over four seeds.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from omcal import OMCAL
from omcal.datasets import load_views
from omcal.method.kinds import recognise
from omcal.metrics import clustering_accuracy

SCALES = ("auto", "tfidf", "log", "sample", "standard")
SEEDS = range(4)


def made(spread: float, usual: float, seed: int) -> tuple[Any, Any]:
    """Counts about `usual`, whose totals vary by exp(±spread)."""
    rng = np.random.default_rng(seed)
    y = rng.integers(5, size=400)
    means = rng.gamma(1.0, usual, size=300) * np.exp(rng.normal(0, 0.35, size=(5, 300)))
    totals = rng.lognormal(0, spread, size=(400, 1))
    return rng.poisson(rng.gamma(4, means[y] / 4) * totals).astype(float), y


def real(folder: Path) -> Iterator[tuple[str, Any, Any]]:
    """Name, counts and classes of what the folder has."""
    data = load_views(folder / "SCOTUS_counts.npz")
    X, y = data.views["X"].tocsr(), np.unique(data.labels, return_inverse=True)[1]
    large = np.flatnonzero(np.isin(y, np.argsort(-np.bincount(y))[:10]))
    rows = np.random.default_rng(0).permutation(large)[:2500]
    X, y = X[rows], y[rows]
    frequent = np.argsort(-np.bincount(X.indices, minlength=X.shape[1]), kind="stable")
    for first, last in ((0, 100), (0, 200), (0, 400), (50, 250), (100, 400), (0, 1000)):
        words = X[:, frequent[first:last]].toarray().astype(float)
        yield f"SCOTUS, words {first + 1} to {last}", words, y
    cesc = load_views(folder / "CESC.mat")
    yield "CESC, third view", cesc.views["view3"], np.unique(cesc.labels, return_inverse=True)[1]


def line(name: str, sets: list[tuple[Any, Any]]) -> str:
    """A row of the table; there is one set for all seeds, or one for each."""
    X = sets[0][0]
    cells = []
    for scale in SCALES:
        found = []
        for seed in SEEDS:
            counts, y = sets[seed % len(sets)]
            model = OMCAL(int(y.max()) + 1, scale=scale, random_state=seed).fit([counts])
            found.append(clustering_accuracy(y, model.labels_))
        cells.append(f"{np.mean(found):.3f}")
    return f"| {name} | {np.mean(X == 0):.0%} | {recognise(X).name} | {' | '.join(cells)} |"


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"| counts | zeros | auto is | {' | '.join(SCALES)} |")
    print("|---" * (len(SCALES) + 3) + "|")
    for spread in (0.0, 0.3, 0.6, 1.0):
        for usual in (1.0, 3.0, 10.0):
            sets = [made(spread, usual, seed) for seed in SEEDS]
            print(line(f"about {usual:g}, totals × exp(±{spread:g})", sets), flush=True)
    for name, X, y in real(Path(sys.argv[1])):
        print(line(name, [(X, y)]), flush=True)


if __name__ == "__main__":
    main()
