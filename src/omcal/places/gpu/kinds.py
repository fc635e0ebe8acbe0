"""Facts that tell the kind of a view, found where its rows are."""

from __future__ import annotations

from functools import cached_property

from omcal.machine import torch
from omcal.machine.torch import Tensor
from omcal.method.kinds import RUN, TAIL_QUANTILES, of_length_one, tail_columns, usual_tail
from omcal.places.gpu.devices import wide_type


class OfTensor:
    """`omcal.method.kinds.Facts` of rows on a device; each answer waits for it."""

    def __init__(self, sample: Tensor) -> None:
        self._sample, self._wide = sample, wide_type(sample.device)
        self.n, self.width = map(int, sample.shape)

    @cached_property
    def _both(self) -> tuple[int, int]:
        """How many values are not zero, and how many negative."""
        here = self._sample
        n_values, n_negative = torch.stack([(here != 0).sum(), (here < 0).sum()]).tolist()
        return n_values, n_negative

    @property
    def n_values(self) -> int:
        return self._both[0]

    @property
    def negative(self) -> bool:
        return self._both[1] > 0

    @property
    def whole(self) -> bool:
        return bool((self._sample == self._sample.round()).all())

    @property
    def unit_length(self) -> bool:
        for rows in (self._sample[:RUN], self._sample):  # the first few tell of most views
            squares = rows.to(self._wide).square().sum(dim=1)
            found = of_length_one(squares.cpu().numpy())
            if found is False:
                return False
        return bool(found)

    @property
    def tail(self) -> float:
        columns = torch.from_numpy(tail_columns(self.width)).to(self._sample.device)
        sizes = self._sample.index_select(1, columns).abs().to(self._wide)
        sizes = sizes.sort(dim=0, descending=True).values
        counts = (sizes != 0).sum(dim=0)
        last = (counts - 1).clamp_(min=0).to(self._wide)
        rows = torch.stack([((1 - q) * last).round() for q in TAIL_QUANTILES]).long()
        found = torch.cat([sizes.gather(0, rows), counts[None].to(self._wide)])
        return usual_tail(*found.cpu().numpy())
