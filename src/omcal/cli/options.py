"""Options that commands share, and the number of runs that they combine into one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli.console import report_progress

if TYPE_CHECKING:
    from omcal import OMCAL, Consensus
    from omcal.datasets import MultiViewData
    from omcal.model.cost import Estimate
    from omcal.select import ClusterNumber

ViewNames = Annotated[
    str | None, typer.Option("--views", "-v", metavar="A,B", help="Use these views only.")
]
Clusters = Annotated[
    str,
    typer.Option(
        "--clusters",
        "-c",
        "--n-clusters",
        "-k",
        metavar="N|auto",
        help="Number of clusters; auto, or left out: suggested by the data.",
    ),
]
Seed = Annotated[
    int,
    typer.Option(
        *("--seed", "-s", "--random-state"),
        min=0,
        max=2**32 - 1,
        metavar="N",
        help="Seed of the random numbers.",
    ),
]
Json = Annotated[
    bool, typer.Option("--json", "-j", help="Print one JSON object instead of tables.")
]
Certainty = Annotated[
    bool | None,
    typer.Option(
        "--certainty/--no-certainty",
        help="With --out: add the probability of the cluster, and the second choice.",
        show_default="certainty",
    ),
]
Quiet = Annotated[
    bool, typer.Option("--quiet", "-q", help="Print nothing but warnings and errors.")
]
USUAL_RUNS = 10
_SECONDS = 15.0  # longest time of the usual runs together
_ITERATIONS = 20  # of a usual run; estimates are for max_iter of them


def names(listed: str | None) -> list[str] | None:
    """Return the members of "a,b"; None if nothing is listed.

    Examples
    --------
    >>> names("pixels, edges")
    ['pixels', 'edges']
    """
    if listed is None:
        return None
    return [name.strip() for name in listed.split(",") if name.strip()]


def cluster_number(given: str) -> int | None:
    """Return the number of clusters that --clusters gives; None for "auto".

    Examples
    --------
    >>> cluster_number("10"), cluster_number("auto")
    (10, None)
    """
    if given.lower() == "auto":
        return None
    try:
        return int(given)
    except ValueError as error:
        raise ValueError(f"--clusters {given!r} must be a whole number, or auto.") from error


def suggested(
    number: int | None, data: MultiViewData, parameters: Mapping[str, Any], seed: int
) -> tuple[int, ClusterNumber | None]:
    """Return the number of clusters, or the one that the data suggest, with the reason."""
    if number is not None:
        return number, None
    same = {name: parameters[name] for name in ("scale", "weighting") if name in parameters}
    found = omcal.select.n_clusters(data.views, random_state=seed, progress=report_progress, **same)
    return found.suggestion, found


def with_scales(parameters: Mapping[str, Any], data: MultiViewData) -> dict[str, Any]:
    """Return the parameters of OMCAL with `scale` as it takes it, for the views of `data`.

    A view without a word, or with "auto", takes the one of its source (`MultiViewData.scales`).
    """
    whole, single = parse_scale(parameters.get("scale", "auto"))
    unknown = [view for view in single if view not in data.views]
    if unknown:
        available = ", ".join(map(repr, data.views))
        raise ValueError(f"--scale names the view {unknown[0]!r}; available: {available}.")
    others = data.scales if whole == "auto" else {}
    words = {view: single.get(view, others.get(view, whole)) for view in data.views}
    scales = {view: None if word == "none" else word for view, word in words.items()}
    same = len(set(scales.values())) == 1
    return {**parameters, "scale": next(iter(scales.values())) if same else scales}


def parse_scale(text: str) -> tuple[str, dict[str, str]]:
    """Return the word for all views, and those for single views by name.

    Examples
    --------
    >>> parse_scale("log")
    ('log', {})
    >>> parse_scale("standard,rna=log,image=none")
    ('standard', {'rna': 'log', 'image': 'none'})
    """
    from omcal.method.scaling import SCALES

    allowed = ["none" if scale is None else scale for scale in SCALES]
    found: dict[str, str] = {}
    for part in names(text) or []:
        view, _, word = part.rpartition("=")
        if word not in allowed:
            raise ValueError(f"--scale {word!r} is unknown; use one of {', '.join(allowed)}.")
        if view in found:
            what = f"names the view {view!r} twice" if view else "has two words for all views"
            raise ValueError(f"--scale {text!r} {what}; give one, or VIEW=WORD.")
        found[view] = word
    return found.pop("", "auto"), found


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
