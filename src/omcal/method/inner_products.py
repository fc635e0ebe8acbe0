"""Few points with many features, represented by their inner products."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from omcal.machine.arrays import Array
from omcal.machine.threads import map_blocks
from omcal.method.points import Points, first_nearest, members, squared_distances, tie_slack
from omcal.views.view import Matrix

MOST_ROWS = 4096  # most rows for keeping all inner products: 128 MB
# Rows of a block in products of rows with each other; BLAS is slower with fewer.
_PRODUCT_ROWS, _SPARSE_PRODUCT_ROWS = 384, 64
_FULL_COLUMNS = 16  # a column of sparse rows counts as full if one row in 16 has an entry
_MOST_DISTANCES = 1 << 22  # most distances between all pairs of rows to keep: 32 MB


class InnerProducts(Points):
    """Few rows of many features, by their inner products; a centre is a vector of row weights.

    Distances are the same, and take one operation per row instead of one per feature. Without
    it, 1000 × 1430 takes 33 % more CPU time (benchmarks/ablations.py).
    """

    def __init__(self, X: Matrix) -> None:
        self._K = _products(X)
        self._X = X
        self.n = X.shape[0]
        self._norms = self._K.diagonal().copy()
        self._asked = 0  # rows of distances computed so far
        self._known: list[tuple[Any, Array]] = []  # the last two sets of centres and their products

    @cached_property
    def _distances(self) -> Array:
        """The squared distances of all pairs of points."""
        return squared_distances(self._K, self._norms, np.arange(self.n))

    @cached_property
    def spread(self) -> float:
        return max(float(self._norms.mean() - self._K.mean()), 0.0) / int(self._X.shape[1])

    def __getitem__(self, some: Array | slice) -> InnerProducts:
        return InnerProducts(self._X[some])

    def distances_to(self, chosen: Sequence[int] | Array) -> Array:
        # The starts of several runs, or of many centres, use most rows more than once. Without
        # it, ten starts of 500 centres in 1600 rows take 1.5 times as much CPU time.
        self._asked += len(chosen)
        if self._asked > self.n and self._K.size <= _MOST_DISTANCES:
            return np.asarray(self._distances[chosen])
        return squared_distances(self._K[chosen], self._norms, chosen)

    def at(self, chosen: Sequence[int]) -> Any:
        ones = np.ones(len(chosen), dtype=self._K.dtype)
        return sparse.csr_array((ones, (np.arange(len(chosen)), chosen)), (len(chosen), self.n))

    def nearest(self, centres: Any) -> tuple[Array, Array]:
        products = self._with_rows(centres)
        norms = _inner(centres, products).astype(products.dtype)
        d = norms[:, None] - 2.0 * products
        labels = first_nearest(d, tie_slack(self._norms, norms), axis=0)
        return labels, np.maximum(d[labels, np.arange(self.n)] + self._norms, 0)

    def means(self, labels: Array, centres: Any) -> Any:
        found = members(labels, centres.shape[0], self._K.dtype)
        counts = np.diff(found.indptr)
        found.data /= np.repeat(counts, counts)
        if counts.all():
            return found
        kept = sparse.diags_array((counts == 0).astype(self._K.dtype))
        return (found + kept @ centres).tocsr()

    def moved(self, before: Any, after: Any) -> float:
        change = self._with_rows(after) - self._with_rows(before)
        return float(_inner((after - before).tocsr(), change).sum())

    def _with_rows(self, centres: Any) -> Array:
        """Return the products of the centres with all rows."""
        for known, products in self._known:
            if known is centres:
                return products
        products = np.asarray(centres @ self._K)
        self._known = [*self._known[-1:], (centres, products)]
        return products

    def rows(self, centres: Any) -> Array:
        """Return the centres in the space of the rows."""
        return np.asarray(safe_sparse_dot(centres, self._X, dense_output=True))


def _inner(centres: Any, products: Array) -> Array:
    """Return the sum of weights times products of each centre."""
    rows = np.repeat(np.arange(centres.shape[0]), np.diff(centres.indptr))
    weighted = centres.data * products[rows, centres.indices]
    return np.bincount(rows, weighted, centres.shape[0])


def _products(X: Matrix) -> Array:
    """Return the dense X·Xᵀ; the product of sparse rows is computed by blocks."""
    if not sparse.issparse(X):
        return _dense_products(X)
    n = X.shape[0]
    # Columns with many entries dominate the products. Dense, they take a quarter of the time.
    full = np.bincount(X.indices, minlength=X.shape[1]) > n / _FULL_COLUMNS
    products = _dense_products(X[:, np.flatnonzero(full)].toarray())
    rest = X.copy()
    rest.data[full[X.indices]] = 0
    rest.eliminate_zeros()
    turned = rest.T.tocsr()

    def work(rows: slice) -> None:
        products[rows] += safe_sparse_dot(rest[rows], turned, dense_output=True)

    map_blocks(work, n, _SPARSE_PRODUCT_ROWS)
    return products


def _dense_products(X: Array) -> Array:
    n = len(X)
    products = np.empty((n, n), dtype=X.dtype)

    def work(rows: slice) -> None:
        products[rows, rows] = X[rows] @ X[rows].T  # BLAS computes one half of it
        products[rows, rows.stop :] = X[rows] @ X[rows.stop :].T
        products[rows.stop :, rows] = products[rows, rows.stop :].T

    map_blocks(work, n, _PRODUCT_ROWS)
    return products


def inner_products_pay(n: int, width: int) -> bool:
    """Whether inner products of all rows cost less than distances with all features."""
    return n <= MOST_ROWS and 2 * n <= width
