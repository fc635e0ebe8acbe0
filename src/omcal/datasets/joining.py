"""Several tables of the same samples, joined by their ids."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from numbers import Number
from pathlib import Path
from typing import Any, Literal

import numpy as np

from omcal.datasets._contents import Contents, reading
from omcal.datasets._data import DataError, MultiViewData, is_known, spread_rows
from omcal.datasets._ids import Ids, as_text, id_candidates, seems_id
from omcal.datasets._names import listed
from omcal.datasets._orientation import remedy_for_ids
from omcal.datasets._selection import (
    ROW_NUMBERS,
    Choice,
    NoViewError,
    label_vectors,
    select,
    view_names,
)
from omcal.datasets.label_files import LabelColumn, label_column
from omcal.machine.arrays import Array
from omcal.views.frames import column_names, is_arrow
from omcal.views.like import TableLike


@dataclass(frozen=True)
class Part:
    """What one file or frame adds: views, or labels alone."""

    key: str
    data: MultiViewData | LabelColumn

    @property
    def n(self) -> int:
        return self.data.n_samples

    @property
    def ids(self) -> Array | None:
        return self.data.ids


def join_views(
    tables: Mapping[str, TableLike | str | os.PathLike[str] | MultiViewData],
    on: str | None = None,
    *,
    how: Literal["outer", "inner"] = "outer",
    labels: str | bool | None = None,
) -> MultiViewData:
    """Join tables of the same samples by their ids: one or more views each.

    Parameters
    ----------
    tables : dict
        Name -> data frame (pandas, polars or pyarrow), path of a file, or `MultiViewData`. A table
        with one view gives it this name; one without views may give the labels.
    on : str, optional
        The column of ids in every table. By default the index of a pandas frame that is not merely
        numbered, the ids of a data set, else a column of different values with a usual name.
    how : {"outer", "inner"}, default="outer"
        All samples, absent from the views of the tables that lack them, or those in every table.
    labels : str or bool, optional
        The column of labels; by default one with a usual name.

    Returns
    -------
    MultiViewData
        The samples in the order of the first table, then of those that come later; its notes say
        how many were matched.

    Raises
    ------
    DataError
        Where ids repeat, are missing, or match nowhere.

    Examples
    --------
    >>> import pandas as pd
    >>> image = pd.DataFrame({"id": ["x", "y"], "a": [1.0, 3.0], "b": [2.0, 4.0]})
    >>> text = pd.DataFrame({"id": ["z", "y"], "c": [6.0, 5.0], "label": ["new", "old"]})
    >>> data = join_views({"image": image, "text": text}, on="id")
    >>> data.ids.tolist(), data.labels.tolist(), data.present["text"].tolist()
    (['x', 'y', 'z'], ['', 'old', 'new'], [False, True, True])
    >>> data.notes[-1]
    "joined by 'id': 3 samples, 1 in every table; image has 2, text 2"
    """
    from omcal.datasets.loading import combine, read_sources

    if not isinstance(tables, Mapping) or not tables:
        raise DataError("tables must be a dict of names and tables, with at least one of them.")
    if how not in ("outer", "inner"):
        raise DataError(f"how={how!r} must be 'outer' or 'inner'.")
    choice = Choice(labels=labels, ids=on)
    parts: list[Part] = []
    frames: list[tuple[str, Path, Contents]] = []
    for name, table in tables.items():
        key = str(name)
        if isinstance(table, MultiViewData):
            parts.append(Part(key, _renamed(table, key)))
        elif isinstance(table, str | os.PathLike):
            sources = read_sources(table)
            if len(sources) > 1:
                parts.append(Part(key, combine(sources, choice, how)))
            else:
                frames.append((key, sources[0].path, sources[0].contents))
        else:
            frames.append((key, Path(key), _frame_contents(table, key, on)))
    parts += select_parts(frames, choice)
    order = [str(name) for name in tables]
    return join(sorted(parts, key=lambda part: order.index(part.key)), how)


def _frame_contents(table: Any, key: str, on: str | None) -> Contents:
    """The columns of a data frame, and its index where it says something."""
    names = column_names(table)
    if names is None:
        raise DataError(
            f"table {key!r} is a {type(table).__name__}; give a data frame, a path, or "
            "MultiViewData."
        )
    if len(set(names)) < len(names):
        raise DataError(f"table {key!r} has two columns of the same name; rename one of them.")
    if is_arrow(table):
        from omcal.datasets.readers.parquet_files import arrow_contents

        return arrow_contents(table, "data frame")
    columns = {name: _column(table, position) for position, name in enumerate(names)}
    index = getattr(table, "index", None)
    ids = None
    if on is None and index is not None and type(index).__name__ != "RangeIndex":
        ids = Ids(str(index.name or "index"), as_text(np.asarray(index)))
        ids = ids if len(np.unique(ids.values)) == len(ids.values) else None
        if ids is None:
            raise DataError(f"table {key!r} has names more than once in its index.")
    elif index is not None and on is not None and on not in columns and index.name == on:
        columns[on] = np.asarray(index)
    return Contents("data frame", columns, table=True, ids=ids)


def _column(table: Any, position: int) -> Array:
    column = table.iloc[:, position] if hasattr(table, "iloc") else table[:, position]
    values = np.asarray(column)
    if values.dtype == object and getattr(column.dtype, "kind", "O") in "biuf":  # with gaps
        return np.asarray(column.to_numpy(dtype=np.float64, na_value=np.nan))
    if values.dtype.kind in "biufUM":
        return values.astype(str) if values.dtype.kind == "M" else values
    if all(_is_gap(cell) or isinstance(cell, bool | Number) for cell in values.tolist()):
        return np.array([np.nan if _is_gap(cell) else float(cell) for cell in values.tolist()])
    return np.array(["" if _is_gap(cell) else str(cell) for cell in values])


def _is_gap(cell: Any) -> bool:
    return cell is None or cell != cell or type(cell).__name__ == "NAType"


def select_parts(sources: Sequence[tuple[str, Path, Contents]], choice: Choice) -> list[Part]:
    """What each file gives, with the ids under the name that most of them share."""
    wanted = _wanted_views(sources, choice)
    shared = _shared_id(sources) if choice.ids is None else None
    found_labels = False
    parts = []
    for key, path, contents in sources:
        mine = replace(choice, views=wanted[key], ids=_own_id(contents, choice.ids, shared))
        if isinstance(choice.labels, str):
            here = choice.labels in label_vectors(contents)
            mine = replace(mine, labels=choice.labels if here else False)
        elif choice.labels is True:
            mine = replace(mine, labels=None)
        if wanted[key] == []:
            continue
        with reading(path, contents.format):
            try:
                part = Part(key, _renamed(select(contents, path, mine), key, choice.views))
            except NoViewError:
                part = Part(key, label_column(contents, mine.labels, mine.ids))
        found_labels |= part.data.labels is not None
        parts.append(part)
    if choice.labels not in (None, False) and not found_labels:
        raise DataError(
            f"labels={choice.labels!r} is in none of {listed([key for key, *_ in sources])}."
        )
    return parts


def _own_id(contents: Contents, ids: str | bool | None, shared: str | None) -> str | bool | None:
    """Which id to ask of a file: a shared name only where it has it."""
    if ids is not None or shared is None or contents.ids is not None:
        return ids
    return shared


def _shared_id(sources: Sequence[tuple[str, Path, Contents]]) -> str | None:
    """The first name that is one of ids in every table that has no ids of its own.

    Where a table has none but by a name that all share, and repeats it, that is to be told.
    """
    tables = [_vectors(contents) for _, _, contents in sources if contents.ids is None]
    told = [[ids.name for ids in id_candidates(table) if not ids.numbering] for table in tables]
    seeming = [[n for n, values in table.items() if n and seems_id(n, values)] for table in tables]
    for names in (told, seeming if not all(told) else []):
        shared = [name for name in names[0] if all(name in o for o in names)] if names else []
        if shared:
            return shared[0]
    return None


def _vectors(contents: Contents) -> dict[str, Array]:
    return {
        name: value
        for name, value in contents.variables.items()
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iufUST"
    }


def _wanted_views(
    sources: Sequence[tuple[str, Path, Contents]], choice: Choice
) -> dict[str, list[str] | None]:
    """Which of the named views each file is to give; None: those it gives by itself."""
    if choice.views is None:
        return {key: None for key, *_ in sources}
    if isinstance(choice.views, str):
        raise DataError(f"views={choice.views!r} is one word; pass a list of view names.")
    offered = {key: view_names(contents, choice) for key, _, contents in sources}
    wanted: dict[str, list[str] | None] = {key: [] for key in offered}
    for view in choice.views:
        if view in offered:
            wanted[view] = None
            continue
        key, _, inner = view.partition(":")
        givers = [key] if inner in offered.get(key, ()) else []
        givers += [key for key, names in offered.items() if view in names]
        if len(givers) != 1:
            every = listed([*offered, *(v for names in offered.values() for v in names)])
            what = (
                f"is in {listed(givers)}: say which, as in {givers[0]}:{view}"
                if givers
                else "is nowhere"
            )
            raise DataError(f"view {view!r} {what}; there is {every}.")
        chosen = wanted[givers[0]]
        if chosen is not None:
            chosen.append(inner if inner in offered.get(key, ()) else view)
    return wanted


def _renamed(data: MultiViewData, key: str, asked: Sequence[str] | None = None) -> MultiViewData:
    """Views under the names they were asked for by, the only one of a file under the file's."""
    names = {view: f"{key}:{view}" for view in data.views if f"{key}:{view}" in (asked or ())}
    if not names and len(data.views) == 1 and next(iter(data.views)) not in (asked or ()):
        names = {next(iter(data.views)): key}
    return _with_names(data, names)


