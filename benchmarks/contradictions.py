"""Doubts about views that contradict the others, and adaptive weights on Handwritten.

    python benchmarks/contradictions.py FOLDER

The figures are those of docs/weights.md.
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

import numpy as np

from omcal import OMCAL
from omcal.datasets import load_views, make_multiview
from omcal.metrics import clustering_accuracy


def doubted(seed: int, planted: bool) -> bool:
    """Whether a model of one draw doubts a view; `planted` gives the last one other groups."""
    rng = np.random.default_rng(seed)
    n, c, V = (int(rng.integers(*bounds)) for bounds in ((150, 700), (2, 9), (2, 5)))
    noise = rng.uniform(0.3, 2.0, size=V).tolist()
    X = list(
        make_multiview(n, n_clusters=c, n_views=V, noise=noise, random_state=seed).views.values()
    )
    if planted:
        level = float(rng.uniform(0.3, 0.8))
        other = make_multiview(n, n_clusters=c, n_views=1, noise=level, random_state=seed + 1000)
        X[-1] = next(iter(other.views.values()))[rng.permutation(n)]
    return any("view" in doubt.what for doubt in OMCAL(c, random_state=0).fit(X).doubts_)


def main() -> None:
    warnings.simplefilter("ignore")
    print(f"views that agree: {sum(doubted(seed, False) for seed in range(100))} of 100 doubted")
    print(f"a planted view: {sum(doubted(seed, True) for seed in range(50))} of 50 doubted")
    data = load_views(Path(sys.argv[1]) / "Handwritten.mat")
    for rule in ("adaptive", "agreement"):
        models = [
            OMCAL(10, weighting=rule, scale="feature", random_state=seed).fit(data.views)
            for seed in range(5)
        ]
        scores = [clustering_accuracy(data.labels, model.labels_) for model in models]
        print(rule, np.round(scores, 3), models[0].explain_views().warnings[:1])


if __name__ == "__main__":
    main()
