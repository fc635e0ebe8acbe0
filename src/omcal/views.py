"""What counts as multi-view input, checked once; rows of it in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from omcal import columns as column_sets
from omcal.absence import read_masks, rows_for_none, rows_present
from omcal.columns import split_columns as split_columns
from omcal.stored import StoredArray, StoredTable, is_stored

Matrix: TypeAlias = Any  # a 2-D ndarray or a SciPy CSR matrix or array; lazy: stored, or of Dask


@dataclass(frozen=True)
class View:
    """One feature set: a 2-D array, dense or CSR, in the user's own memory."""

    name: str
    array: Matrix
    columns: tuple[str, ...] | None = None  # where the view was a data frame of its own
    present: NDArray[np.bool_] | None = None  # which samples are in the view; None: all

    @property
    def width(self) -> int:
        return int(self.array.shape[1])

    @property
    def sparse(self) -> bool:
        return sparse.issparse(self.array)

    @property
    def dtype(self) -> np.dtype:
        """The floating type to compute in: float32 where it holds every value, else float64."""
        given = self.array.dtype
        exact_in_float32 = np.can_cast(given, np.float32, casting="safe")
        return np.dtype(np.float32 if exact_in_float32 else np.float64)

    @property
    def stored(self) -> bool:
        """Whether the rows are read from somewhere, by slices only."""
        return isinstance(self.array, StoredArray)

    @property
    def distributed(self) -> bool:
        """Whether the rows are those of a Dask array."""
        return is_dask(self.array)

    def part(self, array: Matrix, rows: slice | NDArray) -> View:
        """The view of these rows only, which are in `array`."""
        return replace(
            self, array=array, present=None if self.present is None else self.present[rows]
        )

    def rows(self, index: slice | NDArray) -> Matrix:
        """These rows as floating-point numbers; no copy where a slice of floats is asked for.

        Rows of samples that are absent from the view are zero.
        """
        rows = self.array[index].astype(self.dtype, copy=False)
        if self.present is None or self.present[index].all():
            return rows
        there = self.present[index]
        if sparse.issparse(rows):
            return (sparse.diags_array(there.astype(rows.dtype)) @ rows).tocsr()
        return np.where(there[:, None], rows, rows.dtype.type(0))


