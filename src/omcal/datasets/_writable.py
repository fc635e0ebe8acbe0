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
    seems_id,
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
    """The function that writes a format, and which views the format can hold."""

    write: Callable[[Path, MultiViewData], None]
    sparse: bool = True
    masks: bool = True  # whether it says which samples are absent from a sparse view
    names: Literal["any", "plain", "nested"] = "any"  # plain: no paths; nested: paths are groups
    folder: bool = False


def require_free_names(data: MultiViewData) -> None:
    """Refuse view names that are reserved, and labels that would not be read as labels."""
    if data.labels is not None and not could_be_labels(data.labels):
        raise DataError("the labels are fractions, which are no classes; give them as text.")
    for taken, use in {LABELS: "labels", TITLES: "names of the views", IDS: "ids"}.items():
        if taken in data.views:
            raise DataError(f"a view is called {taken!r}; rename it, this is where the {use} go.")
    for name in data.views:
        others = [other for other in data.views if other != name]
        parts = {name + PRESENT_SUFFIX} | {f"{name}.{part}" for part in (*SPARSE_PARTS, "shape")}
        if not name or name != name.strip() or not name.isprintable():
            raise DataError(f"a view is called {name!r}; give it a name of visible characters.")
        for clash in parts & set(others):
            raise DataError(
                f"a view is called {clash!r}; rename it, a part of {name!r} goes there."
            )


def require_held(data: MultiViewData, path: Path, form: Form) -> None:
    """Refuse views that a format cannot give back: sparse ones, absent samples, odd names."""
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
        here = (data.present or {}).get(name)
        if sparse.issparse(view) and not form.masks and here is not None and not here.all():
            raise DataError(
                f"view {name!r} is sparse and lacks {int((~here).sum())} of {len(here)} samples, "
                f"which {path.suffix} cannot say; use .npz, .h5, .zarr or .h5ad instead of {path}."
            )
        parts = name.split("/")
        strange = any(part == "" or part[0] == "." or "::" in part for part in parts)
        strange |= form.folder and "\\" in name  # zarr and Windows read it for "/"
        if form.names != "any" and (strange or (len(parts) > 1 and form.names != "nested")):
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
    """Return column names from which the views are found again, with "_" or else ":"."""
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
    """Return the column name under which ids are found again: their own, or "id"."""
    ids = np.asarray(data.ids)
    if all(map(is_number, ids.tolist())) and any("." in name for name in ids.tolist()):
        raise DataError("ids that are fractions would be read as numbers; use .npz.")
    own = str(data.id_name)
    return own if own not in (*header, LABELS) and seems_id(own, ids) else "id"


def require_features(header: list[str], rows: Array) -> None:
    """Refuse features that a table would read as labels, ids or row numbers."""
    for name, column in zip(header, rows.T, strict=True):
        if is_label_name(name) or seems_id(name, column) or numbers_rows(column):
            raise DataError(
                f"column {name!r} would be read as labels or ids, or as the numbers of the rows; "
                "use another format such as .npz."
            )


def _column_names(data: MultiViewData, name: str, separator: str) -> list[str]:
    known = (data.feature_names or {}).get(name)
    width = int(data.views[name].shape[1])
    features = [str(feature) for feature in known] if known is not None else range(1, width + 1)
    return [f"{name}{separator}{str(f).removeprefix(name + separator)}" for f in features]
