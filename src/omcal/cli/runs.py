"""`--runs`: how many runs a command joins, and what it says of that."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from omcal import OMCAL

Runs = Annotated[
    int | None,
    typer.Option(
        "--runs",
        "-r",
        min=1,
        metavar="N",
        help="Join so many runs with other anchors into one result.",
        show_default="10 where that takes seconds, else 1",
    ),
]

_USUAL = 10
_SECONDS = 15.0  # that nobody minds
_ITERATIONS = 20  # of a usual run; estimates are for the most there can be


def runs_of_consensus(asked: int | None) -> int:
    """How many runs `--method consensus` joins."""
    if asked == 1:
        raise ValueError("--method consensus joins runs; give --runs 2 or more, or leave it out.")
    return asked or _USUAL


def usual_runs(model: OMCAL, views: Sequence[dict[str, Any]]) -> tuple[int, str]:
    """How many runs of views that `omcal.datasets.describe` described are joined, and a note."""
    from sklearn.base import clone

    from omcal.cli.expected import expected_fit

    short = clone(model).set_params(max_iter=min(model.max_iter, _ITERATIONS))
    seconds = expected_fit(short, views, mapped=False, n_runs=_USUAL).seconds
    if seconds > _SECONDS:
        return 1, (
            f"one run; {_USUAL} joined (--runs {_USUAL}) depend less on the seed and would take "
            f"about {seconds:.0f} s"
        )
    return _USUAL, f"{_USUAL} runs are joined (--runs 1 for one)"
