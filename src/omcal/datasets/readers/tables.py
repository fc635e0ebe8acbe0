"""Tables: CSV and Parquet."""

from __future__ import annotations

import contextlib
import csv
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.datasets._contents import Contents, check_declared
from omcal.datasets._data import DataError
from omcal.datasets._names import is_label_name, listed

BLOCK_CELLS = 2**20
SEPARATORS = ",;\t"
MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}


def read_csv(path: Path) -> Contents:
    """The columns of a text table: numbers, or text where no cell is a number."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        start = file.readline(2**20)
        file.seek(0)
        rows: Iterator[list[str]] = csv.reader(
            file, delimiter=max(SEPARATORS, key=start.count), strict=True
        )
        first = next(rows, None)
        if not first:
            raise DataError("the file is empty.")
        if all(_is_number(cell) for cell in first):  # there is no header
            header, rows = [f"c{j}" for j in range(1, len(first) + 1)], chain([first], rows)
        else:
            header = [name.strip() for name in first]
        columns = _csv_columns(header, rows)
    notes = ("a column without a name was left out",) if columns.pop("", None) is not None else ()
    return Contents("CSV", columns, table=True, notes=notes)


def _csv_columns(header: list[str], rows: Iterator[list[str]]) -> dict[str, NDArray]:
    named = [name for name in header if name]
    if len(set(named)) < len(named):
        raise DataError("two columns have the same name; rename one of them.")
    numeric: NDArray[np.bool_] | None = None
    numbers, words = [], []
    for cells, first_row in _blocks(rows, len(header)):
        if numeric is None:
            numeric = np.array([_is_numeric(name, cells[:, j]) for j, name in enumerate(header)])
        numbers.append(_to_numbers(cells[:, numeric], first_row))
        words.append(cells[:, ~numeric])
    if numeric is None:
        raise DataError("the table has a header and no rows.")
    # By columns in memory, because columns are what is taken from it.
    table, text = np.asfortranarray(np.concatenate(numbers)), np.concatenate(words)
    columns: dict[str, NDArray] = dict.fromkeys(header, text)
    columns |= dict(zip(np.array(header)[numeric].tolist(), table.T, strict=True))
    for name, column in zip(np.array(header)[~numeric].tolist(), text.T, strict=True):
        columns[name] = _as_labels(column)
    return columns


def _blocks(rows: Iterator[list[str]], width: int) -> Iterator[tuple[NDArray, int]]:
    """Cells of so many rows at a time, and the number of the first of them."""
    done = 0
    while block := list(islice(rows, max(BLOCK_CELLS // width, 1))):
        full = [row for row in block if row]  # an empty line is no row
        for i, row in enumerate(full, start=done + 1):
            if len(row) != width:
                raise DataError(
                    f"row {i} has {len(row)} cells and the header {width}; give every row the same "
                    "number."
                )
        if full:
            yield np.array(full, dtype=object).reshape(len(full), width), done + 1
        done += len(full)


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True


def _is_numeric(name: str, cells: NDArray) -> bool:
    """Whether a column is numbers; one cell that is a number demands that all are."""
    return not is_label_name(name) and (
        any(_is_number(cell) for cell in cells) or all(cell.lower() in MISSING for cell in cells)
    )


def _to_numbers(cells: NDArray, first_row: int) -> NDArray:
    try:
        return cells.astype(np.float64)
    except ValueError:
        pass
    filled = np.where(np.isin(np.char.lower(cells.astype(str)), list(MISSING)), "nan", cells)
    for i, row in enumerate(filled, start=first_row):
        wrong = [cell for cell in row if not _is_number(cell)]
        if wrong:
            raise DataError(
                f"row {i} has {wrong[0]!r} in a column of numbers; correct it, or leave the cell "
                "empty."
            )
    return filled.astype(np.float64)


def _as_labels(cells: NDArray) -> NDArray:
    """Whole numbers where all cells are, else numbers, else the words themselves."""
    words = cells.astype(str)
    for kind in (np.int64, np.float64):
        with contextlib.suppress(ValueError, OverflowError):
            return words.astype(kind)
    return words


def read_parquet(path: Path) -> Contents:
    """The columns of a Parquet file; a column of lists of one length is a matrix."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from error
    size = path.stat().st_size
    with pyarrow.parquet.ParquetFile(path) as file:
        described = file.metadata
        n_cells = described.num_rows * described.num_columns
        check_declared(8 * n_cells, size, f"the table of {described.num_rows} rows")
        groups = (described.row_group(i) for i in range(described.num_row_groups))
        check_declared(sum(group.total_byte_size for group in groups), size, "the table")
        table = file.read()
    if table.num_rows == 0:
        raise DataError("the table has no rows.")
    columns: dict[str, NDArray] = {}
    unused = []
    for name in table.column_names:
        value = _arrow_values(table.column(name).combine_chunks(), name)
        if value is None or name.startswith("__index_level_"):
            unused.append(name)
        else:
            columns[name] = value
    notes = (f"columns of another type, not used: {listed(unused)}",) if unused else ()
    return Contents("Parquet", columns, table=True, notes=notes)


def _arrow_values(column: Any, name: str) -> NDArray | None:
    """A column as numbers, strings or a matrix; None where it is something else."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        return _arrow_values(column.dictionary_decode(), name)
    if pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
        # With gaps whole numbers become floats, and a gap NaN.
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return np.array(["" if cell is None else cell for cell in column.to_pylist()], dtype=str)
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_list or pa.types.is_fixed_size_list(kind):
        return _arrow_matrix(column, name)
    return None


def _arrow_matrix(column: Any, name: str) -> NDArray | None:
    """Lists of one length as the rows of a matrix; a row without a list becomes NaN."""
    import pyarrow.compute as pc

    present = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
    if len(lengths) == 0 or lengths.min() != lengths.max() or lengths.max() == 0:
        raise DataError(f"column {name!r} holds lists of different lengths, or none.")
    values = _arrow_values(column.drop_null().flatten(), name)
    if values is None or values.dtype.kind not in "biuf" or values.ndim != 1:
        return None
    rows = values.reshape(-1, int(lengths[0]))
    if present.all():
        return rows
    matrix = np.full((len(present), rows.shape[1]), np.nan, np.result_type(rows, np.float32))
    matrix[present] = rows
    return matrix
