"""Rows in the memory of this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import reduce
from operator import add
from typing import Any, TypeVar

import joblib
import numpy as np
from numpy.typing import NDArray

from omcal.graph import AnchorGraphs
from omcal.rows.base import AbstractRows, Array, Assignment, Sums, decide
from omcal.views import row_blocks

# A fixed block size, so that the order of summation depends on nothing but n.
_BLOCK = 8192

Result = TypeVar("Result")


class MemoryRows(AbstractRows):
    """All rows in memory, swept in blocks by threads."""

    def __init__(self, graphs: AnchorGraphs, n_clusters: int) -> None:
        self._graphs = graphs
        self.F = np.zeros((graphs.n, n_clusters), dtype=graphs.weights.dtype)

    def gram(self) -> Array:
        return reduce(add, self._over_blocks(self._gram_block))

    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        stacked = self._stacked(alpha, P)
        R = R.astype(self.F.dtype)
        return reduce(add, self._over_blocks(lambda rows: self._sweep_block(rows, stacked, R)))

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        stacked, R = self._stacked(alpha, P), R.astype(self.F.dtype)
        basis = self._stacked(alpha, G)
        scale = float(np.abs(P).max())

        def block(rows: slice) -> Assignment:
            S = self._graphs[rows].side_by_side()
            U = S @ stacked + self.F[rows] @ R
            self.F[rows] = np.maximum(U, 0)
            return decide(U, S @ basis, scale)

        parts = self._over_blocks(block)
        return Assignment(
            np.concatenate([part.labels for part in parts]),
            sum(part.n_undecided for part in parts),
        )

    def _stacked(self, alpha: Array, P: Array) -> NDArray:
        """The (Vm, c) matrix Q with [S_1 … S_V] Q = A(alpha) P."""
        return np.concatenate([weight * P for weight in alpha]).astype(self.F.dtype)

    def _sweep_block(self, rows: slice, stacked: NDArray, R: NDArray) -> Sums:
        S = self._graphs[rows].side_by_side()
        old = self.F[rows]
        new = S @ stacked
        new += old @ R
        np.maximum(new, 0, out=new)
        # Sums in float64: in float32 the objective would lose up to three digits.
        wide = new.astype(np.float64, copy=False)
        StF = (S.T @ wide).reshape(self._graphs.n_views, -1, new.shape[1])
        sums = Sums(StF, wide.T @ wide, old.T.astype(np.float64, copy=False) @ wide)
        self.F[rows] = new
        return sums

    def _gram_block(self, rows: slice) -> Array:
        part = self._graphs[rows]
        _, V, k = part.indices.shape
        m = part.n_anchors
        columns = part.indices.astype(np.intp)
        weights = part.weights.astype(np.float64, copy=False)
        StS = np.zeros((V, V, m * m))
        for u in range(V):
            for v in range(u, V):
                for a in range(k):
                    cells = columns[:, u, a, None] * m + columns[:, v]
                    products = weights[:, u, a, None] * weights[:, v]
                    StS[u, v] += np.bincount(
                        cells.reshape(-1), products.reshape(-1), minlength=m * m
                    )
        full = StS.reshape(V, V, m, m)
        for u in range(V):
            for v in range(u):
                full[u, v] = full[v, u].T
        return full

    def _over_blocks(self, work: Callable[[slice], Result]) -> list[Result]:
        """Results in the order of the rows, whatever the number of threads."""
        blocks = list(row_blocks(self._graphs.n, _BLOCK))
        workers = min(len(blocks), thread_count())
        if workers == 1:
            return [work(rows) for rows in blocks]
        with ThreadPoolExecutor(workers) as pool:
            return list(pool.map(work, blocks))


def thread_count() -> int:
    """Threads to use: OMP_NUM_THREADS where it is set, else the cores this process may use."""
    asked: Any = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else joblib.cpu_count()
