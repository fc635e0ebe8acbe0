"""Clusterings of the same samples into many numbers of clusters.

Neighbouring numbers form a band, whose runs share anchors, graphs and eigenvectors. The solver
then takes a few iterations per number: from a spectral start, with beta = 0, further ones change
the labels of hardly any sample.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import one_blas_thread, thread_count
from omcal.method.rows import Assignment
from omcal.method.settings import GraphSettings, default_n_anchors, start_weights
from omcal.method.solver import Problem, solve
from omcal.method.starts import rotated_basis
from omcal.method.updates import weighted_sum
from omcal.metrics import ari
from omcal.places.memory import MemoryRows, join_in_memory, learn_in_memory
from omcal.views.view import Matrix, View, Views

_DIRECTIONS = 200  # of a wide view, those of largest variance
_NEIGHBOURS = 5
_BAND = 1.5  # largest over smallest number of clusters of a band
# Iterations per number of clusters up to 50; above that a single one.
_ITERATIONS, _FEW_CLUSTERS = 3, 50
_JOINT_ITERATIONS = 10
_GAMMA, _TOLERANCE = 0.1, 1e-4

Progress = Callable[[str], None]


class Level(NamedTuple):
    """The clusterings into one number of clusters: labels of each run, and of all joined."""

    runs: list[Array]
    labels: Array

    @property
    def stability(self) -> float:
        """Return the mean adjusted Rand index between two runs, at least 0."""
        return max(0.0, float(np.mean(agreements(self.runs))))


def agreements(runs: Sequence[Array]) -> list[float]:
    """Return the adjusted Rand index of each pair of labellings."""
    return [ari(a, b) for a, b in combinations(runs, 2)]


def few_directions(X: Matrix) -> Array:
    """Return the centred rows in their directions of largest variance, as float32.

    Narrow dense views keep their features.
    """
    n, d = X.shape
    if sparse.issparse(X) or d > _DIRECTIONS:
        U, S, _ = randomized_svd(
            X.astype(np.float32), min(_DIRECTIONS, n, d), n_iter=2, random_state=0
        )
        X = U * S
    return np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)


def bands(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Yield groups of neighbouring numbers, the largest group last.

    Examples
    --------
    >>> list(bands([2, 3, 4, 5, 6, 8, 20]))
    [[2, 3], [4, 5, 6], [8], [20]]
    """
    band: list[int] = []
    for number in numbers:
        if band and number > max(_BAND * band[0], band[0] + 1):
            yield band
            band = []
        band.append(number)
    if band:
        yield band


class Runs:
    """Runs of the solver on scaled views, each with anchors of its own."""

    def __init__(
        self, points: Sequence[Array], seeds: Sequence[int], weighting: Any = "distinct"
    ) -> None:
        self._views = Views([View(f"view{v}", X) for v, X in enumerate(points)])
        self.seeds = seeds
        self._weighting = weighting

    @property
    def n(self) -> int:
        return self._views.n

    def fit(self, band: list[int], seed: int) -> list[Assignment]:
        """Return the clusters of one run for each number of a band."""
        views = self._views
        m = min(max(default_n_anchors(views.n, band[-1]), _NEIGHBOURS + 1), views.n)
        settings = GraphSettings(band[-1], m, min(_NEIGHBOURS, m - 1), None, "kmeans")
        state = np.random.RandomState((seed + 7919 * band[0]) % 2**32)
        (model,) = learn_in_memory(views, settings, [state])
        weighting, alpha = start_weights(self._weighting, len(views))
        iterations = _ITERATIONS if band[-1] <= _FEW_CLUSTERS else 1
        problem = Problem(0.0, _GAMMA, weighting, alpha, iterations, _TOLERANCE)
        problem = problem.without(model.uninformative)
        rows = MemoryRows(model.graphs(views), 1)
        StS = rows.gram()
        AtA = weighted_sum(problem.alpha, weighted_sum(problem.alpha, StS))
        vectors = np.linalg.eigh(AtA)[1]
        return [_solved(rows, StS, vectors[:, -c:], problem) for c in band]


def _solved(rows: MemoryRows, StS: Floats, vectors: Floats, problem: Problem) -> Assignment:
    """Return the clusters, one per eigenvector."""
    rows.F = np.zeros((rows.graphs.n, vectors.shape[1]), rows.graphs.weights.dtype)
    Z = solve(rows, StS, rotated_basis(vectors), problem).consensus
    return rows.assign(Z.alpha, *Z.f_step(), Z.G, runner_up=True)


def joined(runs: Sequence[Assignment], c: int) -> Array:
    """Return the labels of the runs combined into c clusters, as `Consensus` does it."""
    if sum(len(np.unique(run.labels)) for run in runs) <= c:
        return np.asarray(runs[0].labels)
    rows = join_in_memory(runs, c)
    StS = rows.gram()
    problem = Problem(0.0, _GAMMA, "fixed", np.ones(1), _JOINT_ITERATIONS, _TOLERANCE)
    return np.asarray(_solved(rows, StS, np.linalg.eigh(StS[0, 0])[1][:, -c:], problem).labels)


def fit_levels(
    runs: Runs, numbers: Sequence[int], progress: Progress, null: Sequence[Runs] = ()
) -> Iterator[tuple[dict[int, Level], list[dict[int, list[Array]]]]]:
    """Yield the clusterings of each band of numbers, and the runs on sets without clusters.

    The latter are fitted at some numbers of a band only. `progress` is told the time that further
    bands may take, estimated from those before.
    """
    work = Parallel(n_jobs=thread_count(), prefer="threads")
    groups, began, done = list(bands(numbers)), perf_counter(), 0.0
    costs = [_cost(band, runs.n) for band in groups]
    for band, cost in zip(groups, costs, strict=True):
        few = spaced(band) if null else []
        tasks = [(runs, seed, band) for seed in runs.seeds]
        tasks += [(one, seed, few) for one in null for seed in one.seeds]
        with one_blas_thread():
            found = work(delayed(some.fit)(which, seed) for some, seed, which in tasks)
            own = list(zip(*found[: len(runs.seeds)], strict=True))
            labels = work(delayed(joined)(own[i], c) for i, c in enumerate(band))
        levels = {
            c: Level([np.asarray(run.labels) for run in some], one)
            for c, some, one in zip(band, own, labels, strict=True)
        }
        others = iter(found[len(runs.seeds) :])
        of_null = [list(zip(*(next(others) for _ in one.seeds), strict=True)) for one in null]
        done += cost
        left = (perf_counter() - began) * (sum(costs) / done - 1)
        progress(f"tried up to {band[-1]} clusters; at most about {left:.0f} s left")
        yield (
            levels,
            [
                {
                    c: [np.asarray(run.labels) for run in some]
                    for c, some in zip(few, one, strict=True)
                }
                for one in of_null
            ],
        )


def spaced(band: list[int]) -> list[int]:
    """Return the first and, if there are three or more, the last number of a band.

    Examples
    --------
    >>> spaced([4, 5, 6]), spaced([2, 3])
    ([4, 6], [2])
    """
    return [band[0], band[-1]] if len(band) > 2 else band[:1]


def _cost(band: list[int], n: int) -> float:
    """Return the relative time of a band: anchors and their eigenvectors, iterations per number."""
    m = default_n_anchors(n, band[-1])
    return 40 * m + m**3 / 2e5 + sum(c * (10 + c) for c in band)
