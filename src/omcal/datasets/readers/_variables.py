"""What named arrays have in common in npz, HDF5 and zarr files: sparse parts and splits."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from omcal.datasets._contents import Variable, csr_from_parts
from omcal.datasets._data import DataError
from omcal.datasets._names import SPLITS, split_of

_SPARSE_PARTS = ("data", "indices", "indptr", "shape")


def gather(variables: dict[str, Variable]) -> dict[str, Variable]:
    """Build the sparse matrices, then put the parts of a data set together."""
    return join_splits(gather_sparse(variables))


def gather_sparse(variables: dict[str, Variable]) -> dict[str, Variable]:
    """Replace each group of ``*data, *indices, *indptr, *shape`` by the matrix it stands for.

    A group may have a ``*format``, as in the files of `scipy.sparse.save_npz`; without one it is
    taken to be CSR. The matrix has the name of the group, or "X" where there is none.
    """
    left = dict(variables)
    stems = [name.removesuffix("indptr") for name in variables if name.endswith("indptr")]
    for stem in stems:
        if any(stem + part not in variables for part in _SPARSE_PARTS):
            continue
        values, indices, pointers, shape = (left.pop(stem + part) for part in _SPARSE_PARTS)
        layout = _text(left.pop(stem + "format", "csr"))
        left.pop(stem + "_is_array", None)
        if layout not in ("csr", "csc") or np.shape(shape) != (2,):
            raise DataError(f"a sparse matrix is stored as {layout!r}; store it as CSR.")
        name = stem.rstrip("._/-") or "X"
        left[name] = csr_from_parts(values, indices, pointers, shape, by_column=layout == "csc")
    for name, value in left.items():
        if name.endswith("format") and _text(value) in ("coo", "dia", "bsr"):
            raise DataError(f"a sparse matrix is stored as {_text(value)!r}; store it as CSR.")
    return left


def _text(value: Any) -> str:
    """SciPy keeps the format as a string of bytes in an array without dimensions."""
    item = value.item() if isinstance(value, np.ndarray) and value.size == 1 else value
    return item.decode("ascii", "replace") if isinstance(item, bytes) else str(item)


def join_splits(variables: dict[str, Variable]) -> dict[str, Variable]:
    """Put ``train/data`` above ``test/data`` as ``data``, and the same for ``x_train, x_test``.

    Only where every split holds the same variables; otherwise nothing is joined.
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
    if len(contents) != 1 or contents.pop() & set(others):
        return variables
    order = sorted(parts, key=SPLITS.index)
    joined = {
        rest: _stacked(rest, [parts[split][rest] for split in order]) for rest in parts[order[0]]
    }
    return {**joined, **others}


def _stacked(name: str, pieces: list[Variable]) -> Variable:
    if any(isinstance(piece, list) for piece in pieces):
        raise DataError(f"the parts of {name!r} are lists and cannot be put together.")
    if len({piece.shape[1:] for piece in pieces}) != 1:
        shapes = [piece.shape for piece in pieces]
        raise DataError(f"the parts of {name!r} have different widths: {shapes}.")
    if any(sparse.issparse(piece) for piece in pieces):
        return sparse.vstack(pieces, format="csr")
    return np.concatenate(pieces)
