"""What happens beside a fit: progress in the log, callbacks, Ctrl-C, warnings about the result."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import copy
from types import FrameType
from typing import Any, Self, TextIO

import numpy as np

from omcal.machine.arrays import Floats
from omcal.machine.process import ProcessSetting
from omcal.machine.threads import blas_as_before, small_blas
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.scaling import Scaling
from omcal.method.solver import Problem, Solution, run_interleaved, solve_steps

logger: logging.Logger = logging.getLogger("omcal")

ITERATION_DONE = "start %d, iteration %d: objective %.8g"
RUN_DONE = "run %d of %d: objective %.8g"


class FitTasks:
    """The fit as callbacks see it: a task for each start, and in it one for each iteration."""

    def __init__(self, estimator: Any, X: Any, y: Any, n_starts: int) -> None:
        self._hook = {"estimator": estimator, "X": X, "y": y}
        self._context: Any = _NoCallbacks()
        if hasattr(estimator, "_skl_callbacks"):
            self._context = estimator._init_callback_context(max_subtasks=n_starts)
        self._context.call_on_fit_task_begin(**self._hook)

    def start(self, max_iter: int) -> StartTask:
        return StartTask(self._context.subcontext("start", max_subtasks=max_iter), self._hook)

    def end(self) -> None:
        """The estimator is fitted."""
        self._context.call_on_fit_task_end(**self._hook, reconstruction_attributes={})


class StartTask:
    """One start of the solver."""

    def __init__(self, context: Any, hook: dict[str, Any]) -> None:
        self._context, self._hook = context, hook
        context.call_on_fit_task_begin(**hook)
        self._begin()

    def _begin(self) -> None:
        self._iteration = self._context.subcontext("iteration")
        self._iteration.call_on_fit_task_begin(**self._hook)

    def iterated(self, iteration: int) -> bool:
        """Tell the end of an iteration; returns whether a callback wants no more of them."""
        stop = self._iteration.call_on_fit_task_end(**self._hook)
        self._iteration = None
        if not stop and iteration != self._context.max_subtasks:
            self._begin()
        return bool(stop)

    def end(self) -> bool:
        """Tell the end of the start; returns whether a callback wants no more starts."""
        if self._iteration is not None:  # it was announced, but the solver had converged
            self._iteration.call_on_fit_task_end(**self._hook)
        return bool(self._context.call_on_fit_task_end(**self._hook))


class _NoCallbacks:
    """Stands for a context where no callback is set."""

    max_subtasks = 0

    def subcontext(self, *args: Any, **kwargs: Any) -> _NoCallbacks:
        return self

    def call_on_fit_task_begin(self, **kwargs: Any) -> None: ...

    def call_on_fit_task_end(self, **kwargs: Any) -> bool:
        return False


class Interruption:
    """Remembers the first Ctrl-C in its blocks; the second interrupts at once.

    Examples
    --------
    >>> interruption = Interruption()
    >>> with interruption.held():
    ...     interruption.asked
    False
    """

    def __init__(self) -> None:
        self.asked: bool = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold Ctrl-C back in the block, unless someone else already decides what it does."""
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
        finally:  # it runs the handler of a Ctrl-C that has just come, and then sets nothing
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            signal.default_int_handler(number, frame)
        self.asked = True
        logger.warning("ending after this iteration; Ctrl-C again ends at once")


