"""The common form that every adapter gives to one 2-D input, and the names of its features."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from omcal.machine.arrays import Array
from omcal.views.pair import Ids
from omcal.views.view import View


@dataclass(frozen=True)
class Table:
    """One 2-D input: its number of columns, and the view that some or all of them form.

    Attributes
    ----------
    width : int
        Number of columns.
    take : callable
        `take(name, columns)` returns the view of these columns (None: of all).
    names : tuple of str, optional
        The names of the columns, for inputs that have them.
    ids : Ids, optional
        The names of the rows, for inputs that have them.
    named : bool
        Whether the names of the columns are texts, not numbers.
    """

    width: int
    take: Callable[[str, slice | Array | None], View]
    names: tuple[str, ...] | None = None
    ids: Ids | None = None
    named: bool = False


def is_arrow(data: Any) -> bool:
    """Whether this is a table or record batch of pyarrow; does not import pyarrow."""
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def column_names(data: Any) -> tuple[str, ...] | None:
    """Return the names of the columns of a data frame; None for data without any."""
    if is_arrow(data):  # whose `columns` are the data
        return tuple(map(str, data.schema.names))
    return tuple(map(str, data.columns)) if hasattr(data, "columns") else None
