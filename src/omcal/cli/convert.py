"""`omcal convert`: the views of one file in another format."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

import omcal
from omcal.cli.console import stdout
from omcal.cli.outputs import Outputs
from omcal.cli.reading import Reading, reads, remarks

Target = Annotated[
    Path,
    typer.Argument(
        metavar="OUT",
        help="Its ending sets the format: .npz .mat .h5 .h5ad .zarr .csv .parquet; none: a folder "
        "of .npy; -: CSV to standard output.",
    ),
]


@reads()
def convert(reading: Reading, target: Target) -> None:
    """Write the views, labels and ids of FILE to OUT.

    Several files are joined by their ids.
    """
    outputs = Outputs(reading, {"OUT": target})
    data = reading.load()
    written = outputs.write("OUT", lambda path: omcal.datasets.save_views(path, data))
    result: dict[str, Any] = {
        "in": reading.source,
        "out": written,
        "n_samples": data.n_samples,
        "views": dict(zip(data.views, data.widths, strict=True)),
        "labels": data.label_name if data.labels is not None else None,
        "notes": remarks(data),
    }

    def show(_: object) -> None:
        if written is None:
            return
        listed = ", ".join(f"{name} ({width})" for name, width in result["views"].items())
        classes = "no labels" if data.labels is None else f"labels of {data.n_classes} classes"
        found = f"{data.n_samples} samples, views {listed}, {classes}."
        stdout().print(f"{target}: {found}", soft_wrap=True)

    outputs.print(result, show)
