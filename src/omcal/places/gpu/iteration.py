"""Iterations whose small matrices stay on the device, beside the rows."""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Floats
from omcal.method.roots import steps
from omcal.method.solver import MOST_MOMENTUM, AbstractIteration, Iteration, Problem
from omcal.method.updates import ConsensusGraph
from omcal.places.gpu import nvrtc, weights
from omcal.places.gpu.devices import Repeated, working_on
from omcal.places.gpu.roots import CLOSE, LEAST, TiledRoot

if TYPE_CHECKING:
    from omcal.places.gpu.rows import TorchRows

_ABOVE = 1.25  # times the threshold: no singular value is near it
_SPARE = 0.25  # of the least eigenvalue: it may fall so far
_MOST_CLUSTERS = 64
_MOST_ANCHORS = 64  # with more, many blocks take a root sooner than one finds the eigenvalues
_THREADS = 512
# Parts of the kernel `small`.
_TURNS, _SHRINKS, _MULTIPLIES, _DECOMPOSES, _ENDS = 1, 2, 4, 8, 16


def serves(rows: TorchRows, problem: Problem) -> bool:
    """Whether `DeviceIteration` does this."""
    c = int(rows.F.shape[1])
    return nvrtc.available(rows.device) and c <= _MOST_CLUSTERS and weights.serves(problem)


class DeviceIteration(AbstractIteration):
    """The device does one iteration after another, and the next before the host asks for it.

    Where a basis has no clear directions, what replaces its decomposition there is not right; nor,
    with many anchors, where singular values come near the threshold, as they may in the first
    iterations. Those are done on the host, until all singular values are well above.
    """

    def __init__(self, rows: TorchRows, StS: Floats, G: Floats, problem: Problem) -> None:
        self._rows, self._StS, self._problem = rows, StS, problem
        self._host = Iteration(rows, StS, G, problem)
        self._there: _State | None = None  # where the iterations are, if not on the host
        self._value = inf  # of the objective, after the last iteration on the host
        self._left = problem.max_iter
        self._above = _ABOVE * problem.tau
        # For the least singular value, which is not known in the beginning.
        self._enough = self._above if len(G) > _MOST_ANCHORS else 0.0

    def step(self) -> float:
        if self._there is None and self._host.least >= self._enough:
            self._there = _State(self._rows, self._StS, self._problem, self._host, self._value)
        self._left -= 1
        if self._there is None:
            self._value = self._host.step()
            return self._value
        return self._answer(self._there, 1 + min(1, self._left))

    def underway(self) -> list[float]:
        there = self._there
        return [self._answer(there, 1)] if there is not None and there.is_ahead() else []

    def _answer(self, there: _State, wanted: int) -> float:
        value, right = there.step(wanted)
        return value if right else self._finish_on_host(there)

    def _finish_on_host(self, there: _State) -> float:
        there.leave(self._host)
        self._there = None
        self._enough = max(2 * self._enough, self._above) or inf  # or it would go there and back
        if self._host.ahead:
            self._host.ahead.last = self._host.consensus.G  # as after its own pass
        self._value = self._host.finish(self._rows.sums_of(there.sums))
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
        if self._there is not None:
            self._there.leave(self._host)
        return self._host


