"""Iterations of a batch of runs whose small matrices stay on the device, beside the rows."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import floor, inf, log
from typing import Any, cast

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.machine.torch import Device, Tensor
from omcal.method.rows import AbstractRows
from omcal.method.solver import Iteration, Problem, Solution, solve
from omcal.method.updates import ConsensusGraph
from omcal.places.base import Start
from omcal.places.gpu import weights
from omcal.places.gpu.batched_roots import LEAST
from omcal.places.gpu.batched_steps import BatchedSteps, RunTensors, StepInputs, mixture
from omcal.places.gpu.devices import Repeated, working_on
from omcal.places.gpu.kernel_steps import KernelSteps, in_one_block
from omcal.places.gpu.rows import RunBatch, TorchRows

# Names of the numbers that are stored after the matrices of a run.
_SCALARS = ("objective", "age", "goes on", "number", "most")
_PLACES = 3  # slots for the answers of a run: one is read, one is written, one is launched next
_KEPT_SHARE = 512  # states of ended fits keep at most 1/512 of the memory of a GPU
_IDLE: dict[Any, _State] = {}  # states of ended fits, the last one last


def serves(rows: AbstractRows, problem: Problem) -> bool:
    """Whether the device does the small steps: a CUDA GPU, and a rule that it supports."""
    on_card = isinstance(rows, TorchRows) and rows.device.type == "cuda"
    return on_card and weights.serves(problem)


def solve_in_lockstep(starts: Sequence[Start]) -> list[Solution]:
    """Run `solve` from each start of a batch in lockstep, one iteration of all runs at a time.

    One launch does an iteration of all runs; the next one is launched before the host reads the
    answers of the last one.
    """
    there = [serves(start.rows, start.problem) for start in starts]
    if not any(there):
        return [solve(*start) for start in starts]
    runs = [_Run(start) for start, is_there in zip(starts, there, strict=True) if is_there]
    with working_on(runs[0].rows.device):
        while going := [run for run in runs if not run.ended]:
            for run in going:
                run.enter()
            for state in dict.fromkeys(run.state for run in going):
                launch = None if state is None else state.advance()
                for run in going:
                    if run.state is state:
                        run.step(launch)
        solutions = iter([run.solution() for run in runs])
        for run in runs:
            while run.rows.together.states:
                run.rows.together.states.popitem()[1].rest()
    return [
        next(solutions) if is_there else solve(*start)
        for start, is_there in zip(starts, there, strict=True)
    ]


class _Run:
    """A run of Algorithm 1 on the device, as known to the host.

    The device cannot finish an iteration if ZᵀF is nearly singular, a singular value is close to
    the threshold, or one is cut unexpectedly. The host then finishes it and does further
    iterations: 1, 3, 7, … each time that this happens.
    """

    def __init__(self, start: Start) -> None:
        self._start, self._problem = start, start.problem
        self.rows = cast(TorchRows, start.rows)
        self.state: _State | None = None  # None: iterations are on the host
        self.ended = self._converged = False
        self._host = Iteration(start.rows, start.StS, start.G, start.problem)
        self._history: list[float] = []
        self._stay = self._left = 0  # iterations on the host: of the current stay, and remaining
        self._cuts = False  # whether the device failed, usually because singular values were cut

    def enter(self) -> None:
        """Move the run to the device, unless it is there or must do iterations on the host."""
        if self.state is None and self._left == 0:
            self.state = self._sent()

    def _sent(self) -> _State:
        """Send this run to the device, for the remaining iterations."""
        rows, problem, host, StS = self.rows, self._problem, self._host, self._start.StS
        together, Z, ahead = rows.together, host.consensus, host.ahead
        V, m, c = len(StS), StS.shape[-1], int(rows.F.shape[1])
        H = np.einsum("uvii->uv", StS)
        rule, faces, given = weights.table(problem, H)
        basis = ahead.basis(Z.G) if ahead else Z.G
        # At the start Z is A(alpha): T is the identity and γ is 0.
        small = Z.f_step(basis) if self._history else (basis, np.zeros((c, c)))
        packed_matrices = together.packed_matrices(Z.alpha, *small)
        value = self._history[-1] if self._history else inf
        most = problem.max_iter - len(self._history)
        scalars = [value, ahead.age if ahead else 0, True, 0, most]
        kept = (Z.alpha, ahead.last if ahead else Z.G, host.alpha, Z.G, Z.T, scalars)
        if value == inf:  # F starts at zero
            rows.F.zero_()
        StS_there = together.gram_there(rows.number, StS).to(rows.device)
        outlook = self._cuts, LEAST
        if not self._cuts:
            # In one block a failed root costs less than an unnecessary projector.
            margin = 1.0 if together.work.in_cuda and in_one_block(m, rows.device) else 2.0
            outlook = together.outlook(_outlook, StS_there, problem, margin)
        there = _State.of(together, rows.device, problem, (V, m, c, len(faces)), rule, *outlook)
        there.begin(rows.number, (*kept, H, faces, given, packed_matrices), StS_there)
        return there

    def step(self, launch: int | None) -> None:
        """Do an iteration on the host, or read the answer of a launch on the device."""
        if launch is None:
            self._left -= 1
            self._note(self._host.step())
        elif self.state is not None and self.state.has(self.rows.number, launch):
            self._note(self._value(self.state, launch))

    def _value(self, state: _State, launch: int) -> float:
        """Return the objective after an iteration of the device, or after the host redid it."""
        value, right, _ = state.answer(self.rows.number, launch)
        if right:
            return value
        state.leave(self.rows.number, self._host)
        self.state, self._cuts = None, True
        self._stay = self._left = 2 * self._stay + 1  # so that it does not return at once
        if self._host.ahead:
            self._host.ahead.last = self._host.consensus.G  # as after a pass of the host
        return self._host.finish(self.rows.sums_of(state.sums[self.rows.number]))

    def _note(self, value: float) -> None:
        """Append an objective to the history, and decide whether the run ends."""
        self._history.append(value)
        if self._start.progress(len(self._history), value):
            self.ended = True
            if state := self.state:
                self._history += [self._value(state, i) for i in state.stop(self.rows.number)]
            return
        self._converged = self._problem.converged(self._history)
        self.ended = self._converged or len(self._history) == self._problem.max_iter
        if self.state is None and self._problem.rose(self._history):
            self._host.restart()  # the device restarts by itself

    def solution(self) -> Solution:
        """Return the solution of the run."""
        host = self._host
        if self.state is not None:
            self.state.leave(self.rows.number, host)
            # Those of several runs would be much to fetch, and none asks for them.
            alone = self.rows.together.n_runs == 1
            host.sums = self.rows.sums_of(self.state.sums[0]) if alone else None
        return host.solution(self._history, converged=self._converged)


class _State:
    """The state of a batch of runs on the device; a launch is an iteration of all active runs.

    Recording an iteration can take longer than all iterations of a fit. The states of ended fits
    therefore serve later fits of the same sizes.
    """

    def __init__(
        self, kind: Any, device: Device, of_pass: tuple[Any, int], problem: Problem,
        shape: tuple[int, ...], rule: int, cuts: bool, least: float,
    ) -> None:  # fmt: skip
        (runs, V, m, c, n_faces), (dtype, width) = shape, of_pass
        on_card = device.type == "cuda"
        self._gamma, self._cuts = problem.gamma, cuts
        self._sizes = [V, m * c, V, m * c, m * m, len(_SCALARS)]
        lines = V * m + width
        tables = [sum(self._sizes), V * V, n_faces * V * (V + 1), V, lines * width]
        self._slots = torch.empty((runs, sum(tables)), dtype=torch.float64, device=device)
        self._staged = torch.empty(self._slots.shape, dtype=torch.float64, pin_memory=on_card)
        self._kept, H, faces, given, text = self._slots.split(tables, dim=1)
        self._text = text.unflatten(1, (lines, width))
        self._goes_on = self._kept[:, sum(self._sizes[:-1]) + _SCALARS.index("goes on")]
        self.sums = self._kept.new_zeros((runs, V * m * c + 2 * c * c))
        self._packed = torch.zeros((runs, lines, width), dtype=dtype, device=device)
        self._answers = torch.zeros((runs, _PLACES, 3), dtype=torch.float64, pin_memory=on_card)
        self._events = [torch.cuda.Event() for _ in range(_PLACES)] if on_card else []
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
        # The steps hold no reference to this object, so that its memory is freed with it.
        steps = kind(StepInputs(tensors, problem, rule, cuts, least))
        self._records = kind is BatchedSteps  # of the others, only roots are many launches
        self._steps = Repeated(steps, device) if self._records else steps

    @classmethod
    def of(
        cls, together: RunBatch, device: Device, problem: Problem, sizes: tuple[int, ...],
        *how: Any,
    ) -> _State:  # fmt: skip
        """Return the state of a batch: its own, that of an ended fit, or a new one."""
        work, shape, p = together.work, (together.n_runs, *sizes), problem
        kind, of_pass = KernelSteps if work.in_cuda else BatchedSteps, (work.dtype, work.columns)
        settings = (p.beta, p.gamma, p.weighting, p.tol, p.accelerate)
        key = (kind, device, of_pass, settings, shape, *how)
        if key not in together.states:
            state = _IDLE.pop(key, None) or cls(kind, device, of_pass, problem, shape, *how)
            state._serve(key, work)
            together.states[key] = state
        return cast(_State, together.states[key])

    def _serve(self, key: Any, work: Any) -> None:
        """Serve a new fit, none of whose runs is active."""
        self._key = key
        self._slots.zero_()
        launch = work.bound(self._packed, self.sums, self._goes_on)
        self._pass = Repeated(launch, self._slots.device) if self._records else launch
        self._begun: list[int] = []  # runs whose slots are staged
        self._fetched: Floats | None = None  # what is kept of all runs, since the last launch
        self._launched = self._heard = 0
        self._first = [0] * len(self._slots)  # launch in which each run began

    def rest(self) -> None:
        """Let go of the rows, and stay for the next fit if there is room."""
        del self._pass
        _IDLE[self._key] = self
        room = _room(self._slots.device)
        for key, state in reversed(list(_IDLE.items())):
            size = state._slots.nbytes + state._tensors.StS.nbytes
            if size > room:
                _IDLE.pop(key, None)
            else:
                room -= size

    def begin(self, number: int, parts: Sequence[Any], StS: Tensor) -> None:
        """Add a run to the batch, from the parts of its slot; the next launch sends it."""
        np.concatenate([np.ravel(part) for part in parts], out=self._staged[number].numpy())
        self._tensors.StS[number].copy_(StS)
        self._begun.append(number)
        self._first[number] = self._launched

    def _send(self) -> None:
        """Send the slots of the runs that begin; those of all runs are one transfer."""
        whole = len(self._begun) == len(self._first)
        for some in [slice(None)] if whole else [slice(b, b + 1) for b in self._begun]:
            self._slots[some].copy_(self._staged[some], non_blocking=True)
            self._packed[some].copy_(self._text[some])
        self._begun.clear()

    def advance(self) -> int:
        """Launch until one is ahead; wait for the oldest unread launch, and return its number."""
        self._send()
        self._fetched = None
        while self._launched <= self._heard + 1:
            self._pass()
            self._steps()
            if self._events:
                self._events[self._launched % _PLACES].record()
            self._launched += 1
        if self._events:
            self._events[self._heard % _PLACES].synchronize()
        self._heard += 1
        return self._heard - 1

    def has(self, number: int, launch: int) -> bool:
        """Whether a run had begun before a launch."""
        return self._first[number] <= launch

    def answer(self, number: int, launch: int) -> tuple[float, bool, bool]:
        """Return the objective after a launch, whether it is valid, whether the run continues."""
        place = (launch - self._first[number]) % _PLACES
        value, right, goes_on = self._answers.numpy()[number, place].tolist()
        return value, right > 0, goes_on > 0

    def stop(self, number: int) -> Iterator[int]:
        """Stop a run, and yield the launches in which it has done further iterations."""
        self._goes_on[number] = 0
        if self._events:
            torch.cuda.current_stream(self.sums.device).synchronize()
        for launch in range(self._heard, self._launched):
            if not self.answer(number, launch - 1)[2]:
                return
            yield launch

    def leave(self, number: int, host: Iteration) -> None:
        """Copy the state after the last valid iteration of this run to the host."""
        if self._fetched is None:
            self._fetched = self._kept.to("cpu", copy=True).numpy()
        Z, ends = host.consensus, np.cumsum(self._sizes)[:-1]
        alpha, last, newest, G, T, scalars = np.split(self._fetched[number], ends)
        if scalars[0] == inf:  # there was no launch
            return
        host.alpha = newest
        shape = Z.G.shape
        host.consensus = ConsensusGraph(alpha, G.reshape(shape), T.reshape(Z.T.shape), self._gamma)
        if host.ahead:
            host.ahead.last, host.ahead.age = last.reshape(shape), int(scalars[1])


def _room(device: Device) -> int:
    """Return the most bytes of the states of ended fits."""
    whole = torch.cuda.get_device_properties(device).total_memory if device.type == "cuda" else 0
    return int(whole) // _KEPT_SHARE


def _outlook(StS: Tensor, problem: Problem, margin: float) -> tuple[bool, float]:
    """Whether singular values of some run may be cut, and a lower bound of kept eigenvalues.

    StS is (runs, V, V, m, m). The bound is relative to the largest row sum. Probably none will be
    cut if the singular values of the start exceed the threshold times the margin: AᵀA less its
    square is positive. The device checks both.
    """
    both, tau = np.outer(problem.alpha, problem.alpha).ravel(), problem.tau
    AtA = mixture(torch.from_numpy(both).to(StS).expand(len(StS), -1), StS.flatten(1, 2))
    largest = AtA.abs().sum(dim=2).max()
    AtA.diagonal(dim1=1, dim2=2).sub_((margin * tau * (1.0 + problem.gamma)) ** 2)
    failed = torch.linalg.cholesky_ex(AtA).info.max()
    cuts, size = torch.stack([failed.to(largest), largest]).tolist()
    bound = max(tau**2 / (4.0 * size), LEAST) if size > 0 else LEAST
    return cuts > 0, max(4.0 ** floor(log(bound, 4.0)), LEAST)  # so that other fits have the same
