"""Rules for the weights of the views, on all multi-view sets of a folder.

    python benchmarks/weighting.py FOLDER --seeds 5 --budget 700
    python benchmarks/weighting.py FOLDER --scale sample --sets Movies.mat ... --out NAME

Each set is clustered as it is, with one view of pure noise added, and with its widest view given
twice; every rule works on the same anchor graphs and from the same start. The tables have the mean
accuracy (sd) over the seeds. Of larger sets a random sample of --samples is used. Records go to
NAME.json after every set and tables to NAME.md in the end, NAME given by --out; what is recorded
there already is not repeated, unless --fresh is given. After --budget seconds no further set is
begun.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from scipy import sparse

from omcal import OMCAL
from omcal.datasets import load_views
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, solve
from omcal.method.updates import agreement_weights
from omcal.metrics import clustering_accuracy, nmi
from omcal.places.base import PlaceRequest
from omcal.places.memory import InMemory
from omcal.views.reading import read_views

SETS = (
    *("Coil.mat", "Wiki.mat", "Handwritten.mat", "100leaves.mat", "MNIST4.mat", "MSRCv1.mat"),
    *("HW2sources.mat", "Dermatology.mat", "htad.csv", "Prokaryotic.mat", "CESC.mat", "WebKB.mat"),
    *("Movies.mat", "BBC4view.mat", "Reuters1200.mat", "Reuters600.mat", "Cora.mat"),
    *("CiteSeer.mat", "USPS_views_derived.npz", "NoisyMNIST_derived_30000_0.npz"),
)
COUNTS = {"Movies", "BBC4view", "WebKB", "Reuters1200", "Reuters600", "Cora", "CiteSeer"}
CONDITIONS = ("plain", "noise", "twice")
COMPARED = (
    *(("distinct", "adaptive"), ("agreement", "adaptive"), ("distinct", "agreement")),
    ("corrected, distinct", "distinct"),
)
_SHARPNESS = 50  # a cosine of .99 between two graphs counts as 0.6 of a copy, one of .93 as 0.03
Array = np.ndarray
Predictor = Callable[[Array, Array, Array, Array, Array], Array]  # of StS, H, StF, FtF, G


def corrected_agreement(StS: Array, H: Array, StF: Array, FtF: Array, G: Array) -> Array:
    """Cosine between graph and clustering, less what any graph of these column sums would have.

    All sums of columns are in what the solver has: rows of S_v sum to 1, so S_vᵀ1 = StS[v,v] 1
    and 1ᵀF = 1ᵀStF[v].
    """
    columns = np.einsum("vvij->vi", StS)
    n = columns[0].sum()
    F_columns = StF[0].sum(axis=0)
    inner = StF.reshape(len(StF), -1) @ G.ravel() - columns @ G @ F_columns / n
    graph_size = np.diag(H) - np.square(columns).sum(axis=1) / n
    F_size = np.trace(FtF) - F_columns @ F_columns / n
    size = np.sqrt(np.maximum(graph_size, 0) * max(F_size, 0))
    return shares(np.divide(inner, size, out=np.zeros_like(inner), where=size > 0))


def distinct_agreement(StS: Array, H: Array, StF: Array, FtF: Array, G: Array) -> Array:
    """Agreement, shared out among views whose graphs are nearly the same."""
    return shares(agreement_weights(H, StF, FtF, G) / crowd(H))


def corrected_distinct(StS: Array, H: Array, StF: Array, FtF: Array, G: Array) -> Array:
    """Corrected agreement, shared out among views whose graphs are nearly the same."""
    return shares(corrected_agreement(StS, H, StF, FtF, G) / crowd(H))


def crowd(H: Array) -> Array:
    """How many views each view is: 1 alone, 2 for a view that is there twice."""
    size = np.sqrt(np.diag(H))
    return ((H / np.outer(size, size)) ** _SHARPNESS).sum(axis=1)


def shares(values: Array) -> Array:
    """Non-negative numbers that sum to 1."""
    values = np.maximum(values, 0)
    return values / values.sum() if values.sum() > 0 else np.full(len(values), 1 / len(values))


RULES: dict[str, Predictor | None] = {
    "adaptive": None,
    "agreement": None,
    "uniform": None,
    "distinct": distinct_agreement,
    "corrected": corrected_agreement,
    "corrected, distinct": corrected_distinct,
}


def load(path: Path, most: int) -> tuple[list[Any], Array]:
    """Views and classes, at most so many samples of them."""
    data = load_views(path)
    assert data.labels is not None
    rows: Any = slice(None)
    if data.n_samples > most:
        rows = np.sort(np.random.RandomState(0).choice(data.n_samples, most, replace=False))
    views = [
        view.tocsr()[rows] if sparse.issparse(view) else view[rows] for view in data.views.values()
    ]
    return views, np.unique(data.labels[rows], return_inverse=True)[1]


def changed(views: list[Any], condition: str, random_state: np.random.RandomState) -> list[Any]:
    """The views of one condition."""
    if condition == "noise":
        width = int(np.clip(np.median([view.shape[1] for view in views]), 10, 100))
        return [*views, random_state.standard_normal((views[0].shape[0], width))]
    if condition == "twice":
        return [*views, max(views, key=lambda view: view.shape[1])]
    return views


def clusterings(
    views: list[Any], c: int, seed: int, rules: list[str], options: argparse.Namespace
) -> Iterator[tuple[str, Any]]:
    """The rules and what comes of them: labels, weights."""
    random_state = np.random.RandomState(seed)
    model = OMCAL(n_clusters=c)
    read = read_views(model, views)
    m = model._resolve_n_anchors(read.n)
    settings, place = (
        GraphSettings(c, m, 5, options.scale, "kmeans"),
        InMemory(read, PlaceRequest()),
    )
    (rows,) = place.build(place.learn(settings, [random_state]), settings)
    StS = rows.gram()
    start = np.linalg.qr(random_state.standard_normal((m, c)))[0]
    V = len(views)
    for name in rules:
        rule = RULES[name]
        kind: Any = {"adaptive": "adaptive", "uniform": "fixed"}.get(name, "agreement")
        problem = Problem(model.beta, model.gamma, kind, np.full(V, 1 / V), options.max_iter, 1e-5)
        new = agreement_weights if rule is None else partial(rule, StS)
        with patch("omcal.method.solver.agreement_weights", new):
            solution = solve(rows, StS, start, problem)
        Z = solution.consensus
        labels = rows.assign(Z.alpha, *Z.f_step(), Z.G).labels
        yield name, (labels, solution.alpha)


def run_set(path: Path, rules: list[str], options: argparse.Namespace) -> list[dict[str, Any]]:
    """Records of one set: conditions × seeds × rules."""
    views, y = load(path, options.samples)
    records = []
    for condition in CONDITIONS:
        for seed in range(options.seeds):
            given = changed(views, condition, np.random.RandomState(100 + seed))
            found = clusterings(given, len(np.unique(y)), seed, rules, options)
            for rule, (labels, alpha) in found:
                keys = {"set": path.stem, "condition": condition, "rule": rule, "seed": seed}
                scores = {"acc": clustering_accuracy(y, labels), "nmi": nmi(y, labels)}
                records.append(keys | scores | {"weights": np.round(alpha, 4).tolist()})
    return records


def cells(records: list[dict[str, Any]], condition: str, name: str, rule: str) -> list[float]:
    wanted = (condition, name, rule)
    return [r["acc"] for r in records if (r["condition"], r["set"], r["rule"]) == wanted]


def tables(records: list[dict[str, Any]]) -> str:
    """Markdown: one table a condition, one row a set, and the means over the sets."""
    names = list(dict.fromkeys(r["set"] for r in records))
    recorded = {r["rule"] for r in records}
    rules = [rule for rule in RULES if rule in recorded]
    seeds = len({r["seed"] for r in records})
    lines = [f"Accuracy, mean(sd) over {seeds} seeds; the best mean of a row in bold."]
    means: dict[str, list[float]] = {}
    for condition in CONDITIONS:
        lines += ["", f"### {condition}", "", f"| set | {' | '.join(rules)} |"]
        lines.append("|---" * (len(rules) + 1) + "|")
        table = [[cells(records, condition, name, rule) for rule in rules] for name in names]
        for name, row in zip(names, table, strict=True):
            best = max(np.mean(values) for values in row if values)
            shown = [_cell(values, best) for values in row]
            lines.append(f"| {name} | {' | '.join(shown)} |")
        columns = zip(*table, strict=True)
        means[condition] = [float(np.mean(np.concatenate(column))) for column in columns]
        lines.append(f"| mean | {' | '.join(f'{mean:.3f}' for mean in means[condition])} |")
    lines += ["", "### mean of all", "", f"| | {' | '.join(rules)} |"]
    lines.append("|---" * (len(rules) + 1) + "|")
    total = np.mean(list(means.values()), axis=0)
    lines.append(f"| mean | {' | '.join(f'{mean:.3f}' for mean in total)} |")
    worst = _worst(records, names, rules)
    lines.append(f"| furthest below the best rule | {' | '.join(worst)} |")
    return "\n".join([*lines, *comparisons(records, names)]) + "\n"


def comparisons(records: list[dict[str, Any]], names: list[str]) -> Iterator[str]:
    """Differences between rules over the cells, a cell being a set in a condition."""
    spreads = [
        np.std(values, ddof=1)
        for condition in CONDITIONS
        for name in names
        for rule in RULES
        if len(values := cells(records, condition, name, rule)) > 1
    ]
    yield ""
    yield "### rules compared"
    yield ""
    yield f"sd over the seeds of a cell: mean {np.mean(spreads):.3f}, largest {max(spreads):.3f}"
    yield ""
    yield "| difference | sets | conditions | cells | mean ± se | > .01 | < -.01 | least |"
    yield "|---|---|---|---|---|---|---|---|"
    plain = [name for name in names if name not in COUNTS]
    for first, second in COMPARED:
        for which, chosen in (("all", names), ("no counts", plain)):
            for some in (CONDITIONS, *((condition,) for condition in CONDITIONS)):
                pairs = [
                    [cells(records, condition, name, rule) for rule in (first, second)]
                    for condition in some
                    for name in chosen
                ]
                gains = np.array([np.mean(a) - np.mean(b) for a, b in pairs if a and b])
                if len(gains) < 2:
                    continue
                error = gains.std(ddof=1) / np.sqrt(len(gains))
                shown = [f"{first} - {second}", which, ", ".join(some), str(len(gains))]
                shown += [f"{gains.mean():+.4f} ± {error:.4f}", str((gains > 0.01).sum())]
                shown += [str((gains < -0.01).sum()), f"{gains.min():+.3f}"]
                yield f"| {' | '.join(shown)} |"


def _cell(values: list[float], best: float) -> str:
    if not values:
        return ""
    mean, sd = np.mean(values), np.std(values, ddof=1) if len(values) > 1 else 0.0
    text = f"{mean:.3f}({sd:.3f})"
    return f"**{text}**" if mean >= best - 5e-4 else text


def _worst(records: list[dict[str, Any]], names: list[str], rules: list[str]) -> list[str]:
    """For each rule, its largest distance to the best rule, and on which set that is."""
    found = []
    for rule in rules:
        gaps = []
        for condition in CONDITIONS:
            for name in names:
                by_rule = {r: np.mean(cells(records, condition, name, r) or [0.0]) for r in rules}
                gaps.append((max(by_rule.values()) - by_rule[rule], f"{name}, {condition}"))
        gap, where = max(gaps)
        found.append(f"{gap:.3f} ({where})")
    return found


def main() -> None:
    """Run the sets that are not recorded yet; save after each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data files are")
    parser.add_argument("--sets", nargs="+", choices=SETS, default=list(SETS))
    parser.add_argument("--rules", nargs="+", choices=RULES, default=list(RULES))
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--scale", choices=("feature", "sample", "view"), default="feature")
    parser.add_argument("--max-iter", type=int, default=60)
    parser.add_argument("--budget", type=float, default=700, help="seconds")
    parser.add_argument("--fresh", action="store_true", help="forget the recorded runs")
    results = Path(__file__).parent / "results" / "weighting"
    parser.add_argument("--out", type=Path, default=results)
    options = parser.parse_args()
    path = options.out.with_suffix(".json")
    records = [] if options.fresh or not path.exists() else json.loads(path.read_text())
    warnings.simplefilter("ignore")
    began = time.perf_counter()
    for name in options.sets:
        known = {r["rule"] for r in records if r["set"] == Path(name).stem}
        rules = [rule for rule in options.rules if rule not in known]
        if not rules:
            continue
        if time.perf_counter() - began > options.budget:
            print(f"out of time before {name}", flush=True)
            break
        records += run_set(options.folder / name, rules, options)
        path.write_text(json.dumps(records) + "\n")
        print(f"{name}: {time.perf_counter() - began:.0f} s", flush=True)
    path.with_suffix(".md").write_text(tables(records))


if __name__ == "__main__":
    main()
