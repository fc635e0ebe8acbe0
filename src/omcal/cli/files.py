"""Files that the commands read and write; a file is written whole or not at all."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING

import omcal

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from omcal.datasets import MultiViewData

_LABEL_COLUMNS = ("cluster", "label", "labels", "class", "target", "y")
_SAMPLE_COLUMN = "sample"


def absences(data: MultiViewData) -> list[str]:
    """A remark on the views that lack samples, where there are any."""
    lacking = {name: int((~here).sum()) for name, here in (data.present or {}).items()}
    listed = ", ".join(f"{name} lacks {count}" for name, count in lacking.items() if count)
    return [f"of {data.n_samples} samples {listed}"] if listed else []


def require_complete(data: MultiViewData, option: str) -> None:
    """Refuse an option that cannot do without the samples that views lack."""
    for remark in absences(data):
        raise omcal.datasets.DataError(
            f"{remark}, which {option} cannot do without; leave it out, choose complete --views, "
            "or remove these samples."
        )


def write_labels(path: Path, labels: NDArray) -> None:
    """A table of `sample,cluster`, samples numbered from 0."""
    from omcal.machine.files import replacing

    digits = len(f"{len(labels)},{len(labels)}\n")
    with (
        replacing(path, size=digits * len(labels)) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as stream,
    ):
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow((_SAMPLE_COLUMN, "cluster"))
        writer.writerows(enumerate(labels.tolist()))


def read_labels(path: Path) -> NDArray:
    """Labels from a .npy file, from one label a line, or from a table with a header.

    A table has its labels in a column named cluster, label, labels, class, target or y; where it
    has a column `sample` it is put into the order of its numbers.
    """
    import numpy as np

    if not path.is_file():
        raise omcal.datasets.DataError(f"{path}: there is no such file.")
    if path.suffix.lower() == ".npy":
        return _read_npy(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            rows = [[cell.strip() for cell in row] for row in csv.reader(stream) if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise omcal.datasets.DataError(f"{path} is not a text file of labels ({error}).") from error
    if not rows:
        raise omcal.datasets.DataError(f"{path} is empty; give one label a line.")
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise omcal.datasets.DataError(
            f"{path}: its lines have {min(widths)} to {max(widths)} columns."
        )
    labels = _column(path, rows) if widths == {1} else _table(path, rows)
    if "" in labels:
        raise omcal.datasets.DataError(
            f"{path}: label {labels.index('')} is empty; remove the sample."
        )
    return np.array(labels)


def _read_npy(path: Path) -> NDArray:
    import numpy as np

    try:
        labels = np.load(path, allow_pickle=False)
    except (ValueError, EOFError, OSError) as error:
        raise omcal.datasets.DataError(f"{path} is not a readable .npy file ({error}).") from error
    if labels.ndim == 2 and 1 in labels.shape:
        labels = labels.reshape(-1)
    if labels.ndim != 1:
        raise omcal.datasets.DataError(
            f"{path} has shape {labels.shape}; give a 1-D array of labels."
        )
    return labels


def _column(path: Path, rows: list[list[str]]) -> list[str]:
    """One label a line, less a header: a known column name, or a word above numbers only."""
    lines = [row[0] for row in rows]
    named = lines[0].lower() in _LABEL_COLUMNS
    word_above_numbers = not _is_number(lines[0]) and all(map(_is_number, lines[1:]))
    if len(lines) > 1 and (named or word_above_numbers):
        del lines[0]
    return lines


def _table(path: Path, rows: list[list[str]]) -> list[str]:
    header = [name.lower() for name in rows.pop(0)]
    found = [name for name in header if name in _LABEL_COLUMNS]
    if len(found) != 1:
        raise omcal.datasets.DataError(
            f"{path} has the columns {header}; exactly one of them must be named as one of "
            f"{', '.join(_LABEL_COLUMNS)}."
        )
    labels = [row[header.index(found[0])] for row in rows]
    if _SAMPLE_COLUMN not in header:
        return labels
    samples = [row[header.index(_SAMPLE_COLUMN)] for row in rows]
    if sorted(samples) != sorted(map(str, range(len(samples)))):
        raise omcal.datasets.DataError(
            f"{path}: the column {_SAMPLE_COLUMN} must hold each number from 0 to "
            f"{len(samples) - 1} once."
        )
    by_sample = dict(zip(map(int, samples), labels, strict=True))
    return [by_sample[sample] for sample in range(len(labels))]


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