def _with_names(data: MultiViewData, names: Mapping[str, str]) -> MultiViewData:
    def named(members: dict[str, Any] | None) -> Any:
        return members and {names.get(name, name): member for name, member in members.items()}

    return replace(
        data,
        views=named(data.views),
        present=named(data.present),
        feature_names=named(data.feature_names),
        scales=named(data.scales),
    )


def join(parts: Sequence[Part], how: str) -> MultiViewData:
    """One data set of all parts: by their ids, or by their rows where none has any."""
    with_views = [(part.key, part.data) for part in parts if isinstance(part.data, MultiViewData)]
    if not with_views:
        raise DataError(f"none of {listed([part.key for part in parts])} holds a view.")
    ids, positions, note = _match(parts, how)
    views: dict[str, Any] = {}
    present: dict[str, Array] = {}
    feature_names: dict[str, Array] = {}
    scales: dict[str, str] = {}
    names = [name for _, data in with_views for name in data.views]
    for key, own in with_views:
        clashes = {name: f"{key}:{name}" for name in own.views if names.count(name) > 1}
        data, place = _with_names(own, clashes), positions[key]
        for name, view in data.views.items():
            views[name] = spread_rows(view, place)
            mask = (data.present or {}).get(name, np.ones(own.n_samples, dtype=bool))
            present[name] = (place >= 0) & mask[place]
        feature_names |= data.feature_names or {}
        scales |= data.scales
    labels, label_name, notes = _merged_labels(parts, positions)
    said = (f"{part.key}: {note}" for part in parts for note in part.data.notes)
    id_name = next((p.data.id_name for p in parts if p.data.id_name), None)
    return MultiViewData(
        views,
        labels=labels,
        name=" + ".join(key for key, _ in with_views),
        source=", ".join(data.source for _, data in with_views),
        present=None if all(mask.all() for mask in present.values()) else present,
        feature_names=feature_names or None,
        label_name=label_name,
        ids=ids,
        id_name=None if ids is None else id_name or "id",
        notes=(*said, *notes, note),
        scales=scales,
    )


