"""Adapter: tensors of PyTorch, which stay on their device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Mask
from omcal.machine.torch import Device, Tensor, numpy_dtype, torch_dtype
from omcal.views.filling import ROUNDS, Fill
from omcal.views.view import Home, Table, View, Views, require_2d


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
    """A 2-D tensor as the array of a `View` on a device; rows are read to the host."""

    tensor: Tensor
    home: ClassVar[Home] = "device"
    ndim: ClassVar[int] = 2

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.tensor.shape)

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

    def filled(self, fill: Fill) -> TensorArray:
        """Return the array with its missing cells filled on the device, as `Fill.apply` does."""
        X, wide = self.tensor, torch.float32 if self.device.type == "mps" else torch.float64
        holes = X.isnan()
        holes &= ~holes.all(dim=1, keepdim=True)
        some = holes.any(dim=1)
        mean, deviation, V = (torch.as_tensor(part).to(X.device, wide) for part in fill[:3])
        inverse = torch.where(deviation > 0, 1 / deviation, 0)
        known = torch.where(holes[some], 0, (X[some].to(wide) - mean) * inverse)
        rows = known
        for _ in range(ROUNDS):
            rows = torch.where(holes[some], (rows @ V) @ V.T, known)
        values = (mean + deviation * rows).clamp(min=fill.least)
        whole = X.clone()
        whole[some] = torch.where(holes[some], values.to(X.dtype), X[some])
        return TensorArray(whole)

    def __getitem__(self, rows: slice | Array) -> Array:
        if not isinstance(rows, slice):
            rows = torch.from_numpy(rows).to(self.device)
        return np.asarray(self.tensor[rows].to("cpu", torch_dtype(self.dtype)).numpy())

    def rows_present(self) -> Mask | None:
        """Return a mask that is False for rows of NaN; None if there is no such row."""
        # For most rows a number in the first column proves that they are present.
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
    """Return the device of views in tensors; None for other views."""
    return views[0].array.device if views[0].home == "device" else None
