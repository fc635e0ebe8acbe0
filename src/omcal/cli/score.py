"""`omcal score`: the agreement of two files of labels."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import omcal
from omcal.cli.console import print_json, print_table, stdout
from omcal.cli.files import read_label_pair
from omcal.cli.options import Json
from omcal.cli.reading import standard_input
from omcal.cli.scores import NMI_AVERAGE, TITLES

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
    if as_json:
        print_json({"n_samples": len(y_true), "nmi_average": NMI_AVERAGE, **scores, "notes": notes})
        return
    for note in notes:
        stdout().print(f"Note: {note}")
    rows = [(title, f"{scores[name]:.4f}") for name, title in TITLES.items()]
    print_table(f"{len(y_true)} samples", ("score", "value"), rows)
