"""What counts as multi-view input, checked once, and compared with what a model was fitted on."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

from omcal.machine.arrays import Array
from omcal.views import columns as column_sets
from omcal.views.columns import split_columns
from omcal.views.frames import align, arrow_values, column_names, is_arrow, refuse_words
from omcal.views.present import present_by_mask, rows_for_none
from omcal.views.stored import StoredArray, StoredTable, in_memory, is_stored
from omcal.views.view import (
    Matrix,
    View,
    Views,
    check_finite,
    is_dask,
    mark_absent,
)

_DENSE_SHARE = 2 / 3  # of stored entries, from which on a dense array takes less memory


def read_views(
    estimator: Any, X: Any, *, reset: bool = True, min_samples: int = 1, present: Any = None
) -> Views:
    """`validate_views` for estimators that take views wherever they are, and with absent samples.

    Tensors stay on their device, files on disk, Dask arrays on their cluster. The place that reads
    the rows sees whether all values are finite.
    """
    how = {
        "views": getattr(estimator, "views", None),
        "reset": reset,
        "min_samples": min_samples,
        "present": present,
    }
    if holds_tensors(X):
        from omcal.views.tensors import validate_tensors

        return validate_tensors(estimator, X, **how)
    return validate_views(estimator, X, lazy=True, absent=True, finite=False, **how)


def holds_tensors(X: Any) -> bool:
    """Whether X is a tensor of PyTorch or holds some; does not load PyTorch to find out."""
    if sparse.issparse(X):
        return False
    members = X.values() if isinstance(X, Mapping) else X if isinstance(X, list | tuple) else [X]
    return any(
        base.__module__.split(".")[0] == "torch" and base.__name__ == "Tensor"
        for member in members
        for base in type(member).__mro__
    )


def validate_views(
    estimator: Any,
    X: Any,
    *,
    views: Any = None,
    reset: bool = True,
    min_samples: int = 1,
    lazy: bool = False,
    absent: bool = False,
    present: Any = None,
    finite: bool = True,
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
    absent : bool
        Samples may be absent from views: rows of NaN, rows that are None, and, without `reset`,
        views that are None.
    present : mapping or sequence of boolean arrays, or one of shape (n, V), optional
        Which samples are in which view, for views that cannot hold NaN; None: all.
    finite : bool
        Refuse NaN and infinity; else that is left to whoever reads the rows.

    Returns
    -------
    Views
    """
    if _holds_delayed(X):
        from omcal.views.dask_arrays import arrays_of_delayed

        X = arrays_of_delayed(X)
    named = named_arrays(X, views)
    if named is not None:
        named = align(named, present)
    if named is not None and absent:
        widths = {} if reset else _fitted_widths(estimator, named, by_name=isinstance(X, Mapping))
        named = rows_for_none(named, widths)
    if named is None:
        checked = _check_table(estimator, X, views, reset, min_samples, lazy)
    else:
        checked = _check_separate(named, min_samples, lazy)
        if not reset:
            checked = in_fitted_order(estimator, checked, by_name=isinstance(X, Mapping))
        else:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = sum(checked.widths)
    if absent:
        checked = mark_absent(checked, present)
    else:
        _require_complete(checked)
    for view in checked:
        if finite and view.home == "memory":
            check_finite(view)
    if reset:
        estimator.view_names_ = list(checked.names)
        estimator.n_features_per_view_ = list(checked.widths)
        estimator._view_columns = [view.columns for view in checked]
    else:
        compare_columns(estimator, checked)
    return checked


def refuse_second_view(y: Any) -> None:
    """Refuse what can only be a view in the place of `y`: fit(A, B) would not look at B."""
    members = y.values() if isinstance(y, Mapping) else y if isinstance(y, list | tuple) else [y]
    for member in members:
        if _is_matrix(member):
            raise ValueError(
                f"the second argument, y, holds a 2-D array of shape {tuple(member.shape)}, which "
                "would be ignored; pass several views as one list, fit([A, B]), or by name, "
                'fit({"a": A, "b": B}).'
            )


def named_arrays(X: Any, views: Any) -> dict[str, Any] | None:
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
        View(
            name,
            _check_one(array, name, lazy),
            column_names(array),
            present_by_mask(array, name),
        )
        for name, array in named.items()
    ]
    require_equal_lengths(views)
    checked = Views(views)
    _require_samples(checked.n, min_samples)
    return checked


