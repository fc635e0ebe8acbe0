"""Iterations whose small matrices stay on the device, beside the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.machine.torch import Device, Tensor
from omcal.method.solver import AbstractIteration, Iteration, Problem, Solution
from omcal.method.updates import ConsensusGraph
from omcal.places.gpu import weights
from omcal.places.gpu.batched_roots import LEAST
from omcal.places.gpu.batched_steps import BatchedSteps, RunTensors
from omcal.places.gpu.devices import Repeated, on_device, stream_beside
from omcal.places.gpu.kernel_steps import KernelSteps, in_one_block

if TYPE_CHECKING:
    from omcal.places.base import Start
    from omcal.places.gpu.rows import RunBatch, TorchRows

# Names of the numbers that are kept of a run behind its matrices.
_SCALARS = ("objective", "age", "goes on", "number", "most")


def serves(rows: TorchRows, problem: Problem) -> bool:
    """Whether `DeviceIteration` does this: on a CUDA GPU, by a rule that it has."""
    return rows.device.type == "cuda" and weights.serves(problem)


def solve_in_lockstep(starts: Sequence[Start]) -> list[Solution]:
    """Run `solve` from each start, one iteration of each run after another.

    One launch does an iteration of all runs of a batch, if none runs ahead of the others.
    """
    works = [
        start.rows.iteration(start.StS, start.G, start.problem) or Iteration(*start[:4])
        for start in starts
    ]
    histories: list[list[float]] = [[] for _ in starts]
    solutions: dict[int, Solution] = {}
    while len(solutions) < len(starts):
        for b, (start, work, history) in enumerate(zip(starts, works, histories, strict=True)):
            if b in solutions:
                continue
            history.append(work.step())
            stops = start.progress(len(history), history[-1])
            if stops:
                history += work.underway()
            converged = not stops and start.problem.converged(history)
            if stops or converged or len(history) == start.problem.max_iter:
                solutions[b] = Solution(work.alpha, work.consensus, history, converged)
            elif start.problem.rose(history):
                work.restart()
    return [solutions[b] for b in range(len(starts))]


class DeviceIteration(AbstractIteration):
    """Iterations on the device, which starts the next one before the host asks for it.

    One launch does an iteration of all runs of a batch. The device cannot finish an iteration where
    ZᵀF is nearly singular or a singular value is next to the threshold; with few anchors, nor the
    first one in which a singular value is cut.
    The host then finishes it and does some more: 1, 3, 7, … each time that it happens.
    """

    def __init__(self, rows: TorchRows, StS: Floats, G: Floats, problem: Problem) -> None:
        self._rows, self._StS, self._problem = rows, StS, problem
        self._host = Iteration(rows, StS, G, problem)
        self._there: _State | None = None  # None: iterations are on the host
        self._value = inf  # objective after the last iteration on the host
        self._left = problem.max_iter
        self._stay = self._stays = 0  # iterations to do on the host: of this stay, and left of it
        self._cuts = False  # whether the device failed, mostly as singular values are cut
        self._read = False  # whether `_host` has the state of the device
        self._enter()

    def _enter(self) -> None:
        if self._there is None and self._stays == 0:
            given = (self._rows, self._StS, self._problem, self._host, self._value, self._left)
            self._there = enter(*given, cuts=self._cuts)

    def step(self) -> float:
        self._enter()
        self._left -= 1
        if self._there is None:
            self._stays -= 1
            self._value = self._host.step()
            return self._value
        self._there.send(self._rows.number)
        return self._hear(self._there)

    def underway(self) -> list[float]:
        values: list[float] = []
        if self._there is not None:
            self._there.stop(self._rows.number)
        while self._there is not None and self._there.is_ahead(self._rows.number):
            values.append(self._hear(self._there))
        return values

    def _hear(self, there: _State) -> float:
        self._read = False
        value, right = there.hear(self._rows.number)
        return value if right else self._finish_on_host(there)

    def _finish_on_host(self, there: _State) -> float:
        there.leave(self._rows.number, self._host)
        self._there = None
        self._cuts = True
        self._stay = self._stays = 2 * self._stay + 1  # or it would go there and back
        if self._host.ahead:
            self._host.ahead.last = self._host.consensus.G  # as after a pass of the host
        sums = self._rows.sums_of(there.sums[self._rows.number])
        self._value = self._host.finish(sums)
        return self._value

    def restart(self) -> None:
        if self._there is None:  # the device restarts by itself
            self._host.restart()

    @property
    def alpha(self) -> Floats:  # type: ignore[override]
        return self._newest().alpha

    @property
    def consensus(self) -> ConsensusGraph:  # type: ignore[override]
        return self._newest().consensus

    def _newest(self) -> Iteration:
        if self._there is not None and not self._read:
            self._there.leave(self._rows.number, self._host)
            self._read = True
        return self._host


def enter(
    rows: TorchRows,
    StS: Floats,
    problem: Problem,
    host: Iteration,
    value: float,
    most: int,
    *,
    cuts: bool,
) -> _State:
    """Send a run to the device, for at most `most` iterations."""
    together, Z, ahead = rows.together, host.consensus, host.ahead
    V, m, c = len(StS), StS.shape[-1], int(rows.F.shape[1])
    H = np.einsum("uvii->uv", StS)
    rule, faces, given = weights.table(problem, H)
    packed_matrices = together.packed_matrices(
        Z.alpha, *Z.f_step(ahead.basis(Z.G) if ahead else None)
    )
    scalars = [value, ahead.age if ahead else 0, True, 0, most]
    kept = (Z.alpha, ahead.last if ahead else Z.G, host.alpha, Z.G, Z.T, scalars)
    with on_device(rows.device):
        if value == inf:  # F starts at zero
            rows.F.zero_()
        StS_there = together.gram_there(rows.number, StS).to(rows.device)
        outlook = cuts, LEAST
        if not cuts and not (together.in_cuda and in_one_block(m, rows.device)):
            outlook = together.outlook(_outlook, StS_there, problem)
        if together.state is None or not together.state.takes(problem, *outlook):
            shape = (V, m, c, len(faces))
            together.state = _State(together, rows.device, problem, shape, rule, *outlook)
        there: _State = together.state
        parts = (*kept, H, faces, given, packed_matrices)
        slot = np.concatenate([np.ravel(part) for part in parts])
        there.begin(rows.number, slot, StS_there)
    return there


class _State:
    """The state of a batch of runs on the device.

    A launch is an iteration of all active runs. The host reads the answers of each run by itself;
    when it waits for one iteration, the next is already launched.
    """

    def __init__(
        self, together: RunBatch, device: Device, problem: Problem, shape: tuple[int, ...],
        rule: int, cuts: bool, least: float,
    ) -> None:  # fmt: skip
        (V, m, c, n_faces), runs, width = shape, together.n_runs, together.columns
        self._device, self._on_card = device, device.type == "cuda"
        self._problem, self._cuts, self._least = problem, cuts, least
        self._sizes = [V, m * c, V, m * c, m * m, len(_SCALARS)]
        lines = V * m + width
        tables = [sum(self._sizes), V * V, n_faces * V * (V + 1), V, lines * width]
        self._slots = torch.zeros((runs, sum(tables)), dtype=torch.float64, device=device)
        self._kept, H, faces, given, text = self._slots.split(tables, dim=1)
        self._text = text.unflatten(1, (lines, width))
        self._goes_on = self._kept[:, sum(self._sizes[:-1]) + _SCALARS.index("goes on")]
        self.sums = self._kept.new_zeros((runs, V * m * c + 2 * c * c))
        self._packed = torch.zeros((runs, lines, width), dtype=together.dtype, device=device)
        # The host may not have read the last answers of all runs yet.
        size = (runs, runs + 2, 3)
        self._answers = torch.zeros(size, dtype=torch.float64, pin_memory=self._on_card)
        self._events = [torch.cuda.Event() for _ in range(runs + 2)] if self._on_card else []
        self._launched = 0
        self._first, self._sent, self._heard = np.zeros((3, runs), dtype=np.int64)  # iterations
        self._on = np.zeros(runs, dtype=bool)  # which go on, as far as the host knows
        alpha_of_Z, last_G, alpha, G, T, scalars = self._kept.split(self._sizes, dim=1)
        self._tensors = tensors = RunTensors(
            sums=self.sums,
            StS=self._kept.new_zeros((runs, V, V, m, m)),
            H=H.unflatten(1, (V, V)),
            faces=faces.unflatten(1, (n_faces, V, V + 1)),
            given=given,
            alpha_of_Z=alpha_of_Z,
            last_G=last_G.unflatten(1, (m, c)),
            alpha=alpha,
            G=G.unflatten(1, (m, c)),
            T=T.unflatten(1, (m, m)),
            scalars=scalars,
            packed=self._packed,
            answers=self._answers,
        )
        work = together.bound(self._packed, self.sums, self._goes_on)
        kind = KernelSteps if together.in_cuda else BatchedSteps
        # The steps hold no reference to this object, so that its memory is free when it is gone.
        steps = kind(tensors, work, problem, rule, cuts=cuts, least=least)
        self._once: Callable[[], None] = Repeated(steps, device) if steps.many else steps

    def takes(self, problem: Problem, cuts: bool, least: float) -> bool:
        """Whether this state serves iterations of the problem."""
        names = ("beta", "gamma", "weighting", "tol", "accelerate")
        same = all(getattr(self._problem, name) == getattr(problem, name) for name in names)
        return same and (self._cuts or not cuts) and self._least <= least

    def begin(self, number: int, slot: Floats, StS: Tensor) -> None:
        """Add a run to the batch; all but the products of its graphs is one transfer."""
        self._slots[number].copy_(torch.from_numpy(slot))
        self._tensors.StS[number].copy_(StS)
        self._packed[number].copy_(self._text[number])
        self._first[number], self._sent[number], self._heard[number] = self._launched, 0, 0
        self._on[number] = True

    def send(self, number: int) -> None:
        """Launch the next iteration of this run, and one more if none is ahead."""
        with on_device(self._device):
            if self._sent[number] == self._heard[number]:
                self._send()
            ahead = (self._sent - self._heard)[self._on]
            if ahead.max(initial=0) <= 1:
                self._send()

    def hear(self, number: int) -> tuple[float, bool]:
        """Return the objective after the next iteration of this run, and whether it is valid."""
        if self._on_card:
            launch = self._first[number] + self._heard[number]
            self._events[launch % len(self._events)].synchronize()
        place = self._heard[number] % self._answers.shape[1]
        value, right, goes_on = self._answers.numpy()[number, place].tolist()
        self._heard[number] += 1
        self._on[number] &= goes_on > 0
        return value, right > 0

    def is_ahead(self, number: int) -> bool:
        """Whether an iteration is finished that the host has not read."""
        if self._on_card:
            torch.cuda.current_stream(self._device).synchronize()
        place = self._heard[number] % self._answers.shape[1]
        known = self._answers[number, place].isfinite().all()
        return bool(self._sent[number] > self._heard[number] and known)

    def stop(self, number: int) -> None:
        """Stop the iterations of this run."""
        self._goes_on[number] = 0
        self._on[number] = False

    def leave(self, number: int, host: Iteration) -> None:
        """Copy the state after the last valid iteration of this run to the host."""
        Z, kept = host.consensus, self._fetch(number)
        cuts = np.cumsum(self._sizes)[:-1]
        alpha, last, newest, G, T, scalars = np.split(kept, cuts)
        if scalars[0] == inf:  # there was none
            return
        host.alpha = newest
        shape = Z.G.shape
        host.consensus = ConsensusGraph(
            alpha, G.reshape(shape), T.reshape(Z.T.shape), self._problem.gamma
        )
        if host.ahead:
            host.ahead.last, host.ahead.age = last.reshape(shape), int(scalars[1])

    def _fetch(self, number: int) -> Floats:
        """Return the state of a stopped run, without waiting for the other runs."""
        if not self._on_card:
            return np.array(self._kept[number].numpy())
        beside, last = stream_beside(self._device), self._first[number] + self._heard[number] - 1
        beside.wait_event(self._events[last % len(self._events)])
        with torch.cuda.stream(beside):
            kept: Floats = self._kept[number].cpu().numpy()
        return kept

    def _send(self) -> None:
        on = np.flatnonzero(self._on)
        self._answers.numpy()[on, self._sent[on] % self._answers.shape[1]] = np.nan
        self._once()
        if self._on_card:
            self._events[self._launched % len(self._events)].record()
        self._launched += 1
        self._sent[on] += 1


def _outlook(StS: Tensor, problem: Problem) -> tuple[bool, float]:
    """Whether singular values of some run may be cut, and a bound of the eigenvalues kept.

    StS is (runs, V, V, m, m). The bound is relative to the largest row sum. Most likely none will
    be cut where the singular values of the start are above twice the threshold: AᵀA less its
    square is positive. The device checks both.
    """
    alpha, tau = torch.from_numpy(problem.alpha).to(StS), problem.tau
    AtA = torch.einsum("u,v,buvij->bij", alpha, alpha, StS)
    largest = AtA.abs().sum(dim=2).max()
    AtA.diagonal(dim1=1, dim2=2).sub_((2.0 * tau * (1.0 + problem.gamma)) ** 2)
    failed = torch.linalg.cholesky_ex(AtA).info.max()
    cuts, size = torch.stack([failed.to(largest), largest]).tolist()
    return cuts > 0, max(tau**2 / (4.0 * size), LEAST) if size > 0 else LEAST
