"""`--runs`: how many runs a command joins, and what it says of that."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData

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


def joined(
    model: Any, asked: int | None, data: MultiViewData, seed: int, *, alone: bool
) -> tuple[Any, list[str]]:
    """The model, or several runs of it joined, and what was decided without being asked.

    Where the work is done elsewhere (`alone`) there is one run unless more are asked for.
    """
    notes = []
    if asked is None:
        asked = 1
        if not alone:
            asked, text = _usual(model, data)
            notes = [text]
    if asked == 1:
        return model, notes
    return omcal.Consensus(model, n_runs=asked, random_state=seed), notes


def _usual(model: Any, data: MultiViewData) -> tuple[int, str]:
    from sklearn.base import clone

    from omcal.cli.expected import expected_fit

    short = clone(model).set_params(max_iter=min(model.max_iter, _ITERATIONS))
    views = omcal.datasets.describe(data)["views"]
    seconds = _USUAL * expected_fit(short, views, mapped=False).seconds
    if seconds > _SECONDS:
        return 1, (
            f"one run; {_USUAL} joined (--runs {_USUAL}) depend less on the seed and would take "
            f"about {seconds:.0f} s"
        )
    return _USUAL, f"{_USUAL} runs are joined (--runs 1 for one)"