def require_equal_lengths(views: Sequence[View]) -> None:
    """Refuse views of different numbers of samples."""
    if len({view.array.shape[0] for view in views}) > 1:
        listed = ", ".join(
            f"{view.name!r}: {' × '.join(map(str, view.array.shape))}" for view in views
        )
        raise ValueError(
            f"the views have different numbers of samples ({listed}); row i must be the same "
            "sample in every view. omcal.datasets.join_views joins tables by an id."
        )


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
    array = arrow_values(array, name) if is_arrow(array) else in_memory(array, name)
    _require_sound(array, name)
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
        if checked.dtype == object:  # such as a category of words in a data frame
            checked = checked.astype(np.float64)
    except (ValueError, TypeError) as error:
        refuse_words(array, name)
        raise type(error)(f"view {name!r}: {error}") from error
    return _canonical(checked)


def _require_sound(array: Any, name: str) -> None:
    """Refuse sparse input with indices outside of it, by which SciPy would read elsewhere."""
    kind = array.format if sparse.issparse(array) else ""
    try:
        # The checks may rearrange what they look at, which is not to be the user's own.
        if kind == "coo":
            sparse.coo_array((array.data, (array.row, array.col)), array.shape)
        elif kind in ("csr", "csc", "bsr"):
            parts = (array.data, array.indices, array.indptr)
            type(array)(parts, array.shape).check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"view {name!r} is a damaged sparse matrix ({error}); build it anew from its entries."
        ) from error


def _require_complete(views: Views) -> None:
    for view in views:
        if view.present is not None:
            raise ValueError(
                f"view {view.name!r} masks {int((~view.present).sum())} of {views.n} samples, and "
                "this method needs all samples in every view; remove or impute them first."
            )


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
        from omcal.views.dask_arrays import array_by_rows

        opened = array_by_rows(array, name)
    elif is_stored(array):
        opened = StoredArray(StoredTable(array, name))
    else:
        return None
    if not opened.shape[1]:
        raise ValueError(f"view {name!r}: Found array with 0 feature(s); at least 1 is required.")
    return opened


def _canonical(array: Matrix) -> Matrix:
    """Return a sparse array in which every entry is stored once; the user's own is left as it is.

    One with few zeros becomes dense: it takes less memory, and can be centred, without which
    distances between points far from zero are rounding.
    """
    if not sparse.issparse(array):
        return array
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array.toarray() if array.nnz > _DENSE_SHARE * math.prod(array.shape) else array


def _check_table(
    estimator: Any, X: Any, views: Any, reset: bool, min_samples: int, lazy: bool
) -> Views:
    columns = column_names(X)
    opened = _open(X, "X") if lazy else None
    if opened is not None:
        validate_data(estimator, opened, reset=reset, skip_check_array=True)
        _require_samples(opened.shape[0], min_samples)
        return _lazy_views(opened, views, columns)
    _require_sound(X, "X")
    try:
        table = validate_data(
            estimator,
            in_memory(X, "X"),
            reset=reset,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=min_samples,
        )
        table = table.astype(np.float64) if table.dtype == object else table
    except (ValueError, TypeError) as error:
        refuse_words(X, "X")
        if _are_views_of_lists(X):
            raise ValueError(
                "X is made of lists of lists of lists; pass several views as arrays, "
                "fit([numpy.array(A), numpy.array(B)])."
            ) from error
        raise
    table = _canonical(table)
    if views is None:
        return Views([View("X", table, present=present_by_mask(X, "X"))])
    parts = split_columns(views, table.shape[1], columns)
    masked = isinstance(X, np.ma.MaskedArray)
    return Views(
        [
            View(
                name,
                table[:, index],
                present=present_by_mask(X[:, index], name) if masked else None,
            )
            for name, index in parts.items()
        ]
    )


def _are_views_of_lists(X: Any) -> bool:
    """Whether X has rows where numbers should be."""
    for _ in range(2):
        if not isinstance(X, list | tuple) or not X:
            return False
        X = X[0]
    return isinstance(X, list | tuple)


def _lazy_views(table: Matrix, views: Any, columns: tuple[str, ...] | None) -> Views:
    if views is None:
        return Views([View("X", table, columns)])
    parts = split_columns(views, table.shape[1], columns)

    def view(name: str, index: slice | Array) -> View:
        stored = isinstance(table, StoredArray)
        array = replace(table, columns=index) if stored else table[:, index]
        return View(name, array, tuple(np.array(columns)[index].tolist()) if columns else None)

    return Views([view(name, index) for name, index in parts.items()])


def in_fitted_order(estimator: Any, checked: Views, by_name: bool) -> Views:
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


def compare_columns(estimator: Any, checked: Views) -> None:
    """Raise where new views have other widths, or other columns, than those of `fit`."""
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
