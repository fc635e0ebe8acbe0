"""Text tables: CSV with the usual separators, decimal marks and encodings."""

from __future__ import annotations

import codecs
import csv
from itertools import islice
from pathlib import Path
from typing import TextIO

from omcal.datasets._contents import Contents
from omcal.datasets._data import DataError
from omcal.datasets.readers._cells import read_cells

SEPARATORS = "\t;,"  # the comma last: it may be the decimal mark
_BOMS = {codecs.BOM_UTF8: "utf-8-sig", codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
_LOOK = 20  # lines


def read_csv(path: Path, header: bool | None = None) -> Contents:
    """The columns of a text table: numbers, or text where no cell is a number."""
    with path.open("rb") as file:
        start = file.read(4096)
    encoding = text_encoding(start) or "utf-8"
    if encoding == "utf-8":
        encoding = _whole_encoding(path)
    with path.open(encoding=encoding, newline="") as stream:
        separator = _separator(stream)
        stream.seek(0)
        columns, remark = read_cells(csv.reader(stream, delimiter=separator, strict=True), header)
    notes = [remark] if remark else []
    if not encoding.startswith("utf-8"):
        notes.append(f"read as {encoding.upper()}")
    return Contents("CSV", columns, table=True, notes=tuple(notes))


def text_encoding(start: bytes) -> str | None:
    """The encoding of a text that begins like this; None where it is no text."""
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
        # The last character may be cut in two, which only this decoder forgives.
        text = codecs.getincrementaldecoder("utf-8")().decode(start)
        return "utf-8" if "\0" not in text else None
    except UnicodeDecodeError:
        pass
    text = start.decode("cp1252", "replace")
    # Letters with marks are rare in a table; bytes that mean something else are not.
    foreign = sum(byte > 127 for byte in start)
    readable = _is_plain(text) and foreign < 0.3 * len(start) and any(c in text for c in "\n,;\t")
    return "cp1252" if readable else None


def _is_plain(text: str) -> bool:
    """Whether there is no control character in it but those of texts."""
    return all(c >= " " or c in "\t\n\r\f" for c in text) and "\ufffd" not in text


def _whole_encoding(path: Path) -> str:
    """UTF-8 where all of the file is, else Windows' extension of Latin-1, else Latin-1."""
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


def _separator(stream: TextIO) -> str:
    """The separator that cuts the first lines into equally many cells, more than one."""
    lines = [line for line in (stream.readline(2**22) for _ in range(_LOOK)) if line]
    if not lines:
        raise DataError("the file is empty.")
    for separator in SEPARATORS:
        try:
            widths = {
                len(row) for row in islice(csv.reader(lines, delimiter=separator), _LOOK) if row
            }
        except csv.Error:
            continue
        if len(widths) == 1 and widths != {1}:
            return separator
    return max(reversed(SEPARATORS), key=lines[0].count)
