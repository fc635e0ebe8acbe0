"""Figures of a clustering, and of studies of its views, its number of clusters and its settings."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import linear_sum_assignment

from omcal.machine.arrays import Array
from omcal.metrics import overlaps
from omcal.model.certainty import margins
from omcal.model.feature_effects import ClusterDescription
from omcal.model.view_effects import Range, ViewExplanation
from omcal.plots.figures import (
    BLUE,
    GREY,
    ORANGE,
    name_rows,
    new_axes,
    of_shape,
    on_axes,
    open_frame,
)
from omcal.plots.palette import LIGHT, SHAPES, colour_of, shape_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omcal.select import ClusterNumber, Trial


@on_axes
def sample_map(
    positions: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    cluster_names: Sequence[str] | None = None,
) -> Axes:
    """Draw samples in the plane, coloured and shaped by cluster, with each cluster's name.

    Parameters
    ----------
    positions : array-like of shape (n, 2)
        For example from `omcal.report.model_layout`.

    Examples
    --------
    >>> len(sample_map([[0.0, 0.0], [1.0, 1.0]], [0, 1]).collections)
    2
    """
    clusters = np.asarray(labels)
    xy = of_shape("positions", positions, (clusters.size, 2), "two coordinates for each label")
    ax = new_axes(ax)
    for cluster in np.unique(clusters):
        points = xy[clusters == cluster]
        marker = list(SHAPES)[shape_of(cluster)]
        x, y = points.T
        ax.scatter(x, y, s=8, color=LIGHT[colour_of(cluster)], marker=marker, linewidths=0)
        # A sample, not the mean: the mean of a curved cluster may lie outside of it.
        x, y = points[np.argmin(np.square(points - points.mean(axis=0)).sum(axis=1))]
        box = {"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.8}
        ax.text(
            x,
            y,
            _titles([cluster], cluster_names)[0],
            ha="center",
            va="center",
            weight="bold",
            bbox=box,
        )
    ax.set(xticks=[], yticks=[], aspect="equal")
    return ax


@on_axes
def cluster_sizes(
    labels: ArrayLike, ax: Axes | None = None, *, cluster_names: Sequence[str] | None = None
) -> Axes:
    """Draw the number of samples in each cluster, the largest first.

    Parameters
    ----------

    Examples
    --------
    >>> [label.get_text() for label in cluster_sizes([0, 1, 1]).get_yticklabels()]
    ['1', '0']
    """
    sizes = np.bincount(_one_dimensional("labels", labels))
    order = np.argsort(-sizes, kind="stable")
    ax = new_axes(ax)
    colours = [LIGHT[colour_of(cluster)] for cluster in order]
    bars = ax.barh(range(len(sizes)), sizes[order], height=0.7, color=colours)
    texts = [f"{size:,} ({size / sizes.sum():.1%})" for size in sizes[order]]
    ax.bar_label(bars, texts, padding=4, color=GREY, fontsize=8)
    ax.set(xlabel="samples", ylabel="cluster", xlim=(0, 1.25 * sizes.max()))
    return name_rows(ax, _titles(order, cluster_names))


@on_axes
def cluster_features(
    description: ClusterDescription, cluster: int, view: str | None = None, ax: Axes | None = None
) -> Axes:
    """Draw the features that distinguish a cluster, as bars to the side of their effect.

    Parameters
    ----------
    description : omcal.model.feature_effects.ClusterDescription
        Of `model.describe_clusters`.
    cluster : int
        Its number.
    view : str, optional
        Of this view only.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> ax = cluster_features(model.describe_clusters(data.views, top=2), cluster=1)
    >>> len(ax.patches) == 2 * len(data.views)
    True
    """
    found = description.of(cluster, view)
    if not found:
        where = "" if view is None else f" in view {view!r}"
        raise ValueError(
            f"cluster={cluster!r} has no features{where}; the description has "
            f"{len(description.cluster_sizes)} clusters and the views {list(description.typical)}."
        )
    ax = new_axes(ax)
    found = sorted(found, key=lambda feature: -abs(feature.effect))
    effects = [feature.effect for feature in found]
    colours = [BLUE if effect > 0 else ORANGE for effect in effects]
    ax.barh(range(len(found)), effects, height=0.65, color=colours)
    ax.axvline(0, color="black", linewidth=0.8)
    size = description.cluster_sizes[cluster]
    ax.set(xlabel="effect, in standard deviations", title=f"cluster {cluster}, {size:,} samples")
    return name_rows(ax, [f.feature if view else f"{f.view}: {f.feature}" for f in found])


@on_axes
def confusion(
    classes: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    cluster_names: Sequence[str] | None = None,
) -> Axes:
    """Draw the counts of samples by class and cluster; matched pairs are on the diagonal.

    Parameters
    ----------
    classes : array-like of shape (n,)
        Known classes.

    Examples
    --------
    >>> ax = confusion(["cat", "dog", "dog"], [1, 0, 0])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['1', '0']
    """
    known, found = np.asarray(classes), _one_dimensional("labels", labels)
    if known.shape != found.shape:
        raise ValueError(
            f"classes has shape {known.shape} and labels {found.shape}; give one per sample."
        )
    names, order, table = class_table(known, found, int(found.max()) + 1)
    ax = new_axes(ax)
    ax.imshow(table, cmap="Blues", vmin=0)
    for (i, j), count in np.ndenumerate(table):
        if count:
            colour = "white" if count > 0.6 * table.max() else "black"
            ax.text(j, i, str(count), ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(len(names)), labels=[str(name) for name in names], rotation=45, ha="right")
    ax.set_yticks(range(len(table)), labels=_titles(order, cluster_names))
    ax.set(xlabel="class", ylabel="cluster")
    return ax


def class_table(classes: Array, labels: Array, n_clusters: int) -> tuple[Array, Array, Array]:
    """Return classes, clusters, and the number of samples of each class in each cluster.

    The clusters are in the order of the classes matched to them; the others last.

    Examples
    --------
    >>> classes, labels = np.array(["b", "b", "a", "a", "a"]), np.array([0, 0, 2, 2, 1])
    >>> [part.tolist() for part in class_table(classes, labels, n_clusters=3)]
    [['a', 'b'], [2, 0, 1], [[2, 0], [0, 2], [1, 0]]]
    """
    names, codes = np.unique(classes, return_inverse=True)
    counts = overlaps(labels, codes, len(names), n_clusters)
    clusters, matched = linear_sum_assignment(counts, maximize=True)
    place = counts.argmax(axis=1) + counts.shape[1]
    place[clusters] = matched
    order = np.argsort(place, kind="stable")
    return names, order, counts[order]


@on_axes
def certainty(
    values: ArrayLike,
    labels: ArrayLike,
    ax: Axes | None = None,
    *,
    cluster_names: Sequence[str] | None = None,
) -> Axes:
    """Draw the certainty of the samples of each cluster, the least certain cluster first.

    A bar spans the quartiles, with a gap at the median; the line spans nine tenths of the samples.

    Parameters
    ----------
    values : array-like of shape (n,) or (n, n_clusters)
        Certainties between 0 and 1, for example `certainty_` of a `Consensus`. Or the soft
        indicator F of `model.transform`: then the certainty is the tie to the sample's cluster less
        that to the next, as a share of all ties.

    Examples
    --------
    >>> certainty([0.9, 0.8, 0.3], [0, 0, 1]).get_xlabel()
    'certainty'
    """
    found = _one_dimensional("labels", labels)
    shape = (len(found), 0)[: max(1, np.ndim(values))]
    given = of_shape("values", values, shape, f"one, or a row of F, for {len(found)} labels")
    if given.ndim == 2:
        given = np.clip(margins(given, found)[0], 0, 1)
    clusters = np.unique(found)
    parts = [given[found == cluster] for cluster in clusters]
    order = np.argsort([part.mean() for part in parts], kind="stable")
    ax = new_axes(ax)
    for place, k in enumerate(order):
        low, first, middle, third, high = np.quantile(parts[k], [0.05, 0.25, 0.5, 0.75, 0.95])
        colour = LIGHT[colour_of(clusters[k])]
        ax.hlines(place, low, high, color=colour, linewidth=1)
        ax.barh(place, third - first, left=first, height=0.6, color=colour)
        ax.vlines(middle, place - 0.3, place + 0.3, color="white", linewidth=2)
    ax.set(xlabel="certainty", ylabel="cluster", xlim=(-0.02, 1.02))
    return name_rows(ax, _titles(clusters[order], cluster_names))


def _titles(clusters: Iterable[int], cluster_names: Sequence[str] | None) -> list[str]:
    """Return the names of clusters, or their numbers if they have no names."""
    numbers = [int(cluster) for cluster in clusters]
    if cluster_names is None:
        return [str(number) for number in numbers]
    if max(numbers, default=-1) >= len(cluster_names):
        raise ValueError(
            f"cluster_names has {len(cluster_names)} names and there is a cluster {max(numbers)}; "
            "give one per cluster."
        )
    return [cluster_names[number] for number in numbers]


def _one_dimensional(name: str, values: ArrayLike) -> Array:
    array = np.asarray(values)
    if array.ndim != 1 or array.size == 0 or array.dtype.kind not in "iu" or array.min() < 0:
        raise ValueError(
            f"{name} has shape {array.shape} and type {array.dtype}; give one cluster number, "
            "0, 1, 2 ..., for each sample."
        )
    return array


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
        # Each curve is divided by its largest value: only the shapes are compared.
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
