"""What counts as multi-view input, checked once; rows of it in blocks."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray
from scipy import sparse
from sklearn.utils.validation import check_array, validate_data

Matrix: TypeAlias = Any  # a 2-D ndarray or a SciPy CSR matrix or array


@dataclass(frozen=True)
class View:
    """One feature set: a 2-D array, dense or CSR, in the user's own memory."""

    name: str
    array: Matrix
    columns: tuple[str, ...] | None = None  # where the view was a data frame of its own

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

    def rows(self, index: slice | NDArray) -> Matrix:
        """These rows as floating-point numbers; no copy where a slice of floats is asked for."""
        return self.array[index].astype(self.dtype, copy=False)


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
    def widths(self) -> tuple[int, ...]:
        return tuple(view.width for view in self)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(view.name for view in self)

    @property
    def dtype(self) -> np.dtype:
        """The floating type that all views share."""
        return np.result_type(*(view.dtype for view in self))

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

    Returns
    -------
    Views
    """
    named = _named_arrays(X, views)
    if named is None:
        checked = _check_table(estimator, X, views, reset, min_samples)
    else:
        checked = _check_separate(named, min_samples)
        if not reset:
            checked = _in_fitted_order(estimator, checked, by_name=isinstance(X, Mapping))
        else:
            vars(estimator).pop("feature_names_in_", None)
            estimator.n_features_in_ = sum(checked.widths)
    for view in checked:
        _check_finite(view)
    if reset:
        estimator.view_names_ = list(checked.names)
        estimator.n_features_per_view_ = list(checked.widths)
        estimator._view_columns = [view.columns for view in checked]
    else:
        _compare_columns(estimator, checked)
    return checked


def _named_arrays(X: Any, views: Any) -> dict[str, Any] | None:
    """The separate views in X by name, or None where X is one table."""
    # scipy.sparse.dok_array is a dict, so sparse goes first.
    if sparse.issparse(X) or hasattr(X, "columns"):
        return None
    if isinstance(X, Mapping):
        named = _by_name(X, "X")
    elif isinstance(X, np.ndarray) and X.dtype == object and X.ndim == 1:
        named = _numbered(list(X))
    elif isinstance(X, list | tuple) and (not X or any(_is_matrix(item) for item in X)):
        named = _numbered(X)
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


def _by_name(mapping: Mapping[Any, Any], what: str) -> dict[str, Any]:
    named = {str(name): member for name, member in mapping.items()}
    if len(named) < len(mapping):
        names = [str(name) for name in mapping]
        twice = sorted({name for name in names if names.count(name) > 1})
        raise ValueError(f"{what} has several views named {twice}; give each its own name.")
    return named


def _numbered(arrays: Sequence[Any]) -> dict[str, Any]:
    return {f"view{i}": array for i, array in enumerate(arrays, start=1)}


def _is_matrix(item: Any) -> bool:
    # A list of lists or of 1-D arrays is scikit-learn's ordinary 2-D input, not a list of views.
    return len(getattr(item, "shape", ())) == 2


def _check_separate(named: dict[str, Any], min_samples: int) -> Views:
    views = [View(name, _check_one(array, name), _columns(array)) for name, array in named.items()]
    lengths = {view.name: view.array.shape[0] for view in views}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{name!r}: {n}" for name, n in lengths.items())
        raise ValueError(
            f"the views have different numbers of samples ({listed}); "
            "row i must be the same sample in every view."
        )
    checked = Views(views)
    if checked.n < min_samples:
        raise ValueError(
            f"Found {checked.n} sample(s) while a minimum of {min_samples} is required."
        )
    return checked


def _check_one(array: Any, name: str) -> Matrix:
    if array is None or getattr(array, "ndim", 2) != 2:
        what = "None" if array is None else f"of shape {np.shape(array)}"
        raise ValueError(f"view {name!r} is {what}; each view must be 2-D (samples × features).")
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


def _canonical(array: Matrix) -> Matrix:
    """A sparse array in which every entry is stored once; the user's own is left as it is."""
    if sparse.issparse(array) and not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array


def _check_table(estimator: Any, X: Any, views: Any, reset: bool, min_samples: int) -> Views:
    columns = _columns(X)
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


