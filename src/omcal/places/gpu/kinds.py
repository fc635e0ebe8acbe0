"""Statistics that tell the kind of a view, computed where its rows are."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Floats
from omcal.machine.torch import Tensor
from omcal.places.gpu.devices import wide_type
from omcal.views.kinds import TAIL_QUANTILES, Facts, of_length_one, tail_columns, usual_tail


def facts_of(tensors: Sequence[Tensor], rows: Array) -> list[Facts]:
    """Return the statistics of the given rows of each tensor, fetched in one message."""
    device = tensors[0].device
    where = torch.from_numpy(rows.astype(np.int64)).to(device)
    told = torch.stack([_facts(tensor, where) for tensor in tensors]).cpu().numpy()
    return [_of_tensor(tensor, where, its) for tensor, its in zip(tensors, told, strict=True)]


def _facts(tensor: Tensor, where: Tensor) -> Tensor:
    """Return, per row, the number of values that are not zero, of negative ones, and the square."""
    sample = tensor.index_select(0, where).to(wide_type(tensor.device))
    parts = [(sample != 0).to(sample), (sample < 0).to(sample), sample.square()]
    return torch.stack(parts).sum(dim=2).T


def _of_tensor(tensor: Tensor, where: Tensor, told: Floats) -> Facts:
    """Return the statistics of rows on a device; `whole` and `tail` wait for it."""
    values, negative, squares = told.T

    def rows_of() -> Tensor:
        return tensor.index_select(0, where).to(wide_type(tensor.device))

    def whole() -> bool:
        sample = rows_of()
        return bool((sample == sample.round()).all())

    def tail() -> float:
        columns = torch.from_numpy(tail_columns(int(tensor.shape[1]))).to(tensor.device)
        sizes = rows_of().index_select(1, columns).abs()
        sizes = sizes.sort(dim=0, descending=True).values
        counts = (sizes != 0).sum(dim=0)
        last = (counts - 1).clamp_(min=0).to(sizes)
        rows = torch.stack([((1 - q) * last).round() for q in TAIL_QUANTILES]).long()
        found = torch.cat([sizes.gather(0, rows), counts[None].to(sizes)])
        return usual_tail(*found.cpu().numpy())

    return Facts(
        *(len(where), int(tensor.shape[1]), int(values.sum()), bool(negative.any())),
        unit_length=lambda: bool(of_length_one(squares)),
        whole=whole,
        tail=tail,
    )
