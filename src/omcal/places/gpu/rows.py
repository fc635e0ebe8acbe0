"""Rows on one PyTorch device."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.machine.torch import Tensor
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import AbstractRows, Assignment, Sums, zero_tolerance
from omcal.method.solver import Problem
from omcal.method.updates import stack_by_view
from omcal.places.gpu import iteration
from omcal.places.gpu import triton_pass as _triton
from omcal.places.gpu.devices import (
    resolve_device,
    wide_type,
    working_on,
)
from omcal.places.gpu.graph import TorchGraphs, index_type
from omcal.places.gpu.iteration import DeviceIteration
from omcal.places.gpu.plain_pass import PlainPass

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
    F : Tensor, optional
        Where F is to be, zero.
    """

    def __init__(
        self,
        graphs: TorchGraphs,
        n_clusters: int,
        *,
        fused: bool | None = None,
        labels_on_host: bool = True,
        F: Tensor | None = None,
    ) -> None:
        self.device = graphs.device
        self._graphs = graphs
        self._labels_on_host = labels_on_host
        self.F: Tensor = graphs.weights.new_zeros((graphs.n, n_clusters)) if F is None else F
        if fused is None:
            fused = graphs.n >= _FEWEST_ROWS and _triton.serves(graphs.device, n_clusters)
        self._pass: Any = (_triton.FusedPass if fused else PlainPass)(graphs, self.F)
        self._mail = HostTransfer(self._pass, graphs, n_clusters)
        self.together = RunBatch(self._pass, 1)
        self.number = 0  # of these rows in there

    @classmethod
    def of_runs(cls, graphs: TorchGraphs, n_clusters: int, **options: Any) -> list[TorchRows]:
        """Rows of several runs, which do their iterations at the same time where they can."""
        F = graphs.weights.new_zeros((graphs.n_runs, graphs.n, n_clusters))
        parts = [graphs.of_run(number) for number in range(len(F))]
        rows = [cls(part, n_clusters, F=f, **options) for part, f in zip(parts, F, strict=True)]
        if rows[0].together.skips_finished:
            together = RunBatch(_triton.FusedPass(graphs, F), len(rows))
            for number, one in enumerate(rows):
                one.together, one.number = together, number
        return rows

    @classmethod
    def from_graphs(
        cls, graphs: AnchorGraphs, n_clusters: int, device: Any = "cpu", **options: Any
    ) -> TorchRows:
        """Take graphs that were built in the memory of the host."""
        return cls(TorchGraphs.from_host(graphs, resolve_device(device)), n_clusters, **options)

    def gram(self) -> Floats:
        V, m = self._graphs.n_views, self._graphs.n_anchors
        with working_on(self.device):
            flat = self.together.gram(self.number)
        return np.ascontiguousarray(flat.reshape(V, m, V, m).transpose(0, 2, 1, 3))

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        return self.sums_of(self._mail.sweep(alpha, P, R))

    def sums_of(self, packed: Any) -> Sums:
        """The sums of a pass, which it leaves in one row."""
        V, m, c = self._graphs.n_views, self._graphs.n_anchors, self.F.shape[1]
        packed = packed.cpu().numpy() if torch.is_tensor(packed) else packed
        StF, FtF, FoldtF = np.split(packed, [V * m * c, V * m * c + c * c])
        return Sums(StF.reshape(V, m, c), FtF.reshape(c, c), FoldtF.reshape(c, c))

    def iteration(self, StS: Floats, G: Floats, problem: Problem) -> DeviceIteration | None:
        if isinstance(self._pass, PlainPass) or not iteration.serves(self, problem):
            return None
        return DeviceIteration(self, StS, G, problem)

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        limit = zero_tolerance(float(np.abs(P).max()))
        with working_on(self.device):
            packed_matrices = self._mail.send(alpha, P, R, G)
            found, undecided = self._pass.assign(packed_matrices, limit, runner_up=runner_up)
            if runner_up:  # in few bytes, as those of all runs will be there
                found[0] = found[0].to(index_type(self.F.shape[1]))
            if self._labels_on_host:
                found = [part.cpu().numpy() for part in found]
            # To know the number would mean to wait, and of runs to be joined none asks for it.
            return Assignment(found[0], 0 if runner_up else int(undecided), *found[1:])


