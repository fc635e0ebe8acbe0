"""Read AnnData and MuData from HDF5 files and zarr folders, without anndata or mudata.

Each modality is a view: its principal components where the file has them, else its matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import TypeAlias

import numpy as np

from omcal.datasets._columns import is_label_name, scale_of_key
from omcal.datasets._contents import Contents, Variable, text_fits
from omcal.datasets._data import Matrix, spread_rows
from omcal.datasets.readers._variables import Node, is_sparse, read_part, read_sparse
from omcal.machine.arrays import Array
from omcal.views.frames import Columns, as_column
from omcal.views.mixed import stacked
from omcal.views.pair import DataError, Ids, as_text

PREFERRED = "X_pca"
INDEX_NAMES = {"_index", "index", "__categories"}


Reopen: TypeAlias = Callable[[str], AbstractContextManager[Node]]


def is_computed(name: str) -> bool:
    """Whether a matrix is X or, by its name, computed from X; others were measured."""
    return name == "X" or name.startswith("X_")


def is_single_cell(root: Node) -> bool:
    """Whether a file is that of an AnnData or MuData object."""
    names = set(root.children())
    return {"obs", "mod"} <= names or {"obs", "var"} <= names


def read_single_cell(root: Node, reopen: Reopen, container: str) -> Contents:
    """Read modalities as views, and columns of the observations as possible labels.

    AnnData is a single modality without a name, whose matrices have views of their own. `reopen`
    gives the node at a place later, when a view is chosen.
    """
    common = _table(root)
    variables: dict[str, Variable] = dict(_columns(common))
    labelled = any(is_label_name(name) for name in variables)
    present: dict[str, Array] = {}
    scales: dict[str, str] = {}
    default: list[str] = []
    modalities = root.children().get("mod")
    groups = {"": root} if modalities is None else modalities.children()
    for modality, group in groups.items():
        places = _representations(group)
        best = [name for name in (PREFERRED, "X") if name in places][:1]
        if modalities is None:
            position = None
            views = {name: name for name in places}
            default = best + [name for name in places if not is_computed(name)]
        else:
            position = _positions(root, modality, group)
            views = {name: modality if name in best else f"{modality}/{name}" for name in places}
            default += [views[name] for name in best]
            present |= dict.fromkeys(views.values(), position >= 0)
        for name, view in views.items():
            variables[view] = partial(_load, reopen, places[name], position)
            if scale := scale_of_key(name):
                scales[view] = scale
        if position is not None and not labelled:
            for name, column in _columns(_table(group)).items():
                variables[f"{modality}:{name}"] = _picked(column, position, name)
    return Contents(
        f"{'AnnData' if modalities is None else 'MuData'} ({container})",
        variables,
        default_views=tuple(default),
        present=present,
        scales=scales,
        ids=_barcodes(common),
    )


def _barcodes(table: Node) -> Ids | None:
    """Return the index of the observations; None where it numbers them or has duplicates."""
    columns = table.children()
    names = (name for name in (table.attribute("_index"), "_index", "index") if name in columns)
    values = next((columns[name].read() for name in names), None)
    if values is None or values.ndim != 1:
        return None
    text = as_text(values)
    unique = len(np.unique(text)) == len(text) and (text != "").all()
    numbering = np.array_equal(text, np.arange(len(text)).astype(str))  # the default of anndata
    return Ids("barcode", text) if unique and not numbering else None


def _table(group: Node) -> Node:
    """Return the table of observations of a file or modality."""
    table = group.children().get("obs")
    if table is None or table.shape is not None:
        raise DataError(
            f"{group.place!r} has no table 'obs' in the layout used since 2020; save the file "
            "again with a newer anndata."
        )
    return table


def _representations(group: Node) -> dict[str, str]:
    """Return the place in the file of every matrix of the observations, by name."""
    parts = group.children()
    items = {"X": parts["X"]} if "X" in parts else {}
    items |= parts["obsm"].children() if "obsm" in parts else {}
    return {
        name: item.place
        for name, item in items.items()
        if item.shape is None or len(item.shape) == 2
    }


def _load(reopen: Reopen, place: str, position: Array | None = None) -> Matrix:
    with reopen(place) as node:
        if is_sparse(node):
            matrix = read_sparse(node)
        elif node.shape is None:
            # A data frame, to which the rules of any other apply.
            table = Columns({name: as_column(v) for name, v in _columns(node).items()})
            matrix = stacked(table) if table.values else None
        else:
            matrix = node.read()
    if matrix is None or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise DataError(f"{place!r} is no matrix of numbers; choose another with views=[...].")
    if position is not None and position.max(initial=-1) >= matrix.shape[0]:
        raise DataError(f"{place!r} has fewer rows than its modality has cells.")
    return matrix if position is None else spread_rows(matrix, position)


def _positions(root: Node, modality: str, group: Node) -> Array:
    """Return the row of each cell of the file in the modality, -1 where absent."""
    n_here, n = _n_observations(_table(group)), _n_observations(_table(root))
    parts = root.children()
    held = {p for p in ("obsmap", "obsm") if p in parts and modality in parts[p].children()}
    if "obsmap" in held:
        position = _vector(parts["obsmap"], modality).astype(np.int64) - 1  # 0 is absent
    elif "obsm" in held:
        present = _vector(parts["obsm"], modality).astype(bool)
        position = np.where(present, np.cumsum(present) - 1, -1)
    else:
        position = np.arange(n_here)
    if len(position) != n:
        raise DataError(
            f"modality {modality!r} has {n_here} of {n} cells and the file does not say which."
        )
    if position.min(initial=0) < -1 or position.max(initial=-1) >= n_here:
        raise DataError(f"the map of the cells of modality {modality!r} is damaged.")
    return position


def _vector(group: Node, name: str) -> Array:
    """Return an array that must be in a group, flattened."""
    return read_part(group, name).reshape(-1)


def _n_observations(table: Node) -> int:
    """Return the number of cells: the length of any column of the table."""
    for item in table.children().values():
        column = item.children().get("codes", item)
        if column.shape:
            return int(column.shape[0])
    raise DataError(f"the table {table.place!r} is empty.")


def _columns(table: Node) -> dict[str, Array]:
    """Read the columns of a stored data frame; categories become their values."""
    columns = {}
    items = table.children()
    # Files of 2020 and 2021 store the categories of all columns in one group.
    shared = items["__categories"].children() if "__categories" in items else {}
    for name, item in items.items():
        if name in {*INDEX_NAMES, table.attribute("_index")}:
            continue
        parts = item.children()
        column: Array | None = None
        if "categories" in parts:
            column = _picked(_vector(item, "categories"), _vector(item, "codes"), name)
        elif "mask" in parts:
            column = _with_gaps(_vector(item, "values"), _vector(item, "mask"), name)
        elif item.shape is not None:
            column = item.read()
            if column is not None and name in shared:
                column = _picked(_vector(items["__categories"], name), column, name)
        if column is not None and column.ndim == 1:
            columns[name] = column
    return columns


def _picked(values: Array, places: Array, name: str) -> Array:
    """Return the values at these places, categories or rows; at -1 an empty text.

    Long texts that would fill the memory are refused.
    """
    n = len(places)
    if places.dtype.kind not in "iu":
        raise DataError(f"the categories of column {name!r} are damaged.")
    if places.min(initial=0) < -1 or places.max(initial=-1) >= len(values):
        raise DataError(f"column {name!r} has codes outside its {len(values)} categories or rows.")
    values = values if (places >= 0).all() else values.astype(str)
    if values.dtype.kind in "US" and not text_fits(n, values.itemsize, n * values.itemsize):
        raise DataError(
            f"column {name!r} has texts of {values.itemsize // 4} letters for {n} cells, more than "
            "the file justifies; it is damaged or hostile."
        )
    return values[places] if (places >= 0).all() else np.where(places >= 0, values[places], "")


def _with_gaps(values: Array, is_missing: Array, name: str) -> Array:
    """Return the values with an empty string or NaN where they are missing."""
    if is_missing.dtype.kind != "b" or values.shape != is_missing.shape:
        raise DataError(f"the missing values of column {name!r} are damaged.")
    if not is_missing.any():
        return values
    return np.where(is_missing, "" if values.dtype.kind == "U" else np.nan, values)
