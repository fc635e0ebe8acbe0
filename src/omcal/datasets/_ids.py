"""Which variable names the samples: ids are ids, and never a feature."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from omcal.datasets._data import DataError
from omcal.datasets._names import is_id_name, is_label_name, listed
from omcal.machine.arrays import Array

NAMELESS = "index"  # how the index that pandas writes without a name is called here


@dataclass(frozen=True)
class Ids:
    """The names of the samples, as text.

    `numbering` is True where they are the numbers of the rows under no name of their own: these
    say nothing about the samples, but must not be a feature.
    """

    name: str
    values: Array
    numbering: bool = False


def choose_ids(
    vectors: Mapping[str, Array], wanted: str | bool | None, own: Ids | None = None
) -> Ids | None:
    """The ids among vectors of one length: those that are wanted, the file's own, or the first."""
    if wanted is False:
        return None
    if isinstance(wanted, str):
        column = "" if wanted == NAMELESS and wanted not in vectors else wanted
        if column in vectors:
            return _checked(Ids(wanted, as_text(vectors[column])))
        if own is not None:
            return own
        raise DataError(f"id={wanted!r} is not in it; there is {listed(vectors)}.")
    candidates = id_candidates(vectors, own)
    found = next((ids for ids in candidates if not ids.numbering), None) or next(
        iter(candidates), None
    )
    if found is None and wanted is True:
        raise DataError(f"no ids were found; there is {listed(vectors)}. Pass id='name'.")
    return found


def id_candidates(vectors: Mapping[str, Array], own: Ids | None = None) -> list[Ids]:
    """Everything that could be the ids, best first."""
    found = [] if own is None else [own]
    for name, values in vectors.items():
        if seems_id(name, values):
            text = as_text(values)
            if (text != "").all() and len(np.unique(text)) == len(text):
                numbering = not name and numbers_rows(values)
                found.append(Ids(name or NAMELESS, text, numbering))
    return found


def seems_id(name: str, values: Array) -> bool:
    """Whether these are ids by their name and type, unique or not."""
    is_text = values.dtype.kind in "UST"
    if is_label_name(name) or not (is_text or _is_whole(values)):
        return False
    return name == "" or is_id_name(name, text=is_text)


def numbers_rows(values: Array) -> bool:
    """Whether these are 0, 1, 2 … or 1, 2, 3 …, of which three prove something."""
    if len(values) < 3 or not _is_whole(values):
        return False
    return values[0] in (0, 1) and np.array_equal(values - values[0], np.arange(len(values)))


def _is_whole(values: Array) -> bool:
    if values.dtype.kind == "f":
        return bool((np.isfinite(values) & (values == np.round(values))).all())
    return values.dtype.kind in "iu"


def as_text(values: Array) -> Array:
    """Ids as text: whole numbers without a point."""
    if values.dtype.kind == "f":
        return np.array(
            ["" if np.isnan(x) else f"{x:.0f}" if x == round(x) else str(x) for x in values]
        )
    return values.astype(str)


def _checked(ids: Ids) -> Ids:
    """Refuse ids that do not tell the samples apart."""
    n_empty = int((ids.values == "").sum())
    if n_empty:
        raise DataError(f"{n_empty} of {len(ids.values)} rows have no id in {ids.name!r}.")
    different, counts = np.unique(ids.values, return_counts=True)
    twice = different[counts > 1].tolist()
    if twice:
        raise DataError(
            f"{len(twice)} ids are there more than once in {ids.name!r}: {listed(twice)}; keep one "
            "row of each."
        )
    return ids
