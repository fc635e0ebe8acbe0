"""Rows on one PyTorch device."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.machine.torch import Tensor, numpy_dtype
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import AbstractRows, Assignment, Sums, zero_tolerance
from omcal.method.solver import Problem
from omcal.method.updates import stack_by_view
from omcal.places.gpu import cuda
from omcal.places.gpu.devices import resolve_device, working_on
from omcal.places.gpu.graph import TorchGraphs, index_type
from omcal.places.gpu.plain_pass import PlainPass

_MANY_ANCHORS = 256  # with more anchors a GPU computes eigenvectors faster than the host


class TorchRows(AbstractRows):
    """All rows on one device.

    Parameters
    ----------
    graphs : TorchGraphs
    n_clusters : int
    fused : bool, optional
        Whether omcal's kernels do the pass, or PyTorch's operations; by default the kernels on
        NVIDIA GPUs with up to 256 clusters.
    labels_on_host : bool, default=True
        False leaves the labels of `assign` on the device.
    joins_there : bool, default=False
        Whether runs are joined on the device, so that their labels stay there in any case.
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
        joins_there: bool = False,
        F: Tensor | None = None,
    ) -> None:
        self.device = graphs.device
        self._graphs = graphs
        self._labels_on_host, self._joins_there = labels_on_host, joins_there
        self.F: Tensor = graphs.weights.new_zeros((graphs.n, n_clusters)) if F is None else F
        if fused is None:
            fused = cuda.serves(graphs.device, n_clusters)
        self._pass: Any = (cuda.CudaPass if fused else PlainPass)(graphs, self.F)
        self.together = RunBatch(self._pass, 1)
        self.number = 0  # of this run in the batch

    @classmethod
    def of_runs(cls, graphs: TorchGraphs, n_clusters: int, **options: Any) -> list[TorchRows]:
        """Return the rows of several runs, which iterate at the same time."""
        F = graphs.weights.new_zeros((graphs.n_runs, graphs.n, n_clusters))
        parts = [graphs.of_run(number) for number in range(len(F))]
        rows = [cls(part, n_clusters, F=f, **options) for part, f in zip(parts, F, strict=True)]
        together = RunBatch(type(rows[0]._pass)(graphs, F), len(rows))
        for number, one in enumerate(rows):
            one.together, one.number = together, number
        return rows

    @classmethod
    def from_graphs(
        cls, graphs: AnchorGraphs, n_clusters: int, device: Any = "cpu", **options: Any
    ) -> TorchRows:
        """Return rows from graphs in the memory of the host."""
        return cls(TorchGraphs.from_host(graphs, resolve_device(device)), n_clusters, **options)

    def gram(self) -> Floats:
        return self.together.gram(self.number, self._graphs)

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        with working_on(self.device):
            return self.sums_of(self._pass.sweep(self.packed(alpha, P, R)))

    def packed(self, *small: Floats) -> Tensor:
        """Return the small matrices of a pass on the device, as `RunBatch.packed_matrices`."""
        text = self.together.packed_matrices(*small).astype(numpy_dtype(self._pass.dtype))
        return torch.from_numpy(text).to(self.device)

    def sums_of(self, packed: Any) -> Sums:
        """Return the sums of a pass from one row."""
        V, m, c = self._graphs.n_views, self._graphs.n_anchors, self.F.shape[1]
        packed = packed.cpu().numpy() if torch.is_tensor(packed) else packed
        StF, FtF, FoldtF = np.split(packed, [V * m * c, V * m * c + c * c])
        return Sums(StF.reshape(V, m, c), FtF.reshape(c, c), FoldtF.reshape(c, c))

    def leading_eigenvectors(self, A: Floats, number: int) -> Floats | None:
        if self.device.type != "cuda" or A.shape[-1] < _MANY_ANCHORS:
            return None
        with working_on(self.device):
            vectors = torch.linalg.eigh(torch.from_numpy(A).pin_memory().to(self.device))[1]
            found: Floats = vectors[..., -number:].cpu().numpy()
        return found

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        limit = zero_tolerance(float(np.abs(P).max()))
        with working_on(self.device):
            small = self.packed(alpha, P, R, G)
            found, undecided = self._pass.assign(small, limit, runner_up=runner_up)
            if runner_up:  # in a small type, because the labels of all runs are kept
                found[0] = found[0].to(index_type(self.F.shape[1]))
            if self._labels_on_host and not (runner_up and self._joins_there):
                found = [part.cpu().numpy() for part in found]
            # Reading the number would wait for the device, and joined runs do not need it.
            return Assignment(found[0], 0 if runner_up else int(undecided), *found[1:])


class RunBatch:
    """A batch of runs, most often one, that are iterated together: its pass and its state."""

    def __init__(self, work: PlainPass | cuda.CudaPass, n_runs: int) -> None:
        self.work = work
        self.n_runs = n_runs
        self.states: dict[Any, Any] = {}  # of `iteration`
        self._grams: list[Floats] = []
        self._grams_there: Tensor = None
        self._outlook: Any = None

    def gram(self, number: int, graphs: TorchGraphs) -> Floats:
        """Return S_uᵀ S_v of a run, (V, V, m, m); all runs are fetched in one message."""
        if self._grams:
            return self._grams[number]
        with working_on(graphs.device):
            by_view = (graphs.n_views, graphs.n_anchors)
            whole = self.work.gram().unflatten(2, by_view).unflatten(1, by_view)
            self._grams_there = there = whole.transpose(2, 3).contiguous()
            # Through page-locked memory, which is faster; PyTorch keeps it for the next fit.
            here = torch.empty(there.shape, dtype=there.dtype, pin_memory=there.is_cuda)
            self._grams = list(here.copy_(there).numpy().astype(np.float64, copy=False))
        return self._grams[number]

    def gram_there(self, number: int, StS: Floats) -> Tensor:
        """Return the result of `gram` for a run on the device; other matrices are copied there."""
        known = self._grams and StS is self._grams[number]
        return self._grams_there[number] if known else torch.from_numpy(StS.copy())

    def outlook(
        self, find: Callable[..., Any], StS: Tensor, problem: Problem, margin: float
    ) -> Any:
        """Return the result of `find` for all runs, computed only once, so that they agree."""
        if self._outlook is None:
            every = StS[None] if self._grams_there is None else self._grams_there
            self._outlook = find(every, problem, margin)
        return self._outlook

    def packed_matrices(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats | None = None
    ) -> Floats:
        """Return P stacked for the views, R and, if given, G stacked, one below the other.

        Each has as many columns as the pass wants, and R as many rows; the rest is zero.
        """
        Q, c, w = stack_by_view(alpha, P), len(R), self.work.columns
        text = np.zeros((len(Q) * (1 if G is None else 2) + w, w))
        text[: len(Q), :c], text[len(Q) : len(Q) + c, :c] = Q, R
        if G is not None:
            text[len(Q) + w :, :c] = stack_by_view(alpha, G)
        return text
