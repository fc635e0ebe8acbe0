"""Nearest anchors in CUDA C++: products on tensor cores, top-k search in registers."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc

_OLDEST = (8, 0)  # compute capability of the first GPUs whose tensor cores take 19-bit numbers
_MOST_ANCHORS = 256  # most anchors whose products with a row fit in the registers of a warp
_MOST_NEIGHBORS = 16
_THREADS = ((16, 512), (24, 384), (32, 256))  # (tiles of 8 anchors, threads): registers are limited
_TAKEN = ("torch.float32", *nvrtc.HALVES)


def serves(device: Device, dtype: np.dtype, n_anchors: int, k: int) -> bool:
    """Whether `NearestAnchors` does this."""
    return (
        dtype == np.float32
        and k < n_anchors <= _MOST_ANCHORS
        and k <= _MOST_NEIGHBORS
        and nvrtc.available(device)
        and torch.cuda.get_device_capability(device) >= _OLDEST
    )


class NearestAnchors:
    """Compute Eq. 2 from the relative distances (rows @ W) + bias of one run or several."""

    def __init__(self, W: Tensor, bias: Tensor, tie: float, largest_bias: Any) -> None:
        self._runs = len(W) if W.ndim == 3 else 1
        self._d, self._m = W.shape[-2:]
        self._tiles = -(-self._m // 8)
        self._W, self._bias, self._tie = W, bias, tie
        self._largest_bias = torch.tensor(largest_bias, dtype=torch.float32, device=W.device)

    def takes(self, X: Tensor | None) -> bool:
        """Whether the kernel reads the rows without a copy."""
        return X is not None and str(X.dtype) in _TAKEN and X.stride(1) == 1

    def __call__(self, X: Tensor, indices: Tensor, weights: Tensor) -> None:
        """Write indices and weights, (…, k, rows); weights are NaN if a distance is not finite."""
        X = X if self.takes(X) else X.to(torch.float32).contiguous()
        device = X.device
        threads = next(number for tiles, number in _THREADS if self._tiles <= tiles)
        group_bytes = self._tiles * 2 * 32 * 16  # of 16 features
        bias_bytes = self._tiles * 8 * 4
        groups = min(-(-self._d // 16), (nvrtc.room(device) - bias_bytes) // group_bytes)
        kernel = nvrtc.compiled(
            "nearest",
            device,
            XT=nvrtc.TYPES[str(X.dtype)],
            X_KIND=nvrtc.HALVES.get(str(X.dtype), 0),
            INDEX=nvrtc.TYPES[str(indices.dtype)],
            K=indices.shape[-2],
            TILES=self._tiles,
            THREADS=threads,
            ALIGNED=int(self._aligned(X)),
        )
        blocks = min(nvrtc.processors(device) // self._runs, -(-len(X) // (threads // 2)))
        apart = (indices.stride(-2), indices.stride(0))  # entries of two neighbours, of two runs
        kernel(
            *((max(1, blocks), self._runs), threads, groups * group_bytes + bias_bytes),
            *(X, self._W, self._bias, self._largest_bias, indices, weights),
            *(len(X), self._d, self._m, X.stride(0), *apart, groups, self._tie),
        )

    def _aligned(self, X: Tensor) -> bool:
        """Whether four numbers can be read at once."""
        size = 4 * X.element_size()
        return bool(self._d % 4 == 0 and X.stride(0) % 4 == 0 and X.data_ptr() % size == 0)
