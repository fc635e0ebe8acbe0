"""What k-means asks of points, and what is the same for all kinds of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array
from omcal.machine.threads import small_blas

_FEATURES_PER_CENTRE = 4


class Points(ABC):
    """What k-means asks of the points: their distances, and means of some of them.

    What stands for the centres is the business of each kind of points.
    """

    n: int

    @property
    def among_themselves(self) -> Points:
        """The same points where only distances between them are asked for, each many times."""
        return self

    def search(self, n_clusters: int) -> Callable[[Any], Array]:
        """Labels of the nearest centres, as a function of centres that move little by little."""
        return lambda centres: self.nearest(centres)[0]

    def span_pays(self, n_clusters: int) -> bool:
        """Whether `spanned` is there, and leaves few of many features."""
        return False

    def spanned(self, centres: Any) -> tuple[Points, Any]:
        """The points and these centres by their coordinates in the span of the centres."""
        raise NotImplementedError

    @property
    @abstractmethod
    def spread(self) -> float:
        """Mean variance of a feature, the scale of the stopping rule."""

    @abstractmethod
    def __getitem__(self, some: Array | slice) -> Points:
        """Some of the points."""

    @abstractmethod
    def distances_to(self, chosen: Sequence[int] | Array) -> Array:
        """Squared distances of the chosen points to all."""

    @abstractmethod
    def at(self, chosen: Sequence[int]) -> Any:
        """Centres at these points."""

    @abstractmethod
    def nearest(self, centres: Any) -> tuple[Array, Array]:
        """Label and squared distance of the nearest centre of each point."""

    @abstractmethod
    def means(self, labels: Array, centres: Any) -> Any:
        """Mean of each cluster; the centres of empty ones stay."""

    @abstractmethod
    def moved(self, before: Any, after: Any) -> float:
        """Sum of the squared distances from centres to those that they became."""


def span_pays(width: int, n_clusters: int) -> bool:
    """Whether there are so many features that the span of the centres is a smaller space."""
    return width >= _FEATURES_PER_CENTRE * n_clusters


def span_basis(K: Array) -> Array:
    """B with K B the coordinates of centres in their span, for their inner products K."""
    with small_blas(len(K)):
        values, vectors = np.linalg.eigh(K.astype(np.float64))
    # What is left of centres that are alike is rounding.
    there = values > 4 * len(K) * np.finfo(K.dtype).eps * values[-1]
    return np.asarray((vectors[:, there] / np.sqrt(values[there])).astype(K.dtype))


def squared_distances(products: Array, norms: Array, chosen: Any) -> Array:
    """From products with chosen points; lengths are squared, too."""
    d = -2.0 * products
    d += norms
    d += norms[chosen, None]
    # A chosen row is at distance 0 from itself, which rounding must not hide.
    d[np.arange(len(chosen)), chosen] = 0
    return np.maximum(d, 0, out=d)


def first_smallest(d: Array, axis: int, rounding: int = 2) -> Array:
    """Return the position of the smallest entry, of entries that are equal to rounding the first.

    Points of few different values, as in binary views, are often equally far from two centres.
    `rounding` is in units in the last place of the largest entry.
    """
    slack = rounding * np.finfo(d.dtype).eps * np.abs(d).max(axis=axis, keepdims=True)
    return np.asarray((d <= d.min(axis=axis, keepdims=True) + slack).argmax(axis=axis))


def members(labels: Array, n_clusters: int, dtype: Any) -> Any:
    """The (clusters × points) matrix with a one where the point is in the cluster."""
    small = labels.astype(np.min_scalar_type(n_clusters))  # sorted by counting
    order = np.argsort(small, kind="stable").astype(np.int32)  # as SciPy has it
    starts = np.append(0, np.cumsum(np.bincount(labels, minlength=n_clusters)))
    ones = np.ones(len(labels), dtype=dtype)
    return sparse.csr_array((ones, order, starts), shape=(n_clusters, len(labels)))
