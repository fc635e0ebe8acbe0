"""Read Excel workbooks: one table per sheet."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator
from contextlib import closing
from itertools import chain
from pathlib import Path
from typing import Any

from omcal.datasets._contents import Contents, check_declared
from omcal.datasets.readers._cells import guarded, read_cells
from omcal.datasets.readers._numbers import is_marked
from omcal.machine.optional import require
from omcal.views.pair import DataError


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
            rows = _rows(sheet)
            first = next(rows, None)
            if first is not None:
                tables[sheet.title] = _table(first, rows, sheet.title, header)
    if not tables:
        raise DataError("the workbook has no sheet with cells.")
    return tables


def _table(
    first: list[str], rows: Iterator[list[str]], title: str, header: bool | None
) -> Contents:
    padded = (row + [""] * (len(first) - len(row)) for row in chain([first], rows))
    try:
        columns, notes = read_cells(padded, header)
    except DataError as error:
        raise DataError(f"sheet {title!r}: {error}") from error
    return Contents("Excel", columns, table=True, notes=notes)


def _rows(sheet: Any) -> Iterator[list[str]]:
    """Yield the rows as text, without trailing empty cells and without empty rows."""
    for cells in sheet.iter_rows(values_only=True):
        row = [_text(cell) for cell in cells]
        while row and not row[-1]:
            row.pop()
        if row:
            yield row


# A workbook writes characters that XML does not keep as _x000D_, and "_x" of such a text as below.
_ESCAPED = re.compile(r"_x([0-9A-Fa-f]{4})_")
_TO_ESCAPE = re.compile(r"[\x00-\x08\x0b-\x1f]|_(?=x[0-9A-Fa-f]{4}_)")


def escaped(text: str) -> str:
    """Return the text for a cell of a workbook, with the escapes of the format.

    Examples
    --------
    >>> escaped("a\\r"), unescaped("a_x000D_"), unescaped(escaped("_x000D_"))
    ('a_x000D_', 'a\\r', '_x000D_')
    """
    return _TO_ESCAPE.sub(lambda found: f"_x{ord(found[0]):04X}_", text)


def unescaped(text: str) -> str:
    """Return the text that a cell of a workbook stands for."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 16)), text)


def _text(cell: Any) -> str:
    if cell is None:
        return ""
    if isinstance(cell, str):
        text = unescaped(cell)
        # A leading "'" belongs to the text here, and `read_cells` takes one away.
        return text if is_marked(text) else guarded(text)
    if isinstance(cell, float):  # every number of a workbook is one
        return str(int(cell)) if cell.is_integer() and abs(cell) < 2**53 else repr(cell)
    return str(cell)
