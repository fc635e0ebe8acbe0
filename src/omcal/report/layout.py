"""A map of the samples: their anchor graph laid out in the plane."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.neighbors import NearestNeighbors

_NEIGHBORS = 10
_EPOCHS = 120
_REPULSION = 3.0  # random others that each drawn one stands for
_LARGEST_STEP = 4.0


def sample_layout(graph: NDArray, random_state: np.random.RandomState) -> NDArray[np.float64]:
    """Positions in which samples tied to the same anchors lie together.

    Neighbours in the graph attract each other and random pairs repel each other, in the manner of
    UMAP: time is linear in the number of samples but for the search for neighbours.

    Parameters
    ----------
    graph : array of shape (n, m)
        Rows of an anchor graph.
    random_state : RandomState

    Returns
    -------
    positions : array of shape (n, 2)
        Between 0 and 1; distances within a cluster mean more than those between clusters.

    Examples
    --------
    >>> graph = np.repeat(np.eye(3), 20, axis=0)
    >>> xy = sample_layout(graph, np.random.RandomState(0))
    >>> xy.shape, bool(xy.min() >= 0 and xy.max() <= 1)
    ((60, 2), True)
    """
    n = len(graph)
    if n < 3:
        return np.full((n, 2), 0.5) + 0.25 * np.arange(n)[:, None]
    k = min(_NEIGHBORS, n - 1)
    near = NearestNeighbors(n_neighbors=k).fit(graph).kneighbors(return_distance=False)
    # A point of the plane is a complex number: one array, one gather, one subtraction.
    z = _principal_plane(graph, random_state)
    for epoch in range(_EPOCHS):
        rate = 1.0 - epoch / _EPOCHS
        z += rate * _pull(z, near)
        others = random_state.randint(n, size=near.shape)
        z += rate * _push(z, others)
    return _to_unit_square(np.column_stack([z.real, z.imag]))


def _principal_plane(graph: NDArray, random_state: np.random.RandomState) -> NDArray:
    centred = graph.astype(np.float64) - graph.mean(axis=0)
    axes = np.linalg.eigh(centred.T @ centred)[1][:, ::-1]
    z = centred @ axes[:, 0] + (1j * (centred @ axes[:, 1]) if axes.shape[1] > 1 else 0)
    z *= 10.0 / max(float(np.abs(z).max()), 1e-12)
    return z + random_state.normal(scale=0.1, size=(len(z), 2)) @ [1, 1j]


def _pull(z: NDArray, near: NDArray) -> NDArray:
    """Towards the neighbours, and towards those whose neighbour one is."""
    away = z[:, None] - z[near]
    force = away / (1.0 + _squared(away))
    place, n = near.ravel(), len(z)
    received = np.bincount(place, force.real.ravel(), n) + 1j * np.bincount(
        place, force.imag.ravel(), n
    )
    return _bounded(received - force.sum(axis=1))


def _push(z: NDArray, others: NDArray) -> NDArray:
    """Away from random samples, each of which stands for several."""
    away = z[:, None] - z[others]
    squared = _squared(away)
    force = away / ((0.01 + squared) * (1.0 + squared))
    return _bounded(_REPULSION * force.sum(axis=1))


def _squared(away: NDArray) -> NDArray:
    return np.square(away.real) + np.square(away.imag)


def _bounded(step: NDArray) -> NDArray:
    return step * np.minimum(1.0, _LARGEST_STEP / np.maximum(np.abs(step), 1e-12))


def _to_unit_square(xy: NDArray) -> NDArray[np.float64]:
    """The same shape, in the middle of the square; a few far samples are moved to its edge."""
    low, high = np.quantile(xy, [0.002, 0.998], axis=0)
    middle, extent = (low + high) / 2, float((high - low).max())
    return np.clip((xy - middle) / max(extent, 1e-12) + 0.5, 0.0, 1.0)
