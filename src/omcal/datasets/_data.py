"""Hold the contents of a file as read, and the data set of several views chosen from them."""

from __future__ import annotations

import stat
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Mask
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.threads import row_blocks
from omcal.views.adapt import NamedViews
from omcal.views.columns import require_equal_lengths
from omcal.views.frames import Columns, emptied, is_missing
from omcal.views.mixed import Encoding, encode_tables, summary
from omcal.views.pair import DataError, Ids, Member
from omcal.views.present import rows_present
from omcal.views.stored import StoredTable

# Deflate expands a byte to at most 1032 bytes; an array that declares more cannot be in the file.
# Some codecs are denser, and empty chunks need not be stored: SLACK bytes per file allow for them.
MAX_EXPANSION = 1032
SLACK = 16 * 2**20
_slack: ContextVar[int] = ContextVar("slack", default=SLACK)
_source: ContextVar[Path | None] = ContextVar("source", default=None)

# Largest ratio of a fixed-width array to its text: one long text makes the whole array wide.
MAX_PADDING = 32

# Most code for sparse matrices has 32-bit column indices.
MAX_WIDTH = 2**31 - 1

Variable: TypeAlias = Any  # an array, a CSR array, a function that reads it, or a list of arrays
Matrix: TypeAlias = Any  # a 2-D ndarray or a SciPy CSR array
ROW_NUMBERS = ""  # the name of ids that merely number the rows
_BLOCK_ROWS = 4096  # rows of a mapped file to read at a time


@dataclass(frozen=True)
class Contents:
    """Named variables of a file.

    A variable is an array of any shape, a CSR array, a list of arrays (a MATLAB cell), or a
    function that reads a matrix and is called if the matrix is chosen as a view. In a `table` the
    variables are columns, which form views by the prefixes of their names. `default_views` are
    taken if the user names no views; without them the usual names decide. `present`,
    `feature_names` and `scales` have an entry per view name; `ids` name the samples.
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
    """Convert every failure of a parser in the block into a DataError that names the file."""
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
    """Whether the letters and the size of the file justify n texts of `itemsize` bytes."""
    n_bytes = n * itemsize
    if n_bytes <= SLACK:
        return True
    path = _source.get()
    if path is not None and n_bytes > MAX_EXPANSION * stored_bytes(path):
        return False
    return n_bytes <= MAX_PADDING * (n_letters + 4 * n) and n_bytes <= available_memory()


def stored_bytes(path: Path) -> int:
    """Return the size of a file, or of all files in a folder without links and devices.

    Links may lead anywhere or form a cycle; reading a pipe or a device may never end.
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


@dataclass(frozen=True, eq=False)
class MultiViewData:
    """Several views of the same samples.

    Parameters
    ----------
    views : dict
        Name -> 2-D array of shape (n_samples, n_features), dense or CSR. Row i is the same sample
        in each. Kept as `omcal.views.adapt.NamedViews`, with feature names and presence.
    labels : ndarray of shape (n_samples,), optional
        Classes, as the source gives them: integers or strings. An empty text or NaN is unknown.
    name : str
        Name of the data set.
    source : str
        Origin of the data, in words.
    present : dict, optional
        Name -> boolean array of shape (n_samples,), False where the sample is absent from the
        view; there a dense view has a row of NaN and a sparse one a row of zeros. None where every
        sample is in every view.
    feature_names : dict
        Name -> array of the names of the view's features, for the views that have them.
    label_name : str, optional
        Name of the labels in the source.
    ids : ndarray of str of shape (n_samples,), optional
        Distinct names of the samples.
    id_name : str, optional
        Name of the ids in the source.
    notes : tuple of str
        Choices that reading made, and columns that it left out.
    scales : dict
        Name -> `scale` of `OMCAL`, for views whose source states their kind: components in AnnData
        and MuData. With ``OMCAL(scale=data.scales)`` the kinds of the others are recognised.

    Examples
    --------
    >>> import numpy as np
    >>> data = MultiViewData({"a": np.eye(3), "b": np.ones((3, 2))}, labels=np.array([0, 0, 1]))
    >>> data.n_samples, data.n_classes, data.widths
    (3, 2, (3, 2))
    """

    views: Any
    labels: Array | None = None
    name: str = ""
    source: str = ""
    present: dict[str, Mask] | None = None
    feature_names: dict[str, Array] | None = None
    label_name: str | None = None
    ids: Array | None = None
    id_name: str | None = None
    notes: tuple[str, ...] = ()
    scales: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not isinstance(self.views, Mapping):
            raise DataError(f"views is a {type(self.views).__name__}; give a dict, name -> array.")
        if not self.views:
            raise DataError("there is no view; give at least one 2-D array.")
        for name, view in self.views.items():
            if view.ndim != 2:
                raise DataError(f"view {name!r} has shape {view.shape}; a view is 2-D.")
            if isinstance(view, np.ma.MaskedArray):
                raise DataError(
                    f"view {name!r} is a masked array; put NaN in the rows of absent samples, or "
                    "pass present= with a mask of the samples in the view."
                )
        require_equal_lengths(self.views, DataError)
        if self.labels is not None and self.labels.shape != (self.n_samples,):
            raise DataError(
                f"there are {self.n_samples} samples and labels of shape {self.labels.shape}; "
                "give one label per sample."
            )
        if self.ids is not None and (
            self.ids.shape != (self.n_samples,) or len(np.unique(self.ids)) < self.n_samples
        ):
            raise DataError(
                f"there are {self.n_samples} samples and {len(np.unique(self.ids))} different ids; "
                "give each sample a different id."
            )
        for name, mask in (self.present or {}).items():
            if name not in self.views or mask.shape != (self.n_samples,):
                raise DataError(
                    f"present={name!r} of shape {mask.shape} belongs to no view of "
                    f"{self.n_samples} samples."
                )
        # NamedViews carry the feature names and the absent samples to `fit`.
        named = NamedViews(self.views, self.feature_names, self.present)
        object.__setattr__(self, "views", named)

    @property
    def n_samples(self) -> int:
        """Number of rows of every view."""
        return int(next(iter(self.views.values())).shape[0])

    @property
    def n_classes(self) -> int | None:
        """Number of different known labels, None without labels."""
        return None if self.labels is None else count_classes(self.labels)

    @property
    def is_labelled(self) -> Mask:
        """Return True for samples with a known label."""
        if self.labels is None:
            return np.zeros(self.n_samples, dtype=bool)
        return is_known(self.labels)

    @property
    def widths(self) -> tuple[int, ...]:
        """Number of features of each view."""
        return tuple(int(view.shape[1]) for view in self.views.values())


