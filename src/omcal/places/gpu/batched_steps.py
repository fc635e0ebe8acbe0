"""The small steps of an iteration as batched products, for any number of anchors and clusters.

`small.cu` does the same steps, faster, where its matrices fit in shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from omcal.machine import torch
from omcal.machine.torch import Tensor
from omcal.method.solver import MOST_MOMENTUM, Problem
from omcal.places.gpu import weights
from omcal.places.gpu.batched_roots import polar_factor, soft_threshold


@dataclass(frozen=True)
class RunTensors:
    """The inputs and the state of a batch of runs; the first axis is the run."""

    sums: Tensor  # of a pass: SᵀF, FᵀF, FoldᵀF
    StS: Tensor  # (runs, V, V, m, m)
    H: Tensor  # (runs, V, V): traces of StS
    faces: Tensor  # (runs, faces, V, V + 1) of the simplex of weights
    given: Tensor  # (runs, V): 1 over the number of copies of a view, 0 if it has no weight
    alpha_of_Z: Tensor  # (runs, V)
    last_G: Tensor  # (runs, m, c)
    alpha: Tensor
    G: Tensor
    T: Tensor  # (runs, m, m)
    scalars: Tensor  # (runs, 5): objective, age, whether it continues, iterations done, and most
    packed: Tensor  # P stacked for the views and R, as a pass takes them
    answers: Tensor  # (runs, places, 3) on the host: objective, whether valid, whether it continues


class StepInputs(NamedTuple):
    """The inputs of `BatchedSteps` and `KernelSteps`."""

    tensors: RunTensors
    problem: Problem
    rule: int  # of the weights
    cuts: bool  # whether singular values may be cut
    least: float  # smallest eigenvalue to allow for, relative to the largest row sum


class BatchedSteps:
    """The updates of `Iteration.finish` for all active runs, after a pass."""

    def __init__(self, given: StepInputs) -> None:
        self._t, self._problem, self._rule, self._cuts, self._least = given
        tensors = self._t
        self._answers = tensors.answers.to(tensors.G.device, copy=True)
        runs, self._m, self._c = tensors.G.shape
        self._V = tensors.H.shape[1]
        self._run = torch.arange(runs, device=tensors.G.device)

    def __call__(self) -> None:
        t, p, m, c = self._t, self._problem, self._m, self._c
        StF, FtF, FoldtF = t.sums.split([self._V * m * c, c * c, c * c], dim=1)
        StF = StF.unflatten(1, (self._V, m, c))
        FtF, FoldtF = (part.unflatten(1, (c, c)) for part in (FtF, FoldtF))
        ZtF = t.T @ torch.baddbmm(mixture(t.alpha_of_Z, StF), t.G, FoldtF, alpha=p.gamma)
        G, right = polar_factor(ZtF)
        alpha, s = t.alpha, 1.0 / (1.0 + p.gamma)
        for _ in range(p.small_steps):
            AtF = mixture(alpha, StF)
            half = (p.gamma * AtF + (0.5 * p.gamma**2) * (G @ FtF)) @ G.mT
            AtA = mixture((alpha[:, :, None] * alpha[:, None]).flatten(1), t.StS.flatten(1, 2))
            MtM = s**2 * (AtA + half + half.mT)
            T, total, squares, well = soft_threshold(MtM, p.tau, cuts=self._cuts, least=self._least)
            right = right & well
            TG = T @ G
            inner = t.StS.flatten(1, 2).flatten(2) @ T.flatten(1)[:, :, None]
            from_graphs = (inner.view_as(t.H) @ alpha[:, :, None])[..., 0]
            SZ = s * (from_graphs + p.gamma * (StF * TG[:, None]).sum(dim=(2, 3)))
            alpha_of_Z, alpha = alpha, self._weights(alpha, SZ, StF, FtF, G)
        MtF = s * (AtF + p.gamma * (G @ FtF))
        factor = squares - 2.0 * (MtF * TG).sum(dim=(1, 2)) + _trace(FtF)
        mixed = (t.H @ alpha[:, :, None])[..., 0] - 2.0 * SZ
        value = squares + (alpha * mixed).sum(dim=1) + p.beta * total + p.gamma * factor
        self._keep(value, right & value.isfinite(), G, T, alpha_of_Z, alpha)

    def _weights(self, alpha: Tensor, SZ: Tensor, StF: Tensor, FtF: Tensor, G: Tensor) -> Tensor:
        """Return `Problem.weights` of each run."""
        t = self._t
        if self._rule == weights.FIXED:
            return alpha
        if self._rule == weights.ADAPTIVE:
            # The minimum is inside some face of the simplex: a linear function of SZ.
            points = (t.faces[..., :-1] @ (2.0 * SZ)[:, None, :, None])[..., 0] + t.faces[..., -1]
            values = (points * (points @ t.H - 2.0 * SZ[:, None])).sum(dim=2)
            best = torch.where((points >= 0).all(dim=2), values, inf).argmin(dim=1)
            return points[self._run, best]
        size = (t.H.diagonal(dim1=1, dim2=2) * _trace(FtF)[:, None]).sqrt()
        inner = (StF * G[:, None]).sum(dim=(2, 3))
        values = (inner / torch.where(size == 0, 1.0, size)).clamp(min=0) * t.given
        total, active = values.sum(dim=1, keepdim=True), (t.given > 0).to(values)
        equal = active / active.sum(dim=1, keepdim=True)
        return torch.where(total > 0, values / torch.where(total > 0, total, 1.0), equal)

    def _keep(
        self, value: Tensor, right: Tensor, G: Tensor, T: Tensor, alpha_of_Z: Tensor, alpha: Tensor
    ) -> None:
        """Keep the results of active runs, and pack the matrices of their next pass."""
        t, p = self._t, self._problem
        before, age, on, number, most = t.scalars.unbind(dim=1)
        age, on = torch.where(value > before, 0.0, age), on > 0
        basis = G
        if p.accelerate:
            share = (age / (age + 3.0)).clamp(max=MOST_MOMENTUM)
            basis, well = polar_factor(G + share[:, None, None] * (G - t.G))
            right = right & well
        P = (T @ basis) / (1.0 + p.gamma)
        packed = torch.zeros_like(t.packed)
        stacked = (alpha_of_Z[:, :, None, None] * P[:, None]).flatten(1, 2)
        packed[:, : stacked.shape[1], : self._c] = stacked.to(packed)
        R = p.gamma * (G.mT @ P)
        packed[:, stacked.shape[1] : stacked.shape[1] + self._c, : self._c] = R.to(packed)
        kept, number = on & right, number + on
        still = torch.isfinite(before) & ((before - value).abs() <= p.tol * before.abs())
        goes_on = kept & (number < most) & ~still if p.tol > 0 else kept & (number < most)
        self._answer(on, torch.stack([value, right.to(value), goes_on.to(value)], dim=1))
        value, age = (
            torch.where(kept, new, old)
            for new, old in ((value, before), (age + p.accelerate, t.scalars[:, 1]))
        )
        t.scalars.copy_(torch.stack([value, age, goes_on.to(value), number, most], dim=1))
        pairs = [(t.last_G, t.G.clone()), (t.G, G), (t.T, T), (t.alpha_of_Z, alpha_of_Z)]
        for old, new in [*pairs, (t.alpha, alpha), (t.packed, packed)]:
            old.copy_(torch.where(kept.view(-1, *[1] * (old.ndim - 1)), new, old))

    def _answer(self, on: Tensor, found: Tensor) -> None:
        """Write the answers of runs that took part in this iteration."""
        answers = self._answers
        here = (self._t.scalars[:, 3].long() % answers.shape[1])[:, None, None].expand(-1, 1, 3)
        old = answers.gather(1, here)
        answers.scatter_(1, here, torch.where(on[:, None, None], found[:, None], old))
        self._t.answers.copy_(answers, non_blocking=True)


def mixture(by: Tensor, matrices: Tensor) -> Tensor:
    """Return Σ_v by_v matrices_v of each run."""
    return (by[:, None] @ matrices.flatten(2))[:, 0].unflatten(1, matrices.shape[2:])


def _trace(A: Tensor) -> Tensor:
    return A.diagonal(dim1=1, dim2=2).sum(dim=1)
