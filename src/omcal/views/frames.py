"""Adapter: data frames of pandas and polars and tables of pyarrow, with names and index."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.views.arrays import numeric_matrix
from omcal.views.pair import Ids, as_text, numbers_rows
from omcal.views.typed import frame_column, is_numeric, side_by_side
from omcal.views.view import Table, View, column_names, is_arrow


def frame_table(frame: Any, name: str) -> Table:
    """Open a data frame as a table; only the columns that are taken must be numeric."""
    ids = index_of(frame)
    if is_arrow(frame) and (index := index_columns(frame)):
        frame = frame.select([title for title in frame.schema.names if title not in index])
    names = column_names(frame)
    assert names is not None

    def take(part: str, columns: slice | Array | None) -> View:
        positions = np.arange(len(names))[slice(None) if columns is None else columns]
        titles = tuple(names[j] for j in positions)
        if is_arrow(frame):
            picked = _arrow_values(frame, positions, name)
        elif columns is None:
            picked = frame
        else:
            picked = frame.iloc[:, positions] if hasattr(frame, "iloc") else frame[:, positions]
        return View(part, numeric_matrix(picked, name), titles)

    named = is_arrow(frame) or all(isinstance(title, str) for title in frame.columns)
    return Table(len(names), take, names, ids, named)


def is_frame(data: Any) -> bool:
    """Whether this is a data frame or an Arrow table; imports no library of either."""
    return hasattr(data, "columns") or is_arrow(data)


def index_of(frame: Any) -> Ids | None:
    """Return the index of a pandas frame as ids, also of one that became an Arrow table."""
    if is_arrow(frame):
        return arrow_index(frame)
    index = getattr(frame, "index", None)
    return Ids.of_index(index) if hasattr(index, "get_indexer") else None


def index_columns(table: Any) -> list[str]:
    """Return the columns of an Arrow table that pandas wrote as the index."""
    listed = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in listed if isinstance(name, str) and name in table.schema.names]


def arrow_index(table: Any) -> Ids | None:
    """Return the index of the pandas frame that became an Arrow table."""
    columns = index_columns(table)
    if len(columns) == 1:
        name = "index" if columns[0].startswith("__index_level_") else columns[0]
        values = np.array(table.column(columns[0]).to_pylist(), dtype=object)
        return Ids(name, as_text(values))
    for described in (table.schema.pandas_metadata or {}).get("index_columns", []):
        if isinstance(described, dict) and described.get("kind") == "range":
            numbers = np.arange(described["start"], described["stop"], described["step"])
            if len(numbers) == table.num_rows:  # not so after a slice
                name = described.get("name") or "index"
                return Ids(name, as_text(numbers), numbers_rows(numbers))
    return None


def _arrow_values(table: Any, positions: Array, name: str) -> Array:
    """Return columns of an Arrow table side by side; a null is NaN."""
    columns = [frame_column(table, int(j)) for j in positions]
    for j, column in zip(positions, columns, strict=True):
        if not is_numeric(column):
            field = table.schema.field(int(j))
            raise ValueError(
                f"view {name!r}: column {field.name!r} holds {field.type}; a view must be numeric."
            )
    return side_by_side(columns) if columns else np.empty(table.shape)
