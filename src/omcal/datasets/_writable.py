"""Refuse, before writing, data that a file format could not give back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
from scipy import sparse

from omcal.datasets._columns import (
    PRESENT_SUFFIX,
    could_be_labels,
    is_label_name,
    looks_like_ids,
    views_of,
)
from omcal.datasets._data import MultiViewData
from omcal.datasets.readers._numbers import is_number
from omcal.datasets.readers._trees import SPARSE_PARTS, is_single_cell
from omcal.machine.arrays import Array
from omcal.views.pair import DataError, numbers_rows

LABELS, TITLES, IDS = "labels", "view_names", "ids"


@dataclass(frozen=True)
class Form:
    """The function that writes a format, and the kinds of views that the format can hold."""

    write: Callable[[Path, MultiViewData], None]
    sparse: bool = True
    masks: bool = True  # whether it stores which samples are absent from a sparse view
    names: Literal["any", "plain", "nested"] = "any"  # plain: no paths; nested: paths are groups
    folder: bool = False


def require_free_names(data: MultiViewData) -> None:
    """Refuse view names that are reserved, and labels that would not be read as labels."""
    if data.labels is not None and not could_be_labels(data.labels):
        raise DataError("the labels are fractions, which cannot be classes; give them as text.")
    for reserved, use in {LABELS: "labels", TITLES: "names of the views", IDS: "ids"}.items():
        if reserved in data.views:
            raise DataError(
                f"a view is called {reserved!r}; rename it, the {use} are stored there."
            )
    for name in data.views:
        others = [other for other in data.views if other != name]
        parts = {name + PRESENT_SUFFIX} | {f"{name}.{part}" for part in (*SPARSE_PARTS, "shape")}
        if not name or name != name.strip() or not name.isprintable():
            raise DataError(f"a view is called {name!r}; give it a name of visible characters.")
        for clash in parts & set(others):
            raise DataError(
                f"a view is called {clash!r}; rename it, a part of {name!r} is stored there."
            )


def require_storable(data: MultiViewData, path: Path, form: Form) -> None:
    """Refuse views that a format cannot store: sparse views, absent samples, special names."""
    if form.names == "nested" and is_single_cell(name.split("/")[0] for name in data.views):
        raise DataError(
            f"with views called {list(data.views)}, {path} would be read as single cells; rename "
            "view 'obs', or use another format such as .npz."
        )
    for name, view in data.views.items():
        if sparse.issparse(view) and not form.sparse:
            raise DataError(
                f"view {name!r} is sparse, which {path.suffix or 'a folder of .npy files'} cannot "
                "hold; use .npz, .mat, .h5, .zarr or .h5ad, or make it dense with toarray()."
            )
        mask = (data.present or {}).get(name)
        if sparse.issparse(view) and not form.masks and mask is not None and not mask.all():
            raise DataError(
                f"view {name!r} is sparse and lacks {int((~mask).sum())} of {len(mask)} samples, "
                f"which {path.suffix} cannot store; use .npz, .h5, .zarr or .h5ad, not {path}."
            )
        parts = name.split("/")
        has_path_part = any(part == "" or part[0] == "." or "::" in part for part in parts)
        has_path_part |= form.folder and "\\" in name  # zarr and Windows take it for "/"
        if form.names != "any" and (has_path_part or (len(parts) > 1 and form.names != "nested")):
            raise DataError(
                f"view {name!r} has a '/', a '\\', a '.' or '::' in its name, which {path} cannot "
                "hold there; rename it, or use another format such as .npz."
            )
        inside = [other for other in data.views if other.startswith(f"{name}/")]
        if inside and form.names == "nested":
            raise DataError(
                f"view {name!r} would lie where the folder of view {inside[0]!r} is in {path}; "
                "rename one, or use another format such as .npz."
            )


def csv_header(data: MultiViewData) -> list[str]:
    """Return column names from which reading finds the views again, with "_", else ":"."""
    for separator in "_:":
        by_view = {name: _column_names(data, name, separator) for name in data.views}
        header = [column for columns in by_view.values() for column in columns]
        if len(set(header)) == len(header) and list(views_of(header).items()) == list(
            by_view.items()
        ):
            return header
    raise DataError(
        f"columns cannot be named so that the views {list(data.views)} are found again; leave '_' "
        "and ':' out of their names, or use another format such as .npz."
    )


def csv_id_name(data: MultiViewData, header: list[str]) -> str:
    """Return a column name that reading recognises as ids: their own name, or "id"."""
    ids = np.asarray(data.ids)
    if all(map(is_number, ids.tolist())) and any("." in name for name in ids.tolist()):
        raise DataError("ids that are fractions would be read as numbers; use .npz.")
    own = str(data.id_name)
    return own if own not in (*header, LABELS) and looks_like_ids(own, ids) else "id"


def require_features(header: list[str], rows: Array) -> None:
    """Refuse features that a table would read as labels, ids or row numbers."""
    for name, column in zip(header, rows.T, strict=True):
        if is_label_name(name) or looks_like_ids(name, column) or numbers_rows(column):
            raise DataError(
                f"column {name!r} would be read as labels or ids, or as the numbers of the rows; "
                "use another format such as .npz."
            )


def _column_names(data: MultiViewData, name: str, separator: str) -> list[str]:
    known = (data.feature_names or {}).get(name)
    width = int(data.views[name].shape[1])
    features = [str(feature) for feature in known] if known is not None else range(1, width + 1)
    return [f"{name}{separator}{str(f).removeprefix(name + separator)}" for f in features]
