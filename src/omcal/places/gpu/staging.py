"""Transfer of rows from host memory to a GPU."""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.places.gpu.devices import stream_beside

_PIECE_BYTES = 1 << 23
_PIECES = 4  # of page-locked memory, which PyTorch keeps for the next time


def fill(target: Tensor, fetch: Callable[[slice], Tensor]) -> None:
    """Copy the rows that `fetch` returns into `target`, in the order of the current stream.

    PyTorch's threads copy a piece of them to page-locked memory while others travel. Threads of our
    own, each with pieces of its own, took two to three times as long: they wait for one another.
    """
    n, width = target.shape
    size = max(1, _PIECE_BYTES // (width * target.element_size()))
    now, way = torch.cuda.current_stream(target.device), stream_beside(target.device)
    way.wait_stream(now)  # until earlier work on this memory is done
    shape = (min(size, n), width)
    pieces = cycle(
        [
            (torch.empty(shape, dtype=target.dtype, pin_memory=True), torch.cuda.Event())
            for _ in range(_PIECES)
        ]
    )
    with torch.cuda.stream(way):
        for rows in row_blocks(n, size):
            piece, left = next(pieces)
            left.synchronize()  # until its last contents are sent
            part = piece[: rows.stop - rows.start].copy_(fetch(rows))
            target[rows].copy_(part, non_blocking=True)
            left.record(way)
    now.wait_stream(way)
