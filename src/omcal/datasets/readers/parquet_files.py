"""Read Parquet files and Arrow tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from omcal.datasets._contents import Contents, check_declared, text_fits
from omcal.datasets._names import NAMELESS
from omcal.datasets.readers._cells import require_short
from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.columns import listed
from omcal.views.frames import arrow_column, index_columns, index_of, is_numeric, is_text_type
from omcal.views.pair import DataError


def read_parquet(path: Path) -> Contents:
    """Read the columns of a Parquet file; a column of equally long lists is a matrix."""
    parquet = require("pyarrow.parquet", "Parquet files")
    size = path.stat().st_size
    with parquet.ParquetFile(path) as file:
        described = file.metadata
        texts = [field.name for field in file.schema_arrow if is_text_type(field.type)]
    groups = [described.row_group(i) for i in range(described.num_row_groups)]
    n_cells = described.num_rows * described.num_columns
    check_declared(8 * n_cells, size, f"the table of {described.num_rows} rows")
    check_declared(sum(group.total_byte_size for group in groups), size, "the table")
    # As a dictionary, so that a repeated text is read once.
    with parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    return arrow_contents(table, "Parquet")


def arrow_contents(table: Any, file_format: str) -> Contents:
    """Return the columns of an Arrow table; the index of pandas is the one without a name."""
    if table.num_rows == 0:
        raise DataError("the table has no rows.")
    require_short(table.column_names)
    columns: dict[str, Array] = {}
    unused = []
    index = index_of(table)
    named_index = index is not None and index.name != NAMELESS
    if index is not None and index.numbering:
        columns[""] = np.asarray(index.values).astype(np.int64)
    for name in table.column_names:
        if named_index and name in index_columns(table):
            continue
        value = _arrow_values(table.column(name).combine_chunks(), name)
        if value is None:
            unused.append(name)
        else:
            columns["" if name.startswith("__index_level_") else name] = value
    note = f"columns of another type or of long texts, not used: {listed(unused)}"
    return Contents(
        file_format,
        columns,
        table=True,
        ids=index if named_index else None,
        notes=(note,) if unused else (),
    )


def _arrow_values(column: Any, name: str) -> Array | None:
    """Return a column by its kind, or a matrix of its lists; None for other types."""
    import pyarrow as pa

    kind, is_ = column.type, pa.types
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return _arrow_matrix(column, name)
    if is_.is_nested(kind) or is_.is_binary(kind) or is_.is_large_binary(kind):
        return None
    texts = column.dictionary if is_.is_dictionary(kind) else column
    if is_text_type(texts.type):
        # One long text makes the array of all rows wide.
        longest = max((len(text or "") for text in texts.unique().to_pylist()), default=0)
        if not text_fits(len(column), 4 * longest, len(column) * longest):
            return None
    return arrow_column(column)


def _arrow_matrix(column: Any, name: str) -> Array | None:
    """Return equally long lists as the rows of a matrix; a missing list is a row of NaN."""
    import pyarrow as pa
    import pyarrow.compute as pc

    inner = column.type.value_type
    if pa.types.is_nested(inner) or is_text_type(inner):
        return None
    present = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
    if len(lengths) == 0 or lengths.min() != lengths.max() or lengths.max() == 0:
        raise DataError(f"column {name!r} holds lists of different lengths, or none.")
    values = arrow_column(column.drop_null().flatten())
    if not is_numeric(values):
        return None
    values = values.astype(np.float64) if values.dtype == object else values
    rows = values.reshape(-1, int(lengths[0]))
    if present.all():
        return rows
    matrix = np.full((len(present), rows.shape[1]), np.nan, np.result_type(rows, np.float32))
    matrix[present] = rows
    return matrix
