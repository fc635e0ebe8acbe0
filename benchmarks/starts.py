"""The spectral start of G beside the random one: accuracy, iterations and objective; Markdown.

    python benchmarks/starts.py FOLDER [--seeds 20] [--out benchmarks/results/starts.md]

The settings are those of paper_numbers.py; for the same seed both starts have the same anchors.
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from paper_numbers import load, settings
from sklearn.exceptions import ConvergenceWarning

from omcal.metrics import clustering_accuracy

warnings.simplefilter("ignore", ConvergenceWarning)


def runs(data, method, parameters, init: str, seeds: int) -> np.ndarray:
    """(seeds, 3): accuracy, iterations, last objective."""
    X, y = data
    found = []
    for seed in range(seeds):
        model = method(len(np.unique(y)), init=init, random_state=seed, **parameters).fit(X)
        accuracy = clustering_accuracy(y, model.labels_)
        found.append((accuracy, model.n_iter_, model.objective_[-1]))
    return np.array(found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "starts.md")
    options = parser.parse_args()
    lines = [
        f"Mean(sd) of {options.seeds} seeds. Lower: share of the seeds in which the spectral start",
        "ends at a lower objective.",
        "",
        "| data | weights | scale | ACC random | ACC spectral | iterations | spectral | lower |",
        "|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, method, parameters in settings():
        if "anchors" in parameters:
            continue
        data = load(name, options.folder)
        random, spectral = (
            runs(data, method, parameters, init, options.seeds) for init in ("random", "spectral")
        )
        cells = [
            name,
            parameters.get("weighting", "adaptive") if method.__name__ == "OMCAL" else "one view",
            parameters.get("scale", "feature") or "none",
            *(f"{r[:, 0].mean():.3f}({r[:, 0].std(ddof=1):.3f})" for r in (random, spectral)),
            *(f"{r[:, 1].mean():.0f}" for r in (random, spectral)),
            f"{np.mean(spectral[:, 2] < random[:, 2]):.0%}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
