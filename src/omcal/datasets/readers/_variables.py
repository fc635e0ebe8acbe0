"""Read trees of arrays, and combine named arrays: sparse parts and splits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from omcal.datasets._columns import SPLITS, VIEW_TITLES, is_label_name, split_of
from omcal.datasets._contents import Contents, Variable, csr_from_parts
from omcal.datasets._data import Matrix
from omcal.machine.arrays import Array
from omcal.views.pair import DataError

SPARSE_PARTS = ("data", "indices", "indptr")
MAX_OBJECTS = 20_000
MAX_DEPTH = 8


class Node(Protocol):
    """A group or an array at a place (a path) in a file; only arrays have a shape.

    `attribute` is None where the node has none of this name. `read` gives the numbers or strings of
    an array, None for others. Two nodes of the same object are equal.
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
    """Read the arrays and sparse matrices below a group by path, each once despite links."""
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
        raise DataError(f"the sparse matrix {group.place!r} does not say its shape.")
    by_row, by_column = (len(pointers) == int(size) + 1 for size in shape)
    if by_row and by_column:  # only a square matrix needs the encoding name
        by_column = "csc" in str(group.attribute("encoding-type"))
    return csr_from_parts(values, indices, pointers, shape, by_column=by_column)


def read_part(group: Node, name: str) -> Array:
    """Read the numbers or strings of an array that must be in a group."""
    part = group.children().get(name)
    array = None if part is None else part.read()
    if array is None:
        raise DataError(f"{group.place!r} has no usable {name!r}; the file is damaged.")
    return array


def gather(file_format: str, variables: dict[str, Variable]) -> Contents:
    """Return the contents of a file, with sparse matrices built and splits concatenated.

    Where the file lists its views, no listed view is treated as a part.
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
    notes = () if joined is whole else ("train and test were put together, in this order",)
    return Contents(file_format, joined, notes=notes)


def gather_sparse(
    variables: dict[str, Variable], keep: Collection[str] = ()
) -> dict[str, Variable]:
    """Replace each group of ``*data, *indices, *indptr, *shape`` by the sparse matrix it stores.

    A group may have a ``*format``, as in the files of `scipy.sparse.save_npz`; without one it is
    taken to be CSR. The matrix has the name of the group, or "X" where there is none. Names in
    `keep` are no parts.
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

    Only where every split holds the same variables, and where they cannot be views of the same
    samples: they differ in length, or each has labels of its own. Else nothing is joined.
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
    """Whether splits that hold the same variables are parts of one data set."""
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