class RunBatch:
    """The pass of runs that do their iterations at the same time, and where these iterations are.

    Most often of one run.
    """

    def __init__(self, work: Any, n_runs: int) -> None:
        self._work = work
        self.n_runs = n_runs
        self.columns: int = work.columns
        self.dtype = work.dtype
        self.state: Any = None  # as `iteration` left it
        self._lock = Lock()
        self._grams: Floats | None = None

    def gram(self, number: int) -> Floats:
        """[S_1 … S_V]ᵀ[S_1 … S_V] of a run; those of all come in one message."""
        with self._lock:
            if self._grams is None:
                flat: Floats = self._work.gram().cpu().numpy().astype(np.float64, copy=False)
                self._grams = flat.reshape(self.n_runs, *flat.shape[-2:])
        of_run: Floats = self._grams[number]
        return of_run

    def packed_matrices(self, alpha: Floats, P: Floats, R: Floats) -> Floats:
        """What a pass is sent: P stacked for the views and R, with as many columns as it wants."""
        Q, c = stack_by_view(alpha, P), len(R)
        text = np.zeros((len(Q) + self.columns, self.columns))
        text[: len(Q), :c], text[len(Q) : len(Q) + c, :c] = Q, R
        return text

    @property
    def skips_finished(self) -> bool:
        """Whether `bound` does nothing for runs where it is told to."""
        return bool(getattr(self._work, "skips_finished", False))

    def bound(self, packed_matrices: Tensor, sums: Tensor, goes_on: Tensor) -> Callable[[], None]:
        """A pass without a word to the host each time this is called; all have a row a run."""
        work = self._work
        if not self.skips_finished:
            return lambda: sums.copy_(work.sweep(packed_matrices[0]))
        bound: Callable[[], None] = work.bound(packed_matrices, sums, goes_on)
        return bound


class HostTransfer:
    """Small matrices to a pass and sums back, one message each way, in page-locked memory."""

    def __init__(self, work: Any, graphs: TorchGraphs, n_clusters: int) -> None:
        self._device = device = graphs.device
        self._stacked = graphs.n_views * graphs.n_anchors
        self._height = height = self._stacked + work.columns
        at_once = {"pin_memory": device.type == "cuda"}
        shape = (height + self._stacked, work.columns)
        self._outbox = outbox = torch.zeros(shape, dtype=work.dtype, **at_once)
        self._letter = packed_matrices = torch.zeros(shape, dtype=work.dtype, device=device)
        size = self._stacked * n_clusters + 2 * n_clusters**2
        self._inbox = inbox = torch.empty(size, dtype=wide_type(device), **at_once)

        def there_and_back() -> None:
            with working_on(device):
                packed_matrices[:height].copy_(outbox[:height], non_blocking=True)
                inbox.copy_(
                    work.sweep(packed_matrices[:height]), non_blocking=device.type == "cuda"
                )

        self._there_and_back = there_and_back

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Floats:
        """All sums of the pass in one row."""
        self._write(alpha, P, R)
        self._there_and_back()
        if self._device.type == "cuda":
            torch.cuda.current_stream(self._device).synchronize()
        return np.array(self._inbox.numpy(), dtype=np.float64)  # the inbox is written again

    def send(self, alpha: Floats, P: Floats, R: Floats, G: Floats) -> Tensor:
        """P stacked for the views, R and G stacked, one below the other, on the device.

        Each has as many columns as the pass wants, and R as many rows; the rest is zero.
        """
        self._write(alpha, P, R)
        self._outbox.numpy()[self._height :, : len(R)] = stack_by_view(alpha, G)
        return self._letter.copy_(self._outbox, non_blocking=True)

    def _write(self, alpha: Floats, P: Floats, R: Floats) -> None:
        text, c = self._outbox.numpy(), len(R)
        text[: self._stacked, :c] = stack_by_view(alpha, P)
        text[self._stacked : self._stacked + c, :c] = R
