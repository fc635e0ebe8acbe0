"""Recognise the usual names of views and labels; all in lower case."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

VIEWS_NAMES = {"x", "fea", "data", "views"}
VIEW_TITLES = {"view_names", "viewnames"}
LABEL_NAMES = {
    *("y", "gt", "gnd", "truth", "truelabel", "truelabels", "true_labels", "groundtruth"),
    *("ground_truth", "label", "labels", "class", "target", "targets", "issuearea"),
    *("cell_type", "celltype", "cell_types", "celltypes", "cell.type", "cell_label"),
}
FEATURE_TITLES = {"vocab", "vocabulary", "feature_names", "terms", "words"}
PRESENT_SUFFIX = ".present"

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


def listed_shapes(matrices: Mapping[str, Any]) -> str:
    """Format names with their shapes for a message, at most twelve.

    Examples
    --------
    >>> import numpy as np
    >>> listed_shapes({"image": np.ones((5, 2)), "text": np.ones((4, 3))})
    "'image': 5 × 2, 'text': 4 × 3"
    """
    words = [f"{name!r}: {' × '.join(map(str, m.shape))}" for name, m in matrices.items()]
    return ", ".join(words[:12]) + (f" and {len(words) - 12} more" if len(words) > 12 else "")


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
