"""A tensor in place of the array of a view."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.torch import Device, Tensor, numpy_dtype, torch_dtype


@dataclass(frozen=True)
class TensorArray:
    """A 2-D tensor: what a `View` holds in place of an array. Its rows are read on the host."""

    tensor: Tensor

    @property
    def shape(self) -> tuple[int, int]:
        return tuple(self.tensor.shape)

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype:
        """The tensor's type in NumPy's terms; half precision counts as float32."""
        if self.tensor.dtype in (torch.float16, torch.bfloat16):
            return np.dtype(np.float32)
        return numpy_dtype(self.tensor.dtype)

    @property
    def device(self) -> Device:
        return self.tensor.device

    def __getitem__(self, rows: slice | Array) -> Array:
        if not isinstance(rows, slice):
            rows = torch.from_numpy(rows).to(self.device)
        return np.asarray(self.tensor[rows].to("cpu", torch_dtype(self.dtype)).numpy())
