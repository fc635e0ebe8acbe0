"""`omcal update`: add the samples of a file to a saved model, and report drift."""

from __future__ import annotations

import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

import omcal
from omcal.cli import options
from omcal.cli.cluster import Out, ReportFile, print_files, write_report
from omcal.cli.console import collected_warnings, stdout
from omcal.cli.outputs import Outputs, require_ending, require_label_format, samples_of
from omcal.cli.predict import ModelFile, OrderedViews, load_for
from omcal.cli.reading import Reading, reads, remarks
from omcal.cli.scores import print_clusters

SavedAs = Annotated[
    Path | None,
    typer.Option(
        "--save-model", metavar="FILE", help="Write the new model here; by default to MODEL."
    ),
]
HalfLife = Annotated[
    float | None,
    typer.Option(
        "--half-life",
        metavar="N",
        help="A sample counts half after N later ones; 0: all count the same.",
    ),
]
Grow = Annotated[
    bool,
    typer.Option(
        "--grow", help="Make a stable group of samples that belong to no cluster a new cluster."
    ),
]


@reads(views=OrderedViews)
def update(
    model_file: ModelFile,
    reading: Reading,
    out: Out = None,
    report: ReportFile = None,
    save_model: SavedAs = None,
    half_life: HalfLife = None,
    grow: Grow = False,
    certainty: options.Certainty = None,
) -> None:
    """Add the samples of FILE to MODEL; clusters keep their numbers.

    Before that, the samples are compared with those of the fit: which views, features and clusters
    have moved, and whether to fit again. FILE has all views that MODEL was fitted to.
    """
    import numpy as np

    model: Any = omcal.load(model_file)
    fitted = model.estimator_ if isinstance(model, omcal.Consensus) else model
    fitted.set_params(grow=grow)
    if half_life is not None:
        fitted.set_params(half_life=half_life or None)._validate_params()
    target = model_file if save_model is None else save_model
    outputs = Outputs(reading, {"--out": out, "--report": report, "--save-model": target})
    require_label_format(out)
    require_ending(report, "--report", (".html", ".htm"))
    data, X, absent = load_for(model, reading)
    if absent:
        raise omcal.datasets.DataError(
            f"the views {', '.join(absent)} of the model are missing, and an update needs all "
            "views; omcal predict works without them."
        )
    with collected_warnings() as warned:
        drift = model.drift(X)
        model.partial_fit(X)
    clusters = model.labels_
    said = str(drift).splitlines() if outputs.to_stdout else []
    command = shlex.join(["omcal", "update", *reading.words()])

    def report_to(path: Path) -> None:
        write_report(model, path, X, data, reading, "of an update", drift=drift, command=command)

    result = {
        "out": outputs.write_labels(model, clusters, data, X, certainty),
        "report": outputs.write("--report", report_to),
        "model": outputs.write("--save-model", model.save),
        "n_samples": data.n_samples,
        "cluster_sizes": np.bincount(clusters, minlength=model.n_clusters_).tolist(),
        "drift": [asdict(one) for one in drift.moved],
        "alarm_rate": drift.alarm_rate,
        "refit": drift.refit,
        "samples": samples_of(data, clusters),
        "notes": [*remarks(data, new=True), *said],
        "warnings": warned,
    }

    def show(_: object) -> None:
        print_clusters(result["cluster_sizes"])
        stdout().print(str(drift), soft_wrap=True)
        print_files(result, "report", "model")

    outputs.print(result, show)
