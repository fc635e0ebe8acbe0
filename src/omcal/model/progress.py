"""Progress of a fit: log, callbacks, Ctrl-C; and the choice of the best start."""

from __future__ import annotations

import logging
import signal
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import wraps
from types import FrameType
from typing import Any

import numpy as np

from omcal.machine.arrays import Floats
from omcal.machine.threads import blas_as_before, map_blocks, one_blas_thread, small_blas
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.scaling import Scaling
from omcal.method.solver import Problem, Progress, Solution
from omcal.places.base import Place, Start

logger: logging.Logger = logging.getLogger("omcal")

ITERATION_DONE = "start %d, iteration %d: objective %.8g"
RESUMED = "continuing after %d passes in %s"
RUN_DONE = "run %d of %d: objective %.8g"


def tell(message: str, *args: Any, shown: bool, level: int = logging.INFO) -> None:
    """Log a message; print it if `shown` and the user has not configured logging for it."""
    logger.log(level, message, *args)
    if shown and not (logger.hasHandlers() and logger.isEnabledFor(level)):
        sys.stderr.write(f"{message % args}\n")


class StartTask:
    """One start of the solver as a task for callbacks; each iteration is a subtask."""

    def __init__(self, context: Any, hook: dict[str, Any]) -> None:
        self._context, self._hook = context, hook
        context.call_on_fit_task_begin(**hook)
        self._begin()

    def _begin(self) -> None:
        self._iteration = self._context.subcontext("iteration")
        self._iteration.call_on_fit_task_begin(**self._hook)

    def iterated(self, iteration: int) -> bool:
        """Announce the end of an iteration; return whether a callback wants to stop."""
        stop = self._iteration.call_on_fit_task_end(**self._hook)
        self._iteration = None
        if not stop and iteration != self._context.max_subtasks:
            self._begin()
        return bool(stop)

    def end(self) -> bool:
        """Announce the end of the start; return whether a callback wants no more starts."""
        if self._iteration is not None:  # announced, but the solver had converged
            self._iteration.call_on_fit_task_end(**self._hook)
        return bool(self._context.call_on_fit_task_end(**self._hook))


