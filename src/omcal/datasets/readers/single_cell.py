"""Single-cell files, .h5ad and .h5mu, read without anndata or mudata.

Each modality is a view: its principal components where the file has them, else its matrix.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from omcal.datasets._contents import Contents, Deferred, Variable
from omcal.datasets._data import DataError, Matrix
from omcal.datasets._names import is_label_name
from omcal.datasets.readers._hdf5 import (
    H5Object,
    child,
    h5py,
    is_group,
    is_sparse,
    members,
    read_array,
    read_child,
    read_sparse,
)

PREFERRED = "X_pca"
INDEX_NAMES = {"_index", "index", "__categories"}


def is_single_cell(file: H5Object) -> bool:
    """Whether this is the file of an AnnData or MuData object."""
    names = set(file)
    return {"obs", "mod"} <= names or {"obs", "var"} <= names


def read_single_cell(file: H5Object, path: Path) -> Contents:
    """Modalities as views, columns of the observations as possible labels."""
    modalities = child(file, "mod")
    if modalities is not None:
        return _read_mudata(file, modalities, path)
    variables: dict[str, Variable] = dict(_columns(_table(file)))
    places = _representations(file)
    variables |= {name: Deferred(partial(_load, path, at)) for name, at in places.items()}
    # By convention obsm/X_... is computed from X; whatever else is there was measured.
    measured = [name for name in places if not name.startswith("X")]
    return Contents("AnnData (h5ad)", variables, default_views=(*_best(places), *measured))


def _read_mudata(file: H5Object, modalities: H5Object, path: Path) -> Contents:
    common = _table(file)
    variables: dict[str, Variable] = dict(_columns(common))
    labelled = any(is_label_name(name) for name in variables)
    n = _n_observations(common)
    presence: dict[str, NDArray] = {}
    default: list[str] = []
    for modality, group in members(modalities):
        position = _positions(file, modality, _n_observations(_table(group)), n)
        places = _representations(group)
        best = _best(places)
        default += [modality] * len(best)
        for name, at in places.items():
            view = modality if name in best else f"{modality}/{name}"
            variables[view] = Deferred(partial(_load, path, at, position))
            presence[view] = position >= 0
        if not labelled:
            for name, column in _columns(_table(group)).items():
                variables[f"{modality}:{name}"] = _spread(column, position)
    return Contents("MuData (h5mu)", variables, default_views=tuple(default), presence=presence)


def _table(group: H5Object) -> H5Object:
    """The table of observations of a file or modality."""
    table = child(group, "obs")
    if table is None or not is_group(table):
        raise DataError(
            f"{group.name!r} has no table 'obs' in the layout used since 2020; save the file again "
            "with a newer anndata."
        )
    return table


def _representations(group: H5Object) -> dict[str, str]:
    """Name -> place in the file of every matrix of the observations."""
    found = dict(members(group["obsm"])) if is_group(child(group, "obsm")) else {}
    X = child(group, "X")
    items = {**({} if X is None else {"X": X}), **found}
    return {
        name: str(item.name) for name, item in items.items() if is_group(item) or item.ndim == 2
    }


def _best(places: dict[str, str]) -> list[str]:
    return [name for name in (PREFERRED, "X") if name in places][:1]


def _load(path: Path, place: str, position: NDArray | None = None) -> Matrix:
    with h5py().File(path, "r") as file:
        item = file[place]
        if is_sparse(item):
            matrix = read_sparse(item)
        elif is_group(item):
            columns = [column for column in _columns(item).values() if column.dtype.kind in "biuf"]
            matrix = np.column_stack(columns) if columns else None
        else:
            matrix = read_array(item)
    if matrix is None or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise DataError(f"{place!r} is no matrix of numbers; choose another with views=[...].")
    return matrix if position is None else _spread_rows(matrix, position, place)


def _spread_rows(matrix: Matrix, position: NDArray, place: str) -> Matrix:
    """The rows in the common order; absent cells get NaN, or zeros in a sparse matrix."""
    if position.max(initial=-1) >= matrix.shape[0]:
        raise DataError(f"{place!r} has fewer rows than its modality has cells.")
    present = position >= 0
    if np.array_equal(position, np.arange(matrix.shape[0])):
        return matrix
    if sparse.issparse(matrix):
        rows = np.flatnonzero(present)
        places = (np.ones(len(rows), dtype=matrix.dtype), (rows, position[rows]))
        picker = sparse.csr_array(places, shape=(len(position), matrix.shape[0]))
        return picker @ matrix
    spread = np.full((len(position), matrix.shape[1]), np.nan, np.result_type(matrix, np.float32))
    spread[present] = matrix[position[present]]
    return spread


def _spread(column: NDArray, position: NDArray) -> NDArray:
    """A column of a modality in the common order; an absent cell has the empty string."""
    if position.max(initial=-1) >= len(column):
        raise DataError("a column of a modality is shorter than the modality has cells.")
    if (position >= 0).all():
        return column[position]
    return np.where(position >= 0, column[position].astype(str), "")


def _positions(file: H5Object, modality: str, n_here: int, n: int) -> NDArray:
    """For each cell of the file its row in the modality, -1 where it is absent."""
    maps, masks = child(file, "obsmap"), child(file, "obsm")
    if is_group(maps) and modality in maps:
        position = read_child(maps, modality).reshape(-1).astype(np.int64) - 1  # 0 is absent
    elif is_group(masks) and modality in masks:
        present = read_child(masks, modality).reshape(-1).astype(bool)
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


def _n_observations(table: H5Object) -> int:
    """The number of cells: the length of any column of the table."""
    for _, item in members(table):
        column = child(item, "codes") if is_group(item) else item
        if column is not None and not is_group(column) and column.shape:
            return int(column.shape[0])
    raise DataError(f"the table {table.name!r} is empty.")


def _columns(table: H5Object) -> dict[str, NDArray]:
    """The columns of a stored data frame; categories are spelled out."""
    columns = {}
    # Files of 2020 and 2021 keep the categories of all columns in one place.
    shared = child(table, "__categories")
    for name, item in members(table):
        if name in INDEX_NAMES:
            continue
        column: NDArray | None = None
        if is_group(item) and "codes" in item:
            column = _spelled_out(read_child(item, "codes"), read_child(item, "categories"), name)
        elif not is_group(item):
            column = read_array(item)
            if column is not None and is_group(shared) and name in shared:
                column = _spelled_out(column, read_child(shared, name), name)
        if column is not None and column.ndim == 1:
            columns[name] = column
    return columns


def _spelled_out(codes: NDArray, categories: NDArray, name: str) -> NDArray:
    """Categories by their codes; -1 is a missing value, an empty string."""
    if codes.dtype.kind not in "iu" or categories.ndim != 1:
        raise DataError(f"the categories of column {name!r} are damaged.")
    if codes.min(initial=0) < -1 or codes.max(initial=-1) >= len(categories):
        raise DataError(f"column {name!r} has codes outside its {len(categories)} categories.")
    if (codes >= 0).all():
        return categories[codes]
    return np.where(codes >= 0, categories.astype(str)[codes], "")
