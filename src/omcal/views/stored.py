"""Views that stay where they are stored and are read by blocks of consecutive rows."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse

Block = TypeVar("Block")


def is_stored(array: Any) -> bool:
    """Whether this is read by blocks: a memory-mapped file, or what is like an array but is none.

    Datasets of h5py, arrays of zarr and `ParquetRows` are; anything with `shape`, a NumPy `dtype`
    and slices of rows is.
    """
    if isinstance(array, np.memmap):
        return array.ndim == 2
    return (
        not isinstance(array, np.ndarray)
        and not sparse.issparse(array)
        and isinstance(getattr(array, "shape", None), tuple)
        and len(array.shape) == 2
        and isinstance(getattr(array, "dtype", None), np.dtype)
        and hasattr(array, "__getitem__")
    )


class StoredTable:
    """Rows of something that lies outside the memory, read when they are asked for."""

    def __init__(self, source: Any, name: str) -> None:
        if source.dtype.kind not in "fiub":
            raise ValueError(
                f"view {name!r} holds {source.dtype} values; a view must be numeric (real numbers)."
            )
        self.name = name
        self.shape = (int(source.shape[0]), int(source.shape[1]))
        self.dtype = source.dtype
        self.chunk_rows = _chunk_rows(source)
        # Reading a file that was cut short is an error; touching its mapping ends the process.
        self._source = (FileRows.of(source) if isinstance(source, np.memmap) else None) or source

    def read(self, rows: slice) -> NDArray:
        """These rows, in memory."""
        start, stop, _ = rows.indices(self.shape[0])
        try:
            block = np.asarray(self._source[start:stop])
        except MemoryError:
            raise
        except Exception as error:
            raise OSError(
                f"view {self.name!r}: rows {start} to {stop - 1} cannot be read "
                f"({type(error).__name__}: {error})."
            ) from error
        expected = (stop - start, self.shape[1])
        if block.shape != expected:
            raise ValueError(
                f"view {self.name!r}: rows {start} to {stop - 1} have shape {block.shape} instead "
                f"of {expected}; the data must not change during the fit."
            )
        return block


@dataclass(frozen=True)
class StoredArray:
    """All columns of a stored table, or some: what a `View` holds in place of an array."""

    table: StoredTable
    columns: slice | NDArray | None = None

    @property
    def shape(self) -> tuple[int, int]:
        n, width = self.table.shape
        if isinstance(self.columns, slice):
            width = len(range(*self.columns.indices(width)))
        elif self.columns is not None:
            width = len(self.columns)
        return n, width

    @property
    def ndim(self) -> int:
        return 2

    @property
    def dtype(self) -> np.dtype:
        return self.table.dtype

    def __getitem__(self, rows: slice) -> NDArray:
        return self.pick(self.table.read(rows))

    def pick(self, block: NDArray) -> NDArray:
        """The columns of this array from rows of its table."""
        return block if self.columns is None else block[:, self.columns]

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> NDArray:
        return np.asarray(self[:], dtype=dtype)


@dataclass(frozen=True)
class FileRows:
    """Rows of a row-by-row array in a file, as strides tell where they are."""

    path: str
    offset: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: np.dtype

    @classmethod
    def of(cls, array: np.memmap) -> FileRows | None:
        """The file behind a mapping; None where only the mapping leads to these rows."""
        row_bytes = (array.shape[1] - 1) * array.strides[1] + array.itemsize
        by_rows = array.strides[1] > 0 and array.strides[0] >= row_bytes
        # A private mapping (mode "c") may differ from its file.
        shared = array.mode in ("r", "r+", "w+") and array.filename is not None
        if not (by_rows and shared and os.path.isfile(str(array.filename))):
            return None
        mapping: Any = array
        while not isinstance(mapping, mmap.mmap):
            mapping = mapping.base
        in_mapping = array.ctypes.data - np.frombuffer(mapping, dtype=np.uint8).ctypes.data
        mapped_from = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
        offset = mapped_from + in_mapping
        return cls(str(array.filename), offset, array.shape, array.strides, array.dtype)

    def __getitem__(self, rows: slice) -> NDArray:
        start, stop, _ = rows.indices(self.shape[0])
        shape = (stop - start, self.shape[1])
        by_row, by_column = self.strides
        size = (shape[0] - 1) * by_row + (shape[1] - 1) * by_column + self.dtype.itemsize
        at = self.offset + start * by_row
        buffer = np.fromfile(self.path, dtype=np.uint8, count=size, offset=at)
        if len(buffer) < size:
            raise OSError(f"{self.path} ends {size - len(buffer)} bytes too early")
        return np.ndarray(shape, self.dtype, buffer, strides=self.strides)


class ParquetRows:
    """The numeric columns of a Parquet file as a table that is read by blocks of rows.

    Parameters
    ----------
    path : str or path-like
    columns : sequence of str, optional
        Which columns; by default all.

    Examples
    --------
    >>> import tempfile, numpy as np, pandas as pd
    >>> path = tempfile.mkdtemp() + "/table.parquet"
    >>> pd.DataFrame({"a_x": np.arange(4.0), "b_x": np.ones(4)}).to_parquet(path)
    >>> table = ParquetRows(path)
    >>> table.shape, table.columns, table[1:3].tolist()
    ((4, 2), ['a_x', 'b_x'], [[1.0, 1.0], [2.0, 1.0]])
    """

    def __init__(self, path: str | os.PathLike[str], columns: Sequence[str] | None = None) -> None:
        try:
            from pyarrow import parquet
        except ImportError as error:
            raise ImportError('Parquet files need pyarrow; pip install "omcal[io]"') from error
        self._path = path
        self._file = parquet.ParquetFile(path)
        schema = self._file.schema_arrow
        self.columns = list(schema.names if columns is None else columns)
        types = [schema.field(name).type.to_pandas_dtype() for name in self.columns]
        self.dtype = np.result_type(*types)
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.shape = (int(self._starts[-1]), len(self.columns))
        self.chunks = (max(sizes, default=1), len(self.columns))

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetRows, (self._path, self.columns)

    def __getitem__(self, rows: slice) -> NDArray:
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        groups = self._file.read_row_groups(list(range(first, last)), columns=self.columns)
        groups = groups.slice(start - self._starts[first], stop - start)
        # A null is a missing value: NaN, which is reported like any other.
        columns = [groups.column(name).to_numpy() for name in self.columns]
        return np.column_stack(columns)


def _chunk_rows(source: Any) -> int:
    """Rows that the store keeps together; less than that is not read at a time."""
    chunks = getattr(source, "shards", None) or getattr(source, "chunks", None)
    return int(chunks[0]) if chunks else 1


def read_ahead(
    read: Callable[[slice], Block], blocks: Sequence[slice]
) -> Iterator[tuple[slice, Block]]:
    """(rows, read(rows)) of each block; the next is read while this one is worked on."""
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(read, rows) for rows in blocks[:1]]
        for i, rows in enumerate(blocks):
            block = coming.pop().result()
            coming += [reader.submit(read, following) for following in blocks[i + 1 : i + 2]]
            yield rows, block
