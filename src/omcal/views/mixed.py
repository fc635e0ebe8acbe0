"""Data frames of numbers, categories, dates and text as views by kind of column.

Numbers and dates (as days) form one view. Categories (booleans, and texts with few levels) form
another, one-hot, so that two samples differ by the number of categories in which they differ. Free
text, ids and constants are left out by name. The encoding is plain data and part of the model.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.views.columns import numbered, split_columns
from omcal.views.frames import is_frame
from omcal.views.named import NamedViews
from omcal.views.table import column_names, is_arrow

MOST_LEVELS = 50  # of a category; more are free text
CATEGORIES = ":categories"  # behind the name of the view that the numbers of a table form
ONE_HOT = "view"  # the scaling of categories: one factor for all, so that each level counts alike

Encoding = dict[str, dict[str, Any]]  # table -> column -> kind, levels


def is_mixed(data: Any) -> bool:
    """Whether this is a data frame in memory with a column of text, categories or dates."""
    if not is_frame(data) or type(data).__module__.startswith("dask") or hasattr(data, "chunks"):
        return False
    types = data.schema.types if is_arrow(data) else list(data.dtypes)
    plain = ("int", "uint", "float", "double", "bool", "halffloat")
    suspect = [j for j, kind in enumerate(types) if not str(kind).lower().startswith(plain)]
    return any(_values(data, j).dtype.kind not in "iufb" for j in suspect)


def encode_tables(X: Any, rule: Any, known: Encoding | None) -> tuple[Any, Encoding]:
    """Return X with each mixed data frame as views of numbers, and the encoding of its columns.

    `known` is the encoding of a fit, which new samples follow; None to make one.
    """
    whole = is_frame(X)
    strict = rule is None or isinstance(rule, str)  # every column belongs to a view
    if whole and known is None and is_mixed(X):
        tables = {"X": X} if rule is None else _parts(X, rule)
        plans = {name: _plan(table) for name, table in tables.items()}
    elif whole and known:
        tables, plans = dict.fromkeys(known, X), known
        strict = strict and len(known) == 1
    elif isinstance(X, Mapping | list | tuple) and not hasattr(X, "nnz"):
        tables = dict(X) if isinstance(X, Mapping) else numbered(X)
        found = {name: _plan(table) for name, table in tables.items() if is_mixed(table)}
        plans = found if known is None else known
    else:
        return X, {}
    if not plans:
        return X, {}
    views: dict[str, Any] = {}
    names: dict[str, list[str]] = {}
    scales: dict[str, str] = {}
    for name, table in tables.items():
        if name not in plans:
            views[name] = table
            continue
        for view, (array, titles) in _encoded(table, name, plans[name], strict).items():
            views[view], names[view] = array, titles
            if view.endswith(CATEGORIES):
                scales[view] = ONE_HOT
    return NamedViews(views, names, scales=scales), plans


def _parts(X: Any, rule: Any) -> dict[str, Any]:
    """Return the parts of a table that a rule splits, as data frames."""
    names = column_names(X) or ()
    parts = {}
    for part, at in split_columns(rule, len(names), names).items():
        titles = [names[j] for j in np.arange(len(names))[at]]
        parts[part] = X.select(titles) if is_arrow(X) else X[titles]
    return parts


def _plan(table: Any) -> dict[str, Any]:
    """Return the kind of each column, and the levels of categories."""
    plan: dict[str, Any] = {}
    left_out = []
    for j, name in enumerate(column_names(table) or ()):
        values = _values(table, j)
        if values.dtype.kind in "iuf":
            plan[name] = {"kind": "number"}
        elif values.dtype.kind == "M":
            plan[name] = {"kind": "date"}
        else:
            texts = _texts(values)
            levels = sorted(set(texts.tolist()) - {""})
            few = len(levels) <= min(MOST_LEVELS, len(texts) // 2)
            if len(levels) > 1 and few:
                plan[name] = {"kind": "category", "levels": levels}
                continue
            plan[name] = {"kind": "left out"}
            why = "constant" if len(levels) < 2 else f"{len(levels)} different texts"
            left_out.append(f"{name!r} ({why})")
    if left_out:
        warnings.warn(f"columns left out: {', '.join(left_out)}.", stacklevel=7)
    return plan


def _encoded(
    table: Any, name: str, plan: Mapping[str, Any], strict: bool
) -> dict[str, tuple[Floats, list[str]]]:
    """Return the views of a table: its numbers under its name, and its categories."""
    given = column_names(table) or ()
    missing = [title for title in plan if title not in given]
    new = [title for title in given if title not in plan and strict]
    if missing or new:
        found = [f"{_quoted(missing)} missing"] * bool(missing)
        found += [f"{_quoted(new)} not in fit"] * bool(new)
        raise ValueError(
            f"the columns of view {name!r} are not those of fit (feature names): "
            f"{', '.join(found)}. Give the columns of fit by name, in any order."
        )
    numbers: dict[str, Array] = {}
    categories: dict[str, Array] = {}
    for title, how in plan.items():
        if how["kind"] == "left out":
            continue
        values = _values(table, given.index(title))
        if how["kind"] == "category":
            categories |= _one_hot(title, _texts(values), how["levels"])
        else:
            numbers[title] = _numbers(values, title, how["kind"])
    views = {name: numbers, f"{name}{CATEGORIES}": categories}
    return {
        view: (np.column_stack(list(columns.values())), list(columns))
        for view, columns in views.items()
        if columns
    }


def _one_hot(title: str, texts: Array, levels: list[str]) -> dict[str, Floats]:
    """Return a column of zeros and ones per level; a missing or unknown cell is NaN in all."""
    unknown = sorted(set(texts.tolist()) - {"", *levels})
    if unknown:
        count = int(np.isin(texts, unknown).sum())
        warnings.warn(
            f"column {title!r} has {count} cells with levels that were not in fit "
            f"({_quoted(unknown)}); they count as missing.",
            stacklevel=8,
        )
    known = np.isin(texts, levels)
    return {
        f"{title} = {level}": np.where(known, (texts == level).astype(np.float64), np.nan)
        for level in levels
    }


def _numbers(values: Array, title: str, kind: str) -> Floats:
    if kind == "date" and values.dtype.kind == "M":
        days = values.astype("datetime64[ms]").astype(np.float64) / 86_400_000
        return np.where(np.isnat(values), np.nan, days)
    if kind == "date" or values.dtype.kind not in "iufb":
        raise ValueError(f"column {title!r} held {kind}s in fit, and now {values.dtype} values.")
    return values.astype(np.float64)


def _values(table: Any, j: int) -> Array:
    """Return a column as numbers, dates or objects; whole numbers with gaps are floats."""
    if is_arrow(table):
        values = np.array(table.column(j).to_pylist(), dtype=object)
        kind = str(table.schema.types[j])
        values = values.astype("datetime64[ms]") if kind.startswith(("date", "time")) else values
    else:
        values = np.asarray(table.iloc[:, j] if hasattr(table, "iloc") else table[:, j])
    if values.dtype != object:
        return values
    cells = [cell for cell in values.tolist() if not _is_gap(cell)]
    numbers = all(isinstance(c, int | float | np.number) for c in cells)
    if cells and numbers and not all(isinstance(c, bool | np.bool_) for c in cells):
        return np.array([np.nan if _is_gap(c) else float(c) for c in values.tolist()])
    return values


def _texts(values: Array) -> Array:
    return np.array(["" if _is_gap(cell) else str(cell) for cell in values.tolist()])


def _is_gap(cell: Any) -> bool:
    return cell is None or type(cell).__name__ in ("NAType", "NaTType") or cell != cell


def _quoted(names: list[str]) -> str:
    return ", ".join(map(repr, names[:6])) + (" …" if len(names) > 6 else "")


def check_encoding(found: Any) -> Encoding:
    """Return an encoding that was read from a file; a ValueError where it is none."""
    for plan in found.values():
        for how in plan.values():
            levels = how.get("levels", [])
            if how["kind"] not in ("number", "date", "category", "left out"):
                raise ValueError("a column is of an unknown kind")
            if not all(isinstance(level, str) for level in levels):
                raise ValueError("a level of a category is no text")
    encoding: Encoding = found
    return encoding
