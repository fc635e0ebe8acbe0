"""Join tables of the same samples, and labels from a file of their own, by their ids."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from omcal.datasets._columns import UNNAMED, are_usable, choose_ids, id_candidates, is_label_name
from omcal.datasets._data import (
    ROW_NUMBERS,
    Contents,
    MultiViewData,
    as_member,
    is_known,
    reading,
    spread_labels,
    spread_rows,
)
from omcal.datasets._selection import Choice, NoViewError, label_vectors, select, view_names
from omcal.machine.arrays import Array
from omcal.views.columns import listed
from omcal.views.pair import DataError, Pairing, as_text, pair

NUMBERED = "sample"  # column of sample numbers in files of clusters without ids


@dataclass(frozen=True)
class LabelColumn:
    """Labels, and the ids of their samples where the file has them."""

    labels: Array
    label_name: str
    ids: Array | None
    id_name: str | None
    notes: tuple[str, ...] = ()

    @property
    def n_samples(self) -> int:
        """Number of labels."""
        return len(self.labels)

    def by_position(self) -> LabelColumn:
        """Return the labels ordered by sample number where the ids are numbers of samples.

        Files of clusters number the samples from 0 in a column "sample" where they have no ids.
        """
        numbers = np.arange(self.n_samples).astype(str)
        if self.ids is None or self.id_name != NUMBERED or set(self.ids) != set(numbers):
            return self
        order = np.argsort(self.ids.astype(int))
        return replace(self, labels=self.labels[order], ids=None, id_name=None)


Part: TypeAlias = MultiViewData | LabelColumn  # views, or labels alone, of one file or frame


@dataclass(frozen=True)
class Source:
    """A file, or one of its tables; if it has a single view, the key is the name of the view."""

    key: str
    path: Path
    contents: Contents
    named: bool = False  # by the user, not after its file


def select_parts(sources: Sequence[Source], choice: Choice) -> dict[str, Part]:
    """Return the data of each source by key, with ids from a column that all sources share."""
    requested = _requested_views(sources, choice)
    ids: Mapping[str, str | bool | None] = (
        _id_choices(sources) if choice.ids is None else {s.key: choice.ids for s in sources}
    )
    parts: dict[str, Part] = {}
    for source in sources:
        key, contents = source.key, source.contents
        if requested[key] == []:
            continue
        labels = None if choice.labels is True else choice.labels
        if isinstance(labels, str) and labels not in label_vectors(contents):
            labels = False
        part_choice = replace(choice, views=requested[key], ids=ids[key], labels=labels)
        with reading(source.path, contents.format):
            try:
                parts[key] = renamed(select(contents, source.path, part_choice), key, choice.views)
            except NoViewError:
                parts[key] = label_column(contents, part_choice.labels, part_choice.ids)
    if choice.labels and all(part.labels is None for part in parts.values()):
        keys = listed([source.key for source in sources])
        raise DataError(f"labels={choice.labels!r} is in none of {keys}.")
    return parts


def _id_choices(sources: Sequence[Source]) -> dict[str, str | None]:
    """Return the column of ids to take from each table; None: the table's own ids.

    The column is the first one that looks like ids in every table without ids of its own. If a
    table has no usable ids but a column with a name of ids, and another table has ids, this column
    is requested: its repeated or empty ids are then refused, whatever its name is.
    """
    tables = {
        s.key: [ids for ids in id_candidates(label_vectors(s.contents)) if not ids.numbering]
        for s in sources
        if s.contents.ids is None
    }
    usable = {key: [i.name for i in ids if are_usable(i)] for key, ids in tables.items()}
    candidates = {key: [i.name for i in ids] for key, ids in tables.items()}
    for names in (usable, {} if all(usable.values()) else candidates):
        listed_names = list(names.values())
        shared = [n for n in listed_names[0] if all(n in o for o in listed_names)] if names else []
        if shared and shared[0] != UNNAMED:
            return {s.key: shared[0] if s.key in tables else None for s in sources}
    others = len(sources) - len(tables) + sum(bool(usable[k] or candidates[k]) for k in tables)
    asked = {k: candidates[k][0] for k in tables if not usable[k] and candidates[k] and others > 1}
    return {s.key: asked.get(s.key) for s in sources}


def _requested_views(sources: Sequence[Source], choice: Choice) -> dict[str, list[str] | None]:
    """Return the requested views of each file; None: its default views."""
    if choice.views is None:
        return {source.key: None for source in sources}
    offered = {s.key: view_names(s.contents, choice) for s in sources}
    requested: dict[str, list[str] | None] = {key: [] for key in offered}
    for view in choice.views:
        if view in offered:
            requested[view] = None
            continue
        key, _, inner = view.partition(":")
        matches = [key] if inner in offered.get(key, ()) else []
        matches += [key for key, names in offered.items() if view in names]
        if len(matches) != 1:
            inside = (v for names in offered.values() if len(names) > 1 for v in names)
            every = listed([*offered, *inside])
            problem = (
                f"is in {listed(matches)}: say which, as in {matches[0]}:{view}"
                if matches
                else "is in none of the files"
            )
            raise DataError(f"view {view!r} {problem}; available: {every}.")
        chosen = requested[matches[0]]
        if chosen is not None:
            chosen.append(inner if inner in offered.get(key, ()) else view)
    return requested


def renamed(data: MultiViewData, key: str, requested: Sequence[str] | None = None) -> MultiViewData:
    """Return the views under the requested names; the only view of a file has its name."""
    names = {view: f"{key}:{view}" for view in data.views if f"{key}:{view}" in (requested or ())}
    if not names and len(data.views) == 1 and next(iter(data.views)) not in (requested or ()):
        names = {next(iter(data.views)): key}
    return _with_names(data, names)


def _with_names(data: MultiViewData, names: Mapping[str, str]) -> MultiViewData:
    views = data.views.renamed([names.get(name, name) for name in data.views])
    scales = {names.get(name, name): scale for name, scale in data.scales.items()}
    present, titles = views.present or None, views.feature_names or None
    return replace(data, views=views, present=present, feature_names=titles, scales=scales)


def join(parts: Mapping[str, Part], how: str) -> MultiViewData:
    """Return one data set of all parts, joined by ids, or by position without ids."""
    with_views = [(key, part) for key, part in parts.items() if isinstance(part, MultiViewData)]
    if not with_views:
        raise DataError(f"none of {listed(parts)} holds a view.")
    pairing, note = _match(parts, how)
    views: dict[str, Any] = {}
    present: dict[str, Array] = {}
    feature_names: dict[str, Array] = {}
    scales: dict[str, str] = {}
    names = [name for _, data in with_views for name in data.views]
    for key, part_data in with_views:
        clashes = {name: f"{key}:{name}" for name in part_data.views if names.count(name) > 1}
        data, place = _with_names(part_data, clashes), pairing.rows[key]
        for name, view in data.views.items():
            views[name] = spread_rows(view, place)
            mask = (data.present or {}).get(name, np.ones(part_data.n_samples, dtype=bool))
            present[name] = (place >= 0) & mask[place]
        feature_names |= data.feature_names or {}
        scales |= data.scales
    labels, label_name, notes = _merged_labels(parts, pairing.rows)
    part_notes = (f"{key}: {note}" for key, part in parts.items() for note in part.notes)
    return MultiViewData(
        views,
        labels=labels,
        name=" + ".join(key for key, _ in with_views),
        source=", ".join(data.source for _, data in with_views),
        present=None if all(mask.all() for mask in present.values()) else present,
        feature_names=feature_names or None,
        label_name=label_name,
        ids=pairing.ids,
        id_name=None if pairing.ids is None else _id_name(parts),
        notes=(*part_notes, *notes, note),
        scales=scales,
    )


def _id_name(parts: Mapping[str, Part]) -> str:
    return next((part.id_name for part in parts.values() if part.id_name), "id")


def _match(parts: Mapping[str, Part], how: str) -> tuple[Pairing, str]:
    """Return the pairing of the parts and a note about it."""
    members = [as_member(key, part) for key, part in parts.items()]
    pairing = pair(members, "inner" if how == "inner" else "outer")
    if pairing.hint:
        warnings.warn(
            f"only {pairing.shared} of {pairing.n} ids are in every table; {pairing.hint}",
            stacklevel=4,
        )
    if not pairing.by_ids:
        return pairing, f"joined by position, row i of each: {pairing.n} samples"
    sizes = [f"{key} {part.n_samples}" for key, part in parts.items()]
    has = ", ".join(sizes).replace(" ", " has ", 1)
    joined = f"joined by {_id_name(parts)!r}: {pairing.n} samples"
    note = f"{joined}, {pairing.shared} in every table; {has}"
    return pairing, f"{note}; {pairing.hint}" if pairing.hint else note


def _merged_labels(
    parts: Mapping[str, Part], positions: Mapping[str, Array]
) -> tuple[Array | None, str | None, list[str]]:
    """Return the merged labels of the parts; None if they contradict each other."""
    labelled = {key: part for key, part in parts.items() if part.labels is not None}
    if not labelled:
        return None, None, []
    merged, *others = [
        spread_labels(np.asarray(part.labels), positions[key]) for key, part in labelled.items()
    ]
    for values in others:
        if merged.dtype.kind != values.dtype.kind:
            merged, values = as_text(merged), as_text(values)
        both = is_known(merged) & is_known(values)
        if (merged[both] != values[both]).any():
            note = f"the labels in {listed(labelled)} contradict each other; none was taken"
            return None, None, [note]
        merged = np.where(is_known(merged), merged, values)
    return merged, next(iter(labelled.values())).label_name, []


def label_column(
    contents: Contents, labels: str | bool | None = None, ids: str | bool | None = None
) -> LabelColumn:
    """Return the labels in a file: the named column, or the only one besides the ids."""
    vectors = label_vectors(contents)
    chosen = choose_ids(vectors, ids, contents.ids)
    if chosen is None and ids is None and (repeated := id_candidates(vectors)):
        chosen = choose_ids(vectors, repeated[0].name)  # raises an error with the repeated ids
    id_names = {chosen.name, ""} if chosen else set()
    others = [name for name in vectors if name not in id_names]
    if isinstance(labels, str):
        if labels not in vectors:
            raise DataError(f"labels={labels!r} is not in it; available: {listed(vectors)}.")
        names = [labels]
    else:
        names = [name for name in others if is_label_name(name) or name.lower() == "cluster"]
        names = names or others
    if len(names) != 1:
        shapes = [getattr(value, "shape", None) for value in contents.variables.values()]
        held = listed(vectors) if vectors else f"arrays of shape {shapes}"
        raise DataError(f"it has no column that is plainly the labels: {held}; call it label.")
    return LabelColumn(
        vectors[names[0]],
        names[0],
        None if chosen is None else chosen.values,
        None if chosen is None else ROW_NUMBERS if chosen.numbering else chosen.name,
        contents.notes,
    )


def add_labels(data: MultiViewData, path: Path, found: LabelColumn) -> MultiViewData:
    """Return the data set with labels from a file, matched by id if both have ids, or by order."""
    if data.ids is None or found.ids is None or not set(found.ids) & set(data.ids):
        found = found.by_position()
    with reading(path, "labels"):
        pairing = pair([as_member("the data", data), as_member("the labels", found)], "outer")
    place = pairing.rows["the labels"]  # the samples of the data are the first
    labels = spread_labels(found.labels, place[: data.n_samples])
    note = f"labels of {path.name} joined by position"
    if data.ids is not None and found.ids is not None:
        others = pairing.n - data.n_samples
        matched = f"{found.n_samples - others} of {data.n_samples} samples"
        note = f"labels of {path.name} joined by id: {matched}, {others} labels of others"
    unknown = int((~is_known(labels)).sum())
    more = (f"{unknown} samples have no label in {path.name}",) if unknown else ()
    return replace(
        data, labels=labels, label_name=found.label_name, notes=(*data.notes, note, *more)
    )
