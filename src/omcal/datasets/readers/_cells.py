"""From rows of text cells to columns: which row is the header, what is a number, what a code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice

import numpy as np

from omcal.datasets._contents import text_array
from omcal.datasets._data import DataError
from omcal.datasets._names import is_id_name, is_label_name, listed
from omcal.machine.arrays import Array, Mask

BLOCK_CELLS = 2**20
SAMPLE_ROWS = 1000  # that are looked at before it is decided what the first row is
MISSING = {"", "na", "nan", "n/a", "null", "none", "?"}
UNKNOWN_LABELS = {"NA", "N/A", "NaN", "nan", "<NA>"}

# Python reads 1_1 as 11 and digits of any script; a table means neither.
_NUMBER = re.compile(
    r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\s*", re.IGNORECASE | re.ASCII
)
_WHOLE = re.compile(r"\d+", re.ASCII)
_CANONICAL = re.compile(r"-?(?:0|[1-9]\d{0,17})", re.ASCII)
_POINT, _COMMA = (re.compile(rf"[+-]?\d*\{mark}\d+(?:e[+-]?\d+)?", re.IGNORECASE) for mark in ".,")
# Whole numbers that a float would not give back are codes: 007, or more than 15 digits.
# The cells are searched as one text, each between two of these; a fixed first letter is fast.
_END = "\0"
_CODE = re.compile(r"\0(?:0\d+|\d{16,})(?=\0)", re.ASCII)
_FORMULA = re.compile(r"'*[=+\-@\t\r]")  # spreadsheets mark text by a leading "'"


def guarded(cell: str) -> str:
    """A text for a cell of CSV that no spreadsheet runs as a formula.

    Examples
    --------
    >>> guarded("=cmd()"), guarded("-2.5"), guarded("'=it")
    ("'=cmd()", '-2.5', "''=it")
    >>> unguarded(guarded("=cmd()")), unguarded(guarded("'=it")), unguarded("'tis")
    ('=cmd()', "'=it", "'tis")
    """
    return f"'{cell}" if _FORMULA.match(cell) and not is_number(cell) else cell


def unguarded(cell: str) -> str:
    """The text that was guarded; any other as it is."""
    return cell[1:] if cell.startswith("'") and _FORMULA.match(cell) else cell


def read_cells(rows: Iterator[list[str]], header: bool | None) -> tuple[dict[str, Array], str]:
    """The columns of a table by name, and a remark on its first row where there is one to make.

    A column is numbers (float64) or, where no cell is one, text; columns named like labels or ids,
    and codes, are whole numbers where that loses nothing, else text.
    """
    first = next(rows, None)
    if first is None:
        raise DataError("the table is empty.")
    sample = list(islice(rows, SAMPLE_ROWS))
    comma = _decimal_comma(sample, first)
    looked_at = [_with_points(row, comma) for row in [first, *sample] if row]
    names, remark = _names(looked_at[0], looked_at[1:], header)
    rows = chain(sample, rows)
    if remark == NO_HEADER:
        rows = chain([first], rows)
    named = [name for name in names if name]
    if len(set(named)) < len(named):
        raise DataError("two columns have the same name; rename one of them.")
    require_short(names)
    table = _Table(names)
    for cells, first_row in _blocks(rows, len(names)):
        table.add(_points(cells) if comma else cells, first_row)
    columns = table.columns()
    said = ["" if remark == NO_HEADER and header is not None else remark]
    if table.left_out:
        said.append(f"columns of long texts, not used: {listed(table.left_out)}")
    return columns, "; ".join(filter(None, said))


def require_short(names: Sequence[str]) -> None:
    """Refuse names of columns that would fill the memory."""
    if text_array(names) is None:
        longest = max(map(len, names))
        raise DataError(f"a column has a name of {longest} letters; rename it.")


NO_HEADER = "the first row is a sample like the others; there is no header"
NUMBERS_AS_NAMES = "the first row, of numbers, was taken as the names of the columns"


def _names(
    first: Sequence[str], sample: list[list[str]], header: bool | None
) -> tuple[list[str], str]:
    """The names of the columns, and how they were found where that is not plain."""
    cells = [unguarded(cell.strip()) for cell in first]
    numbered = [f"c{j}" for j in range(1, len(cells) + 1)]
    if header is not None:
        return (cells, "") if header else (numbered, NO_HEADER)
    # pandas leaves the place above its index empty.
    body = cells[1:] if cells[0] == "" and len(cells) > 1 else cells
    if not all(is_number(cell) or (cell and cell.lower() in MISSING) for cell in body):
        return cells, ""
    if not all(_WHOLE.fullmatch(cell) for cell in body) or len(set(body)) < len(body):
        return numbered, NO_HEADER
    verdict = True if body is not cells else _are_names([int(cell) for cell in cells], sample)
    if verdict is None:
        shown = ", ".join(cells[:4]) + (" …" if len(cells) > 4 else "")
        raise DataError(
            f"its first row, {shown}, may be the names of the columns or a sample; say which with "
            "header=True or header=False (--header or --no-header)."
        )
    return (cells, NUMBERS_AS_NAMES) if verdict else (numbered, NO_HEADER)


def _are_names(values: list[int], sample: list[list[str]]) -> bool | None:
    """Whether whole numbers, all different, above these rows are names; None where nobody knows."""
    rows = [row for row in sample if len(row) == len(values)]
    if not rows:
        return False
    outside = True
    for value, column in zip(values, zip(*rows, strict=True), strict=True):
        known = [cell for cell in column if cell.strip().lower() not in MISSING]
        numbers = [float(cell) for cell in known if is_number(cell)]
        if known and not any(_WHOLE.fullmatch(cell.strip().lstrip("+-")) for cell in known):
            return True  # words or fractions throughout, and a whole number above them
        outside &= not numbers or not min(numbers) <= value <= max(numbers)
    run = values == list(range(values[0], values[0] + len(values)))
    if not (run or outside):
        return False
    others_run = all(_is_run(row) for row in rows)
    certain = (run and len(values) >= 6) or (outside and len(values) >= 3 and len(rows) >= 10)
    return True if certain and not others_run else None


def _is_run(row: list[str]) -> bool:
    values = [int(cell) if _WHOLE.fullmatch(cell) else -1 for cell in row]
    return values == list(range(values[0], values[0] + len(values)))


def is_number(cell: str) -> bool:
    """Whether a cell is a number as tables write them."""
    return _NUMBER.fullmatch(cell) is not None


def _decimal_comma(sample: list[list[str]], first: list[str]) -> bool:
    """Whether the table writes 1,5 and nowhere 1.5."""
    cells = [cell.strip() for row in [first, *sample[:200]] for cell in row]
    return any(map(_COMMA.fullmatch, cells)) and not any(map(_POINT.fullmatch, cells))


def _with_points(row: list[str], comma: bool) -> list[str]:
    return [_point(cell) for cell in row] if comma else row


def _point(cell: str) -> str:
    return cell.replace(",", ".") if _COMMA.fullmatch(cell.strip()) else cell


def _points(cells: Array) -> Array:
    return np.array([_point(cell) for cell in cells.ravel()], dtype=object).reshape(cells.shape)


def _blocks(rows: Iterator[list[str]], width: int) -> Iterator[tuple[Array, int]]:
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


@dataclass
class _Table:
    """Columns in the making, block by block."""

    names: list[str]
    numeric: Mask | None = None
    numbers: list[Array] = field(default_factory=list)
    words: list[Array] = field(default_factory=list)
    # The cells of blocks of numeric columns in which there is a code.
    codes: list[dict[int, Array]] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)

    def add(self, cells: Array, first_row: int) -> None:
        if self.numeric is None:
            kinds = [_is_numeric(name, cells[:, j]) for j, name in enumerate(self.names)]
            self.numeric = np.array(kinds)
        digits = cells[:, self.numeric]
        text = _joined(digits.ravel())
        self.numbers.append(_to_numbers(digits, first_row, text.isascii() and "_" not in text))
        self.words.append(cells[:, ~self.numeric])
        columns = range(digits.shape[1]) if _CODE.search(text) else ()
        self.codes.append({j: digits[:, j] for j in columns if _has_codes(digits[:, j])})

    def columns(self) -> dict[str, Array]:
        if self.numeric is None:
            raise DataError("the table has a header and no rows.")
        # By columns in memory, because columns are what is taken from it.
        table, text = np.asfortranarray(np.concatenate(self.numbers)), np.concatenate(self.words)
        columns: dict[str, Array] = dict.fromkeys(self.names, text)
        titles = np.array(self.names, dtype=object)
        for j, name in enumerate(titles[self.numeric]):
            codes = self._codes(j)
            columns[name] = table[:, j] if codes is None else codes
        for name, column in zip(titles[~self.numeric], text.T, strict=True):
            labels = _as_ids(column) if is_id_name(name) else _as_labels(column)
            if labels is None:
                self.left_out.append(name)
                del columns[name]
            else:
                columns[name] = labels
        return columns

    def _codes(self, j: int) -> Array | None:
        """The text of a numeric column that turned out to be codes; None where it is none."""
        if not any(j in block for block in self.codes):
            return None
        cells = [
            block[j] if j in block else _whole_text(numbers[:, j])
            for block, numbers in zip(self.codes, self.numbers, strict=True)
        ]
        words = [cell.strip() for block in cells for cell in block]
        plain = all(_WHOLE.fullmatch(cell) or cell.lower() in MISSING for cell in words)
        return text_array(words) if plain else None


def _whole_text(values: Array) -> list[str]:
    """Numbers without a code among them as the text they were, if it was whole numbers."""
    return ["" if np.isnan(x) else str(int(x)) if x == int(x) else str(x) for x in values.tolist()]


def _is_numeric(name: str, cells: Array) -> bool:
    """Whether a column is numbers; one cell that is a number demands that all are."""
    if is_label_name(name):
        return False
    known = [cell for cell in cells if cell.lower() not in MISSING]
    if is_id_name(name):  # with fractions it is none
        return any(is_number(cell) and not _WHOLE.fullmatch(cell.strip()) for cell in known)
    return not known or any(map(is_number, cells))


def _to_numbers(cells: Array, first_row: int, plain: bool) -> Array:
    """The cells as numbers; `plain` says that there is nothing in them that only Python reads."""
    if plain:
        try:
            return cells.astype(np.float64)
        except ValueError:
            pass
    filled = cells.copy()
    filled[[[cell.lower() in MISSING for cell in row] for row in cells]] = "nan"
    for i, row in enumerate(filled, start=first_row):
        wrong = [cell for cell in row if not is_number(cell)]
        if wrong:
            raise DataError(
                f"row {i} has {wrong[0]!r} in a column of numbers; correct it, or leave the cell "
                "empty."
            )
    return filled.astype(np.float64)


def _as_ids(cells: Array) -> Array | None:
    """Whole numbers where that loses nothing, else the words; NA may be somebody's name."""
    words = text_array([unguarded(cell.strip()) for cell in cells])
    whole = words is not None and all(map(_CANONICAL.fullmatch, words))
    return words.astype(np.int64) if words is not None and whole else words


def _as_labels(cells: Array) -> Array | None:
    """Whole numbers or numbers where all cells are and none is lost by it, else the words."""
    words = text_array(["" if cell in UNKNOWN_LABELS else unguarded(cell) for cell in cells])
    if words is None:
        return None
    if all(map(_CANONICAL.fullmatch, words)):
        return words.astype(np.int64)
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
