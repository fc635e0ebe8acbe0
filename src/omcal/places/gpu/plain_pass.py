"""The pass over the rows by PyTorch's own operations, on any device."""

from __future__ import annotations

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.places.gpu.devices import block_entries, wide_type
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.new_samples import decide, second

_FIXED = 2.0**46  # a product of weights of 1 in fixed point
_MOST_FIXED = 1 << 16  # rows whose products can be added in it


class PlainPass:
    """The pass by PyTorch's own operations: products with dense blocks of [S_1 … S_V]."""

    def __init__(self, graphs: TorchGraphs, F: Tensor) -> None:
        self._graphs = graphs
        self._F = F
        self.columns = int(F.shape[1])
        self.dtype = wide_type(F.device)
        self._width = graphs.n_views * graphs.n_anchors
        self._block = max(1, block_entries(F.device) // self._width)

    def gram(self) -> Tensor:
        g, width = self._graphs, self._width
        StS = torch.zeros(width**2, dtype=self.dtype, device=g.device)
        size = min(_MOST_FIXED, block_entries(g.device) // (g.n_views * g.k) ** 2)
        for rows in row_blocks(g.n, max(1, size)):
            columns = g.columns(rows)
            weights = g.weights[:, :, rows].flatten(0, 1).T.to(self.dtype)
            cells = columns[:, :, None] * width + columns[:, None, :]
            products = weights[:, :, None] * weights[:, None, :]
            if g.device.type == "cuda":
                # Its threads add in any order, which sums of integers do not show.
                products = (products * _FIXED).round_().long()
            part = torch.zeros(width**2, dtype=products.dtype, device=g.device)
            part.scatter_add_(0, cells.flatten(), products.flatten())
            StS += part if part.is_floating_point() else part.to(self.dtype) / _FIXED
        return StS.reshape(width, width)

    def sweep(self, small: Tensor) -> Tensor:
        """All sums in one row: SᵀF, FᵀF, FoldᵀF; `small` holds the stacked P and R."""
        Q, R = small[: self._width], small[self._width : self._width + self.columns]
        StF, FtF, FoldtF = torch.zeros_like(Q), torch.zeros_like(R), torch.zeros_like(R)
        for rows in row_blocks(self._graphs.n, self._block):
            S = self._graphs.dense(rows, self.dtype)
            old = self._F[rows].to(self.dtype)
            stored = torch.addmm(S @ Q, old, R).clamp_(min=0).to(self._F.dtype)
            new = stored.to(self.dtype)  # as it was rounded
            StF.addmm_(S.T, new)
            FtF.addmm_(new.T, new)
            FoldtF.addmm_(old.T, new)
            self._F[rows] = stored
        return torch.cat([StF.flatten(), FtF.flatten(), FoldtF.flatten()])

    def assign(
        self, small: Tensor, limit: float, *, runner_up: bool = False
    ) -> tuple[list[Tensor], Tensor]:
        """Labels, with what `second` finds if asked, and the number of undecided rows.

        `small` holds P, R and the basis.
        """
        Q, R, basis = small.split([self._width, self.columns, self._width])
        parts = []
        for rows in row_blocks(self._graphs.n, self._block):
            S = self._graphs.dense(rows, self.dtype)
            U = torch.addmm(S @ Q, self._F[rows].to(self.dtype), R).to(self._F.dtype)
            self._F[rows] = U.clamp(min=0)
            parts.append(decide(U, S @ basis, limit))
        labels = torch.cat([labels for labels, _ in parts])
        found = [labels, *(second(self._F, labels) if runner_up else ())]
        return found, sum(number for _, number in parts)
