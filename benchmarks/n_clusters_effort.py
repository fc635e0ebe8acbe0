"""More runs or more samples for the suggested number of clusters: what they bring.

    python benchmarks/n_clusters_effort.py FOLDER [--jobs 2]

More runs are tried on the problems of `n_clusters_rules.py`, more samples on others: of each set
that has them, random classes, never all, with 1800 to 3000 samples, of which 1500 are used or all.
What is recorded in NAME.json, NAME given by --out, is not repeated; the table goes to NAME.md. It
has the differences to the first line with their standard errors over the sets, since problems of
one set are alike.
"""

from __future__ import annotations

import argparse
import json
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from n_clusters import FEW, larger, load, measures, run, subset

LARGE = (  # more than 1800 samples without one of the classes, or without some
    *("Wiki.mat", "Handwritten.mat", "MNIST4.mat", "HW2sources.mat", "Cora.mat", "CiteSeer.mat"),
    *("USPS_views_derived.npz", "USPS_raw.h5", "NoisyMNIST_derived_30000_0.npz", "mnist"),
    *("SCOTUS_counts.npz", "TDT2", "caltech101_silhouettes_28.mat"),
)

# For each kind of problem what is compared; the first is what the others are compared with.
SETTINGS: dict[str, dict[str, dict[str, int]]] = {
    "rules": {"5 runs": {"n_runs": 5}, "10 runs": {"n_runs": 10}},
    "large": {
        "1500 samples, 5 runs": {"n_runs": 5, "max_samples": 1500},
        "1500 samples, 10 runs": {"n_runs": 10, "max_samples": 1500},
        "3000 samples, 5 runs": {"n_runs": 5, "max_samples": 3000},
        "3000 samples, 10 runs": {"n_runs": 10, "max_samples": 3000},
    },
}
TITLES = {"rules": "At most 1500 samples", "large": "1800 to 3000 samples"}


def large(folder: Path, seed: int) -> tuple[str, int, list[Any]]:
    """The set, the true number, and the views of some classes that have many samples."""
    name = LARGE[seed % len(LARGE)]
    views, y = load(folder, name, 6000)
    rng = np.random.RandomState(1000 + seed)
    classes, sizes = np.unique(y, return_counts=True)
    classes = classes[sizes >= 12]
    all_but_one = min(24, len(classes) - 1)
    rows = np.empty(0, dtype=int)
    while len(rows) < 1800:  # other classes, where these have too few samples
        c = rng.randint(min(3, all_but_one), all_but_one + 1)
        chosen = rng.choice(classes, c, replace=False)
        rows = rng.permutation(np.flatnonzero(np.isin(y, chosen)))[:3000]
    return name, c, [view[rows] for view in views]


def problem(folder: Path, kind: str, seed: int) -> tuple[str, int, list[Any], list[int] | None]:
    """The set, the true number, the views, and the numbers to choose from."""
    if kind == "large":
        return *large(folder, seed), FEW
    true, views, known = (larger if kind == "larger" else subset)(folder, seed)
    return known["source"], true, views, FEW if kind == "larger" else None


def tried(folder: Path, work: tuple[str, int, str]) -> dict[str, Any]:
    """What is suggested for a problem with a setting."""
    warnings.simplefilter("ignore")
    kind, seed, setting = work
    source, true, views, numbers = problem(folder, kind, seed)
    settings = SETTINGS["large" if kind == "large" else "rules"][setting]
    if settings.get("max_samples") == 1500:  # the first: those of `large` are in random order
        views = [view[:1500] for view in views]
    found = run(kind, f"seed {seed}", true, views, numbers, **settings)
    kept = ("kind", "set", "true", "suggested", "next")
    return {name: found[name] for name in kept} | {"source": source, "setting": setting}


def table(records: list[dict[str, Any]]) -> str:
    lines = []
    for kind, settings in SETTINGS.items():
        scores = {
            name: {
                (r["kind"], r["set"], r["source"]): measures(r)
                for r in records
                if r["setting"] == name
            }
            for name in settings
        }
        lines += [f"### {TITLES[kind]}", "", "| | problems, sets | right | | among the first three"]
        lines[-1] += " | | off by the factor | logarithm |"
        lines.append("|---" * 8 + "|")
        base = next(iter(scores.values()))
        for name, some in scores.items():
            both = [key for key in some if key in base]
            lines.append(f"| {name} | {_cells(both, some, base)} |")
        lines.append("")
    return "\n".join(lines)


def _cells(both: list[Any], some: dict[Any, Any], base: dict[Any, Any]) -> str:
    """Means over the sets, and the differences on the problems that both were tried on."""
    names = np.array([source for _, _, source in both])
    values = np.array([[some[key], base[key]] for key in both], dtype=float)
    by_set = np.array([values[names == name].mean(axis=0) for name in np.unique(names)])
    mean, change = by_set[:, 0].mean(axis=0), by_set[:, 0] - by_set[:, 1]
    error = change.std(axis=0, ddof=1) / len(by_set) ** 0.5
    cells = [f"{len(both)}, {len(by_set)}"]
    for value, d, e in zip([*mean[:2], np.exp(mean[2])], change.mean(axis=0), error, strict=True):
        cells += [f"{value:.2f}", f"{d:+.3f} ± {e:.3f}" if change.any() else ""]
    return " | ".join(cells)


def main() -> None:
    """Run what is not recorded yet, save after each problem, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data files are")
    parser.add_argument("--subsets", type=int, default=81)
    parser.add_argument("--larger", type=int, default=28)
    parser.add_argument("--large", type=int, default=26)
    parser.add_argument("--jobs", type=int, default=2)
    results = Path(__file__).parent / "results" / "n_clusters_effort"
    parser.add_argument("--out", type=Path, default=results)
    options = parser.parse_args()
    counts = {"subset": options.subsets, "larger": options.larger, "large": options.large}
    path = options.out.with_suffix(".json")
    records = json.loads(path.read_text()) if path.exists() else []
    known = {(r["kind"], r["set"], r["setting"]) for r in records}
    todo = [
        (kind, seed, setting)
        for kind, count in counts.items()
        for seed in range(count)
        for setting in SETTINGS["large" if kind == "large" else "rules"]
        if (kind, f"seed {seed}", setting) not in known
    ]
    with ProcessPoolExecutor(options.jobs) as pool:
        for record in pool.map(partial(tried, options.folder), todo):
            records.append(record)
            path.write_text(json.dumps(records, indent=1) + "\n")
    text = table(records)
    options.out.with_suffix(".md").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