class Views(Sequence[View]):
    """Checked views of the same samples."""

    def __init__(self, views: Sequence[View]) -> None:
        self._views = tuple(views)

    def __getitem__(self, index: Any) -> Any:
        return self._views[index]

    def __len__(self) -> int:
        return len(self._views)

    def __iter__(self) -> Iterator[View]:
        return iter(self._views)

    @property
    def n(self) -> int:
        """Number of samples."""
        return int(self._views[0].array.shape[0])

    @property
    def present(self) -> NDArray[np.bool_] | None:
        """(n, V): which samples are in which views; None where all are in all."""
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
        """The floating type that all views share."""
        return np.result_type(*(view.dtype for view in self))

    @property
    def stored(self) -> bool:
        """Whether some view must be read before it can be used."""
        return any(view.stored for view in self)

    @property
    def distributed(self) -> bool:
        """Whether some view is a Dask array."""
        return any(view.distributed for view in self)

    def load(self, rows: slice) -> Views:
        """These rows in memory, with who is absent; a table that views share is read once."""
        tables = dict.fromkeys(view.array.table for view in self if view.stored)
        blocks = {table: table.read(rows) for table in tables}
        arrays = (
            view.array.pick(blocks[view.array.table]) if view.stored else view.array[rows]
            for view in self
        )
        loaded = [view.part(array, rows) for view, array in zip(self, arrays, strict=True)]
        return mark_absent(Views(loaded))

    def dense(self, dtype: DTypeLike = np.float64) -> list[NDArray]:
        """Every view as a dense array of `dtype`, for methods that need whole matrices."""
        return [
            (view.array.toarray() if view.sparse else np.asarray(view.array)).astype(dtype)
            for view in self
        ]


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices that cover range(n), each of at most `size` rows."""
    for start in range(0, n, size):
        yield slice(start, min(start + size, n))


def validate_views(
    estimator: Any,
    X: Any,
    *,
    views: Any = None,
    reset: bool = True,
    min_samples: int = 1,
    lazy: bool = False,
    gaps: bool = False,
    present: Any = None,
) -> Views:
    """Check multi-view input and record, or compare with, what the estimator was fitted on.

    Parameters
    ----------
    estimator : object
        With `reset` it receives `n_features_in_`, `n_features_per_view_` and `view_names_` (and
        `feature_names_in_` for a table with named columns); without, it is compared with them.
    X : mapping, sequence of 2-D arrays, or one 2-D array, data frame or sparse matrix
    views : None, str, mapping or sequence
        For one table: how its columns form views, see `split_columns`.
    reset : bool
        True in `fit`, False in `predict`.
    min_samples : int
        Fewer rows are an error.
    lazy : bool
        Leave views that lie on disk or on a cluster there; whoever reads them then checks that
        their values are finite.
    gaps : bool
        Samples may be absent from views: rows of NaN, rows that are None, and, without `reset`,
        views that are None.
    present : mapping or sequence of boolean arrays, or one of shape (n, V), optional
        Which samples are in which view, for views that cannot hold NaN; None: all.

    Returns
    -------
    Views
    """
    if _holds_delayed(X):
        from omcal.dask_input import arrays_of_delayed

        X = arrays_of_delayed(X)
    named = _named_arrays(X, views)
    if named is not None and gaps:
        widths = {} if reset else _fitted_widths(estimator, named, by_name=isinstance(X, Mapping))
        named = rows_for_none(named, widths)
    if named is None:
        checked = _check_table(estimator, X, views, reset, min_samples, lazy)
    else:
        checked = _check_separate(named, min_samples, lazy)
        if not reset:
            checked = _in_fitted_order(estimator, checked, by_name=isinstance(X, Mapping))
        else:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = sum(checked.widths)
    if gaps:
        checked = mark_absent(checked, present)
    for view in checked:
        if not (view.stored or view.distributed):
            require_finite(view.name, *count_nonfinite(view.array, view.present))
    if reset:
        estimator.view_names_ = list(checked.names)
        estimator.n_features_per_view_ = list(checked.widths)
        estimator._view_columns = [view.columns for view in checked]
    else:
        _compare_columns(estimator, checked)
    return checked


def mark_absent(views: Views, given: Any = None) -> Views:
    """The views with who is absent from each: by the given masks, and by rows of NaN only."""
    if given is not None and views.distributed:
        raise ValueError("present= is not for views in Dask; mark absent samples by rows of NaN.")
    masks = read_masks(given, views.names, views.n)
    return Views([_marked(view, masks.get(view.name)) for view in views])


def _marked(view: View, mask: NDArray[np.bool_] | None) -> View:
    known = view.present if mask is None else mask
    if not (view.stored or view.distributed):
        found = rows_present(view.array)
        if found is not None:
            known = found if known is None else known & found
    return replace(view, present=None if known is None or known.all() else known)


def _named_arrays(X: Any, views: Any) -> dict[str, Any] | None:
    """The separate views in X by name, or None where X is one table."""
    # scipy.sparse.dok_array is a dict, so sparse goes first.
    if sparse.issparse(X) or hasattr(X, "columns"):
        return None
    if isinstance(X, Mapping):
        named = column_sets.by_name(X, "X")
    elif isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        named = column_sets.numbered(list(X))
    elif isinstance(X, list | tuple) and (not X or any(_is_matrix(item) for item in X)):
        named = column_sets.numbered(X)
    else:
        return None
    if not named:
        raise ValueError("X holds no view; give at least one 2-D array.")
    if views is not None:
        raise ValueError(
            f"views={views!r} splits the columns of one table, but X already holds "
            f"{len(named)} separate views; drop views= or pass one table."
        )
    return named


def _is_matrix(item: Any) -> bool:
    # A list of lists or of 1-D arrays is scikit-learn's ordinary 2-D input, not a list of views.
    return len(getattr(item, "shape", ())) == 2


def _check_separate(named: dict[str, Any], min_samples: int, lazy: bool) -> Views:
    views = [
        View(name, _check_one(array, name, lazy), _columns(array)) for name, array in named.items()
    ]
    lengths = {view.name: view.array.shape[0] for view in views}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r}: {n}" for name, n in lengths.items())
        raise ValueError(
            f"the views have different numbers of samples ({listed}); "
            "row i must be the same sample in every view."
        )
    checked = Views(views)
    _require_samples(checked.n, min_samples)
    return checked


def _require_samples(n: int, min_samples: int) -> None:
    if n < min_samples:
        raise ValueError(f"Found {n} sample(s) while a minimum of {min_samples} is required.")


def _check_one(array: Any, name: str, lazy: bool) -> Matrix:
    if array is None or getattr(array, "ndim", 2) != 2:
        what = "None" if array is None else f"of shape {np.shape(array)}"
        raise ValueError(f"view {name!r} is {what}; each view must be 2-D (samples × features).")
    opened = _open(array, name) if lazy else None
    if opened is not None:
        return opened
    try:
        checked = check_array(
            array,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=1,
            input_name=name,
        )
    except (ValueError, TypeError) as error:
        raise type(error)(f"view {name!r}: {error}") from error
    return _canonical(checked)


def is_dask(array: Any) -> bool:
    """Whether this is a Dask array, data frame or delayed value; does not import Dask."""
    return type(array).__module__.startswith("dask")


def _holds_delayed(X: Any) -> bool:
    """Whether X, or a view in it, is a list of delayed blocks, which have no shape to look at."""
    if sparse.issparse(X) or not isinstance(X, Mapping | list | tuple):
        return False
    members = X.values() if isinstance(X, Mapping) else X
    firsts = (item[0] if isinstance(item, list | tuple) and item else item for item in members)
    return any(type(first).__module__ == "dask.delayed" for first in firsts)


def _open(array: Any, name: str) -> Matrix | None:
    """What lies on disk or on a cluster, ready to be read by blocks; None for anything else."""
    if is_dask(array):
        from omcal.dask_input import array_by_rows

        opened = array_by_rows(array, name)
    elif is_stored(array):
        opened = StoredArray(StoredTable(array, name))
    else:
        return None
    if not opened.shape[1]:
        raise ValueError(f"view {name!r}: Found array with 0 feature(s); at least 1 is required.")
    return opened


def _canonical(array: Matrix) -> Matrix:
    """A sparse array in which every entry is stored once; the user's own is left as it is."""
    if sparse.issparse(array) and not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array