def split_columns(
    views: Any, width: int, columns: Sequence[str] | None = None
) -> dict[str, slice | NDArray]:
    """Resolve `views=` into named sets of columns of one table.

    Parameters
    ----------
    views : str, mapping or sequence
        * a sequence, or a mapping from names, whose members are slices, lists of positions, or
          lists of column names;
        * ``"prefix_"``: one view for each prefix of the column names up to the first ``_`` (any
          separator may follow the word ``prefix``).
    width : int
        Number of columns of the table.
    columns : sequence of str, optional
        Their names.

    Returns
    -------
    dict
        View name -> slice or array of positions.

    Examples
    --------
    >>> split_columns("prefix_", 3, ["a_1", "a_2", "b_1"])
    {'a': array([0, 1]), 'b': array([2])}
    >>> split_columns([slice(0, 2), [2]], 3)
    {'view1': slice(0, 2, None), 'view2': array([2])}
    """
    if isinstance(views, str):
        return _split_by_prefix(views, columns)
    if isinstance(views, Mapping):
        members = _by_name(views, "views=")
    elif isinstance(views, list | tuple):
        members = _numbered(views)
    else:
        raise ValueError(
            f"views={views!r} is not understood; give 'prefix_', a list of slices or columns, "
            "or a mapping from view names to them."
        )
    if not members:
        raise ValueError("views= names no view; give at least one set of columns.")
    return {name: _positions(name, member, width, columns) for name, member in members.items()}


def _split_by_prefix(rule: str, columns: Sequence[str] | None) -> dict[str, slice | NDArray]:
    separator = rule.removeprefix("prefix")
    if not rule.startswith("prefix") or not separator:
        raise ValueError(
            f"views={rule!r} is not understood; 'prefix_' groups columns by the part of their "
            "name before the first '_'."
        )
    if columns is None:
        raise ValueError(
            f"views={rule!r} needs column names; pass a data frame, or slices or positions."
        )
    groups: dict[str, list[int]] = {}
    for position, name in enumerate(columns):
        prefix, found, _ = name.partition(separator)
        if not found:
            raise ValueError(
                f"views={rule!r}: column {name!r} has no {separator!r} in its name; rename or "
                "drop it."
            )
        groups.setdefault(prefix, []).append(position)
    return {prefix: np.array(positions) for prefix, positions in groups.items()}


def _positions(
    name: str, member: Any, width: int, columns: Sequence[str] | None
) -> slice | NDArray:
    if isinstance(member, slice):
        try:
            selected = len(range(*member.indices(width)))
        except TypeError as error:
            raise ValueError(f"views: {name!r} = {member} is not a slice of positions.") from error
        if not selected:
            raise ValueError(f"views: {name!r} = {member} selects none of {width} columns.")
        return member
    if not isinstance(member, str | Sequence | np.ndarray):
        raise ValueError(
            f"views: {name!r} = {member!r} is not understood; give a slice, or a list of "
            "positions or column names."
        )
    wanted = [member] if isinstance(member, str) else list(member)
    if all(isinstance(item, str) for item in wanted):
        known = {column: position for position, column in enumerate(columns or [])}
        missing = [item for item in wanted if item not in known]
        if missing:
            raise ValueError(f"views: {name!r} names columns that X does not have: {missing}.")
        wanted = [known[item] for item in wanted]
    index = np.asarray(wanted, dtype=None if wanted else np.intp)
    if index.dtype == bool:
        if len(index) != width:
            raise ValueError(
                f"views: the mask of {name!r} has {len(index)} entries for {width} columns."
            )
        index = np.flatnonzero(index)
    if not index.size:
        raise ValueError(f"views: {name!r} selects no column; give it at least one.")
    if index.dtype.kind not in "iu" or index.min() < -width or index.max() >= width:
        raise ValueError(
            f"views: {name!r} = {wanted} is not a list of columns between 0 and {width - 1}."
        )
    return index


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


def _check_finite(view: View) -> None:
    values = view.array.data if view.sparse else view.array
    if values.dtype.kind != "f":
        return
    with np.errstate(over="ignore", invalid="ignore"):
        # A finite sum proves finite values; only a sum that is not needs the slow look.
        if np.isfinite(values.sum()):
            return
    n_nan = int(np.isnan(values).sum())
    n_inf = int(np.isinf(values).sum())
    if n_nan or n_inf:
        raise ValueError(
            f"view {view.name!r} contains {n_nan} NaN and {n_inf} infinity (inf) values; "
            "remove or impute them first."
        )
