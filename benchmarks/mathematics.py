"""Figures of docs/mathematics.md: rules for the weights by default, and passes saved; Markdown.

    python benchmarks/mathematics.py FOLDER [--out benchmarks/results/mathematics.md]

FOLDER holds Coil.mat, Wiki.mat, Handwritten.mat and MSRCv1.mat. All parameters are the defaults.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from paper_numbers import load
from sklearn.exceptions import ConvergenceWarning

from omcal import OMCAL
from omcal.datasets import load_digits_views
from omcal.metrics import clustering_accuracy

warnings.simplefilter("ignore", ConvergenceWarning)


def weights(folder: Path, seeds: int = 5):
    """Accuracy of each rule, mean (sd), and the largest mean weight."""
    yield "| data | weights | ACC | largest weight |"
    yield "|---|---|---|---|"
    for name in ("Handwritten", "MSRCv1", "Wiki"):
        X, y = load(name, folder)
        for rule in ("adaptive", "agreement", "uniform"):
            fits = [
                OMCAL(len(np.unique(y)), weighting=rule, random_state=seed).fit(X)
                for seed in range(seeds)
            ]
            found = [clustering_accuracy(y, fit.labels_) for fit in fits]
            largest = np.mean([fit.view_weights_ for fit in fits], axis=0).max()
            shown = f"{np.mean(found):.3f} ({np.std(found, ddof=1):.3f})"
            yield f"| {name} | {rule} | {shown} | {largest:.2f} |"


def passes(folder: Path, seeds: int = 3):
    """Passes without and with acceleration, and how much lower the objective ends."""
    yield "| data | seed | passes | accelerated | objective, relative change |"
    yield "|---|---|---|---|---|"
    saved = []
    for name in ("digits", "Coil", "Wiki", "MSRCv1", "Handwritten"):
        if name == "digits":
            data = load_digits_views()
            X, y = data.views, data.labels
        else:
            X, y = load(name, folder)
        for seed in range(seeds):
            plain, fast = (
                OMCAL(len(np.unique(y)), accelerate=how, max_iter=2000, random_state=seed).fit(X)
                for how in (False, True)
            )
            saved.append(plain.n_iter_ / fast.n_iter_)
            change = fast.objective_[-1] / plain.objective_[-1] - 1
            yield f"| {name} | {seed} | {plain.n_iter_} | {fast.n_iter_} | {change:+.1e} |"
    yield ""
    yield f"{min(saved):.2f} to {max(saved):.2f} times fewer passes, median {np.median(saved):.2f}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    results = Path(__file__).parent / "results" / "mathematics.md"
    parser.add_argument("--out", type=Path, default=results)
    options = parser.parse_args()
    lines = []
    for line in (*weights(options.folder), "", *passes(options.folder)):
        lines.append(line)
        print(line, flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
