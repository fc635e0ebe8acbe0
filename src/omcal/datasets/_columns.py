"""Which columns of a table form a view."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import numpy as np
from numpy.typing import NDArray

from omcal.datasets._contents import Contents, Deferred
from omcal.datasets._data import DataError
from omcal.datasets._names import is_label_name, listed

WHOLE = "X"  # the view of all numeric columns


def group_columns(
    contents: Contents, views: Sequence[str] | None, labels: str | bool | None
) -> Contents:
    """Join the numeric columns of a table to views, by the prefixes of their names.

    ``v1_mean`` belongs to the view ``v1`` (the separator is ":" where each name has one, else
    "_"). Where the names have no common prefixes, all numeric columns are the single view ``X``,
    which can also be asked for by name, unless some have the prefix ``X``. A column that holds
    lists is a view of its own. Labels and text stay as they are.
    """
    columns = contents.variables
    lists = {name: value for name, value in columns.items() if value.ndim == 2}
    numeric = [
        name
        for name, value in columns.items()
        if value.ndim == 1 and value.dtype.kind in "biuf"
        if name != labels and not is_label_name(name)
    ]
    vectors = {name: value for name, value in columns.items() if name not in {*lists, *numeric}}
    groups, bare = _by_prefix(numeric)
    default = list(views) if views is not None else list(lists) or _default(groups, bare)
    if WHOLE in default and WHOLE not in {*groups, *lists} and numeric:
        groups = {**groups, WHOLE: numeric}
    unused = [
        name
        for name, values in vectors.items()
        if name != labels and not (is_label_name(name) and could_be_labels(values))
    ]
    if lists and views is None:
        unused += bare
    notes = (f"columns that are neither view nor labels: {listed(unused)}",) if unused else ()
    joined = {name: Deferred(partial(_stack, contents, names)) for name, names in groups.items()}
    return replace(
        contents,
        variables={**vectors, **joined, **lists},
        table=False,
        default_views=tuple(default),
        feature_names={name: np.array(names) for name, names in groups.items()},
        notes=contents.notes + notes,
    )


def could_be_labels(values: NDArray) -> bool:
    """Whether these are classes by their values: text or whole numbers, apart from gaps."""
    if values.dtype.kind != "f":
        return True
    known = values[~np.isnan(values)]
    return len(known) > 0 and bool((known == np.round(known)).all())


def _by_prefix(names: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Columns by prefix, and those that have none; no group where the prefixes say nothing."""
    separator = ":" if names and all(":" in name for name in names) else "_"
    groups: dict[str, list[str]] = {}
    bare = []
    for name in names:
        prefix, _, feature = name.partition(separator)
        if prefix and feature:
            groups.setdefault(prefix, []).append(name)
        else:
            bare.append(name)
    if len(groups) < 2 or all(len(members) == 1 for members in groups.values()):
        return {}, names
    return groups, bare


def _default(groups: dict[str, list[str]], bare: list[str]) -> list[str]:
    if not groups:
        return [WHOLE] if bare else []
    if not bare:
        return list(groups)
    if sum(len(members) > 1 for members in groups.values()) < 2:
        return [WHOLE]  # a "_" here and there is no system of prefixes
    raise DataError(
        f"some columns have a prefix ({listed(groups)}) and some have none ({listed(bare)}); "
        f"choose the views with views=[...], where {WHOLE!r} is all numeric columns."
    )


def _stack(contents: Contents, names: list[str]) -> NDArray:
    return np.column_stack([contents.variables[name] for name in names])
