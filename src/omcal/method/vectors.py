"""Points as the rows of a matrix, some of which may be absent from some views."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from omcal.machine.arrays import Array, as_dense
from omcal.machine.compiled import member_sums_kernel, two_nearest_kernel
from omcal.machine.tall_skinny import ThinProduct
from omcal.machine.threads import (
    map_blocks,
    row_slice,
    sparse_product,
    sum_blocks,
)
from omcal.method import inner_products
from omcal.method.bounds import MovingCentres
from omcal.method.inner_products import InnerProducts
from omcal.method.points import (
    Points,
    first_nearest,
    members,
    squared_distances,
    tie_slack,
)
from omcal.views.view import Matrix

_BLOCK_ENTRIES = 1 << 16  # of the distances that a thread computes at a time
_ROW_ENTRIES = 1 << 19  # of their rows
_LOOP_ENTRIES = 1 << 15  # of the distances in few features, which stay in the cache
_PLAIN_ENTRIES = 1 << 17  # the same for NumPy's loops: with 1 << 15 k-means takes 1.3 times as long
_SPARSE_ENTRIES = 1 << 18  # the same for sparse rows
_MANY_NUMBERS = 1 << 21  # in the rows or the centres, from which threads divide means and starts
_SHARES_OF_MEANS = 4
_FEW_MEMBERS = 1 << 15  # largest matrix of memberships that is faster as a dense matrix
_FEATURES_PER_CENTRE = 4
_NARROW = 256  # features: up to this number SciPy sums faster than NumPy, cluster by cluster
FEW_ROWS = 2048  # rows; with fewer, inner products are cheaper than distances in the start
_MANY_DISTANCES = 1 << 16  # distances of points to centres from which bounds save time


class Vectors(Points):
    """Points as the rows of a dense or sparse matrix; compiled loops change only the rounding."""

    def __init__(self, X: Matrix, norms: Array | None = None, *, compiled: bool = False) -> None:
        self.X = X
        self.n = X.shape[0]
        self._norms = row_norms(X, squared=True) if norms is None else norms
        self._compiled = compiled and not sparse.issparse(X)

    def __getitem__(self, some: Array | slice) -> Vectors:
        return Vectors(_taken(self.X, some), self._norms[some], compiled=self._compiled)

    @cached_property  # all runs start from the same
    def among_themselves(self) -> Points:
        # They take at most the memory of the rows twice, 32 MB, or of centres of sparse rows.
        width = int(self.X.shape[1])
        most = max(width // 4 if sparse.issparse(self.X) else 2 * width, FEW_ROWS)
        return InnerProducts(self.X) if self.n <= min(inner_products.MOST_ROWS, most) else self

    @cached_property
    def spread(self) -> float:
        mean = np.asarray(self.X.mean(axis=0)).reshape(-1)
        total = float(self._norms.mean(dtype=np.float64) - mean @ mean)
        return max(total, 0.0) / max(int(self.X.shape[1]), 1)

    def distances_to(self, chosen: Sequence[int] | Array) -> Array:
        points = as_dense(self.X[chosen])
        if self.X.size <= _MANY_NUMBERS:
            return squared_distances((self.X @ points.T.copy()).T, self._norms, chosen)
        products = np.empty((len(points), self.n), dtype=points.dtype)

        def use(rows: slice, some: Array) -> None:
            products[:, rows] = some.T

        self._products_with(points, use)
        return squared_distances(products, self._norms, chosen)

    def at(self, chosen: Sequence[int] | Array) -> Array:
        return as_dense(self.X[chosen])

    def nearest(self, centres: Array) -> tuple[Array, Array]:
        labels = np.empty(self.n, dtype=np.int32)
        distances = np.empty(self.n, dtype=centres.dtype)
        norms = self._centre_norms(centres)

        def use(rows: slice, d: Array) -> None:
            d *= -2.0
            of_centres = norms(rows)
            d += of_centres
            labels[rows] = first_nearest(d, tie_slack(self._norms[rows], of_centres), axis=1)
            distances[rows] = d[np.arange(len(d)), labels[rows]]

        self._products_with(centres, use)
        return labels, np.maximum(distances + self._norms, 0)

    def search(self, n_clusters: int) -> Callable[[Array], Array]:
        if sparse.issparse(self.X) or self.n * n_clusters < _MANY_DISTANCES:
            return super().search(n_clusters)
        return MovingCentres(self._two_nearest, self._norms)

    def _two_nearest(self, centres: Array, some: Array | None) -> tuple[Array, Array, Array]:
        """Return the nearest centre of each point, and the squared distances to the two nearest."""
        points = self if some is None else self[some]
        labels = np.empty(points.n, dtype=np.int32)
        distances = np.empty((2, points.n), dtype=centres.dtype)
        norms, wide = row_norms(centres, squared=True), self._wide(len(centres))

        def use(rows: slice, d: Array) -> None:
            """Use products with one row per centre."""
            slack = tie_slack(points._norms[rows], norms)
            if self._compiled and not wide:
                two_nearest_kernel(d, norms, slack, labels[rows], *distances[:, rows])
                return
            d *= -2.0
            d += norms[:, None]
            labels[rows] = nearest = first_nearest(d, slack, axis=0)
            each = np.arange(d.shape[1])
            distances[0, rows] = d[nearest, each]
            d[nearest, each] = np.inf
            distances[1, rows] = d.min(axis=0)

        if wide:
            points._products_with(centres, lambda rows, d: use(rows, d.T))
        else:
            entries = _LOOP_ENTRIES if self._compiled else _PLAIN_ENTRIES
            size = max(1, entries // len(centres))
            map_blocks(lambda rows: use(rows, centres @ points.X[rows].T), points.n, size)
        return labels, *np.maximum(distances + points._norms, 0)

    def _products_with(self, centres: Array, use: Callable[[slice, Array], None]) -> None:
        """Pass the products of blocks of rows with the centres to `use`."""
        m, (n, width) = len(centres), self.X.shape
        size = min(_BLOCK_ENTRIES // m, _ROW_ENTRIES // max(width, 1))
        product: Callable[[Any], Array]
        if sparse.issparse(self.X):
            size = _SPARSE_ENTRIES // m
            product = partial(sparse_product, W=np.ascontiguousarray(centres.T))
        else:
            product = tall_skinny = ThinProduct(
                centres.T.shape, centres.dtype, compiled=self._compiled
            )
            tall_skinny.W[:] = centres.T

        def work(rows: slice) -> None:
            use(rows, product(row_slice(self.X, rows))[:, :m])

        map_blocks(work, n, max(1, size))

    def _wide(self, n_clusters: int) -> bool:
        """Whether products with centres dominate the time, not the search in them."""
        return int(self.X.shape[1]) >= _FEATURES_PER_CENTRE * n_clusters

    def _centre_norms(self, centres: Array) -> Callable[[slice], Array]:
        """Return a function from rows to the squared lengths of the centres for them."""
        norms = row_norms(centres, squared=True)
        return lambda rows: norms

    def means(self, labels: Array, centres: Array) -> Array:
        size = len(centres)
        if self.n * len(centres) <= _FEW_MEMBERS:
            member = (labels == np.arange(len(centres))[:, None]).astype(self.X.dtype)
        else:
            sparse_rows = sparse.issparse(self.X)
            member = members(labels, len(centres), self.X.dtype if sparse_rows else np.float64)
            if max(self.X.size, centres.size) > _MANY_NUMBERS:
                size = -(-len(centres) // _SHARES_OF_MEANS)
        counts = self._counts(labels, len(centres)).astype(self.X.dtype)
        means = np.empty_like(centres)

        def work(some: slice) -> None:
            sums = self._sums(row_slice(member, some))
            np.divide(sums, np.maximum(counts[some], 1), out=means[some])
            if not counts[some].all():
                np.copyto(means[some], centres[some], where=counts[some] == 0)

        map_blocks(work, len(centres), size)
        return means

    def _sums(self, member: Matrix) -> Array:
        """Return the sum of the members of each cluster, in float64 for many dense rows.

        In float32 the centres of many rows would have errors of several units in the last place.
        """
        if sparse.issparse(self.X) or not sparse.issparse(member):
            return np.asarray(safe_sparse_dot(member, self.X, dense_output=True))
        sums = np.zeros((member.shape[0], self.X.shape[1]))
        if self._compiled:
            member_sums_kernel(self.X, member.indices, member.indptr, sums)
            return sums
        if self.X.shape[1] <= _NARROW:
            return np.asarray(member @ self.X)
        for total, (first, last) in zip(sums, pairwise(member.indptr), strict=True):
            self.X[member.indices[first:last]].sum(axis=0, dtype=np.float64, out=total)
        return sums

    def moved(self, before: Array, after: Array) -> float:
        def work(some: slice) -> float:
            change = after[some] - before[some]
            return float(np.vdot(change, change))

        size = max(1, _SPARSE_ENTRIES // max(before.shape[1], 1))
        return sum_blocks(work, len(before), size)

    def _counts(self, labels: Array, n_clusters: int) -> Array:
        """Return the number of points in each entry of the sums."""
        return np.bincount(labels, minlength=n_clusters)[:, None]


class IncompleteVectors(Vectors):
    """Vectors of several views side by side, zero in the views that a row is absent from.

    The views have mean zero, so that an absent view counts as the mean in the choice of a start.
    Distances to centres, and means, use the present views only; centres have all views.
    """

    def __init__(
        self, X: Matrix, present: Array, widths: Sequence[int], norms: Array | None = None
    ) -> None:
        super().__init__(X, norms)
        self._present = present
        self._widths = widths

    def __getitem__(self, some: Array | slice) -> IncompleteVectors:
        X = _taken(self.X, some)
        return IncompleteVectors(X, self._present[some], self._widths, self._norms[some])

    def search(self, n_clusters: int) -> Callable[[Array], Array]:
        return Points.search(self, n_clusters)  # bounds do not apply to such distances

    def at(self, chosen: Sequence[int] | Array) -> Array:
        """Return the chosen rows, with absent views filled from the nearest row that has them."""
        centres = np.array(super().at(chosen))
        distances = self.distances_to(chosen)
        for v, (start, width) in enumerate(zip(self._starts, self._widths, strict=True)):
            have = np.flatnonzero(self._present[:, v])
            for j in np.flatnonzero(~self._present[chosen, v]):
                if have.size:
                    nearest = have[[distances[j, have].argmin()]]
                    there = slice(start, start + width)
                    centres[j, there] = as_dense(self.X[nearest])[0, there]
        return centres

    @property
    def _starts(self) -> Array:
        return np.cumsum((0, *self._widths[:-1]))

    def _centre_norms(self, centres: Array) -> Callable[[slice], Array]:
        norms = np.add.reduceat(np.square(centres), self._starts, axis=1).T
        return lambda rows: np.asarray(self._present[rows].astype(centres.dtype) @ norms)

    def _counts(self, labels: Array, n_clusters: int) -> Array:
        counts = [np.bincount(labels, there, n_clusters) for there in self._present.T]
        return np.repeat(np.stack(counts, axis=1), self._widths, axis=1)


def _taken(X: Matrix, some: Array | slice) -> Matrix:
    """Return some rows of X."""
    if isinstance(some, slice):
        return row_slice(X, slice(*some.indices(X.shape[0])))
    if sparse.issparse(X):
        return X[some]
    rows = np.empty((len(some), X.shape[1]), dtype=X.dtype)

    def work(part: slice) -> None:
        np.take(X, some[part], axis=0, out=rows[part], mode="clip")  # "raise" makes a copy first

    map_blocks(work, len(some), max(1, _ROW_ENTRIES // max(X.shape[1], 1)))
    return rows
