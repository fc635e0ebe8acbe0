"""Decide whether the first row of a table is a header."""

from __future__ import annotations

import re
from collections.abc import Sequence

from omcal.datasets.readers._numbers import COMMA, POINT, is_missing
from omcal.views.pair import DataError

_WHOLE = re.compile(r"\d+", re.ASCII)


NO_HEADER = "the first row is a sample like the others; there is no header"
NUMBERS_AS_NAMES = "the first row, of numbers, was taken as the names of the columns"


def column_names(
    cells: Sequence[str], sample: list[list[str]], header: bool | None
) -> tuple[list[str], str]:
    """Return the names of the columns, and a note where the first row alone does not tell.

    `cells` is the first row and `sample` some of the rows below it.
    """
    cells = list(cells)
    numbered = [f"c{j}" for j in range(1, len(cells) + 1)]
    if header is not None:
        return (cells, "") if header else (numbered, NO_HEADER)
    # pandas leaves the place above its index empty.
    body = cells[1:] if cells[0] == "" and len(cells) > 1 else cells
    if not all(_value(cell) is not None or (cell and is_missing(cell)) for cell in body):
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
    """Whether distinct whole numbers above these rows are names; None where both are possible."""
    rows = [row for row in sample if len(row) == len(values)]
    if not rows:
        return False
    outside = True
    for value, column in zip(values, zip(*rows, strict=True), strict=True):
        known = [cell for cell in column if not is_missing(cell)]
        numbers = [number for cell in known if (number := _value(cell)) is not None]
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


def _value(cell: str) -> float | None:
    """Return the number in a cell, in whichever style it is written; None where it is none."""
    for style in (POINT, COMMA):
        if style.matches(cell):
            return float(style.plain(cell))
    return None
