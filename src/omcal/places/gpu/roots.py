"""Inverse square roots of small matrices that never leave the device, and a check of each.

An eigen-decomposition there takes longer than many a pass over the rows, and waits for the host.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.method import roots

LEAST = 1e-8  # the smallest eigenvalue over the largest that surely converges
CLOSE = 1e-6  # to 1, where all eigenvalues have to be in the end


class Root(NamedTuple):
    """A^(−½), and whether it is right."""

    inverse: Tensor
    right: Tensor


def inverse_root(A: Tensor, least: float = LEAST) -> Root:
    """Of a symmetric matrix; right where it is positive definite.

    Its smallest eigenvalue is to be at least this part of its largest sum of a row.
    """
    size = A.abs().sum(dim=1).max()  # no eigenvalue is larger
    eye = identity(len(A), A.device)
    inverse = roots.inverse_root(A / size, eye, least, 1.0) * size.rsqrt()
    return Root(inverse, ((inverse @ A @ inverse - eye).abs() <= CLOSE).all())


@cache
def identity(m: int, device: Device) -> Tensor:
    """The identity matrix in float64."""
    return torch.eye(m, dtype=torch.float64, device=device)
