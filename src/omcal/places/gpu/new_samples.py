"""The indicator F of new samples and the labels that follow from it, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.torch import Device, Tensor
from omcal.method.new_samples import Rule
from omcal.method.updates import stacked
from omcal.places.base import Wanted
from omcal.places.gpu import cuda
from omcal.places.gpu.devices import block_entries, wide_type
from omcal.places.gpu.graph import TorchGraphs

_TOLERANCE = 1e-10
_MAX_SWEEPS = 1000


class DeviceRule:
    """Labels, or rows of F, of new samples by a fitted rule, from their graphs."""

    def __init__(self, rule: Rule, device: Device, dtype: Any) -> None:
        Z = rule.consensus
        P, R = Z.f_step()
        self._c = rule.n_clusters
        self._dtype = dtype
        self._fused = cuda.decides(device, self._c)
        self._limit = silence(P, dtype)
        wide = wide_type(device)
        self._P, self._G = (
            torch.from_numpy(stacked(Z.alpha, M)).to(device, dtype if self._fused else wide)
            for M in (P, Z.G)
        )
        self._R = torch.from_numpy(np.ascontiguousarray(R)).to(device, wide)

    def rows_at_once(self, n_entries: int) -> int:
        """Rows of so many entries in all graphs that make a block of work."""
        return max(1, block_entries(self._P.device) // (n_entries if self._fused else len(self._P)))

    def __call__(self, graphs: TorchGraphs, wanted: Wanted) -> Tensor:
        if not self._fused:
            S = graphs.dense(slice(None), self._P.dtype)
            U = settle(S @ self._P, self._R).to(self._dtype)
            if wanted == "indicator":
                return U.clamp_(min=0)
            return decide(U, S @ self._G, self._limit)[0]
        decision = cuda.Decision(*(self._P, self._R, self._G, self._limit, self._c), settles=True)
        if wanted == "indicator":
            F = torch.empty((graphs.n, self._c), dtype=self._dtype, device=graphs.device)
            decision(graphs, F=F)
            return F
        labels = torch.empty(graphs.n, dtype=torch.int32, device=graphs.device)
        decision(graphs, labels=labels)
        return labels


def settle(B: Tensor, R: Tensor) -> Tensor:
    """`omcal.method.updates.settle`: U = B + F R at the fixed point F = max(B + F R, 0).

    B and R are of the wide type.
    """
    F = B.clamp(min=0)
    own = R.diagonal()
    limit = max(_TOLERANCE, torch.finfo(B.dtype).eps) * B.abs().max()
    for _ in range(_MAX_SWEEPS):
        before = F.clone()
        for j in range(len(R)):
            column = torch.addmv(B[:, j], F, R[:, j]) - own[j] * F[:, j]
            F[:, j] = (column / (1.0 - own[j])).clamp_(min=0)
        if bool((F - before).abs().max() <= limit):
            break
    return torch.addmm(B, F, R)


def silence(P: Array, dtype: Any) -> float:
    """Entries of U = A P + F R up to this size are rounding."""
    return float(16 * torch.finfo(dtype).eps * np.abs(P).max())


def decide(U: Tensor, AG: Tensor, limit: float) -> tuple[Tensor, Tensor]:
    """`omcal.method.rows.decide`: int32 labels, and how many rows had no positive entry.

    Rows no larger than `limit` are silent: A G decides there.
    """
    largest, labels = U.max(dim=1)
    silent = U.abs().amax(dim=1) <= limit
    labels = torch.where(silent, AG.argmax(dim=1), labels)
    return labels.to(torch.int32), ((largest <= 0) | silent).sum()


def second(F: Tensor) -> tuple[Tensor, Tensor]:
    """`omcal.method.rows.second`: runners-up, and the share of the label in 255ths."""
    largest, first = F.max(dim=1)
    rest, runner_up = F.scatter(1, first[:, None], 0).max(dim=1)
    both = largest.square() + rest.square()
    share = torch.where(both > 0, largest.square() / both, 1)
    return runner_up.to(torch.int32), (255 * share).round().to(torch.uint8)
