"""Views as blocks of rows on a device, from any location of the data."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Device, Tensor, torch_dtype
from omcal.method.scaling import Scaling
from omcal.places.gpu.devices import block_entries, stream_beside
from omcal.places.gpu.scaling import prepare
from omcal.views.tensors import TensorArray
from omcal.views.view import View, Views

_PIECE_BYTES = 1 << 23
_PIECES = 4  # of page-locked memory, which PyTorch keeps for the next time
_KEPT_SHARE = 8  # a view stays if it takes at most 1/8 of the free memory


class DeviceView:
    """One view, read in blocks on the device in the floating type of the computation.

    A tensor that is already on the device is used there. Others are sent block by block, or once
    after `keep`.
    """

    def __init__(self, view: View, device: Device) -> None:
        self.host = view
        self.name: str = view.name
        self.device = device
        self.width: int = view.width
        self.n: int = int(view.array.shape[0])
        self.dtype: np.dtype = view.dtype
        self.sparse: bool = view.sparse
        self._tensor: Tensor = view.array.tensor if isinstance(view.array, TensorArray) else None
        self._stays = self._tensor is not None and self._tensor.device == device

    @property
    def resident(self) -> Tensor | None:
        """Return the tensor if it is floating-point, on the device and complete."""
        whole = self._stays and self._tensor.is_floating_point() and self.host.present is None
        return self._tensor if whole else None

    def blocks(
        self, scaling: Scaling, columns: int = 1, rows: slice = slice(None)
    ) -> Iterator[tuple[slice, Tensor]]:
        """Yield consecutive blocks of the rows with their slices, prepared by the scaling.

        Neither a block of `columns` columns nor a copy of its rows exceeds a block of work.
        """
        start, stop, _ = rows.indices(self.n)
        in_place = self._stays and self._tensor.dtype == torch_dtype(self.dtype)
        copied = 1 if in_place and not scaling.prepares else self.width
        size = max(1, block_entries(self.device) // max(columns, copied))
        places = [
            slice(start + place.start, start + place.stop)
            for place in row_blocks(stop - start, size)
        ]
        for place, block in zip(places, self._read(places, scaling), strict=True):
            block = self._without_gaps(block, place)
            yield place, block if self.sparse else prepare(block, scaling)

    def take(self, rows: slice | Array | Tensor) -> Tensor:
        """Return some rows of a dense view; their numbers may be a tensor if it is `resident`."""
        if self._tensor is not None:
            if isinstance(rows, np.ndarray):
                rows = torch.from_numpy(rows.astype(np.int64)).to(self._tensor.device)
            part = (
                self._tensor[rows]
                if isinstance(rows, slice)
                else self._tensor.index_select(0, rows)
            )
            return part.to(self.device, torch_dtype(self.dtype))
        if self.host.stored and not isinstance(rows, slice):
            return _from_numpy(self._pick(rows)).to(self.device)
        return _from_numpy(self.host.rows(rows)).to(self.device)

    def _without_gaps(self, block: Tensor, rows: slice) -> Tensor:
        """Return the block with zeros for absent samples, as blocks from the host have."""
        if self._tensor is None or self.host.present is None:
            return block
        there = torch.from_numpy(self.host.present[rows]).to(block.device)
        return torch.where(there[:, None], block, 0)

    def _pick(self, rows: Array) -> Array:
        """Return single rows of a view that is read in blocks."""
        order = np.argsort(rows)
        ascending, found = rows[order], np.empty((len(rows), self.width), dtype=self.dtype)
        for place in row_blocks(self.n, max(1, block_entries(self.device) // self.width)):
            first, last = np.searchsorted(ascending, [place.start, place.stop])
            if first < last:
                here = self.host.rows(place)[ascending[first:last] - place.start]
                found[order[first:last]] = here
        return found

    def _read(self, places: Sequence[slice], scaling: Scaling) -> Iterator[Tensor]:
        for place in places:
            if self.sparse:
                yield _sparse_tensor(scaling.prepare(self.host.rows(place)), self.device)
            elif self._stays or self.device.type != "cuda":
                yield self.take(place)
            else:
                yield self._sent(place)

    def keep(self) -> None:
        """Send all rows once and keep them, if they take little of the free memory."""
        if self._stays or self.sparse or self.device.type != "cuda":
            return
        free, _ = torch.cuda.mem_get_info(self.device)
        if self.n * self.width * self.dtype.itemsize <= free // _KEPT_SHARE:
            self._tensor, self._stays = self._sent(slice(0, self.n)), True

    def _sent(self, place: slice) -> Tensor:
        """Send consecutive rows to the device."""

        def fetch(rows: slice) -> Tensor:
            there = slice(place.start + rows.start, place.start + rows.stop)
            if self._tensor is not None:
                return self._tensor[there]
            return _from_numpy(self.host.rows(there))

        shape = (place.stop - place.start, self.width)
        block = torch.empty(shape, dtype=torch_dtype(self.dtype), device=self.device)
        send_rows(block, fetch)
        return block


class DeviceViews(Sequence[DeviceView]):
    """Views of the same samples on one device; with `keeps` small ones are sent only once."""

    def __init__(self, views: Views, device: Device, *, keeps: bool = False) -> None:
        self.host = views
        self.device = device
        self._views = tuple(DeviceView(view, device) for view in views)
        for view in self if keeps else ():
            view.keep()

    def __getitem__(self, index: Any) -> Any:
        return self._views[index]

    def __len__(self) -> int:
        return len(self._views)

    @property
    def n(self) -> int:
        return self.host.n

    @property
    def dtype(self) -> np.dtype:
        """Return the floating type that all views share."""
        return self.host.dtype

    @property
    def sparse(self) -> bool:
        return any(view.sparse for view in self)


def send_rows(target: Tensor, fetch: Callable[[slice], Tensor]) -> None:
    """Copy the rows that `fetch` returns into `target`, in the order of the current stream.

    PyTorch's threads copy a piece of them to page-locked memory while others are transferred.
    Separate threads, each with its own pieces, took two to three times as long, because they wait
    for one another.
    """
    n, width = target.shape
    size = max(1, _PIECE_BYTES // (width * target.element_size()))
    now, way = torch.cuda.current_stream(target.device), stream_beside(target.device)
    way.wait_stream(now)  # wait until earlier work on this memory is done
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
            left.synchronize()  # wait until its last contents are sent
            part = piece[: rows.stop - rows.start].copy_(fetch(rows))
            target[rows].copy_(part, non_blocking=True)
            left.record(way)
    now.wait_stream(way)


def _from_numpy(array: Array) -> Tensor:
    """Return the array as a tensor, without a copy where PyTorch allows it."""
    if not array.flags.writeable or any(stride < 0 for stride in array.strides):
        array = array.copy()
    return torch.from_numpy(array)


def _sparse_tensor(block: Any, device: Device) -> Tensor:
    block = block.tocoo()
    where = torch.from_numpy(np.stack([block.row, block.col]).astype(np.int64))
    values = torch.from_numpy(block.data)
    # The entries of a CSR matrix come row by row, as PyTorch wants them.
    with torch.sparse.check_sparse_tensor_invariants(False):
        tensor = torch.sparse_coo_tensor(where, values, block.shape, is_coalesced=True)
    return tensor.to(device)
