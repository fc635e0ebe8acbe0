"""Updates of a fitted model by batches: sums that are carried on, and a sample of the stream.

docs/living.md says what is exact.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats, Mask
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import Sums
from omcal.method.solver import Iteration, Problem
from omcal.method.updates import ConsensusGraph
from omcal.views.view import View, Views

_BLOCK = 4096  # rows of A that are dense at a time
# Rows of the reservoir: this many per anchor if they take few bytes, and at least some.
_ROWS_PER_ANCHOR, _FEW_BYTES, _LEAST_ROWS = 128, 1 << 24, 2000
_GROWTH = 1.1  # of the stream from one comparison with the last fit to the next


@dataclass(frozen=True)
class StreamSums:
    """Sums of the solver over n samples, for fixed anchors and view weights; sets add up."""

    n: float
    AtA: Floats  # (m, m), of A = Σ_v alpha_v S_v
    AtF: Floats  # (m, c)
    FtF: Floats  # (c, c)

    @classmethod
    def of(cls, Z: ConsensusGraph, graphs: AnchorGraphs, F: Array) -> StreamSums:
        """Return the sums of samples with these graphs and indicators."""
        m, c = Z.G.shape
        AtA, AtF = np.zeros((m, m)), np.zeros((m, c))
        for rows in row_blocks(graphs.n, _BLOCK):
            A = weighted_graph(graphs[rows], Z.alpha)
            AtA += A.T @ A
            AtF += A.T @ F[rows]
        wide = F.astype(np.float64, copy=False)
        return cls(float(graphs.n), AtA, AtF, wide.T @ wide)

    def __add__(self, other: StreamSums) -> StreamSums:
        parts = zip(self.parts, other.parts, strict=True)
        return StreamSums(self.n + other.n, *(one + more for one, more in parts))

    def __mul__(self, factor: float) -> StreamSums:
        return StreamSums(factor * self.n, *(factor * part for part in self.parts))

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        return self.AtA, self.AtF, self.FtF

    def decayed(self, n_new: int, half_life: float | None) -> StreamSums:
        """Return the sums after n_new more samples: each half-life halves them."""
        return self if half_life is None else self * 0.5 ** (n_new / half_life)

    def step(self, Z: ConsensusGraph, beta: float, gamma: float) -> ConsensusGraph:
        """Return Z after one G step (Eq. 20) and one Z step (Eq. 23) from the sums."""
        one = np.ones(1)
        problem = Problem(beta, gamma, "fixed", one, max_iter=1, tol=0.0)
        work = Iteration(None, self.AtA[None, None], Z.G, problem)  # type: ignore[arg-type]
        work.consensus = replace(Z, alpha=one)
        work.finish(Sums(self.AtF[None], self.FtF, self.FtF))  # F is at its fixed point
        return replace(work.consensus, alpha=Z.alpha)


def weighted_graph(graphs: AnchorGraphs, alpha: Floats) -> Floats:
    """Return A = Σ_v alpha_v S_v as a dense float64 matrix."""
    n, V, k = graphs.indices.shape
    values = (graphs.weights * alpha[:, None]).astype(np.float64, copy=False).reshape(-1)
    starts = np.arange(0, n * V * k + 1, V * k)
    columns = graphs.indices.astype(np.int32).reshape(-1)
    A = sparse.csr_array((values, columns, starts), shape=(n, graphs.n_anchors))
    return np.asarray(A.toarray())


class Reservoir:
    """A random sample of the rows of a stream, uniform or with a half-life; its size is bounded.

    Each row gets the key log(E) − t log(2) / half_life, where E is exponential and t its number in
    the stream; the rows with the smallest keys stay (Efraimidis and Spirakis 2006).
    """

    def __init__(
        self, n_anchors: int, half_life: float | None, seed: int, row_bytes: float = 1.0
    ) -> None:
        affordable = max(_LEAST_ROWS, int(_FEW_BYTES / max(row_bytes, 1.0)))
        self.size = max(2 * n_anchors, min(_ROWS_PER_ANCHOR * n_anchors, affordable))
        if half_life is not None:  # more rows than that would not forget
            self.size = min(self.size, max(int(half_life), 2 * n_anchors))
        self._slope = 0.0 if half_life is None else np.log(2) / half_life
        self._rng = np.random.default_rng(seed)
        self._keys = np.empty(0)
        self.views: Views | None = None
        self.n_seen = 0

    def add(self, views: Views) -> None:
        """Take the rows of a batch that belong to the sample."""
        times = self.n_seen + np.arange(views.n)
        keys = np.log(self._rng.exponential(size=views.n)) - self._slope * times
        known, self.n_seen = len(self._keys), self.n_seen + views.n
        keys = np.concatenate([self._keys, keys])
        stays = np.ones(len(keys), bool)
        if len(keys) > self.size:
            stays[np.argpartition(keys, self.size)[self.size :]] = False
        come, free = np.flatnonzero(stays[known:]), np.flatnonzero(~stays[:known])
        if self.views is None:
            self.views = taken(views, come)
            self._keys = keys[stays]
            return
        n_in = len(free)  # rows of the batch in the places of others; the rest is appended
        joined = [
            _replaced(*pair, free, come[:n_in], come[n_in:])
            for pair in zip(self.views, views, strict=True)
        ]
        self.views = Views(joined)
        come += known
        keys[free] = keys[come[:n_in]]
        self._keys = np.concatenate([keys[:known], keys[come[n_in:]]])

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def full(self) -> bool:
        return len(self) >= self.size

    def next_comparison(self, half_life: float | None) -> float:
        """Return the length of the stream to compare with the last fit at."""
        more = (_GROWTH - 1) * self.n_seen
        return self.n_seen + (more if half_life is None else min(more, half_life / 4))


def taken(views: Views, rows: Array) -> Views:
    """Return some rows of views in memory."""
    return Views([view.part(view.array[rows], rows) for view in views])


def _replaced(view: View, batch: View, free: Array, come: Array, more: Array) -> View:
    """Return a view with rows `come` of a batch in the places `free`, and `more` appended."""
    old, new = view.array, batch.array
    present = _replaced_mask(view, batch, free, come, more)
    if sparse.issparse(old):
        stay = np.setdiff1d(np.arange(old.shape[0]), free)
        order = np.empty(old.shape[0], int)
        order[stay], order[free] = np.arange(len(stay)), len(stay) + np.arange(len(free))
        rows = sparse.vstack([old[stay], new[come]]).tocsr()[order] if len(free) else old
        return replace(view, array=sparse.vstack([rows, new[more]]).tocsr(), present=present)
    kind = np.result_type(old.dtype, new.dtype)
    if len(more) or kind != old.dtype:
        old = np.concatenate([old, new[more]], dtype=kind)
    old[free] = new[come]
    return replace(view, array=old, present=present)


def _replaced_mask(view: View, batch: View, free: Array, come: Array, more: Array) -> Mask | None:
    if view.present is None and batch.present is None:
        return None
    old, new = (
        np.ones(one.array.shape[0], bool) if one.present is None else one.present
        for one in (view, batch)
    )
    mask = np.concatenate([old, new[more]])
    mask[free] = new[come]
    return mask
