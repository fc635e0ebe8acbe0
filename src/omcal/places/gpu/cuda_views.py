"""Work on the rows of views in CUDA C++: facts, moments of features, rows side by side, scaled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc
from omcal.places.gpu.devices import send

_THREADS = 256
_ROOM = 8 * _THREADS
_PARTS, _PART_ROWS = 1024, 256  # the most parts, the fewest rows whose moments are taken together
_PICKING_BLOCKS = 2048


def serves(device: Device) -> bool:
    """Whether this works there."""
    return nvrtc.available(device)


def facts(tensor: Tensor, where: Tensor) -> Tensor:
    """Of each of these rows how many values are not zero, how many negative; its square."""
    found = torch.empty((len(where), 3), dtype=torch.float64, device=tensor.device)
    kernel = _kernel("facts", tensor.device, tensor.dtype)
    given = (tensor, where, found, tensor.shape[1], *tensor.stride())
    kernel(len(where), _THREADS, _ROOM, *given)
    return found


def moments(blocks: Iterable[Tensor], width: int, device: Device) -> Tensor:
    """Means of the columns of all blocks together, then sums of squares about them, in a row."""
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
    """Counts, means and squares of parts of a block, a row a part."""
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


def side_by_side(
    tensors: Sequence[Tensor],
    steps: Sequence[tuple[Array | None, Array | None]],
    rows: Array | None,
    dtype: Any,
) -> Tensor:
    """These rows, or all, of the tensors, each less a centre and times a factor, if not None."""
    device, widths = tensors[0].device, [int(tensor.shape[1]) for tensor in tensors]
    n = len(tensors[0]) if rows is None else len(rows)
    X = torch.empty((n, sum(widths)), dtype=dtype, device=device)
    given = [part for both in steps for part in both if part is not None]
    parts = iter(send([*given, *([] if rows is None else [rows.astype(np.int64)])], device))
    factors = [[None if part is None else next(parts) for part in both] for both in steps]
    where = next(parts, None)
    for target, tensor, both in zip(X.split(widths, dim=1), tensors, factors, strict=True):
        kernel = _kernel("gather", device, tensor.dtype, REAL=nvrtc.TYPES[str(dtype)])
        kernel(
            *(min(n, _PICKING_BLOCKS), _THREADS, 0),
            *(tensor, where, *both, target),
            *(n, tensor.shape[1], *tensor.stride(), X.shape[1]),
        )
    return X


def _kernel(name: str, device: Device, dtype: Any, **constants: Any) -> nvrtc.Kernel:
    kind = str(dtype)
    constants |= {"XT": nvrtc.TYPES[kind], "X_KIND": nvrtc.HALVES.get(kind, 0)}
    return nvrtc.compiled(name, device, **constants, THREADS=_THREADS)
