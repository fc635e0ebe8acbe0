"""The paper's tables and figures, made from records, and the comparison with published values."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from omcal import plots
from omcal.datasets import PAPER_DATASETS
from omcal.experiments.plan import NOT_RUN, Measured, Paper, Plan, Row
from omcal.experiments.records import Summary
from omcal.experiments.tables import Entry, Table, ranked
from omcal.machine.optional import require

STATUS_WORDS = {
    "exact": "the paper's file",
    "rebuilt": "rebuilt",
    "subset": "a subset",
    "differs": "other sizes than published",
    "absent": "absent",
}
RANKS_NOTE = "The best value is bold, the second underlined."
Figure = Any
Panels = Mapping[str, Callable[..., Any]]  # title -> function that draws into the Axes `ax`


def all_tables(plan: Plan, summary: Summary) -> Iterator[Table]:
    """Yield every table of the paper, then the comparisons."""
    paper = plan.paper
    yield headline_table(plan, summary)
    yield datasets_table(paper, summary)
    yield complexity_table(paper)
    yield parameters_table(paper)
    for metric in paper.metrics:
        yield results_table(plan, summary, metric)
    yield times_table(plan, summary)
    for dataset in paper.single_datasets:
        yield single_table(plan, summary, dataset)
    yield best_of_grid_table(plan, summary)
    yield comparison_table(plan, summary)


def datasets_table(paper: Paper, summary: Summary) -> Table:
    """Return the sizes as published and as found, and the folder for missing data."""
    found = {r["dataset"]: r["data"] for r in summary.records if "data" in r}
    rows = []
    for name in [*paper.datasets, *paper.single_datasets]:
        size, here = paper.sizes[name], found.get(name)
        file = PAPER_DATASETS[name].sources[0].file
        rows.append(
            [
                name,
                str(size["samples"]),
                str(size["clusters"]),
                ", ".join(map(str, size["features"])),
                _status(summary, name),
                _sizes(here) if here else "",
                "" if summary.is_present(name) else f"put {file} into the folder of --data",
            ]
        )
    header = ["dataset", "samples", "clusters", "features", "data here", "sizes here", "to do"]
    return Table("datasets", "Data sets: as published, and as found here", header, rows)


def _status(summary: Summary, dataset: str) -> str:
    return STATUS_WORDS[summary.status.get(dataset, "absent")]


def _sizes(here: dict[str, Any]) -> str:
    features = ", ".join(map(str, here["features"]))
    return f"{here['samples']} × ({features}), {here['clusters']} classes"


def complexity_table(paper: Paper) -> Table:
    """Return the complexities as published."""
    rows = [[name, f"$O({form})$"] for name, form in paper.contents["complexity"].items()]
    notes = ["n samples, d features, c clusters, m anchors, V views, t iterations, l widths."]
    return Table("complexity", "Computational complexity", ["method", "time"], rows, notes)


def parameters_table(paper: Paper) -> Table:
    """Return m, beta and gamma as published and, where that is impossible, as used."""
    rows, notes = [], []
    for name, printed in paper.contents["parameters"].items():
        used = printed.get("used_m", printed["m"])
        mark = "*" if used != printed["m"] else ""
        rows.append(
            [name, f"{printed['m']}{mark}", str(used), f"{printed['beta']}", f"{printed['gamma']}"]
        )
        if "note" in printed:
            notes.append(f"*{name}: {printed['note']}")
    header = ["dataset", "m published", "m used", "β", "γ"]
    return Table("parameters", "Parameters of OMCAL", header, rows, notes)


def results_table(plan: Plan, summary: Summary, metric: str) -> Table:
    """Return one metric of all methods on the nine data sets."""
    rows = _method_rows(plan, summary, [(dataset, metric) for dataset in plan.paper.datasets])
    title = f"Clustering results: {metric}, mean(standard deviation)"
    header = ["method", *plan.paper.datasets]
    return Table(f"results_{metric.lower()}", title, header, rows, [RANKS_NOTE])


def times_table(plan: Plan, summary: Summary) -> Table:
    """Return the seconds of the fits."""
    found = _method_rows(plan, summary, [(dataset, "seconds") for dataset in plan.paper.datasets])
    methods, *rows = zip(*found, strict=True)
    table = [[dataset, *row] for dataset, row in zip(plan.paper.datasets, rows, strict=True)]
    return Table("times", "Running times in seconds", ["dataset", *methods], table, [RANKS_NOTE])


def single_table(plan: Plan, summary: Summary, dataset: str) -> Table:
    """Return all metrics and the time of the single-view methods on one data set."""
    columns = plan.paper.columns
    rows = _method_rows(plan, summary, [(dataset, metric) for metric in columns])
    title = f"Single-view results: {dataset}"
    return Table(f"single_{dataset.lower()}", title, ["method", *columns], rows, [RANKS_NOTE])


def _method_rows(plan: Plan, summary: Summary, columns: list[tuple[str, str]]) -> list[list[Any]]:
    """Return a row per method: its title, and its entry for each data set and metric."""
    methods = plan.paper.rows(columns[0][0])
    entries = []
    for dataset, metric in columns:
        cells = [plan.table_cell(dataset, row, 0) for row in methods]
        found = [summary.measure(cell, metric) for cell in cells]
        entries.append(measured_entries(found, metric))
    return [list(row) for row in zip([row.title for row in methods], *entries, strict=True)]


def measured_entries(values: list[Measured], metric: str = "ACC") -> list[Entry]:
    """Return the values of one metric as entries of a table, ranked as they are printed."""
    digits = 2 if metric == "seconds" else 3
    shown = [None if v.mean is None else round(v.mean, digits) for v in values]
    texts = [format_measured(value, metric) for value in values]
    return ranked(texts, shown, largest=metric != "seconds")


def best_of_grid_table(plan: Plan, summary: Summary) -> Table:
    """Return the largest ACC over beta × gamma with one seed: a search that uses the labels."""
    rows = []
    for dataset in plan.paper.contents["sensitivity"]["datasets"]:
        points = summary.points(plan.grid(0), dataset, "ACC")
        published = format_measured(plan.paper.value(dataset, "OMCAL", "ACC"))
        table = plan.table_cell(dataset, plan.paper.row("OMCAL"), 0)
        ours = format_measured(summary.measure(table, "ACC"))
        if not points:
            rows.append([dataset, NOT_RUN, NOT_RUN, NOT_RUN, ours, published, "0"])
            continue
        cell, best = max(points, key=lambda point: point[1])
        beta, gamma = cell.parameters["beta"], cell.parameters["gamma"]
        row = [f"{best:.3f}", f"{beta:g}", f"{gamma:g}", ours, published, str(len(points))]
        rows.append([dataset, *row])
    header = ["dataset", "largest ACC", "β", "γ", "all seeds", "paper", "points"]
    notes = [
        "Each point is one run, with seed 0, so that chance may put the best of them below the "
        "mean over all seeds at the paper's parameters, which stands beside it. The best is chosen "
        "with the labels, as the paper chose its parameters: not a result that an application "
        "without labels can expect. For that, see omcal tune."
    ]
    return Table("grid_by_labels", "Best point of the grid, chosen by labels", header, rows, notes)


def comparison_table(plan: Plan, summary: Summary) -> Table:
    """Return every published number beside ours, with the difference and the status of the data."""
    rows = []
    for dataset, row, metric in published_numbers(plan.paper):
        runs = summary.measure(plan.table_cell(dataset, row, 0), metric).runs
        ours, printed, apart = _beside(plan, summary, dataset, row, metric)
        kind = _status(summary, dataset)
        rows.append([dataset, row.title, metric, ours, str(runs), printed, apart, kind])
    header = ["dataset", "method", "metric", "ours", "runs", "paper", "difference", "data"]
    return Table("comparison", "Every published number beside ours", header, rows)


def headline_table(plan: Plan, summary: Summary) -> Table:
    """Return the results of the paper's method alone, on all available data."""
    rows = []
    for dataset in [*plan.paper.datasets, *plan.paper.single_datasets]:
        if summary.is_present(dataset):
            row = plan.paper.row("OCAL" if dataset in plan.paper.single_datasets else "OMCAL")
            entries = [_entry(plan, summary, dataset, row, m) for m in ("ACC", "NMI", "seconds")]
            runs = _runs(plan, summary, dataset, row)
            rows.append([dataset, *entries, runs, _status(summary, dataset)])
    header = ["dataset", "ACC", "NMI", "seconds", "runs", "data"]
    title = "OMCAL, and OCAL on the three sets with one view, beside the paper"
    return Table("headline", title, header, rows)


