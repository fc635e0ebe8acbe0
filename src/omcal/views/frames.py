"""Adapter: data frames of pandas and polars and tables of pyarrow, with names and index.

Each named column has one kind: numbers, booleans, dates or texts. The array of a column has one of
these types: integers or floats (NaN is missing), booleans, objects that are True, False or None,
datetime64[ms] (NaT is missing), and texts ("" is missing).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from numbers import Real
from typing import Any, ClassVar

import numpy as np

from omcal.machine.arrays import Array, Floats, Mask
from omcal.views.arrays import numeric_matrix
from omcal.views.pair import Ids, as_text, is_gap, numbers_rows
from omcal.views.view import Table, View, column_names, is_arrow

_DATE = re.compile(r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|\+00:00)?)?", re.A)
_CODE = 10**15
_DAY = 86_400_000  # milliseconds


@dataclass(frozen=True)
class Columns:
    """A table of named columns of equal length, each of one kind.

    Examples
    --------
    >>> table = Columns({"age": np.array([30.0, 41]), "city": np.array(["Oslo", "Rome"])})
    >>> table.shape, table[1:].values["city"].tolist(), table.spread(np.array([1, -1])).values
    ((2, 2), ['Rome'], {'age': array([41., nan]), 'city': array(['Rome', ''], dtype='<U4')})
    """

    values: dict[str, Array]
    ndim: ClassVar[int] = 2

    @classmethod
    def of(cls, frame: Any) -> Columns:
        """Return the columns of a data frame of pandas or polars or of an Arrow table."""
        if isinstance(frame, Columns):
            return frame
        names = column_names(frame) or ()
        return cls({name: frame_column(frame, j) for j, name in enumerate(names)})

    @property
    def shape(self) -> tuple[int, int]:
        """Number of rows and of columns."""
        return len(next(iter(self.values.values()), ())), len(self.values)

    @property
    def dtype(self) -> np.dtype:
        """Return the type of the encoded columns."""
        return np.dtype(np.float64)

    def __getitem__(self, rows: Any) -> Columns:
        return Columns({name: column[rows] for name, column in self.values.items()})

    def take(self, names: Iterable[str]) -> Columns:
        """Return some of the columns."""
        return Columns({name: self.values[name] for name in names})

    def spread(self, position: Array) -> Columns:
        """Return the rows at these positions; -1 gives a row without values."""
        rows = self[position]
        absent = position < 0
        if not absent.any():
            return rows
        return Columns({name: emptied(c, absent) for name, c in rows.values.items()})


def is_missing(column: Array) -> Mask:
    """Return True for the cells of a column without a value."""
    kind = column.dtype.kind
    if kind == "U":
        return np.asarray(column == "")
    if kind == "O":
        return np.array([cell is None for cell in column.tolist()], dtype=bool)
    if kind in "fM":
        return np.asarray(np.isnan(column) if kind == "f" else np.isnat(column))
    return np.zeros(len(column), dtype=bool)


def as_floats(column: Array) -> Floats:
    """Return numbers and booleans as floats, dates as days since 1970; NaN is missing."""
    if column.dtype.kind == "M":
        days = column.astype(np.float64) / _DAY
        return np.where(np.isnat(column), np.nan, days)
    return column.astype(np.float64)


def side_by_side(columns: Sequence[Array]) -> Array:
    """Return columns of numbers and booleans as a matrix."""
    return np.column_stack([as_floats(c) if c.dtype == object else c for c in columns])


def is_numeric(column: Array) -> bool:
    """Whether a column holds numbers or booleans."""
    return column.dtype.kind in "biufO"


def emptied(column: Array, absent: Mask) -> Array:
    """Return a column with some cells emptied."""
    if column.dtype.kind in "biu":
        column = column.astype(object if column.dtype.kind == "b" else np.float64)
    empty: Mapping[str, Any] = {"U": "", "O": None, "M": np.datetime64("NaT")}
    column[absent] = empty.get(column.dtype.kind, np.nan)
    return column


def frame_column(frame: Any, j: int) -> Array:
    """Return a column of a data frame or Arrow table, converted by its kind."""
    if is_arrow(frame):
        return arrow_column(frame.column(j))
    column = frame.iloc[:, j] if hasattr(frame, "iloc") else frame[:, j]
    if hasattr(column.dtype, "categories") and hasattr(column, "cat"):  # also of numbers
        return as_column(as_text(np.asarray(column)))
    return as_column(np.asarray(column))


def arrow_column(column: Any) -> Array:
    """Return a column of an Arrow table, converted by its kind."""
    import pyarrow as pa

    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if is_text_type(column.type):
        column = column.dictionary_encode()
    if pa.types.is_dictionary(column.type):
        if not is_text_type(column.type.value_type):
            return as_text(np.array(column.to_pylist(), dtype=object))
        # A null is an empty text.
        different = ["" if text is None else text for text in column.dictionary.to_pylist()]
        codes = column.indices.fill_null(len(different)).to_numpy(zero_copy_only=False)
        return np.asarray(as_column(np.array([*different, ""], dtype=str))[codes])
    if column.null_count and pa.types.is_floating(column.type):
        column = column.cast(pa.float64())
    return as_column(column.to_numpy(zero_copy_only=False))


def is_text_type(kind: Any) -> bool:
    """Whether a type of Arrow is text."""
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def as_column(values: Array) -> Array:
    """Return the cells of a column, converted by their kind, for any type of array.

    Texts are dates if all of them look like 2024-12-31 or 2024-12-31 23:59:59. Whole numbers of
    more than 15 digits are texts, because floats cannot represent them.

    Examples
    --------
    >>> as_column(np.array([1, None, 2.5], dtype=object))
    array([1. , nan, 2.5])
    >>> as_column(np.array(["2024-12-31", ""])).tolist()
    [datetime.datetime(2024, 12, 31, 0, 0), None]
    """
    kind = values.dtype.kind
    if kind in "iu" and (values >= _CODE).any():
        return values.astype(str)
    if kind in "biuf":
        return values
    if kind == "M":
        return values.astype("datetime64[ms]")
    if kind == "m":  # a duration, in days
        days = values.astype("timedelta64[ms]").astype(np.float64) / _DAY
        return np.where(np.isnat(values), np.nan, days)
    if kind in "UST":
        return _dates(values.astype(str))
    if kind != "O":
        raise ValueError(f"a column holds {values.dtype} values; give numbers, dates or texts.")
    return _of_objects(values.tolist())


def _of_objects(cells: list[Any]) -> Array:
    cells = [None if is_gap(cell) else cell for cell in cells]
    types = {type(cell) for cell in cells} - {type(None)}
    if types and types <= {bool, np.bool_}:
        column = np.array(cells, dtype=object)
        return column if None in cells else column.astype(bool)
    if all(issubclass(one, Real) or one.__name__ == "Decimal" for one in types):
        return np.array([np.nan if cell is None else float(cell) for cell in cells])
    if all(issubclass(one, date | np.datetime64) for one in types):
        return np.array([_naive(cell) for cell in cells], dtype="datetime64[ms]")
    return _dates(np.array(["" if cell is None else str(cell) for cell in cells], dtype=str))


def _naive(cell: Any) -> Any:
    """Return a time in UTC without its zone."""
    if isinstance(cell, datetime) and cell.tzinfo is not None:
        return cell.astimezone(UTC).replace(tzinfo=None)
    return cell


def _dates(texts: Array) -> Array:
    """Return texts as dates if all of them are dates, else unchanged."""
    first = next((text for text in texts.tolist() if text), "")
    if not _DATE.fullmatch(first):
        return texts
    if not all(_DATE.fullmatch(text) for text in set(texts.tolist()) - {""}):
        return texts
    try:
        cells = [text.removesuffix("Z").removesuffix("+00:00") for text in texts.tolist()]
        return np.array(cells, dtype="datetime64[ms]")
    except ValueError:  # invalid, such as 2024-02-31
        return texts


def frame_table(frame: Any, name: str) -> Table:
    """Open a data frame as a table; only columns in views must be numeric."""
    ids = index_of(frame)
    if is_arrow(frame) and (index := index_columns(frame)):
        frame = frame.select([title for title in frame.schema.names if title not in index])
    names = column_names(frame)
    assert names is not None

    def take(part: str, columns: slice | Array | None) -> View:
        positions = np.arange(len(names))[slice(None) if columns is None else columns]
        titles = tuple(names[j] for j in positions)
        if is_arrow(frame):
            taken = [frame_column(frame, int(j)) for j in positions]
            for j, column in zip(positions, taken, strict=True):
                if not is_numeric(column):
                    field = frame.schema.field(int(j))
                    raise ValueError(
                        f"view {name!r}: column {field.name!r} holds {field.type}; a view must be "
                        "numeric."
                    )
            picked = side_by_side(taken) if taken else np.empty(frame.shape)
        elif columns is None:
            picked = frame
        else:
            picked = frame.iloc[:, positions] if hasattr(frame, "iloc") else frame[:, positions]
        return View(part, numeric_matrix(picked, name), titles)

    named = is_arrow(frame) or all(isinstance(title, str) for title in frame.columns)
    return Table(len(names), take, names, ids, named)


def is_frame(data: Any) -> bool:
    """Whether this is a data frame or an Arrow table, not a lazy one; imports no library."""
    if type(data).__name__ == "LazyFrame":
        raise ValueError("a view is a LazyFrame, which holds no rows yet; pass its .collect().")
    return hasattr(data, "columns") or is_arrow(data)


def index_of(frame: Any) -> Ids | None:
    """Return the index of a pandas frame, or of an Arrow table made from one, as ids."""
    if not is_arrow(frame):
        index: Any = getattr(frame, "index", None)
        if not hasattr(index, "get_indexer"):
            return None
        if type(index).__name__ == "RangeIndex":
            numbering = index.start in (0, 1) and index.step == 1
        else:
            numbering = index.name is None and numbers_rows(index.to_numpy())
        return Ids(str("index" if index.name is None else index.name), index, numbering)
    columns = index_columns(frame)
    if len(columns) == 1:
        name = "index" if columns[0].startswith("__index_level_") else columns[0]
        values = np.array(frame.column(columns[0]).to_pylist(), dtype=object)
        return Ids(name, as_text(values))
    for described in (frame.schema.pandas_metadata or {}).get("index_columns", []):
        if isinstance(described, dict) and described.get("kind") == "range":
            numbers = np.arange(described["start"], described["stop"], described["step"])
            if len(numbers) == frame.num_rows:  # not valid after slicing
                name = described.get("name") or "index"
                return Ids(name, as_text(numbers), numbers_rows(numbers))
    return None


def index_columns(table: Any) -> list[str]:
    """Return the columns of an Arrow table that pandas wrote as the index."""
    listed = (table.schema.pandas_metadata or {}).get("index_columns", [])
    return [name for name in listed if isinstance(name, str) and name in table.schema.names]
