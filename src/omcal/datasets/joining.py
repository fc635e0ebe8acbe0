"""Join tables of the same samples by their ids."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from omcal.datasets._contents import Contents, reading
from omcal.datasets._data import (
    DataError,
    MultiViewData,
    as_member,
    is_known,
    spread_labels,
    spread_rows,
)
from omcal.datasets._ids import NAMELESS, as_text, id_candidates, numbers_rows, seems_id
from omcal.datasets._names import listed
from omcal.datasets._selection import (
    Choice,
    NoViewError,
    label_vectors,
    select,
    view_names,
)
from omcal.datasets.label_files import LabelColumn, label_column
from omcal.machine.arrays import Array
from omcal.views.pair import Pairing, PairingError, pair


@dataclass(frozen=True)
class Part:
    """Views, or labels alone, of one file or frame."""

    key: str
    data: MultiViewData | LabelColumn

    @property
    def n(self) -> int:
        return self.data.n_samples


def select_parts(sources: Sequence[tuple[str, Path, Contents]], choice: Choice) -> list[Part]:
    """Return the part of each file, with ids from the column that all files share."""
    wanted = _wanted_views(sources, choice)
    own_ids: Mapping[str, str | bool | None] = (
        _id_choices(sources)
        if choice.ids is None
        else dict.fromkeys((key for key, *_ in sources), choice.ids)
    )
    found_labels = False
    parts = []
    for key, path, contents in sources:
        mine = replace(choice, views=wanted[key], ids=own_ids[key])
        if isinstance(choice.labels, str):
            here = choice.labels in label_vectors(contents)
            mine = replace(mine, labels=choice.labels if here else False)
        elif choice.labels is True:
            mine = replace(mine, labels=None)
        if wanted[key] == []:
            continue
        with reading(path, contents.format):
            try:
                part = Part(key, renamed(select(contents, path, mine), key, choice.views))
            except NoViewError:
                part = Part(key, label_column(contents, mine.labels, mine.ids))
        found_labels |= part.data.labels is not None
        parts.append(part)
    if choice.labels not in (None, False) and not found_labels:
        raise DataError(
            f"labels={choice.labels!r} is in none of {listed([key for key, *_ in sources])}."
        )
    return parts


def _id_choices(sources: Sequence[tuple[str, Path, Contents]]) -> dict[str, str | None]:
    """Return the column of ids to take from each table; None: the one it has by itself.

    It is the first name that is one of ids in every table without ids of its own. A table with no
    usable ids, but with a column that is called like some, is asked for this column if another
    table has ids too: repeated or empty ids are then refused, whatever the columns are called.
    """
    tables = {key: _vectors(contents) for key, _, contents in sources if contents.ids is None}
    usable = {
        key: [ids.name for ids in id_candidates(table) if not ids.numbering]
        for key, table in tables.items()
    }
    seeming = {
        key: [
            name
            for name, values in table.items()
            if seems_id(name, values) and (name or not numbers_rows(values))
        ]
        for key, table in tables.items()
    }
    for names in (usable, {} if all(usable.values()) else seeming):
        listed_names = list(names.values())
        shared = [n for n in listed_names[0] if all(n in o for o in listed_names)] if names else []
        if shared and shared[0] not in (NAMELESS, ""):
            return {key: shared[0] if key in tables else None for key, *_ in sources}
    others = len(sources) - len(tables) + sum(bool(usable[k] or seeming[k]) for k in tables)
    asked = {k: seeming[k][0] for k in tables if not usable[k] and seeming[k] and others > 1}
    return {key: asked.get(key) for key, *_ in sources}


def _vectors(contents: Contents) -> dict[str, Array]:
    return {
        name: value
        for name, value in contents.variables.items()
        if isinstance(value, np.ndarray) and value.ndim == 1 and value.dtype.kind in "iufUST"
    }


def _wanted_views(
    sources: Sequence[tuple[str, Path, Contents]], choice: Choice
) -> dict[str, list[str] | None]:
    """Return the requested views of each file; None: its default views."""
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
            inside = (v for names in offered.values() if len(names) > 1 for v in names)
            every = listed([*offered, *inside])
            what = (
                f"is in {listed(givers)}: say which, as in {givers[0]}:{view}"
                if givers
                else "is in none of the files"
            )
            raise DataError(f"view {view!r} {what}; available: {every}.")
        chosen = wanted[givers[0]]
        if chosen is not None:
            chosen.append(inner if inner in offered.get(key, ()) else view)
    return wanted


def renamed(data: MultiViewData, key: str, asked: Sequence[str] | None = None) -> MultiViewData:
    """Return the views under the requested names; the only view of a file has its name."""
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
    """Return one data set of all parts, joined by ids, or by position without ids."""
    with_views = [(part.key, part.data) for part in parts if isinstance(part.data, MultiViewData)]
    if not with_views:
        raise DataError(f"none of {listed([part.key for part in parts])} holds a view.")
    pairing, note = _match(parts, how)
    positions = {
        key: np.arange(pairing.n) if rows is None else rows for key, rows in pairing.rows.items()
    }
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
        ids=pairing.ids,
        id_name=None if pairing.ids is None else id_name or "id",
        notes=(*said, *notes, note),
        scales=scales,
    )


def _match(parts: Sequence[Part], how: str) -> tuple[Pairing, str]:
    """Return the pairing of the parts and a note about it."""
    members = [as_member(part.key, part.data) for part in parts]
    try:
        pairing = pair(members, "inner" if how == "inner" else "outer")
    except PairingError as error:
        raise DataError(str(error)) from None
    if pairing.hint:
        warnings.warn(
            f"only {pairing.shared} of {pairing.n} ids are in every table; {pairing.hint}",
            stacklevel=4,
        )
    if not pairing.by_ids:
        return pairing, f"joined by position, row i of each: {pairing.n} samples"
    column = next((p.data.id_name for p in parts if p.data.id_name), "id")
    has = ", ".join(
        f"{part.key} {'has ' if i == 0 else ''}{part.n}" for i, part in enumerate(parts)
    )
    note = f"joined by {column!r}: {pairing.n} samples, {pairing.shared} in every table; {has}"
    return pairing, f"{note}; {pairing.hint}" if pairing.hint else note


def _merged_labels(
    parts: Sequence[Part], positions: Mapping[str, Array]
) -> tuple[Array | None, str | None, list[str]]:
    """Return the labels of the parts; none where they contradict each other."""
    found = [part for part in parts if part.data.labels is not None]
    if not found:
        return None, None, []
    merged: Array | None = None
    for part in found:
        values = spread_labels(np.asarray(part.data.labels), positions[part.key])
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


def _label_text(labels: Array) -> Array:
    return as_text(labels) if labels.dtype.kind != "b" else labels.astype(str)
