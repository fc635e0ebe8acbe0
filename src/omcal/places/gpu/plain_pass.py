"""The pass over the rows by PyTorch's own operations, on any device."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.method.rows import zero_tolerance
from omcal.places.gpu.devices import block_entries, wide_type
from omcal.places.gpu.graph import TorchGraphs, index_type


class PlainPass:
    """The pass of one run or several: products with dense blocks of [S_1 … S_V]."""

    in_cuda = False

    def __init__(self, graphs: TorchGraphs, F: Tensor) -> None:
        if graphs.indices.ndim == 3:
            graphs = TorchGraphs(graphs.indices[None], graphs.weights[None], graphs.n_anchors)
        self._graphs = graphs
        self._F = F if F.ndim == 3 else F[None]
        self.columns = int(F.shape[-1])
        self.dtype = wide_type(F.device)
        self._width = graphs.n_views * graphs.n_anchors
        self._block = max(1, block_entries(F.device) // (graphs.n_runs * self._width))

    def gram(self) -> Tensor:
        """Return [S_1 … S_V]ᵀ[S_1 … S_V] of each run."""
        shape = (len(self._F), self._width, self._width)
        total = torch.zeros(shape, dtype=self.dtype, device=self._F.device)
        for rows in row_blocks(self._graphs.n, self._block):
            S = self._dense(rows)
            total.baddbmm_(S.mT, S)
        return total

    @cached_property
    def _whole(self) -> Tensor:
        """Return all rows of [S_1 … S_V] if they are one block; made once for all passes."""
        return self._graphs.dense(slice(None), self.dtype)

    def _dense(self, rows: slice) -> Tensor:
        whole = self._block >= self._graphs.n
        return self._whole if whole else self._graphs.dense(rows, self.dtype)

    def sweep(self, small: Tensor) -> Tensor:
        """Return all sums in one row: SᵀF, FᵀF, FoldᵀF; `small` holds the stacked P and R."""
        return self._sums(small[None])[0]

    def bound(self, small: Tensor, sums: Tensor, goes_on: Tensor) -> Callable[[], None]:
        """Return a function that does a pass into `sums`; all have a row per run.

        Where `goes_on` is 0, nothing changes.
        """

        def work() -> None:
            on = goes_on[:, None] > 0
            sums.copy_(torch.where(on, self._sums(small, on[:, :, None]), sums))

        return work

    def _sums(self, small: Tensor, on: Tensor | None = None) -> Tensor:
        Q, R = small[:, : self._width], small[:, self._width : self._width + self.columns]
        StF, FtF, FoldtF = torch.zeros_like(Q), torch.zeros_like(R), torch.zeros_like(R)
        for rows in row_blocks(self._graphs.n, self._block):
            S, before = self._dense(rows), self._F[:, rows]
            old = before.to(self.dtype)
            stored = torch.baddbmm(S @ Q, old, R).clamp_(min=0).to(before.dtype)
            if on is not None:
                stored = torch.where(on, stored, before)
            new = stored.to(self.dtype)  # as it was rounded
            StF.baddbmm_(S.mT, new)
            FtF.baddbmm_(new.mT, new)
            FoldtF.baddbmm_(old.mT, new)
            before.copy_(stored)
        return torch.cat([part.flatten(1) for part in (StF, FtF, FoldtF)], dim=1)

    def assign(
        self, small: Tensor, limit: float, *, runner_up: bool = False
    ) -> tuple[list[Tensor], Tensor]:
        """Return labels of one run, with runners-up if asked, and the number of undecided rows.

        `small` holds P, R and the basis.
        """
        Q, R, basis = small.split([self._width, self.columns, self._width])
        graphs, F, parts = self._graphs.of_run(0), self._F[0], []
        for rows in row_blocks(graphs.n, self._block):
            S = graphs.dense(rows, self.dtype)
            U = torch.addmm(S @ Q, F[rows].to(self.dtype), R).to(F.dtype)
            F[rows] = U.clamp(min=0)
            parts.append(decide(U, S @ basis, limit))
        labels = torch.cat([labels for labels, _ in parts])
        found = [labels, *(second(F, labels) if runner_up else ())]
        return found, sum(number for _, number in parts)


def decide(U: Tensor, AG: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """Do `omcal.method.rows.decide`: int32 labels, and the number of rows without positive entry.

    Rows with entries up to `limit` are uninformative: A G decides their labels.
    """
    largest, labels = _first_largest(U, limit)
    uninformative = U.abs().amax(dim=1) <= limit
    labels = torch.where(uninformative, _first_largest(AG, zero_tolerance(1.0))[1], labels)
    return labels.to(torch.int32), ((largest <= 0) | uninformative).sum()


def _first_largest(U: Tensor, slack: float) -> tuple[Tensor, Tensor]:
    """Return the largest entry of each row, and the first column at most `slack` below it."""
    largest = U.amax(dim=1)
    return largest, ((largest - slack)[:, None] <= U).byte().argmax(dim=1)


def second(F: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
    """Do `omcal.method.rows.second`: runners-up, and the share of the label in 255ths.

    A runner-up is never the label, because the anchors of a row must differ.
    """
    rest, runner_up = F.scatter(1, labels.long()[:, None], -1).max(dim=1)
    largest, rest = F.amax(dim=1).square(), rest.clamp_(min=0).square()
    both = largest + rest
    share = torch.where(both > 0, largest / both, 1)
    few = index_type(F.shape[1])
    return runner_up.to(few), (255 * share).round().to(torch.uint8)
