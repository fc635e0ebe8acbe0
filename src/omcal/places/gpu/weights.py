"""The weights of the views on the device, by each rule of `method.solver.Problem`."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Floats
from omcal.machine.torch import Device, Tensor
from omcal.method.rows import Sums
from omcal.method.solver import Problem
from omcal.method.updates import agreement, copies, shares

_MOST_VIEWS = 8  # whose 255 subsets are all looked at


def serves(problem: Problem) -> bool:
    """Whether the rule can be followed on a device."""
    return problem.weighting != "adaptive" or len(problem.heard) <= _MOST_VIEWS


class DeviceWeights:
    """`Problem.weights` on a device."""

    def __init__(self, problem: Problem, H: Floats, device: Device) -> None:
        some = problem.heard
        self._rule = problem.weighting
        self._all = len(some) == len(problem.alpha)
        self._heard = torch.from_numpy(some).to(device)
        self._alpha = torch.from_numpy(problem.alpha).to(device)
        H = H[np.ix_(some, some)]
        self._H = torch.from_numpy(H).to(device)
        if self._rule == "distinct":
            self._copies = torch.from_numpy(copies(H)).to(device)
        elif self._rule == "adaptive":
            self._program = SimplexProgram(H, device)

    def __call__(self, SZ: Tensor, sums: Sums, G: Tensor) -> Tensor:
        if self._rule == "fixed":
            return self._alpha
        StF: Tensor = sums.StF
        if not self._all:
            SZ, StF = SZ.index_select(0, self._heard), StF.index_select(0, self._heard)
        if self._rule == "adaptive":
            alpha = self._program.minimum(2.0 * SZ)
        else:
            found = agreement(self._H, StF, sums.FtF, G)
            alpha = shares(found / self._copies if self._rule == "distinct" else found)
        return (
            alpha if self._all else torch.zeros_like(self._alpha).index_copy(0, self._heard, alpha)
        )


class SimplexProgram:
    """`omcal.method.simplex.minimize_on_simplex` for one M and many m, without a branch.

    The minimum lies inside the face of some vertices, where it is that of the whole plane through
    them: a linear function of m. All faces are looked at; those whose vertices are not independent
    are never needed.
    """

    def __init__(self, M: Floats, device: Device) -> None:
        V = len(M)
        found = []
        for size in range(1, V + 1):
            for face in combinations(range(V), size):
                solver = _plane(M, np.array(face))
                if solver is not None:
                    found.append(solver)
        linear, constant = (np.stack(part) for part in zip(*found, strict=True))
        self._linear, self._constant, self._M = (
            torch.from_numpy(a).to(device) for a in (linear, constant, M)
        )

    def minimum(self, m: Tensor) -> Tensor:
        """Where a'Ma - m'a is smallest; of several places, on the smallest face."""
        points = self._linear @ m + self._constant  # a row a face
        values = ((points @ self._M - m) * points).sum(dim=1)
        inside = (points >= 0).all(dim=1)
        best = torch.where(inside, values, torch.inf).argmin(dim=0, keepdim=True)
        return points.index_select(0, best)[0]


def _plane(M: Floats, face: Array) -> tuple[Floats, Floats] | None:
    """(L, l) with L m + l the minimum on the plane through these vertices; None if not unique."""
    V, size = len(M), len(face)
    bordered = np.zeros((size + 1, size + 1))
    bordered[:size, :size] = M[np.ix_(face, face)]
    bordered[size, :size] = bordered[:size, size] = np.abs(M).max()
    if np.linalg.cond(bordered) > 1e12:
        return None
    inverse = np.linalg.inv(bordered)[:size]
    linear, constant = np.zeros((V, V)), np.zeros(V)
    linear[np.ix_(face, face)] = 0.5 * inverse[:, :size]
    constant[face] = inverse[:, size] * np.abs(M).max()
    return linear, constant
