"""Hold the contents of a file as read, before views and labels are chosen."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array
from omcal.machine.memory import available_memory, format_bytes
from omcal.views.pair import DataError, Ids

# Deflate expands one byte to at most 1032; an array that declares more was not stored. Some codecs
# are denser, and empty chunks need not be stored: SLACK bytes per file are allowed for them.
MAX_EXPANSION = 1032
SLACK = 16 * 2**20
_slack: ContextVar[int] = ContextVar("slack", default=SLACK)
_source: ContextVar[Path | None] = ContextVar("source", default=None)

# Ratio of a fixed-width array to its text at most: one long text makes the whole array wide.
MAX_PADDING = 32

# Most sparse code has 32-bit column indices.
MAX_WIDTH = 2**31 - 1

Variable: TypeAlias = Any  # an array, a CSR array, a function that reads it, or a list of arrays


@dataclass(frozen=True)
class Contents:
    """Named variables of a file.

    A variable is an array of any shape, a CSR array, a list of arrays (a MATLAB cell), or a
    function that reads a matrix, called where it is chosen as a view. In a `table` the variables
    are columns, which form views by the prefixes of their names. `default_views` are taken where
    the user names none; without them the usual names decide. `present`, `feature_names` and
    `scales` belong to views, by name; `ids` name the samples.
    """

    format: str
    variables: dict[str, Variable]
    table: bool = False
    default_views: tuple[str, ...] = ()
    present: dict[str, Array] = field(default_factory=dict)
    feature_names: dict[str, Array] = field(default_factory=dict)
    scales: dict[str, str] = field(default_factory=dict)
    ids: Ids | None = None
    notes: tuple[str, ...] = ()


@contextmanager
def reading(path: Path, what: str) -> Iterator[None]:
    """Turn every failure of the parsers inside into a DataError that names the file."""
    token, source = _slack.set(SLACK), _source.set(path)
    try:
        yield
    except DataError as error:
        raise DataError(f"{path}: {error}") from error.__cause__
    except (ImportError, NameError):  # a missing library, or a bug
        raise
    # Parsers fail on damaged bytes in many ways: KeyError, struct.error, MemoryError.
    except Exception as error:
        reason = " ".join(str(error).split())[:300] or type(error).__name__
        raise DataError(
            f"{path}: cannot be read as {what} ({reason}); the file is damaged or of another "
            "format: fetch it again, or convert it to .npz."
        ) from error
    finally:
        _slack.reset(token)
        _source.reset(source)


def check_declared(declared: int, stored: int, what: str) -> None:
    """Refuse an allocation that the stored bytes do not justify or that memory cannot hold."""
    slack = _slack.get() - max(declared - MAX_EXPANSION * stored, 0)
    if slack < 0:
        raise DataError(
            f"{what} declares {format_bytes(declared)}, but {format_bytes(stored)} are stored for "
            "it; the file is damaged or hostile: fetch it again."
        )
    _slack.set(slack)
    free = available_memory()
    if declared > free:
        raise DataError(
            f"{what} needs {format_bytes(declared)} of memory and {format_bytes(free)} are "
            "available; store it as .npy, which is memory-mapped, or take fewer samples."
        )


def text_array(words: Sequence[str]) -> Array | None:
    """Return texts as an array of fixed width; None where one long text would inflate it.

    Examples
    --------
    >>> text_array(["a", "bcd"]).dtype.itemsize
    12
    >>> text_array(["a"] * 100_000 + ["b" * 100_000]) is None
    True
    """
    lengths = [len(word) for word in words]
    width = max(lengths, default=0)
    if not text_fits(len(lengths), 4 * width, sum(lengths)):
        return None
    return np.array(words, dtype=f"U{max(width, 1)}")


def text_fits(n: int, itemsize: int, n_letters: int) -> bool:
    """Whether n texts of `itemsize` bytes are justified by their letters and by their file."""
    n_bytes = n * itemsize
    if n_bytes <= SLACK:
        return True
    path = _source.get()
    if path is not None and n_bytes > MAX_EXPANSION * stored_bytes(path):
        return False
    return n_bytes <= MAX_PADDING * (n_letters + 4 * n) and n_bytes <= available_memory()


def stored_bytes(path: Path) -> int:
    """Return the size of a file, or of all files in a folder without links and devices.

    A link may lead anywhere or in a circle; reading a pipe or a device may never end.
    """
    if not path.is_dir():
        return path.stat().st_size
    total = 0
    for entry in path.rglob("*"):
        kind = entry.lstat()
        if not (stat.S_ISREG(kind.st_mode) or stat.S_ISDIR(kind.st_mode)):
            what = "a link" if stat.S_ISLNK(kind.st_mode) else "a pipe or a device"
            raise DataError(f"{entry.relative_to(path)} is {what}, which is not followed.")
        total += kind.st_size if stat.S_ISREG(kind.st_mode) else 0
    return total


def csr_from_parts(
    values: Array, indices: Array, pointers: Array, shape: Any, *, by_column: bool = False
) -> sparse.csr_array:
    """Build a CSR array from the parts of a compressed sparse matrix, after checking them."""
    n_rows, n_columns = (int(size) for size in shape)
    if not (0 <= n_rows <= MAX_WIDTH and 0 <= n_columns <= MAX_WIDTH):
        raise DataError(f"a sparse matrix declares the shape {n_rows} × {n_columns}; too large.")
    types = values.dtype.kind, indices.dtype.kind, pointers.dtype.kind
    if types[0] not in "biuf" or types[1] not in "iu" or types[2] not in "iu":
        raise DataError(
            f"a sparse matrix has values of type {values.dtype}, indices of type {indices.dtype} "
            f"and pointers of type {pointers.dtype}; only numbers can be a view."
        )
    used = int(pointers[-1]) if pointers.ndim == 1 and len(pointers) else 0
    layout = sparse.csc_array if by_column else sparse.csr_array
    try:
        matrix = layout((values[:used], indices[:used], pointers), shape=(n_rows, n_columns))
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise DataError(
            f"a sparse matrix of {n_rows} × {n_columns} has entries outside it, or parts that do "
            f"not fit ({error}); the file is damaged."
        ) from error
    if by_column:  # the conversion to rows allocates one pointer per row
        stored = values.nbytes + indices.nbytes + pointers.nbytes
        check_declared(8 * n_rows, stored, f"a sparse matrix of {n_rows} × {n_columns}")
    matrix = matrix.tocsr()
    matrix.sum_duplicates()
    return matrix
