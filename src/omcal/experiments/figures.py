"""The paper's figures, drawn from records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any

import numpy as np

from omcal import plots
from omcal.experiments.plan import Plan
from omcal.experiments.records import Summary
from omcal.machine.optional import require

Figure = Any
Panels = Mapping[str, Callable[..., Any]]  # title -> function that draws into the Axes `ax`


def all_figures(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Yield the name, title and figure of everything that the records allow."""
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
            continue  # the point of the tables is no grid
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