@contextmanager
def plain_interrupts() -> Iterator[None]:
    """Ctrl-C is a KeyboardInterrupt, where compiled code makes a SystemError of it, too.

    Blocks that it cuts short where they end leave no trace.
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


class FitMonitor:
    """Who looks on while a fit works: the log, callbacks, and whoever presses Ctrl-C."""

    def __init__(self, estimator: Any, X: Any, y: Any) -> None:
        self.say: Callable[..., None] = reporter(estimator.verbose)
        self._max_iter = estimator.max_iter
        self._tasks = FitTasks(estimator, X, y, estimator._n_starts)
        self._interruption = Interruption()

    @property
    def interrupted(self) -> bool:
        return self._interruption.asked

    def held(self) -> AbstractContextManager[None]:
        """Around iterations: Ctrl-C ends them with the one in progress."""
        return self._interruption.held()

    def stop(self) -> None:
        """End all iterations with the one in progress, as Ctrl-C does."""
        self._interruption.asked = True

    def renewed(self) -> Self:
        """Return a monitor for further work, which an earlier Ctrl-C does not cut short."""
        other = copy(self)
        other._interruption = Interruption()
        return other

    def begin(
        self, n: int, names: Sequence[str], scalings: Sequence[Scaling], n_anchors: int
    ) -> None:
        """Say what will be clustered, and what is done to its views."""
        self.say("%d samples in %d views tied to %d anchors", n, len(names), n_anchors)
        for name, scaling in zip(names, scalings, strict=True):
            self.say("view %r is scaled as %s", name, scaling.kind)

    def goes_on(self, n_passes: int, path: object) -> None:
        """Say that a checkpoint was found."""
        self.say("going on after %d passes in %s", n_passes, path)

    def start(self) -> StartTask:
        """One start of the solver begins."""
        return self._tasks.start(self._max_iter)

    def progress(
        self, run: int, task: StartTask, agree: Callable[[bool], bool]
    ) -> Callable[[int, float], bool]:
        """What the solver tells after each iteration; true, if all agree, ends the start."""

        def progress(iteration: int, value: float) -> bool:
            self.say(ITERATION_DONE, run, iteration, value, detail=2)
            return agree(task.iterated(iteration) or self.interrupted)

        return progress

    def end(self) -> None:
        """The estimator is fitted."""
        self._tasks.end()


class _ProgressHandler(logging.StreamHandler[TextIO]):
    """Shows progress where the user has set up no logging."""


def _show_progress() -> None:
    if not logger.hasHandlers():
        logger.addHandler(_ProgressHandler())
    if logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)


def _show_as_before(level: int) -> None:
    logger.setLevel(level)
    for handler in list(logger.handlers):
        if isinstance(handler, _ProgressHandler):
            logger.removeHandler(handler)


_SHOWN = ProcessSetting(lambda: logger.level, _show_progress, _show_as_before)


def shown(verbose: int) -> AbstractContextManager[None]:
    """Make what `reporter` sends visible, in the block."""
    return _SHOWN.held() if verbose else nullcontext()


def reporter(verbose: int) -> Callable[..., None]:
    """Send progress to the logger, for the user from verbose=1 on, each iteration from 2 on."""

    def say(message: str, *args: Any, detail: int = 1) -> None:
        logger.log(logging.INFO if verbose >= detail else logging.DEBUG, message, *args)

    return say


Optimised = tuple[Solution, Assignment]


def best_of(
    bases: Iterable[Floats],
    rows: AbstractRows,
    StS: Floats,
    problem: Problem,
    watch: FitMonitor,
    *,
    runner_up: bool = False,
) -> Generator[None, None, Optimised]:
    """The best of the solver's results from these starts, and its labels; see `solve_steps`."""
    best: Optimised | None = None
    for run, G in enumerate(bases, start=1):
        task = watch.start()
        progress = watch.progress(run, task, rows.agree)
        solution = yield from solve_steps(rows, StS, G, problem, progress)
        if best is None or solution.history[-1] < best[0].history[-1]:
            Z = solution.consensus
            # Labels while the rows still hold this run's F: the last F step of Algorithm 1.
            best = solution, rows.assign(Z.alpha, *Z.f_step(), Z.G, runner_up=runner_up)
        if rows.agree(task.end() or watch.interrupted):
            break
    assert best is not None
    return best


def run_all(
    works: Sequence[Generator[None, None, Optimised]], n_anchors: int, watch: FitMonitor
) -> list[Optimised]:
    """What these come to, an iteration of each in turn."""
    with small_blas(n_anchors), watch.held():
        return run_interleaved(works)
