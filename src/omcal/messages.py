"""What a fit tells its user: progress in the log, and warnings about the result."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omcal.callbacks import StartTask
from omcal.interruption import Interruption

logger = logging.getLogger("omcal")


def reporter(verbose: int) -> Callable[..., None]:
    """Send progress to the logger: visible from verbose=1 on, each iteration from verbose=2 on."""
    if verbose and not logger.hasHandlers():
        logger.addHandler(logging.StreamHandler())
    if verbose and logger.getEffectiveLevel() > logging.INFO:
        logger.setLevel(logging.INFO)

    def say(message: str, *args: Any, detail: int = 1) -> None:
        logger.log(logging.INFO if verbose >= detail else logging.DEBUG, message, *args)

    return say


def progress_of(
    say: Callable[..., None], run: int, task: StartTask, interruption: Interruption
) -> Callable[[int, float], bool]:
    """Progress of a start for the solver: to the log and the callbacks; true ends the start."""

    def progress(iteration: int, value: float) -> bool:
        say("start %d, iteration %d: objective %.8g", run, iteration, value, detail=2)
        return task.iterated(iteration) or interruption.asked

    return progress


def warn_about_result(model: Any) -> None:
    """Warn of what a user would want to know of a fit before using it."""
    for name, anchors in zip(model.view_names_, model.anchors_, strict=True):
        if (anchors == anchors[0]).all():
            warnings.warn(
                f"view {name!r} is the same for all samples after scaling, and says nothing "
                "about clusters; leave it out.",
                UserWarning,
                stacklevel=3,
            )
    # A callback may have stopped it earlier, which is no surprise to its user.
    if not model.converged_ and model.n_iter_ == model.max_iter:
        warnings.warn(
            f"the objective still changes by more than tol={model.tol:g} after "
            f"max_iter={model.max_iter} iterations; raise max_iter or tol.",
            ConvergenceWarning,
            stacklevel=3,
        )
    unique = getattr(model.labels_, "unique", None)  # of a tensor
    found = len(unique() if unique else np.asarray(np.unique(model.labels_)))
    if found < model.n_clusters:
        warnings.warn(
            f"only {found} of n_clusters={model.n_clusters} clusters hold samples; lower "
            "n_clusters, raise n_init, or change beta or n_anchors.",
            ConvergenceWarning,
            stacklevel=3,
        )
