"""Read Parquet files and Arrow tables."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from omcal.datasets._contents import Contents, check_declared, text_array, text_fits
from omcal.datasets._data import DataError
from omcal.datasets._ids import NAMELESS
from omcal.datasets._names import listed
from omcal.datasets.readers._cells import require_short
from omcal.machine.arrays import Array
from omcal.views.frames import arrow_index, index_columns


def is_parquet(path: Path, start: bytes) -> bool:
    """Whether a file is Parquet."""
    return start.startswith(b"PAR1")


def read_parquet(path: Path) -> Contents:
    """Read the columns of a Parquet file; a column of equally long lists is a matrix."""
    try:
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install pyarrow.") from error
    size = path.stat().st_size
    with pyarrow.parquet.ParquetFile(path) as file:
        described = file.metadata
        texts = [field.name for field in file.schema_arrow if _is_text(field.type)]
    groups = [described.row_group(i) for i in range(described.num_row_groups)]
    n_cells = described.num_rows * described.num_columns
    check_declared(8 * n_cells, size, f"the table of {described.num_rows} rows")
    check_declared(sum(group.total_byte_size for group in groups), size, "the table")
    # As a dictionary, so that a repeated text is read once.
    with pyarrow.parquet.ParquetFile(path, read_dictionary=texts) as file:
        table = file.read()
    return arrow_contents(table, "Parquet")


def arrow_contents(table: Any, file_format: str) -> Contents:
    """Return the columns of an Arrow table; the index of pandas is the one without a name."""
    if table.num_rows == 0:
        raise DataError("the table has no rows.")
    require_short(table.column_names)
    columns: dict[str, Array] = {}
    unused = []
    index = arrow_index(table)
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
    """Return a column as numbers, strings or a matrix; None for other types."""
    import pyarrow as pa

    kind = column.type
    if pa.types.is_dictionary(kind):
        if _is_text(kind.value_type):
            return _arrow_texts(column)
        return _arrow_values(column.dictionary_decode(), name)
    if _is_numeric(kind):
        if column.null_count or not _is_plain(kind):  # a gap becomes NaN
            column = column.cast(pa.float64(), safe=False)
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if _is_text(kind):
        return _arrow_texts(column.dictionary_encode())
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind)
    if is_list or pa.types.is_fixed_size_list(kind):
        return _arrow_matrix(column, name)
    return None


def _is_text(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _is_numeric(kind: Any) -> bool:
    import pyarrow as pa

    return _is_plain(kind) or bool(pa.types.is_decimal(kind) or pa.types.is_null(kind))


def _is_plain(kind: Any) -> bool:
    import pyarrow as pa

    return bool(
        pa.types.is_boolean(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind)
    )


def _arrow_texts(column: Any) -> Array | None:
    """Expand dictionary-encoded texts; None where they would fill the memory."""
    different = ["" if text is None else text for text in column.dictionary.to_pylist()]
    texts = text_array([*different, ""])  # the last is for gaps
    codes = column.indices.fill_null(len(different)).to_numpy(zero_copy_only=False)
    if texts is None or not text_fits(len(codes), texts.itemsize, len(codes) * texts.itemsize):
        return None
    return np.asarray(texts[codes])


def _arrow_matrix(column: Any, name: str) -> Array | None:
    """Return equally long lists as the rows of a matrix; a missing list is a row of NaN."""
    import pyarrow.compute as pc

    if not _is_numeric(column.type.value_type):
        return None
    present = column.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.list_value_length(column.drop_null()).to_numpy(zero_copy_only=False)
    if len(lengths) == 0 or lengths.min() != lengths.max() or lengths.max() == 0:
        raise DataError(f"column {name!r} holds lists of different lengths, or none.")
    values = _arrow_values(column.drop_null().flatten(), name)
    if values is None or values.dtype.kind not in "biuf" or values.ndim != 1:
        return None
    rows = values.reshape(-1, int(lengths[0]))
    if present.all():
        return rows
    matrix = np.full((len(present), rows.shape[1]), np.nan, np.result_type(rows, np.float32))
    matrix[present] = rows
    return matrix
