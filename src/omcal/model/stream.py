"""Updates of a fitted model by batches: sums that are carried on, a sample of the stream, growth.

docs/living.md states which results are exact. Strangers are samples with a score below the outlier
threshold. A group of them is stable, and may become a cluster, if anchors of one half explain the
other half, and the group is about as compact as the clusters.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, Self

import numpy as np
from scipy import linalg, sparse

from omcal.machine.arrays import Additive, Array, Floats, Mask
from omcal.machine.threads import row_blocks
from omcal.method.anchors import anchors_of_runs
from omcal.method.graph import AnchorGraphs
from omcal.method.moments import Moments
from omcal.method.new_samples import GraphModel, Predictor, indicate
from omcal.method.solver import Problem, Solution, thresholded
from omcal.method.updates import ConsensusGraph, fused_gram, orthogonal_factor
from omcal.model.certainty import typicality
from omcal.model.drift import Reference
from omcal.model.numbering import Match, new_name
from omcal.places.data_scan import stacked
from omcal.places.team import SOLO, Team
from omcal.views.view import Matrix, Views

BLOCK = 4096  # rows of dense A per block
# Rows of the reservoir: this many per anchor if they take few bytes, and at least some.
_ROWS_PER_ANCHOR, _FEW_BYTES, _LEAST_ROWS = 128, 1 << 24, 2000
_MOST_HELD = 2  # most rows in memory per row of the sample
_GROWTH = 1.1  # growth of the stream between two comparisons with the last fit
_MOST_STRANGERS = 500  # the last strangers to keep
_LEAST_GROUP = 30  # least number of samples of a group
_EXPLAINED = 0.5  # least share of the strangers in the group
_SPREAD = 1.5  # largest mean squared distance from the mean of a group, relative to the clusters
_TEST_GROWTH = 2.0  # growth of the number of strangers between two tests


@dataclass(frozen=True)
class StreamSums(Additive):
    """Sums of the solver over n samples, for fixed anchors and view weights."""

    n: float
    AtA: Floats  # (m, m), of A = Σ_v alpha_v S_v
    AtF: Floats  # (m, c)
    FtF: Floats  # (c, c)

    @classmethod
    def of(cls, Z: ConsensusGraph, graphs: AnchorGraphs, F: Array) -> StreamSums:
        """Return the sums of samples with the given graphs and indicators."""
        blocks = row_blocks(graphs.n, BLOCK)
        return reduce(add, (cls.of_rows(weighted_graph(graphs[b], Z.alpha), F[b]) for b in blocks))

    @classmethod
    def of_rows(cls, A: Floats, F: Array) -> StreamSums:
        """Return the sums of samples with the given A and indicators."""
        F = F.astype(np.float64, copy=False)
        return cls(float(len(A)), A.T @ A, A.T @ F, F.T @ F)

    @classmethod
    def of_fit(cls, solution: Solution, n: int, order: Array) -> StreamSums | None:
        """Return the sums of a fit to n samples, its clusters in the given order.

        None for a run of several on a device, which leaves them there.
        """
        if solution.sums is None:
            return None
        AtA, AtF, FtF = solution.sums
        return cls(float(n), AtA, AtF[:, order], FtF[np.ix_(order, order)])

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
        ZtF = replace(Z, alpha=one).transposed_times_f(self.AtF[None], self.FtF)
        G = orthogonal_factor(ZtF)  # F is at its fixed point
        MtM = fused_gram(one, self.AtA[None, None], self.AtF, self.FtF, G, gamma)
        problem = Problem(beta, gamma, "fixed", one, max_iter=1, tol=0.0)
        return ConsensusGraph(Z.alpha, G, thresholded(MtM, problem).T, gamma)


def weighted_graph(graphs: AnchorGraphs, alpha: Floats) -> Floats:
    """Return A = Σ_v alpha_v S_v as a dense float64 matrix."""
    m = graphs.n_anchors
    cells = graphs.indices + np.arange(0, graphs.n * m, m)[:, None, None]
    values = graphs.weights * alpha[:, None]
    A: Any = np.bincount(cells.ravel(), values.ravel(), graphs.n * m)
    return np.asarray(A.reshape(-1, m))


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
        if half_life is not None:  # a larger sample would not forget
            self.size = min(self.size, max(int(half_life), 2 * n_anchors))
        self._slope = 0.0 if half_life is None else np.log(2) / half_life
        self._seed, self._keys = seed, np.empty(0)
        self.n_seen = 0
        # Blocks of rows: the sample, then rows of later batches; some have left the sample.
        self._parts: list[Views] = []
        self._places = np.empty(0, np.intp)  # positions of the rows of the sample in the blocks

    def added(self, views: Views, team: Team = SOLO) -> Self:
        """Return a new sample that includes rows of a batch; this one does not change.

        Each process of a team has some rows of the batch, and the same sample.
        """
        new, known = copy(self), len(self)
        sizes = team.each(lambda: views.n)
        n, first = sum(sizes), sum(sizes[: team.rank])
        times = self.n_seen + np.arange(n)
        # Each batch has its own generator, so that files need not store its state.
        drawn = np.random.default_rng([self._seed, self.n_seen]).exponential(size=n)
        keys = np.concatenate([self._keys, np.log(drawn) - self._slope * times])
        stays = np.ones(len(keys), bool)
        if len(keys) > self.size:
            stays[np.argpartition(keys, self.size)[self.size :]] = False
        come, free = np.flatnonzero(stays[known:]), np.flatnonzero(~stays[:known])
        n_held = sum(part.n for part in self._parts)
        # Rows of the batch replace rows that have left; the others are appended.
        new._places = np.append(self._places, n_held + np.arange(len(free), len(come)))
        new._places[free] = n_held + np.arange(len(free))
        new._keys = np.append(self._keys, keys[known + come[len(free) :]])
        new._keys[free] = keys[known + come[: len(free)]]
        new.n_seen = self.n_seen + n
        own = come[(come >= first) & (come < first + views.n)] - first
        parts = team.each(lambda: taken(views, own)) if come.size else []
        new._parts = [*self._parts, *(part for part in parts if part.n)]
        if n_held + len(come) > _MOST_HELD * self.size:
            new._gather()
        return new

    def _gather(self) -> None:
        """Drop the rows that have left the sample, and sort the others by position."""
        order = np.argsort(self._places)
        self._keys, self._places = self._keys[order], self._places[order]
        found = []
        for parts in zip(*self._parts, strict=True):
            masks = [part.present for part in parts]
            present = None
            if any(mask is not None for mask in masks):
                whole = zip(parts, masks, strict=True)
                filled = [np.ones(len(p.array), bool) if m is None else m for p, m in whole]
                present = np.concatenate(filled)[self._places]
            array = _picked(tuple(part.array for part in parts), self._places)
            found.append(replace(parts[0], array=array, present=present))
        self._parts, self._places = [Views(found)], np.arange(len(self))

    @property
    def views(self) -> Views | None:
        """The rows of the sample; None if it is empty."""
        if len(self._parts) > 1:
            self._gather()
        return self._parts[0] if self._parts else None

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def full(self) -> bool:
        return len(self) >= self.size

    def next_comparison(self, half_life: float | None) -> float:
        """Return the length of the stream at which the next comparison with the last fit is due."""
        more = (_GROWTH - 1) * self.n_seen
        return self.n_seen + (more if half_life is None else min(more, half_life / 4))


def taken(views: Views, rows: slice | Array) -> Views:
    """Return some rows of views in memory."""
    return Views([view.part(view.array[rows], rows) for view in views])


def _picked(blocks: tuple[Matrix, ...], places: Array) -> Matrix:
    """Return rows by ascending positions in the concatenated blocks; dense ones are copied once."""
    if any(map(sparse.issparse, blocks)):
        return stacked(blocks)[places]
    picked = np.empty((len(places), blocks[0].shape[1]), np.result_type(*blocks))
    starts = np.cumsum([0, *map(len, blocks)])
    cuts = np.searchsorted(places, starts)
    for block, start, first, last in zip(blocks, starts, cuts, cuts[1:], strict=False):
        rows, out = places[first:last] - start, picked[first:last]
        if block.dtype == out.dtype:
            block.take(rows, axis=0, out=out, mode="clip")  # with "raise" it would be buffered
        else:
            out[:] = block[rows]
    return picked


class Strangers(Reservoir):
    """The last strangers of a stream, and the number at which the next test is due."""

    def __init__(self) -> None:
        super().__init__(0, None, seed=0)
        self.size, self.next_test = _MOST_STRANGERS, float(_LEAST_GROUP)

    def added(self, views: Views, team: Team = SOLO) -> Self:
        """Return the last strangers with those of a batch; these do not change."""
        new, found = copy(self), team.each(lambda: (views.n, taken(views, slice(-self.size, None))))
        new._parts = [*self._parts, *(part for n, part in found if n)]
        new.n_seen = self.n_seen + sum(n for n, _ in found)
        n_held = sum(part.n for part in new._parts)
        new._places = np.arange(max(n_held - self.size, 0), n_held)
        new._keys = np.zeros(len(new._places))  # which files hold
        if n_held > _MOST_HELD * self.size:
            new._gather()
        return new

    def due(self) -> bool:
        """Whether a test is due now; if so, set the number for the next test."""
        due = self.n_seen >= self.next_test and len(self) > 0
        self.next_test = _TEST_GROWTH * self.n_seen if due else self.next_test
        return due

    @property
    def arrays(self) -> dict[str, Array]:
        """Return the keys and rows by their names in model files."""
        found: dict[str, Array] = {}
        for v, view in enumerate(self.views or ()):
            rows = view.array
            parts = (rows.data, rows.indices, rows.indptr) if view.sparse else (rows,)
            found |= {f"{v}.{i}": part for i, part in enumerate(parts)}
        return {"keys": self._keys, **found}  # the views may have brought them into another order

    @classmethod
    def kept(cls, keys: Array, n_seen: int, next_test: float, views: Views) -> Strangers:
        """Return the strangers from the values of a model file."""
        found = cls()
        found._keys, found.n_seen, found.next_test = keys, n_seen, next_test
        found._parts, found._places = [views], np.arange(len(keys))
        return found


def stable_group(model: Any, strangers: Views, others: Callable[[], Views]) -> Views | None:
    """Return the strangers that form a stable group, or None; `others` returns any samples."""
    half = np.random.default_rng(0).permutation(strangers.n) % 2 == 0
    explained = np.ones(strangers.n, bool)  # as far as is known
    for part in (half, ~half):
        some, rest = (taken(strangers, np.flatnonzero(rows)) for rows in (~part, part))
        explained[part] = _explains(model, some, rest)
        enough = np.count_nonzero(explained) >= max(_LEAST_GROUP, _EXPLAINED * strangers.n)
        if not enough or not explained[part].any():  # for scattered strangers after one half
            return None
    group, learned = taken(strangers, np.flatnonzero(explained)), model._rule.learned
    alpha = model._rule.consensus.alpha
    samples = others()
    known = _spreads(samples, learned, alpha, model._rule.labels(samples))
    own = _spreads(group, learned, alpha, np.zeros(group.n, np.intp))
    return group if known and own[0] <= _SPREAD * np.median(known) else None


def _explains(model: Any, some: Views, strangers: Views) -> Mask:
    """Return for each stranger whether it is typical of a cluster built from some of them."""
    rule = extended(model._rule, some)
    U, labels = indicate(rule.consensus, rule.graphs(strangers))
    typical = typicality(np.maximum(U, 0)) >= model.outlier_threshold_
    return np.asarray(typical & (labels == rule.n_clusters - 1))


def _spreads(views: Views, learned: GraphModel, alpha: Array, labels: Array) -> list[float]:
    """Return the mean squared distance from the mean, over the views, of each larger cluster."""
    scaled = [s.apply(view.array) for view, s in zip(views, learned.scalings, strict=True)]
    found = []
    for cluster in np.unique(labels):
        rows = np.flatnonzero(labels == cluster)
        if len(rows) >= max(2, _LEAST_GROUP // 3):
            found.append(float(alpha @ [Moments.of(X[rows]).variance.sum() for X in scaled]))
    return found


def extended(rule: Predictor, group: Views) -> Predictor:
    """Return the predictor with one more cluster, whose anchors are in the group."""
    learned, Z = rule.learned, rule.consensus
    m, c = Z.G.shape
    p = min(max(2, round(m / c)), group.n)
    state = np.random.RandomState(0)
    how: Any = (learned.scalings, p, "kmeans", [state], [None])
    (anchors,) = anchors_of_runs(group, *how, sampled=False)
    both = [np.vstack(pair) for pair in zip(learned.anchors, anchors, strict=True)]
    column = np.full((p, 1), p**-0.5)
    # The threshold matrix keeps of the new cluster the mean share that it keeps of the others.
    kept = np.einsum("mc,mn,nc->", Z.G, Z.T, Z.G) / c
    T = linalg.block_diag(Z.T, kept * column @ column.T)
    graph = ConsensusGraph(Z.alpha, linalg.block_diag(Z.G, column), T, Z.gamma)
    return Predictor(replace(learned.alone, anchors=both), graph)


def grow(model: Any, group: Views) -> None:
    """Add a cluster for the group; sums and names of the other clusters stay."""
    rule, c = extended(model._rule, group), model.n_clusters_
    graphs = rule.graphs(group)
    U, labels = indicate(rule.consensus, graphs)
    own = Reference.of(graphs, labels, rule.consensus.G)
    model._sums = _padded(model._sums, StreamSums.of(rule.consensus, graphs, np.maximum(U, 0)))
    model._reference = _padded(model._reference, own)
    model._set_rule(rule)
    model.n_clusters_, model._n_grown = c + 1, model._n_grown + 1
    model.matched_ = [*model.matched_, Match(c, None, 0.0)] if model.matched_ else []
    if model._cluster_names is not None:
        model._cluster_names = [*model._cluster_names, new_name(c, model._cluster_names)]


def _padded(old: Any, new: Any) -> Any:
    """Return the sum of two sets of sums; the first has fewer anchors and clusters."""
    if old is None:
        return None
    wider = [
        np.pad(part, [(0, size) for size in np.subtract(more.shape, part.shape)])
        for part, more in zip(old.parts, new.parts, strict=True)
    ]
    return type(old)(old.n_fit if isinstance(old, Reference) else old.n, *wider) + new
