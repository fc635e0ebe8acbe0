"""`omcal explain`: the effect of each view on the clusters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli import options
from omcal.cli.console import collected_warnings, fit_progress, print_table, stdout
from omcal.cli.options import PARAMETERS, Runs, chosen_runs, combined, takes, with_scales
from omcal.cli.outputs import require_ending, require_writable
from omcal.cli.reading import Reading, reads, remarks, suggested

if TYPE_CHECKING:
    from omcal.model.feature_effects import ClusterDescription
    from omcal.model.view_effects import ViewExplanation

Resamples = Annotated[
    int,
    typer.Option(
        "--resamples", "--n-resamples", min=0, help="Number of bootstrap samples for the ranges."
    ),
]
ClustersTable = Annotated[
    bool,
    typer.Option("--clusters-table", help="List the features that distinguish each cluster, too."),
]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", metavar="FILE", help="Draw the result: .png, .pdf or .svg.")
]


@takes(*(name for name in PARAMETERS if name != "checkpoint"))
@reads("labels")
def explain(
    reading: Reading,
    parameters: dict[str, Any],
    clusters: options.Clusters = "auto",
    plot: PlotFile = None,
    clusters_table: ClustersTable = False,
    resamples: Resamples = 5,
    runs: Runs = None,
    seed: options.Seed = 0,
) -> None:
    """Cluster FILE and describe the effect of each view.

    Shows the weight of each view, and how the clusters change without it. Labels in FILE are not
    read. The clusters are those of `omcal cluster` with the same options.
    """
    if plot is not None:
        require_writable(plot, reading.inputs, "--plot")
        require_ending(plot, "--plot", (".png", ".pdf", ".svg"))
    given = options.cluster_number(clusters)
    data = reading.load(labels=False)
    parameters = with_scales(parameters, data)
    n_clusters, suggestion = suggested(given, data, parameters, seed)
    one = omcal.OMCAL(n_clusters, random_state=seed, **parameters)
    runs, decided = chosen_runs(one, runs, data)
    model = combined(one, runs)
    shown = not (reading.quiet or reading.as_json)
    with collected_warnings() as notes, fit_progress(model, shown=shown):
        model.fit(data.views)
        found = model.explain_views(data.views, n_resamples=resamples, random_state=seed)
        described = model.describe_clusters(data.views) if clusters_table else None
    if plot is not None:
        _draw(found, plot)
    result: dict[str, Any] = {
        "parameters": one.get_params(),
        "n_runs": runs,
        "stability": getattr(model, "stability_", None),
        **found.to_dict(),
        **({} if described is None else {"clusters": described.to_dict()}),
        "notes": [*remarks(data), *decided],
        "fit_warnings": notes,
        "suggestion": suggestion,
    }
    reading.print(result, lambda _: _show(found, described))


def _draw(found: ViewExplanation, path: Path) -> None:
    from omcal.machine.files import replacing
    from omcal.plots.clusters import view_effects

    figure: Any = view_effects(found).figure
    with replacing(path) as temporary:
        figure.savefig(temporary, format=path.suffix.lower().removeprefix(".") or "png", dpi=150)


def _show(found: ViewExplanation, described: ClusterDescription | None) -> None:
    header, *rows = found._table()
    print_table("Views", header, rows)
    by_cluster = [
        (str(cluster), str(size), *(f"{v.agreement_by_cluster[cluster]:.2f}" for v in found.views))
        for cluster, size in enumerate(found.cluster_sizes)
    ]
    names = [view.name for view in found.views]
    print_table("Agreement by cluster", ("cluster", "samples", *names), by_cluster)
    stdout().print(*found.remarks(), sep="\n", soft_wrap=True)
    if described is not None:
        header, *rows = described._table()
        print_table("What makes each cluster", header, rows)
        stdout().print(*described.remarks(), sep="\n", soft_wrap=True)
