"""scikit-learn's callbacks (from its version 1.9 on) around the starts and iterations of a fit."""

from __future__ import annotations

from typing import Any

try:
    from sklearn.callback import CallbackSupportMixin, with_callbacks
except ImportError:

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Older versions have nothing to support."""

    def with_callbacks(method: Any) -> Any:
        """The method as it is."""
        return method


__all__ = ["CallbackSupportMixin", "FitTasks", "StartTask", "with_callbacks"]


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