def beside_table(plan: Plan, summary: Summary, dataset: str) -> Table:
    """Return one data set: each entry has our value, the paper's and the difference."""
    rows = []
    for row in plan.paper.rows(dataset):
        entries = [_entry(plan, summary, dataset, row, metric) for metric in plan.paper.columns]
        rows.append([row.title, _runs(plan, summary, dataset, row), *entries])
    title = f"{dataset}: {_status(summary, dataset)}"
    header = ["method", "runs", *plan.paper.columns]
    return Table(f"beside_{dataset.lower()}", title, header, rows)


def _runs(plan: Plan, summary: Summary, dataset: str, row: Row) -> str:
    return str(summary.measure(plan.table_cell(dataset, row, 0), "ACC").runs or "")


def _entry(plan: Plan, summary: Summary, dataset: str, row: Row, metric: str) -> str:
    return "\n".join(filter(None, _beside(plan, summary, dataset, row, metric)))


def _beside(plan: Plan, summary: Summary, dataset: str, row: Row, metric: str) -> list[str]:
    """Return our value, the paper's and the difference; an empty text if there is none."""
    ours = summary.measure(plan.table_cell(dataset, row, 0), metric)
    printed = plan.paper.value(dataset, row.title, metric)
    shown = [format_measured(value, metric) for value in (ours, printed)]
    return [*shown, difference(ours, printed, metric)]


