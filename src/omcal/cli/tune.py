"""`omcal tune`: compare parameters without labels."""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli import options
from omcal.cli.console import print_table, report_line, stdout
from omcal.cli.options import with_scales
from omcal.cli.reading import Reading, reads, remarks, suggested

if TYPE_CHECKING:
    from omcal.select import Trial

_LISTED = 12

Numbers = Annotated[str, typer.Option(metavar="A,B", help="Values to try, separated by commas.")]
Words = Annotated[str, typer.Option(metavar="A,B", help="Words to try, separated by commas.")]
Fits = Annotated[int, typer.Option("--fits", "--n-fits", min=2, help="Number of fits per setting.")]


@reads("labels")
def tune(
    reading: Reading,
    clusters: options.Clusters = "auto",
    scale: Words = "auto,standard,sample",
    weighting: Words = "distinct,adaptive",
    anchors_per_cluster: Numbers = "3,5,10",
    beta: Numbers = "0.3",
    gamma: Numbers = "0.1",
    fits: Fits = 4,
    seed: options.Seed = 0,
) -> None:
    """Compare parameters of OMCAL on FILE without labels.

    The columns of the table: stability is the agreement of fits with other seeds to other parts of
    the samples; "in the views" is the share of the graphs of the views that the clusters explain;
    silhouette measures how well the clusters are separated. Each fit is one run. Labels in FILE are
    not read. On labelled sets the setting that ranks first was hardly better than the defaults.
    """
    given = options.cluster_number(clusters)
    data = reading.load(labels=False)
    n_clusters, suggestion = suggested(given, data, with_scales({}, data), seed)
    per_cluster = parse_numbers("--anchors-per-cluster", anchors_per_cluster)
    grid: dict[str, list[Any]] = {
        "scale": [
            with_scales({"scale": word}, data)["scale"] for word in options.names(scale) or ["auto"]
        ],
        "weighting": options.names(weighting) or ["distinct"],
        "n_anchors": [max(round(m * n_clusters), n_clusters + 1, 6) for m in per_cluster],
        "beta": parse_numbers("--beta", beta),
        "gamma": parse_numbers("--gamma", gamma),
    }
    trials = omcal.select.tune_without_labels(
        data.views,
        n_clusters,
        grid,
        n_fits=fits,
        random_state=seed,
        progress=lambda trial: None if reading.quiet else report_line(_progress_line(trial)),
    )
    result = {
        "labels_used": False,
        "n_clusters": n_clusters,
        "suggestion": suggestion,
        "trials": [_as_dict(t) for t in trials],
        "notes": remarks(data),
    }
    reading.print(result, lambda _: _show(reading, n_clusters, trials))


def parse_numbers(option: str, text: str, kind: type = float) -> list[Any]:
    """Return the numbers of an option whose values are separated by commas."""
    values = []
    for word in options.names(text) or []:
        try:
            values.append(kind(word))
        except ValueError as error:
            whole = "whole " if kind is int else ""
            raise ValueError(f"{option}: {word!r} must be a {whole}number.") from error
    if not values:
        raise ValueError(f"{option} is empty; give at least one number.")
    return values


def _progress_line(trial: Trial) -> str:
    settings = ", ".join(f"{name} {_text(value)}" for name, value in trial.parameters.items())
    if trial.error:
        return f"{settings}: {trial.error}"
    return f"{settings}: stability {trial.stability:.3f}, in the views {trial.in_views:.3f}"


def _text(value: Any) -> str:
    if isinstance(value, dict):  # "auto" for data whose source states the scaling of some views
        return "auto"
    return "none" if value is None else value if isinstance(value, str) else f"{value:g}"


def _as_dict(trial: Trial) -> dict[str, object]:
    scores = {name: getattr(trial, name) for name in ("stability", "silhouette", "explained")}
    return {
        "rank": trial.rank,
        **trial.parameters,
        **(dict.fromkeys(scores) if trial.error else scores),
        "clusters_found": trial.clusters_found,
        "error": trial.error or None,
    }


def _show(reading: Reading, clusters: int, trials: list[Trial]) -> None:
    rows = [
        (
            str(trial.rank),
            *(_text(value) for value in trial.parameters.values()),
            *(("failed", "", "") if trial.error else (f"{score:.3f}" for score in scores)),
        )
        for trial in trials[:_LISTED]
        for scores in [(trial.stability, trial.in_views, trial.silhouette)]
    ]
    titles = (name.removeprefix("n_") for name in trials[0].parameters)
    header = ("rank", *titles, "stability", "in the views", "silhouette")
    print_table("Settings, ranked without labels", header, rows)
    best = trials[0]
    if best.error:
        stdout().print("No setting could be fitted.")
        return
    words = " ".join(
        f"--{name.removeprefix('n_')} {_text(value)}" for name, value in best.parameters.items()
    )
    files = shlex.join(reading.words())
    # Not wrapped, so that it can be copied.
    stdout().print(f"Next: omcal cluster {files} --clusters {clusters} {words}", soft_wrap=True)
