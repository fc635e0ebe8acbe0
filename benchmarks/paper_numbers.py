"""OMCAL and OCAL on real data at stated settings, beside the paper's values; Markdown.

python benchmarks/paper_numbers.py FOLDER [--seeds 5] [--out benchmarks/results/paper_numbers.md]
"""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from omcal import OCAL, OMCAL
from omcal.datasets import load_paper_dataset, load_views
from omcal.metrics import evaluate

warnings.simplefilter("ignore", ConvergenceWarning)

PAPER = {
    "Coil": "1.000 / 1.000",
    "Wiki": ".594(.015) / .562(.004)",
    "TDT2": ".952(.015) / .940(.011)",
}
MANY = 1000  # seeds where the mean of five says little: the spread is wide, and a fit is quick
COIL = {"n_anchors": 35, "beta": 0.3, "gamma": 0.01}
WIKI = {"n_anchors": 30, "beta": 0.1, "gamma": 0.1}


def settings():
    """(data set, method, parameters), one a row of the table."""
    for scale in ("sample", None):
        yield "Coil", OMCAL, {**COIL, "scale": scale}
        yield "Wiki", OMCAL, {**WIKI, "scale": scale}
    for anchors in ({}, {"anchors": "kmeans-full"}):
        yield "TDT2", OCAL, {"n_anchors": 60, "gamma": 0.1, "scale": None, **anchors}
    for name, m in (("Handwritten", 40), ("100leaves", 130), ("MSRCv1", 30), ("MNIST4", 30)):
        for weighting in ("agreement", "adaptive", "uniform"):
            yield name, OMCAL, {"n_anchors": m, "weighting": weighting}


def call(method, parameters) -> str:
    """As one would write it."""
    stated = ", ".join(f"{key}={value!r}" for key, value in parameters.items())
    return f"{method.__name__}({stated})"


def load(name: str, folder: Path):
    """Views, or the one matrix of unit-length rows, and labels."""
    if name == "TDT2":
        data = load_paper_dataset(name, folder)
        return normalize(next(iter(data.views.values()))), data.labels
    data = load_views(folder / f"{name}.mat")
    return data.views, data.labels


def scores(data, method, parameters, seeds: int) -> list[str]:
    """Accuracy and NMI, mean(sd)."""
    X, y = data
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
    lines += ["", f"Over {MANY} seeds:", ""]
    for name, method, parameters in settings():
        if name == "TDT2" or (name, parameters.get("weighting")) == ("MSRCv1", "agreement"):
            accuracy = scores(load(name, options.folder), method, parameters, MANY)[0]
            lines.append(f"- {name}, {call(method, parameters)}: ACC {accuracy}")
            print(lines[-1], flush=True)
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
