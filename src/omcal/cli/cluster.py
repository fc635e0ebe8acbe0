"""`omcal cluster`: cluster the samples of a file."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import Annotated, Any

import numpy as np
import typer

from omcal import OMCAL, __version__
from omcal.cli import options
from omcal.cli.console import collected_warnings, fit_progress, print_json, print_table, stdout
from omcal.cli.files import require_writable, write_labels
from omcal.cli.options import DEFAULTS
from omcal.cli.scores import NMI_AVERAGE, PAPER_SCORES, TITLES
from omcal.datasets import DataError, MultiViewData, load_views
from omcal.metrics import evaluate

Out = Annotated[
    Path | None, typer.Option("--out", metavar="CSV", help="Write sample,cluster to this file.")
]

_LISTED_CLUSTERS = 30


def cluster(
    file: options.DataFile,
    clusters: options.Clusters,
    out: Out = None,
    views: options.ViewNames = None,
    labels: options.LabelName = None,
    anchors: options.Anchors = DEFAULTS["n_anchors"],
    neighbors: options.Neighbors = DEFAULTS["n_neighbors"],
    beta: options.Beta = DEFAULTS["beta"],
    gamma: options.Gamma = DEFAULTS["gamma"],
    scale: options.ScaleOption = DEFAULTS["scale"],
    weighting: options.WeightingOption = DEFAULTS["weighting"],
    n_init: options.Starts = DEFAULTS["n_init"],
    max_iter: options.Iterations = DEFAULTS["max_iter"],
    tol: options.Tolerance = DEFAULTS["tol"],
    seed: options.Seed = 0,
    quiet: options.Quiet = False,
    as_json: options.Json = False,
) -> None:
    """Cluster the samples of FILE; where it holds classes, compare the clusters with them."""
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
        tol=tol,
        random_state=seed,
    )
    if out is not None:
        require_writable(out, unlike=file)
    data = load_views(file, views=options.names(views), labels=labels)
    _require_complete(data)
    with collected_warnings() as notes, fit_progress(n_init, max_iter, shown=not quiet):
        began = perf_counter()
        model.fit(data.views)
        seconds = perf_counter() - began
    if out is not None:
        write_labels(out, model.labels_)
    result = {
        "file": str(file),
        "out": None if out is None else str(out),
        **_summary(model, data.labels),
        "seconds": seconds,
        "notes": list(data.notes),
        "warnings": notes,
        "version": __version__,
    }
    if as_json:
        print_json(result)
    elif not quiet:
        _show(result)


def _require_complete(data: MultiViewData) -> None:
    """Refuse absent samples by name; the estimator would take a sparse view's for zeros."""
    lacking = {name: int((~here).sum()) for name, here in (data.presence or {}).items()}
    listed = ", ".join(f"{name} lacks {count}" for name, count in lacking.items() if count)
    if listed:
        raise DataError(
            f"some of the {data.n_samples} samples are not in every view: {listed}; choose "
            "complete --views, or remove these samples."
        )


def _summary(model: OMCAL, classes: Any) -> dict[str, Any]:
    """What a fit found, in plain Python numbers."""
    views = zip(
        model.view_names_, model.n_features_per_view_, model.view_weights_.tolist(), strict=True
    )
    scores = None
    if classes is not None:
        scores = evaluate(classes, model.labels_, average=NMI_AVERAGE)
    return {
        "n_samples": len(model.labels_),
        "views": [{"name": n, "n_features": d, "weight": weight} for n, d, weight in views],
        "parameters": model.get_params() | {"n_anchors": len(model.basis_)},
        "cluster_sizes": np.bincount(model.labels_, minlength=model.n_clusters).tolist(),
        "converged": model.converged_,
        "n_iter": model.n_iter_,
        "objective": float(model.objective_[-1]),
        "scores": scores,
        "nmi_average": NMI_AVERAGE,
    }


def _show(result: dict[str, Any]) -> None:
    console = stdout()
    n, sizes = result["n_samples"], result["cluster_sizes"]
    for note in result["notes"]:
        console.print(f"Note: {note}")
    print_table(
        "Views",
        ("view", "features", "weight"),
        [(v["name"], str(v["n_features"]), f"{v['weight']:.3f}") for v in result["views"]],
    )
    by_size = sorted(enumerate(sizes), key=lambda item: -item[1])
    rows = [(str(c), str(size), f"{size / n:.1%}") for c, size in by_size[:_LISTED_CLUSTERS]]
    title = "Clusters" if len(rows) == len(sizes) else f"The {len(rows)} largest clusters"
    print_table(title, ("cluster", "samples", "share"), rows)
    if result["scores"] is not None:
        scores = [(TITLES[name], f"{result['scores'][name]:.3f}") for name in PAPER_SCORES]
        print_table("Agreement with the classes", ("score", "value"), scores)
    end = "Converged" if result["converged"] else "Not converged"
    console.print(
        f"{end} after {result['n_iter']} iterations and {result['seconds']:.2f} s: {n} samples, "
        f"{result['parameters']['n_anchors']} anchors, objective {result['objective']:.6g}."
    )
    if result["out"] is None:
        console.print("The labels were not saved; add --out labels.csv.")
    else:
        console.print(f"Labels: {result['out']}")
