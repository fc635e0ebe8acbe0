"""Rows of F for new samples, with everything that was fitted left as it is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.rows import decide
from omcal.method.scaling import Scaling
from omcal.method.updates import Consensus, settle
from omcal.views.view import Views


@dataclass(frozen=True)
class Indicator:
    """What a fit has learnt, as far as new samples need it; small, whatever n was."""

    consensus: Consensus
    scalings: list[Scaling]
    anchors: list[NDArray]
    n_neighbors: int

    def blocks(self, views: Views, size: int) -> Iterator[tuple[NDArray, NDArray]]:
        """Unclipped indicator and labels of consecutive blocks of at most `size` samples."""
        for rows in row_blocks(views.n, size):
            graphs = anchor_graphs(views, self.scalings, self.anchors, self.n_neighbors, rows)
            yield indicate(self.consensus, graphs)

    def labels(self, views: Views, size: int) -> NDArray[np.int32]:
        """Cluster of each sample."""
        return np.concatenate([labels for _, labels in self.blocks(views, size)])

    def transform(self, views: Views, size: int) -> NDArray:
        """F of each sample."""
        return np.concatenate([np.maximum(U, 0) for U, _ in self.blocks(views, size)])


def indicate(Z: Consensus, graphs: AnchorGraphs) -> tuple[NDArray, NDArray]:
    """Unclipped indicator and labels of the samples of these graphs, as for new ones."""
    P, R = Z.f_step()
    S = graphs.side_by_side()
    to_P, to_G = (np.concatenate([w * M for w in Z.alpha]).astype(S.dtype) for M in (P, Z.G))
    U = settle(S @ to_P, R)
    return U, decide(U, S @ to_G, float(np.abs(P).max())).labels


def write_blocks(blocks: Iterable[Any], out: Any) -> Any:
    """`out`, with the blocks written to its rows one after another."""
    start = 0
    for block in blocks:
        out[start : start + len(block)] = block
        start += len(block)
    return out
