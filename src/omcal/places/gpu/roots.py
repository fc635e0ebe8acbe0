"""Inverse square roots of small matrices that never leave the device, and a check of each.

An eigen-decomposition there takes longer than many a pass over the rows, and waits for the host.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.method import roots
from omcal.places.gpu import nvrtc

_LEAST = 1e-8  # the smallest eigenvalue over the largest that surely converges
_CLOSE = 1e-6  # to 1, where all eigenvalues have to be in the end
_MOST_ROWS = 48  # of a matrix that one block of threads is quicker with than a library
_THREADS = 256


class Root(NamedTuple):
    """A^(−½), and whether it is right."""

    inverse: Tensor
    right: Tensor


def inverse_root(A: Tensor) -> Root:
    """Of a symmetric matrix; right where it is positive definite, its condition below about 10⁷."""
    if len(A) <= _MOST_ROWS and nvrtc.available(A.device):
        return _in_one_block(A)
    size = A.abs().sum(dim=1).max()  # no eigenvalue is larger
    eye = identity(len(A), A.device)
    inverse = roots.inverse_root(A / size, eye, _LEAST, 1.0) * size.rsqrt()
    return Root(inverse, ((inverse @ A @ inverse - eye).abs() <= _CLOSE).all())


def _in_one_block(A: Tensor) -> Root:
    m, factors = len(A), _steps(A.device)
    inverse, right = torch.empty_like(A), A.new_empty(())
    kernel = nvrtc.compiled("root", A.device, THREADS=_THREADS, MOST_ROWS=_MOST_ROWS)
    kernel(
        *(1, _THREADS, 3 * 8 * m * m),
        *(A.contiguous(), factors, inverse, right, _CLOSE, m, len(factors)),
    )
    return Root(inverse, right > 0)


@cache
def _steps(device: Device) -> Tensor:
    return torch.tensor(list(roots.steps(_LEAST**0.5)), dtype=torch.float64, device=device)


@cache
def identity(m: int, device: Device) -> Tensor:
    """The identity matrix in float64."""
    return torch.eye(m, dtype=torch.float64, device=device)
