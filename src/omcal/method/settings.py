"""Parameters that depend on each other or on the data: checks and default values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from omcal.machine.arrays import Floats
from omcal.method.scaling import Scale
from omcal.method.weights import WEIGHTINGS


@dataclass(frozen=True)
class GraphSettings:
    """The parameters of the anchor graphs."""

    n_clusters: int
    n_anchors: int
    n_neighbors: int
    scale: Scale
    anchors: Any  # how to choose them, or one (m, d_v) array per view
    accelerate: bool = True  # k-means of one run may work in a few directions


def default_n_anchors(n: int, n_clusters: int) -> int:
    """Return five per cluster, at least c + 10, at most half of the samples and 500."""
    c = n_clusters
    return min(max(5 * c, c + 10), max(n // 2, c + 1), max(500, 2 * c))


def resolve_n_anchors(
    n: int, n_clusters: int, n_neighbors: int, n_anchors: int | None, anchors: Any
) -> int:
    """Return the number of anchors: `n_anchors`, that of given anchors, or the default.

    Parameters
    ----------
    n : int
        Number of samples.
    n_clusters, n_neighbors, n_anchors, anchors
        As in `OMCAL`.
    """
    c, k = int(n_clusters), int(n_neighbors)  # NumPy integers may overflow
    if c > n:
        raise ValueError(f"n_clusters={c} must be at most the number of samples, n_samples={n}.")
    if n_anchors is not None:
        m = int(n_anchors)
        if m > n:
            raise ValueError(
                f"n_anchors={m} must be at most the number of samples, n_samples={n}; "
                "lower n_anchors."
            )
    elif isinstance(anchors, str):
        m = min(max(default_n_anchors(n, c), k + 1), n)
    else:
        one_view = getattr(anchors, "ndim", 0) == 2
        m = len(anchors if one_view or not len(anchors) else anchors[0])
    if m < c:
        raise ValueError(f"n_anchors={m} must be at least n_clusters={c}; raise n_anchors.")
    if k >= m:
        ways = [f"n_neighbors<={m - 1}"] if m > 1 else []
        if k < n:
            ways.append(f"n_anchors>={k + 1}")
        remedy = f"use {' or '.join(ways)}" if ways else "more samples are needed"
        transposed = "" if k < n else " Samples are rows: is the table transposed?"
        raise ValueError(
            f"n_neighbors={k} must be smaller than the number of anchors, {m} "
            f"(n_samples={n}); {remedy}.{transposed}"
        )
    return m


def start_weights(weighting: Any, n_views: int) -> tuple[Any, Floats]:
    """Return the rule of the α step and the start weights."""
    uniform = np.full(n_views, 1.0 / n_views)
    if isinstance(weighting, str):
        return ("fixed" if WEIGHTINGS[weighting].update is None else weighting), uniform
    if hasattr(weighting, "index") and hasattr(weighting, "to_numpy"):
        raise ValueError(
            "weighting is a Series, whose index is not compared with the names of the views; pass "
            "weighting.to_numpy(), in the order of the views."
        )
    try:
        given = np.asarray(weighting, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"weighting={weighting!r} must be a name or numbers.") from error
    if given.shape != (n_views,):
        raise ValueError(
            f"weighting={weighting!r} has shape {given.shape}; give one weight for each of the "
            f"{n_views} views."
        )
    if not (np.isfinite(given).all() and (given >= 0).all() and given.sum() > 0):
        raise ValueError(
            f"weighting={weighting!r} must be non-negative numbers with a positive sum."
        )
    return "fixed", given / given.sum()
