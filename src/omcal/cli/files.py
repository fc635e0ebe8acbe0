"""Files of labels that the commands read and write; one is written whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import omcal

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData
    from omcal.machine.arrays import Array

_LABEL_COLUMNS = ("cluster", "label", "labels", "class", "target", "y")
_SAMPLE_COLUMN = "sample"
_ENDINGS = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npy")


def absences(data: MultiViewData) -> list[str]:
    """A remark on the views that lack samples, where there are any."""
    lacking = {name: int((~here).sum()) for name, here in (data.present or {}).items()}
    listed = ", ".join(f"{name} lacks {count}" for name, count in lacking.items() if count)
    return [f"of {data.n_samples} samples {listed}"] if listed else []


def remarks(data: MultiViewData) -> list[str]:
    """What was chosen, left out and matched on reading, and what is absent."""
    taken = [f"ids: {data.id_name}"] if data.ids is not None else []
    taken += [f"labels: {data.label_name}"] if data.labels is not None else []
    return [*taken, *data.notes, *absences(data)]


def require_complete(data: MultiViewData, option: str) -> None:
    """Refuse an option that cannot do without the samples that views lack."""
    for remark in absences(data):
        raise omcal.datasets.DataError(
            f"{remark}, which {option} cannot do without; leave it out, choose complete --views, "
            "or remove these samples (of several files: --join inner)."
        )


def require_ending(path: Path | None, option: str, endings: Sequence[str]) -> None:
    """Refuse a file whose ending promises what is not written, before the work."""
    if path is not None and path.suffix.lower() not in ("", *endings):
        raise omcal.datasets.DataError(
            f"{option} {path} ends in {path.suffix!r}; it is written as {', '.join(endings)}."
        )


def require_label_format(path: Path | None) -> None:
    """Refuse a file of labels that cannot be written, before the work."""
    require_ending(path, "--out", _ENDINGS)
    if path is not None and path.suffix.lower() == ".xlsx":
        from omcal.datasets.readers.excel_files import require_openpyxl

        require_openpyxl()


def samples_of(data: MultiViewData, clusters: Array) -> dict[str, Any] | None:
    """Ids and clusters for JSON; None where the samples have no ids."""
    if data.ids is None:
        return None
    return {"id": data.id_name, "ids": data.ids.tolist(), "clusters": clusters.tolist()}


def write_labels(path: Path, labels: Array, data: MultiViewData | None = None) -> None:
    """A table of `sample,cluster`, samples numbered from 0, or of their ids where they have some.

    The ending says the format: .csv, .tsv, .txt or none (CSV), .xlsx, .parquet, or .npy, which
    holds the clusters alone.
    """
    from omcal.datasets.readers._cells import guarded
    from omcal.machine.files import replacing

    ids = None if data is None else data.ids
    title = _SAMPLE_COLUMN if ids is None else str(getattr(data, "id_name", None) or "id")
    if title == "cluster":
        title = "id"
    n = len(labels)
    names: Iterable[Any] = range(n) if ids is None else ids.tolist()
    size = sum(map(len, ids)) if ids is not None else len(str(n)) * n
    with replacing(path, size=size + (len(str(n)) + 2) * n) as temporary:
        ending = path.suffix.lower()
        if ending == ".npy":
            _write_npy(temporary, labels)
        elif ending == ".xlsx":
            _write_excel(temporary, [(title, "cluster"), *zip(names, labels.tolist(), strict=True)])
        elif ending == ".parquet":
            _write_parquet(temporary, {title: list(names), "cluster": labels})
        else:
            with temporary.open("w", newline="", encoding="utf-8") as stream:
                writer = csv.writer(
                    stream, delimiter="\t" if ending == ".tsv" else ",", lineterminator="\n"
                )
                cells = (guarded(name) if isinstance(name, str) else name for name in names)
                writer.writerow((guarded(title), "cluster"))
                writer.writerows(zip(cells, labels.tolist(), strict=True))


def _write_npy(path: Path, labels: Array) -> None:
    import numpy as np

    with path.open("wb") as file:
        np.save(file, labels, allow_pickle=False)


def _write_excel(path: Path, rows: Iterable[tuple[Any, ...]]) -> None:
    from omcal.datasets.readers.excel_files import require_openpyxl

    openpyxl = require_openpyxl()
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("clusters")
    for row in rows:
        cells = [openpyxl.cell.WriteOnlyCell(sheet, value) for value in row]
        for cell in cells:
            if cell.data_type == "f":  # a name that begins with "=" is no formula
                cell.data_type = "s"
        sheet.append(cells)
    with path.open("wb") as file:
        book.save(file)


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from error
    with path.open("wb") as file:
        pyarrow.parquet.write_table(pa.table(columns), file)


def read_label_pair(true: Path, pred: Path) -> tuple[Array, Array]:
    """The labels of two files, matched by id where both have ids, else by their order."""
    import numpy as np

    (ids, one), (others, other) = read_named_labels(true), read_named_labels(pred)
    if ids is None or others is None:
        return one, other
    place = {name: i for i, name in enumerate(others.tolist())}
    shared = [i for i, name in enumerate(ids.tolist()) if name in place]
    if len(shared) < max(len(ids), len(others)):
        raise omcal.datasets.DataError(
            f"{len(shared)} ids are in both files, {len(ids) - len(shared)} only in {true}, "
            f"{len(others) - len(shared)} only in {pred}; leave out those that are not in both."
        )
    return one, other[np.array([place[name] for name in ids.tolist()], dtype=int)]


def read_labels(path: Path) -> Array:
    """Labels from a .npy file, from one label a line, or from a table with a header.

    A table has its labels in a column named cluster, label, labels, class, target or y; where it
    has a column `sample` of the numbers from 0 it is put into their order.
    """
    return read_named_labels(path)[1]


def read_named_labels(path: Path) -> tuple[Array | None, Array]:
    """The ids of the samples where the file has a column of them, and the labels."""
    import numpy as np

    from omcal.datasets.readers._cells import unguarded

    if not path.is_file():
        raise omcal.datasets.DataError(f"{path}: there is no such file.")
    ending = path.suffix.lower()
    if ending == ".npy":
        return None, _read_npy(path)
    if ending in (".xlsx", ".parquet"):
        return _from_table(path)
    try:
        with path.open(newline="", encoding="utf-8-sig") as stream:
            cells = csv.reader(stream, delimiter="\t" if ending == ".tsv" else ",")
            rows = [[unguarded(cell.strip()) for cell in row] for row in cells if row]
    except (UnicodeDecodeError, csv.Error) as error:
        raise omcal.datasets.DataError(f"{path} is not a text file of labels ({error}).") from error
    if not rows:
        raise omcal.datasets.DataError(f"{path} is empty; give one label a line.")
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise omcal.datasets.DataError(
            f"{path}: its lines have {min(widths)} to {max(widths)} columns."
        )
    ids, labels = (None, _column(path, rows)) if widths == {1} else _table(path, rows)
    if "" in labels:
        raise omcal.datasets.DataError(
            f"{path}: label {labels.index('')} is empty; remove the sample."
        )
    return None if ids is None else np.array(ids), np.array(labels)


def _from_table(path: Path) -> tuple[Array | None, Array]:
    from omcal.datasets._contents import reading
    from omcal.datasets.label_files import label_column
    from omcal.datasets.loading import read_table

    contents = read_table(path)
    with reading(path, contents.format):
        found = label_column(contents)
    return found.ids, found.labels.astype(str)


def _read_npy(path: Path) -> Array:
    import numpy as np

    try:
        labels: Array = np.load(path, allow_pickle=False)
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


def _table(path: Path, rows: list[list[str]]) -> tuple[list[str] | None, list[str]]:
    from omcal.datasets._names import is_id_name

    header = rows.pop(0)
    found = [j for j, name in enumerate(header) if name.lower() in _LABEL_COLUMNS]
    if len(found) != 1:
        raise omcal.datasets.DataError(
            f"{path} has the columns {header}; exactly one of them must be named as one of "
            f"{', '.join(_LABEL_COLUMNS)}."
        )
    labels = [row[found[0]] for row in rows]
    id_columns = [j for j, name in enumerate(header) if is_id_name(name, text=True)]
    if not id_columns:
        return None, labels
    ids = [row[id_columns[0]] for row in rows]
    if len(set(ids)) < len(ids):
        twice = next(name for name in ids if ids.count(name) > 1)
        raise omcal.datasets.DataError(
            f"{path}: the column {header[id_columns[0]]} must hold each sample once, and has "
            f"{twice!r} more than once."
        )
    if header[id_columns[0]].lower() == _SAMPLE_COLUMN and set(ids) == set(
        map(str, range(len(ids)))
    ):
        by_sample = dict(zip(map(int, ids), labels, strict=True))
        return None, [by_sample[sample] for sample in range(len(labels))]
    return ids, labels


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True
