"""Read tables: CSV with the usual separators, marks and encodings, Excel workbooks, Parquet."""

from __future__ import annotations

import codecs
import csv
import re
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import Any, TextIO

import numpy as np

from omcal.datasets._columns import UNNAMED, is_label_name
from omcal.datasets._data import Contents, check_declared, text_fits
from omcal.datasets.readers._cells import guarded, read_cells, require_short
from omcal.datasets.readers._numbers import is_marked, is_number
from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.columns import listed
from omcal.views.frames import arrow_column, index_columns, index_of, is_numeric, is_text_type
from omcal.views.pair import DataError

SEPARATORS = "\t;,"  # the comma comes last, as it may be the decimal mark
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LOOK = 20  # lines from which the separator is inferred
# Workbooks write characters that XML cannot hold as _x000D_, and escape the "_" of such texts.
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f]|_(?=x[0-9A-Fa-f]{4}_)")


def is_text(path: Path, start: bytes) -> bool:
    """Whether a file is text."""
    return bool(start) and text_encoding(start) is not None


def read_csv(path: Path, header: bool | None = None) -> Contents:
    """Return the columns of a text table: numbers, or text where no cell is a number."""
    with _opened(path) as (rows, encoding):
        columns, notes = read_cells(rows, header)
    if not encoding.startswith("utf-8"):
        notes = (*notes, f"read as {encoding.upper()}")
    return Contents("CSV", columns, table=True, notes=notes)


def one_column_header(path: Path) -> bool | None:
    """Whether a file of one label per line begins with a header; None for other tables.

    A header is a usual name of labels, a word above numbers only, or a word that does not repeat.
    """
    with _opened(path) as (rows, _):
        lines = [row for row in rows if row]
    if not lines or any(len(row) != 1 for row in lines):
        return None
    (first,), *others = lines
    named = is_label_name(first.strip()) or first.strip().lower() == "cluster"
    return bool(others) and (named or not (is_number(first) or [first] in others))


@contextmanager
def _opened(path: Path) -> Iterator[tuple[Iterator[list[str]], str]]:
    """Open a text table; yield its rows and its encoding."""
    with path.open("rb") as file:
        start = file.read(4096)
    encoding = text_encoding(start) or "utf-8"
    if encoding == "utf-8":
        encoding = _whole_encoding(path)
    with path.open(encoding=encoding, newline="") as stream:
        dialect = _dialect(stream)
        stream.seek(0)
        yield csv.reader(stream, strict=True, **dialect), encoding


def text_encoding(start: bytes) -> str | None:
    """Return the encoding of a text that begins with these bytes; None if it is not text."""
    for bom, encoding in _BOMS.items():
        if start.startswith(bom):
            return encoding
    even, odd = start[::2], start[1::2]
    if len(start) > 3 and (even.count(0) > len(even) // 2) != (odd.count(0) > len(odd) // 2):
        encoding = "utf-16-be" if even.count(0) > odd.count(0) else "utf-16-le"
        return (
            encoding if _is_plain(start[: len(start) // 2 * 2].decode(encoding, "ignore")) else None
        )
    try:
        # The last character may be incomplete; the incremental decoder accepts that.
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
        return "utf-8" if "\0" not in text else None
    except UnicodeDecodeError:
        pass
    text = start.decode("cp1252", "replace")
    # Accented letters are rare in a table; binary data have many bytes above 127.
    foreign = sum(byte > 127 for byte in start)
    readable = _is_plain(text) and foreign < 0.3 * len(start) and any(c in text for c in "\n,;\t")
    return "cp1252" if readable else None


def _is_plain(text: str) -> bool:
    """Whether a text has no control characters except tabs, line ends and form feeds."""
    return all(c >= " " or c in "\t\n\r\f" for c in text) and "\ufffd" not in text


def _whole_encoding(path: Path) -> str:
    """Return UTF-8 if the whole file is valid, else Windows-1252 if it is valid, else Latin-1."""
    for encoding in ("utf-8", "cp1252"):
        try:
            with path.open(encoding=encoding, newline="") as stream:
                while stream.read(2**20):
                    pass
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _dialect(stream: TextIO) -> dict[str, Any]:
    """Return the separator that splits the first lines into equal numbers of cells, at least two.

    A blank after every separator is not part of a cell.
    """
    lines = [line for line in (stream.readline(2**22) for _ in range(_LOOK)) if line]
    if not lines:
        raise DataError("the file is empty.")
    for separator in SEPARATORS:
        try:
            rows, skipped = (
                [
                    row
                    for row in csv.reader(lines, delimiter=separator, skipinitialspace=skip)
                    if row
                ]
                for skip in (False, True)  # a quote may follow the blank, and a separator in it
            )
        except csv.Error:
            continue
        same = [row for row, other in zip(rows, skipped, strict=False) if len(row) == len(other)]
        spaced = all(cell.startswith(" ") for row in same for cell in row[1:])
        widths = {len(row) for row in (skipped if spaced else rows)}
        if len(widths) == 1 and widths != {1}:
            return {"delimiter": separator, "skipinitialspace": spaced}
    return {"delimiter": max(reversed(SEPARATORS), key=lines[0].count)}


def is_excel(path: Path, start: bytes) -> bool:
    """Whether a file is a workbook: a zip archive with a part "xl"."""
    if not start.startswith(b"PK"):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.startswith("xl/") for name in archive.namelist())


def read_excel(path: Path, header: bool | None = None) -> dict[str, Contents]:
    """Read the tables of a workbook by sheet name; empty sheets are left out."""
    openpyxl = require("openpyxl", "Excel files")
    with zipfile.ZipFile(path) as archive:
        size = sum(member.file_size for member in archive.infolist())
    check_declared(size, path.stat().st_size, "the workbook")
    tables = {}
    with closing(openpyxl.load_workbook(path, read_only=True, data_only=True)) as workbook:
        for sheet in workbook.worksheets:
            # The declared size of a sheet may be wrong.
            sheet.reset_dimensions()
            rows = _sheet_rows(sheet)
            first = next(rows, None)
            if first is not None:
                tables[sheet.title] = _sheet_contents(first, rows, sheet.title, header)
    if not tables:
        raise DataError("the workbook has no sheet with cells.")
    return tables


def _sheet_contents(
    first: list[str], rows: Iterator[list[str]], title: str, header: bool | None
) -> Contents:
    padded = (row + [""] * (len(first) - len(row)) for row in chain([first], rows))
    try:
        columns, notes = read_cells(padded, header)
    except DataError as error:
        raise DataError(f"sheet {title!r}: {error}") from error
    return Contents("Excel", columns, table=True, notes=notes)


def _sheet_rows(sheet: Any) -> Iterator[list[str]]:
    """Yield the rows as text, without trailing empty cells and without empty rows."""
    for cells in sheet.iter_rows(values_only=True):
        row = [_cell_text(cell) for cell in cells]
        while row and not row[-1]:
            row.pop()
        if row:
            yield row


def escaped(text: str) -> str:
    """Return the text for a cell of a workbook, with the escapes of the format.

    Examples
    --------
    >>> escaped("a\\r"), escaped("_x000D_")
    ('a_x000D_', '_x005F_x000D_')
    """
    return _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)


def _cell_text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        from openpyxl.utils.escape import unescape

        text = unescape(cell)
        # Here a leading "'" belongs to the text; `read_cells` removes one, so add one.
        return text if is_marked(text) else guarded(text)
    if isinstance(cell, float):  # every number of a workbook is one
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell)


