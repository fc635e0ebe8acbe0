"""Work on the rows in CUDA C++, compiled when it is first used.

Sums over the rows of an anchor go to shared memory, which Triton cannot address row by row. Each
lane of a warp holds one column of the sums of its own rows, at an address that no other lane
touches and in a memory bank of its own: no atomic operations, no conflicts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Device, Tensor
from omcal.method.updates import MAX_SWEEPS, settled
from omcal.places.gpu import nvrtc
from omcal.places.gpu.graph import TorchGraphs

MAX_CLUSTERS = 32  # a lane a column
_WARP = 32
_MOST_WARPS = 12  # of a block; more leave too few registers
_FEWEST_WARPS = 2  # with fewer, nothing hides the latency of memory
_MOST_SLOTS = 64  # of a row; its neighbours in all views are kept in registers

_MOST_COLUMNS = 12  # of a row, for a lane that decides on it
_GRAM_THREADS = 1024
_FIXED = 2.0**40  # a product of weights of 1 in `gram.cu`
_MOST_FIXED = 1 << 22  # rows whose products can be added there in 64 bits


class CudaSweep:
    """The pass for these graphs and F, of one run or several, where `serves` says so."""

    def __init__(self, graphs: TorchGraphs, F: Tensor, width: int) -> None:
        self._graphs = graphs
        self._F = F
        shape = _Shape.of(graphs, F)
        self._warps = shape.warps(nvrtc.room(F.device))
        self._bytes = shape.bytes(self._warps)
        runs, most = graphs.n_runs, max(1, nvrtc.processors(F.device) // graphs.n_runs)
        self._blocks = min(most, -(-graphs.n // (_WARP * self._warps)))
        size = (graphs.n_views * graphs.n_anchors + 2 * shape.c) * shape.c
        self._shape = (runs, self._blocks, self._warps, size)
        self._kernel = nvrtc.compiled(
            "sweep",
            F.device,
            **_of_graphs(graphs),
            C=shape.c,
            ROWS_AT_ONCE=shape.rows_at_once,
            VIEWS_AT_ONCE=shape.views_at_once,
            WIDTH=width,
            WARPS=self._warps,
        )

    @cached_property
    def _sums(self) -> Tensor:
        """Of each warp; made when needed, as runs that are worked on together have others."""
        return self._F.new_empty(self._shape, dtype=torch.float64)

    def __call__(self, small: Tensor) -> Tensor:
        """`FusedPass.sweep`."""
        sums: Tensor = self._sums.new_empty((1, self._sums.shape[-1]))
        self.bound(small[None], sums)()
        return sums[0]

    def bound(
        self, small: Tensor, sums: Tensor, goes_on: Tensor | None = None
    ) -> Callable[[], None]:
        """What does the pass with these matrices each time it is called; all have a row a run."""
        g, of_blocks = self._graphs, self._sums[:, :, 0]
        apart = (small.stride(0), 0 if goes_on is None else goes_on.stride(0))
        launch = self._kernel.bound(
            *((self._blocks, g.n_runs), _WARP * self._warps, self._bytes),
            *(g.indices, g.weights, self._F, small, self._sums, goes_on, g.n, g.n_anchors, *apart),
        )

        def work() -> None:
            launch()
            torch.sum(of_blocks, dim=1, out=sums)

        return work


def serves(graphs: TorchGraphs, F: Tensor) -> bool:
    """Whether the pass can be done this way: on an NVIDIA GPU, where its sums fit."""
    device: Device = F.device
    if not nvrtc.available(device):
        return False
    if F.shape[-1] > MAX_CLUSTERS or graphs.n_views * graphs.k > _MOST_SLOTS:
        return False
    return _Shape.of(graphs, F).warps(nvrtc.room(device)) >= _FEWEST_WARPS


@dataclass(frozen=True)
class _Shape:
    """How the lanes of a warp share out columns, views and rows."""

    c: int
    views_at_once: int
    rows_at_once: int
    n_views: int  # in all rounds, those that are not there included
    k: int
    n_words: int  # of the sums, or of P
    real: int  # bytes of a number

    @classmethod
    def of(cls, graphs: TorchGraphs, F: Tensor) -> _Shape:
        c = int(F.shape[-1])
        views_at_once = min(graphs.n_views, _WARP // c)
        rounds = -(-graphs.n_views // views_at_once)
        return cls(
            c,
            views_at_once,
            rows_at_once=_WARP // c // views_at_once,
            n_views=rounds * views_at_once,
            k=graphs.k,
            n_words=rounds * graphs.n_anchors * _WARP,
            real=F.element_size(),
        )

    def warps(self, room: int) -> int:
        """Warps of a block, which share this many bytes of memory."""
        alone, two = self.bytes(1), self.bytes(2)
        return min(_MOST_WARPS, 1 + (room - alone) // (two - alone))

    def bytes(self, warps: int) -> int:
        """P once; for each warp its sums, F before and after, and entries of the graphs."""
        tile = -(-_WARP // self.rows_at_once) * self.rows_at_once
        packs = -(-self.c * self.real // (16 * self.views_at_once)) * self.views_at_once
        sums = self.n_words * self.real
        entries = self.n_views * (self.k * tile + 1) * 2 * self.real
        return sums + warps * (sums + 2 * tile * packs * 16 + entries)


class Decision:
    """Rows of F and labels from small matrices, whose columns beyond the clusters are ignored.

    Where it `settles`, F is the fixed point of its step; else that step is done once.
    """

    def __init__(
        self, P: Tensor, R: Tensor, G: Tensor, limit: float, n_clusters: int, *, settles: bool
    ) -> None:
        self._matrices = (P, R, G)
        self._limit = limit
        self._c = n_clusters
        self._settles = settles
        self._lanes = _lanes(n_clusters)

    def __call__(
        self,
        graphs: TorchGraphs,
        *,
        F: Tensor | None = None,
        labels: Tensor | None = None,
        runners_up: Sequence[Tensor] = (),
        undecided: Tensor | None = None,
    ) -> None:
        """Write what there is a place for."""
        device, (P, R, _) = graphs.device, self._matrices
        columns = -(-self._c // self._lanes) * self._lanes
        alone = _decision_bytes(self._c)
        whole = alone + len(P) * (columns | 1) * P.element_size()
        in_shared = whole <= nvrtc.room(device)
        n_bytes = whole if in_shared else alone
        threads = 256 if 4 * n_bytes <= nvrtc.room(device) else 512
        rows = threads // self._lanes
        kernel = nvrtc.compiled(
            "decide",
            device,
            **_of_graphs(graphs),
            C=self._c,
            LANES=self._lanes,
            WIDTH=P.stride(0),
            R_REAL=nvrtc.TYPES[str(R.dtype)],
            SETTLES=int(self._settles),
            TOLERANCE=settled(np.dtype(np.float64)),
            MAX_SWEEPS=MAX_SWEEPS,
            IN_SHARED=int(in_shared),
            THREADS=threads,
        )
        at_once = min(2048 // threads, max(1, nvrtc.room(device) // n_bytes))
        kernel(
            *(min(at_once * nvrtc.processors(device), -(-graphs.n // rows)), threads, n_bytes),
            *(graphs.indices, graphs.weights, F, *self._matrices, labels),
            *(*(runners_up or (None, None)), undecided, self._limit, graphs.n, graphs.n_anchors),
        )

    def labels(self, graphs: TorchGraphs, runner_up: bool, **places: Tensor) -> list[Tensor]:
        """The labels; if asked, with runners-up and shares as `new_samples.second` has them."""
        labels = torch.empty(graphs.n, dtype=torch.int32, device=graphs.device)
        more = torch.empty((2 * runner_up, graphs.n), dtype=torch.uint8, device=graphs.device)
        self(graphs, labels=labels, runners_up=list(more), **places)
        return [labels, *more]


def decides(device: Device, n_clusters: int) -> bool:
    """Whether `Decision` takes so many clusters on this device."""
    return nvrtc.available(device) and _decision_bytes(n_clusters) <= nvrtc.room(device)


def _lanes(n_clusters: int) -> int:
    """Lanes that share a row: what each keeps of it must fit in its registers."""
    lanes = 1
    while -(-n_clusters // lanes) > _MOST_COLUMNS:
        lanes *= 2
    return lanes


def _decision_bytes(n_clusters: int) -> int:
    """R and a row of scales, in double."""
    lanes = _lanes(n_clusters)
    columns = -(-n_clusters // lanes) * lanes
    return 8 * columns * (columns + 1)


def gram(graphs: TorchGraphs) -> Tensor:
    """[S_1 … S_V]ᵀ[S_1 … S_V] of each run, which comes out the same each time."""
    V, m, runs, device = graphs.n_views, graphs.n_anchors, graphs.n_runs, graphs.device
    in_shared = 8 * m * m <= nvrtc.room(device)
    n_bytes = 8 * m * m if in_shared else 0
    kernel = nvrtc.compiled(
        "gram",
        device,
        **_of_graphs(graphs),
        THREADS=_GRAM_THREADS,
        IN_SHARED=int(in_shared),
        UNIT=_FIXED,
    )
    pairs = V * (V - 1) // 2
    at_once = nvrtc.processors(device) * (min(2, nvrtc.room(device) // n_bytes) if in_shared else 2)
    # A view with itself has about half the products of two views.
    alone = max(1, at_once // (runs * (V + 2 * pairs)), -(-graphs.n // _MOST_FIXED))
    blocks = (alone, 2 * alone)
    of_run = V * alone + pairs * 2 * alone
    size = ((of_run, runs), _GRAM_THREADS, n_bytes)
    if not in_shared:
        return _mirrored(_gram_in_whole(kernel, graphs, size, blocks))
    sums = torch.empty((runs, of_run, m, m), dtype=torch.float64, device=device)
    kernel(*size, graphs.indices, graphs.weights, sums, graphs.n, m, *blocks)
    half = torch.zeros((runs, V, V, m, m), dtype=torch.float64, device=device)
    half.diagonal(dim1=1, dim2=2).copy_(
        sums[:, : V * alone].unflatten(1, (V, alone)).sum(dim=2).permute(0, 2, 3, 1)
    )
    if pairs:
        u, v = torch.triu_indices(V, V, 1, device=device)
        half[:, u, v] = sums[:, V * alone :].unflatten(1, (pairs, 2 * alone)).sum(dim=2)
    return _mirrored(half.swapaxes(2, 3).reshape(runs, V * m, V * m))


def _gram_in_whole(
    kernel: nvrtc.Kernel,
    graphs: TorchGraphs,
    size: tuple[tuple[int, int], int, int],
    blocks: tuple[int, int],
) -> Tensor:
    """The sums of the pairs of views u <= v in device memory, where there is room for more."""
    width = graphs.n_views * graphs.n_anchors
    shape = (graphs.n_runs, width, width)
    total = torch.zeros(shape, dtype=torch.float64, device=graphs.device)
    for rows in row_blocks(graphs.n, _MOST_FIXED):
        part = torch.zeros(shape, dtype=torch.int64, device=graphs.device)
        some = TorchGraphs(
            graphs.indices[..., rows].contiguous(),
            graphs.weights[..., rows].contiguous(),
            graphs.n_anchors,
        )
        kernel(*size, some.indices, some.weights, part, some.n, some.n_anchors, *blocks)
        total += part.to(total.dtype) / _FIXED
    return total


def _mirrored(half: Tensor) -> Tensor:
    return half + half.mT - half.diagonal(dim1=1, dim2=2).diag_embed()


def _of_graphs(graphs: TorchGraphs) -> dict[str, Any]:
    return {
        "REAL": nvrtc.TYPES[str(graphs.weights.dtype)],
        "INDEX": nvrtc.TYPES[str(graphs.indices.dtype)],
        "VIEWS": graphs.n_views,
        "K": graphs.k,
    }