def published_numbers(paper: Paper) -> Iterator[tuple[str, Row, str]]:
    """Yield data set, method and metric of all numbers in the tables of results and times."""
    for dataset, methods in paper.published.items():
        for title in methods:
            for metric in paper.columns:
                yield dataset, paper.row(title), metric


def format_measured(value: Measured | None, metric: str = "ACC") -> str:
    """Return a value as the paper prints it, with a dash for the spread of a single run.

    None, for a number that the paper does not have, gives an empty text.

    Examples
    --------
    >>> format_measured(Measured(0.5941, 0.0152, 5, "")), format_measured(Measured(0.5, None, 1))
    ('0.594(0.015)', '0.500(-)')
    """
    if value is None or value.mean is None:
        return "" if value is None else value.word
    if metric == "seconds":
        return f"{value.mean:.2f}"
    spread = "-" if value.spread is None else f"{value.spread:.3f}"
    return f"{value.mean:.3f}({spread})"


def difference(ours: Measured, printed: Measured | None, metric: str = "ACC") -> str:
    """Return our value less the paper's, or the ratio of times; empty if one is not a number."""
    if printed is None or ours.mean is None or printed.mean is None:
        return ""
    if metric == "seconds":
        return f"×{ours.mean / printed.mean:.2g}"
    return f"{ours.mean - printed.mean:+.3f}"


