"""Checked views of the same samples, and the tables that adapters open for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import DTypeLike
from scipy import sparse

from omcal.machine.arrays import Array, Floats, Mask
from omcal.machine.threads import map_blocks, row_slice
from omcal.views.pair import Ids
from omcal.views.present import read_masks, rows_present

if TYPE_CHECKING:
    from omcal.views.kinds import Kind

_BLOCK_ENTRIES = 1 << 22  # checked per block

SEVERAL = (
    "If X holds several views, pass a list of 2-D arrays: list(X) if it is an array of them, "
    "[numpy.array(A), numpy.array(B)] if they are lists."
)

Home = Literal["memory", "disk", "cluster", "device"]
Matrix: TypeAlias = Any  # a 2-D ndarray or a SciPy CSR matrix or array; lazy: stored, or of Dask


class KnownValues(NamedTuple):
    """Facts about a view with filled cells, from its known values."""

    kind: Kind | None  # None without rows
    whole: bool  # whether all are whole numbers
    presence: Floats  # share of the values of each feature that are not zero


@dataclass(frozen=True)
class View:
    """One feature set: a 2-D array, dense, CSR, stored or distributed."""

    name: str
    array: Matrix
    columns: tuple[str, ...] | None = None  # names of the features, if there are any
    present: Mask | None = None  # which samples are in the view; None: all
    levels_from: int | None = None  # position of the first feature that is a level of a category
    known: KnownValues | None = None  # if missing cells are filled

    @property
    def width(self) -> int:
        return int(self.array.shape[1])

    @property
    def sparse(self) -> bool:
        return bool(sparse.issparse(self.array))

    @property
    def dtype(self) -> np.dtype:
        """Return the type to compute in: float32 if it holds every value, else float64."""
        given = self.array.dtype
        exact_in_float32 = np.can_cast(given, np.float32, casting="safe")
        return np.dtype(np.float32 if exact_in_float32 else np.float64)

    @property
    def home(self) -> Home:
        """Where the rows are: in memory, in files, on a device or on a cluster."""
        home: Home = "cluster" if is_dask(self.array) else getattr(self.array, "home", "memory")
        return home

    @property
    def stored(self) -> bool:
        """Whether the rows must be read by slices."""
        return self.home == "disk"

    def take(self, columns: slice | Array) -> View:
        """Return a view with some of the features, in the given order."""
        names = None if self.columns is None else tuple(np.array(self.columns)[columns].tolist())
        by_method = self.home in ("disk", "device")
        array = self.array.take(columns) if by_method else self.array[:, columns]
        return replace(self, array=array, columns=names, levels_from=None, known=None)

    def part(self, array: Matrix, rows: slice | Array) -> View:
        """Return a view of some rows, whose values are in `array`."""
        return replace(
            self, array=array, present=None if self.present is None else self.present[rows]
        )

    def rows(self, index: slice | Array) -> Matrix:
        """Return these rows as floating-point numbers, without a copy for a slice of floats.

        Rows of samples that are absent from the view are zero.
        """
        rows = row_slice(self.array, index) if isinstance(index, slice) else self.array[index]
        rows = rows.astype(self.dtype, copy=False)
        if self.present is None or self.present[index].all():
            return rows
        there = self.present[index]
        if sparse.issparse(rows):
            return (sparse.diags_array(there.astype(rows.dtype)) @ rows).tocsr()
        return np.where(there[:, None], rows, rows.dtype.type(0))


@dataclass(frozen=True)
class Table:
    """One 2-D input: its number of columns, and a function that makes views of them.

    `take(name, columns)` returns the view of these columns (None: all). Some inputs have `names` of
    columns and `ids` of rows; `named` tells whether the names are texts, not numbers.
    """

    width: int
    take: Callable[[str, slice | Array | None], View]
    names: tuple[str, ...] | None = None
    ids: Ids | None = None
    named: bool = False

    @classmethod
    def of(cls, view: View) -> Table:
        """Return the table whose columns are those of a view."""
        require_2d(view.array, view.name)

        def take(part: str, columns: slice | Array | None) -> View:
            return replace(view if columns is None else view.take(columns), name=part)

        return cls(view.width, take, view.columns, named=view.columns is not None)


def is_arrow(data: Any) -> bool:
    """Whether this is a table or record batch of pyarrow, without importing pyarrow."""
    return type(data).__module__.partition(".")[0] == "pyarrow" and hasattr(data, "schema")


def column_names(data: Any) -> tuple[str, ...] | None:
    """Return the column names of a data frame; None for data without names."""
    if not is_arrow(data) and not hasattr(data, "columns"):
        return None
    # The `columns` of an Arrow table are the data.
    names = tuple(map(str, data.schema.names if is_arrow(data) else data.columns))
    if twice := [name for name, count in Counter(names).items() if count > 1]:
        listed = ", ".join(map(repr, twice[:6])) + ", …" * (len(twice) > 6)
        raise ValueError(f"a table has several columns named {listed}; rename or drop them.")
    return names


def require_numeric(types: Iterable[Any], name: str) -> None:
    """Refuse a view with values of other types than real numbers."""
    for dtype in types:
        if getattr(dtype, "kind", "O") not in "fiub":
            raise ValueError(
                f"view {name!r} holds {dtype} values; a view must be numeric (real numbers)."
            )


def require_2d(array: Any, name: str) -> None:
    """Refuse an input that is not samples by features."""
    shape = tuple(array.shape)
    if len(shape) == 2:
        if not shape[1]:
            raise ValueError(
                f"view {name!r}: Found array with 0 feature(s) (shape={shape}) while a minimum of "
                "1 is required."
            )
        return
    if len(shape) == 3 and name == "X":
        raise ValueError(f"X has three dimensions, {shape}. {SEVERAL}")
    kind = type(array).__name__
    remedy = "X.reshape(-1, 1) for one feature, X.reshape(1, -1) for one sample"
    if hasattr(array, "to_frame"):
        remedy = "X.to_frame() for one feature"
    raise ValueError(
        f"view {name!r} is a {kind} of shape {shape}; each view must be 2-D (samples × features). "
        f"Reshape your data: {remedy}."
    )


class Views(tuple[View, ...]):
    """Checked views of the same samples."""

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self[0].array.shape[0])

    @property
    def present(self) -> Mask | None:
        """Return a mask (n, V) of the samples in each view; None if no sample is absent."""
        if all(view.present is None for view in self):
            return None
        everyone = np.ones(self.n, dtype=bool)
        return np.column_stack([everyone if v.present is None else v.present for v in self])

    @property
    def widths(self) -> tuple[int, ...]:
        return tuple(view.width for view in self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(view.name for view in self)

    @property
    def dtype(self) -> np.dtype:
        """Return the floating type that all views share."""
        return np.result_type(*(view.dtype for view in self))

    @property
    def home(self) -> Home:
        """Home of the view that is hardest to move: files, for instance, can be read by workers."""
        homes = {view.home for view in self}
        order: tuple[Home, ...] = ("device", "cluster", "disk", "memory")
        return next(home for home in order if home in homes)

    @property
    def stored(self) -> bool:
        """Whether some view must be read before it can be used."""
        return any(view.stored for view in self)

    def load(self, rows: slice) -> Views:
        """Read these rows into memory and mark absent samples; a shared table is read once."""
        tables = dict.fromkeys(view.array.table for view in self if view.stored)
        blocks = {table: table.read(rows) for table in tables}
        arrays = (
            view.array.pick(blocks[view.array.table]) if view.stored else view.array[rows]
            for view in self
        )
        loaded = [view.part(array, rows) for view, array in zip(self, arrays, strict=True)]
        return mark_absent(Views(loaded))

    def dense(self, dtype: DTypeLike = np.float64) -> list[Array]:
        """Return every view as a dense array of `dtype`, for methods that need whole matrices."""
        return [
            (view.array.toarray() if view.sparse else np.asarray(view.array)).astype(dtype)
            for view in self
        ]


def mark_absent(views: Views, given: Any = None) -> Views:
    """Mark the absent samples of each view: by the given masks, and by rows of NaN."""
    if given is not None and views.home == "cluster":
        raise ValueError("present= is not for views in Dask; mark absent samples by rows of NaN.")
    if views.home == "device":
        devices = {view.name: str(view.array.device) for view in views if view.home == "device"}
        if len(set(devices.values())) > 1:
            listed = ", ".join(f"{name!r}: {device}" for name, device in devices.items())
            raise ValueError(
                f"the views are on different devices ({listed}); all must be on one device."
            )
    masks = read_masks(given, views.names, views.n)
    return Views([_marked(view, masks.get(view.name)) for view in views])


def _marked(view: View, mask: Mask | None) -> View:
    found = None
    if view.home == "device":
        found = view.array.rows_present()
    elif view.home == "memory":
        found = rows_present(view.array)
    known = [one for one in (view.present, mask, found) if one is not None]
    if not known:
        return view
    present = np.logical_and.reduce(known)
    return replace(view, present=None if present.all() else present)


def is_dask(array: Any) -> bool:
    """Whether this is a Dask array, data frame or delayed value; does not import Dask."""
    return type(array).__module__.startswith("dask")


def count_nonfinite(array: Matrix, present: Array | None = None) -> tuple[int, int]:
    """Count NaN and infinite values in the rows that are present."""
    if present is not None:
        array = array[present]
    values = array.data if sparse.issparse(array) else array
    if values.dtype.kind != "f":
        return 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum proves that values are finite; otherwise do the slow check.
        if np.isfinite(values.sum()):
            return 0, 0
    return int(np.isnan(values).sum()), int(np.isinf(values).sum())


class MissingValuesError(ValueError):
    """A view lacks some values, and all its known values are finite."""


def require_finite(name: str, n_nan: int, n_inf: int) -> None:
    """Raise if a view holds NaN or infinite values."""
    if n_nan or n_inf:
        kind = ValueError if n_inf else MissingValuesError
        raise kind(
            f"view {name!r} contains {n_nan} NaN and {n_inf} infinity (inf) values; "
            "remove or impute them first (a sample that is absent from a view has NaN in all of "
            "its features)."
        )


def check_finite(view: View) -> None:
    """Refuse NaN and infinity in a view in memory."""

    def count(rows: slice) -> tuple[int, int]:
        part = view.part(view.array[rows], rows)
        return count_nonfinite(part.array, part.present)

    n = view.array.shape[0]
    found = map_blocks(count, n, max(1, n if view.sparse else _BLOCK_ENTRIES // view.width))
    require_finite(view.name, *(sum(counts) for counts in zip((0, 0), *found, strict=True)))
