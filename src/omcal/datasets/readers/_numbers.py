"""Recognise numbers in text cells: decimal marks, thousands separators, missing values."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

MISSING = {"", "na", "nan", "n/a", "null", "none", "?", "<na>", "#n/a"}
BOOLEANS = {"true": "1", "false": "0"}

# Python reads 1_1 as 11 and digits of any script; a table means neither.
_PLAIN = re.compile(
    r"\s*[+-]?(?:(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?|inf|infinity|nan)\s*", re.IGNORECASE | re.ASCII
)
_DECIMAL_COMMA = re.compile(r"\s*[+-]?\d*,\d+(?:e[+-]?\d+)?\s*", re.IGNORECASE | re.ASCII)


def is_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal point and without thousands separators."""
    return _PLAIN.fullmatch(cell) is not None


def is_marked(cell: str) -> bool:
    """Whether a cell is a number in some style and has a mark in it."""
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
        """Return the text that `float` reads: no thousands separators and a decimal point."""
        return cell.replace(self.thousands, "").replace(self.decimal, ".")


def _grouped(decimal: str, thousands: str) -> re.Pattern[str]:
    return re.compile(
        rf"\s*[+-]?[1-9]\d{{0,2}}(?:\{thousands}\d{{3}})+(?:\{decimal}\d+)?\s*", re.ASCII
    )


POINT = NumberStyle(".", ",", _PLAIN, _grouped(".", ","))
COMMA = NumberStyle(",", ".", _DECIMAL_COMMA, _grouped(",", "."))


def is_ambiguous(cell: str) -> bool:
    """Whether a cell is another number in each of the two styles, as 1,234 is.

    Examples
    --------
    >>> [is_ambiguous(cell) for cell in ("1,234", "0,234", "12,34", "1,234,567", "1234")]
    [True, False, False, False, False]
    """
    return is_marked(cell) and POINT.matches(cell) and COMMA.matches(cell)


def deciding_cell(cells: Iterable[str]) -> tuple[NumberStyle | None, str]:
    """Return the style that a cell has and the other style excludes, and the first such cell.

    A cell with a decimal point decides before any cell with a decimal comma; the style is None
    where every cell is possible in both.
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
    """Whether a column is numbers: one ungrouped number demands that all its cells are.

    Cells with thousands separators resemble codes and addresses: all of the column must be
    numbers then. Without a `style` both are possible.
    """
    styles = (POINT, COMMA) if style is None else (style,)
    if any(map(is_number, known)):
        return True
    if COMMA in styles and any(
        _DECIMAL_COMMA.fullmatch(cell) and not POINT.matches(cell) for cell in known
    ):
        return True
    return all(any(each.matches(cell) for each in styles) for cell in known)
