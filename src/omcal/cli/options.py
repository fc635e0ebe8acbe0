"""Options that commands share; defaults are those of the estimator."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from omcal import OMCAL

DEFAULTS: dict[str, Any] = OMCAL().get_params()


class Scale(StrEnum):
    """What the estimator's `scale` takes, with a word for None."""

    feature = "feature"
    sample = "sample"
    view = "view"
    none = "none"

    @property
    def parameter(self) -> str | None:
        return None if self is Scale.none else self.value


class AnchorsBy(StrEnum):
    """What the estimator's `anchors` takes by name."""

    kmeans = "kmeans"
    kmeans_full = "kmeans-full"
    random = "random"


class Init(StrEnum):
    """What the estimator's `init` takes by name."""

    spectral = "spectral"
    random = "random"


class Weighting(StrEnum):
    """What the estimator's `weighting` takes by name."""

    adaptive = "adaptive"
    agreement = "agreement"
    uniform = "uniform"


DataFile = Annotated[Path, typer.Argument(metavar="FILE", help="The views, in one file.")]
ViewNames = Annotated[
    str | None, typer.Option("--views", metavar="A,B", help="Use these views only.")
]
LabelName = Annotated[
    str | None, typer.Option("--labels", metavar="NAME", help="Where in FILE the classes are.")
]
Clusters = Annotated[int, typer.Option("--clusters", help="Number of clusters.")]
ClustersOrAuto = Annotated[
    str,
    typer.Option(
        "--clusters", metavar="N|auto", help="Number of clusters; auto: suggested by the data."
    ),
]
Anchors = Annotated[
    int | None, typer.Option("--anchors", help="Number of anchors; by default set by n.")
]
AnchorsByOption = Annotated[
    AnchorsBy,
    typer.Option("--anchors-by", help="How anchors are chosen; kmeans-full: from all rows."),
]
Neighbors = Annotated[int, typer.Option("--neighbors", help="Nearest anchors of a sample.")]
Beta = Annotated[float, typer.Option("--beta", help="Weight of the nuclear norm.")]
Gamma = Annotated[float, typer.Option("--gamma", help="Weight of the factorisation.")]
ScaleOption = Annotated[Scale, typer.Option("--scale", help="How views are scaled.")]
WeightingOption = Annotated[Weighting, typer.Option("--weighting", help="How views are weighted.")]
InitOption = Annotated[Init, typer.Option("--init", help="Where the iterations start.")]
Starts = Annotated[
    int, typer.Option("--n-init", help="Starts, random after the first; the best is kept.")
]
Iterations = Annotated[int, typer.Option("--max-iter", help="Most iterations of each start.")]
Accelerate = Annotated[
    bool, typer.Option("--accelerate", help="About the same objective in fewer iterations.")
]
Device = Annotated[
    str, typer.Option("--device", help="cpu, or a device of PyTorch: cuda, cuda:0,cuda:1 …")
]
Tolerance = Annotated[float, typer.Option("--tol", help="Relative change to stop at.")]
Seed = Annotated[
    int, typer.Option("--seed", min=0, max=2**32 - 1, help="Seed of the random numbers.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of tables.")]
Quiet = Annotated[bool, typer.Option("--quiet", help="Print nothing but warnings and errors.")]


def names(listed: str | None) -> list[str] | None:
    """The members of "a,b"; None where nothing is listed.

    Examples
    --------
    >>> names("pixels, edges")
    ['pixels', 'edges']
    """
    if listed is None:
        return None
    return [name.strip() for name in listed.split(",") if name.strip()]


def cluster_count(given: str) -> int | None:
    """What --clusters says; None where it is to be found.

    Examples
    --------
    >>> cluster_count("10"), cluster_count("auto")
    (10, None)
    """
    if given == "auto":
        return None
    try:
        return int(given)
    except ValueError as error:
        raise ValueError(f"--clusters {given!r} must be a number, or auto.") from error
