"""Read trees of arrays: sparse parts and splits; AnnData and MuData, without anndata or mudata.

Each modality is a view: its principal components if the file has them, else its matrix.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol, TypeAlias

import numpy as np
from scipy import sparse

from omcal.datasets._columns import SPLITS, VIEW_TITLES, is_label_name, scale_of_key, split_of
from omcal.datasets._data import Contents, Matrix, Variable, csr_from_parts, spread_rows, text_fits
from omcal.machine.arrays import Array
from omcal.views.frames import Columns, as_column
from omcal.views.mixed import stacked
from omcal.views.pair import DataError, Ids, as_text

SPARSE_PARTS = ("data", "indices", "indptr")
MAX_OBJECTS = 20_000
MAX_DEPTH = 8
PREFERRED = "X_pca"
INDEX_NAMES = {"_index", "index", "__categories"}


class Node(Protocol):
    """A group or an array at a place (a path) in a file; only arrays have a shape.

    `attribute` returns None if the node has none of this name. `read` returns the numbers or
    strings of an array, None for other nodes. Two nodes of the same object are equal.
    """

    @property
    def place(self) -> str: ...
    @property
    def shape(self) -> tuple[int, ...] | None: ...
    def attribute(self, name: str) -> Any: ...
    def children(self) -> dict[str, Node]: ...
    def read(self) -> Array | None: ...


def read_tree(
    group: Node, prefix: str = "", known: set[Node] | None = None, depth: int = 0
) -> dict[str, Variable]:
    """Read the arrays and sparse matrices below a group, by path; linked objects only once."""
    known = set() if known is None else known
    if depth > MAX_DEPTH:
        raise DataError(f"the groups are nested more than {MAX_DEPTH} deep.")
    variables: dict[str, Variable] = {}
    for name, item in group.children().items():
        if item in known:
            continue
        known.add(item)
        if len(known) > MAX_OBJECTS:
            raise DataError(f"it holds more than {MAX_OBJECTS} objects.")
        if is_sparse(item):
            variables[prefix + name] = read_sparse(item)
        elif item.shape is None:
            variables |= read_tree(item, f"{prefix}{name}/", known, depth + 1)
        elif (array := item.read()) is not None:
            variables[prefix + name] = array
    return variables


def is_sparse(node: Node) -> bool:
    """Whether a node is a group that holds a compressed sparse matrix."""
    return set(SPARSE_PARTS) <= set(node.children())


def read_sparse(group: Node) -> Matrix:
    """Read the matrix in a group of data, indices and indptr, whose shape is an attribute."""
    values, indices, pointers = (read_part(group, part) for part in SPARSE_PARTS)
    shape = group.attribute("shape")
    shape = group.attribute("h5sparse_shape") if shape is None else shape
    shape = read_part(group, "shape") if shape is None else shape
    if np.shape(shape) != (2,):
        raise DataError(f"the sparse matrix {group.place!r} has no shape.")
    by_row, by_column = (len(pointers) == int(size) + 1 for size in shape)
    if by_row and by_column:  # only a square matrix needs the encoding name
        by_column = "csc" in str(group.attribute("encoding-type"))
    return csr_from_parts(values, indices, pointers, shape, by_column=by_column)


def read_part(group: Node, name: str) -> Array:
    """Read the numbers or strings of a required array of a group."""
    part = group.children().get(name)
    array = None if part is None else part.read()
    if array is None:
        raise DataError(f"{group.place!r} has no usable {name!r}; the file is damaged.")
    return array


def gather(file_format: str, variables: dict[str, Variable]) -> Contents:
    """Return the contents of a file, with sparse matrices built and splits concatenated.

    If the file lists its views, none of them is taken for a part of a sparse matrix or a split.
    """
    titles = [
        str(title)
        for name, value in variables.items()
        if name.lower() in VIEW_TITLES and isinstance(value, np.ndarray) and value.ndim == 1
        for title in value.tolist()
    ]
    whole = gather_sparse(variables, keep=set(titles))
    if titles and set(titles) <= set(whole):
        return Contents(file_format, whole)
    joined = join_splits(whole)
    notes = () if joined is whole else ("train and test were concatenated, in this order",)
    return Contents(file_format, joined, notes=notes)


def gather_sparse(
    variables: dict[str, Variable], keep: Collection[str] = ()
) -> dict[str, Variable]:
    """Replace each group of ``*data, *indices, *indptr, *shape`` by the sparse matrix it stores.

    A group may have a ``*format``, as in the files of `scipy.sparse.save_npz`; the default is CSR.
    The matrix has the name of the group, or "X" if there is none. Names in `keep` are never parts.
    """
    left = dict(variables)
    stems = [name.removesuffix("indptr") for name in variables if name.endswith("indptr")]
    for stem in stems:
        parts = {stem + part for part in (*SPARSE_PARTS, "shape")}
        if not parts <= set(variables) or parts & set(keep):
            continue
        values, indices, pointers, shape = (
            left.pop(stem + part) for part in (*SPARSE_PARTS, "shape")
        )
        layout = _text(left.pop(stem + "format", "csr"))
        left.pop(stem + "_is_array", None)
        if layout not in ("csr", "csc") or np.shape(shape) != (2,):
            raise DataError(f"a sparse matrix is stored as {layout!r}; store it as CSR.")
        name = (stem[:-1] if stem.endswith((".", "_", "/", "-")) else stem) or "X"
        left[name] = csr_from_parts(values, indices, pointers, shape, by_column=layout == "csc")
    for name, value in left.items():
        if name.endswith("format") and _text(value) in ("coo", "dia", "bsr"):
            raise DataError(f"a sparse matrix is stored as {_text(value)!r}; store it as CSR.")
    return left


def _text(value: Any) -> str:
    """Return the format name, which SciPy stores as bytes in a 0-D array."""
    item = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return item.decode("ascii", "replace") if isinstance(item, bytes) else str(item)


def join_splits(variables: dict[str, Variable]) -> dict[str, Variable]:
    """Concatenate ``train/data`` and ``test/data`` as ``data``, likewise ``x_train, x_test``.

    Splits are concatenated only if all hold the same variables and they cannot be views of the same
    samples: their lengths differ, or each has labels of its own.
    """
    parts: dict[str, dict[str, Variable]] = {}
    others: dict[str, Variable] = {}
    for name, value in variables.items():
        found = split_of(name)
        if found is None:
            others[name] = value
        else:
            parts.setdefault(found[0], {})[found[1]] = value
    contents = {frozenset(part) for part in parts.values()}
    if len(contents) != 1 or contents.pop() & set(others) or not _are_parts(parts):
        return variables
    order = sorted(parts, key=SPLITS.index)
    joined = {
        rest: _stacked(rest, [parts[split][rest] for split in order]) for rest in parts[order[0]]
    }
    return {**joined, **others}


def _are_parts(parts: dict[str, dict[str, Variable]]) -> bool:
    """Whether splits with the same variables are parts of one data set."""
    first, *others = parts.values()
    return bool(others) and (
        any(is_label_name(name) for name in first)
        or any(
            np.shape(other[name])[:1] != np.shape(first[name])[:1]
            for other in others
            for name in first
        )
    )


def _stacked(name: str, pieces: list[Variable]) -> Variable:
    if any(isinstance(piece, list) for piece in pieces):
        raise DataError(f"the parts of {name!r} are lists and cannot be concatenated.")
    if len({piece.shape[1:] for piece in pieces}) != 1:
        shapes = [piece.shape for piece in pieces]
        raise DataError(f"the parts of {name!r} have different widths: {shapes}.")
    if any(sparse.issparse(piece) for piece in pieces):
        return sparse.vstack(pieces, format="csr")
    return np.concatenate(pieces)


Reopen: TypeAlias = Callable[[str], AbstractContextManager[Node]]


def is_computed(name: str) -> bool:
    """Whether a matrix is X or, by its name, was computed from X."""
    return name == "X" or name.startswith("X_")


def is_single_cell(names: Iterable[str]) -> bool:
    """Whether the objects in a file have the names of the parts of AnnData or MuData."""
    found = set(names)
    return {"obs", "mod"} <= found or {"obs", "var"} <= found


def read_single_cell(root: Node, reopen: Reopen, container: str) -> Contents:
    """Read modalities as views, and columns of the observations as possible labels.

    AnnData is a single modality without a name; each of its matrices is a view. `reopen` returns
    the node at a place later, when its view is chosen.
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
    """Return the index of the observations; None if it is row numbers or has duplicates."""
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
            # A data frame is a table like any other.
            table = Columns({name: as_column(v) for name, v in _columns(node).items()})
            matrix = stacked(table) if table.values else None
        else:
            matrix = node.read()
    if matrix is None or matrix.ndim != 2 or matrix.dtype.kind not in "biuf":
        raise DataError(f"{place!r} is not a matrix of numbers; choose another with views=[...].")
    if position is not None and position.max(initial=-1) >= matrix.shape[0]:
        raise DataError(f"{place!r} has fewer rows than its modality has cells.")
    return matrix if position is None else spread_rows(matrix, position)


def _positions(root: Node, modality: str, group: Node) -> Array:
    """Return for each cell of the file its row in the modality; -1 if it is absent."""
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
    """Return a required array of a group, flattened."""
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
    """Return the values (categories or rows) at these positions; at -1 an empty text.

    Texts that are long enough to fill the memory are refused.
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
    """Return the values, with an empty string or NaN for missing ones."""
    if is_missing.dtype.kind != "b" or values.shape != is_missing.shape:
        raise DataError(f"the missing values of column {name!r} are damaged.")
    if not is_missing.any():
        return values
    return np.where(is_missing, "" if values.dtype.kind == "U" else np.nan, values)
