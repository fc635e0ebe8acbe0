"""Nearest anchors in CUDA C++: products on the tensor cores, looked through in registers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc

_OLDEST = (8, 0)  # compute capability of the first GPUs whose tensor cores take 19-bit numbers
_MOST_ANCHORS = 256  # whose products with a row fit in the registers of a warp
_TWO_BANDS = 128  # anchors up to which that holds for two bands of rows
_MOST_NEIGHBORS = 16
_KINDS = {"torch.float32": 0, "torch.float16": 1, "torch.bfloat16": 2}


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
    """Eq. 2 for rows of a view on a device, from the relative distances (rows @ W) + bias."""

    def __init__(self, W: NDArray, bias: NDArray, tie: float, device: Device) -> None:
        self._d, self._m = W.shape
        self._tiles = -(-self._m // 8)
        self._anchors = torch.from_numpy(_in_fragments(W)).to(device)
        self._bias = torch.from_numpy(bias).to(device)
        self._limits = (tie, float(np.abs(bias).max()))

    def takes(self, X: Tensor | None) -> bool:
        """Whether these rows can be read as they are."""
        return X is not None and str(X.dtype) in _KINDS and X.stride(1) == 1

    def __call__(self, X: Tensor, indices: Tensor, weights: Tensor) -> None:
        """Write the (k, rows) indices and weights, which are NaN where a distance is not finite."""
        X = X if self.takes(X) else X.to(torch.float32).contiguous()
        device = X.device
        bands = 2 if self._m <= _TWO_BANDS else 1
        threads = 384 if self._tiles <= 13 else 256
        group_bytes = self._tiles * 2 * 32 * 16  # of 16 features
        groups = min(len(self._anchors), nvrtc.room(device) // group_bytes)
        kernel = nvrtc.compiled(
            "nearest",
            device,
            groups * group_bytes,
            XT=nvrtc.TYPES[str(X.dtype)],
            X_KIND=_KINDS[str(X.dtype)],
            INDEX=nvrtc.TYPES[str(indices.dtype)],
            K=len(indices),
            TILES=self._tiles,
            BANDS=bands,
            THREADS=threads,
            ALIGNED=int(self._aligned(X)),
        )
        blocks = min(nvrtc.processors(device), -(-len(X) // (threads // 2 * bands)))
        kernel(
            *(blocks, threads, X, self._anchors, self._bias, indices, weights),
            *(len(X), self._d, self._m, X.stride(0), indices.stride(0), groups, *self._limits),
        )

    def _aligned(self, X: Tensor) -> bool:
        """Whether four numbers can be read at once."""
        size = 4 * X.element_size()
        return self._d % 4 == 0 and X.stride(0) % 4 == 0 and X.data_ptr() % size == 0


def _in_fragments(W: NDArray) -> Any:
    """W as the lanes of a warp take it: (groups of 16 rows, tiles of 8 columns, 2, 32, 4).

    The four numbers are two of a column, each in two parts of 11 bits.
    """
    groups, tiles = -(-W.shape[0] // 16), -(-W.shape[1] // 8)
    padded = np.zeros((16 * groups, 8 * tiles), np.float32)
    padded[: W.shape[0], : W.shape[1]] = W
    # Row 4 p + 2 s + i of a group is for lanes with part p, in product s, as number i.
    split = padded.reshape(groups, 4, 2, 2, tiles, 8).transpose(0, 4, 2, 5, 1, 3)
    high = _rounded(np.ascontiguousarray(split))
    return np.concatenate([high, _rounded(split - high)], axis=-1)


def _rounded(x: NDArray) -> NDArray:
    """To 11 bits."""
    bits = (x.view(np.uint32) + np.uint32(0x1000)) & np.uint32(0xFFFFE000)
    return bits.view(np.float32)
