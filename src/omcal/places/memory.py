"""Rows in the memory of this machine."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from omcal.machine import compiled as kernels
from omcal.machine.threads import map_blocks, row_blocks, sum_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import AbstractRows, Array, Assignment, Sums, decide

# A fixed block size, so that the order of summation depends on nothing but n.
_BLOCK = 8192
_FEW_COLUMNS = 128  # of all graphs: so few that their products are quicker dense


class MemoryRows(AbstractRows):
    """All rows in memory, swept in blocks by threads.

    The pass is one compiled function where `compiled` asks for it, else SciPy's and BLAS's
    products. A given F is gone on from, and written to.
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
        work = self._compiled_pass(stacked, R) if self._compiled else self._plain_pass(stacked, R)
        total = sum_blocks(work, self._graphs.n, _BLOCK)
        shape = (self._graphs.n_views, self._graphs.n_anchors, self.F.shape[1])
        return Sums(total.StF.reshape(shape), total.FtF, total.FoldtF)

    def _compiled_pass(self, stacked: NDArray, R: NDArray) -> Callable[[slice], Sums]:
        sweep = kernels.sweep(stacked, R)

        def work(rows: slice) -> Sums:
            graphs = self._graphs[rows]
            return Sums(*sweep(graphs.indices, graphs.weights, self.F[rows]))

        return work

    def _plain_pass(self, stacked: NDArray, R: NDArray) -> Callable[[slice], Sums]:
        def work(rows: slice) -> Sums:
            S, St = self._sparse[rows.start]
            old = self.F[rows]
            new = old @ R
            new += S @ stacked
            np.maximum(new, 0, out=new)
            # In float32 the objective would lose up to three digits.
            wide = new.astype(np.float64, copy=False)
            sums = Sums(St @ wide, wide.T @ wide, old.T.astype(np.float64, copy=False) @ wide)
            self.F[rows] = new
            return sums

        return work

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        stacked, basis = self._stacked(alpha, P), self._stacked(alpha, G)
        R = R.astype(self.F.dtype)
        scale = float(np.abs(P).max())

        def work(rows: slice) -> Assignment:
            kept = self._sparse.get(rows.start)
            S = kept[0] if kept else self._graphs[rows].side_by_side()
            U = S @ stacked + self.F[rows] @ R
            self.F[rows] = np.maximum(U, 0)
            return decide(U, S @ basis, scale)

        parts = map_blocks(work, self._graphs.n, _BLOCK)
        return Assignment(
            np.concatenate([part.labels for part in parts]),
            sum(part.n_undecided for part in parts),
        )

    def _stacked(self, alpha: Array, P: Array) -> NDArray:
        """The (Vm, c) matrix Q with [S_1 … S_V] Q = A(alpha) P."""
        return (alpha[:, None, None] * P).reshape(-1, P.shape[1]).astype(self.F.dtype, copy=False)


def _gram(graphs: AnchorGraphs) -> Array:
    """S_uᵀ S_v of the pairs of views u <= v."""
    _, V, k = graphs.indices.shape
    m = graphs.n_anchors
    if V * m <= _FEW_COLUMNS:
        S = graphs.side_by_side().toarray().astype(np.float64, copy=False)
        return np.ascontiguousarray((S.T @ S).reshape(V, m, V, m).swapaxes(1, 2))
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
