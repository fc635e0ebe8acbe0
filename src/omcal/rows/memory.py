"""Rows in the memory of this machine."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from omcal import kernels
from omcal.graph import AnchorGraphs
from omcal.parallel import map_blocks, sum_blocks
from omcal.rows.base import AbstractRows, Array, Assignment, Sums, decide
from omcal.views import row_blocks

# A fixed block size, so that the order of summation depends on nothing but n.
_BLOCK = 8192
_TILE = 512  # rows whose products with each other are summed in the type of the rows


class MemoryRows(AbstractRows):
    """All rows in memory, swept in blocks by threads.

    The products with c×c matrices are BLAS's; those with the sparse graphs are compiled loops
    where `compiled` asks for them, else SciPy's. A given F is gone on from, and written to.
    """

    def __init__(
        self,
        graphs: AnchorGraphs,
        n_clusters: int,
        *,
        compiled: bool = False,
        F: NDArray | None = None,
    ) -> None:
        self._graphs = graphs
        self._compiled = compiled
        self.F = np.zeros((graphs.n, n_clusters), graphs.weights.dtype) if F is None else F
        # SciPy's form of the graphs is larger, so it is kept only where every pass needs it.
        self._sparse = {}
        if not compiled:
            for rows in row_blocks(graphs.n, _BLOCK):
                S = graphs[rows].side_by_side()
                self._sparse[rows.start] = S, S.T

    def gram(self) -> Array:
        part = _gram_compiled if self._compiled else _gram
        StS = sum_blocks(lambda rows: part(self._graphs[rows]), self._graphs.n, _BLOCK)
        for u in range(len(StS)):
            for v in range(u):
                StS[u, v] = StS[v, u].T
        return StS

    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        stacked = self._stacked(alpha, P)
        R = R.astype(self.F.dtype)
        products = _tiled_products if self._compiled else _products

        def work(rows: slice) -> Sums:
            old = self.F[rows]
            new = old @ R
            StF = self._apply(rows, new, stacked)
            sums = Sums(StF, products(new, new), products(old, new))
            self.F[rows] = new
            return sums

        total = sum_blocks(work, self._graphs.n, _BLOCK)
        shape = (self._graphs.n_views, self._graphs.n_anchors, self.F.shape[1])
        return Sums(total.StF.reshape(shape), total.FtF, total.FoldtF)

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        stacked, basis = self._stacked(alpha, P), self._stacked(alpha, G)
        R = R.astype(self.F.dtype)
        scale = float(np.abs(P).max())

        def work(rows: slice) -> Assignment:
            S = self._graphs[rows].side_by_side()
            U = S @ stacked + self.F[rows] @ R
            self.F[rows] = np.maximum(U, 0)
            return decide(U, S @ basis, scale)

        parts = map_blocks(work, self._graphs.n, _BLOCK)
        return Assignment(
            np.concatenate([part.labels for part in parts]),
            sum(part.n_undecided for part in parts),
        )

    def _apply(self, rows: slice, U: NDArray, stacked: NDArray) -> Array:
        """U ← max(U + [S_1 … S_V] stacked, 0); returns [S_1 … S_V]ᵀ U."""
        if self._compiled:
            StF = np.zeros(stacked.shape)
            graphs = self._graphs[rows]
            kernels.sweep(graphs.indices, graphs.weights, U, stacked, StF)
            return StF
        S, St = self._sparse[rows.start]
        U += S @ stacked
        np.maximum(U, 0, out=U)
        return St @ U.astype(np.float64, copy=False)

    def _stacked(self, alpha: Array, P: Array) -> NDArray:
        """The (Vm, c) matrix Q with [S_1 … S_V] Q = A(alpha) P."""
        return np.concatenate([weight * P for weight in alpha]).astype(self.F.dtype)


def _products(X: NDArray, Y: NDArray) -> Array:
    """XᵀY in float64: in float32 the objective would lose up to three digits."""
    return np.asarray(X.astype(np.float64, copy=False).T @ Y.astype(np.float64, copy=False))


def _tiled_products(X: NDArray, Y: NDArray) -> Array:
    """XᵀY: tiles of a few rows in their own type, twice as fast in float32, added in float64."""
    if X.dtype == np.float64:
        return _products(X, Y)
    tiled = len(X) // _TILE * _TILE
    shape = (-1, _TILE, X.shape[1])
    tiles = X[:tiled].reshape(shape).swapaxes(1, 2) @ Y[:tiled].reshape(shape)
    return np.asarray(tiles.sum(axis=0, dtype=np.float64) + X[tiled:].T @ Y[tiled:])


def _gram(graphs: AnchorGraphs) -> Array:
    """S_uᵀ S_v of the pairs of views u <= v."""
    _, V, k = graphs.indices.shape
    m = graphs.n_anchors
    columns = graphs.indices.astype(np.intp)
    weights = graphs.weights.astype(np.float64, copy=False)
    StS = np.zeros((V, V, m * m))
    for u in range(V):
        for v in range(u, V):
            for a in range(k):
                cells = columns[:, u, a, None] * m + columns[:, v]
                products = weights[:, u, a, None] * weights[:, v]
                StS[u, v] += np.bincount(cells.ravel(), products.ravel(), minlength=m * m)
    return StS.reshape(V, V, m, m)


def _gram_compiled(graphs: AnchorGraphs) -> Array:
    V, m = graphs.n_views, graphs.n_anchors
    StS = np.zeros((V, V, m, m))
    kernels.gram_kernel()(graphs.indices, graphs.weights, StS)
    return StS
