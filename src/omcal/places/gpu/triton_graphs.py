"""A Triton kernel that finds nearest anchors.

PyTorch's own operations do the same work where Triton, or a GPU that it serves, is absent.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor

AVAILABLE = find_spec("triton") is not None
_OLDEST = (8, 0)  # compute capability of the first GPUs that the kernels are compiled for
_ROW_BYTES = 512  # of distances: so many fit in the registers of a thread
_MAX_ANCHORS = 4096  # a row of distances must fit in the registers of a few warps
_TILE_BYTES = 4096  # of distances, for a warp: rows that no two warps share need no barriers
MAX_NEIGHBORS = 16  # the kernels are compiled for one number of neighbours, and grow with it

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def _nearest(  # type: ignore[no-untyped-def]
        products, bias, indices, weights, n, m, row_stride, column_stride, stride, tie,
        K: tl.constexpr, SLOTS: tl.constexpr, M: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        # Eq. 2 for ROWS rows: the K + 1 smallest of products + bias, one after another.
        rows = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
        columns = tl.arange(0, M)
        slots = tl.arange(0, SLOTS)
        in_m, in_n = columns < m, rows < n
        at = columns.to(tl.int64)[:, None] * column_stride
        at += rows.to(tl.int64)[None, :] * row_stride
        d = tl.load(products + at, mask=in_m[:, None] & in_n[None, :], other=0.0)
        b = tl.load(bias + columns, mask=in_m, other=0.0)
        finite = tl.sum(tl.abs(d), axis=0) < float("inf")
        scale = tl.maximum(tl.max(tl.abs(d), axis=0), tl.max(tl.abs(b), axis=0))
        d = tl.where(in_m[:, None], d + b[:, None], float("inf"))
        found = tl.zeros((SLOTS, ROWS), d.dtype)
        where = tl.zeros((SLOTS, ROWS), tl.int32)
        for a in tl.static_range(K + 1):
            least = tl.min(d, axis=0)
            # The first of equal ones; two plain minima are much cheaper than one of pairs.
            column = tl.min(tl.where(d == least[None, :], columns[:, None], M), axis=0)
            found = tl.where(slots[:, None] == a, least[None, :], found)
            where = tl.where(slots[:, None] == a, column[None, :], where)
            d = tl.where(columns[:, None] == column[None, :], float("inf"), d)
        kept = (slots < K)[:, None]
        w = tl.where(kept, least[None, :] - found, 0.0)
        total = tl.sum(w, axis=0)
        # Equal distances (duplicate points, all-zero rows): share the weight evenly.
        tied = total <= tie * scale
        w = tl.where(tied[None, :], 1.0 / K, w / tl.where(tied, 1.0, total)[None, :])
        w = tl.where(finite[None, :], w, float("nan"))
        out = slots.to(tl.int64)[:, None] * stride + rows[None, :]
        tl.store(indices + out, where, mask=kept & in_n[None, :])
        tl.store(weights + out, w, mask=kept & in_n[None, :])


def usable(device: Device) -> bool:
    """Whether kernels can run on this device: a CUDA GPU, or the CPU in Triton's interpreter."""
    if not AVAILABLE:
        return False
    if device.type == "cuda":
        return bool(torch.cuda.get_device_capability(device) >= _OLDEST)
    return device.type == "cpu" and os.environ.get("TRITON_INTERPRET") == "1"


def serve_nearest(device: Device, n_anchors: int, k: int) -> bool:
    """Whether `nearest` takes so many anchors and neighbours on this device."""
    return n_anchors <= _MAX_ANCHORS and k <= MAX_NEIGHBORS and usable(device)


def rows_side_by_side(n_anchors: int, dtype: Any) -> bool:
    """Whether `nearest` wants neighbouring rows of the products side by side in memory.

    Then a thread holds a whole row, and finds its minima without asking the other threads.
    """
    return bool(triton.next_power_of_2(n_anchors) * dtype.itemsize <= _ROW_BYTES)


def nearest(products: Tensor, bias: Tensor, tie: float, indices: Tensor, weights: Tensor) -> None:
    """Eq. 2 from relative distances (products + bias) into (k, rows) indices and weights."""
    n, m = products.shape
    k = len(indices)
    M = max(16, triton.next_power_of_2(m))
    if rows_side_by_side(m, products.dtype):
        rows, warps = 128, 4
    else:
        rows = max(1, _TILE_BYTES // (M * products.element_size()))
        warps = 1 if M <= 1024 else 4
    _nearest[(triton.cdiv(n, rows),)](
        products, bias, indices, weights, n, m, *products.stride(), indices.stride(0), tie,
        K=k, SLOTS=triton.next_power_of_2(k + 1), M=M, ROWS=rows, num_warps=warps,
    )  # fmt: skip
