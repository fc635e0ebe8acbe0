"""Rows on their way from the memory of the host to a GPU."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from queue import SimpleQueue
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import map_blocks, row_blocks, thread_count
from omcal.machine.torch import Device, Tensor

_PIECE_BYTES = 1 << 22  # many for all threads, few for what each costs to send
_TRAVELLING = 4  # pieces that no thread writes to


def fill(target: Tensor, fetch: Callable[[slice], Array], *, by_threads: bool) -> None:
    """Put the rows that `fetch` has into `target`, as far as the current stream can see.

    Threads copy pieces of them to page-locked memory, from where they travel at the speed of the
    bus while the next are copied. One thread does not keep up with it.
    """
    n, width = target.shape
    size = max(1, _PIECE_BYTES // (width * target.element_size()))
    device, now = target.device, torch.cuda.current_stream(target.device)
    way = _stream(device)
    way.wait_stream(now)  # what was in this memory before
    slots: SimpleQueue[Any] = SimpleQueue()
    for _ in range(min(-(-n // size), (thread_count() if by_threads else 1) + _TRAVELLING)):
        buffer = torch.empty((min(size, n), width), dtype=target.dtype, pin_memory=True)
        slots.put((buffer, buffer.numpy(), torch.cuda.Event()))

    def work(rows: slice) -> None:
        slot = slots.get()
        buffer, array, left = slot
        left.synchronize()  # what it held before
        count = rows.stop - rows.start
        np.copyto(array[:count], fetch(rows))
        with torch.cuda.stream(way):
            target[rows].copy_(buffer[:count], non_blocking=True)
            left.record(way)
        slots.put(slot)

    if by_threads:
        map_blocks(work, n, size)
    else:
        for rows in row_blocks(n, size):
            work(rows)
    now.wait_stream(way)


@cache
def _stream(device: Device) -> Any:
    """One for all rows, beside the stream of the work on them."""
    return torch.cuda.Stream(device)