def read_parquet(path: Path) -> Contents:
    """Read the columns of a Parquet file; a column of equally long lists is a matrix."""
    parquet = require("pyarrow.parquet", "Parquet files")
    size = path.stat().st_size
    with parquet.ParquetFile(path) as file:
        described = file.metadata
        texts = [field.name for field in file.schema_arrow if is_text_type(field.type)]
    groups = [described.row_group(i) for i in range(described.num_row_groups)]
    n_cells = described.num_rows * described.num_columns
    check_declared(8 * n_cells, size, f"the table of {described.num_rows} rows")
    check_declared(sum(group.total_byte_size for group in groups), size, "the table")
    # Read as a dictionary, so that a repeated text is read once.
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    return arrow_contents(table, "Parquet")


def arrow_contents(table: Any, file_format: str) -> Contents:
    """Return the columns of an Arrow table; the index of pandas has an empty name."""
    if table.num_rows == 0:
        raise DataError("the table has no rows.")
    require_short(table.column_names)
    columns: dict[str, Array] = {}
    unused = []
    index = index_of(table)
    named_index = index is not None and index.name != UNNAMED
    if index is not None and index.numbering:
        columns[""] = np.asarray(index.values).astype(np.int64)
    for name in table.column_names:
        if named_index and name in index_columns(table):
            continue
        value = _arrow_values(table.column(name).combine_chunks(), name)
        if value is None:
            unused.append(name)
        else:
            columns["" if name.startswith("__index_level_") else name] = value
    note = f"columns of another type or of long texts, ignored: {listed(unused)}"
    return Contents(
        file_format,
        columns,
        table=True,
        ids=index if named_index else None,
        notes=(note,) if unused else (),
    )


def _arrow_values(column: Any, name: str) -> Array | None:
    """Return a column by its kind, or a matrix of its lists; None for other types."""
    import pyarrow as pa

    kind, is_ = column.type, pa.types
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return _arrow_matrix(column, name)
    if is_.is_nested(kind) or is_.is_binary(kind) or is_.is_large_binary(kind):
        return None
    texts = column.dictionary if is_.is_dictionary(kind) else column
    if is_text_type(texts.type):
        # One long text would make the array wide for all rows.
        longest = max((len(text or "") for text in texts.unique().to_pylist()), default=0)
        if not text_fits(len(column), 4 * longest, len(column) * longest):
            return None
    return arrow_column(column)


def _arrow_matrix(column: Any, name: str) -> Array | None:
    """Return equally long lists as the rows of a matrix; a missing list is a row of NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    inner = column.type.value_type
    if pa.types.is_nested(inner) or is_text_type(inner):
        return None
    present = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
    if len(lengths) == 0 or lengths.min() != lengths.max() or lengths.max() == 0:
        raise DataError(f"column {name!r} holds lists of different lengths, or none.")
    values = arrow_column(column.drop_null().flatten())
    if not is_numeric(values):
        return None
    values = values.astype(np.float64) if values.dtype == object else values
    rows = values.reshape(-1, int(lengths[0]))
    if present.all():
        return rows
    matrix = np.full((len(present), rows.shape[1]), np.nan, np.result_type(rows, np.float32))
    matrix[present] = rows
    return matrix
