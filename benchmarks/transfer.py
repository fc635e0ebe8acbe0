"""SMC, and SMC with one part of OMCAL: with its anchor graphs, or with its consensus.

    python benchmarks/transfer.py FOLDER --seeds 5 --plot docs/images/transfer.png

FOLDER holds Wiki.mat and USPS_views_derived.npz. All methods have their default parameters and, for
the same seed, the same anchors. Records go to NAME.json and tables of mean(sd) to NAME.md, NAME
given by --out; the plot is made of the records, with --plot-only without running anything.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat
from sklearn.exceptions import ConvergenceWarning

from omcal.baselines import SMC, SMCAGC, SMCOCL
from omcal.experiments.runner import machine, versions
from omcal.metrics import evaluate

METHODS: dict[str, tuple[type, dict[str, Any]]] = {
    "SMC": (SMC, {}),
    "SMC-AGC": (SMCAGC, {}),
    "SMC-OCL": (SMCOCL, {}),
    "SMC-OCL, codes as they are": (SMCOCL, {"normalize_codes": False}),
}
PLOTTED = {"SMC": "#9aa5b1", "SMC-AGC": "#5b8fc9", "SMC-OCL": "#c8553d"}
SCORES = {
    "accuracy": "ACC",
    "nmi": "NMI",
    "purity": "Purity",
    "ari": "ARI",
    "f_score": "F",
    "precision": "Precision",
}


def load_wiki(folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """2866 samples, 10 classes, 128 + 10 features."""
    stored = loadmat(folder / "Wiki.mat")
    return [view.astype(np.float64) for view in stored["X"].ravel()], stored["Y"].ravel()


def load_usps(folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """9298 samples, 10 classes, 30 + 9 + 30 features; the second view was made with the labels."""
    stored = np.load(folder / "USPS_views_derived.npz")
    return [stored[name].astype(np.float64) for name in ("iso", "lda", "npe")], stored["y"]


LOADERS = {"Wiki": load_wiki, "USPS": load_usps}


def run(method: str, X: list[np.ndarray], y: np.ndarray, seed: int) -> dict[str, float]:
    """Scores and processor seconds of one fit."""
    cls, parameters = METHODS[method]
    model = cls(n_clusters=len(np.unique(y)), random_state=seed, **parameters)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        labels = model.fit(X).labels_
    seconds = time.process_time() - start
    scores = evaluate(y, labels)
    made = {"versions": versions(), "machine": machine()}
    return {name: float(scores[name]) for name in SCORES} | {"cpu": seconds} | made


def tables(records: list[dict[str, Any]]) -> str:
    """Markdown: one table a data set, one row a method."""
    header = ["method", *SCORES.values(), "cpu s", "seeds"]
    lines = ["Mean(sd) over the seeds; NMI by the larger entropy."]
    for data in LOADERS:
        lines += ["", f"### {data}", "", f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
        for method in METHODS:
            rows = [r for r in records if (r["data"], r["method"]) == (data, method)]
            if not rows:
                continue
            cells = [summary([row[name] for row in rows]) for name in SCORES]
            cells += [f"{np.mean([row['cpu'] for row in rows]):.1f}", str(len(rows))]
            lines.append(f"| {' | '.join([method, *cells])} |")
    return "\n".join(lines) + "\n"


def summary(values: list[float]) -> str:
    """mean(sd), as in the paper; the mean alone of one value."""
    spread = f"({np.std(values, ddof=1):.3f})" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def plot(records: list[dict[str, Any]], path: Path) -> None:
    """Bars of the means with the standard deviations, six scores a data set."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3.2), layout="constrained")
    axes = figure.subplots(1, len(LOADERS), sharey=True)
    for ax, data in zip(axes, LOADERS, strict=True):
        for i, (method, colour) in enumerate(PLOTTED.items()):
            rows = [r for r in records if (r["data"], r["method"]) == (data, method)]
            values = np.array([[row[name] for name in SCORES] for row in rows])
            ax.bar(
                np.arange(len(SCORES)) + 0.26 * (i - 1),
                values.mean(axis=0),
                width=0.24,
                yerr=values.std(axis=0, ddof=1) if len(rows) > 1 else None,
                color=colour,
                label=method,
                error_kw={"elinewidth": 1, "ecolor": "#333333"},
            )
        ax.set_xticks(range(len(SCORES)), SCORES.values())
        ax.set_title(data)
        ax.set_ylim(0, 1)
        ax.yaxis.grid(color="#dddddd", linewidth=0.6)
        ax.set_axisbelow(True)
        ax.spines[["top", "right"]].set_visible(False)
    axes[0].set_ylabel("score")
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    path.parent.mkdir(exist_ok=True)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Run, save records and tables after each method, plot."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data files are")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "transfer")
    parser.add_argument("--plot", type=Path, help="where to save the picture")
    parser.add_argument("--plot-only", action="store_true", help="of the records of an earlier run")
    options = parser.parse_args()
    options.out.parent.mkdir(exist_ok=True)
    path = options.out.with_suffix(".json")
    records = json.loads(path.read_text()) if options.plot_only else []
    for data in [] if options.plot_only else LOADERS:
        X, y = LOADERS[data](options.folder)
        for seed in range(options.seeds):
            for method in METHODS:
                keys = {"data": data, "method": method, "seed": seed}
                records.append(keys | run(method, X, y, seed))
            path.write_text(json.dumps(records, indent=1) + "\n")
            path.with_suffix(".md").write_text(tables(records))
    print(tables(records))
    if options.plot:
        plot(records, options.plot)


if __name__ == "__main__":
    main()
