"""Choose the variable that names the samples."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from omcal.datasets._names import is_label_name
from omcal.machine.arrays import Array
from omcal.views.columns import listed
from omcal.views.pair import (
    DataError,
    Ids,
    as_text,
    is_id_name,
    is_whole,
    numbers_rows,
    require_unique,
)

NAMELESS = "index"  # the name here of an index that pandas wrote without one


def choose_ids(
    vectors: Mapping[str, Array], wanted: str | bool | None, own: Ids | None = None
) -> Ids | None:
    """Choose the ids among vectors of one length: the wanted ones, the file's own, or the first."""
    if wanted is False:
        return None
    if isinstance(wanted, str):
        column = "" if wanted == NAMELESS and wanted not in vectors else wanted
        if column in vectors:
            ids = Ids(wanted or NAMELESS, as_text(vectors[column]))
            require_unique(ids.values, repr(ids.name))
            return ids
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
    """Return every variable that could be the ids, best first."""
    found = [] if own is None else [own]
    for name, values in vectors.items():
        if seems_id(name, values):
            text = as_text(values)
            if (text != "").all() and len(np.unique(text)) == len(text):
                numbering = not name and numbers_rows(values)
                found.append(Ids(name or NAMELESS, text, numbering))
    return found


def seems_id(name: str, values: Array) -> bool:
    """Whether name and type mark a variable as ids, unique or not."""
    is_text = values.dtype.kind in "UST"
    if is_label_name(name) or not (is_text or is_whole(values)):
        return False
    return name == "" or is_id_name(name, text=is_text)
