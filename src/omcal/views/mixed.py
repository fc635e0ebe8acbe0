"""Tables of numbers, categories, dates and text as views of numbers, by kind of column.

Numbers and dates (as days) are standardised. Categories (booleans, and texts with few levels) are
one-hot, and their levels are not standardised, so that each category counts about as much as a
number. Free texts, ids and constants are left out with a note. The encoding is plain data and part
of the model. Files and data frames have the same rules.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.views.adapt import NamedViews
from omcal.views.columns import listed, numbered, refuse_columns, split_columns
from omcal.views.frames import (
    Columns,
    as_floats,
    frame_column,
    index_of,
    is_frame,
    is_missing,
    is_numeric,
    side_by_side,
)
from omcal.views.pair import as_text, is_id_name, numbers_rows
from omcal.views.view import is_arrow, is_dask

MOST_LEVELS = 50  # of a category; texts with more levels are free text
SEASON = {"sin": np.sin, "cos": np.cos}
_YEAR = 365.2425  # days
_LEAST = 0.1  # smallest mean resultant length of a season
_SEASONAL = 1e-3  # largest p-value of the test for a season

Encoding = dict[str, dict[str, Any]]  # table -> column -> kind, levels, missing cells
Plan = dict[str, dict[str, Any]]  # column -> kind, levels, missing cells


def has_texts(data: Any) -> bool:
    """Whether a data frame in memory has a column of text, categories or dates."""
    if isinstance(data, Columns):
        return not all(is_numeric(column) for column in data.values.values())
    if not is_frame(data) or is_dask(data) or hasattr(data, "chunks"):
        return False
    types = data.schema.types if is_arrow(data) else list(data.dtypes)
    plain = ("int", "uint", "float", "double", "bool", "halffloat")
    suspect = [j for j, kind in enumerate(types) if not str(kind).lower().startswith(plain)]
    return not all(is_numeric(frame_column(data, j)) for j in suspect)


def stacked(table: Columns) -> Array | Columns:
    """Return a table of numbers and booleans as a matrix; a table with texts unchanged."""
    return table if has_texts(table) else side_by_side(list(table.values.values()))


def encode_tables(
    X: Any, rule: Any, known: Encoding | None, *, tell: bool = True
) -> tuple[Any, Encoding]:
    """Return X with each mixed table encoded as views of numbers, and the encoding.

    `rule` is the parameter `views` of an estimator, which splits one table. New samples use the
    `known` encoding of a fit; None creates one. `tell` warns of columns that are left out.
    """
    read = isinstance(X, NamedViews)
    if read:
        if known is None and X.encoding:  # encoded when the file was read
            return X, X.encoding
        X = X.raw()
    tables = _tables(X, rule, known)
    if not any(isinstance(table, Columns) for table in tables.values()):
        return X, {}
    if known is None:
        # The reader of a file has already removed the ids.
        plans = {n: make_plan(t, ids=not read) for n, t in tables.items() if isinstance(t, Columns)}
        if tell:
            _warn_left_out(plans)
    else:
        plans = known
    # Every column belongs to a view, unless a mapping names the columns of each view.
    strict = not is_frame(X) or (len(plans) == 1 and (rule is None or isinstance(rule, str)))
    found = NamedViews({}, X.feature_names, X.present) if read else NamedViews({})
    for name, table in tables.items():
        if not isinstance(table, Columns):
            found[name] = table
            continue
        if name not in plans:
            texts = [title for title, c in table.values.items() if not is_numeric(c)]
            raise ValueError(
                f"view {name!r} has columns of text or dates ({listed(texts, 6)}), and the model "
                "was fitted to numbers only; leave them out."
            )
        ids = index_of(X[name]) if isinstance(X, Mapping) and is_frame(X[name]) else None
        found.tables[name] = table
        found[name], found.feature_names[name], first = encode(table, name, plans[name], strict)
        found.levels_from |= {} if first is None else {name: first}
        found.ids |= {} if ids is None else {name: ids}
    found.encoding = plans
    return found, plans


def _tables(X: Any, rule: Any, known: Encoding | None) -> dict[str, Any]:
    """Return the members of X by name; tables to encode are `Columns`."""
    if is_frame(X):
        if not (has_texts(X) if known is None else known):
            return {}
        table = Columns.of(X)
        if known:
            return dict.fromkeys(known, table)
        if rule is None:
            return {"X": table}
        names = np.array(list(table.values), dtype=object)
        parts = split_columns(rule, len(names), names.tolist())
        return {part: table.take(names[at]) for part, at in parts.items()}
    if not isinstance(X, Mapping | list | tuple) or hasattr(X, "nnz"):
        return {}
    members = dict(X) if isinstance(X, Mapping) else numbered(X)

    def wanted(name: str, member: Any) -> bool:
        if known is None or isinstance(member, Columns):
            return has_texts(member) or isinstance(member, Columns)
        return name in known and is_frame(member)

    return {str(n): Columns.of(m) if wanted(str(n), m) else m for n, m in members.items()}


def make_plan(table: Columns, *, ids: bool = True) -> Plan:
    """Return the kind of each column, the levels of categories and the number of missing cells.

    With `ids`, columns with names of ids and row numbers are left out. If all texts of a table are
    left out, numbers and booleans are not encoded.
    """
    plan = {name: _plan_of(name, column, ids) for name, column in table.values.items()}
    mixed = any(how["kind"] in ("category", "date") for how in plan.values())
    for name, how in plan.items():
        column = table.values[name]
        if mixed and how["kind"] == "number":
            known = column[~is_missing(column)]
            if len(known) == 0 or (known == known[0]).all():
                how |= _left_out("constant" if len(known) else "no values")
            elif column.dtype.kind in "bO":
                how |= {"kind": "category", "levels": ["False", "True"]}
        how["missing"] = int(is_missing(column).sum())
    return plan


def _plan_of(name: str, column: Array, ids: bool) -> dict[str, Any]:
    """Return the kind of one column; the kind of booleans also depends on the other columns."""
    if ids and (is_id_name(name) or numbers_rows(column)):
        return _left_out("ids or row numbers")
    if is_numeric(column):
        return {"kind": "number"}
    if column.dtype.kind == "M":
        known = column[~np.isnat(column)]
        if len(known) == 0 or (known == known[0]).all():
            return _left_out("constant")
        return {"kind": "date", "season": _has_season(as_floats(known))}
    levels = sorted(set(column.tolist()) - {""})
    if len(levels) < 2:
        return _left_out("constant")
    if len(levels) > min(MOST_LEVELS, len(column) // 2):
        return _left_out(f"{len(levels)} different texts")
    return {"kind": "category", "levels": levels}


def _left_out(reason: str) -> dict[str, Any]:
    return {"kind": "left out", "reason": reason}


def _has_season(days: Floats) -> bool:
    """Whether dates that span two years or more are concentrated in a part of the year.

    A Rayleigh test over the last whole years: its p-value for a mean resultant length R is about
    exp(-n R²), and R must be at least 0.1.
    """
    years = np.ptp(days) // _YEAR
    if years < 2:
        return False
    days = days[days > days.max() - years * _YEAR]
    angles = 2 * np.pi * days / _YEAR
    resultant = np.hypot(np.cos(angles).mean(), np.sin(angles).mean())
    return bool(resultant > _LEAST and np.exp(-len(days) * resultant**2) < _SEASONAL)


def encode(
    table: Columns, name: str, plan: Plan, strict: bool
) -> tuple[Floats, list[str], int | None]:
    """Return the encoded features (numbers first), their titles, and the first level of a category.

    The first level is a position, None if there is no category.
    """
    used = {title: how for title, how in plan.items() if how["kind"] != "left out"}
    missing = [title for title in used if title not in table.values]
    new = [title for title in table.values if title not in plan and strict]
    if missing or new:
        refuse_columns(name, missing, new)
    if not used:
        raise ValueError(
            f"view {name!r} has no column that can be a feature: {summary(plan)}; omit the view."
        )
    numbers: dict[str, Floats] = {}
    categories: list[tuple[str, list[str]]] = []
    for title, how in used.items():
        if how["kind"] == "category":
            categories.append((title, how["levels"]))
            continue
        numbers[title] = _numbers(table.values[title], title, how["kind"])
        if how.get("season"):
            angles = 2 * np.pi * numbers[title] / _YEAR
            numbers |= {f"{title}, {wave} of season": f(angles) for wave, f in SEASON.items()}
    levels = [f"{title} = {level}" for title, names in categories for level in names]
    array: Floats = np.zeros((table.shape[0], len(numbers) + len(levels)))
    for j, values in enumerate(numbers.values()):
        array[:, j] = values
    _one_hot(table, categories, array[:, len(numbers) :])
    return array, [*numbers, *levels], len(numbers) if levels else None


def _one_hot(table: Columns, categories: list[tuple[str, list[str]]], array: Floats) -> None:
    """Write a column per level with ones; a missing or unknown cell is NaN in all of them."""
    start = 0
    for title, levels in categories:
        place = {level: j for j, level in enumerate(levels)}
        if levels == ["False", "True"]:
            place |= {"0": 0, "1": 1}  # as databases export booleans
        texts = _texts(table.values[title]).tolist()
        codes = np.array([place.get(text, -1) for text in texts], dtype=np.intp)
        unknown = sorted(set(texts) - {"", *place})
        if unknown:
            count = sum(text in set(unknown) for text in texts)
            warnings.warn(
                f"column {title!r} has {count} cells with levels that were not in fit "
                f"({listed(unknown, 6)}); they count as missing.",
                stacklevel=8,
            )
        known = np.flatnonzero(codes >= 0)
        array[known, start + codes[known]] = 1
        array[codes < 0, start : start + len(levels)] = np.nan
        start += len(levels)


def _texts(column: Array) -> Array:
    """Return a column as texts: whole numbers without a point, dates without a zero time."""
    if column.dtype.kind == "M":
        whole = (column == column.astype("datetime64[D]")) | np.isnat(column)
        texts = column.astype("datetime64[D]" if whole.all() else "datetime64[s]").astype(str)
        return np.where(np.isnat(column), "", texts)
    return as_text(column)


def _numbers(column: Array, title: str, kind: str) -> Floats:
    date = column.dtype.kind == "M"
    empty = is_numeric(column) and bool(is_missing(column).all())
    if not empty and (date != (kind == "date") or not (date or is_numeric(column))):
        now = "dates" if date else "numbers" if is_numeric(column) else "texts"
        raise ValueError(
            f"column {title!r} had {kind}s in fit and has {now} now; convert it to {kind}s."
        )
    return as_floats(column)


def _warn_left_out(plans: Encoding) -> None:
    left_out = [
        f"{title!r} ({how['reason']})"
        for plan in plans.values()
        for title, how in plan.items()
        if how["kind"] == "left out"
    ]
    if left_out:
        warnings.warn(f"columns left out: {', '.join(left_out)}.", stacklevel=7)


def _kind_in_words(how: Mapping[str, Any]) -> tuple[str, str]:
    """Return the kind of a column, and its number of levels or the reason for leaving it out.

    Examples
    --------
    >>> _kind_in_words({"kind": "category", "levels": ["Bergen", "Oslo"]})
    ('category', '2 levels')
    """
    levels = how.get("levels", [])
    if levels == ["False", "True"]:
        return "yes/no", ""
    return {
        "number": ("number", ""),
        "category": ("category", f"{len(levels)} levels"),
        "date": ("date, as days and season" if how.get("season") else "date, as days", ""),
        "left out": ("left out", how.get("reason", "")),
    }[how["kind"]]


def describe_columns(encoding: Encoding) -> list[dict[str, Any]]:
    """Return the view, the name, the kind and the number of missing cells of each column."""
    columns = []
    for name, plan in encoding.items():
        for title, how in plan.items():
            kind, more = _kind_in_words(how)
            kind += {"category": f" of {more}", "left out": f": {more}"}.get(kind, "")
            missing = how.get("missing", 0)
            columns.append({"view": name, "name": title, "kind": kind, "n_missing": missing})
    return columns


def summary(plan: Plan) -> str:
    """Describe the encoding of all columns of a table in one sentence.

    Examples
    --------
    >>> summary({"age": {"kind": "number", "missing": 2}, "note": {"kind": "left out",
    ...     "reason": "9 different texts"}})
    "number: 'age'; left out: 'note' (9 different texts); missing cells: 'age' 2"
    """
    groups: dict[str, list[str]] = {}
    for name, how in plan.items():
        kind, more = _kind_in_words(how)
        groups.setdefault(kind, []).append(f"{name!r} ({more})" if more else repr(name))
    told = [f"{kind}: {', '.join(names)}" for kind, names in groups.items()]
    gaps = [f"{name!r} {how['missing']}" for name, how in plan.items() if how.get("missing")]
    return "; ".join([*told, *([f"missing cells: {', '.join(gaps)}"] if gaps else [])])


def column_starts(plan: Plan, titles: Sequence[str]) -> dict[int, str]:
    """Return the first feature of each column of a view; a category has one feature per level.

    Examples
    --------
    >>> plan = {"age": {"kind": "number"}, "city": {"kind": "category", "levels": ["A", "B"]}}
    >>> column_starts(plan, ["age", "city = A", "city = B"])
    {0: 'age', 1: 'city'}
    """
    levels = {title: len(how["levels"]) for title, how in plan.items() if "levels" in how}
    first = len(titles) - sum(levels.values())
    starts = np.cumsum([first, *levels.values()])[:-1].tolist()
    # The season of a date is not a separate column.
    numbers = {j: title for j, title in enumerate(titles[:first]) if title in plan or not plan}
    return numbers | dict(zip(starts, levels, strict=True))


def level_titles(encoding: Encoding) -> set[str]:
    """Return the titles of the features that are levels of categories."""
    return {
        f"{title} = {level}"
        for plan in encoding.values()
        for title, how in plan.items()
        for level in how.get("levels", ())
    }


def check_encoding(found: Any) -> Encoding:
    """Return an encoding that was read from a file; raise ValueError if it is invalid."""
    for plan in found.values():
        for how in plan.values():
            _kind_in_words(how)  # a KeyError for an unknown kind
            if not all(isinstance(level, str) for level in how.get("levels", [])):
                raise ValueError("a level of a category is not text")
            if not isinstance(how.get("missing", 0), int):
                raise ValueError("a number of missing cells is not a number")
    encoding: Encoding = found
    return encoding
