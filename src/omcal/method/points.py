"""The interface between k-means and its points."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array

# Largest difference of equal distances, in units in the last place. With the same number in float32
# as in float64, distances would count as equal that float64 tells apart.
_SAME_UNITS = {np.dtype(np.float32): 2, np.dtype(np.float64): 16}


class Points(ABC):
    """Points of k-means: distances and means.

    Each kind of points represents centres in its own way.
    """

    n: int

    @property
    def among_themselves(self) -> Points:
        """Return the points in the form that serves repeated distances among them fastest."""
        return self

    def search(self, n_clusters: int) -> Callable[[Any], Array]:
        """Return a function from slowly moving centres to the labels of the nearest."""
        return lambda centres: self.nearest(centres)[0]

    @property
    @abstractmethod
    def spread(self) -> float:
        """Mean variance of a feature, the scale of the stopping rule."""

    @abstractmethod
    def __getitem__(self, some: Array | slice) -> Points:
        """Return some of the points."""

    @abstractmethod
    def distances_to(self, chosen: Sequence[int] | Array) -> Array:
        """Return the squared distances of the chosen points to all."""

    @abstractmethod
    def at(self, chosen: Sequence[int]) -> Any:
        """Return centres at the chosen points."""

    @abstractmethod
    def nearest(self, centres: Any) -> tuple[Array, Array]:
        """Return label and squared distance of the nearest centre of each point."""

    @abstractmethod
    def means(self, labels: Array, centres: Any) -> Any:
        """Return the mean of each cluster; an empty one keeps its centre."""

    @abstractmethod
    def moved(self, before: Any, after: Any) -> float:
        """Return the sum of the squared moves of the centres."""


def squared_distances(products: Array, norms: Array, chosen: Any) -> Array:
    """Return squared distances from products with chosen points and squared norms."""
    d = -2.0 * products
    d += norms
    d += norms[chosen, None]
    # A chosen row is at distance 0 from itself, in spite of rounding.
    d[np.arange(len(chosen)), chosen] = 0
    return np.maximum(d, 0, out=d)


def first_nearest(d: Array, slack: Array, axis: int) -> Array:
    """Return the position of the smallest entry, the first of those equal up to rounding.

    d are squared distances less the squared lengths of the points, `slack` is from `tie_slack`.
    """
    near = d <= d.min(axis=axis, keepdims=True) + np.expand_dims(slack, axis)
    if axis == 1:
        return np.asarray(near.argmax(axis=1))
    # Along columns, NumPy's argmax takes three times as long as the maximum of descending numbers.
    last = len(d) - 1
    falling = np.arange(last, -1, -1, dtype=np.min_scalar_type(last))
    return np.asarray(last - (falling[:, None] * near).max(axis=0).astype(np.intp))


def tie_slack(points: Array, centres: Array) -> Array:
    """Return by how much the squared distances of each point may differ and count as equal.

    Points with few distinct values, as in binary views, often have equal distances to two centres.
    Storage, type and order of the features must not decide between them. `points` and `centres` are
    squared lengths.
    """
    longest = centres.max(initial=0)
    sizes = longest + 2 * np.sqrt(points * longest)  # of ‖c‖² − 2xᵀc
    return np.asarray(
        (_SAME_UNITS[points.dtype] * np.finfo(points.dtype).eps * sizes).astype(points.dtype)
    )


def members(labels: Array, n_clusters: int, dtype: Any) -> Any:
    """Return the (clusters × points) membership matrix."""
    small = labels.astype(np.min_scalar_type(n_clusters))  # sorted by counting
    order = np.argsort(small, kind="stable").astype(np.int32)  # as SciPy has it
    starts = np.append(0, np.cumsum(np.bincount(labels, minlength=n_clusters)))
    ones = np.ones(len(labels), dtype=dtype)
    return sparse.csr_array((ones, order, starts), shape=(n_clusters, len(labels)))
