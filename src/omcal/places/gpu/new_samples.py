"""The indicator F of new samples and the labels that follow from it, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine import torch
from omcal.machine.torch import Tensor

_TOLERANCE = 1e-10
_MAX_SWEEPS = 1000


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


def silence(P: NDArray, dtype: Any) -> float:
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
