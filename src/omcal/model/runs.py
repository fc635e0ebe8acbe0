"""The runs of a Consensus: their fits, their labels, their agreement with the result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from itertools import count, islice
from threading import Lock
from typing import Any

import numpy as np
from joblib import effective_n_jobs

from omcal.machine import torch
from omcal.machine.arrays import Array, Floats, Seed, on_host
from omcal.machine.threads import one_blas_thread, thread_count
from omcal.method.new_samples import Predictor
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, Solution
from omcal.method.starts import starts
from omcal.method.subspace import ProjectedRows, subspace_pays
from omcal.model.estimators import AnchorClusterer
from omcal.model.progress import RUN_DONE, FitMonitor, Optimised, best_of_starts
from omcal.places.base import Place

_SECONDS_BETWEEN_SIGNALS = 0.1
# Runs with many anchors and few samples spend their time on small matrices, in one thread.
_MANY_ANCHORS, _MOST_SAMPLES = 100, 50_000
Finished = tuple[Predictor, Solution, Assignment]  # a run


@dataclass(frozen=True)
class Run:
    """The result of one run.

    Attributes
    ----------
    labels : array of shape (n,)
        Cluster of each sample, as the run numbers them.
    solution : omcal.method.solver.Solution
        The final state of its iteration.

    Examples
    --------
    >>> from omcal import OMCAL, Consensus
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> runs = Consensus(OMCAL(3, n_anchors=12), n_runs=2, random_state=0).fit(data.views).runs_
    >>> runs[0].labels.shape, runs[0].view_weights.shape, runs[0].objective > 0
    ((90,), (3,), True)
    """

    labels: Array
    solution: Solution

    @property
    def view_weights(self) -> Floats:
        """Weights of the views."""
        return self.solution.alpha

    @property
    def objective(self) -> float:
        """Objective at the end."""
        return self.solution.history[-1]


def run_table(run: Array, labels: Array, n_clusters: int) -> Array:
    """Count the samples by their cluster in a run and in the result."""
    few = np.min_scalar_type(n_clusters**2)  # small types are read faster
    cells = run.astype(few) * few.type(n_clusters) + labels.astype(few)
    return np.bincount(cells, minlength=n_clusters**2).reshape(n_clusters, n_clusters)


def run_tables(runs: Sequence[Any], labels: Any, n_clusters: int) -> list[Array]:
    """Return the `run_table` of each run, counted on the device of the labels."""
    if not hasattr(labels, "cpu"):
        return [run_table(run, labels, n_clusters) for run in runs]
    every, c = torch.stack(list(runs)).long(), n_clusters
    every += c * torch.arange(len(runs), device=every.device)[:, None]
    counts = torch.bincount((every * c + labels).flatten(), minlength=len(runs) * c * c)
    return list(counts.cpu().numpy().reshape(-1, c, c))


def certainty(runs: Sequence[Any], labels: Any, tables: Sequence[Array]) -> Floats:
    """Return for each sample the fraction of runs that agree with its label.

    A cluster of a run stands for the cluster of the result that contains most of its samples.

    Examples
    --------
    >>> runs, labels = [np.array([0, 0, 1, 1]), np.array([1, 1, 1, 0])], np.array([0, 0, 1, 1])
    >>> certainty(runs, labels, [run_table(run, labels, 2) for run in runs]).tolist()
    [1.0, 1.0, 0.5, 1.0]
    """
    if hasattr(labels, "cpu"):
        clusters = torch.from_numpy(np.stack(tables).argmax(axis=2)).to(labels)
        agree = clusters.gather(1, torch.stack(list(runs)).long()) == labels
        agreed = agree.sum(dim=0, dtype=torch.int16)  # small types are transferred faster
        return np.asarray(agreed.cpu()) / len(runs)
    agreed = np.zeros(len(labels), dtype=np.min_scalar_type(len(runs)))
    labels = labels.astype(runs[0].dtype, copy=False)  # small types are compared faster
    for run, counts in zip(runs, tables, strict=True):
        agreed += counts.argmax(axis=1).astype(labels.dtype).take(run) == labels
    return agreed / len(runs)


class RunsAtWork:
    """Fits of one estimator, each with its own seed, anchors and checkpoint."""

    def __init__(
        self,
        inner: AnchorClusterer,
        place: Place,
        settings: GraphSettings,
        seeds: Sequence[int],
        random_state: Seed,  # of the Consensus; the seeds were drawn from it
        watch: FitMonitor,
    ) -> None:
        self._inner, self._place, self._settings, self._watch = inner, place, settings, watch
        self._states = [np.random.RandomState(seed) for seed in seeds]
        how = (place, settings.n_anchors, watch, random_state, len(seeds))
        self._checkpoints = inner._checkpoints(*how)
        self._models = [
            replace(one.alone, anchors=saved.anchors) if saved and saved.resumes else one
            for one, saved in zip(
                place.learn(settings, self._states), self._checkpoints, strict=True
            )
        ]
        watch.begin(place.n, place.views.names, self._models[0].scalings, settings.n_anchors)

    def finish(self, n_jobs: int | None) -> list[Finished]:
        """Return the results of the runs in order; after Ctrl-C only of runs that had begun."""
        found = self._solve_all(n_jobs)
        return [
            (Predictor(one.alone, best.consensus), best, assignment)
            for one, (best, assignment) in zip(self._models, found, strict=False)
        ]

    def remove_checkpoints(self) -> None:
        for saved in self._checkpoints:
            if saved:
                saved.remove()

    def _solve_all(self, n_jobs: int | None) -> list[Optimised]:
        """Solve the runs in order; build the graphs of a run just before it.

        After Ctrl-C the runs in progress end after their current iteration, and no other begins.
        """
        built = self._place.build(self._models, self._settings)
        size = self._place.batch(self._settings)
        groups = zip(count(0, size), iter(lambda: list(islice(built, size)), []), strict=False)
        with self._watch.held():
            n_threads = self._default_threads() if n_jobs is None else effective_n_jobs(n_jobs)
            if n_threads > 1:
                return self._in_threads(groups, n_threads)
            found: list[Optimised] = []
            for first, some in groups:
                found += self._solve_batch(first, some)
                if self._place.team.any_stops(self._watch.interrupted):
                    break
            return found

    def _default_threads(self) -> int:
        """Return the number of runs to solve at once: small matrices keep one core busy each."""
        if not self._place.runs_in_threads or self._place.n > _MOST_SAMPLES:
            return 1
        has_few_anchors = self._settings.n_anchors < _MANY_ANCHORS
        return 1 if has_few_anchors else min(thread_count(), len(self._states))

    def _in_threads(
        self, groups: Iterator[tuple[int, Sequence[AbstractRows]]], n_threads: int
    ) -> list[Optimised]:
        """Solve the runs in threads; all threads have ended when this returns or raises."""
        found: dict[int, list[Optimised]] = {}
        lock = Lock()  # only one thread at a time may advance a generator

        def work() -> None:
            try:
                while not (found and self._watch.interrupted):
                    with lock:
                        one = next(groups, None)
                    if one is None:
                        return
                    with one_blas_thread():
                        found[one[0]] = self._solve_batch(*one)
            except BaseException:
                self._watch.interrupted = True
                raise

        with ThreadPoolExecutor(n_threads) as pool:
            try:
                jobs = [pool.submit(work) for _ in range(n_threads)]
                # Python handles signals in this thread, even if another thread received them.
                while wait(jobs, timeout=_SECONDS_BETWEEN_SIGNALS).not_done:
                    pass
                for job in jobs:
                    job.result()
            except BaseException:
                self._watch.interrupted = True
                raise
        return [one for first in sorted(found) for one in found[first]]

    def _solve_batch(self, first: int, batch: Sequence[AbstractRows]) -> list[Optimised]:
        """Solve the runs from number `first` on, one per set of rows."""
        rows = [self._followed(b, one) for b, one in enumerate(batch, start=first)]
        of_runs = slice(first, first + len(rows))
        models = [one.alone for one in self._models[of_runs]]
        arguments = list(zip(rows, models, self._states[of_runs], strict=True))
        found = self._inner._optimise(self._place, arguments, self._watch, runner_up=True)
        for b, (best, _) in enumerate(found, start=first + 1):
            details = (b, len(self._states), best.history[-1])
            self._watch.say(RUN_DONE, *details)
        return [(best, small(part, self._settings.n_clusters)) for best, part in found]

    def _followed(self, number: int, rows: AbstractRows) -> AbstractRows:
        """Return the rows of a run, with its checkpoint attached if there is one."""
        saved = self._checkpoints[number]
        arguments = (rows, self._models[number].anchors, self._states[number])
        return saved.follow(*arguments) if saved else rows


def small(assignment: Assignment, n_clusters: int) -> Assignment:
    """Return the assignment in the smallest integer types; on a device it stays unchanged."""
    if hasattr(assignment.labels, "cpu"):
        return assignment
    labels, second, share = (
        on_host(part) for part in (assignment.labels, assignment.second, assignment.share)
    )
    label_type = np.min_scalar_type(n_clusters - 1)
    return Assignment(labels.astype(label_type), 0, second.astype(label_type), share)


def solve_joint(
    place: Place,
    rows: AbstractRows,
    problem: Problem,
    n_clusters: int,
    random_state: np.random.RandomState,
    watch: FitMonitor,
) -> Optimised:
    """Solve the joint problem; with many clusters in a subspace of the graph."""
    StS = rows.gram()
    leading = rows.leading_eigenvectors(StS[0], n_clusters)
    if leading is not None or not subspace_pays(StS.shape[-1], problem):
        arguments = ("spectral", 1, StS[0], n_clusters, [random_state])
        (bases,) = starts(*arguments, lambda *_: leading)
        return best_of_starts(place, [bases], [rows], [StS], [problem], watch)[0]
    projected = ProjectedRows(rows, StS[0, 0], problem, n_clusters)
    how = ([[projected.start]], [projected], [projected.gram()], [problem], watch)
    ((solution, assignment),) = best_of_starts(place, *how)
    return projected.lifted(solution), assignment
