"""The paper's figures, drawn from records alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from omcal import plots
from omcal.experiments.plan import Plan
from omcal.experiments.records import Summary
from omcal.plots.figures import require_matplotlib

Figure = Any


def all_figures(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Yield the name, title and figure of everything that the records allow."""
    makers: tuple[Callable[[Plan, Summary], Iterator[tuple[str, str, Figure]]], ...] = (
        convergence,
        grids,
        anchors,
        structures,
        transfer,
    )
    for make in makers:
        yield from make(plan, summary)


def convergence(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw the objective of OMCAL over the iterations, one panel per data set."""
    row = plan.paper.row("OMCAL")
    found = []
    for dataset in plan.paper.datasets:
        good = summary.finished(plan.table_cell(dataset, row, 0))
        if good:
            found.append((dataset, good[0]["objective"]))
    if not found:
        return
    columns = min(3, len(found))
    lines = -(-len(found) // columns)
    figure, panels = _panels(lines, columns, (3.4, 2.5))
    for (dataset, objective), ax in zip(found, panels, strict=False):
        plots.convergence(objective, ax).set_title(dataset)
    for ax in panels[len(found) :]:
        ax.set_visible(False)
    yield "convergence", "Convergence of OMCAL", figure


def grids(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw ACC over beta × gamma, one figure per data set."""
    for dataset in plan.paper.figure_datasets("sensitivity"):
        points = {}
        for cell in plan.grid(0):
            if cell.dataset == dataset:
                value = summary.measure(cell, "ACC", one_seed=True).mean
                points[cell.parameters["beta"], cell.parameters["gamma"]] = value
        if sum(value is not None for value in points.values()) < 2:
            continue  # the point of the tables is no grid
        beta, gamma = (sorted({pair[k] for pair in points}) for k in (0, 1))
        values = [[_number(points[b, g]) for g in gamma] for b in beta]
        figure, (ax,) = _panels(1, 1, (6.4, 4.4))
        plots.parameter_grid(values, beta, gamma, ax)
        title = f"ACC of OMCAL on {dataset} over β and γ"
        ax.set_title(title)
        yield f"grid_{dataset.lower()}", title, figure


def anchors(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw ACC and time over the number of anchors, two figures as in the paper."""
    for metric, name in (("ACC", "anchors"), ("seconds", "anchors_time")):
        curves = {}
        for dataset in plan.paper.figure_datasets("sensitivity"):
            cells = [cell for cell in plan.anchors(0) if cell.dataset == dataset]
            pairs = [
                (c.parameters["n_anchors"], summary.measure(c, metric, one_seed=True))
                for c in cells
            ]
            known = [(m, value.mean) for m, value in pairs if value.mean is not None]
            if len(known) > 1:
                curves[dataset] = known
        if not curves:
            continue
        figure, panels = _panels(1, len(curves), (3.6, 3.0))
        for (dataset, known), ax in zip(curves.items(), panels, strict=True):
            numbers, values = ([pair[k] for pair in known] for k in (0, 1))
            plots.over_anchors(numbers, values, metric, ax).set_title(dataset)
        what = "Accuracy" if metric == "ACC" else "Time"
        yield name, f"{what} of OMCAL over the number of anchors", figure


def structures(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw B = S D⁻¹ Sᵀ before and after learning, for some samples sorted by class."""
    row = plan.paper.row("OMCAL")
    for dataset in plan.paper.figure_datasets("structure"):
        kept = [r for r in summary.finished(plan.table_cell(dataset, row, 0)) if "graph_rows" in r]
        if not kept:
            continue
        rows = kept[0]["graph_rows"]
        boundaries = np.flatnonzero(np.diff(rows["classes"])) + 1
        figure, panels = _panels(1, 2, (4.4, 4.4))
        for key, ax in zip(("before", "after"), panels, strict=True):
            B = plots.sample_similarity(rows[key])
            plots.similarity(B, boundaries, ax).set_title(f"{dataset}, {key} learning")
        title = f"Consensus structure of {len(rows['classes'])} samples of {dataset}"
        yield f"structure_{dataset.lower()}", title, figure


def transfer(plan: Plan, summary: Summary) -> Iterator[tuple[str, str, Figure]]:
    """Draw the scores of SMC, SMC-AGC and SMC-OCL side by side."""
    metrics = plan.paper.metrics
    panels_of = {}
    for dataset in plan.paper.figure_datasets("transfer"):
        scores = {
            cell.method.upper(): [_number(summary.measure(cell, m).mean) for m in metrics]
            for cell in plan.transfer(0)
            if cell.dataset == dataset
        }
        known = {name: row for name, row in scores.items() if np.isfinite(row).any()}
        if known:
            panels_of[dataset] = known
    if not panels_of:
        return
    figure, panels = _panels(1, len(panels_of), (5.2, 3.4))
    for (dataset, known), ax in zip(panels_of.items(), panels, strict=True):
        plots.scores_by_method(list(known.values()), list(known), metrics, ax).set_title(dataset)
    yield "transfer", "OMCAL's steps carried over to SMC", figure


def _number(value: float | None) -> float:
    return float("nan") if value is None else value


def _panels(lines: int, columns: int, size: tuple[float, float]) -> tuple[Figure, list[Any]]:
    figure = require_matplotlib("matplotlib.figure").Figure(
        figsize=(columns * size[0], lines * size[1]), layout="constrained"
    )
    return figure, [figure.add_subplot(lines, columns, k + 1) for k in range(lines * columns)]
