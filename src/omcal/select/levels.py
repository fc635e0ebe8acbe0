"""Clusterings of the same samples into many numbers of clusters.

Neighbouring numbers form a band, whose runs share anchors, graphs and eigenvectors. A refit then
does a few steps per number: from a spectral start with beta = 0, further steps change hardly any
label.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.threads import map_blocks, one_blas_thread
from omcal.method.anchors import SAMPLE_PER_ANCHOR, cut, draw_rows
from omcal.method.kmeans import lloyd, start_rows, trials
from omcal.method.new_samples import GraphModel, joined_graph
from omcal.method.rows import Assignment, second
from omcal.method.scaling import Scaling
from omcal.method.settings import default_n_anchors, start_weights
from omcal.method.solver import Problem
from omcal.method.vectors import Vectors
from omcal.metrics import ari
from omcal.model.structure import few_directions
from omcal.model.subset_fits import spectral_refits
from omcal.views.view import View, Views

_JOINT_DIRECTIONS = 64  # directions of all views together, for the k-means of the anchors
_NEIGHBOURS = 5
_BAND = 1.5  # largest divided by smallest number of clusters of a band
# Steps of a run per number of clusters: up to 50 clusters, and with more.
_STEPS, _STEPS_OF_MANY, _FEW_CLUSTERS = 4, 2, 50
_JOINT_STEPS = 10
_NULL_STEP = 1.9  # factor between the numbers at which sets without clusters are fitted

Progress = Callable[[str], None]


class Level(NamedTuple):
    """The clusterings with one number of clusters: labels of each run, and of all combined."""

    runs: list[Array]
    labels: Array
    stability: float  # mean adjusted Rand index between two runs, at least 0


def agreements(runs: Sequence[Array]) -> list[float]:
    """Return the adjusted Rand index of each pair of labellings."""
    return [ari(a, b) for a, b in combinations(runs, 2)]


def bands(numbers: Iterable[int]) -> Iterator[list[int]]:
    """Yield groups of neighbouring numbers, the largest group last."""
    band: list[int] = []
    for number in numbers:
        if band and number > max(_BAND * band[0], band[0] + 1):
            yield band
            band = []
        band.append(number)
    if band:
        yield band


class Runs:
    """Runs of the solver on scaled views, each with its own anchors."""

    def __init__(
        self, points: Sequence[Array], seeds: Sequence[int], weighting: Any = "distinct"
    ) -> None:
        self._views = Views([View(f"view{v}", X) for v, X in enumerate(points)])
        self._unscaled = [Scaling.fit(view, None) for view in self._views]
        table = np.hstack(points)
        self._table, self._joint = Vectors(table), Vectors(few_directions(table, _JOINT_DIRECTIONS))
        self.n, self.seeds, self._weighting = self._views.n, seeds, weighting

    def fit(self, band: list[int], seed: int, numbers: list[int]) -> list[Assignment]:
        """Return the labels of one run for some numbers of a band."""
        views = self._views
        m = min(max(default_n_anchors(views.n, band[-1]), _NEIGHBOURS + 1), views.n)
        state = np.random.RandomState((seed + 7919 * band[0]) % 2**32)
        model = GraphModel(self._unscaled, self._anchors(m, state), min(_NEIGHBOURS, m - 1))
        weighting, alpha = start_weights(self._weighting, len(views))
        steps = _STEPS if band[-1] <= _FEW_CLUSTERS else _STEPS_OF_MANY
        problem = Problem(0.0, 0.0, weighting, alpha, steps, tol=0.0)
        problem = problem.without(model.uninformative)
        fits = spectral_refits(model.graphs(views), problem, numbers)
        return [Assignment(one.labels, 0, *second(one.F, one.labels)) for one in fits]

    def _anchors(self, m: int, state: np.random.RandomState) -> list[Array]:
        """Return m anchors per view: the means of clusters in the joint directions of all views.

        Anchors from all features are no better, and take longer (docs/n_clusters_study.md).
        """
        points, table = self._joint, self._table
        if self.n > SAMPLE_PER_ANCHOR * m:
            some = draw_rows(self.n, SAMPLE_PER_ANCHOR * m, state)
            points, table = points[some], table[some]
        first = start_rows(points.n, points.X.shape[1], m, thorough=False)
        tried = trials(points.n, m, thorough=False)
        labels = points.nearest(lloyd(points, m, False, tried, state, first))[0]
        # An empty cluster gets one of the first samples as its anchor.
        return cut(table.means(labels, self._table.X[:m]), self._views)


def combined(runs: Sequence[Assignment], c: int) -> Array:
    """Return the labels of the runs combined into c clusters, as in `Consensus`."""
    if sum(len(np.unique(run.labels)) for run in runs) <= c:
        return np.asarray(runs[0].labels)
    problem = Problem(0.0, 0.0, "fixed", np.ones(1), _JOINT_STEPS, tol=0.0)
    (joint,) = spectral_refits(joined_graph(runs, c), problem, [c])
    return np.asarray(joint.labels)


def fit_levels(
    runs: Runs, numbers: Sequence[int], progress: Progress, null: Sequence[Runs] = ()
) -> Iterator[tuple[dict[int, Level], dict[int, float]]]:
    """Yield the levels of each band of numbers, and the agreement of runs on sets without clusters.

    The sets without clusters, `null`, are fitted at some of the numbers only. `progress` receives
    the estimated time of further bands.
    """
    groups, began, done = list(bands(numbers)), perf_counter(), 0.0
    costs = [_cost(band, runs.n) for band in groups]
    drawn_at = spaced(numbers) if null else []
    for band, cost in zip(groups, costs, strict=True):
        few = [c for c in band if c in drawn_at]
        asked = [(runs, band), *((one, few) for one in null if few)]
        tasks = [(one, band, seed, some) for one, some in asked for seed in one.seeds]
        with one_blas_thread():
            fits = iter(_in_threads(Runs.fit, tasks))
            # By set and number of clusters, the runs.
            own, *drawn = [
                list(zip(*(next(fits) for _ in one.seeds), strict=True)) for one, _ in asked
            ]
            labels = _in_threads(combined, list(zip(own, band, strict=True)))
        levels = {}
        for c, runs_of_c, joint in zip(band, map(_labels, own), labels, strict=True):
            stability = max(0.0, float(np.mean(agreements(runs_of_c))))
            levels[c] = Level(runs_of_c, joint, stability)
        chance = {
            c: float(np.mean([agreements(_labels(one[i])) for one in drawn]))
            for i, c in enumerate(few)
        }
        done += cost
        left = (perf_counter() - began) * (sum(costs) / done - 1)
        progress(f"tried up to {band[-1]} clusters; at most about {left:.0f} s left")
        yield levels, chance


def _in_threads(work: Callable[..., Any], tasks: Sequence[tuple[Any, ...]]) -> list[Any]:
    """Return the results of `work` on the arguments of each task."""
    return map_blocks(lambda one: work(*tasks[one.start]), len(tasks), 1)


def _labels(runs: Iterable[Assignment]) -> list[Array]:
    return [np.asarray(run.labels) for run in runs]


def spaced(numbers: Sequence[int]) -> list[int]:
    """Return the first and the last number, and some numbers between them, far apart."""
    kept = [numbers[0]]
    for number in numbers:
        if number >= _NULL_STEP * kept[-1] or number == numbers[-1] > kept[-1]:
            kept.append(number)
    return kept


def _cost(band: list[int], n: int) -> float:
    """Return the relative time of a band: anchors and their eigenvectors, iterations per number."""
    m = default_n_anchors(n, band[-1])
    return 40 * m + m**3 / 2e5 + sum(c * (10 + c) for c in band)
