"""OMCAL and OCAL with the published settings, beside the paper's values, and with defaults.

python benchmarks/paper_numbers.py FOLDER [--seeds 5] [--out benchmarks/results/paper_numbers.md]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from omcal import OCAL, OMCAL, Consensus
from omcal.datasets import load_paper_dataset, load_views
from omcal.metrics import evaluate

warnings.simplefilter("ignore", ConvergenceWarning)

PAPER = {
    "Coil": "1.000 / 1.000",
    "Wiki": ".594(.015) / .562(.004)",
    "TDT2": ".952(.015) / .940(.011)",
}
COIL = {"n_anchors": 35, "beta": 0.3, "gamma": 0.01}
WIKI = {"n_anchors": 30, "beta": 0.1, "gamma": 0.1}


def settings():
    """(data set, how to make the method, as one would write it), one a row of the table."""
    for scale in ("sample", None):
        yield "Coil", OMCAL.paper, {**COIL, "scale": scale}
        yield "Wiki", OMCAL.paper, {**WIKI, "scale": scale}
    for anchors in ({}, {"anchors": "kmeans-full"}):
        yield "TDT2", OCAL.paper, {"n_anchors": 60, "gamma": 0.1, **anchors}
    yield "TDT2", OCAL, {}
    yield "TDT2", joined_ocal, {}


def joined_ocal(n_clusters: int, random_state: int) -> Consensus:
    """Ten runs of OCAL joined."""
    return Consensus(OCAL(n_clusters), random_state=random_state)


def call(method, parameters) -> str:
    """As one would write it."""
    stated = ", ".join(["c"] + [f"{key}={value!r}" for key, value in parameters.items()])
    return "Consensus(OCAL(c))" if method is joined_ocal else f"{method.__qualname__}({stated})"


def load(name: str, folder: Path):
    """Views, or the one matrix of unit-length rows, and labels."""
    if name == "TDT2":
        data = load_paper_dataset(name, folder)
        return next(iter(data.views.values())), data.labels
    data = load_views(folder / f"{name}.mat")
    return data.views, data.labels


def scores(data, method, parameters, seeds: int) -> list[str]:
    """Accuracy and NMI, mean(sd)."""
    X, y = data
    if method == OCAL.paper:
        X = normalize(X)  # rows of length 1, as the paper's results ask for
    found = [
        evaluate(y, method(len(np.unique(y)), random_state=seed, **parameters).fit_predict(X))
        for seed in range(seeds)
    ]
    values = {key: [score[key] for score in found] for key in ("accuracy", "nmi")}
    return [f"{np.mean(v):.3f}({np.std(v, ddof=1):.3f})" for v in values.values()]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "paper_numbers.md"
    )
    options = parser.parse_args()
    lines = [
        f"Mean(sd) of {options.seeds} seeds; NMI by the maximum of the entropies.",
        "",
        "| data | method | ACC | NMI | paper ACC / NMI |",
        "|---|---|---|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name, method, parameters in settings():
        cells = scores(load(name, options.folder), method, parameters, options.seeds)
        cells = [name, call(method, parameters), *cells, PAPER.get(name, "")]
        lines.append(f"| {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
