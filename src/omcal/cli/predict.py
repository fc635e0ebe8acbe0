"""`omcal predict`: assign the samples of a file to the clusters of a saved model."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli import options
from omcal.cli.cluster import Out, print_files
from omcal.cli.console import collected_warnings
from omcal.cli.options import takes
from omcal.cli.outputs import Outputs, require_label_format, samples_of
from omcal.cli.reading import Reading, reads, remarks
from omcal.cli.scores import NMI_AVERAGE, agreement, print_clusters

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData

ModelFile = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model that `omcal cluster --save-model` wrote."),
]
OrderedViews = Annotated[
    str | None,
    typer.Option(
        "--views", "-v", metavar="A,B", help="The views of FILE, in the order of the model's views."
    ),
]


@takes("device")
@reads(views=OrderedViews)
def predict(
    model_file: ModelFile,
    reading: Reading,
    parameters: dict[str, Any],
    out: Out = None,
    certainty: options.Certainty = None,
) -> None:
    """Assign the samples of FILE to the clusters of MODEL.

    FILE has the views that MODEL was fitted to, or some of them.
    """
    import numpy as np

    model = omcal.load(model_file)
    fitted = model.estimator_ if isinstance(model, omcal.Consensus) else model
    fitted.set_params(**{"device": "cpu", **parameters})
    outputs = Outputs(reading, {"--out": out}, model_file)
    require_label_format(out)
    data, X, absent = load_for(model, reading)
    with collected_warnings() as warned:
        clusters = model.predict(X)
    result = {
        "model": str(model_file),
        "out": outputs.write_labels(model, clusters, data, X, certainty),
        "n_samples": data.n_samples,
        "cluster_sizes": np.bincount(clusters, minlength=model.n_clusters_).tolist(),
        "scores": agreement(data, clusters),
        "nmi_average": NMI_AVERAGE,
        "samples": samples_of(data, clusters),
        "notes": [
            *remarks(data, new=True),
            *(f"predicted without the view {name}" for name in absent),
        ],
        "warnings": warned,
    }
    outputs.print(result, _show)


def load_for(model: Any, reading: Reading) -> tuple[MultiViewData, Any, list[str]]:
    """Load the views of a model; return the data, the views, and the names of absent views."""
    fitted = list(model.view_names_)
    data = reading.load() if reading.views is not None else _load(reading, fitted)
    X = data.views.raw()  # mixed tables are encoded as in the fit
    if reading.views is not None:  # given in the order of the model's views, under any names
        if len(X) != len(fitted):
            raise omcal.datasets.DataError(
                f"--views names {len(X)} views; name one for each of {', '.join(fitted)}."
            )
        return data, X.renamed(fitted), []
    absent = [name for name in fitted if name not in X]
    X.update(dict.fromkeys(absent))  # a view that is None is absent from all samples
    return data, X, absent


def _load(reading: Reading, fitted: list[str]) -> MultiViewData:
    """Load the views of the model, or the views in the files if the model has all of them."""
    try:
        return reading.load(views=fitted)
    except omcal.datasets.DataError as error:
        try:
            data = reading.by_stem().load()
            if set(data.views) <= set(fitted):
                return data
        except omcal.datasets.DataError:
            pass  # the first error is more specific
        raise omcal.datasets.DataError(
            f"{error} The model was fitted on the views {', '.join(fitted)}; "
            f"{_naming_hint(reading, fitted)}name the views of FILE in this order with --views."
        ) from error


def _naming_hint(reading: Reading, fitted: list[str]) -> str:
    """Return a hint to name the view of each file, guessed from the file names."""
    words = []
    for path in reading.paths:
        views = [name for name in fitted if name.lower() in path.stem.lower()]
        words += [f"{max(views, key=len)}={path}"] if views else []
    return f"say which file holds which view ({' '.join(words)}), or " if words else ""


def _show(result: dict[str, Any]) -> None:
    print_clusters(result["cluster_sizes"], result["scores"])
    print_files(result)
