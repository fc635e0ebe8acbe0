"""Plain defaults: OMCAL, its consensus, the paper's settings, and every rival of omcal.baselines.

    python benchmarks/defaults.py FOLDER --jobs 16 --seeds 5 --budget 3000

FOLDER holds the files of the sets. Every method is given the views as they are and the number of
classes, nothing else. The table has the accuracy, mean ± standard error over the seeds; below are
the mean over the sets, the mean rank, and on how many sets OMCAL is better or worse by more than
.01. A method whose first seed takes more than --slow CPU seconds gets no further one on that set.
Records go to NAME.json, tables to NAME.md; what is recorded is not repeated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import labelled_sets as sets
import numpy as np
from scipy.stats import rankdata

from omcal import OMCAL, Consensus
from omcal.baselines import METHODS

_CLEAR = 0.01


def titles() -> list[str]:
    """The methods in the order of the table; best-view is left out, as it looks at the classes."""
    rivals = [m.title for name, m in METHODS.items() if m.multi_view and name != "best-view"]
    return ["Consensus", "OMCAL", "OMCAL.paper", *rivals]


def make(title: str, n_clusters: int, seed: int) -> Any:
    """The method with its defaults."""
    if title == "Consensus":
        return Consensus(OMCAL(n_clusters), random_state=seed)
    if title.startswith("OMCAL"):
        kind = OMCAL.paper if title.endswith("paper") else OMCAL
        return kind(n_clusters, random_state=seed)
    (found,) = [method.cls for method in METHODS.values() if method.title == title]
    return found(n_clusters, random_state=seed)


def work(name: str, title: str, seed: int, folder: str) -> sets.Record:
    """One fit."""
    found = sets.accuracy(folder, name, lambda c, s: make(title, c, s), seed)
    return {"set": name, "method": title, "seed": seed, **found}


def table(records: list[sets.Record]) -> str:
    """Sets by methods, then the summary, as Markdown."""
    names = [n for n in (*sets.YARDSTICK, *sets.FURTHER) if any(r["set"] == n for r in records)]
    columns = [t for t in titles() if any(r["method"] == t for r in records)]
    cells: dict[tuple[str, str], list[float]] = {}
    for r in records:
        if r["accuracy"] is not None:
            cells.setdefault((r["set"], r["method"]), []).append(r["accuracy"])
    mean = np.array([[np.mean(cells.get((n, m), np.nan)) for m in columns] for n in names])
    lines = [f"| set | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
    for name, row in zip(names, mean, strict=True):
        shown = [_cell(cells.get((name, m), []), np.nanmax(row)) for m in columns]
        lines.append(f"| {name} | {' | '.join(shown)} |")
    lines += [
        "",
        "| method | mean | sets | mean rank | OMCAL better on | worse on |",
        "|---" * 6 + "|",
    ]
    # Where a method has no result it comes last.
    ranks = np.array([rankdata(np.where(np.isnan(row), 1.0, -row)) for row in mean])
    ours = mean[:, columns.index("OMCAL")] if "OMCAL" in columns else np.full(len(mean), np.nan)
    for j in np.argsort(-np.nanmean(mean, axis=0)):
        there = ~np.isnan(mean[:, j])
        gain = (ours - mean[:, j])[there]
        better, worse = int((gain > _CLEAR).sum()), int((gain < -_CLEAR).sum())
        error = np.std(mean[there, j], ddof=1) / np.sqrt(there.sum())
        lines.append(
            f"| {columns[j]} | {mean[there, j].mean():.3f} ± {error:.3f} | {there.sum()} | "
            f"{ranks[:, j].mean():.1f} | {better} | {worse} |"
        )
    return "\n".join(lines) + "\n"


def _cell(values: list[float], best: float) -> str:
    if not values:
        return "-"
    mean, error = sets.mean_and_error(values)
    text = f"{mean:.3f} ± {error:.3f}" if len(values) > 1 else f"{mean:.3f}"
    return f"**{text}**" if mean >= best - 5e-4 else text


def main() -> None:
    """Run what is not recorded yet, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the data files are")
    parser.add_argument("--sets", nargs="+", default=list(sets.YARDSTICK))
    parser.add_argument("--methods", nargs="+", default=titles())
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--slow", type=float, default=60)
    parser.add_argument("--budget", type=float, default=3000, help="seconds")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "defaults")
    options = parser.parse_args()
    path = options.out.with_suffix(".json")
    began: list[sets.Record] = []
    for seeds in ([0], list(range(1, options.seeds))):
        chosen = {"names": options.sets, "titles": options.methods, "seeds": seeds}
        cells = sets.quick_cells(began, options.slow, **chosen, folder=options.folder)
        began = sets.run(work, cells, path, jobs=options.jobs, budget=options.budget / 2)
    options.out.with_suffix(".md").write_text(table(began))
    print(table(began))


if __name__ == "__main__":
    main()
