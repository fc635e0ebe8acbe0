"""Turn rows of text cells into columns: header, numbers, Booleans, codes, ids and labels."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from omcal.datasets._columns import is_label_name
from omcal.datasets._data import text_array
from omcal.datasets.readers._numbers import (
    BOOLEANS,
    COMMA,
    NO_HEADER,
    POINT,
    NumberStyle,
    column_names,
    deciding_cell,
    is_ambiguous,
    is_marked,
    is_missing,
    is_number,
    is_numeric_column,
)
from omcal.machine.arrays import Array, Mask
from omcal.views.columns import listed
from omcal.views.frames import as_column
from omcal.views.pair import DataError, as_text, is_id_name

BLOCK_CELLS = 2**20
SAMPLE_ROWS = 1000  # rows examined to decide whether the first row is a header
UNKNOWN_LABELS = {"NA", "N/A", "NaN", "nan", "<NA>"}

_WHOLE = re.compile(r"\d+", re.ASCII)
_CANONICAL = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
# Whole numbers that a float cannot represent as written are codes: 007, or more than 15 digits. The
# cells are searched as one text, separated by _END; patterns with a fixed first letter are fast.
_END = "\0"
_CODE = re.compile(r"\0(?:0\d+|\d{16,})(?=\0)", re.ASCII)
# Spreadsheets run cells that begin like this as formulas, also after a mark at which they may split
# a line. A leading "'" marks text.
_START = r"(^|[;,|\t\r\n])"
_UNGUARDED = re.compile(_START + r"(?='*[=+\-@\t\r])")
_GUARDED = re.compile(_START + r"'(?='*[=+\-@\t\r])")


def guarded(cell: str) -> str:
    """Return a text for a CSV cell that no spreadsheet runs as a formula.

    Examples
    --------
    >>> guarded("=cmd()"), guarded("-2.5"), guarded("'=it"), guarded("a;=cmd()")
    ("'=cmd()", '-2.5', "''=it", "a;'=cmd()")
    >>> unguarded(guarded("=cmd()")), unguarded(guarded("'=it")), unguarded("'tis")
    ('=cmd()', "'=it", "'tis")
    """
    return cell if is_number(cell) else _UNGUARDED.sub(r"\1'", cell)


def unguarded(cell: str) -> str:
    """Return the text from which `guarded` made the cell; any other text unchanged."""
    return _GUARDED.sub(r"\1", cell) if "'" in cell else cell


def read_cells(
    rows: Iterator[list[str]], header: bool | None
) -> tuple[dict[str, Array], tuple[str, ...]]:
    """Return the columns of a table by name, and notes on how its cells were read.

    A column holds numbers (float64), booleans or dates, otherwise text; see `omcal.views.frames`.
    Columns with names of labels or ids, and codes, are whole numbers if that loses nothing,
    otherwise text. Decimal marks and thousands separators are inferred from all rows.
    """
    first = next(rows, None)
    if first is None:
        raise DataError("the table is empty.")
    sample = list(islice(rows, SAMPLE_ROWS))
    cells = [unguarded(cell.strip()) for cell in first]
    names, remark = column_names(cells, [row for row in sample if row], header)
    rows = chain(sample, rows)
    if remark == NO_HEADER:
        rows = chain([first], rows)
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        raise DataError("two columns have the same name; rename one of them.")
    require_short(names)
    table = _Table(names)
    for block, first_row in _blocks(rows, len(names)):
        table.add(block, first_row)
    columns = table.columns()
    notes = ["" if remark == NO_HEADER and header is not None else remark, *table.notes]
    return columns, tuple(filter(None, notes))


def require_short(names: Sequence[str]) -> None:
    """Refuse column names that are long enough to fill the memory."""
    if text_array(names) is None:
        longest = max(map(len, names))
        raise DataError(f"a column has a name of {longest} letters; rename it.")


def _blocks(rows: Iterator[list[str]], width: int) -> Iterator[tuple[Array, int]]:
    """Yield the cells of successive rows as a table, and the number of its first row."""
    done = 0
    while block := list(islice(rows, max(BLOCK_CELLS // width, 1))):
        full = [row for row in block if row]  # skip empty lines
        for i, row in enumerate(full, start=done + 1):
            if len(row) != width:
                raise DataError(
                    f"row {i} has {len(row)} cells and the header {width}; give every row the same "
                    "number."
                )
        if full:
            yield np.array(full, dtype=object).reshape(len(full), width), done + 1
        done += len(full)


@dataclass
class _Table:
    """Columns under construction, block by block."""

    names: list[str]
    numeric: Mask | None = None
    boolean: Mask | None = None
    style: NumberStyle | None = None  # None until a number decides it
    waiting: list[tuple[Array, int]] = field(default_factory=list)
    numbers: list[Array] = field(default_factory=list)
    words: list[Array] = field(default_factory=list)
    # Per block, the cells of the numeric columns that contain a code.
    codes: list[dict[int, Array]] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def add(self, cells: Array, first_row: int) -> None:
        """Add the cells of a block of rows."""
        numeric = self._classify(cells) if self.numeric is None else self.numeric
        digits = cells[:, numeric]
        self.words.append(cells[:, ~numeric])
        self.waiting.append((digits, first_row))
        if self.style is None:
            self._decide(digits.ravel())
        undecided = len(self.waiting) > 1 or any(map(is_ambiguous, digits.ravel()))
        if self.style is not None or not undecided:
            self._convert()

    def columns(self) -> dict[str, Array]:
        """Return the columns by name, once all rows are added."""
        if self.numeric is None or self.boolean is None:
            raise DataError("the table has a header and no rows.")
        self._require_decided()
        self._convert()
        # Column-major, because columns are taken from it.
        table, text = np.asfortranarray(np.concatenate(self.numbers)), np.concatenate(self.words)
        columns: dict[str, Array] = dict.fromkeys(self.names, text)
        titles = np.array(self.names, dtype=object)
        for j, name in enumerate(titles[self.numeric]):
            codes = self._codes(j)
            columns[name] = table[:, j] if codes is None else codes
            if self.boolean[j]:
                is_true, gaps = table[:, j] == 1, np.isnan(table[:, j])
                columns[name] = np.where(gaps, np.array(None), is_true) if gaps.any() else is_true
        long_texts = []
        for name, column in zip(titles[~self.numeric], text.T, strict=True):
            is_id = is_id_name(name)
            unknown = () if is_id else UNKNOWN_LABELS  # NA may be the name of a sample
            words = text_array(["" if cell in unknown else unguarded(cell) for cell in column])
            if words is None:
                long_texts.append(name)
                del columns[name]
                continue
            values = _as_ids(words) if is_id else _as_labels(words)
            columns[name] = values if is_id or is_label_name(name) else as_column(values)
        if long_texts:
            self.notes.append(f"columns of long texts, ignored: {listed(long_texts)}")
        return columns

    def _classify(self, cells: Array) -> Mask:
        """Decide from the first block which columns are numeric and which are Boolean."""
        texts = [
            None
            if is_label_name(name) or is_id_name(name)
            else [cell for cell in column if not is_missing(cell)]
            for name, column in zip(self.names, cells.T, strict=True)
        ]
        candidates = [known for known in texts if known and is_numeric_column(known, None)]
        self._decide(chain.from_iterable(candidates))
        boolean = [bool(known) and all(map(_is_boolean, known or ())) for known in texts]
        numeric = [known is not None and is_numeric_column(known, self.style) for known in texts]
        self.numeric = np.array(numeric) | np.array(boolean)
        self.boolean = np.array(boolean)[self.numeric]
        return self.numeric

    def _decide(self, cells: Iterable[str]) -> None:
        self.style, cell = deciding_cell(cells)
        if self.style is COMMA:
            self._note(f"decimal mark {COMMA.decimal!r}", cell, COMMA)

    def _require_decided(self) -> None:
        """Refuse a comma that may be a decimal or thousands mark; note an ambiguous point."""
        for digits, first_row in self.waiting if self.style is None else ():
            for i, cell in enumerate(digits.ravel()):
                if not is_ambiguous(cell):
                    continue
                if "," in cell:
                    raise DataError(
                        f"row {first_row + i // digits.shape[1]} has {cell!r}, which may be "
                        f"{POINT.plain(cell)} or {COMMA.plain(cell)}; no other number of the table "
                        "decides. Write numbers without thousands separators and with a decimal "
                        "point."
                    )
                self._note(f"decimal mark {POINT.decimal!r}", cell, POINT)

    def _convert(self) -> None:
        """Convert the blocks that waited for the number style."""
        style = self.style or POINT
        for digits, first_row in self.waiting:
            for j in np.flatnonzero(np.asarray(self.boolean)):
                digits[:, j] = [BOOLEANS.get(cell.strip().lower(), cell) for cell in digits[:, j]]
            text = _joined(digits.ravel())
            plain = style is POINT and text.isascii() and "_" not in text
            self.numbers.append(self._numbers(digits, first_row, plain, style))
            columns = range(digits.shape[1]) if _CODE.search(text) else ()
            self.codes.append({j: digits[:, j] for j in columns if _has_codes(digits[:, j])})
        self.waiting.clear()

    def _numbers(self, cells: Array, first_row: int, plain: bool, style: NumberStyle) -> Array:
        """Return the cells as numbers; `plain` cells can be passed to `float` unchanged."""
        if plain:
            try:
                return cells.astype(np.float64)
            except ValueError:
                pass
        filled = cells.copy()
        for i, row in enumerate(filled):
            for j, cell in enumerate(row):
                if is_missing(cell):
                    filled[i, j] = "nan"
                elif not style.matches(cell):
                    mark = f" whose decimal mark is {style.decimal!r}" if is_marked(cell) else ""
                    raise DataError(
                        f"row {first_row + i} has {cell!r} in a column of numbers{mark}; correct "
                        "it, or leave the cell empty."
                    )
                else:
                    filled[i, j] = style.plain(cell)
                    if style.thousands in cell:
                        self._note(f"thousands separator {style.thousands!r}", cell, style)
        return filled.astype(np.float64)

    def _note(self, title: str, cell: str, style: NumberStyle) -> None:
        """Note how numbers were read, with the first number as an example."""
        if not any(note.startswith(title) for note in self.notes):
            self.notes.append(f"{title}: {cell!r} was read as {style.plain(cell).strip()}")

    def _codes(self, j: int) -> Array | None:
        """Return the texts of a numeric column if they are codes, else None."""
        if not any(j in block for block in self.codes):
            return None
        cells = [
            block[j] if j in block else as_text(numbers[:, j])
            for block, numbers in zip(self.codes, self.numbers, strict=True)
        ]
        words = [cell.strip() for block in cells for cell in block]
        plain = all(_WHOLE.fullmatch(cell) or is_missing(cell) for cell in words)
        return text_array(words) if plain else None


def _is_boolean(cell: str) -> bool:
    return cell.strip().lower() in BOOLEANS


def _as_ids(words: Array) -> Array:
    """Return whole numbers if that loses nothing, fractions as floats, otherwise the words."""
    if all(map(_CANONICAL.fullmatch, words)):
        return words.astype(np.int64)
    known = [word for word in words if not is_missing(word)]
    fractions = any("." in word for word in known) and all(map(is_number, known))
    if fractions and not _has_codes(words):
        return np.array(["nan" if is_missing(word) else word for word in words]).astype(np.float64)
    return words


def _as_labels(words: Array) -> Array:
    """Return Booleans or numbers if all words are such and stay distinct, otherwise the words."""
    if all(map(_CANONICAL.fullmatch, words)):
        return words.astype(np.int64)
    if all(map(_is_boolean, words)):
        return np.array([word.lower() == "true" for word in words])
    if all(map(is_number, words)):
        numbers = words.astype(np.float64)
        whole = any(map(_WHOLE.fullmatch, words))
        if len(set(numbers)) == len(set(words)) and not (whole and _has_codes(words)):
            return numbers
    return words


def _joined(cells: Iterable[str]) -> str:
    return _END + _END.join(cells) + _END


def _has_codes(cells: Iterable[str]) -> bool:
    return _CODE.search(_joined(cells)) is not None
