"""A map of the samples: their anchor graph and their clusters laid out in the plane."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.model.fitting import AnchorClusterer
from omcal.model.subset_fits import graphs_of, mixed
from omcal.views.like import PresentLike, ViewsLike

_LAID_OUT = 4000  # samples that forces act on; the others are placed among them
_BLOCK = 8192
_NEIGHBORS = 10
_MATES = 4  # random samples of its own cluster that each sample is drawn to as well
_ACROSS = 0.3  # how much a neighbour of another cluster attracts
_OF_CLUSTERS = 0.5  # how much the ties to the clusters count beside those to the anchors
_WITHIN = 0.05  # of the first map, beside the places of the clusters
_EPOCHS = 120
_REPULSION = 3.0  # random others that each drawn one stands for
_LARGEST_STEP = 4.0
_GRAVITY = 0.05  # towards the middle, so that groups without a tie do not drift apart for ever


def model_layout(
    model: AnchorClusterer,
    X: ViewsLike | None = None,
    *,
    present: PresentLike | None = None,
    random_state: int = 0,
) -> Floats:
    """Positions of the samples of a fitted model for a map, as in its report.

    Parameters
    ----------
    model : OMCAL or OCAL
        Fitted.
    X : as in `fit`, optional
        The data that the model was fitted to; not needed where the model has kept its graphs.
    present : as in `fit`
        For X.
    random_state : int, default=0
        Seed of the first positions.

    Returns
    -------
    positions : array of shape (n, 2)
        Between 0 and 1; near samples mean more than far ones.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(60, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> model_layout(model).shape
    (60, 2)
    """
    graphs = graphs_of(model, X, present)
    rng = np.random.RandomState(random_state)
    return lay_out(model, graphs, np.asarray(model.labels_), rng)


def lay_out(model: Any, graphs: AnchorGraphs, labels: Array, rng: np.random.RandomState) -> Floats:
    """Positions of all samples: some are laid out, the others placed among the most similar."""
    n = graphs.n
    some = np.sort(rng.permutation(n)[:_LAID_OUT])
    rows = _ties(model, graphs[some])
    xy = sample_layout(rows, labels[some], rng)
    if len(some) == n:
        return to_unit_square(xy)
    place = _Places(rows, xy, labels[some])
    everyone = np.empty((n, 2))
    for block in row_blocks(n, _BLOCK):
        everyone[block] = place(_ties(model, graphs[block]), labels[block], rng)
    everyone[some] = xy
    return to_unit_square(everyone)


def _ties(model: Any, graphs: AnchorGraphs) -> NDArray[np.float32]:
    """What samples are compared by: their ties to the anchors and, half as much, to clusters."""
    F = np.maximum(indicate(model._rule.consensus, graphs)[0], 0)
    A = mixed(graphs, model._rule.consensus.alpha)
    return np.hstack([_unit(A), _OF_CLUSTERS * _unit(F)]).astype(np.float32)


def _unit(rows: Array) -> Array:
    return np.asarray(rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12))


class _Places:
    """Places of more samples: between the most similar of their cluster that are laid out."""

    def __init__(self, rows: Array, xy: Array, labels: Array) -> None:
        self.rows, self.xy, self.labels = rows, xy, labels
        near = NearestNeighbors(n_neighbors=3).fit(xy).kneighbors()[0]
        self.gaps = near.mean(axis=1)

    def __call__(self, rows: Array, labels: Array, rng: np.random.RandomState) -> Array:
        index = np.empty((len(rows), 3), dtype=np.intp)
        for cluster in np.unique(labels):
            index[labels == cluster] = self._similar(rows[labels == cluster], cluster)
        first, gap = self.xy[index[:, 0]], self.gaps[index[:, 0]]
        # Between similar samples that lie in different parts of the map is no place for one.
        beside = np.linalg.norm(self.xy[index] - first[:, None], axis=2) < 5 * gap[:, None]
        weights = beside * rng.dirichlet(np.ones(3), size=len(rows))
        weights[:, 0] += 1e-9
        weights /= weights.sum(axis=1, keepdims=True)
        between = np.einsum("ik,ikd->id", weights, self.xy[index])
        return np.asarray(between + 0.5 * gap[:, None] * rng.normal(size=(len(rows), 2)))

    def _similar(self, rows: Array, cluster: int) -> Array:
        """The most similar three of a cluster; of all where too few of it are laid out."""
        members = np.flatnonzero(self.labels == cluster)
        members = members if len(members) >= 3 else np.arange(len(self.labels))
        nearest = NearestNeighbors(n_neighbors=3).fit(self.rows[members])
        return np.asarray(members[nearest.kneighbors(rows, return_distance=False)])


def sample_layout(
    rows: Array,
    labels: Array,
    random_state: np.random.RandomState,
    *,
    mates: int = _MATES,
    across: float = _ACROSS,
) -> Floats:
    """Positions in which similar samples lie together, and clusters are not torn.

    Neighbours attract each other and random pairs repel each other, in the manner of UMAP; each
    sample begins near the place of its cluster and is drawn to random ones of it, while neighbours
    of other clusters attract less. Time is linear in the number of samples but for the search for
    neighbours.

    Parameters
    ----------
    rows : array of shape (n, m)
        What samples are compared by.
    labels : array of shape (n,)
        Their clusters.
    random_state : RandomState
    mates : int, default=4
        Random samples of its cluster that each is drawn to.
    across : float, default=0.3
        How much a neighbour of another cluster attracts beside one of the same.

    Returns
    -------
    positions : array of shape (n, 2)

    Examples
    --------
    >>> rows, labels = np.repeat(np.eye(3), 20, axis=0), np.repeat([0, 1, 2], 20)
    >>> sample_layout(rows, labels, np.random.RandomState(0)).shape
    (60, 2)
    """
    n = len(rows)
    if n < 3:
        return np.arange(2.0 * n).reshape(n, 2)
    k = min(_NEIGHBORS, n - 1)
    near = NearestNeighbors(n_neighbors=k).fit(rows).kneighbors(return_distance=False)
    weights = np.where(labels[near] == labels[:, None], 1.0, across)
    weights = np.hstack([weights, np.ones((n, mates))])
    of_cluster = _Mates(labels)
    # A point of the plane is a complex number: one array, one gather, one subtraction.
    z = _places_of_clusters(rows, labels, random_state)
    for epoch in range(_EPOCHS):
        rate = 1.0 - epoch / _EPOCHS
        z += rate * _pull(z, np.hstack([near, of_cluster(mates, random_state)]), weights)
        z += rate * _push(z, random_state.randint(n, size=near.shape))
        z *= 1.0 - _GRAVITY * rate
    return np.column_stack([z.real, z.imag])


class _Mates:
    """Random samples of the cluster of each sample."""

    def __init__(self, labels: Array) -> None:
        codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)[1:]
        self.order = np.argsort(codes, kind="stable")
        self.size = sizes[codes]
        self.first = (np.cumsum(sizes) - sizes)[codes]

    def __call__(self, count: int, rng: np.random.RandomState) -> Array:
        drawn = rng.uniform(size=(len(self.order), count)) * self.size[:, None]
        return np.asarray(self.order[self.first[:, None] + drawn.astype(np.intp)])


def _places_of_clusters(rows: Array, labels: Array, random_state: np.random.RandomState) -> Array:
    """The clusters apart, by their means; within each the samples as they lie to one another."""
    codes, sizes = np.unique(labels, return_inverse=True, return_counts=True)[1:]
    members = sparse.csr_array((np.ones(len(codes)), (codes, np.arange(len(codes)))))
    means = (members @ rows) / sizes[:, None]
    within = _principal_plane(rows, random_state)
    return np.asarray(_principal_plane(means, random_state)[codes] + _WITHIN * within)


def _principal_plane(rows: Array, random_state: np.random.RandomState) -> Array:
    centred = rows.astype(np.float64) - rows.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    z = centred @ axes[:, 0] + (1j * (centred @ axes[:, 1]) if axes.shape[1] > 1 else 0)
    z *= 10.0 / max(float(np.abs(z).max()), 1e-12)
    return np.asarray(z + random_state.normal(scale=0.1, size=(len(z), 2)) @ [1, 1j])


def _pull(z: Array, near: Array, weights: Array) -> Array:
    """Towards the neighbours, and towards those whose neighbour one is."""
    away = z[:, None] - z[near]
    force = weights * away / (1.0 + _squared(away))
    place, n = near.ravel(), len(z)
    received = np.bincount(place, force.real.ravel(), n) + 1j * np.bincount(
        place, force.imag.ravel(), n
    )
    return _bounded(received - force.sum(axis=1))


def _push(z: Array, others: Array) -> Array:
    """Away from random samples, each of which stands for several."""
    away = z[:, None] - z[others]
    squared = _squared(away)
    force = away / ((0.01 + squared) * (1.0 + squared))
    return _bounded(_REPULSION * force.sum(axis=1))


def _squared(away: Array) -> Array:
    return np.asarray(np.square(away.real) + np.square(away.imag))


def _bounded(step: Array) -> Array:
    return step * np.minimum(1.0, _LARGEST_STEP / np.maximum(np.abs(step), 1e-12))


def to_unit_square(xy: Array) -> Floats:
    """The same shape, in the middle of the square; a few far samples are moved to its edge."""
    low, high = np.quantile(xy, [0.002, 0.998], axis=0)
    middle, extent = (low + high) / 2, 1.1 * float((high - low).max())
    return np.asarray(np.clip((xy - middle) / max(extent, 1e-12) + 0.5, 0.0, 1.0))
