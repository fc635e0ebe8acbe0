"""The one way in: adapt the input, pair its rows, compare it with the model."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.views.adapt import Given, Home, adapt, is_matrix
from omcal.views.check import check, columns_of_table
from omcal.views.columns import listed_shapes
from omcal.views.missing import fill_missing
from omcal.views.mixed import encode_tables
from omcal.views.pair import Member, PairingError, pair
from omcal.views.view import MissingValuesError, View, Views, check_finite


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
    """Read multi-view input and record it on the estimator, or compare it with its fit.

    Parameters
    ----------
    estimator : object
        See `omcal.views.check.check`. Its parameter `views` splits the columns of one table.
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
    X, encoding = encode_tables(X, rule, None if reset else getattr(estimator, "_encoding", {}))
    if reset:
        estimator._encoding = encoding
    given = adapt(X, columns_of_table(estimator, reset), home)
    if rule is not None and given.table is None and not encoding:
        raise ValueError(
            f"views={rule!r} splits the columns of one table, but X already holds "
            f"{len(given.views)} separate views; drop views= or pass one table."
        )
    given = pair_views(given, present)
    views = check(
        estimator, given, reset=reset, min_samples=min_samples, present=present, absent=absent
    )
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


def pair_views(given: Given, present: Any = None) -> Given:
    """Return the views with row i as the same sample in each; see `omcal.views.pair`."""
    views = [view for view in given.views.values() if view is not None]
    if not given.ids or given.table is not None:
        _require_equal_lengths(views)
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


def _require_equal_lengths(views: list[View]) -> None:
    if len({view.array.shape[0] for view in views}) > 1:
        shapes = listed_shapes({view.name: view.array for view in views})
        raise PairingError(
            f"the views have different numbers of samples ({shapes}); row i must be the same "
            "sample in every view. omcal.datasets.join_views joins tables by an id."
        )


def refuse_second_view(y: Any) -> None:
    """Refuse a view in the place of `y`: fit(A, B) would ignore B."""
    members = y.values() if isinstance(y, Mapping) else y if isinstance(y, list | tuple) else [y]
    for member in members:
        if is_matrix(member):
            raise ValueError(
                f"the second argument, y, holds a 2-D array of shape {tuple(member.shape)}, which "
                "would be ignored; pass several views as one list, fit([A, B]), or by name, "
                'fit({"a": A, "b": B}).'
            )
