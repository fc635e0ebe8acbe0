"""The only entry for input: adapt it, pair its rows, compare it with the model."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.views.adapt import AdaptedInput, Home, adapt, is_matrix
from omcal.views.columns import by_name, refuse_columns, require_equal_lengths, split_columns
from omcal.views.missing import fill_missing
from omcal.views.mixed import encode_tables
from omcal.views.pair import Member, PairingError, pair
from omcal.views.view import MissingValuesError, View, Views, check_finite, mark_absent


def read_views(
    estimator: Any,
    X: Any,
    *,
    reset: bool = True,
    min_samples: int = 1,
    present: Any = None,
    home: Home = "any",
    absent: bool = True,
    fill: Callable[[Array], Array] | None = None,
) -> Views:
    """Read multi-view input and record it on the estimator, or compare it with the fit.

    With `reset` the estimator receives `n_features_in_`, `n_features_per_view_` and `view_names_`
    (and `feature_names_in_` for a table with named columns). Without it X is compared with them,
    and views and features are returned in the order of the fit.

    Parameters
    ----------
    estimator : object
        Its parameter `views` splits the columns of one table.
    X : mapping, sequence of 2-D arrays, or one 2-D array, data frame or sparse matrix
    reset : bool
        True in `fit`, False in `predict`.
    min_samples : int
        Fewer rows are an error.
    present : mapping or sequence of boolean arrays, or one of shape (n, V), optional
        Which samples are in which view, for views that cannot hold NaN; None: all.
    home : {"any", "host", "memory"}
        "any" leaves tensors, files and Dask arrays where they are. "host" copies tensors, "memory"
        reads everything; both refuse values in memory that are not finite.
    absent : bool
        Whether samples may be absent from views: rows of NaN or None, and views that are None.
    fill : callable, optional
        Sums an array over all processes of a fit. If it is given, missing cells are counted and
        filled. Without it, `home="any"` leaves NaN in the views.
    """
    rule = getattr(estimator, "views", None)
    # Before a view is asked for the columns of another one; sparse.dok_array is a mapping, too.
    if not reset and isinstance(X, Mapping) and not hasattr(X, "nnz"):
        _require_names(estimator.view_names_, list(by_name(X, "X")))
    X, encoding = encode_tables(X, rule, None if reset else getattr(estimator, "_encoding", {}))
    if reset:
        estimator._encoding = encoding
    given = adapt(X, partial(_columns_of_views, estimator, reset), home)
    if rule is not None and given.table is None and not encoding:
        raise ValueError(
            f"views={rule!r} splits the columns of one table, but X already holds "
            f"{len(given.views)} separate views; drop views= or pass one table."
        )
    given = pair_views(given, present)
    views = Views(_without_none(given) if reset else _named_as_fitted(estimator, given))
    if views.n < min_samples:
        raise ValueError(f"Found {views.n} sample(s) while a minimum of {min_samples} is required.")
    if absent:
        views = mark_absent(views, present)
    else:
        _require_complete(views)
    if reset:
        _record(estimator, given, views)
    else:
        order = {view.name: view for view in views}
        fitted = enumerate(estimator.view_names_)
        views = Views([_as_fitted(estimator, v, order[name]) for v, name in fitted])
    if home != "any":
        try:
            for view in views:
                if view.home == "memory":
                    check_finite(view)
        except MissingValuesError:
            if not absent:
                raise
            fill = fill or np.asarray
    return views if fill is None else fill_missing(estimator, views, reset, fill)


def pair_views(given: AdaptedInput, present: Any = None) -> AdaptedInput:
    """Return the views with row i as the same sample in each; see `omcal.views.pair`."""
    views = [view for view in given.views.values() if view is not None]
    if not given.ids or given.table is not None:
        require_equal_lengths({view.name: view.array for view in views}, PairingError)
        return given
    members = [
        Member(view.name, int(view.array.shape[0]), given.ids.get(view.name), view.columns or ())
        for view in views
    ]
    rows = pair(members).rows
    moved = {
        name: places
        for name, places in rows.items()
        if not np.array_equal(places, np.arange(len(places)))
    }
    if moved and present is not None:
        raise PairingError(
            f"the data frames {', '.join(map(repr, rows))} have the same index in different "
            "orders, and present= does not say in which it is; bring the frames into one order "
            "with .loc[...]."
        )
    paired = {
        name: view.part(view.array[moved[name]], moved[name]) if view and name in moved else view
        for name, view in given.views.items()
    }
    return replace(given, views=paired)


def _columns_of_views(
    estimator: Any, reset: bool, width: int, names: tuple[str, ...] | None
) -> dict[str, slice | Array | None]:
    """Find the columns of each view in one table.

    In `fit` the parameter `views` decides. In `predict` names decide if both tables have them.
    """
    rule = getattr(estimator, "views", None)
    if not reset:
        if names is not None and all(columns is not None for columns in estimator._view_columns):
            return _columns_by_name(estimator, names, rule)
        _require_width(estimator, width, names)
    return {"X": None} if rule is None else {**split_columns(rule, width, names)}


def _columns_by_name(
    estimator: Any, names: tuple[str, ...], rule: Any
) -> dict[str, slice | Array | None]:
    """Find the fitted columns of each view in a table with named columns."""
    fitted = dict(zip(estimator.view_names_, estimator._view_columns, strict=True))
    wanted = list(dict.fromkeys(title for titles in fitted.values() for title in titles))
    # Columns in no view do not matter, unless the rule uses all columns.
    taken = names if rule is None or isinstance(rule, str) else [n for n in names if n in wanted]
    column_order(taken, wanted, "X")  # raises for missing and new columns
    place = {title: j for j, title in enumerate(names)}
    return {view: np.array([place[title] for title in titles]) for view, titles in fitted.items()}


def column_order(names: Sequence[str], fitted: Sequence[str], view: str) -> Array:
    """Return the positions that bring named columns into the fitted order."""
    if tuple(names) == tuple(fitted):
        return np.arange(len(names))
    missing = [name for name in fitted if name not in set(names)]
    new = [name for name in names if name not in set(fitted)]
    if missing or new or len(set(names)) < len(names):
        refuse_columns(view, missing, new)
    place = {name: j for j, name in enumerate(names)}
    return np.array([place[name] for name in fitted])


def _require_width(estimator: Any, width: int, names: tuple[str, ...] | None) -> None:
    name = type(estimator).__name__
    if width != estimator.n_features_in_:
        raise ValueError(
            f"X has {width} features, but {name} is expecting {estimator.n_features_in_} features "
            "as input."
        )
    if names is None and hasattr(estimator, "feature_names_in_"):
        warnings.warn(
            f"X does not have valid feature names, but {name} was fitted with feature names",
            UserWarning,
            stacklevel=2,
        )


def _without_none(given: AdaptedInput) -> list[View]:
    for name, view in given.views.items():
        if view is None:
            raise ValueError(f"view {name!r} is None; each view must be 2-D (samples × features).")
    return [view for view in given.views.values() if view is not None]


def _named_as_fitted(estimator: Any, given: AdaptedInput) -> list[View]:
    """Return the given views under the names of the fit; None becomes a view without samples.

    Views match by name if they have names, else by position.
    """
    fitted = list(estimator.view_names_)
    if len(given.views) != len(fitted):
        raise ValueError(
            f"X has {len(given.views)} views but the model was fitted on {len(fitted)}: {fitted}."
        )
    names = list(given.views) if given.by_name else fitted
    widths = dict(zip(fitted, estimator.n_features_per_view_, strict=True))
    n = next((view.array.shape[0] for view in given.views.values() if view is not None), None)
    if n is None:
        raise ValueError("every view in X is None; give at least one 2-D array.")
    return [
        View(name, np.full((n, widths[name]), np.nan)) if view is None else replace(view, name=name)
        for name, view in zip(names, given.views.values(), strict=True)
    ]


def _require_names(fitted: Sequence[str], names: Sequence[str]) -> None:
    if set(names) != set(fitted):
        raise ValueError(
            f"X has views {names} but the model was fitted on {fitted}; use the same names."
        )


def _require_complete(views: Views) -> None:
    for view in views:
        if view.present is not None and not view.present.all():
            raise ValueError(
                f"view {view.name!r} lacks {int((~view.present).sum())} of {views.n} samples, and "
                "this method needs all samples in every view; leave the view out, or remove the "
                "samples (of several files by join='inner', --join inner)."
            )


def _record(estimator: Any, given: AdaptedInput, views: Views) -> None:
    """Record the names and widths that `predict` checks."""
    table = given.table
    vars(estimator).pop("feature_names_in_", None)
    estimator.n_features_in_ = sum(views.widths) if table is None else table.width
    if table is not None and table.named:
        estimator.feature_names_in_ = np.array(table.names, dtype=object)
    estimator.view_names_ = list(views.names)
    estimator.n_features_per_view_ = list(views.widths)
    estimator._view_columns = [view.columns for view in views]
    estimator._fills, estimator.n_missing_ = [None] * len(views), [0] * len(views)
    estimator._missing, estimator._gaps = [], []


def _as_fitted(estimator: Any, v: int, view: View) -> View:
    """Return a view with its features in the order of the fit."""
    width, columns = estimator.n_features_per_view_[v], estimator._view_columns[v]
    if view.columns and columns and view.columns != columns:
        return view.take(column_order(view.columns, columns, view.name))
    if view.width != width:
        raise ValueError(
            f"view {view.name!r} has {view.width} features but the model was fitted on {width}."
        )
    named = columns is not None and columns != tuple(map(str, range(width)))
    absent = view.present is not None and not view.present.any()
    # For a single table without names scikit-learn's warning is raised.
    if named and not (view.columns or absent or hasattr(estimator, "feature_names_in_")):
        warnings.warn(
            f"view {view.name!r} has no names of features, which it had in the fit: its columns "
            "are taken to be in the same order",
            UserWarning,
            stacklevel=2,
        )
    return view


def refuse_second_view(y: Any) -> None:
    """Refuse a view as `y`: fit(A, B) would ignore B."""
    members = y.values() if isinstance(y, Mapping) else y if isinstance(y, list | tuple) else [y]
    for member in members:
        if is_matrix(member):
            raise ValueError(
                f"the second argument, y, holds a 2-D array of shape {tuple(member.shape)}, which "
                "would be ignored; pass several views as one list, fit([A, B]), or by name, "
                'fit({"a": A, "b": B}).'
            )
