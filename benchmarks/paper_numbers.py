"""OMCAL and OCAL with the published settings, beside the paper's values, and with defaults.

    python benchmarks/paper_numbers.py [FOLDER] [--seeds 5]

Records of the data in the folder go to results/paper_numbers.json; without a folder the stored ones
are used. The table and the conditions go to docs/results.md, between <!-- table NAME --> and
<!-- end -->.
"""

from __future__ import annotations

import argparse
import json
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import normalize

from omcal import OCAL, OMCAL, Consensus
from omcal.datasets import load_paper_dataset, load_views
from omcal.experiments.records import made_with
from omcal.experiments.runner import machine, versions
from omcal.metrics import evaluate

for category in (ConvergenceWarning, UserWarning):
    warnings.simplefilter("ignore", category)

RECORDS = Path(__file__).parent / "results" / "paper_numbers.json"
PAGE = Path(__file__).parents[1] / "docs" / "results.md"
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
    if method is joined_ocal:
        return "Consensus(OCAL(c))"
    owner = getattr(method, "__self__", None)  # of a class method that the class may inherit
    name = method.__name__ if owner is None else f"{owner.__name__}.{method.__name__}"
    return f"{name}({stated})"


def load(name: str, folder: Path):
    """Views, or the one matrix of unit-length rows, and labels."""
    if name == "TDT2":
        data = load_paper_dataset(name, folder)
        return next(iter(data.views.values())), data.labels
    data = load_views(folder / f"{name}.mat")
    return data.views, data.labels


def run(data, method, parameters, seed: int) -> dict[str, float]:
    """Return accuracy and NMI of one fit."""
    X, y = data
    if method == OCAL.paper:
        X = normalize(X)  # rows of length 1, as the paper's results ask for
    found = evaluate(y, method(len(np.unique(y)), random_state=seed, **parameters).fit_predict(X))
    return {name: float(found[name]) for name in ("accuracy", "nmi")}


def summary(values: list[float]) -> str:
    """Return mean(sd)."""
    return f"{np.mean(values):.3f}({np.std(values, ddof=1):.3f})"


def table(records: list[dict[str, Any]]) -> str:
    """Return one row per data set and method, as Markdown."""
    lines = ["| data | method | ACC | NMI | paper ACC / NMI |", "|---|---|---|---|---|"]
    for data, method in dict.fromkeys((r["data"], r["method"]) for r in records):
        rows = [r for r in records if (r["data"], r["method"]) == (data, method)]
        cells = [summary([r[name] for r in rows]) for name in ("accuracy", "nmi")]
        lines.append(f"| {' | '.join([data, method, *cells, PAPER[data]])} |")
    return "\n".join(lines)


def measure(folder: Path, seeds: int) -> list[dict[str, Any]]:
    """Run every method with every seed; return one record for each run."""
    records = []
    for name, method, parameters in settings():
        data = load(name, folder)
        keys = {"data": name, "method": call(method, parameters)}
        made = {"versions": versions(), "machine": machine()}
        for seed in range(seeds):
            records.append(keys | {"seed": seed} | run(data, method, parameters, seed) | made)
        print(table(records).splitlines()[-1], flush=True)
    return records


def filled(text: str, records: list[dict[str, Any]]) -> str:
    """Return the text of the page with the table and the conditions of the records."""
    made = sorted({made_with(record) for record in records})
    parts = {"paper": table(records), "conditions": "\n".join(f"- {line}" for line in made)}
    for name, part in parts.items():
        pattern = rf"(<!-- table {name} -->\n).*?(<!-- end -->)"
        text = re.sub(
            pattern, lambda mark, part=part: f"{mark[1]}{part}\n{mark[2]}", text, flags=re.S
        )
    return text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="the data; none: the stored records")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    if options.folder:
        found = measure(options.folder, options.seeds)
        RECORDS.write_text(json.dumps(found, indent=1) + "\n")
    records = json.loads(RECORDS.read_text())
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8"), records), encoding="utf-8")


if __name__ == "__main__":
    main()
