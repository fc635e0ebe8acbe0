"""Moments of features in CUDA C++."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc

_THREADS = 256
_ROOM = 8 * _THREADS
_PARTS, _PART_ROWS = 1024, 256  # the most parts, the fewest rows whose moments are taken together


def serves(device: Device) -> bool:
    """Whether `moments` runs on this device."""
    return nvrtc.available(device)


def moments(blocks: Iterable[Tensor], width: int, device: Device) -> Tensor:
    """Return the column means over all blocks, then the sums of squares about them, in one row."""
    found = [_parts(block) for block in blocks]
    counts, means, squares = (
        found[0] if len(found) == 1 else map(torch.cat, zip(*found, strict=True))
    )
    joined = torch.empty(2 * width, dtype=torch.float64, device=device)
    _kernel("moments", device, torch.float64, A_LANE=1)(
        *(-(-width // 32), _THREADS, _ROOM),
        *(None, counts, means, squares, joined, 0, width, 0, 0, 0, len(means)),
    )
    return joined


def _parts(block: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return counts, means and sums of squares of parts of a block, one row per part."""
    n, width = block.shape
    part = -(-n // min(_PARTS, -(-n // _PART_ROWS)))
    parts, a_lane = -(-n // part), min(4, -(-width // 32))
    sizes = [parts, parts * width, parts * width]
    room = torch.empty(sum(sizes), dtype=torch.float64, device=block.device)
    counts, means, squares = room.split(sizes)
    _kernel("moments", block.device, block.dtype, A_LANE=a_lane)(
        *(parts * -(-width // (32 * a_lane)), _THREADS, _ROOM),
        *(block, counts, means, squares, None, n, width, *block.stride(), part, parts),
    )
    return counts, means.view(parts, width), squares.view(parts, width)


def _kernel(name: str, device: Device, dtype: Any, **constants: Any) -> nvrtc.Kernel:
    kind = str(dtype)
    constants |= {"XT": nvrtc.TYPES[kind], "X_KIND": nvrtc.HALVES.get(kind, 0)}
    return nvrtc.compiled(name, device, **constants, THREADS=_THREADS)
