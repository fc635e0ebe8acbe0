"""Output files of a command: checked before the work, written atomically after it."""

from __future__ import annotations

import csv
import os
import secrets
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import omcal
from omcal.cli.console import report_line
from omcal.machine.optional import require

if TYPE_CHECKING:
    from omcal.cli.reading import Reading
    from omcal.datasets import MultiViewData
    from omcal.machine.arrays import Array

STDOUT = Path("-")
_SAMPLE_COLUMN = "sample"
_ENDINGS = (".csv", ".tsv", ".txt", ".xlsx", ".parquet", ".npy")  # of labels


class Outputs:
    """The output files of a command by option; None for an output that is not requested.

    No output may be one of the inputs or of the `further` ones, or lie in one that is a folder. The
    first may be "-", standard output, unless the command prints JSON there.
    """

    def __init__(self, reading: Reading, files: Mapping[str, Path | None], *further: Path) -> None:
        self._files = {option: path for option, path in files.items() if path is not None}
        self._failures: list[str] = []
        self._reading, inputs = reading, [*reading.inputs, *further]
        first = next(iter(files))
        self.to_stdout = self._files.get(first) == STDOUT
        if self.to_stdout and reading.as_json:
            raise omcal.datasets.DataError(f"{first} - and --json both print; leave one out.")
        for option, path in self._files.items():
            if path == STDOUT and option != first:
                raise omcal.datasets.DataError(f"{option} - is not a file; only {first} can be -.")
            if path != STDOUT:
                require_writable(path, inputs, option)
        for (one, path), (other, twin) in combinations(self._files.items(), 2):
            if _same(path, twin):
                raise omcal.datasets.DataError(
                    f"{one} and {other} are both {path}; choose another name for one of them."
                )

    def write(
        self, option: str, write: Callable[[Path], object], *, elsewhere: bool = False
    ) -> str | None:
        """Write the file of an option, if it is requested; return its path.

        `print` raises a failure later, so that the other files are still written. With
        `elsewhere` the file then goes to the first usual folder that can be written to.
        """
        path = self._files.get(option)
        if path is None:
            return None
        if path == STDOUT:
            _print_file(write)
            return str(path)
        try:
            write(path)
            return str(path)
        except OSError as error:
            self._failures.append(f"{option} {path}: {error.strerror or error}")
        name = f"{path.stem}-{secrets.token_hex(4)}{path.suffix}"
        for folder in (Path(tempfile.gettempdir()), Path.cwd(), Path.home()) if elsewhere else ():
            with suppress(OSError):
                write(folder / name)
                self._failures[-1] += f"; it is in {folder / name}"
                return str(folder / name)
        return None

    def write_labels(
        self, model: Any, labels: Array, data: MultiViewData, X: Any, certainty: bool | None
    ) -> str | None:
        """Write the clusters of the samples X to --out, with certainties if the format has room."""
        ending = self._files.get("--out", STDOUT).suffix.lower()
        certain = certainty is not False and ending != ".npy"

        def write(path: Path) -> None:
            write_labels(path, labels, data, label_columns(model, labels, X if certain else None))

        return self.write("--out", write, elsewhere=True)

    def print(self, result: Mapping[str, Any], show: Callable[[Any], None]) -> None:
        """Print the result, and raise if files could not be written.

        With a file on standard output only the notes are printed, on standard error.
        """
        if not self.to_stdout:
            self._reading.print(result, show)
        else:
            for note in result["notes"]:
                report_line(f"note: {note}")
        if self._failures:
            raise OSError("; ".join(self._failures))


def require_writable(path: Path, inputs: Sequence[Path] = (), option: str = "--out") -> None:
    """Refuse an output that cannot be written, before the work."""
    from omcal.machine.files import require_replaceable

    for taken in inputs:
        if _same(path, taken):
            raise omcal.datasets.DataError(f"{path} is the input; choose another {option}.")
        if taken.is_dir() and Path(os.path.realpath(path)).is_relative_to(taken.resolve()):
            raise omcal.datasets.DataError(
                f"{path} lies in the input folder {taken}; choose another {option}."
            )
    folder = path.parent
    if not folder.is_dir():
        raise omcal.datasets.DataError(
            f"cannot write {path}: there is no folder {folder}; create it first."
        )
    try:
        require_replaceable(path)
        if os.path.exists(path) and not os.access(path, os.W_OK):
            raise PermissionError(13, "Permission denied")
    except OSError as error:
        raise omcal.datasets.DataError(
            f"cannot write {path}: {error.strerror}; choose another {option}."
        ) from error


def _print_file(write: Callable[[Path], object]) -> None:
    """Write a CSV file, and copy it to standard output."""
    with tempfile.TemporaryDirectory(prefix="omcal-") as folder:
        path = Path(folder) / "out.csv"
        write(path)
        with path.open(newline="", encoding="utf-8") as file:
            shutil.copyfileobj(file, sys.stdout)


def _same(one: Path, other: Path) -> bool:
    """Whether two paths name the same file, which need not exist."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other)
    return os.path.realpath(one) == os.path.realpath(other)


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
    """Return the columns besides the labels: the names of clusters, if they have any.

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
    path: Path, labels: Array, data: MultiViewData, further: Mapping[str, list[Any]]
) -> None:
    """Write a table of samples, by id or numbered from 0, their clusters and further columns.

    The ending sets the format: .csv, .tsv, .txt or none (CSV), .xlsx, .parquet, or .npy, which
    holds the clusters alone.
    """
    import numpy as np

    from omcal.datasets.readers._cells import guarded
    from omcal.machine.files import replacing

    ids, n = data.ids, len(labels)
    title = _SAMPLE_COLUMN if ids is None else str(data.id_name or "id")
    if title == "cluster":
        title = "id"
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
                # The writer quotes only the line end that it writes; a name may contain any.
                lines = SimpleNamespace(write=lambda line: stream.write(line[:-2] + "\n"))
                delimiter = "\t" if ending == ".tsv" else ","
                writer = csv.writer(lines, delimiter=delimiter, lineterminator="\r\n")
                cells = (guarded(name) if isinstance(name, str) else name for name in names)
                writer.writerow((guarded(title), "cluster", *further))
                words = ([guarded(str(cell)) for cell in column] for column in further.values())
                writer.writerows(zip(cells, labels.tolist(), *words, strict=True))


def _write_excel(path: Path, rows: Iterable[tuple[Any, ...]]) -> None:
    from omcal.datasets.readers.table_files import escaped

    openpyxl = require("openpyxl", "Excel files")
    book = openpyxl.Workbook(write_only=True)
    sheet = book.create_sheet("clusters")
    for row in rows:
        values = [escaped(value) if isinstance(value, str) else value for value in row]
        cells = [openpyxl.cell.WriteOnlyCell(sheet, value) for value in values]
        for cell in cells:
            if cell.data_type == "f":  # a name that begins with "=" must not become a formula
                cell.data_type = "s"
        sheet.append(cells)
    with path.open("wb") as file:
        book.save(file)


def _write_parquet(path: Path, columns: dict[str, Any]) -> None:
    pa, parquet = require("pyarrow", "Parquet files"), require("pyarrow.parquet", "Parquet files")
    with path.open("wb") as file:
        parquet.write_table(pa.table(columns), file)