class _NoCallbacks:
    """The context if no callback is set."""

    max_subtasks = 0

    def subcontext(self, *args: Any, **kwargs: Any) -> _NoCallbacks:
        return self

    def call_on_fit_task_begin(self, **kwargs: Any) -> None: ...

    def call_on_fit_task_end(self, **kwargs: Any) -> bool:
        return False


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Raise KeyboardInterrupt for Ctrl-C, even if compiled code turns it into a SystemError.

    Settings of NumPy and BLAS are restored if it interrupts a block that would restore them.
    """
    try:
        with np.errstate(), blas_as_before():
            yield
    except SystemError as error:
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, KeyboardInterrupt):
                raise KeyboardInterrupt from error
            cause = cause.__cause__ or cause.__context__
        raise


def all_or_nothing(method: Callable[..., Any]) -> Callable[..., Any]:
    """Decorate a method so that attributes are restored if it fails or is interrupted."""

    @wraps(method)
    def guarded(self: Any, *args: Any, **kwargs: Any) -> Any:
        before = dict(vars(self))
        try:
            return method(self, *args, **kwargs)
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    return guarded


class FitMonitor:
    """Connect a fit to the log, to callbacks and to Ctrl-C.

    The first Ctrl-C in the block of `held`, or setting `interrupted`, ends all starts after the
    current iteration; the second Ctrl-C interrupts at once.
    """

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.interrupted: bool = False
        self._verbose, self._max_iter = estimator.verbose, estimator.max_iter
        self._hook = {"estimator": estimator, "X": X, "y": y}
        self._context: Any = _NoCallbacks()  # context of the tasks for callbacks
        if hasattr(estimator, "_skl_callbacks"):
            self._context = estimator._init_callback_context(max_subtasks=estimator._n_starts)
        self._context.call_on_fit_task_begin(**self._hook)

    def say(self, message: str, *args: Any, detail: int = 1) -> None:
        """Log progress; print it from verbose=1 on, iterations from verbose=2 on."""
        shown = self._verbose >= detail
        tell(message, *args, shown=shown, level=logging.INFO if shown else logging.DEBUG)

    @contextmanager
    def held(self) -> Iterator[None]:
        """Delay Ctrl-C in the block, unless another handler is installed."""
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        try:
            try:
                signal.signal(signal.SIGINT, self._ask)
                yield
            finally:
                signal.signal(signal.SIGINT, signal.default_int_handler)
        finally:  # this call runs the handler of a pending Ctrl-C, and then sets nothing
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.interrupted:
            signal.default_int_handler(number, frame)
        self.interrupted = True
        logger.warning("ending after this iteration; Ctrl-C again ends at once")

    def begin(
        self, n: int, names: Sequence[str], scalings: Sequence[Scaling], n_anchors: int
    ) -> None:
        """Log the size of the problem and the scaling of each view."""
        self.say("%d samples in %d views tied to %d anchors", n, len(names), n_anchors)
        for name, scaling in zip(names, scalings, strict=True):
            self.say("view %r is scaled as %s", name, scaling.kind)

    def start(self) -> StartTask:
        """Announce a start of the solver."""
        context = self._context.subcontext("start", max_subtasks=self._max_iter)
        return StartTask(context, self._hook)

    def progress(self, number: int, task: StartTask, any_stops: Callable[[bool], bool]) -> Progress:
        """Return the function that the solver calls after each iteration of a start."""

        def progress(iteration: int, value: float) -> bool:
            self.say(ITERATION_DONE, number, iteration, value, detail=2)
            return any_stops(task.iterated(iteration) or self.interrupted)

        return progress

    def end(self) -> None:
        """Announce that the estimator is fitted."""
        self._context.call_on_fit_task_end(**self._hook, reconstruction_attributes={})


Optimised = tuple[Solution, Assignment]


def best_of_starts(
    place: Place,
    bases: Sequence[Sequence[Floats]],
    rows: Sequence[AbstractRows],
    grams: Sequence[Floats],
    problems: Sequence[Problem],
    watch: FitMonitor,
    *,
    runner_up: bool = False,
) -> list[Optimised]:
    """Solve each run of a batch from each of its bases; return the best solution and its labels."""
    best: dict[int, Optimised] = {}
    going = list(range(len(rows)))
    # Between the steps of a batch on a device, threads of the host would wake for each product: ten
    # runs of 500 anchors would take 1.5 times as long.
    limit = one_blas_thread() if len(rows) > 1 else small_blas(grams[0].shape[-1])
    with limit, watch.held():
        for number, of_start in enumerate(zip(*bases, strict=True), start=1):
            tasks = {b: watch.start() for b in going}
            starts = [
                Start(rows[b], grams[b], of_start[b], problems[b],
                      watch.progress(number, tasks[b], place.team.any_stops))
                for b in going
            ]  # fmt: skip
            solutions = place.solve(starts)
            for b, solution, (P, R) in zip(going, solutions, _f_steps(solutions), strict=True):
                if b not in best or solution.history[-1] < best[b][0].history[-1]:
                    Z = solution.consensus
                    # The rows hold the F of this start: do the last F step of Algorithm 1.
                    labels = rows[b].assign(Z.alpha, P, R, Z.G, runner_up=runner_up)
                    best[b] = solution, labels
            any_stops = place.team.any_stops
            going = [b for b in going if not any_stops(tasks[b].end() or watch.interrupted)]
            if not going:
                break
    return [best[b] for b in range(len(rows))]


def _f_steps(solutions: Sequence[Solution]) -> list[tuple[Floats, Floats]]:
    """Return `ConsensusGraph.f_step` of each solution; those of a batch in threads."""
    return map_blocks(lambda one: solutions[one.start].consensus.f_step(), len(solutions), 1)
