"""Read text tables: CSV with the usual separators, decimal marks and encodings."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

from omcal.datasets._contents import Contents
from omcal.datasets._names import is_label_name
from omcal.datasets.readers._cells import read_cells
from omcal.datasets.readers._numbers import is_number
from omcal.views.pair import DataError

SEPARATORS = "\t;,"  # the comma last: it may be the decimal mark
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LOOK = 20  # lines from which the separator is inferred


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

    A header is a usual name of labels, a word above numbers alone, or a word that is not repeated.
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
    """Open a text table; yield its rows and the encoding."""
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
    """Return the encoding of text that begins with these bytes; None where it is no text."""
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
        # The last character may be cut in two; the incremental decoder accepts that.
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
        return "utf-8" if "\0" not in text else None
    except UnicodeDecodeError:
        pass
    text = start.decode("cp1252", "replace")
    # Accented letters are rare in a table; other data has many bytes above 127.
    foreign = sum(byte > 127 for byte in start)
    readable = _is_plain(text) and foreign < 0.3 * len(start) and any(c in text for c in "\n,;\t")
    return "cp1252" if readable else None


def _is_plain(text: str) -> bool:
    """Whether a text has no control characters but tabs, line ends and form feeds."""
    return all(c >= " " or c in "\t\n\r\f" for c in text) and "\ufffd" not in text


def _whole_encoding(path: Path) -> str:
    """Return UTF-8 if the whole file is, else Windows' extension of Latin-1, else Latin-1."""
    for encoding in ("utf-8", "cp1252"):
        decoder = codecs.getincrementaldecoder(encoding)()
        try:
            with path.open("rb") as file:
                while piece := file.read(2**20):
                    decoder.decode(piece)
                decoder.decode(b"", final=True)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def _dialect(stream: TextIO) -> dict[str, Any]:
    """Return the separator that cuts the first lines into equally many cells, more than one.

    A blank after every separator belongs to no cell.
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
