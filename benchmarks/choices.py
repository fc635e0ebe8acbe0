"""How the defaults were chosen: one change at a time, over many sets.

    python benchmarks/choices.py FOLDER --jobs 16 --seeds 5

Each line of the table is OMCAL with its defaults but for one change: the mean accuracy over the 17
sets of the yardstick less that of the defaults, with the standard error over the sets; the same
over further sets, larger or with up to 200 clusters; where it gains and loses most; passes, and
the share of fits that converged. Records go to NAME.json, the table to NAME.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import Any

import labelled_sets as sets
import numpy as np

import omcal.method.new_samples
import omcal.method.span
from omcal import OMCAL, Consensus
from omcal.method.anchors import SAMPLE_PER_ANCHOR as ROWS_PER_ANCHOR
from omcal.method.settings import default_n_anchors

ROW_STEPS = omcal.method.span.row_steps
Changes = Callable[[int, int], dict[str, Any]]  # of n and c


def anchors(per_cluster: float, more: int = 0) -> Changes:
    """So many a cluster, and some more; as many as there can be."""
    return lambda n, c: {"n_anchors": int(min(max(per_cluster * c + more, c + 1, 7), n))}


CHOICES: dict[str, Changes] = {
    "the defaults": lambda n, c: {},
    "anchors: c + 10": anchors(1, 10),
    "anchors: 2 c + 20": anchors(2, 20),
    "anchors: 3 c": anchors(3),
    "anchors: 8 c": anchors(8),
    "anchors: 10 c": anchors(10),
    "anchors: 10 c, 10 neighbours": lambda n, c: {**anchors(10)(n, c), "n_neighbors": 10},
    "neighbours: 3": lambda n, c: {"n_neighbors": 3},
    "neighbours: 8": lambda n, c: {"n_neighbors": min(8, default_n_anchors(n, c) - 1)},
    "weights: agreement": lambda n, c: {"weighting": "agreement"},
    "weights: adaptive": lambda n, c: {"weighting": "adaptive"},
    "weights: uniform": lambda n, c: {"weighting": "uniform"},
    "scale: feature": lambda n, c: {"scale": "feature"},
    "scale: standard": lambda n, c: {"scale": "standard"},
    "scale: sample": lambda n, c: {"scale": "sample"},
    "scale: view": lambda n, c: {"scale": "view"},
    "beta: 0": lambda n, c: {"beta": 0.0},
    "gamma: 1": lambda n, c: {"gamma": 1.0},
    "plain, tol 1e-6": lambda n, c: {"accelerate": False, "tol": 1e-6},
    "plain, tol 1e-8, 1000 iterations": lambda n, c: {
        **{"accelerate": False, "tol": 1e-8, "max_iter": 1000}
    },
    "tol 1e-4": lambda n, c: {"tol": 1e-4},
    "tol 1e-6": lambda n, c: {"tol": 1e-6},
    "start: random": lambda n, c: {"init": "random"},
    "anchors: kmeans-full": lambda n, c: {"anchors": "kmeans-full"},
    "anchors: random": lambda n, c: {"anchors": "random"},
    "directions: all rows": lambda n, c: {
        "row_steps": lambda rows, number: [1] * (omcal.method.span.POWERS + 1)
    },
    "rows per anchor: 128": lambda n, c: {"rows": 128},
    "rows per anchor: 64": lambda n, c: {"rows": 64},
    "rows per anchor: 32": lambda n, c: {"rows": 32},
    "the first version's": lambda n, c: {
        "n_anchors": min(c + int(np.clip(10 * np.sqrt(n / 1e4), 10, 150)), n),
        **{"scale": "feature", "weighting": "adaptive", "accelerate": False, "tol": 1e-6},
    },
    "joined: 5 runs": lambda n, c: {"runs": 5},
    "joined: 10 runs": lambda n, c: {"runs": 10},
}


def work(name: str, choice: str, seed: int, folder: str) -> sets.Record:
    """One fit."""
    changes = CHOICES[choice](
        len(sets.load(folder, name)[1]), len(np.unique(sets.load(folder, name)[1]))
    )
    runs, rows = changes.pop("runs", 1), changes.pop("rows", ROWS_PER_ANCHOR)
    for module in (omcal.method.anchors, omcal.method.span, omcal.method.new_samples):
        module.SAMPLE_PER_ANCHOR = rows  # no parameter
    omcal.method.span.row_steps = changes.pop("row_steps", ROW_STEPS)

    def make(c: int, seed: int) -> Any:
        if runs > 1:
            return Consensus(OMCAL(c, **changes), n_runs=runs, random_state=seed)
        return OMCAL(c, random_state=seed, **changes)

    return {"set": name, "method": choice, "seed": seed, **sets.accuracy(folder, name, make, seed)}


def table(records: list[sets.Record]) -> str:
    """One line a choice, as Markdown."""
    cells: dict[tuple[str, str], list[sets.Record]] = {}
    for r in records:
        if r["accuracy"] is not None:
            cells.setdefault((r["method"], r["set"]), []).append(r)
    mean = {key: float(np.mean([r["accuracy"] for r in found])) for key, found in cells.items()}
    lines = [
        "| choice | yardstick | less the defaults | further sets | less the defaults "
        "| most gained | most lost | passes: median, most | converged |",
        "|---" * 9 + "|",
    ]
    for choice in CHOICES:
        parts = []
        for group in (sets.YARDSTICK, sets.FURTHER):
            names = [n for n in group if (choice, n) in mean and ("the defaults", n) in mean]
            if not names:
                parts += ["", ""]
                continue
            gains = [mean[choice, n] - mean["the defaults", n] for n in names]
            gain, error = sets.mean_and_error(gains)
            parts += [
                f"{np.mean([mean[choice, n] for n in names]):.3f}",
                f"{gain:+.3f} ± {error:.3f}",
            ]
        gains = {
            n: mean[choice, n] - mean["the defaults", n]
            for n in (*sets.YARDSTICK, *sets.FURTHER)
            if (choice, n) in mean and ("the defaults", n) in mean
        }
        if not gains:
            continue
        best, worst = max(gains, key=gains.__getitem__), min(gains, key=gains.__getitem__)
        found = [r for (m, _), some in cells.items() if m == choice for r in some]
        passes = [r["iterations"] for r in found]
        parts += [f"{best} {gains[best]:+.3f}", f"{worst} {gains[worst]:+.3f}"]
        parts += [
            f"{np.median(passes):.0f}, {max(passes)}",
            f"{np.mean([r['converged'] for r in found]):.2f}",
        ]
        lines.append(f"| {choice} | {' | '.join(parts)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run what is not recorded yet, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the data files are")
    parser.add_argument("--sets", nargs="+", default=[*sets.YARDSTICK, *sets.FURTHER])
    parser.add_argument("--choices", nargs="+", default=list(CHOICES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--budget", type=float, default=3000, help="seconds")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results" / "choices")
    options = parser.parse_args()
    cells = [
        (name, choice, seed, options.folder)
        for seed in range(options.seeds)
        for choice in options.choices
        for name in options.sets
    ]
    path = options.out.with_suffix(".json")
    records = sets.run(work, cells, path, jobs=options.jobs, budget=options.budget)
    options.out.with_suffix(".md").write_text(table(records))
    print(table(records))


if __name__ == "__main__":
    main()
