"""Adapter: data that stay in their storage and are read in blocks of consecutive rows."""

from __future__ import annotations

import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.filling import Fill
from omcal.views.view import Home, Table, View, column_names, require_numeric

Block = TypeVar("Block")


def is_stored(array: Any) -> bool:
    """Whether this is read in blocks: a memory-mapped file, or a dataset of h5py or zarr."""
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


def stored_table(data: Any, name: str) -> Table:
    """Open stored data as a table whose rows stay in their storage."""
    return Table.of(View(name, StoredArray(StoredTable(data, name)), column_names(data)))


class StoredTable:
    """Rows of a source outside memory, read on request."""

    def __init__(self, source: Any, name: str) -> None:
        require_numeric([source.dtype], name)
        self.name = name
        self.shape: tuple[int, int] = (int(source.shape[0]), int(source.shape[1]))
        self.dtype: np.dtype = source.dtype
        chunks = getattr(source, "shards", None) or getattr(source, "chunks", None)
        self.chunk_rows: int = int(chunks[0]) if chunks else 1  # least number to read at a time
        self._source = (MappedRows.of(source) if isinstance(source, np.memmap) else None) or source

    def read(self, rows: slice) -> Array:
        """Read rows into memory."""
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
    """The array of a stored `View`: all columns of a stored table, or some."""

    table: StoredTable
    columns: slice | Array | None = None
    fill: Fill | None = None  # values for missing cells
    home: ClassVar[Home] = "disk"
    ndim: ClassVar[int] = 2

    @property
    def shape(self) -> tuple[int, int]:
        n, width = self.table.shape
        return n, width if self.columns is None else len(np.arange(width)[self.columns])

    @property
    def dtype(self) -> np.dtype:
        return self.table.dtype

    def __getitem__(self, rows: slice) -> Array:
        return self.pick(self.table.read(rows))

    def take(self, columns: slice | Array) -> StoredArray:
        """Return some of the columns of this array."""
        if self.columns is not None:
            columns = np.arange(self.table.shape[1])[self.columns][columns]
        return replace(self, columns=columns)

    def filled(self, fill: Fill) -> StoredArray:
        """Return the array with missing cells filled on reading."""
        return replace(self, fill=fill)

    def pick(self, block: Array) -> Array:
        """Select the columns of this array from rows of its table."""
        block = block if self.columns is None else block[:, self.columns]
        return block if self.fill is None else self.fill.apply(block)

    def __array__(self, dtype: DTypeLike | None = None, copy: bool | None = None) -> Array:
        return np.asarray(self[:], dtype=dtype)


