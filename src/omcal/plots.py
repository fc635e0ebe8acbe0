"""Figures of a fitted model, from arrays; each returns its Axes and never shows it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

# Okabe and Ito's palette, told apart with every common kind of colour vision.
_BLUE, _ORANGE, _GREY = "#0072B2", "#D55E00", "#666666"


def convergence(objective: ArrayLike, ax: Any = None) -> Any:
    """Objective after each iteration.

    Parameters
    ----------
    objective : array-like of shape (n_iter,)
        `model.objective_`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> convergence([3.0, 2.0, 1.9]).get_xlabel()
    'iteration'
    """
    values = np.asarray(objective, dtype=np.float64)
    if values.ndim != 1 or values.size == 0:
        raise ValueError(
            f"objective has shape {values.shape}; give one value an iteration, as in objective_."
        )
    ax = _axes(ax)
    iterations = np.arange(1, len(values) + 1)
    # Markers tell single iterations apart as long as there are few of them.
    marker = "o" if len(values) <= 30 else ""
    ax.plot(iterations, values, color=_BLUE, linewidth=1.8, marker=marker, markersize=4)
    ax.set(xlabel="iteration", ylabel="objective")
    ax.xaxis.get_major_locator().set_params(integer=True)
    ax.grid(axis="y", linewidth=0.5, alpha=0.4)
    _open_frame(ax)
    return ax


def view_weights(weights: ArrayLike, names: Sequence[str], ax: Any = None) -> Any:
    """Weight of each view, as bars from top to bottom.

    Parameters
    ----------
    weights : array-like of shape (n_views,)
        `model.view_weights_`.
    names : sequence of str
        `model.view_names_`.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> len(view_weights([0.7, 0.3], ["pixels", "edges"]).patches)
    2
    """
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (len(names),):
        raise ValueError(
            f"weights has shape {values.shape} for {len(names)} names; give one weight a view."
        )
    ax = _axes(ax)
    places = np.arange(len(values))
    bars = ax.barh(places, values, height=0.6, color=_BLUE)
    ax.bar_label(bars, fmt="%.3f", padding=4, color=_GREY)
    ax.set_yticks(places, labels=list(names))
    ax.set_ylim(len(values) - 0.4, -0.6)
    # Room for the number at the end of the longest bar.
    ax.set_xlim(0, 1.2 * max(float(values.max(initial=0.0)), 1e-12))
    ax.set_xlabel("weight")
    ax.locator_params(axis="x", nbins=5)
    ax.tick_params(axis="y", length=0)
    _open_frame(ax)
    return ax


def similarity(B: ArrayLike, boundaries: ArrayLike | None = None, ax: Any = None) -> Any:
    """Similarity of all pairs of samples; good clusters are dark blocks on the diagonal.

    Parameters
    ----------
    B : array-like of shape (n, n)
        Similarities, for example of `sample_similarity`, samples of a class side by side.
    boundaries : array-like, optional
        First sample of each class but the first: where to draw lines.
    ax : matplotlib Axes, optional
        Where to draw; a new figure by default.

    Returns
    -------
    matplotlib Axes

    Examples
    --------
    >>> import matplotlib
    >>> matplotlib.use("Agg")
    >>> len(similarity([[1.0, 0.0], [0.0, 1.0]], boundaries=[1]).images)
    1
    """
    B = np.asarray(B, dtype=np.float64)
    if B.ndim != 2 or B.shape[0] != B.shape[1] or B.size == 0:
        raise ValueError(f"B has shape {B.shape}; give a square matrix, samples × samples.")
    ax = _axes(ax)
    ax.imshow(B, cmap="Blues", vmin=0.0, vmax=_saturation(B), interpolation="nearest")
    for boundary in np.asarray([] if boundaries is None else boundaries):
        ax.axhline(boundary - 0.5, color=_ORANGE, linewidth=0.5, alpha=0.6)
        ax.axvline(boundary - 0.5, color=_ORANGE, linewidth=0.5, alpha=0.6)
    order = "samples" if boundaries is None else "samples, class by class"
    ax.set(xticks=[], yticks=[], xlabel=order, ylabel=order)
    return ax


def sample_similarity(graph: ArrayLike) -> NDArray[np.float64]:
    """Similarity of samples that an anchor graph implies: B = S D⁻¹ Sᵀ, D the column sums of S.

    Parameters
    ----------
    graph : array-like of shape (n, m)
        Rows of an anchor graph S. A learned consensus graph may have negative entries; they
        enter D by their size, so that no column's sum is zero or negative.

    Returns
    -------
    B : array of shape (n, n)

    Examples
    --------
    >>> sample_similarity([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0]])
    array([[0.5, 0.5, 0. ],
           [0.5, 0.5, 0. ],
           [0. , 0. , 2. ]])
    """
    S = np.asarray(graph, dtype=np.float64)
    if S.ndim != 2:
        raise ValueError(f"graph has shape {S.shape}; give a matrix, samples × anchors.")
    degree = np.abs(S).sum(axis=0)
    # An anchor that no sample is tied to joins no samples.
    inverse = np.divide(1.0, degree, out=np.zeros_like(degree), where=degree > 0)
    return (S * inverse) @ S.T


def overview(
    objective: ArrayLike,
    weights: ArrayLike,
    names: Sequence[str],
    before: ArrayLike,
    after: ArrayLike,
    boundaries: ArrayLike | None = None,
) -> Any:
    """One figure of a fit: convergence, view weights, similarity before and after learning.

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
    figure = _matplotlib("matplotlib.figure").Figure(figsize=(10, 7.6), layout="constrained")
    grid = figure.add_gridspec(2, 2, height_ratios=[1, 1.9], hspace=0.06, wspace=0.04)
    top_left, top_right, left, right = (figure.add_subplot(cell) for cell in grid)
    convergence(objective, top_left).set_title("Convergence")
    view_weights(weights, names, top_right).set_title("View weights")
    similarity(before, boundaries, left).set_title("Similarity before learning")
    similarity(after, boundaries, right).set_title("Similarity after learning")
    return figure


def _saturation(B: NDArray) -> float:
    """The value of the darkest colour; a few very similar pairs must not bleach the rest."""
    positive = B[B > 0]
    return float(np.quantile(positive, 0.98)) if positive.size else 1.0


def _axes(ax: Any) -> Any:
    if ax is not None:
        return ax
    return _matplotlib("matplotlib.pyplot").subplots(layout="constrained")[1]


def _matplotlib(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        raise ImportError(
            'figures need matplotlib; install it with: pip install "omcal[plot]"'
        ) from error


def _open_frame(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)