def all_figures(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Yield the name, title and figure of all figures for which there are records."""
    for make in (convergence, grids, anchors, structures, transfer):
        yield from make(plan, summary)


def convergence(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw the objective of OMCAL over the iterations, one panel per data set."""
    row = plan.paper.row("OMCAL")
    panels = {}
    for dataset in plan.paper.datasets:
        good = summary.finished(plan.table_cell(dataset, row, 0))
        if good:
            panels[dataset] = partial(plots.convergence, good[0]["objective"])
    if panels:
        yield "convergence", "Convergence of OMCAL", _drawn(panels, (3.4, 2.5), columns=3)


def grids(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw ACC over beta × gamma, one figure per data set."""
    for dataset in plan.paper.contents["sensitivity"]["datasets"]:
        points = summary.points(plan.grid(0), dataset, "ACC")
        if len(points) < 2:
            continue  # the point of the tables alone is not a grid
        found = {(c.parameters["beta"], c.parameters["gamma"]): value for c, value in points}
        beta, gamma = plan.varied["beta"], plan.varied["gamma"]
        values = [[found.get((b, g), np.nan) for g in gamma] for b in beta]
        title = f"ACC of OMCAL on {dataset} over β and γ"
        panels = {title: partial(plots.parameter_grid, values, beta, gamma)}
        yield f"grid_{dataset.lower()}", title, _drawn(panels, (6.4, 4.4))


def anchors(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw ACC and time over the number of anchors, two figures as in the paper."""
    for metric, name in (("ACC", "anchors"), ("seconds", "anchors_time")):
        panels = {}
        for dataset in plan.paper.contents["sensitivity"]["datasets"]:
            points = summary.points(plan.anchors(0), dataset, metric)
            if len(points) > 1:
                cells, values = zip(*points, strict=True)
                numbers = [cell.parameters["n_anchors"] for cell in cells]
                panels[dataset] = partial(plots.over_anchors, numbers, values, metric)
        what = "Accuracy" if metric == "ACC" else "Time"
        if panels:
            title = f"{what} of OMCAL over the number of anchors"
            yield name, title, _drawn(panels, (3.6, 3.0))


def structures(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw B = S D⁻¹ Sᵀ before and after learning, for some samples sorted by class."""
    row = plan.paper.row("OMCAL")
    for dataset in plan.paper.contents["structure"]["datasets"]:
        kept = [r for r in summary.finished(plan.table_cell(dataset, row, 0)) if "graph_rows" in r]
        if not kept:
            continue
        rows = kept[0]["graph_rows"]
        boundaries = np.flatnonzero(np.diff(rows["classes"])) + 1
        panels = {
            f"{dataset}, {key} learning": partial(
                plots.similarity, plots.sample_similarity(rows[key]), boundaries
            )
            for key in ("before", "after")
        }
        title = f"Consensus structure of {len(rows['classes'])} samples of {dataset}"
        yield f"structure_{dataset.lower()}", title, _drawn(panels, (4.4, 4.4))


def transfer(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw the scores of SMC, SMC-AGC and SMC-OCL side by side."""
    metrics = plan.paper.metrics
    panels = {}
    for dataset in plan.paper.contents["transfer"]["datasets"]:
        scores = {}
        for cell in plan.transfer(0):
            means = [summary.measure(cell, metric).mean for metric in metrics]
            if cell.dataset == dataset and None not in means:
                scores[cell.method.upper()] = np.array(means, dtype=np.float64)
        if scores:
            bars = partial(plots.scores_by_method, list(scores.values()), list(scores), metrics)
            panels[dataset] = bars
    if panels:
        yield "transfer", "OMCAL's steps carried over to SMC", _drawn(panels, (5.2, 3.4))


def _drawn(panels: Panels, size: tuple[float, float], columns: int | None = None) -> Figure:
    """Return a figure of panels of this size, by default side by side."""
    columns = min(columns or len(panels), len(panels))
    lines = -(-len(panels) // columns)
    figure = require("matplotlib.figure", "figures").Figure(
        figsize=(columns * size[0], lines * size[1]), layout="constrained"
    )
    for place, (title, draw) in enumerate(panels.items(), start=1):
        draw(ax=figure.add_subplot(lines, columns, place)).set_title(title)
    return figure
