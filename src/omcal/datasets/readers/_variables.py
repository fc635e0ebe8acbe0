"""Combine the named arrays of npz, HDF5 and zarr files: sparse parts and splits."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
from scipy import sparse

from omcal.datasets._contents import Contents, Variable, csr_from_parts
from omcal.datasets._names import SPLITS, VIEW_TITLES, is_label_name, split_of
from omcal.views.pair import DataError

SPARSE_PARTS = ("data", "indices", "indptr")


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
