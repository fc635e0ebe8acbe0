"""Figures of the effects of views, of the number of clusters and of settings."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from omcal.model.view_effects import Range, ViewExplanation
from omcal.plots.figures import new_axes, on_axes, open_frame
from omcal.plots.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omcal.select import ClusterNumber, Trial


@on_axes
def view_effects(explanation: ViewExplanation, ax: Axes | None = None) -> Axes:
    """Draw weight and agreement of each view, and the result without it; lines are ranges.

    Parameters
    ----------
    explanation : ViewExplanation
        Of `model.explain_views`.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(100, n_clusters=2, noise=0.5, random_state=0)
    >>> model = OMCAL(2, random_state=0, weighting="uniform").fit(data.views)
    >>> view_effects(model.explain_views(data.views, n_resamples=0)).get_xlabel()
    '0 to 1'
    """
    ax = new_axes(ax)
    series: dict[str, list[tuple[float, Range | None]]] = {
        "weight": [(view.weight, view.weight_range) for view in explanation.views],
        "agreement": [(view.agreement, view.agreement_range) for view in explanation.views],
        "ARI without it": [(view.without, view.without_range) for view in explanation.views],
    }
    for i, (title, values) in enumerate(series.items()):
        places = np.arange(len(values)) + (i - 1) * 0.2
        colour = LIGHT[i]
        ax.plot([v for v, _ in values], places, "osD"[i], color=colour, label=title, markersize=5)
        for place, (_, interval) in zip(places, values, strict=True):
            if interval is not None:
                ax.plot(interval, (place, place), color=colour, linewidth=1.5)
    ax.set_yticks(range(len(explanation.views)), [view.name for view in explanation.views])
    ax.set_ylim(len(explanation.views) - 0.5, -0.5)
    ax.set(xlim=(-0.02, 1.02), xlabel="0 to 1")
    ax.legend(frameon=False, fontsize=8, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=3)
    return open_frame(ax, grid="x")


@on_axes
def number_of_clusters(found: ClusterNumber, ax: Axes | None = None) -> Axes:
    """Draw modularity and stability over the number of clusters; the suggestion is marked.

    Parameters
    ----------
    found : ClusterNumber
        Of `omcal.select.n_clusters`.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import n_clusters
    >>> data = make_multiview(100, n_clusters=3, noise=0.3, random_state=0)
    >>> number_of_clusters(n_clusters(data.views, range(2, 6))).get_xlabel()
    'number of clusters'
    """
    ax = new_axes(ax)
    curves = {
        "modularity": found.modularity,
        "stability": found.stability,
        "stability by chance": found.chance,
    }
    for i, (title, values) in enumerate(curves.items()):
        # Each is drawn in parts of its own largest value: only their shapes are compared.
        shares = np.asarray(values, dtype=np.float64)
        shares = shares / max(float(np.nanmax(np.abs(shares))), 1e-12)
        style = f"{'osD'[i]}-"
        ax.plot(found.candidates, shares, style, color=LIGHT[i], ms=4, lw=1.5, label=title)
    ax.axvline(found.suggestion, color=LIGHT[3], linewidth=1, linestyle="--")
    text = f"{found.suggestion} (confidence {found.confidence:.2f})"
    ax.annotate(text, (found.suggestion, 1.02), ha="center", va="bottom", fontsize=8)
    ax.set(xlabel="number of clusters", ylabel="part of the largest value", ylim=(None, 1.1))
    ax.locator_params(axis="x", integer=True)
    ax.legend(frameon=False, fontsize=8)
    return open_frame(ax, grid="y")


@on_axes
def settings(trials: Sequence[Trial], ax: Axes | None = None) -> Axes:
    """Draw how well the fits of each setting agree, and how much of each view they explain.

    Parameters
    ----------
    trials : sequence of Trial
        Of `omcal.select.tune_without_labels`.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import tune_without_labels
    >>> data = make_multiview(120, n_clusters=3, random_state=0)
    >>> trials = tune_without_labels(data.views, 3, {"scale": ["auto", "sample"]}, n_fits=2)
    >>> settings(trials).get_xlabel()
    'agreement'
    """
    ax = new_axes(ax)
    shown = [trial for trial in trials if not trial.error]
    places = range(len(shown))
    names = list(shown[0].explained) if shown else []
    ax.plot([t.stability for t in shown], places, "o", color=LIGHT[0], label="of the runs")
    for name, colour in zip(names, itertools.cycle(LIGHT[1:]), strict=False):
        values = [trial.explained[name] for trial in shown]
        ax.plot(values, places, "|", markersize=11, color=colour, label=f"with {name}")
    texts = [", ".join(f"{k} {v}" for k, v in trial.parameters.items()) for trial in shown]
    ax.set_yticks(list(places), texts)
    ax.invert_yaxis()
    ax.set_xlabel("agreement")
    ax.legend(fontsize="small")
    return open_frame(ax)