def _check_table(
    estimator: Any, X: Any, views: Any, reset: bool, min_samples: int, lazy: bool
) -> Views:
    columns = _columns(X)
    opened = _open(X, "X") if lazy else None
    if opened is not None:
        validate_data(estimator, opened, reset=reset, skip_check_array=True)
        _require_samples(opened.shape[0], min_samples)
        return _lazy_views(opened, views, columns)
    table = validate_data(
        estimator,
        X,
        reset=reset,
        accept_sparse="csr",
        dtype="numeric",
        ensure_all_finite=False,
        ensure_min_samples=min_samples,
    )
    table = _canonical(table)
    if views is None:
        return Views([View("X", table)])
    parts = split_columns(views, table.shape[1], columns)
    return Views([View(name, table[:, index]) for name, index in parts.items()])


def _lazy_views(table: Matrix, views: Any, columns: tuple[str, ...] | None) -> Views:
    if views is None:
        return Views([View("X", table, columns)])
    parts = split_columns(views, table.shape[1], columns)

    def view(name: str, index: slice | NDArray) -> View:
        stored = isinstance(table, StoredArray)
        array = replace(table, columns=index) if stored else table[:, index]
        return View(name, array, tuple(np.array(columns)[index].tolist()) if columns else None)

    return Views([view(name, index) for name, index in parts.items()])


def _in_fitted_order(estimator: Any, checked: Views, by_name: bool) -> Views:
    """Match new views with the fitted ones: by name where they have names, else by position."""
    fitted = estimator.view_names_
    _compare_number(estimator, checked)
    if not by_name:
        return Views([replace(view, name=name) for name, view in zip(fitted, checked, strict=True)])
    given = {view.name: view for view in checked}
    if set(given) != set(fitted):
        raise ValueError(
            f"X has views {list(checked.names)} but the model was fitted on {fitted}; "
            "use the same names."
        )
    return Views([given[name] for name in fitted])


def _fitted_widths(estimator: Any, named: dict[str, Any], by_name: bool) -> dict[str, int]:
    """Width of each fitted view by the name it has in new input."""
    names = estimator.view_names_ if by_name else named
    return dict(zip(names, estimator.n_features_per_view_, strict=False))


def _compare_number(estimator: Any, checked: Views) -> None:
    fitted = estimator.view_names_
    if len(checked) != len(fitted):
        raise ValueError(
            f"X has {len(checked)} views but the model was fitted on {len(fitted)}: {fitted}."
        )


def _compare_columns(estimator: Any, checked: Views) -> None:
    _compare_number(estimator, checked)
    fitted = zip(estimator.n_features_per_view_, estimator._view_columns, strict=True)
    for view, (width, columns) in zip(checked, fitted, strict=True):
        if view.width != width:
            raise ValueError(
                f"view {view.name!r} has {view.width} features but the model was fitted on {width}."
            )
        if view.columns and columns and view.columns != columns:
            raise ValueError(
                f"the columns of view {view.name!r} are not those of fit; they must have the "
                "same names in the same order."
            )


def _columns(array: Any) -> tuple[str, ...] | None:
    return tuple(map(str, array.columns)) if hasattr(array, "columns") else None


def count_nonfinite(array: Matrix, present: NDArray | None = None) -> tuple[int, int]:
    """How many values are NaN, and how many infinite, in the rows that are present."""
    if present is not None:
        array = array[present]
    values = array.data if sparse.issparse(array) else array
    if values.dtype.kind != "f":
        return 0, 0
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum proves finite values; only a sum that is not needs the slow look.
        if np.isfinite(values.sum()):
            return 0, 0
    return int(np.isnan(values).sum()), int(np.isinf(values).sum())


def require_finite(name: str, n_nan: int, n_inf: int) -> None:
    """Raise where a view was found to hold such values."""
    if n_nan or n_inf:
        raise ValueError(
            f"view {name!r} contains {n_nan} NaN and {n_inf} infinity (inf) values; "
            "remove or impute them first (a sample that is absent from a view has NaN in all of "
            "its features)."
        )
