"""Recognise views, labels and ids by their usual names; all in lower case."""

from __future__ import annotations

import re
from collections.abc import Mapping

import numpy as np

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

VIEWS_NAMES = {"x", "fea", "data", "views"}
VIEW_TITLES = {"view_names", "viewnames"}
LABEL_NAMES = {
    *("y", "gt", "gnd", "truth", "truelabel", "truelabels", "true_labels", "groundtruth"),
    *("ground_truth", "label", "labels", "class", "target", "targets", "issuearea"),
    *("cell_type", "celltype", "cell_types", "celltypes", "cell.type", "cell_label"),
}
FEATURE_TITLES = {"vocab", "vocabulary", "feature_names", "terms", "words"}
PRESENT_SUFFIX = ".present"
NAMELESS = "index"  # the name here of an index that pandas wrote without one

# Splits of one data set, in the order in which they are concatenated.
SPLITS = ("train", "training", "valid", "validation", "val", "test", "t10k")
_SPLIT = "|".join(SPLITS)
_SPLIT_FIRST = re.compile(rf"({_SPLIT})[/_.-](.+)", re.IGNORECASE)
_SPLIT_LAST = re.compile(rf"(.+)[/_.-]({_SPLIT})", re.IGNORECASE)


def is_label_name(name: str) -> bool:
    """Whether a name is a usual one for labels; "rna:cell_type" counts as "cell_type"."""
    return name.lower().rpartition(":")[2] in LABEL_NAMES


def split_of(name: str) -> tuple[str, str] | None:
    """Return the split (train, test …) in a name and the rest of the name; None without one.

    Examples
    --------
    >>> split_of("train/data"), split_of("x_test"), split_of("constrained")
    (('train', 'data'), ('test', 'x'), None)
    """
    if match := _SPLIT_FIRST.fullmatch(name):
        return match[1].lower(), match[2]
    if match := _SPLIT_LAST.fullmatch(name):
        return match[2].lower(), match[1]
    return None


def scale_of_key(key: str) -> str | None:
    """Return the `scale` of a matrix of AnnData by its key in `obsm`; None: by its values.

    Keys that begin with ``X_`` hold components, such as those of a PCA. Standardised, the last
    component would count as much as the first.

    Examples
    --------
    >>> scale_of_key("X_pca"), scale_of_key("X"), scale_of_key("protein")
    ('view', None, None)
    """
    return "view" if key.startswith("X_") else None


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
        raise DataError(f"id={wanted!r} is not in it; available: {listed(vectors)}.")
    candidates = [] if own is None else [own]
    candidates += filter(are_usable, seeming_ids(vectors))
    if not candidates and wanted is True:
        raise DataError(f"no ids were found; available: {listed(vectors)}. Pass id='name'.")
    return min(candidates, key=lambda ids: ids.numbering, default=None)


def seeming_ids(vectors: Mapping[str, Array]) -> list[Ids]:
    """Return every variable that name and type mark as ids, unique or not."""
    return [
        Ids(name or NAMELESS, as_text(values), not name and numbers_rows(values))
        for name, values in vectors.items()
        if seems_id(name, values)
    ]


def are_usable(ids: Ids) -> bool:
    """Whether no id is empty or repeats."""
    return bool((ids.values != "").all()) and len(np.unique(ids.values)) == len(ids.values)


def seems_id(name: str, values: Array) -> bool:
    """Whether name and type mark a variable as ids, unique or not."""
    is_text = values.dtype.kind in "UST"
    if is_label_name(name) or not (is_text or is_whole(values)):
        return False
    return name == "" or is_id_name(name, text=is_text)
