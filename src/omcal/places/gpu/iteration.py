"""Iterations whose small matrices stay on the device, beside the rows."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.machine.torch import Tensor
from omcal.method.roots import shrunk_uncut
from omcal.method.rows import Sums
from omcal.method.solver import AbstractIteration, Iteration, Problem
from omcal.method.updates import (
    ConsensusGraph,
    Shrunk,
    fused_gram,
    graph_products,
    mix,
    objective,
)
from omcal.places.gpu import weights
from omcal.places.gpu.devices import Repeated, working_on
from omcal.places.gpu.roots import identity, inverse_root

if TYPE_CHECKING:
    from omcal.places.gpu.rows import TorchRows

_ABOVE = 1.25  # times the threshold: no singular value is near it


class DeviceIteration(AbstractIteration):
    """One recording does an iteration, pass and small steps; the host is told the objective.

    Where singular values come near the threshold, or a basis has no clear directions, what replaces
    the decompositions there is not right: such iterations are done on the host, until all singular
    values are well above. So is the first, which starts from another kind of Z.
    """

    def __init__(self, rows: TorchRows, StS: Floats, G: Floats, problem: Problem) -> None:
        self._device = rows.device
        self._host = Iteration(rows, StS, G, problem)
        self._make = partial(_State, rows, StS, problem)
        self._there: _State | None = None  # where the iterations are, if not on the host
        self._once: Repeated | None = None
        self._enough = _ABOVE * problem.tau  # for the least singular value

    def step(self) -> float:
        if self._there is None:
            value = self._host.step()
        else:
            value, right = self._step_there(self._there)
            if right:
                return value
            value = self._finish_on_host(self._there)
        if self._enough == 0 or self._host.least > self._enough:
            self._go_there()
        return value

    def _go_there(self) -> None:
        with working_on(self._device):
            self._there = self._make()
            self._there.load(self._host)
        self._once = Repeated(self._there.iterate, self._device)

    def _step_there(self, there: _State) -> tuple[float, bool]:
        assert self._once is not None
        with working_on(self._device):
            there.share.fill_(self._host.ahead.share() if self._host.ahead else 0.0)
            self._once()
            return there.answer()

    def _finish_on_host(self, there: _State) -> float:
        there.leave(self._host)
        self._there = self._once = None
        self._enough = 2 * self._enough or inf  # or it would go there and back
        if self._host.ahead:
            self._host.ahead.last = self._host.consensus.G  # as after its own pass
        return self._host.finish(there.sums())

    def restart(self) -> None:
        self._host.restart()

    @property
    def alpha(self) -> Floats:  # type: ignore[override]
        return self._newest().alpha

    @property
    def consensus(self) -> ConsensusGraph:  # type: ignore[override]
        return self._newest().consensus

    def _newest(self) -> Iteration:
        if self._there is not None:
            self._there.leave(self._host)
        return self._host


class _State:
    """What changes from one iteration to the next, on the device."""

    def __init__(self, rows: TorchRows, StS: Floats, problem: Problem) -> None:
        self._rows, self._problem, device = rows, problem, rows.device
        self._StS = torch.from_numpy(StS).to(device)
        H = np.einsum("uvii->uv", StS)
        self._H = torch.from_numpy(H).to(device)
        self._weights = weights.DeviceWeights(problem, H, device)
        V, m, c = len(H), StS.shape[-1], rows.F.shape[1]
        # In this order the old value of one may become the new value of one before it.
        sizes = {"alpha of Z": (V,), "last G": (m, c), "alpha": (V,), "G": (m, c), "T": (m, m)}
        self._kept = [self._H.new_empty(size) for size in sizes.values()]
        pinned = {"pin_memory": device.type == "cuda", "dtype": torch.float64}
        self.share, self._answer = torch.zeros((), **pinned), torch.zeros(2, **pinned)
        self._share_there = self.share.to(device)
        self._sums: Any = None  # tensors, of the last pass

    def load(self, host: Iteration) -> None:
        """Go on where the host is."""
        Z = host.consensus
        last = Z.G if host.ahead is None else host.ahead.last
        given = (Z.alpha, last, host.alpha, Z.G, Z.T)
        for kept, part in zip(self._kept, given, strict=True):
            kept.copy_(torch.from_numpy(np.ascontiguousarray(part)))

    def leave(self, host: Iteration) -> None:
        """Let the host go on after the last iteration that was right."""
        alpha, last, host.alpha, G, T = (part.cpu().numpy().copy() for part in self._kept)
        host.consensus = ConsensusGraph(alpha, G, T, self._problem.gamma)
        if host.ahead:
            host.ahead.last = last

    def sums(self) -> Sums:
        """Of the last pass."""
        s = self._sums
        return Sums(*(part.cpu().numpy() for part in (s.StF, s.FtF, s.FoldtF)))

    def answer(self) -> tuple[float, bool]:
        """The objective after the last iteration, and whether it is right."""
        if self._H.is_cuda:
            torch.cuda.current_stream(self._H.device).synchronize()
        value, right = self._answer.tolist()
        return value, right > 0

    def iterate(self) -> None:
        """One more iteration, without a word to the host but the answer."""
        p = self._problem
        right: list[Tensor] = []
        alpha_of_Z, last, alpha, G, T = self._kept
        Z = ConsensusGraph(alpha_of_Z, G, T, p.gamma)
        basis = None
        if p.accelerate:
            self._share_there.copy_(self.share, non_blocking=True)
            # Its singular values are at least 1, so that this is right before the rows change.
            basis = _orthogonal_factor(G + self._share_there * (G - last), right)
        self._sums = sums = self._rows.sweep_there(alpha_of_Z, *Z.f_step(basis))
        last = G
        G = _orthogonal_factor(Z.transposed_times_f(sums.StF, sums.FoldtF), right)
        for _ in range(p.small_steps):
            AtF = mix(alpha, sums.StF)
            MtM = fused_gram(alpha, self._StS, AtF, sums.FtF, G, p.gamma)
            shrunk = _soft_threshold(MtM, p.tau, right)
            Z = ConsensusGraph(alpha, G, shrunk.T, p.gamma)
            SZ = graph_products(Z, self._StS, sums.StF)
            alpha = self._weights(SZ, sums, G)
        value = objective(Z, alpha, shrunk, self._H, SZ, AtF, sums.FtF, p.beta)
        good = torch.stack([*right, value.isfinite()]).all()
        self._answer.copy_(torch.stack([value, good.to(value)]), non_blocking=True)
        for kept, new in zip(self._kept, (Z.alpha, last, alpha, G, Z.T), strict=True):
            kept.copy_(torch.where(good, new, kept))


def _orthogonal_factor(B: Tensor, right: list[Tensor]) -> Tensor:
    """`omcal.method.updates.orthogonal_factor`, where the columns of B are far from dependent."""
    root = inverse_root(B.T @ B)
    right.append(root.right)
    G = B @ root.inverse
    # Once more: BᵀB has lost digits that B has.
    return torch.addmm(G, G, G.T @ G, beta=1.5, alpha=-0.5)


def _soft_threshold(MtM: Tensor, tau: float, right: list[Tensor]) -> Shrunk:
    """`omcal.method.updates.soft_threshold`, where all singular values are above the threshold.

    Then no singular value needs to be known by itself.
    """
    eye = identity(len(MtM), MtM.device)
    if tau == 0:
        return Shrunk(eye, 0.0, MtM.trace())
    root = inverse_root(MtM)
    # The largest eigenvalue of the inverse root is smaller, by a sixth at most.
    most = torch.linalg.matrix_power(root.inverse, 16).square().sum() ** (1 / 32)
    right += [root.right, tau * most < 1]
    return Shrunk(*shrunk_uncut(MtM, tau, eye, root.inverse))
