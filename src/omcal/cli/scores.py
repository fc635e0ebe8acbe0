"""`omcal score`: the agreement of two files of labels; tables of scores for all commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import omcal
from omcal.cli.console import deliver, print_table
from omcal.cli.files import read_label_pair
from omcal.cli.options import Json
from omcal.cli.reading import standard_input

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData
    from omcal.machine.arrays import Array
    from omcal.metrics import Average

NMI_AVERAGE: Average = "max"

TITLES = {
    "accuracy": "accuracy",
    "nmi": f"NMI ({NMI_AVERAGE})",
    "purity": "purity",
    "ari": "ARI",
    "f_score": "F-score",
    "precision": "precision",
    "recall": "recall",
}
"""Every score in the order it is shown; the mutual information says how it is normalised."""

PAPER_SCORES = tuple(name for name in TITLES if name != "recall")
"""The scores that the paper reports."""


_LISTED_CLUSTERS = 30


def print_clusters(sizes: Sequence[int]) -> None:
    """Print the sizes of the clusters; of many only the largest."""
    n = sum(sizes)
    listed = sorted(sorted(range(len(sizes)), key=lambda c: -sizes[c])[:_LISTED_CLUSTERS])
    title = "Clusters" if len(listed) == len(sizes) else f"The {len(listed)} largest clusters"
    rows = [(str(c), str(sizes[c]), f"{sizes[c] / n:.1%}") for c in listed]
    print_table(title, ("cluster", "samples", "share"), rows)


def print_scores(scores: dict[str, float]) -> None:
    """Print the scores that the paper reports."""
    rows = [(TITLES[name], f"{scores[name]:.3f}") for name in PAPER_SCORES]
    print_table("Agreement with the classes", ("score", "value"), rows)


def agreement(data: MultiViewData, clusters: Array) -> dict[str, float] | None:
    """Return the scores over the samples whose class is known; None if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.datasets import MultiViewData
    >>> data = MultiViewData({"a": np.eye(3)}, labels=np.array(["x", "y", ""]))
    >>> agreement(data, np.array([1, 0, 0]))["accuracy"]
    1.0
    """
    known = data.is_labelled
    if data.labels is None or not known.any():
        return None
    return omcal.metrics.evaluate(data.labels[known], clusters[known], average=NMI_AVERAGE)


_KINDS = (
    "a table with a header (.csv .tsv .xlsx .parquet), one label per line, .npy, or - for standard "
    "input"
)


def score(
    true: Annotated[Path, typer.Argument(metavar="TRUE", help=f"The classes: {_KINDS}.")],
    pred: Annotated[Path, typer.Argument(metavar="PRED", help="The clusters, likewise.")],
    as_json: Json = False,
) -> None:
    """Compare the clusters in PRED with the classes in TRUE.

    Samples are matched by their ids where both files have ids.
    """
    with standard_input([str(true), str(pred)]) as stdin:
        given = [stdin if stdin and str(path) == "-" else path for path in (true, pred)]
        y_true, y_pred, notes = read_label_pair(*given)
    scores = omcal.metrics.evaluate(y_true, y_pred, average=NMI_AVERAGE)
    result = {"n_samples": len(y_true), "nmi_average": NMI_AVERAGE, **scores, "notes": notes}

    def show(_: object) -> None:
        rows = [(title, f"{scores[name]:.4f}") for name, title in TITLES.items()]
        print_table(f"{len(y_true)} samples", ("score", "value"), rows)

    deliver(result, show, as_json=as_json)
