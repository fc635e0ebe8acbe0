"""Statistics that tell the kind of a view, computed where its rows are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Floats
from omcal.machine.torch import Tensor
from omcal.places.gpu.devices import wide_type
from omcal.views.kinds import TAIL_QUANTILES, of_length_one, tail_columns, usual_tail


def facts_of(tensors: Sequence[Tensor], rows: Array) -> list[OfTensor]:
    """Return the statistics of the given rows of each tensor, fetched in one message."""
    device = tensors[0].device
    where = torch.from_numpy(rows.astype(np.int64)).to(device)
    told = torch.stack([_facts(tensor, where) for tensor in tensors]).cpu().numpy()
    return [OfTensor(tensor, where, of_rows) for tensor, of_rows in zip(tensors, told, strict=True)]


def _facts(tensor: Tensor, where: Tensor) -> Tensor:
    """Return, per row, the number of values that are not zero, of negative ones, and the square."""
    sample = tensor.index_select(0, where).to(wide_type(tensor.device))
    parts = [(sample != 0).to(sample), (sample < 0).to(sample), sample.square()]
    return torch.stack(parts).sum(dim=2).T


class OfTensor:
    """`omcal.views.kinds.Facts` of rows on a device; `whole` and `tail` wait for it."""

    def __init__(self, tensor: Tensor, where: Tensor, told: Floats) -> None:
        self._tensor, self._where = tensor, where
        self._values, self._negative, self._squares = told.T
        self.n, self.width = len(where), int(tensor.shape[1])

    @property
    def n_values(self) -> int:
        return int(self._values.sum())

    @property
    def negative(self) -> bool:
        return bool(self._negative.any())

    def _sample(self) -> Tensor:
        """Return a copy of the rows in the wide type."""
        return self._tensor.index_select(0, self._where).to(wide_type(self._tensor.device))

    @property
    def whole(self) -> bool:
        sample = self._sample()
        return bool((sample == sample.round()).all())

    @property
    def unit_length(self) -> bool:
        return bool(of_length_one(self._squares))

    @property
    def tail(self) -> float:
        sample = self._sample()
        columns = torch.from_numpy(tail_columns(self.width)).to(sample.device)
        sizes = sample.index_select(1, columns).abs()
        sizes = sizes.sort(dim=0, descending=True).values
        counts = (sizes != 0).sum(dim=0)
        last = (counts - 1).clamp_(min=0).to(sizes)
        rows = torch.stack([((1 - q) * last).round() for q in TAIL_QUANTILES]).long()
        found = torch.cat([sizes.gather(0, rows), counts[None].to(sizes)])
        return usual_tail(*found.cpu().numpy())