def _match(parts: Sequence[Part], how: str) -> tuple[Array | None, dict[str, Array], str]:
    """The ids of the result, for each part the row of each of them (-1: none), and a remark."""
    named = [part for part in parts if part.ids is not None]
    plain = [part for part in parts if part.ids is None]
    sizes = ", ".join(f"{part.key}: {part.n}" for part in parts)
    same_length = len({part.n for part in parts}) == 1
    orders = [np.asarray(part.ids) for part in named]
    orders_agree = all(np.array_equal(orders[0], other) for other in orders[1:])
    by_number = all(part.data.id_name == ROW_NUMBERS for part in named)
    if plain or by_number:
        if not (same_length and orders_agree):
            lacking = listed([part.key for part in plain or named])
            remedy = remedy_for_ids({part.key: part.data for part in parts})
            raise DataError(
                f"{lacking} cannot be joined by id, because there is none in it, and the rows do "
                f"not match ({sizes} samples); {remedy}, or make the tables equally long and in "
                "the same order."
            )
        rows = {part.key: np.arange(part.n) for part in parts}
        real = next((part.ids for part in named if part.data.id_name != ROW_NUMBERS), None)
        return real, rows, f"joined by position, row i of each: {parts[0].n} samples"
    every = [np.asarray(part.ids).tolist() for part in named]
    index = [{name: row for row, name in enumerate(ids)} for ids in every]
    shared = set(index[0]).intersection(*index[1:])
    _require_overlap(named, index)
    samples = list(dict.fromkeys(chain.from_iterable(every)))
    if how == "inner":
        samples = [name for name in samples if name in shared]
        if not samples:
            raise DataError(f"no id is in every table ({sizes} samples); leave join='inner' out.")
    positions = {
        part.key: np.array([rows.get(name, -1) for name in samples], dtype=np.intp)
        for part, rows in zip(named, index, strict=True)
    }
    column = next((p.data.id_name for p in named if p.data.id_name), "id")
    has = ", ".join(
        f"{part.key} {'has ' if i == 0 else ''}{part.n}" for i, part in enumerate(named)
    )
    remark = f"joined by {column!r}: {len(samples)} samples, {len(shared)} in every table; {has}"
    return np.array(samples), positions, remark


