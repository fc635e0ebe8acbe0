"""What a fit has learnt, as far as new samples need it: their graphs, and their rows of F."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import map_blocks, row_blocks
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.rows import decide
from omcal.method.scaling import Scaling
from omcal.method.updates import ConsensusGraph, settle, stacked
from omcal.views.view import Views

BLOCK = 8192  # new samples at a time
_SETTLED = 4096  # of these together, so that they stay in the cache


@dataclass(frozen=True)
class Learned:
    """How samples become graphs; small, whatever n was."""

    scalings: list[Scaling]
    anchors: list[NDArray]
    n_neighbors: int

    @property
    def silent(self) -> NDArray[np.bool_]:
        """Which views have all anchors in one point: they say nothing about any sample."""
        spread = (np.ptp(A, axis=0).max(initial=0.0) for A in self.anchors)
        sizes = (np.abs(A).max(initial=0.0) for A in self.anchors)
        return np.array([s <= 1e-12 * size for s, size in zip(spread, sizes, strict=True)])

    def graphs(
        self, views: Views, rows: slice = slice(None), *, compiled: bool = False
    ) -> AnchorGraphs:
        """The graphs of these samples."""
        return anchor_graphs(
            views, self.scalings, self.anchors, self.n_neighbors, rows, compiled=compiled
        )


@dataclass(frozen=True)
class Rule:
    """How samples become rows of F, with everything that was fitted left as it is."""

    learned: Learned
    consensus: ConsensusGraph

    @property
    def n_clusters(self) -> int:
        return int(self.consensus.G.shape[1])

    def blocks(self, views: Views) -> Iterator[tuple[NDArray, NDArray]]:
        """Unclipped indicator and labels of consecutive blocks of samples in memory."""
        for rows in row_blocks(views.n, BLOCK):
            graphs = self.learned.graphs(views, rows, compiled=compiled_pays(views.n))
            yield indicate(self.consensus, graphs)

    def labels(self, views: Views) -> NDArray[np.int32]:
        """Cluster of each sample."""
        return np.concatenate([labels for _, labels in self.blocks(views)])

    def indicator(self, views: Views) -> NDArray:
        """F of each sample."""
        return np.concatenate([np.maximum(U, 0) for U, _ in self.blocks(views)])


@dataclass(frozen=True)
class JoinedRule:
    """How samples become rows of the joined F: by the clusters that several runs put them into.

    The clusters of the runs are the anchors of one more graph, in which a sample is tied to one
    cluster of each run.
    """

    runs: list[Rule]
    columns: list[NDArray[np.int64]]  # of each run: the column of each of its clusters, or -1
    consensus: ConsensusGraph

    @property
    def n_clusters(self) -> int:
        return int(self.consensus.G.shape[1])

    def blocks(self, views: Views) -> Iterator[tuple[NDArray, NDArray]]:
        """Unclipped indicator and labels of consecutive blocks of samples in memory."""
        for parts in zip(*(run.blocks(views) for run in self.runs), strict=True):
            yield self.decide([labels for _, labels in parts])

    def decide(self, labels: Sequence[NDArray]) -> tuple[NDArray, NDArray]:
        """Unclipped indicator and labels of samples that the runs put into these clusters."""
        return indicate(self.consensus, joined_graph(labels, self.columns, len(self.consensus.G)))

    def labels(self, views: Views) -> NDArray[np.int32]:
        """Cluster of each sample."""
        return np.concatenate([labels for _, labels in self.blocks(views)])

    def indicator(self, views: Views) -> NDArray:
        """F of each sample."""
        return np.concatenate([np.maximum(U, 0) for U, _ in self.blocks(views)])


def joined_graph(
    labels: Sequence[NDArray], columns: Sequence[NDArray], n_anchors: int
) -> AnchorGraphs:
    """The graph between samples and the clusters of B runs: B entries of 1/B a row.

    A cluster that held nothing in the fit has no column; a sample that ends there is tied to the
    clusters of the other runs alone.
    """
    n, B = len(labels[0]), len(labels)
    indices = np.empty((n, 1, B), dtype=np.min_scalar_type(n_anchors - 1))
    weights = np.full((n, 1, B), 1.0 / B, dtype=np.float32)
    for b, (found, column) in enumerate(zip(labels, columns, strict=True)):
        there = column[found]
        indices[:, 0, b] = np.maximum(there, 0)
        if there.min(initial=0) < 0:
            weights[there < 0, 0, b] = 0
    return AnchorGraphs(indices, weights, n_anchors)


def indicate(Z: ConsensusGraph, graphs: AnchorGraphs) -> tuple[NDArray, NDArray]:
    """Unclipped indicator and labels of the samples of these graphs, as for new ones."""
    P, R = Z.f_step()
    to_P, to_G = (stacked(Z.alpha, M).astype(graphs.weights.dtype) for M in (P, Z.G))
    scale = float(np.abs(P).max())

    def work(rows: slice) -> tuple[NDArray, NDArray]:
        S = graphs[rows].side_by_side()
        U = settle(S @ to_P, R)
        return U, decide(U, S @ to_G, scale).labels

    U, labels = zip(*map_blocks(work, graphs.n, _SETTLED), strict=True)
    return np.concatenate(U), np.concatenate(labels)
