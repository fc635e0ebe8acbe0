"""Recognise numbers in text cells: decimal marks, thousands separators, missing values, headers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from omcal.views.pair import DataError

MISSING = {"", "na", "nan", "n/a", "null", "none", "?", "<na>", "#n/a"}
BOOLEANS = {"true": "1", "false": "0"}
NO_HEADER = "the first row is a sample like the others; there is no header"
NUMBERS_AS_NAMES = "the first row, of numbers, was taken as the names of the columns"

_DIGITS = re.compile(r"\d+", re.ASCII)

# Python accepts 1_1 as 11, and digits of any script; in a table neither is a number.
_PLAIN = re.compile(
    r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\s*", re.IGNORECASE | re.ASCII
)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:e[+-]?\d+)?\s*", re.IGNORECASE | re.ASCII)


def is_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal point and without thousands separators."""
    return _PLAIN.fullmatch(cell) is not None


def is_marked(cell: str) -> bool:
    """Whether a cell is a number in some style and contains a mark."""
    return ("," in cell or "." in cell) and (POINT.matches(cell) or COMMA.matches(cell))


def is_missing(cell: str) -> bool:
    """Whether a cell stands for a missing value."""
    return cell.strip().lower() in MISSING


@dataclass(frozen=True)
class NumberStyle:
    """A way of writing numbers: 1,234.5 (decimal point) or 1.234,5 (decimal comma)."""

    decimal: str
    thousands: str
    ungrouped: re.Pattern[str]
    grouped: re.Pattern[str]

    def matches(self, cell: str) -> bool:
        """Whether a cell is a number in this style."""
        if "," not in cell and "." not in cell:
            return is_number(cell)
        return bool(self.ungrouped.fullmatch(cell) or self.grouped.fullmatch(cell))

    def plain(self, cell: str) -> str:
        """Return the text for `float`: without thousands separators, with a decimal point."""
        return cell.replace(self.thousands, "").replace(self.decimal, ".")


def _grouped(decimal: str, thousands: str) -> re.Pattern[str]:
    return re.compile(
        rf"\s*[+-]?[1-9]\d{{0,2}}(?:\{thousands}\d{{3}})+(?:\{decimal}\d+)?\s*", re.ASCII
    )


POINT = NumberStyle(".", ",", _PLAIN, _grouped(".", ","))
COMMA = NumberStyle(",", ".", _DECIMAL_COMMA, _grouped(",", "."))


def is_ambiguous(cell: str) -> bool:
    """Whether a cell is a different number in each of the two styles, as 1,234 is.

    Examples
    --------
    >>> [is_ambiguous(cell) for cell in ("1,234", "0,234", "12,34", "1,234,567", "1234")]
    [True, False, False, False, False]
    """
    return is_marked(cell) and POINT.matches(cell) and COMMA.matches(cell)


def deciding_cell(cells: Iterable[str]) -> tuple[NumberStyle | None, str]:
    """Return the style that a cell has and the other style excludes, and the first such cell.

    A decimal point has precedence over a decimal comma. The style is None if both fit all.
    """
    found: tuple[NumberStyle | None, str] = (None, "")
    for cell in cells:
        if "," not in cell and "." not in cell:
            continue
        point, comma = POINT.matches(cell), COMMA.matches(cell)
        if point and not comma:
            return POINT, cell
        if comma and not point and found[0] is None:
            found = COMMA, cell
    return found


def is_numeric_column(known: list[str], style: NumberStyle | None) -> bool:
    """Whether a column is numeric: one cell that is a number without thousands separators decides.

    Cells with thousands separators resemble codes and addresses: if there are no other numbers,
    all cells must be numbers. Without a `style` both styles are possible.
    """
    styles = (POINT, COMMA) if style is None else (style,)
    if any(map(is_number, known)):
        return True
    if COMMA in styles and any(
        _DECIMAL_COMMA.fullmatch(cell) and not POINT.matches(cell) for cell in known
    ):
        return True
    return all(any(each.matches(cell) for each in styles) for cell in known)


def column_names(
    cells: Sequence[str], sample: list[list[str]], header: bool | None
) -> tuple[list[str], str]:
    """Return the column names, and a note if the first row alone does not determine them.

    `cells` is the first row and `sample` some of the rows below it.
    """
    cells = list(cells)
    numbered = [f"c{j}" for j in range(1, len(cells) + 1)]
    if header is not None:
        return (cells, "") if header else (numbered, NO_HEADER)
    # pandas leaves the cell above its index empty.
    body = cells[1:] if cells[0] == "" and len(cells) > 1 else cells
    if not all(_value(cell) is not None or (cell and is_missing(cell)) for cell in body):
        return cells, ""
    if not all(_DIGITS.fullmatch(cell) for cell in body) or len(set(body)) < len(body):
        return numbered, NO_HEADER
    verdict = True if body is not cells else _are_names([int(cell) for cell in cells], sample)
    if verdict is None:
        shown = ", ".join(cells[:4]) + (" …" if len(cells) > 4 else "")
        raise DataError(
            f"its first row, {shown}, may be the names of the columns or a sample; choose with "
            "header=True or header=False (--header or --no-header)."
        )
    return (cells, NUMBERS_AS_NAMES) if verdict else (numbered, NO_HEADER)


def _are_names(values: list[int], sample: list[list[str]]) -> bool | None:
    """Whether distinct whole numbers above these rows are column names; None if it is unclear."""
    rows = [row for row in sample if len(row) == len(values)]
    if not rows:
        return False
    outside = True
    for value, column in zip(values, zip(*rows, strict=True), strict=True):
        known = [cell for cell in column if not is_missing(cell)]
        numbers = [number for cell in known if (number := _value(cell)) is not None]
        if known and not any(_DIGITS.fullmatch(cell.strip().lstrip("+-")) for cell in known):
            return True  # a whole number above words or fractions only
        outside &= not numbers or not min(numbers) <= value <= max(numbers)
    run = values == list(range(values[0], values[0] + len(values)))
    if not (run or outside):
        return False
    others_run = all(_is_run(row) for row in rows)
    certain = (run and len(values) >= 6) or (outside and len(values) >= 3 and len(rows) >= 10)
    return True if certain and not others_run else None


def _is_run(row: list[str]) -> bool:
    values = [int(cell) if _DIGITS.fullmatch(cell) else -1 for cell in row]
    return values == list(range(values[0], values[0] + len(values)))


def _value(cell: str) -> float | None:
    """Return the number in a cell of either style; None if it is not a number."""
    for style in (POINT, COMMA):
        if style.matches(cell):
            return float(style.plain(cell))
    return None
