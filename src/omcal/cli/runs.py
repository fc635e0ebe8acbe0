"""The number of runs that a command combines into one result, and their estimated cost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal

if TYPE_CHECKING:
    from omcal import OMCAL, Consensus
    from omcal.datasets import MultiViewData
    from omcal.model.cost import Estimate


def _runs_option(text: str, default: str) -> Any:
    option = typer.Option(
        *("--runs", "-r", "--n-runs"), min=1, metavar="N", help=text, show_default=default
    )
    return Annotated[int | None, option]


Runs = _runs_option(
    "Number of runs, each with other anchors, to combine into one result.",
    "10 if they take seconds, else 1",
)
ConsensusRuns = _runs_option(
    "Number of runs that the method consensus combines; omcal is one run.", "10"
)

USUAL_RUNS = 10
_SECONDS = 15.0  # longest time of the usual runs together
_ITERATIONS = 20  # of a usual run; estimates are for max_iter of them


def chosen_runs(
    model: OMCAL, asked: int | None, data: MultiViewData, *, elsewhere: bool = False
) -> tuple[int, list[str]]:
    """Return the number of runs for a fit, and a note where the user left it open.

    There is one run by default on a GPU, with a checkpoint, and `elsewhere` (Dask, several
    processes): the time of ten is not estimated there.
    """
    if asked is not None:
        return asked, []
    if elsewhere or model.device != "cpu" or model.checkpoint is not None:
        return 1, []
    runs, note = usual_runs(model, omcal.datasets.describe(data)["views"])
    return runs, [note]


def combined(model: OMCAL, runs: int) -> OMCAL | Consensus:
    """Return the model that combines this number of runs of `model`."""
    if runs == 1:
        return model
    return omcal.Consensus(model, n_runs=runs, random_state=model.random_state)


def runs_of_consensus(asked: int | None) -> int:
    """Return the number of runs of the method `consensus`."""
    if asked == 1:
        raise ValueError("the method consensus combines runs; give --runs 2 or more.")
    return asked or USUAL_RUNS


def usual_runs(model: OMCAL, views: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """Return the default number of runs for views that `omcal.datasets.describe` described."""
    from sklearn.base import clone

    short = clone(model).set_params(max_iter=min(model.max_iter, _ITERATIONS))
    seconds = expected_fit(short, views, mapped=False, n_runs=USUAL_RUNS).seconds
    if seconds > _SECONDS:
        return 1, (
            f"one run; {USUAL_RUNS} combined (--runs {USUAL_RUNS}) are less sensitive to the seed "
            f"and would take about {seconds:.0f} s"
        )
    return USUAL_RUNS, f"{USUAL_RUNS} runs are combined (--runs 1 for one)"


def expected_fit(
    model: OMCAL, views: Sequence[dict[str, Any]], *, mapped: bool, n_runs: int
) -> Estimate:
    """Estimate `n_runs` runs for views that `omcal.datasets.describe` described.

    Memory-mapped views stay in their files, and the rows join them there where they are many.
    """
    from dataclasses import replace

    import numpy as np
    from sklearn.base import clone

    from omcal.machine.memory import available_memory

    if mapped and model.memory_limit is None:
        model = clone(model).set_params(memory_limit=available_memory() // 2)
    one = model.estimate(
        views[0]["shape"][0],
        [view["shape"][1] for view in views],
        dtype=np.result_type(*(np.dtype(view["dtype"]) for view in views)),
        density=[view["density"] for view in views],
    )
    return replace(one, n_runs=n_runs)


def estimate_record(expected: Estimate) -> dict[str, Any]:
    """Return the estimate as plain numbers."""
    from omcal.machine.memory import available_memory

    return {
        "n_anchors": expected.n_anchors,
        "n_runs": expected.n_runs,
        "rows_in": expected.rows_in,
        "bytes": round(expected.bytes),
        "bytes_available": available_memory(),
        "memory": {
            stage: {part: round(size) for part, size in parts.items()}
            for stage, parts in expected.memory.items()
        },
        "seconds_at_most": expected.seconds,
        "time": expected.time,
    }
