"""Figures of a fitted model, from arrays; each returns its Axes and never shows it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike

from omcal.machine.arrays import Floats
from omcal.machine.optional import require
from omcal.plots.palette import LIGHT

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

F = TypeVar("F", bound=Callable[..., Any])

BLUE, ORANGE, GREY = "#0072B2", "#D55E00", "#666666"


_AX = """ax : matplotlib Axes, optional
    Where to draw; a new figure by default.
"""
_LABELS = """labels : array-like of shape (n,)
    Clusters, 0, 1, 2 ...
"""
_CLUSTER_NAMES = """cluster_names : sequence of str, optional
    For example `model.cluster_names_`; by default the clusters are shown by their numbers.
"""
_RETURNS = """
Returns
-------
matplotlib Axes
    The Axes with the drawing.

Examples"""


def on_axes(draw: F) -> F:
    """Document the Axes of a drawing function, and the parameters that it shares with others."""
    if draw.__doc__:  # python -OO removes docstrings
        own, examples = inspect.cleandoc(draw.__doc__).split("\n\nExamples")
        given = inspect.signature(draw).parameters
        labels = _LABELS if "labels" in given else ""
        names = _CLUSTER_NAMES if "cluster_names" in given else ""
        draw.__doc__ = f"{own}\n{labels}{_AX}{names}{_RETURNS}{examples}"
    return draw


@on_axes
def convergence(objective: ArrayLike, ax: Axes | None = None) -> Axes:
    """Draw the objective after each iteration.

    Parameters
    ----------
    objective : array-like of shape (n_iter,)
        `model.objective_`.

    Examples
    --------
    >>> convergence([3.0, 2.0, 1.9]).get_xlabel()
    'iteration'
    """
    values = of_shape("objective", objective, (0,), "one value per iteration, as in objective_")
    ax = new_axes(ax)
    iterations = np.arange(1, len(values) + 1)
    # Markers show single iterations, if there are few.
    marker = "o" if len(values) <= 30 else ""
    ax.plot(iterations, values, color=BLUE, linewidth=1.8, marker=marker, markersize=4)
    ax.set(xlabel="iteration", ylabel="objective")
    ax.locator_params(axis="x", integer=True)
    return open_frame(ax, grid="y")


@on_axes
def view_weights(weights: ArrayLike, names: Sequence[str], ax: Axes | None = None) -> Axes:
    """Draw the weight of each view, as bars from top to bottom.

    Parameters
    ----------
    weights : array-like of shape (n_views,)
        `model.view_weights_`.
    names : sequence of str
        `model.view_names_`.

    Examples
    --------
    >>> len(view_weights([0.7, 0.3], ["pixels", "edges"]).patches)
    2
    """
    values = of_shape("weights", weights, (len(names),), f"one for each of {len(names)} names")
    ax = new_axes(ax)
    bars = ax.barh(range(len(values)), values, height=0.6, color=BLUE)
    ax.bar_label(bars, fmt="%.3f", padding=4, color=GREY)
    # Room for the number at the end of the longest bar.
    ax.set_xlim(0, 1.2 * max(float(values.max(initial=0.0)), 1e-12))
    ax.set_xlabel("weight")
    ax.locator_params(axis="x", nbins=5)
    return name_rows(ax, names)


@on_axes
def similarity(B: ArrayLike, boundaries: ArrayLike | None = None, ax: Axes | None = None) -> Axes:
    """Draw the similarity of all pairs of samples; clusters are dark blocks on the diagonal.

    Parameters
    ----------
    B : array-like of shape (n, n)
        Similarities, for example of `sample_similarity`, samples of a class side by side.
    boundaries : array-like, optional
        First sample of each class but the first: where to draw lines.

    Examples
    --------
    >>> len(similarity([[1.0, 0.0], [0.0, 1.0]], boundaries=[1]).images)
    1
    """
    B = np.asarray(B, dtype=np.float64)
    if B.ndim != 2 or B.shape[0] != B.shape[1] or B.size == 0:
        raise ValueError(f"B has shape {B.shape}; give a square matrix, samples × samples.")
    ax = new_axes(ax)
    # A few very similar pairs must not determine the darkest colour.
    darkest = np.quantile(B[B > 0], 0.98) if (B > 0).any() else 1.0
    ax.imshow(B, cmap="Blues", vmin=0.0, vmax=darkest, interpolation="nearest")
    for boundary in np.asarray([] if boundaries is None else boundaries):
        ax.axhline(boundary - 0.5, color=ORANGE, linewidth=0.5, alpha=0.6)
        ax.axvline(boundary - 0.5, color=ORANGE, linewidth=0.5, alpha=0.6)
    order = "samples" if boundaries is None else "samples, class by class"
    ax.set(xticks=[], yticks=[], xlabel=order, ylabel=order)
    return ax


def sample_similarity(graph: ArrayLike) -> Floats:
    """Return the similarity of samples in an anchor graph, B = S D⁻¹ Sᵀ with the column sums D.

    Parameters
    ----------
    graph : array-like of shape (n, m)
        Rows of an anchor graph S. A learned consensus graph may have negative entries; their
        absolute values enter D, so that no column sum is zero or negative.

    Returns
    -------
    B : array of shape (n, n)
        Symmetric.

    Examples
    --------
    >>> sample_similarity([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 2. ]])
    """
    S = of_shape("graph", graph, (0, 0), "a matrix, samples × anchors")
    degree = np.abs(S).sum(axis=0)
    # An anchor without tied samples has no effect.
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return np.asarray((S * inverse) @ S.T)


def overview(
    objective: ArrayLike,
    weights: ArrayLike,
    names: Sequence[str],
    before: ArrayLike,
    after: ArrayLike,
    boundaries: ArrayLike | None = None,
) -> Figure:
    """Draw a fit: convergence, view weights, similarity before and after learning.

    Parameters
    ----------
    objective, weights, names
        As in `convergence` and `view_weights`.
    before, after : array-like of shape (n, n)
        Similarities of the same samples, as in `similarity`.
    boundaries : array-like, optional
        As in `similarity`.

    Returns
    -------
    matplotlib Figure
        Not registered with pyplot: save it with `savefig`.

    Examples
    --------
    >>> figure = overview([2.0, 1.0], [0.6, 0.4], ["a", "b"], [[1.0]], [[1.0]])
    >>> len(figure.axes)
    4
    """
    matplotlib = require("matplotlib.figure", "figures")
    figure: Figure = matplotlib.Figure(figsize=(10, 7.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.9], hspace=0.06, wspace=0.04)
    top_left, top_right, left, right = (figure.add_subplot(grid[i]) for i in range(4))
    convergence(objective, top_left).set_title("Convergence")
    view_weights(weights, names, top_right).set_title("View weights")
    similarity(before, boundaries, left).set_title("Similarity before learning")
    similarity(after, boundaries, right).set_title("Similarity after learning")
    return figure


@on_axes
def parameter_grid(
    values: ArrayLike,
    beta: Sequence[float],
    gamma: Sequence[float],
    ax: Axes | None = None,
) -> Axes:
    """Draw a score for each pair of beta and gamma; pairs without a score stay empty.

    Parameters
    ----------
    values : array-like of shape (n_beta, n_gamma)
        Scores; NaN where there is none.
    beta, gamma : sequence of float
        The values of the rows and of the columns.

    Examples
    --------
    >>> parameter_grid([[0.5, 0.7]], beta=[0.1], gamma=[1e-3, 1.0]).get_ylabel()
    'β'
    """
    scores = of_shape("values", values, (len(beta), len(gamma)), "a score per beta and gamma")
    ax = new_axes(ax)
    ax.imshow(scores, cmap="cividis", vmin=0.0, vmax=1.0, aspect="auto", origin="lower")
    for (i, j), score in np.ndenumerate(scores):
        if np.isfinite(score):
            colour = "black" if score > 0.5 else "white"
            ax.text(j, i, f"{score:.2f}", ha="center", va="center", fontsize=7, color=colour)
    ax.set_xticks(range(len(gamma)), labels=[_power_of_ten(g) for g in gamma])
    ax.set_yticks(range(len(beta)), labels=[f"{b:g}" for b in beta])
    ax.set(xlabel="γ", ylabel="β")
    return ax


@on_axes
def over_anchors(
    n_anchors: ArrayLike, values: ArrayLike, name: str = "ACC", ax: Axes | None = None
) -> Axes:
    """Draw a score or a time over the number of anchors.

    Parameters
    ----------
    n_anchors : array-like of shape (n_values,)
        Numbers of anchors.
    values : array-like of shape (n_values,)
        Scores or times, one per number.
    name : str
        Title of the values; scores are drawn from 0 to 1.

    Examples
    --------
    >>> over_anchors([10, 20], [0.5, 0.6]).get_ylabel()
    'ACC'
    """
    x = of_shape("n_anchors", n_anchors, (0,), "a list of numbers")
    y = of_shape("values", values, x.shape, f"one for each of {len(x)} numbers of anchors")
    ax = new_axes(ax)
    is_time = name == "seconds"
    ax.plot(x, y, color=ORANGE if is_time else BLUE, linewidth=1.8, marker="o", markersize=4)
    ax.set(xlabel="number of anchors m", ylabel=name)
    ax.set_ylim(0, None if is_time else 1.02)
    return open_frame(ax, grid="y")


@on_axes
def scores_by_method(
    scores: ArrayLike, methods: Sequence[str], metrics: Sequence[str], ax: Axes | None = None
) -> Axes:
    """Draw bars of several methods side by side, one group per metric.

    Parameters
    ----------
    scores : array-like of shape (n_methods, n_metrics)
        NaN where there is none.
    methods, metrics : sequence of str
        Names of the rows and of the columns.

    Examples
    --------
    >>> len(scores_by_method([[0.5, 0.6]], ["SMC"], ["ACC", "NMI"]).patches)
    2
    """
    values = of_shape("scores", scores, (len(methods), len(metrics)), "one per method and metric")
    ax = new_axes(ax)
    width = 0.8 / max(len(methods), 1)
    places = np.arange(len(metrics))
    hatches = ("", "//", "..", "xx")
    for i, (method, row) in enumerate(zip(methods, values, strict=True)):
        ax.bar(
            places + (i - (len(methods) - 1) / 2) * width,
            np.nan_to_num(row),
            width,
            label=method,
            color=LIGHT[i % len(LIGHT)],
            edgecolor="white",
            hatch=hatches[i % len(hatches)],
        )
    ax.set_xticks(places, labels=list(metrics))
    ax.set_ylim(0, 1.02)
    ax.legend(frameon=False, fontsize=8)
    ax.set_axisbelow(True)
    return open_frame(ax, grid="y")


def _power_of_ten(value: float) -> str:
    """Return 10⁻³ for 0.001, and other numbers unchanged."""
    exponent = round(np.log10(value)) if value > 0 else 0
    return f"$10^{{{exponent}}}$" if np.isclose(value, 10.0**exponent) else f"{value:g}"


def of_shape(name: str, values: ArrayLike, shape: tuple[int, ...], meaning: str) -> Floats:
    """Return numbers of a given shape, where 0 stands for any positive length; else raise."""
    array = np.asarray(values, dtype=np.float64)
    lengths = zip(array.shape, shape, strict=False)
    if array.ndim != len(shape) or any(n != (given or max(n, 1)) for n, given in lengths):
        raise ValueError(f"{name} has shape {array.shape}; give {meaning}.")
    return array


def new_axes(ax: Any) -> Any:
    """Return the given Axes, or those of a new figure."""
    if ax is not None:
        return ax
    return require("matplotlib.pyplot", "figures").subplots(layout="constrained")[1]


def open_frame(ax: Axes, grid: Literal["", "x", "y"] = "") -> Axes:
    """Hide the upper and the right line of the frame, and draw the grid of an axis; return ax."""
    ax.spines[["top", "right"]].set_visible(False)
    if grid:
        ax.grid(axis=grid, linewidth=0.5, alpha=0.4)
    return ax


def name_rows(ax: Axes, names: Sequence[str]) -> Axes:
    """Label rows from top to bottom, and open the frame; return ax."""
    ax.set_yticks(range(len(names)), labels=list(names))
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    return open_frame(ax)
