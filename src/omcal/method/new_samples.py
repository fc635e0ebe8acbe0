"""What a fit has learnt, as far as new samples need it: their graphs, and their rows of F."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.rows import decide
from omcal.method.scaling import Scaling
from omcal.method.updates import ConsensusGraph, settle, stacked
from omcal.views.view import Views

BLOCK = 8192  # new samples at a time


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
            yield indicate(self.consensus, self.learned.graphs(views, rows))

    def labels(self, views: Views) -> NDArray[np.int32]:
        """Cluster of each sample."""
        return np.concatenate([labels for _, labels in self.blocks(views)])

    def indicator(self, views: Views) -> NDArray:
        """F of each sample."""
        return np.concatenate([np.maximum(U, 0) for U, _ in self.blocks(views)])


def indicate(Z: ConsensusGraph, graphs: AnchorGraphs) -> tuple[NDArray, NDArray]:
    """Unclipped indicator and labels of the samples of these graphs, as for new ones."""
    P, R = Z.f_step()
    S = graphs.side_by_side()
    to_P, to_G = (stacked(Z.alpha, M).astype(S.dtype) for M in (P, Z.G))
    U = settle(S @ to_P, R)
    return U, decide(U, S @ to_G, float(np.abs(P).max())).labels
