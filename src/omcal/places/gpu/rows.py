"""Rows on one PyTorch device."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import AbstractRows, Array, Assignment, Sums
from omcal.method.updates import stacked
from omcal.places.gpu import triton_pass as _triton
from omcal.places.gpu.devices import (
    Repeated,
    block_entries,
    resolve_device,
    wide_type,
    working_on,
)
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.new_samples import decide, silence

_FEWEST_ROWS = 10_000  # with fewer, compiling the kernels takes longer than they save


class TorchRows(AbstractRows):
    """All rows on one device; a pass takes one message to it and one back.

    Parameters
    ----------
    graphs : TorchGraphs
    n_clusters : int
    fused : bool, optional
        Whether our own kernels do the pass, or PyTorch's operations; by default the kernels
        where they can and there are enough rows.
    labels_on_host : bool, default=True
        False leaves the labels of `assign` on the device.
    """

    def __init__(
        self,
        graphs: TorchGraphs,
        n_clusters: int,
        *,
        fused: bool | None = None,
        labels_on_host: bool = True,
    ) -> None:
        self.device = graphs.device
        self._graphs = graphs
        self._labels_on_host = labels_on_host
        self.F = torch.zeros(
            (graphs.n, n_clusters), dtype=graphs.weights.dtype, device=graphs.device
        )
        if fused is None:
            fused = graphs.n >= _FEWEST_ROWS and _triton.serves(graphs.device, n_clusters)
        self._pass: Any = (_triton.FusedPass if fused else PlainPass)(graphs, self.F)
        self._mail = _Mail(self._pass, graphs, n_clusters)

    @classmethod
    def from_graphs(
        cls, graphs: AnchorGraphs, n_clusters: int, device: Any = "cpu", **options: Any
    ) -> TorchRows:
        """Take graphs that were built in the memory of the host."""
        return cls(TorchGraphs.from_host(graphs, resolve_device(device)), n_clusters, **options)

    def gram(self) -> Array:
        V, m = self._graphs.n_views, self._graphs.n_anchors
        with working_on(self.device):
            flat = self._pass.gram().cpu().numpy().astype(np.float64)
        return np.ascontiguousarray(flat.reshape(V, m, V, m).transpose(0, 2, 1, 3))

    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        V, m, c = self._graphs.n_views, self._graphs.n_anchors, self.F.shape[1]
        packed = self._mail.sweep(alpha, P, R)
        StF, FtF, FoldtF = np.split(packed, [V * m * c, V * m * c + c * c])
        return Sums(StF.reshape(V, m, c), FtF.reshape(c, c), FoldtF.reshape(c, c))

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        limit = silence(P, self.F.dtype)
        with working_on(self.device):
            labels, undecided = self._pass.assign(self._mail.send(alpha, P, R, G), limit)
            if self._labels_on_host:
                labels = labels.cpu().numpy()
            return Assignment(labels, int(undecided))


class _Mail:
    """Small matrices to a pass and sums back, one message each way, in page-locked memory."""

    def __init__(self, work: Any, graphs: TorchGraphs, n_clusters: int) -> None:
        self._device = device = graphs.device
        self._stacked = graphs.n_views * graphs.n_anchors
        self._height = height = self._stacked + work.columns
        at_once = {"pin_memory": device.type == "cuda"}
        shape = (height + self._stacked, work.columns)
        self._outbox = outbox = torch.zeros(shape, dtype=work.dtype, **at_once)
        self._letter = letter = torch.empty(shape, dtype=work.dtype, device=device)
        size = self._stacked * n_clusters + 2 * n_clusters**2
        self._inbox = inbox = torch.empty(size, dtype=wide_type(device), **at_once)

        def there_and_back() -> None:
            with working_on(device):
                letter[:height].copy_(outbox[:height], non_blocking=True)
                inbox.copy_(work.sweep(letter[:height]), non_blocking=device.type == "cuda")

        self._there_and_back = Repeated(there_and_back, device)

    def sweep(self, alpha: Array, P: Array, R: Array) -> Array:
        """All sums of the pass in one row."""
        self._write(alpha, P, R)
        self._there_and_back()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        return self._inbox.numpy().astype(np.float64)

    def send(self, alpha: Array, P: Array, R: Array, G: Array) -> Tensor:
        """P stacked for the views, R and G stacked, one below the other, on the device.

        Each has as many columns as the pass wants, and R as many rows; the rest is zero.
        """
        self._write(alpha, P, R)
        self._outbox.numpy()[self._height :, : len(R)] = stacked(alpha, G)
        return self._letter.copy_(self._outbox, non_blocking=True)

    def _write(self, alpha: Array, P: Array, R: Array) -> None:
        text, c = self._outbox.numpy(), len(R)
        text[: self._stacked, :c] = stacked(alpha, P)
        text[self._stacked : self._stacked + c, :c] = R


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
        slots = g.n_views * g.k
        for rows in row_blocks(g.n, max(1, block_entries(g.device) // slots**2)):
            columns = g.columns(rows)
            weights = g.weights[:, :, rows].flatten(0, 1).T.to(self.dtype)
            cells = columns[:, :, None] * width + columns[:, None, :]
            products = weights[:, :, None] * weights[:, None, :]
            StS.scatter_add_(0, cells.flatten(), products.flatten())
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

    def assign(self, small: Tensor, limit: float) -> tuple[Tensor, Tensor]:
        """Labels and the number of undecided rows; `small` holds P, R and the basis."""
        Q, R, basis = small.split([self._width, self.columns, self._width])
        parts = []
        for rows in row_blocks(self._graphs.n, self._block):
            S = self._graphs.dense(rows, self.dtype)
            U = torch.addmm(S @ Q, self._F[rows].to(self.dtype), R).to(self._F.dtype)
            self._F[rows] = U.clamp(min=0)
            parts.append(decide(U, S @ basis, limit))
        return torch.cat([labels for labels, _ in parts]), sum(number for _, number in parts)
