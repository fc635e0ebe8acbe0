"""Options that commands share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli.console import report_progress

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData
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
