"""Algorithm 1: start, iterate, stop. The rows may be anywhere; see `AbstractRows`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from omcal.machine.arrays import Floats, Mask
from omcal.method.rows import AbstractRows, Sums
from omcal.method.updates import (
    ConsensusGraph,
    Shrunk,
    fused_gram,
    graph_products,
    objective,
    orthogonal_factor,
    soft_threshold,
    weighted_sum,
)
from omcal.method.weights import WEIGHTINGS, WeightInputs, normalized, uses_z

_SMALL_STEPS = 3  # Z and alpha steps per sweep when accelerated
MOST_MOMENTUM = 0.9

Progress = Callable[[int, float], bool]


def solve(
    rows: AbstractRows,
    StS: Floats,
    G: Floats,
    problem: Problem,
    progress: Progress = lambda iteration, value: False,
) -> Solution:
    """Run Algorithm 1 from the orthonormal m×c basis G; `rows` end with the last F.

    Each iteration takes one sweep over the rows and some small matrices. `progress` receives the
    number and the objective of each finished iteration, and returns whether to stop.
    """
    work = Iteration(rows, StS, G, problem)
    history: list[float] = []
    for iteration in range(1, problem.max_iter + 1):
        history.append(work.step())
        if progress(iteration, history[-1]):
            break
        if problem.converged(history):
            return work.solution(history, converged=True)
        if problem.rose(history):
            work.restart()
    return work.solution(history, converged=False)


@dataclass(frozen=True)
class Problem:
    """The parameters of Eq. 10 and of the iteration."""

    beta: float
    gamma: float
    weighting: str  # a key of `WEIGHTINGS`, or "fixed"
    alpha: Floats  # the weights to start from, or to keep
    max_iter: int
    tol: float
    accelerate: bool = False

    @property
    def active_views(self) -> NDArray[np.intp]:
        """Return the views with a positive start weight; the others keep weight 0."""
        return np.flatnonzero(self.alpha)

    @property
    def tau(self) -> float:
        """Return the threshold by which the singular values of M are reduced."""
        return self.beta / (2.0 * (1.0 + self.gamma))

    @property
    def small_steps(self) -> int:
        """Return the number of Z and alpha steps per sweep."""
        return _SMALL_STEPS if self.accelerate and uses_z(self.weighting) else 1

    def converged(self, history: list[float]) -> bool:
        """Whether the last iteration changed the objective by at most `tol`; tol=0 never stops."""
        if self.tol == 0 or len(history) < 2:
            return False
        return abs(history[-2] - history[-1]) <= self.tol * abs(history[-2])

    def rose(self, history: list[float]) -> bool:
        """Whether the last iteration increased the objective, as momentum can."""
        return len(history) > 1 and history[-1] > history[-2]

    def weights(self, last: Floats | None, H: Floats, SZ: Floats, sums: Sums, G: Floats) -> Floats:
        """Update alpha by the rule of `weighting`."""
        update = WEIGHTINGS[self.weighting].update if self.weighting in WEIGHTINGS else None
        if update is None:
            return self.alpha
        some = self.active_views
        inputs = WeightInputs(
            *(H[np.ix_(some, some)], SZ[some], sums.StF[some], sums.FtF, G),
            last=None if last is None else last[some],
        )
        alpha = np.zeros_like(self.alpha)
        alpha[some] = update(inputs)
        return alpha

    def without(self, uninformative: Mask) -> Problem:
        """Return the problem without uninformative views; if all are, none is removed."""
        alpha = np.where(uninformative, 0.0, self.alpha)
        if not alpha.any() and not uninformative.all():
            raise ValueError(
                f"weighting={self.alpha.tolist()} gives all weight to views that are the same for "
                "all samples after scaling; give some to the others."
            )
        return replace(self, alpha=normalized(alpha)) if alpha.any() else self


@dataclass(frozen=True)
class Solution:
    """The result of the iteration; `consensus` maps rows to clusters, `alpha` is one step newer."""

    alpha: Floats
    consensus: ConsensusGraph
    history: list[float] = field(repr=False)
    converged: bool
    # AᵀA (m, m), AᵀF (m, c) and FᵀF (c, c) of the mixture of graphs and the F that went into Z.
    sums: tuple[Floats, Floats, Floats] | None = field(default=None, repr=False)

    @property
    def n_iter(self) -> int:
        return len(self.history)


class VanishedGraphError(ValueError):
    """The nuclear norm has removed the whole consensus graph."""


class Iteration:
    """The state of the solver, advanced by one iteration at a time."""

    def __init__(self, rows: AbstractRows, StS: Floats, G: Floats, problem: Problem) -> None:
        self._rows, self._StS, self._problem = rows, StS, problem
        self._H = np.einsum("uvii->uv", StS)
        self._last: Floats | None = None  # the weights of the last update
        self.sums: Sums | None = None  # of the last sweep
        self.alpha = problem.alpha
        self.consensus = ConsensusGraph(problem.alpha, G, np.eye(len(G)), 0.0)  # Z = A(alpha)
        self.ahead = Momentum(G) if problem.accelerate else None

    def step(self) -> float:
        """Sweep over the rows, update G, Z and alpha, and return the objective."""
        Z = self.consensus
        return self.finish(
            self._rows.sweep(Z.alpha, *Z.f_step(self.ahead.basis(Z.G) if self.ahead else None))
        )

    def finish(self, sums: Sums) -> float:
        """Update G, Z and alpha from the sums of a sweep, and return the objective."""
        p, Z, alpha, self.sums = self._problem, self.consensus, self.alpha, sums
        G = orthogonal_factor(Z.transposed_times_f(sums.StF, sums.FoldtF))
        for _ in range(p.small_steps):
            AtF = weighted_sum(alpha, sums.StF)
            MtM = fused_gram(alpha, self._StS, AtF, sums.FtF, G, p.gamma)
            shrunk = thresholded(MtM, p)
            Z = ConsensusGraph(alpha, G, shrunk.T, p.gamma)
            SZ = graph_products(Z, self._StS, sums.StF)
            alpha = self._last = p.weights(self._last, self._H, SZ, sums, G)
        self.alpha, self.consensus = alpha, Z
        return float(objective(Z, alpha, shrunk, self._H, SZ, AtF, sums.FtF, p.beta))

    def solution(self, history: list[float], *, converged: bool) -> Solution:
        """Return the end of the run."""
        sums, alpha, m = None, self.consensus.alpha, len(self.consensus.G)
        if self.sums is not None:
            AtA = weighted_sum(np.outer(alpha, alpha).ravel(), self._StS.reshape(-1, m, m))
            sums = AtA, weighted_sum(alpha, self.sums.StF), self.sums.FtF
        return Solution(self.alpha, self.consensus, history, converged, sums)

    def restart(self) -> None:
        """Take the next step without momentum, because the last one increased the objective."""
        if self.ahead:
            self.ahead.restart()


class Momentum:
    """Extrapolate the basis of the F step along the last move of G.

    With repeated Z and alpha steps, which need no sweep, this reaches about the objective of the
    plain iteration in a half to a third of the sweeps.
    """

    def __init__(self, G: Floats) -> None:
        self.last = G
        self.age = 0

    def basis(self, G: Floats) -> Floats:
        """Return the basis for the F step, and increase the age by one."""
        move, self.last = G - self.last, G
        share = min(self.age / (self.age + 3), MOST_MOMENTUM)
        self.age += 1
        return orthogonal_factor(G + share * move) if share > 0 else G

    def restart(self) -> None:
        self.age = 0


def thresholded(MtM: Floats, problem: Problem) -> Shrunk:
    """Update Z, Eq. 23, from MᵀM; raise an error if it vanishes."""
    shrunk = soft_threshold(MtM, problem.tau)
    if shrunk.squares > 0:
        return shrunk
    beta, gamma = problem.beta, problem.gamma
    largest = float(np.sqrt(max(np.linalg.eigvalsh(MtM)[-1], 0.0)))
    raise VanishedGraphError(
        f"beta={beta:g} removes the whole consensus graph, which leaves no clusters to read off; "
        f"its largest singular value is {largest:.3g}: use beta well below "
        f"{2 * (1 + gamma) * largest:.3g}."
    )
