"""The pass over the rows in CUDA C++, compiled when it is first used.

Sums over the rows of an anchor go to shared memory, which Triton cannot address row by row. Each
lane of a warp holds one column of the sums of its own rows, at an address that no other lane
touches and in a memory bank of its own: no atomic operations, no conflicts.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc
from omcal.places.gpu.graph import TorchGraphs

MAX_CLUSTERS = 32  # a lane a column
_WARP = 32
_MOST_WARPS = 12  # of a block; more leave too few registers
_FEWEST_WARPS = 2  # with fewer, nothing hides the latency of memory
_MOST_SLOTS = 64  # of a row; its neighbours in all views are kept in registers

_TYPES = {
    "torch.float32": "float",
    "torch.float64": "double",
    "torch.uint8": "unsigned char",
    "torch.int16": "short",
    "torch.int32": "int",
}


class CudaSweep:
    """The pass for these graphs and F, where `serves` says so."""

    def __init__(self, graphs: TorchGraphs, F: Tensor, width: int) -> None:
        self._graphs = graphs
        self._F = F
        shape = _Shape.of(graphs, F)
        self._warps = shape.warps(_room(F.device))
        self._bytes = shape.bytes(self._warps)
        self._blocks = min(processors(F.device), -(-graphs.n // (_WARP * self._warps)))
        size = (graphs.n_views * graphs.n_anchors + 2 * shape.c) * shape.c
        self._sums = F.new_empty((self._blocks * self._warps, size), dtype=torch.float64)
        self._kernel = _compiled(
            F.device,
            self._bytes,
            REAL=_TYPES[str(F.dtype)],
            INDEX=_TYPES[str(graphs.indices.dtype)],
            VIEWS=graphs.n_views,
            K=graphs.k,
            C=shape.c,
            ROWS_AT_ONCE=shape.rows_at_once,
            VIEWS_AT_ONCE=shape.views_at_once,
            WIDTH=width,
            WARPS=self._warps,
        )

    def __call__(self, small: Tensor) -> Tensor:
        """`FusedPass.sweep`."""
        g = self._graphs
        self._kernel(
            *(self._blocks, _WARP * self._warps),
            *(g.indices, g.weights, self._F, small, self._sums, g.n, g.n_anchors),
        )
        return self._sums.sum(dim=0)


def serves(graphs: TorchGraphs, F: Tensor) -> bool:
    """Whether the pass can be done this way: on an NVIDIA GPU, where its sums fit."""
    device: Device = F.device
    if device.type != "cuda" or not nvrtc.available():
        return False
    if F.shape[1] > MAX_CLUSTERS or graphs.n_views * graphs.k > _MOST_SLOTS:
        return False
    return _Shape.of(graphs, F).warps(_room(device)) >= _FEWEST_WARPS


def processors(device: Device) -> int:
    """Multiprocessors of the GPU, each of which takes a block of threads."""
    return int(torch.cuda.get_device_properties(device).multi_processor_count)


def _room(device: Device) -> int:
    """Bytes of shared memory that a block can have."""
    return int(torch.cuda.get_device_properties(device).shared_memory_per_block_optin)


@dataclass(frozen=True)
class _Shape:
    """How the lanes of a warp share out columns, views and rows."""

    c: int
    views_at_once: int
    rows_at_once: int
    n_entries: int  # of a row, in all rounds of views
    n_words: int  # of the sums, or of P
    real: int  # bytes of a number

    @classmethod
    def of(cls, graphs: TorchGraphs, F: Tensor) -> _Shape:
        c = int(F.shape[1])
        views_at_once = min(graphs.n_views, _WARP // c)
        rounds = -(-graphs.n_views // views_at_once)
        return cls(
            c,
            views_at_once,
            rows_at_once=_WARP // c // views_at_once,
            n_entries=rounds * views_at_once * graphs.k,
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
        return sums + warps * (sums + 2 * tile * packs * 16 + tile * self.n_entries * 2 * self.real)


@cache
def _compiled(device: Device, shared_bytes: int, **constants: Any) -> nvrtc.Kernel:
    return nvrtc.Kernel(source("sweep.cu"), "sweep", constants, device, shared_bytes)


def source(name: str) -> str:
    """The text of a kernel, which comes with the package."""
    return files(__package__).joinpath(name).read_text(encoding="utf-8")
