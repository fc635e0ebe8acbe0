"""Iterations whose small matrices stay on the device, beside the rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from math import inf
from typing import TYPE_CHECKING

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.machine.torch import Device, Tensor
from omcal.method.roots import steps
from omcal.method.solver import MOST_MOMENTUM, AbstractIteration, Iteration, Problem, Solution
from omcal.method.updates import ConsensusGraph, weighted_sum
from omcal.places.gpu import nvrtc, weights
from omcal.places.gpu.devices import Repeated, on_device, send, stream_beside
from omcal.places.gpu.roots import TiledRoot

if TYPE_CHECKING:
    from omcal.places.base import Start
    from omcal.places.gpu.rows import RunBatch, TorchRows

_MOST_CLUSTERS = 64
_MOST_ANCHORS = 64  # with more, many blocks take a root sooner than one does
_THREADS = 512
# By which the eigenvalues of the products of F and Z, and those of MᵀM, mostly differ at most.
_FACTORS = (1e2, 1e4)
# What the kernel `small` keeps of a run behind its matrices, and its parts.
_SCALARS = ("objective", "age", "goes on", "number", "most")
_TURNS, _SHRINKS, _MULTIPLIES, _DECOMPOSES, _ENDS = 1, 2, 4, 8, 16


def serves(rows: TorchRows, problem: Problem) -> bool:
    """Whether `DeviceIteration` does this."""
    c = int(rows.F.shape[1])
    if not (nvrtc.available(rows.device) and weights.serves(problem)):
        return False
    return c <= _MOST_CLUSTERS and 8 * _block_numbers(c) <= nvrtc.room(rows.device)


def _in_one_block(m: int, device: Device) -> bool:
    """Whether one block of threads takes the roots of matrices of so many anchors."""
    return m <= _MOST_ANCHORS and 8 * _block_numbers(m) <= nvrtc.room(device)


def _block_numbers(*sizes: int) -> int:
    """Numbers of a block in shared memory: one a warp, three matrices and one more row.

    Matrices are in whole tiles of the tensor cores, with a few numbers beside each row.
    """
    side = -(-max(sizes) // 8) * 8
    return _THREADS // 32 + 3 * side * (side + 4) + side


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
    """The device does one iteration after another, and the next before the host asks for it.

    Those of runs that are worked on together are done at the same time. Where a basis has no clear
    directions, what replaces its decomposition there is not right; nor, with many anchors, where
    singular values come near the threshold. Such iterations are done on the host, and more of them
    each time that it happens.
    """

    def __init__(self, rows: TorchRows, StS: Floats, G: Floats, problem: Problem) -> None:
        self._rows, self._StS, self._problem = rows, StS, problem
        self._host = Iteration(rows, StS, G, problem)
        self._there: _State | None = None  # where the iterations are, if not on the host
        self._value = inf  # of the objective, after the last iteration on the host
        self._left = problem.max_iter
        self._stay = self._stays = 0  # how many iterations are to be done on the host, and are left
        self._cuts = False  # whether singular values were seen to come near the threshold
        self._read = False  # whether the host has what the device has
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
            self._host.ahead.last = self._host.consensus.G  # as after its own pass
        sums = self._rows.sums_of(there.sums[self._rows.number])
        self._value = self._host.finish(sums)
        return self._value

    def restart(self) -> None:
        if self._there is None:  # the device has seen it itself
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
    """Let the device go on with at most so many iterations of a run."""
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
        if value == inf:  # a pass before the first would have left this
            rows.F.zero_()
        cuts = not _in_one_block(m, rows.device) and (cuts or not _all_kept(StS, problem))
        if together.state is None or not together.state.takes(problem, cuts=cuts):
            shape = (V, m, c)
            together.state = _State(together, rows.device, problem, shape, rule, len(faces), cuts)
        there: _State = together.state
        parts = (*kept, StS, H, faces, given, packed_matrices)
        there.begin(rows.number, np.concatenate([np.ravel(part) for part in parts]))
    return there


class _State:
    """What changes from one iteration to the next, of runs that do them at the same time.

    A launch is an iteration of all runs that go on. The host hears of each run by itself; when it
    wants to know of an iteration, the next is on its way.
    """

    def __init__(
        self, together: RunBatch, device: Device, problem: Problem, shape: tuple[int, int, int],
        rule: int, n_faces: int, cuts: bool,
    ) -> None:  # fmt: skip
        (V, m, c), runs, width = shape, together.n_runs, together.columns
        self._device, self._on_card = device, device.type == "cuda"
        self._problem, self._heeds, self._cuts = problem, together.skips_finished, cuts
        self._m, self._runs = m, runs
        self._sizes = [V, m * c, V, m * c, m * m, len(_SCALARS)]
        lines = V * m + width
        tables = [sum(self._sizes), V * V * m * m, V * V, n_faces * V * (V + 1), V, lines * width]
        self._slots = torch.zeros((runs, sum(tables)), dtype=torch.float64, device=device)
        self._kept, *self._tables, text = self._slots.split(tables, dim=1)
        self._text = text.unflatten(1, (lines, width))
        self._goes_on = self._kept[:, sum(self._sizes[:-1]) + _SCALARS.index("goes on")]
        self._steps, n_steps = _plans(device)
        self.sums = self._kept.new_zeros((runs, V * m * c + 2 * c * c))
        side = m + m % 2
        self._vectors = self._kept.new_zeros((runs, side * side + 1))
        n_work = 2 * m * m + 1 + 5 * m * c + c * c + 3 * V + 3 + max(n_faces, V)
        self._work = self._kept.new_zeros((runs, n_work))
        self._letter = torch.zeros((runs, lines, width), dtype=together.dtype, device=device)
        self._pass = together.bound(self._letter, self.sums, self._goes_on)
        # The host may not have read the last answers of all runs yet.
        size = (runs, runs + 2, 3)
        self._answers = torch.zeros(size, dtype=torch.float64, pin_memory=self._on_card)
        self._events = [torch.cuda.Event() for _ in range(runs + 2)] if self._on_card else []
        self._launched = 0
        self._first, self._sent, self._heard = np.zeros((3, runs), dtype=np.int64)  # iterations
        self._on = np.zeros(runs, dtype=bool)  # which go on, as far as the host knows
        few = _in_one_block(m, device)
        self._kernel = nvrtc.compiled(
            "small",
            device,
            REAL=nvrtc.TYPES[str(together.dtype)],
            VIEWS=V,
            C=c,
            WIDTH=width,
            RULE=rule,
            MOMENTUM=int(problem.accelerate),
            MOST_MOMENTUM=MOST_MOMENTUM,
            ANCHORS=-(-m // 8) * 8 if few else 0,
            THREADS=_THREADS,
        )
        self._bytes = 8 * _block_numbers(c, m if few else 0)
        # What is in use for one launch only is quicker in shared memory.
        self._shares = self._bytes + 8 * n_work <= nvrtc.room(device)
        self._counts = [n_faces, *n_steps]
        self._root = None if few else TiledRoot(self._work[:, m * m], m, cuts=cuts)
        # None of these knows of this object: what they keep on the device is free when it is gone.
        work = partial(_in_order, self._kernels())
        launches = self._root is not None and not self._root.at_once  # many, one after another
        self._once: Callable[[], None] = Repeated(work, device) if launches else work

    def takes(self, problem: Problem, *, cuts: bool) -> bool:
        """Whether iterations of this problem can be done here."""
        names = ("beta", "gamma", "weighting", "tol", "accelerate")
        same = all(getattr(self._problem, name) == getattr(problem, name) for name in names)
        return same and (self._cuts or not cuts)

    def begin(self, number: int, slot: Floats) -> None:
        """Take a run in, in one message; the kernel knows how long each part of it is."""
        self._slots[number].copy_(torch.from_numpy(slot))
        self._letter[number].copy_(self._text[number])
        self._first[number], self._sent[number], self._heard[number] = self._launched, 0, 0
        self._on[number] = True

    def send(self, number: int) -> None:
        """Have the next iteration of this run under way, and one more where that does no harm."""
        with on_device(self._device):
            if self._sent[number] == self._heard[number]:
                self._send()
            ahead = (self._sent - self._heard)[self._on]
            if self._heeds and ahead.max(initial=0) <= 1:
                self._send()

    def hear(self, number: int) -> tuple[float, bool]:
        """The objective after the next iteration of this run, and whether it is right."""
        if self._on_card:
            launch = self._first[number] + self._heard[number]
            self._events[launch % len(self._events)].synchronize()
        place = self._heard[number] % self._answers.shape[1]
        value, right, goes_on = self._answers.numpy()[number, place].tolist()
        self._heard[number] += 1
        self._on[number] &= goes_on > 0
        return value, right > 0

    def is_ahead(self, number: int) -> bool:
        """Whether an iteration was done that the host has not heard of."""
        if self._on_card:
            torch.cuda.current_stream(self._device).synchronize()
        place = self._heard[number] % self._answers.shape[1]
        known = self._answers[number, place].isfinite().all()
        return bool(self._sent[number] > self._heard[number] and known)

    def stop(self, number: int) -> None:
        """No more iterations of this run."""
        self._goes_on[number] = 0
        self._on[number] = False

    def leave(self, number: int, host: Iteration) -> None:
        """Let the host go on after the last iteration of this run that was right."""
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
        """What is kept of a run that has stopped, without waiting for those that go on."""
        if not self._on_card:
            return np.array(self._kept[number].numpy())
        way, active_views = (
            stream_beside(self._device),
            self._first[number] + self._heard[number] - 1,
        )
        way.wait_event(self._events[active_views % len(self._events)])
        with torch.cuda.stream(way):
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

    def _kernels(self) -> list[Callable[[], None]]:
        """What one more iteration launches, without a word to the host but the answer."""
        found, bound = [self._pass], cache(self._bound)
        times, first = self._problem.small_steps, _TURNS
        for number in range(times):
            last = _ENDS if number + 1 == times else 0
            if self._root is None:
                found.append(bound(first | _MULTIPLIES | _DECOMPOSES | last))
                first = 0
            else:
                found.append(bound(first | _MULTIPLIES))
                if self._problem.tau > 0:
                    found.append(self._root)
                first = _SHRINKS
        return found if self._root is None else [*found, bound(_SHRINKS | _ENDS)]

    def _bound(self, parts: int) -> Callable[[], None]:
        """What launches these parts of the kernel."""
        p, root, n_work = self._problem, self._root, self._work.stride(0)
        whole = self._shares and parts == _TURNS | _MULTIPLIES | _DECOMPOSES | _ENDS
        apart = (self._slots.stride(0), n_work, self._letter.stride(0))
        return self._kernel.bound(
            *((1, self._runs), _THREADS, self._bytes + (8 * n_work if whole else 0)),
            *(self.sums, *self._tables, self._steps, self._kept, self._vectors),
            None if whole else self._work,
            *((root.begun, root.projector, root.inverse, root.squared) if root else [None] * 4),
            *(self._letter, self._answers, p.beta, p.gamma, p.tau, p.tol),
            *(self._m, *self._counts, self._answers.shape[1], *apart, self._bytes // 8, parts),
        )


def _all_kept(StS: Floats, problem: Problem) -> bool:
    """Whether singular values are likely to stay above the threshold, which the device checks.

    Those of the graphs that it starts from are all above twice of it.
    """
    alpha = problem.alpha
    AtA = weighted_sum(alpha, weighted_sum(alpha, StS))
    AtA[np.diag_indices(len(AtA))] -= (2.0 * problem.tau * (1.0 + problem.gamma)) ** 2
    try:
        np.linalg.cholesky(AtA)
    except np.linalg.LinAlgError:
        return False
    return True


@cache
def _plans(device: Device) -> tuple[Tensor, list[int]]:
    """The steps of roots, where they are needed, and how many of each kind there are."""
    plans = [list(steps(factor**-0.5)) for factor in _FACTORS]
    (there,) = send([np.concatenate(plans)], device)
    return there, list(map(len, plans))


def _in_order(works: Sequence[Callable[[], None]]) -> None:
    for work in works:
        work()
