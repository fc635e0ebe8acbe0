"""`omcal explain`: what each view of a file does in its clustering."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from omcal import OMCAL, __version__
from omcal.cli import options
from omcal.cli.console import collected_warnings, fit_progress, print_json, print_table, stdout
from omcal.cli.files import require_writable
from omcal.cli.options import DEFAULTS
from omcal.datasets import load_views
from omcal.machine.files import replacing
from omcal.model import describe
from omcal.model.describe import ClusterDescription
from omcal.model.view_effects import COLUMNS, ViewExplanation, table_row

Resamples = Annotated[
    int, typer.Option("--resamples", min=0, help="Bootstrap samples for the ranges.")
]
ClustersTable = Annotated[
    bool,
    typer.Option("--clusters-table", help="List the features that distinguish each cluster, too."),
]
PlotFile = Annotated[
    Path | None, typer.Option("--plot", metavar="PNG", help="Draw the result into this file.")
]


def explain(
    file: options.DataFile,
    clusters: options.Clusters,
    plot: PlotFile = None,
    clusters_table: ClustersTable = False,
    resamples: Resamples = 5,
    views: options.ViewNames = None,
    anchors: options.Anchors = DEFAULTS["n_anchors"],
    neighbors: options.Neighbors = DEFAULTS["n_neighbors"],
    beta: options.Beta = DEFAULTS["beta"],
    gamma: options.Gamma = DEFAULTS["gamma"],
    scale: options.ScaleOption = DEFAULTS["scale"],
    weighting: options.WeightingOption = DEFAULTS["weighting"],
    n_init: options.Starts = DEFAULTS["n_init"],
    max_iter: options.Iterations = DEFAULTS["max_iter"],
    seed: options.Seed = 0,
    as_json: options.Json = False,
) -> None:
    """Cluster FILE and say what each view does: its weight, and what changes without it.

    Labels in FILE are not read. The same numbers of clusters, seeds and options give the clusters
    of omcal cluster.
    """
    if plot is not None:
        require_writable(plot, unlike=file, option="--plot")
    data = load_views(file, views=options.names(views), labels=False)
    model = OMCAL(
        n_clusters=clusters,
        n_anchors=anchors,
        n_neighbors=neighbors,
        beta=beta,
        gamma=gamma,
        scale=scale.parameter,
        weighting=weighting.value,
        n_init=n_init,
        max_iter=max_iter,
        random_state=seed,
    )
    with collected_warnings() as notes, fit_progress(n_init, max_iter, shown=not as_json):
        model.fit(data.views, present=data.present)
        found = model.explain_views(
            data.views, present=data.present, n_resamples=resamples, random_state=seed
        )
        described = (
            model.describe_clusters(
                data.views, present=data.present, feature_names=data.feature_names
            )
            if clusters_table
            else None
        )
    if plot is not None:
        _draw(found, plot)
    if as_json:
        result: dict[str, Any] = {
            "file": str(file),
            "parameters": model.get_params(),
            **found.to_dict(),
            **({} if described is None else {"clusters": described.to_dict()}),
            "fit_warnings": notes,
            "version": __version__,
        }
        print_json(result)
    else:
        _show(found)
        if described is not None:
            _show_clusters(described)


def _draw(found: ViewExplanation, path: Path) -> None:
    from omcal.plots.studies import view_effects

    with replacing(path) as temporary:
        view_effects(found).figure.savefig(temporary, format="png", dpi=150)


def _show(found: ViewExplanation) -> None:
    print_table("Views", COLUMNS, [table_row(view) for view in found.views])
    by_cluster = [
        (str(cluster), str(size), *(f"{v.agreement_by_cluster[cluster]:.2f}" for v in found.views))
        for cluster, size in enumerate(found.cluster_sizes)
    ]
    names = [view.name for view in found.views]
    print_table("Agreement by cluster", ("cluster", "samples", *names), by_cluster)
    console = stdout()
    for line in found.remarks():
        console.print(line, soft_wrap=True)


def _show_clusters(described: ClusterDescription) -> None:
    rows = [describe.table_row(feature) for feature in described.features]
    print_table("What makes each cluster", describe.COLUMNS, rows)
    console = stdout()
    for line in described.remarks():
        console.print(line, soft_wrap=True)
