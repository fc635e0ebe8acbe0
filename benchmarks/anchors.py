"""Anchors by "kmeans" and by "kmeans-full" on small data: accuracy and its spread; Markdown.

    python benchmarks/anchors.py FOLDER [--seeds 20] [--jobs 2]

On so few samples both see all rows; "kmeans-full" tries more points for each anchor of its start.
Sets and scalings are all of FOLDER with few samples and several views, and TDT2.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from itertools import product
from pathlib import Path

import numpy as np
from paper_numbers import load

from omcal import OCAL, OMCAL
from omcal.metrics import clustering_accuracy

N_ANCHORS = {
    **{"MSRCv1": 30, "MNIST4": 30, "Wiki": 30, "BBC4view": 30, "CESC": 30, "Dermatology": 30},
    **{"Prokaryotic": 30, "WebKB": 30, "Coil": 35, "Handwritten": 40, "HW2sources": 40},
    **{"Cora": 40, "CiteSeer": 40, "Reuters1200": 40, "Reuters600": 40, "Movies": 60},
    **{"100leaves": 130, "TDT2": 60},
}
KINDS = ("kmeans", "kmeans-full")
Cell = tuple[str, str | None]  # set and scaling


def accuracies(folder: Path, cell: Cell, anchors: str, seeds: range) -> list[float]:
    """Of one fit a seed."""
    name, scale = cell
    X, y = load(name, folder)
    parameters = {"n_anchors": N_ANCHORS[name], "scale": scale, "anchors": anchors}
    method, more = (OCAL, {}) if name == "TDT2" else (OMCAL, {"weighting": "agreement"})
    model = method(len(np.unique(y)), **parameters, **more)
    warnings.simplefilter("ignore")
    return [
        clustering_accuracy(y, model.set_params(random_state=seed).fit_predict(X)) for seed in seeds
    ]


def table(found: dict[tuple[Cell, str], np.ndarray], seeds: int) -> str:
    lines = [
        f"Accuracy, mean(sd) of {seeds} seeds, weights by agreement; the difference of the means "
        "with its standard error. TDT2 has unit-length rows and ten times the seeds.",
        "",
        '| set | scale | m | "kmeans" | "kmeans-full" | difference |',
        "|---|---|---|---|---|---|",
    ]
    cells = list(dict.fromkeys(cell for cell, _ in found))
    for cell in cells:
        both = [found[cell, kind] for kind in KINDS]
        error = np.sqrt(sum(x.var(ddof=1) / len(x) for x in both))
        scores = " | ".join(f"{x.mean():.3f}({x.std(ddof=1):.3f})" for x in both)
        change = f"{both[1].mean() - both[0].mean():+.4f} ± {error:.4f}"
        lines.append(f"| {cell[0]} | {cell[1]} | {N_ANCHORS[cell[0]]} | {scores} | {change} |")
    several = [cell for cell in cells if cell[0] != "TDT2"]
    means = [np.mean([found[cell, kind].mean() for cell in several]) for kind in KINDS]
    spreads = np.array([[found[cell, kind].std(ddof=1) for kind in KINDS] for cell in several])
    less, more = (spreads[:, 1] < spreads[:, 0]).sum(), (spreads[:, 1] > spreads[:, 0]).sum()
    lines += [
        "",
        f"Mean of the {len(several)} rows with several views: {means[0]:.4f} and {means[1]:.4f}. "
        f'With "kmeans-full" the seeds differ less in {less} of them and more in {more}.',
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "anchors.md"
    )
    options = parser.parse_args()
    several = [name for name in N_ANCHORS if name != "TDT2"]
    cells: list[Cell] = [*product(several, ("feature", "sample")), ("TDT2", None)]
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    # New processes read these.
    with ProcessPoolExecutor(options.jobs, multiprocessing.get_context("spawn")) as pool:
        parts = {}
        for cell, kind in product(cells, KINDS):
            seeds = options.seeds * (10 if cell[0] == "TDT2" else 1)
            parts[cell, kind] = [
                pool.submit(accuracies, options.folder, cell, kind, range(i, min(i + 10, seeds)))
                for i in range(0, seeds, 10)
            ]
        found = {
            key: np.concatenate([part.result() for part in some]) for key, some in parts.items()
        }
    text = table(found, options.seeds)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