class MappedRows:
    """Rows of a memory-mapped file, read through the file mapping: its path may have changed.

    The 2-D array is in the mapping, which begins at the byte `mapped_from` of the file.
    """

    def __init__(self, array: Array, mapped_from: int, path: str) -> None:
        self._array, self._from, self._path = array, mapped_from, path
        self._mapping = _mapping_of(array)
        self._address = np.frombuffer(self._mapping, dtype=np.uint8).ctypes.data
        self._private = getattr(array, "mode", "r") == "c"  # may differ from its file

    @classmethod
    def of(cls, array: np.memmap) -> MappedRows | None:
        """Return the rows of a memory-mapped array; None for other arrays."""
        if _mapping_of(array) is None:
            return None
        mapped_from = array.offset - array.offset % mmap.ALLOCATIONGRANULARITY
        return cls(array, mapped_from, str(array.filename or ""))

    def __getitem__(self, rows: slice) -> Array:
        part = self._array[rows]
        if not part.size:
            return np.array(part, subok=False)
        first, stop = (place - self._address for place in np.lib.array_utils.byte_bounds(part))
        # Reading a page beyond the end of a truncated file kills the process.
        missing = self._from + stop - self._mapping.size()
        if missing > 0:
            raise OSError(f"{self._path or 'its file'} ends {missing} bytes too early")
        block = np.array(part, subok=False)
        if hasattr(mmap, "MADV_DONTNEED") and not self._private:
            # Mapped pages count as memory of this process until they are released.
            first -= first % mmap.PAGESIZE
            self._mapping.madvise(mmap.MADV_DONTNEED, first, stop - first)
        return block

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle the path only; in the other process it must lead to the same file."""
        if not self._is_at_path():
            raise OSError(
                f"{self._path or 'the file of a memory-mapped view'} is not the file that was "
                "mapped; map it again, or pass an array."
            )
        offset = self._from + self._array.ctypes.data - self._address
        layout = (self._array.shape, self._array.strides, self._array.dtype)
        return _mapped_again, (self._path, offset, *layout)

    def _is_at_path(self) -> bool:
        if self._private or not os.path.isfile(self._path):
            return False
        found = os.stat(self._path)
        inode = _mapped_inode(self._address)
        # If the system does not tell which file is mapped, compare the sizes.
        return found.st_size == self._mapping.size() and inode in (None, found.st_ino)


def _mapped_again(path: str, offset: int, shape: Any, strides: Any, dtype: Any) -> MappedRows:
    raw = np.memmap(path, dtype=np.uint8, mode="r")
    return MappedRows(np.ndarray(shape, dtype, raw, offset, strides), 0, path)


def _mapping_of(array: Any) -> Any:
    """Return the file mapping that contains an array; None for an array in memory."""
    while array is not None and not isinstance(array, mmap.mmap):
        array = getattr(array, "base", None)
    return array


def _mapped_inode(address: int) -> int | None:
    """Return the inode of the file mapped at an address; None if the system does not tell."""
    try:
        lines = Path("/proc/self/maps").read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return None
    for line in lines:
        span, _, _, _, inode = line.split(maxsplit=5)[:5]
        start, stop = (int(place, 16) for place in span.split("-"))
        if start <= address < stop:
            return int(inode)
    return None


def in_memory(array: Any, name: str) -> Any:
    """Return the array, read from its file if it is mapped: a truncated mapping kills the process.

    Examples
    --------
    >>> import tempfile
    >>> path = tempfile.mkdtemp() + "/array.npy"
    >>> np.save(path, np.eye(2))
    >>> type(in_memory(np.load(path, mmap_mode="r"), "eye")).__name__
    'ndarray'
    """
    mapped = isinstance(array, np.memmap) and array.ndim == 2
    return StoredTable(array, name).read(slice(None)) if mapped else array


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
        self._path = path
        self._file = require("pyarrow.parquet", "Parquet files").ParquetFile(path)
        schema = self._file.schema_arrow
        self.columns: list[str] = list(schema.names if columns is None else columns)
        types = [schema.field(name).type.to_pandas_dtype() for name in self.columns]
        self.dtype: np.dtype = np.result_type(*types)
        metadata = self._file.metadata
        sizes = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
        self._starts = np.concatenate([[0], np.cumsum(sizes, dtype=np.int64)])
        self.shape: tuple[int, int] = (int(self._starts[-1]), len(self.columns))
        self.chunks: tuple[int, int] = (max(sizes, default=1), len(self.columns))

    def __reduce__(self) -> tuple[Any, ...]:
        return ParquetRows, (self._path, self.columns)

    def __getitem__(self, rows: slice) -> Array:
        start, stop, _ = rows.indices(self.shape[0])
        first = int(np.searchsorted(self._starts, start, side="right")) - 1
        last = int(np.searchsorted(self._starts, stop, side="left"))
        groups = self._file.read_row_groups(list(range(first, last)), columns=self.columns)
        groups = groups.slice(start - self._starts[first], stop - start)
        # Nulls become NaN, which is reported like any other NaN.
        columns = [groups.column(name).to_numpy() for name in self.columns]
        return np.column_stack(columns)


def read_ahead(
    read: Callable[[slice], Block], blocks: Sequence[slice]
) -> Iterator[tuple[slice, Block]]:
    """Yield (rows, read(rows)) of each block, and read the next block in the meantime."""
    with ThreadPoolExecutor(1) as reader:
        coming = [reader.submit(read, rows) for rows in blocks[:1]]
        for i, rows in enumerate(blocks):
            block = coming.pop().result()
            coming += [reader.submit(read, following) for following in blocks[i + 1 : i + 2]]
            yield rows, block
