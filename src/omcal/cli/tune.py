"""`omcal tune`: compare parameters without labels."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli import options
from omcal.cli.console import print_json, print_table, report_line, stdout
from omcal.cli.files import require_complete
from omcal.cli.parameters import takes
from omcal.cli.reading import Reading, reads

if TYPE_CHECKING:
    from omcal.select import Trial

_LISTED = 12

Numbers = Annotated[str, typer.Option(metavar="A,B", help="Values to try.")]
Fits = Annotated[int, typer.Option("--fits", min=2, help="Fits of each setting.")]


@takes("scale")
@reads(labels=False)
def tune(
    reading: Reading,
    clusters: options.Clusters,
    parameters: dict[str, Any],
    beta: Numbers = "0.1,0.3,1",
    gamma: Numbers = "0.001,0.1,1",
    extra_anchors: Numbers = "10,50",
    fits: Fits = 4,
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Compare parameters of OMCAL on FILE without labels.

    A setting is good where fits with other seeds to other parts of the samples agree (stability)
    and its clusters are well separated (silhouette). Labels in FILE are not read. This is not the
    search of the paper, which used the labels: that one is part of omcal reproduce.
    """
    given = options.cluster_number(clusters)
    data = reading.without_labels()
    require_complete(data, "omcal tune")
    n_clusters, suggestion = options.suggested(given, data, parameters, seed)
    grid: dict[str, list[float]] = {
        "beta": _numbers("--beta", beta),
        "gamma": _numbers("--gamma", gamma),
        "n_anchors": [n_clusters + int(m) for m in _numbers("--extra-anchors", extra_anchors)],
    }

    def show(trial: Trial) -> None:
        if not quiet:
            report_line(_line(trial))

    trials = omcal.select.tune_without_labels(
        data.views, n_clusters, grid, n_fits=fits, random_state=seed, progress=show, **parameters
    )
    if as_json:
        print_json(
            {
                "file": reading.source,
                "labels_used": False,
                "n_clusters": n_clusters,
                "suggestion": None if suggestion is None else suggestion.to_dict(),
                "trials": [_plain(t) for t in trials],
            }
        )
    elif not quiet:
        if suggestion is not None:
            stdout().print(f"{suggestion.sentence()}\n", soft_wrap=True)
        _show(reading, n_clusters, trials)


def _numbers(option: str, listed: str) -> list[float]:
    try:
        values = [float(word) for word in options.names(listed) or []]
    except ValueError as error:
        raise ValueError(f"{option} {listed!r} must be numbers, separated by commas.") from error
    if not values:
        raise ValueError(f"{option} is empty; give at least one number.")
    return values


def _line(trial: Trial) -> str:
    settings = ", ".join(f"{name} {value:g}" for name, value in trial.parameters.items())
    if trial.error:
        return f"{settings}: {trial.error}"
    return f"{settings}: stability {trial.stability:.3f}, silhouette {trial.silhouette:.3f}"


def _plain(trial: Trial) -> dict[str, object]:
    failed = bool(trial.error)
    return {
        "rank": trial.rank,
        **trial.parameters,
        "stability": None if failed else trial.stability,
        "silhouette": None if failed else trial.silhouette,
        "clusters_found": trial.clusters_found,
        "error": trial.error or None,
    }


def _show(reading: Reading, clusters: int, trials: list[Trial]) -> None:
    rows = [
        (
            str(trial.rank),
            *(f"{trial.parameters[name]:g}" for name in ("beta", "gamma", "n_anchors")),
            *(("failed", "") if trial.error else _scores(trial)),
        )
        for trial in trials[:_LISTED]
    ]
    header = ("rank", "beta", "gamma", "anchors", "stability", "silhouette")
    print_table("Settings, ranked without labels", header, rows)
    best = trials[0]
    if best.error:
        stdout().print("No setting could be fitted.")
        return
    words = " ".join(
        f"--{'anchors' if name == 'n_anchors' else name} {value:g}"
        for name, value in best.parameters.items()
    )
    files = shlex.join(reading.words())
    # Not wrapped: it is there to be copied.
    stdout().print(f"Next: omcal cluster {files} --clusters {clusters} {words}", soft_wrap=True)


def _scores(trial: Trial) -> tuple[str, str]:
    return f"{trial.stability:.3f}", f"{trial.silhouette:.3f}"
