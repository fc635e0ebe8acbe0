"""Algorithm 1: start, iterate, stop. What holds the rows, and where, is not known here."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from omcal.machine.arrays import Floats, Mask
from omcal.method.rows import AbstractRows, Sums
from omcal.method.updates import (
    ConsensusGraph,
    adaptive_weights,
    agreement_weights,
    distinct_weights,
    fused_gram,
    graph_products,
    normalized,
    objective,
    orthogonal_factor,
    soft_threshold,
    weighted_sum,
)

_SMALL_STEPS = 3  # Z and alpha steps to a pass when accelerated
MOST_MOMENTUM = 0.9

Result = TypeVar("Result")
Weighting = Literal["adaptive", "agreement", "distinct", "fixed"]


@dataclass(frozen=True)
class Problem:
    """Eq. 10 with its parameters, and how long to work on it."""

    beta: float
    gamma: float
    weighting: Weighting
    alpha: Floats  # the weights to start from, or to keep
    max_iter: int
    tol: float
    accelerate: bool = False

    @property
    def active_views(self) -> NDArray[np.intp]:
        """The views that have a weight to start from; the others never get one."""
        return np.flatnonzero(self.alpha)

    @property
    def tau(self) -> float:
        """By how much the singular values of Z are less than those of M."""
        return self.beta / (2.0 * (1.0 + self.gamma))

    @property
    def small_steps(self) -> int:
        """Z and alpha steps to a pass."""
        # Without an alpha step that follows Z, repeating the two would change nothing.
        return _SMALL_STEPS if self.accelerate and self.weighting == "adaptive" else 1

    def settled(self, history: list[float]) -> bool:
        """Whether the last iteration changed the objective by at most `tol`; never if tol is 0."""
        if len(history) < 2 or self.tol == 0:
            return False
        before, now = history[-2:]
        return abs(before - now) <= self.tol * abs(before)

    def weights(self, last: Floats | None, H: Floats, SZ: Floats, sums: Sums, G: Floats) -> Floats:
        """Update alpha, by the rule asked for; the weights of the last update help to find it."""
        if self.weighting == "fixed":
            return self.alpha
        some = self.active_views
        H, StF = H[np.ix_(some, some)], sums.StF[some]
        alpha = np.zeros_like(self.alpha)
        if self.weighting == "adaptive":
            alpha[some] = adaptive_weights(H, SZ[some], None if last is None else last[some])
        else:
            rule = distinct_weights if self.weighting == "distinct" else agreement_weights
            alpha[some] = rule(H, StF, sums.FtF, G)
        return alpha

    def without(self, uninformative: Mask) -> Problem:
        """The same without views that say nothing; all stay where there is no other."""
        alpha = np.where(uninformative, 0.0, self.alpha)
        if not alpha.any() and not uninformative.all():
            raise ValueError(
                f"weighting={self.alpha.tolist()} gives all weight to views that are the same for "
                "all samples after scaling; give some to the others."
            )
        return replace(self, alpha=normalized(alpha)) if alpha.any() else self


@dataclass(frozen=True)
class Solution:
    """Where the loop ended; `consensus` maps rows to clusters, `alpha` is one step newer."""

    alpha: Floats
    consensus: ConsensusGraph
    history: list[float] = field(repr=False)
    converged: bool

    @property
    def n_iter(self) -> int:
        return len(self.history)


class VanishedGraphError(ValueError):
    """The nuclear norm has removed the whole consensus graph."""


def solve(
    rows: AbstractRows,
    StS: Floats,
    G: Floats,
    problem: Problem,
    progress: Callable[[int, float], bool] = lambda iteration, value: False,
) -> Solution:
    """Run Algorithm 1 from the orthonormal m×c basis G; `rows` end with the last F.

    Each iteration takes one sweep over the rows; the rest is small. `progress` is told the
    number of each finished iteration and its objective; it returns whether to stop.
    """
    return run_interleaved([solve_steps(rows, StS, G, problem, progress)])[0]


def run_interleaved(works: Iterable[Generator[None, None, Result]]) -> list[Result]:
    """What each of these comes to, where all of them go on by one step after another."""
    begun = dict(enumerate(works))
    results: dict[int, Result] = {}
    while begun:
        for number, work in list(begun.items()):
            try:
                next(work)
            except StopIteration as end:
                results[number] = end.value
                del begun[number]
    return [results[number] for number in sorted(results)]


def solve_steps(
    rows: AbstractRows,
    StS: Floats,
    G: Floats,
    problem: Problem,
    progress: Callable[[int, float], bool],
) -> Generator[None, None, Solution]:
    """`solve`, which rests before each iteration: those of other rows may be done with it."""
    work = rows.iteration(StS, G, problem) or Iteration(rows, StS, G, problem)
    history: list[float] = []
    for iteration in range(1, problem.max_iter + 1):
        yield
        history.append(work.step())
        if progress(iteration, history[-1]):
            history += work.underway()
            break
        if iteration == 1:
            continue
        if problem.settled(history):
            return Solution(work.alpha, work.consensus, history, converged=True)
        if history[-1] > history[-2]:
            work.restart()
    return Solution(work.alpha, work.consensus, history, converged=False)


class AbstractIteration(ABC):
    """One iteration after another, and where the last one ended."""

    alpha: Floats
    consensus: ConsensusGraph

    @abstractmethod
    def step(self) -> float:
        """A pass over the rows and all that follows from it; returns the objective."""

    @abstractmethod
    def restart(self) -> None:
        """The last step did harm: take the next without momentum."""

    def underway(self) -> list[float]:
        """The objective after steps that were begun before they were asked for, and are done."""
        return []


class Iteration(AbstractIteration):
    """Iterations whose small matrices are in the memory of this process.

    Compiled `inverses`, where there are any, are what `soft_threshold` may use.
    """

    def __init__(
        self,
        rows: AbstractRows,
        StS: Floats,
        G: Floats,
        problem: Problem,
        inverses: Callable[..., None] | None = None,
    ) -> None:
        self._rows, self._StS, self._problem, self._inverses = rows, StS, problem, inverses
        self._H = np.einsum("uvii->uv", StS)
        self._last: Floats | None = None  # the weights of the last update
        self.alpha = problem.alpha
        self.consensus = ConsensusGraph.start(problem.alpha, G)
        self.ahead = Momentum(G) if problem.accelerate else None

    def step(self) -> float:
        Z = self.consensus
        return self.finish(
            self._rows.sweep(Z.alpha, *Z.f_step(self.ahead.basis(Z.G) if self.ahead else None))
        )

    def finish(self, sums: Sums) -> float:
        """What follows from the sums of a pass: G, Z, alpha, the objective."""
        p, Z, alpha = self._problem, self.consensus, self.alpha
        G = orthogonal_factor(Z.transposed_times_f(sums.StF, sums.FoldtF))
        for _ in range(p.small_steps):
            AtF = weighted_sum(alpha, sums.StF)
            MtM = fused_gram(alpha, self._StS, AtF, sums.FtF, G, p.gamma)
            shrunk = soft_threshold(MtM, p.tau, self._inverses)
            if shrunk.squares <= 0:
                raise VanishedGraphError(_vanished(p.beta, p.gamma, MtM))
            Z = ConsensusGraph(alpha, G, shrunk.T, p.gamma)
            SZ = graph_products(Z, self._StS, sums.StF)
            alpha = self._last = p.weights(self._last, self._H, SZ, sums, G)
        self.alpha, self.consensus = alpha, Z
        return float(objective(Z, alpha, shrunk, self._H, SZ, AtF, sums.FtF, p.beta))

    def restart(self) -> None:
        if self.ahead:
            self.ahead.restart()


class Momentum:
    """Runs the F step ahead along the last move of G; starts anew whenever that did harm.

    With the Z and alpha steps repeated, which need no pass over the rows, this reaches about
    the objective of the plain iteration in a half to a third of the passes.
    """

    def __init__(self, G: Floats) -> None:
        self.last = G
        self.age = 0

    def basis(self, G: Floats) -> Floats:
        move, self.last, share = G - self.last, G, self.share()
        return orthogonal_factor(G + share * move) if share > 0 else G

    def share(self) -> float:
        """How much of the last move to take once more."""
        share = min(self.age / (self.age + 3), MOST_MOMENTUM)
        self.age += 1
        return share

    def restart(self) -> None:
        self.age = 0


def _vanished(beta: float, gamma: float, MtM: Floats) -> str:
    largest = float(np.sqrt(max(np.linalg.eigvalsh(MtM)[-1], 0.0)))
    return (
        f"beta={beta:g} removes the whole consensus graph, which leaves no clusters to read off; "
        f"its largest singular value is {largest:.3g}: use beta well below "
        f"{2 * (1 + gamma) * largest:.3g}."
    )
