"""Adapter: tensors of PyTorch, which stay on the device they are on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Mask
from omcal.machine.torch import Device, Tensor, numpy_dtype, torch_dtype
from omcal.views.table import Table, require_2d
from omcal.views.view import Home, View, Views


def tensor_table(tensor: Tensor, name: str) -> Table:
    """Open a dense 2-D tensor as a table."""
    require_2d(tensor, name)
    if tensor.layout != torch.strided or tensor.is_complex():
        raise ValueError(
            f"view {name!r} is a {tensor.layout} tensor of {tensor.dtype}; give a dense tensor "
            "of real numbers."
        )
    return Table.of(View(name, TensorArray(tensor.detach())))


@dataclass(frozen=True)
class TensorArray:
    """A 2-D tensor: the array of a `View` on a device. Its rows are read on the host."""

    tensor: Tensor
    home: ClassVar[Home] = "device"

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype:
        """Return the NumPy type of the tensor; half precision counts as float32."""
        if self.tensor.dtype in (torch.float16, torch.bfloat16):
            return np.dtype(np.float32)
        return numpy_dtype(self.tensor.dtype)

    @property
    def device(self) -> Device:
        return self.tensor.device

    def take(self, columns: slice | Array) -> TensorArray:
        """Return some of the columns of this array."""
        return TensorArray(self.tensor[:, columns])

    def filled(self, middle: Array) -> TensorArray:
        """Return the array with the middle of its feature in each missing cell."""
        holes = self.tensor.isnan()
        holes &= ~holes.all(dim=1, keepdim=True)
        return TensorArray(torch.where(holes, torch.as_tensor(middle).to(self.tensor), self.tensor))

    def __getitem__(self, rows: slice | Array) -> Array:
        if not isinstance(rows, slice):
            rows = torch.from_numpy(rows).to(self.device)
        return np.asarray(self.tensor[rows].to("cpu", torch_dtype(self.dtype)).numpy())

    def rows_present(self) -> Mask | None:
        """Return False for the rows that are NaN throughout; None if there is no such row."""
        # A number in its first column proves most rows to be present.
        doubtful = self.tensor[:, 0].isnan().nonzero()[:, 0]
        absent = doubtful[self.tensor[doubtful].isnan().all(dim=1)].cpu().numpy()
        if not absent.size:
            return None
        present = np.ones(len(self.tensor), dtype=bool)
        present[absent] = False
        return present


def on_host(tensor: Tensor) -> Any:
    """Return a tensor as an array in memory."""
    return TensorArray(tensor.detach())[:] if tensor.ndim == 2 else tensor.detach().cpu().numpy()


def device_of(views: Views) -> Device | None:
    """Return the device that views in tensors are on; None for other views."""
    return views[0].array.device if views[0].home == "device" else None