class _State:
    """What changes from one iteration to the next, on the device."""

    def __init__(
        self, rows: TorchRows, StS: Floats, problem: Problem, host: Iteration, value: float
    ) -> None:
        self._rows, self._problem, self._device = rows, problem, rows.device
        V, m, c = len(StS), StS.shape[-1], int(rows.F.shape[1])
        self._m, Z, ahead = m, host.consensus, host.ahead
        if value == inf:  # a pass before the first would have left this
            rows.F.zero_()
        first = Z.f_step(ahead.basis(Z.G) if ahead else None)
        scalars = [value, ahead.age if ahead else 0, True, 0]  # the last: how many were done
        kept = (Z.alpha, ahead.last if ahead else Z.G, host.alpha, Z.G, Z.T, scalars)
        self._sizes = [np.size(part) for part in kept]
        self._on_card = self._device.type == "cuda"
        # Two places: the host may not have read the last answer yet.
        self._answers = torch.zeros((2, 2), dtype=torch.float64, pin_memory=self._on_card)
        self._sent = self._heard = 0
        H = np.einsum("uvii->uv", StS)
        rule, faces, given = weights.table(problem, H)
        least = max(LEAST, _SPARE * host.spread)
        factors = [list(steps(least_of**0.5)) for least_of in (LEAST, least)]
        tables = [np.concatenate([np.ravel(p) for p in kept]), StS, H, faces, given, *factors]
        with working_on(self._device):
            # In one message; the kernel knows how long each is.
            sent = torch.from_numpy(np.concatenate([np.ravel(t) for t in tables])).to(self._device)
            self._kept, *self._tables = sent.split([np.size(t) for t in tables])
            self._goes_on = self._kept[-2:]
            self.sums = self._kept.new_empty(V * m * c + 2 * c * c)
            side = m + m % 2
            self._vectors = self._kept.new_empty(side * side)
            n_work = 3 * m * m + 2 + 5 * m * c + c * c + 3 * V + 3 + max(len(faces), V)
            self._work = self._kept.new_zeros(n_work)
            self._letter = rows.letter(Z.alpha, *first, Z.G)
            self._pass = rows.pass_there(self._letter, self.sums, self._goes_on)
        self._kernel = nvrtc.compiled(
            "small",
            self._device,
            REAL=nvrtc.TYPES[str(self._letter.dtype)],
            VIEWS=V,
            C=c,
            WIDTH=self._letter.shape[1],
            RULE=rule,
            MOMENTUM=int(problem.accelerate),
            MOST_MOMENTUM=MOST_MOMENTUM,
            MOST_ROWS=_MOST_CLUSTERS,
            THREADS=_THREADS,
        )
        n_room = 3 * max(c * c, side * side if m <= _MOST_ANCHORS else 0) + side
        self._bytes = 8 * (_THREADS // 32 + n_room)
        # What is in use for one launch only is quicker in shared memory.
        self._shares = self._bytes + 8 * n_work <= nvrtc.room(self._device)
        self._n_work, self._counts = n_work, [len(faces), len(factors[0])]
        self._launches: dict[int, Any] = {}
        self._once: Any = self._iterate
        self._root: TiledRoot | None = None
        if m > _MOST_ANCHORS:
            self._root = TiledRoot(self._work[2 * m * m + 1 :], m, factors[1])
            self._once = Repeated(self._iterate, self._device)
        if self._on_card:
            self._events = [torch.cuda.Event() for _ in self._answers]

    def step(self, wanted: int) -> tuple[float, bool]:
        """The objective after the next iteration, and whether it is right.

        So many are to be under way before it is waited for, where one too many does no harm.
        """
        wanted = wanted if self._rows.heeds else 1
        with working_on(self._device):
            while self._sent < self._heard + wanted:
                self._send()
        place = self._heard % 2
        if self._on_card:
            self._events[place].synchronize()
        self._heard += 1
        value, right = self._answers[place].tolist()
        return value, right > 0

    def is_ahead(self) -> bool:
        """Whether an iteration was done that the host has not heard of."""
        if self._on_card:
            torch.cuda.current_stream(self._device).synchronize()
        return self._sent > self._heard and bool(self._answers[self._heard % 2].isfinite().all())

    def leave(self, host: Iteration) -> None:
        """Let the host go on after the last iteration that was right."""
        Z, kept = host.consensus, self._kept.cpu().numpy()
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

    def _send(self) -> None:
        place = self._sent % 2
        self._answers[place] = torch.nan
        self._once()
        if self._on_card:
            self._events[place].record()
        self._sent += 1

    def _iterate(self) -> None:
        """One more iteration, without a word to the host but the answer."""
        self._pass()
        times, first = self._problem.small_steps, _TURNS
        for number in range(times):
            last = _ENDS if number + 1 == times else 0
            if self._root is None:
                self._launch(first | _MULTIPLIES | _DECOMPOSES | last)
                first = 0
            else:
                self._launch(first | _MULTIPLIES)
                if self._problem.tau > 0:
                    self._root()
                first = _SHRINKS
        if self._root is not None:
            self._launch(_SHRINKS | _ENDS)

    def _launch(self, parts: int) -> None:
        if parts not in self._launches:
            p, root = self._problem, self._root
            whole = self._shares and parts == _TURNS | _MULTIPLIES | _DECOMPOSES | _ENDS
            self._launches[parts] = self._kernel.bound(
                *(1, _THREADS, self._bytes + (8 * self._n_work if whole else 0)),
                *(
                    self.sums,
                    *self._tables,
                    self._kept,
                    self._vectors,
                    None if whole else self._work,
                ),
                *((root.begun, root.inverse, root.power) if root else (None, None, None)),
                *(self._letter, self._answers, p.beta, p.gamma, p.tau, p.tol, CLOSE),
                *(self._m, *self._counts, parts),
            )
        self._launches[parts]()
