"""Files of labels that the commands read and write; one is written whole or not at all."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import omcal
from omcal.machine.optional import require

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData
    from omcal.machine.arrays import Array

_SAMPLE_COLUMN = "sample"
_ENDINGS = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npy")


def absences(data: MultiViewData) -> list[str]:
    """Return a remark on the views that lack samples, if there are any."""
    lacking = {name: int((~here).sum()) for name, here in (data.present or {}).items()}
    listed = ", ".join(f"{name} lacks {count}" for name, count in lacking.items() if count)
    return [f"of {data.n_samples} samples {listed}"] if listed else []


def remarks(data: MultiViewData, *, new: bool = False) -> list[str]:
    """Return remarks on ids, labels, columns and absent samples.

    The columns of `new` samples are encoded as the model says, so that nothing is said of them.
    """
    from omcal.datasets._data import other_notes

    notes = other_notes(data) if new else data.notes
    taken = [f"ids: {data.id_name}"] if data.ids is not None else []
    taken += [f"labels: {data.label_name}"] if data.labels is not None else []
    return [*taken, *notes, *absences(data)]


def require_ending(path: Path | None, option: str, endings: Sequence[str]) -> None:
    """Refuse a file with an ending of another format, before the work."""
    if path is not None and path.suffix.lower() not in ("", *endings):
        raise omcal.datasets.DataError(
            f"{option} {path} ends in {path.suffix!r}; it is written as {', '.join(endings)}."
        )


def require_label_format(path: Path | None) -> None:
    """Refuse a file of labels that cannot be written, before the work."""
    require_ending(path, "--out", _ENDINGS)
    libraries = {".xlsx": ("openpyxl", "Excel files"), ".parquet": ("pyarrow", "Parquet files")}
    if path is not None and path.suffix.lower() in libraries:
        require(*libraries[path.suffix.lower()])


def samples_of(data: MultiViewData, clusters: Array) -> dict[str, Any] | None:
    """Return ids and clusters for JSON; None if the samples have no ids."""
    if data.ids is None:
        return None
    return {"id": data.id_name, "ids": data.ids.tolist(), "clusters": clusters.tolist()}


def label_columns(model: Any, labels: Array, X: Any = None) -> dict[str, list[Any]]:
    """Return the columns beside the labels: names, where clusters have any.

    With the samples X also the probability of their cluster, and the second choice.
    """
    columns: dict[str, list[Any]] = {}
    if getattr(model, "_cluster_names", None) is not None:
        columns["name"] = [model.cluster_names_[label] for label in labels.tolist()]
    if X is not None:
        import numpy as np

        P, rows = model.predict_proba(X), np.arange(len(labels))
        columns["certainty"] = P[rows, labels].astype(np.float64).round(4).tolist()
        P[rows, labels] = -1.0
        columns["second"] = P.argmax(axis=1).tolist()
    return columns


def write_labels(
    path: Path,
    labels: Array,
    data: MultiViewData | None = None,
    more: Mapping[str, list[Any]] | None = None,
) -> None:
    """Write a table of samples, by id or numbered from 0, their clusters and further columns.

    The ending sets the format: .csv, .tsv, .txt or none (CSV), .xlsx, .parquet, or .npy, which
    holds the clusters alone.
    """
    import numpy as np

    from omcal.datasets.readers._cells import guarded
    from omcal.machine.files import replacing

    ids = None if data is None else data.ids
    title = _SAMPLE_COLUMN if ids is None else str(getattr(data, "id_name", None) or "id")
    if title == "cluster":
        title = "id"
    n, further = len(labels), dict(more or {})
    names: Iterable[Any] = range(n) if ids is None else ids.tolist()
    size = sum(map(len, ids)) if ids is not None else len(str(n)) * n
    with replacing(path, size=size + (len(str(n)) + 2) * n) as temporary:
        ending = path.suffix.lower()
        if ending == ".npy":
            with temporary.open("wb") as file:
                np.save(file, labels, allow_pickle=False)
        elif ending == ".xlsx":
            rows = zip(names, labels.tolist(), *further.values(), strict=True)
            _write_excel(temporary, [(title, "cluster", *further), *rows])
        elif ending == ".parquet":
            _write_parquet(temporary, {title: list(names), "cluster": labels, **further})
        else:
            with temporary.open("w", newline="", encoding="utf-8") as stream:
                # The writer quotes the line ends that it writes; a name may hold either kind.
                lines = SimpleNamespace(write=lambda line: stream.write(line[:-2] + "\n"))
                delimiter = "\t" if ending == ".tsv" else ","
                writer = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
                cells = (guarded(name) if isinstance(name, str) else name for name in names)
                writer.writerow((guarded(title), "cluster", *further))
                words = ([guarded(str(cell)) for cell in column] for column in further.values())
                writer.writerows(zip(cells, labels.tolist(), *words, strict=True))


def _write_excel(path: Path, rows: Iterable[tuple[Any, ...]]) -> None:
    from omcal.datasets.readers.excel_files import escaped

    openpyxl = require("openpyxl", "Excel files")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("clusters")
    for row in rows:
        values = [escaped(value) if isinstance(value, str) else value for value in row]
        cells = [openpyxl.cell.WriteOnlyCell(sheet, value) for value in values]
        for cell in cells:
            if cell.data_type == "f":  # a name that begins with "=" is no formula
                cell.data_type = "s"
        sheet.append(cells)
    with path.open("wb") as file:
        book.save(file)


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    pa, parquet = require("pyarrow", "Parquet files"), require("pyarrow.parquet", "Parquet files")
    with path.open("wb") as file:
        parquet.write_table(pa.table(columns), file)


def read_label_pair(true: Path, pred: Path) -> tuple[Array, Array, list[str]]:
    """Return the labels in two files for the same samples, and notes on how they were matched.

    They are matched by id where both files have ids, else by their order. Samples without a known
    label in one of them are left out.
    """
    import numpy as np

    from omcal.datasets._data import is_known
    from omcal.datasets.loading import read_labels

    one, other = read_labels(true), read_labels(pred)
    if one.ids is None or other.ids is None or not set(one.ids) & set(other.ids):
        one, other = one.by_position(), other.by_position()
    order = np.arange(other.n_samples)
    notes = []
    if one.ids is not None and other.ids is not None:
        place = {name: i for i, name in enumerate(other.ids.tolist())}
        shared = [name for name in one.ids.tolist() if name in place]
        if len(shared) < max(one.n_samples, other.n_samples):
            raise omcal.datasets.DataError(
                f"{len(shared)} ids are in both files, {one.n_samples - len(shared)} only in "
                f"{true}, {other.n_samples - len(shared)} only in {pred}; leave out those that are "
                "not in both."
            )
        order = np.array([place[name] for name in shared], dtype=int)
    elif one.ids is not None or other.ids is not None:
        notes.append(f"matched by position: {true if one.ids is None else pred} has no ids")
    if one.n_samples != other.n_samples:
        raise omcal.datasets.DataError(
            f"{true} has {one.n_samples} labels and {pred} {other.n_samples}; give both files one "
            "label per sample, or ids."
        )
    y_true, y_pred = one.labels, other.labels[order]
    known = is_known(y_true) & is_known(y_pred)
    if not known.any():
        raise omcal.datasets.DataError(f"no sample has a label in both {true} and {pred}.")
    if not known.all():
        notes.append(f"{int((~known).sum())} samples without a label are left out")
    return y_true[known], y_pred[known], notes