def _require_overlap(parts: Sequence[Part], index: Sequence[Mapping[str, int]]) -> None:
    """Refuse a table of which nothing is found in the others."""
    for i, part in enumerate(parts):
        others = set().union(*(index[j] for j in range(len(parts)) if j != i))
        if others and not others & set(index[i]):
            remedy = remedy_for_ids({part.key: part.data for part in parts})
            raise DataError(
                f"no id of {part.key} is in another table: it has {listed(list(index[i])[:3])}, "
                f"the others have {listed(sorted(others)[:3])}; {remedy}."
            )


def _merged_labels(
    parts: Sequence[Part], positions: Mapping[str, Array]
) -> tuple[Array | None, str | None, list[str]]:
    """The labels that the parts have, where they do not contradict each other."""
    found = [part for part in parts if part.data.labels is not None]
    if not found:
        return None, None, []
    merged: Array | None = None
    for part in found:
        values = _spread_labels(np.asarray(part.data.labels), positions[part.key])
        if merged is None:
            merged = values
            continue
        if merged.dtype.kind != values.dtype.kind:
            merged, values = (_label_text(merged), _label_text(values))
        both = is_known(merged) & is_known(values)
        if (merged[both] != values[both]).any():
            names = listed([part.key for part in found])
            return None, None, [f"the labels in {names} contradict each other; none was taken"]
        merged = np.where(is_known(merged), merged, values)
    return merged, found[0].data.label_name, []


def _spread_labels(labels: Array, position: Array) -> Array:
    """Labels in the common order; where there is none it is an empty text, or NaN."""
    here = position >= 0
    if here.all():
        return labels[position]
    if labels.dtype.kind in "UST":
        return np.where(here, labels.astype(str)[position], "")
    return np.where(here, labels[position].astype(np.float64), np.nan)


def _label_text(labels: Array) -> Array:
    return as_text(labels) if labels.dtype.kind != "b" else labels.astype(str)
