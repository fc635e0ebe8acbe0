"""A map of the samples in the plane, from their neighbours; clusters have no influence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.manifold import trustworthiness
from sklearn.neighbors import NearestNeighbors
from sklearn.utils.extmath import randomized_svd

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import map_blocks, one_blas_thread
from omcal.method.graph import AnchorGraphs
from omcal.model.estimators import AnchorClusterer
from omcal.model.subset_fits import fitted_views, graphs_of
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.view import Matrix, Views

_LAID_OUT = 4000  # samples to optimise; each other one is put beside its nearest
_BLOCK = 8192
_DIRECTIONS = 30  # of largest variance, per view
_NEIGHBORS = 10
_CELLS, _AROUND = 64, 8  # of a search for the nearest sample that is laid out
_JUDGED = 1000  # samples for the trustworthiness
_MIXED = 0.5  # share of the neighbours on the map that are of the same cluster
_EPOCHS = 200
_REPULSION = 8.0  # weight of a random sample, which represents several
_LARGEST_STEP = 4.0
_GRAVITY = 0.02  # pull towards the middle, so that separate groups do not drift apart
# Exponent of the distance from the middle. The forces give noise a uniform density, whose random
# ridges look like islands; a density that falls from the middle has no ridges. Few samples have
# more ridges.
_STRETCH, _STRETCH_OF_FEW = 1.5, 100

Points = NDArray[np.float32]
PointsOf = Callable[[Array], Points]  # row numbers -> coordinates of these samples


@dataclass(frozen=True)
class SampleMap:
    """Positions of samples in the plane."""

    positions: Floats  # (n, 2), between 0 and 1
    source: str  # "views" or "graphs" (source of the neighbours), or "given" by a user
    # Trustworthiness of at most 1000 positions with 10 neighbours, relative to the points that were
    # laid out; None if there are too few samples.
    trust: float | None
    mixed: list[int]  # clusters whose neighbours on the map mostly belong to other clusters


def model_layout(
    model: AnchorClusterer,
    X: ViewsLike | None = None,
    *,
    present: PresentLike | None = None,
    random_state: int = 0,
) -> Floats:
    """Return positions of the samples of a fitted model for a map, as in its report.

    The positions do not depend on the clusters.

    Parameters
    ----------
    model : OMCAL or OCAL
        Fitted.
    X : as in `fit`, optional
        The data that the model was fitted to. Without it the anchor graphs are laid out: coarser.
    present : as in `fit`
        For X.
    random_state : int, default=0
        Seed of the first positions.

    Returns
    -------
    positions : array of shape (n, 2)
        Between 0 and 1. Small distances have more meaning than large ones.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(60, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> model_layout(model, data.views).shape
    (60, 2)
    """
    views = None if X is None else fitted_views(model, X, present)
    graphs = graphs_of(model, X, present)
    rng = np.random.RandomState(random_state)
    return make_map(model, graphs, views, np.arange(graphs.n), rng).positions


def make_map(
    model: Any,
    graphs: AnchorGraphs,
    views: Views | None,
    rows: Array,
    rng: np.random.RandomState,
    given: Array | None = None,
) -> SampleMap:
    """Lay out these samples, by the views if they are in memory, else by the anchor graphs."""
    optimised = np.sort(rng.permutation(len(rows))[:_LAID_OUT])
    in_memory = views is not None and not views.stored
    points_of = _points_of(model, graphs, views if in_memory else None, rows[optimised], rng)
    points = points_of(rows[optimised])
    if given is not None:
        xy, source = to_unit_square(given[rows]), "given"
    else:
        xy, source = (
            lay_out(points, points_of, rows, optimised, rng),
            "views" if in_memory else "graphs",
        )
    labels = np.asarray(model.labels_)[rows[optimised]]
    return SampleMap(
        xy, source, trust_of(points, xy[optimised], rng), mixed_clusters(xy[optimised], labels)
    )


def lay_out(
    points: Points, points_of: PointsOf, rows: Array, optimised: Array, rng: np.random.RandomState
) -> Floats:
    """Return positions of all rows: optimise some, and put each other row beside its nearest."""
    xy = sample_layout(points, rng)
    if len(optimised) == len(rows):
        return to_unit_square(xy)
    with one_blas_thread():
        search = _search_among(points, rng)
        nearest = np.concatenate(
            map_blocks(lambda block: search(points_of(rows[block])), len(rows), _BLOCK)
        )
    gaps = NearestNeighbors(n_neighbors=3).fit(xy).kneighbors()[0].mean(axis=1)
    positions = xy[nearest] + 0.5 * gaps[nearest, None] * rng.normal(size=(len(rows), 2))
    positions[optimised] = xy
    return to_unit_square(positions)


def _points_of(
    model: Any, graphs: AnchorGraphs, views: Views | None, rows: Array, rng: np.random.RandomState
) -> PointsOf:
    """Return a function from row numbers to coordinates in the leading directions of these rows.

    The directions are those of each view, or without views those of the graphs. Samples that are
    absent from a view lie in its middle.
    """
    if views is None:
        of_graphs = _projection(graphs[rows].side_by_side(), rng)
        return lambda numbers: of_graphs(graphs[numbers].side_by_side())
    parts = []
    for scaling, view in zip(model._rule.learned.scalings, views, strict=True):
        inside = rows if view.present is None else rows[view.present[rows]]
        parts.append((view, scaling, _projection(scaling.apply(view.rows(inside)), rng)))

    def points_of(numbers: Array) -> Points:
        found = []
        for view, scaling, project in parts:
            found.append(project(scaling.apply(view.rows(numbers))))
            if view.present is not None:
                found[-1][~view.present[numbers]] = 0.0
        return np.hstack(found)

    return points_of


def _projection(X: Matrix, rng: np.random.RandomState) -> Callable[[Matrix], Points]:
    """Return the projection of centred rows onto the leading directions of X."""
    n, d = X.shape
    axes = None
    if sparse.issparse(X) or d > _DIRECTIONS:
        centred = X if sparse.issparse(X) else X - X.mean(axis=0)
        count = max(1, min(_DIRECTIONS, n, d))
        axes = randomized_svd(centred, count, n_iter=2, random_state=rng)[2].T

    def turned(rows: Matrix) -> Array:
        return np.asarray(rows if axes is None else rows @ axes)

    middle = turned(X).mean(axis=0) if n else 0.0
    return lambda rows: np.asarray(turned(rows) - middle, dtype=np.float32)


def trust_of(points: Points, xy: Array, rng: np.random.RandomState) -> float | None:
    """Return the trustworthiness of the positions of some samples; None for fewer than 25."""
    some = rng.permutation(len(xy))[:_JUDGED]
    if len(some) < 25:
        return None
    return float(trustworthiness(points[some], xy[some], n_neighbors=10))


def mixed_clusters(xy: Array, labels: Array) -> list[int]:
    """Return the clusters whose neighbours on the map mostly belong to other clusters."""
    k = min(_NEIGHBORS, len(xy) - 1)
    if k < 1:
        return []
    near = NearestNeighbors(n_neighbors=k).fit(xy).kneighbors(return_distance=False)
    own = (labels[near] == labels[:, None]).mean(axis=1)
    sizes = np.bincount(labels)
    means = np.bincount(labels, own) / np.maximum(sizes, 1)
    # The neighbourhood of a sample is larger than a cluster of few samples.
    reach = np.minimum(1.0, np.maximum(sizes - 1, 0) / k)
    return np.flatnonzero((sizes > 1) & (means < _MIXED * reach)).tolist()


def _search_among(targets: Points, rng: np.random.RandomState) -> Callable[[Points], Array]:
    """Return a function that finds the nearest of many targets, among the cells around a sample.

    Each target belongs to the cell of its nearest pivot. About 500 of 4000 targets are compared;
    with all of them a map of 10⁵ samples takes 2.4 times as long (benchmarks/layout.py).
    """
    pivots = targets[rng.permutation(len(targets))[:_CELLS]]
    near = NearestNeighbors(n_neighbors=min(_AROUND, len(pivots)), algorithm="brute")
    around = near.fit(pivots).kneighbors(pivots, return_distance=False)
    home = nearest_of(pivots, targets)
    candidates_of = [np.flatnonzero(np.isin(home, cells)) for cells in around]

    def search(points: Points) -> Array:
        found, cells = np.empty(len(points), dtype=np.intp), nearest_of(pivots, points)
        for cell in np.unique(cells):
            inside, candidates = cells == cell, candidates_of[cell]
            found[inside] = candidates[nearest_of(targets[candidates], points[inside])]
        return found

    return search


def nearest_of(targets: Points, points: Points) -> Array:
    """Return the number of the nearest target of each point."""
    return np.asarray((points @ targets.T - np.square(targets).sum(axis=1) / 2).argmax(axis=1))


def sample_layout(points: Array, random_state: np.random.RandomState) -> Floats:
    """Return positions (n, 2) in which neighbours lie together.

    As in UMAP, neighbours attract each other, the nearest most, and random pairs repel each other.
    Time is linear in the number of samples, except for the search for neighbours.
    """
    n = len(points)
    if n < 3:
        return np.arange(2.0 * n).reshape(n, 2)
    k = min(_NEIGHBORS, n - 1)
    away, near = NearestNeighbors(n_neighbors=k).fit(points).kneighbors()
    beyond = away - away[:, :1]
    weights = np.exp(-beyond / np.maximum(beyond.mean(axis=1, keepdims=True), 1e-12))
    # Points of the plane are complex numbers: one array, one gather, one subtraction.
    z = _principal_plane(points, random_state)
    for epoch in range(_EPOCHS):
        rate = 1.0 - epoch / _EPOCHS
        z += rate * _pull(z, near, weights)
        z += rate * _push(z, random_state.randint(n, size=near.shape))
        z *= 1.0 - _GRAVITY * rate
    z *= np.abs(z) ** (_STRETCH - 1 + min(0.5, _STRETCH_OF_FEW / n))
    return np.column_stack([z.real, z.imag])


def _principal_plane(rows: Array, random_state: np.random.RandomState) -> Array:
    centred = rows.astype(np.float64) - rows.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    z = centred @ axes[:, 0] + (1j * (centred @ axes[:, 1]) if axes.shape[1] > 1 else 0)
    z *= 10.0 / max(float(np.abs(z).max()), 1e-12)
    return np.asarray(z + random_state.normal(scale=0.1, size=(len(z), 2)) @ [1, 1j])


def _pull(z: Array, near: Array, weights: Array) -> Array:
    """Return the steps of all samples towards their neighbours, and of neighbours towards them."""
    away = z[:, None] - z[near]
    force = weights * away / (1.0 + _squared(away))
    place, n = near.ravel(), len(z)
    received = np.bincount(place, force.real.ravel(), n) + 1j * np.bincount(
        place, force.imag.ravel(), n
    )
    return _bounded(received - force.sum(axis=1))


def _push(z: Array, others: Array) -> Array:
    """Return the steps away from randomly drawn samples."""
    away = z[:, None] - z[others]
    squared = _squared(away)
    force = away / ((0.01 + squared) * (1.0 + squared))
    return _bounded(_REPULSION * force.sum(axis=1))


def _squared(away: Array) -> Array:
    return np.asarray(np.square(away.real) + np.square(away.imag))


def _bounded(step: Array) -> Array:
    return step * np.minimum(1.0, _LARGEST_STEP / np.maximum(np.abs(step), 1e-12))


def to_unit_square(xy: Array) -> Floats:
    """Return the positions in the unit square; a few distant samples are moved to its edge."""
    low, high = np.quantile(xy, [0.002, 0.998], axis=0)
    middle, extent = (low + high) / 2, 1.1 * float((high - low).max())
    return np.asarray(np.clip((xy - middle) / max(extent, 1e-12) + 0.5, 0.0, 1.0))