def encoded(data: MultiViewData) -> MultiViewData:
    """Return the data set with mixed tables encoded as numbers, and with notes on the columns."""
    views, encoding = encode_tables(data.views, None, None, tell=False)
    if not encoding:
        return data
    present = views.present | {name: ~absent_rows(views[name]) for name in encoding}
    return replace(
        data,
        views=views,
        present=None if all(mask.all() for mask in present.values()) else present,
        feature_names={name: np.array(titles) for name, titles in views.feature_names.items()},
        notes=(*data.notes, *_column_notes(encoding)),
    )


def _column_notes(encoding: Encoding) -> list[str]:
    several = len(encoding) > 1
    return [(f"{name}: " if several else "") + summary(p) for name, p in encoding.items()]


def other_notes(data: MultiViewData) -> list[str]:
    """Return the notes, except those on the columns of mixed tables."""
    said = _column_notes(data.views.encoding)
    return [note for note in data.notes if note not in said]


def as_member(name: str, data: Any) -> Member:
    """Return a data set, or labels with ids, as a table to pair."""
    titles = getattr(data, "feature_names", None) or {}
    ids = data.ids
    if ids is not None:
        ids = Ids(data.id_name or "index", ids, numbering=data.id_name == ROW_NUMBERS)
    columns = {str(title) for names in titles.values() for title in names}
    tables = getattr(data, "views", {}).values()
    columns.update(*(table.values for table in tables if isinstance(table, Columns)))
    return Member(name, data.n_samples, ids, columns)


def is_known(labels: Array) -> Mask:
    """Return False where a label is an empty text or NaN."""
    if labels.dtype.kind == "f":
        return ~np.isnan(labels)
    return labels != "" if labels.dtype.kind in "UT" else np.ones(len(labels), dtype=bool)


def count_classes(labels: Array) -> int:
    """Return the number of different known labels."""
    return len(np.unique(labels[is_known(labels)]))


def spread_rows(view: Matrix, position: Array) -> Matrix:
    """Return the rows at these positions; at -1 an absent sample: NaN, zeros in a sparse view."""
    if isinstance(view, Columns):
        return view.spread(position)
    if np.array_equal(position, np.arange(view.shape[0])):
        return view
    if (position >= 0).all():
        return view[position]
    if sparse.issparse(view):
        rows = np.flatnonzero(position >= 0)
        places = (np.ones(len(rows), dtype=view.dtype), (rows, position[rows]))
        picker = sparse.csr_array(places, shape=(len(position), view.shape[0]))
        return picker @ view
    spread = np.full((len(position), view.shape[1]), np.nan, np.result_type(view, np.float32))
    spread[position >= 0] = view[position[position >= 0]]
    return spread


def spread_labels(labels: Array, position: Array) -> Array:
    """Return the labels at these positions; at -1 an empty text, or NaN."""
    if (position >= 0).all():
        return labels[position]
    kind = str if labels.dtype.kind in "UST" else np.float64
    return emptied(labels.astype(kind)[position], position < 0)


def absent_rows(view: Matrix) -> Mask:
    """Return True for the rows of a dense view or a mixed table without any value."""
    if isinstance(view, Columns):
        missing = [is_missing(column) for column in view.values.values()]
        return np.asarray(np.logical_and.reduce(missing))
    if isinstance(view, np.memmap) and len(view):
        table = StoredTable(view, str(view.filename))
        blocks = row_blocks(len(view), _BLOCK_ROWS)
        return np.concatenate([absent_rows(table.read(rows)) for rows in blocks])
    present = rows_present(view)
    return np.zeros(view.shape[0], dtype=bool) if present is None else ~present
