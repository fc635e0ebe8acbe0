"""Moments of features in CUDA C++."""

from __future__ import annotations

from collections.abc import Iterable

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc

_THREADS = 256
_PARTS, _PART_ROWS = 1024, 256  # the most parts, the fewest rows whose moments are taken together


def serves(device: Device) -> bool:
    """Whether `moments` runs on this device."""
    return nvrtc.available(device)


def moments(blocks: Iterable[Tensor]) -> Tensor:
    """Return the column means over all blocks, then the sums of squares about them, in one row."""
    found = zip(*map(_parts, blocks), strict=True)
    counts, means, squares = (torch.cat(parts) for parts in found)
    mean = counts @ means / counts.sum()
    # Parts are joined as in Chan, Golub and LeVeque (1979).
    return torch.cat([mean, squares.sum(dim=0) + counts @ (means - mean).square()])


def _parts(block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, means and sums of squares of parts of a block, one row per part."""
    n, width = block.shape
    part = -(-n // min(_PARTS, -(-n // _PART_ROWS)))
    parts, a_lane, kind = -(-n // part), min(4, -(-width // 32)), str(block.dtype)
    counts = torch.empty(parts, dtype=torch.float64, device=block.device)
    means, squares = counts.new_empty((2, parts, width))
    kernel = nvrtc.compiled(
        "moments",
        block.device,
        XT=nvrtc.TYPES[kind],
        X_KIND=nvrtc.HALVES.get(kind, 0),
        A_LANE=a_lane,
        THREADS=_THREADS,
    )
    kernel(
        *((parts * -(-width // (32 * a_lane)), 1), _THREADS, 8 * _THREADS),
        *(block, counts, means, squares, n, width, *block.stride(), part),
    )
    return counts, means, squares
