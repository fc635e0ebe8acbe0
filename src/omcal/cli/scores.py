"""`omcal score`: the agreement of two files of labels; tables of scores for all commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

import omcal
from omcal.cli.console import deliver, print_table
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
"""Titles of the scores in the order of display; that of NMI states its normalisation."""

PAPER_SCORES = tuple(name for name in TITLES if name != "recall")
"""The scores that the paper reports."""


_LISTED_CLUSTERS = 30
_KINDS = (
    "a table with a header (.csv .tsv .xlsx .parquet), one label per line, .npy, or - for standard "
    "input"
)


def print_clusters(sizes: Sequence[int], scores: dict[str, float] | None = None) -> None:
    """Print the sizes of the clusters (at most 30, the largest) and the scores of the paper."""
    n = sum(sizes)
    listed = sorted(sorted(range(len(sizes)), key=lambda c: -sizes[c])[:_LISTED_CLUSTERS])
    title = "Clusters" if len(listed) == len(sizes) else f"The {len(listed)} largest clusters"
    rows = [(str(c), str(sizes[c]), f"{sizes[c] / n:.1%}") for c in listed]
    print_table(title, ("cluster", "samples", "share"), rows)
    if scores is not None:
        listed_scores = [(TITLES[name], f"{scores[name]:.3f}") for name in PAPER_SCORES]
        print_table("Agreement with the classes", ("score", "value"), listed_scores)


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


def read_label_pair(true: Path, pred: Path) -> tuple[Array, Array, list[str]]:
    """Return the labels in two files for the same samples, and notes on how they were matched.

    Samples are matched by id if both files have ids, otherwise by position. Samples without a
    known label in one of the files are left out.
    """
    from omcal.datasets._data import as_member, is_known
    from omcal.datasets.loading import read_labels
    from omcal.views.pair import pair

    one, other = read_labels(true), read_labels(pred)
    if one.ids is None or other.ids is None or not set(one.ids) & set(other.ids):
        one, other = one.by_position(), other.by_position()
    known_ids = [ids for ids in (one.ids, other.ids) if ids is not None]
    if len(known_ids) < 2 and one.n_samples != other.n_samples:
        raise omcal.datasets.DataError(
            f"{true} has {one.n_samples} labels and {pred} {other.n_samples}; give both files one "
            "label per sample, or ids."
        )
    pairing = pair([as_member(str(true), one), as_member(str(pred), other)], "outer")
    if pairing.shared < pairing.n:
        raise omcal.datasets.DataError(
            f"{pairing.shared} ids are in both files, {one.n_samples - pairing.shared} only in "
            f"{true}, {other.n_samples - pairing.shared} only in {pred}; leave out those that are "
            "not in both."
        )
    notes = []
    if len(known_ids) == 1:
        notes.append(f"matched by position: {true if one.ids is None else pred} has no ids")
    y_true, y_pred = one.labels, other.labels[pairing.rows[str(pred)]]  # in the order of TRUE
    known = is_known(y_true) & is_known(y_pred)
    if not known.any():
        raise omcal.datasets.DataError(f"no sample has a label in both {true} and {pred}.")
    if not known.all():
        notes.append(f"{int((~known).sum())} samples without a label are left out")
    return y_true[known], y_pred[known], notes


def score(
    true: Annotated[Path, typer.Argument(metavar="TRUE", help=f"The classes: {_KINDS}.")],
    pred: Annotated[
        Path, typer.Argument(metavar="PRED", help="The clusters, in a file of these kinds.")
    ],
    as_json: Json = False,
) -> None:
    """Compare the clusters in PRED with the classes in TRUE.

    Samples are matched by id if both files have ids, otherwise by position.
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
