"""Passes over the rows, SᵀS and labels in CUDA C++, compiled on first use.

Sums over the rows of an anchor are sums of integers in shared memory: atomic additions are native
only for integers there, and give the same result in any order. Without it (PyTorch's operations
instead), 10⁷ × 448 takes 21 times as long, 60000 × 1430 2.9 (benchmarks/ablations_gpu.py).
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
from omcal.method.rows import zero_tolerance
from omcal.method.updates import MAX_SWEEPS, fixed_point_tol
from omcal.places.gpu import nvrtc
from omcal.places.gpu.devices import block_entries
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.plain_pass import PlainPass

MAX_CLUSTERS = 32  # one lane per column
_WARP = 32
_WARPS = (12, 8, 4, 2)  # per block; more leave too few registers
_MOST_NUMBERS = 172  # in the registers of a lane, with the most warps
_FAR = 2.0**12  # F larger than expected by this factor makes the sums NaN
_MOST_ADDED = 1 << 12  # rows added to a word of shared memory; more rows leave fewer bits for each
_ROWS_A_LANE = 1 << 12  # rows whose FᵀF is summed before the sum in float64
_MOST_SLOTS = 64  # most neighbours of a row in all views, which are kept in registers

_MOST_LABELS = 256  # runners-up are stored as bytes
_MOST_COLUMNS = 12  # most columns of a row per lane that decides on its label
_SPREAD_THREADS = 256
_SPREAD_BLOCKS = 16  # per multiprocessor, of all runs
_SUMS_BYTES = 1 << 25  # most bytes of all copies of the sums
_BITS = 61  # bits of a sum
_GRAM_THREADS = 1024
_FIXED = 2.0**40  # the integer for a product of weights of 1 in `gram.cu`
_MOST_FIXED = 1 << 22  # most rows whose products fit in a sum of 64 bits


class CudaPass:
    """Passes, SᵀS and labels of one run or several, by kernels.

    Small matrices have `columns` columns; columns beyond the clusters are zero.
    """

    def __init__(self, graphs: TorchGraphs, F: Tensor) -> None:
        self._graphs, self._F, self._c = graphs, F, int(F.shape[-1])
        self.in_cuda = in_shared_memory(graphs, F)  # and so are the small steps
        self.columns = max(16, 1 << (self._c - 1).bit_length()) if self.in_cuda else self._c
        self.dtype = F.dtype
        work: Any = CudaSweep(graphs, F, self.columns) if self.in_cuda else SpreadSweep(graphs, F)
        self.sweep, self.bound = work.sweep, work.bound

    def gram(self) -> Tensor:
        """Do `PlainPass.gram`."""
        return gram(self._graphs)

    def assign(
        self, small: Tensor, limit: float, *, runner_up: bool = False
    ) -> tuple[list[Tensor], Tensor | None]:
        """Do `PlainPass.assign`; rows are not counted where runners-up are asked for."""
        width = self._graphs.n_views * self._graphs.n_anchors
        P, R, G = small.split([width, self.columns, width])
        undecided = None if runner_up else self._F.new_zeros((), dtype=torch.int32)
        decide = Decision(P, R, G, limit, self._c, settles=False)
        found = decide.labels(self._graphs, runner_up, F=self._F, undecided=undecided)
        return found, undecided


class CudaSweep:
    """The pass for given graphs and F, of one run or several; see `in_shared_memory`."""

    def __init__(self, graphs: TorchGraphs, F: Tensor, width: int) -> None:
        self._graphs = graphs
        self._F = F
        self._layout = layout = _Layout.of(graphs, F)
        runs, c = graphs.n_runs, layout.c
        at_once = layout.warps * layout.tile  # rows
        most = max(1, nvrtc.processors(F.device) // runs)
        self._blocks = min(most, -(-graphs.n // at_once))
        turns = -(-graphs.n // (at_once * self._blocks))
        to_a_word = at_once // layout.copies
        self._turns = min(turns, max(1, _MOST_ADDED // to_a_word))
        self._fixed = _fixed(to_a_word * self._turns, at_once * turns, layout.real)
        self._size = (graphs.n_views * graphs.n_anchors + 2 * c) * c
        self._shape = (runs, self._blocks, 2 * self._size + (layout.warps - 1) * 2 * c * c)
        self._kernel = nvrtc.compiled(
            "sweep",
            F.device,
            **_of_graphs(graphs),
            C=c,
            COLUMNS=layout.columns,
            APART=int(layout.apart),
            WIDTH=width,
            WARPS=layout.warps,
            ROWS_A_LANE=_ROWS_A_LANE,
            FAR=_FAR,
        )

    @cached_property
    def _sums(self) -> Tensor:
        """Return the sums of each block, allocated on first use: runs of a batch use other ones."""
        return self._F.new_empty(self._shape, dtype=torch.float64)

    def sweep(self, small: Tensor) -> Tensor:
        """Do `PlainPass.sweep`."""
        sums: Tensor = self._sums.new_empty((1, self._size))
        self.bound(small[None], sums)()
        return sums[0]

    def bound(
        self, small: Tensor, sums: Tensor, goes_on: Tensor | None = None
    ) -> Callable[[], None]:
        """Return a function that does the pass with the matrices; all have a row per run."""
        g, of_blocks = self._graphs, self._sums[:, :, : self._size]
        apart = (small.stride(0), 0 if goes_on is None else goes_on.stride(0))
        launch = self._kernel.bound(
            *((self._blocks, g.n_runs), _WARP * self._layout.warps, self._layout.bytes),
            *(g.indices, g.weights, self._F, small, self._sums, goes_on),
            *(*self._fixed, self._turns, g.n, g.n_anchors, *apart),
        )

        def work() -> None:
            launch()
            torch.sum(of_blocks, dim=1, out=sums)

        return work


class SpreadSweep(PlainPass):
    """The pass for given graphs and F, of one run or several, if `CudaSweep` has no room."""

    def __init__(self, graphs: TorchGraphs, F: Tensor) -> None:
        super().__init__(graphs, F)
        c = self.columns
        self._size = graphs.n_views * graphs.n_anchors * c
        runs, most = graphs.n_runs, _SPREAD_BLOCKS * nvrtc.processors(F.device)
        self._blocks = max(1, min(most // runs, -(-graphs.n * c // _SPREAD_THREADS)))
        self._copies = max(1, min(self._blocks, _SUMS_BYTES // (8 * self._size * runs)))
        self._kernel = nvrtc.compiled(
            "spread",
            F.device,
            **_of_graphs(graphs),
            C=c,
            THREADS=_SPREAD_THREADS,
        )

    def _sums(self, small: Tensor, on: Tensor | None = None) -> Tensor:
        g, F, c = self._graphs, self._F, int(self._F.shape[2])
        P, R = small.split([g.n_views * g.n_anchors, c], dim=1)
        P = P.contiguous()
        new, unit = torch.empty_like(F), self._unit(P, R)
        shape = (g.n_runs, self._copies, self._size)
        StF = torch.zeros(shape, dtype=torch.int64, device=F.device)
        self._kernel(
            *((self._blocks, g.n_runs), _SPREAD_THREADS, 0),
            *(g.indices, g.weights, F @ R, P, new, StF, unit, g.n, g.n_anchors, self._copies),
        )
        if on is not None:
            new = torch.where(on, new, F)
        products = new.new_zeros((2, g.n_runs, c, c), dtype=torch.float64)
        for rows in row_blocks(g.n, max(1, block_entries(F.device) // (g.n_runs * c))):
            now = new[:, rows].double()
            products[0].baddbmm_(now.mT, now)
            products[1].baddbmm_(F[:, rows].double().mT, now)
        F.copy_(new)
        return torch.cat([StF.sum(dim=1) / unit[:, None], *products.flatten(2)], dim=1)

    def _unit(self, P: Tensor, R: Tensor) -> Tensor:
        """Return the largest power of 2 with which no sum of n entries of the next F overflows."""
        # Each view has weights that sum to 1 in a row.
        by_view = P.abs().unflatten(1, (self._graphs.n_views, -1)).amax(dim=(2, 3)).double()
        row_sums = R.abs().sum(dim=1).amax(dim=1).double()
        largest = by_view.sum(dim=1) + self._F.amax(dim=(1, 2)).double() * row_sums
        most = (self._graphs.n * largest).clamp(min=1e-300)
        return torch.exp2(torch.floor(_BITS - torch.log2(most)))


def serves(device: Device, n_clusters: int) -> bool:
    """Whether `CudaPass` takes this number of clusters on this device."""
    return n_clusters <= _MOST_LABELS and decides(device, n_clusters)


def in_shared_memory(graphs: TorchGraphs, F: Tensor) -> bool:
    """Whether `CudaSweep` does the pass: its sums fit in the shared memory of a block."""
    device: Device = F.device
    if F.shape[-1] > MAX_CLUSTERS or graphs.n_views * graphs.k > _MOST_SLOTS:
        return False
    return _Layout.of(graphs, F).bytes <= nvrtc.room(device)


def _fixed(added: int, total: int, real: int) -> tuple[float, float]:
    """Return the integers that represent the largest expected F, and a larger F.

    Sums of `added` of the first fit in 32 bits (64 for doubles); sums of `total` of the second,
    which is as large as possible, fit in 64.
    """
    bits, most = (32, 2**23) if real == 4 else (63, 2**52)
    return float(min(2**bits // (added + 1), most)), 2.0 ** (62 - total.bit_length()) / _FAR


@dataclass(frozen=True)
class _Layout:
    """The rows and columns per lane of a warp, and the shared memory of a block."""

    c: int
    columns: int  # of a lane
    apart: bool  # whether rows done at once have P and sums of their own
    copies: int  # of sums
    tile: int  # rows of a warp
    warps: int
    bytes: int
    real: int  # bytes of a number

    @classmethod
    def of(cls, graphs: TorchGraphs, F: Tensor) -> _Layout:
        """Return the layout that `sweep.cu` uses."""
        c, real = int(F.shape[-1]), F.element_size()
        columns = 2 if c <= _WARP // 2 else 1
        parts = -(-c // columns)
        at_once = columns * (_WARP // columns // parts)
        tile = _WARP // at_once * at_once
        slots = graphs.n_views * graphs.k
        pitch = columns * (parts | 1) if columns > 1 else -(-c * real // 16) * 16 // real
        packed = 4 * -(-slots * graphs.indices.element_size() // 4)
        of_warp = tile * ((slots + pitch) * real + packed)
        line = 2 * graphs.n_views * graphs.n_anchors * real  # of P and sums, for each column
        # Numbers of a lane: R and FoldᵀF, FᵀF, a row of F, its neighbours and the next ones.
        numbers = 4 * parts * columns**2 + (parts // 2 + 1) * columns**2 + 2 * c + 4 * slots
        found = []
        for warps in _WARPS[numbers * real > 4 * _MOST_NUMBERS :]:
            rest = warps * of_warp + 8 * (graphs.n_views + 1 + warps)
            found += [
                cls(c, columns, True, at_once // columns, tile, warps, line * _WARP + rest, real),
                cls(c, columns, False, 1, tile, warps, line * (c + c % 2) + rest, real),
            ]
        room = nvrtc.room(F.device)
        return next((one for one in found if one.bytes <= room), found[-1])


class Decision:
    """Compute rows of F and labels from small matrices; columns beyond the clusters are ignored.

    With `settles`, F is the fixed point of the step; otherwise the step is done once.
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
        """Write the outputs for which a tensor is given."""
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
            TOLERANCE=fixed_point_tol(np.dtype(np.float64)),
            MAX_SWEEPS=MAX_SWEEPS,
            EQUAL_IN_G=zero_tolerance(1.0),
            IN_SHARED=int(in_shared),
            THREADS=threads,
        )
        at_once = min(2048 // threads, max(1, nvrtc.room(device) // n_bytes))
        blocks = min(at_once * nvrtc.processors(device), -(-graphs.n // rows))
        kernel(
            *((blocks, 1), threads, n_bytes),
            *(graphs.indices, graphs.weights, F, *self._matrices, labels),
            *(*(runners_up or (None, None)), undecided, self._limit, graphs.n, graphs.n_anchors),
        )

    def labels(self, graphs: TorchGraphs, runner_up: bool, **places: Tensor) -> list[Tensor]:
        """Return the labels; if asked, with runners-up and shares as in `new_samples.second`."""
        labels = torch.empty(graphs.n, dtype=torch.int32, device=graphs.device)
        more = torch.empty((2 * runner_up, graphs.n), dtype=torch.uint8, device=graphs.device)
        self(graphs, labels=labels, runners_up=list(more), **places)
        return [labels, *more]


def decides(device: Device, n_clusters: int) -> bool:
    """Whether `Decision` takes this number of clusters on this device."""
    return nvrtc.available(device) and _decision_bytes(n_clusters) <= nvrtc.room(device)


def _lanes(n_clusters: int) -> int:
    """Return the number of lanes per row: the columns of a lane must fit in its registers."""
    lanes = 1
    while -(-n_clusters // lanes) > _MOST_COLUMNS:
        lanes *= 2
    return lanes


def _decision_bytes(n_clusters: int) -> int:
    """Return the bytes of R and a row of scales, in double."""
    lanes = _lanes(n_clusters)
    columns = -(-n_clusters // lanes) * lanes
    return 8 * columns * (columns + 1)


def gram(graphs: TorchGraphs) -> Tensor:
    """Return [S_1 … S_V]ᵀ[S_1 … S_V] of each run, the same to the last bit each time."""
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
    # The products of a view with itself are about half of those of two views.
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
    """Return the sums of pairs of views u <= v, added up in device memory."""
    width = graphs.n_views * graphs.n_anchors
    shape = (graphs.n_runs, width, width)
    total = torch.zeros(shape, dtype=torch.float64, device=graphs.device)
    for rows in row_blocks(graphs.n, _MOST_FIXED):
        part = torch.zeros(shape, dtype=torch.int64, device=graphs.device)
        some = [whole[..., rows].contiguous() for whole in (graphs.indices, graphs.weights)]
        kernel(*size, *some, part, rows.stop - rows.start, graphs.n_anchors, *blocks)
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
