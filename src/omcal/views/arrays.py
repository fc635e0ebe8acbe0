"""Adapter: arrays, sparse matrices, masked arrays and lists of rows, all in memory."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.validation import check_array

from omcal.machine.arrays import Array
from omcal.views.stored import in_memory
from omcal.views.view import SEVERAL, Matrix, Table, View, require_2d

_DENSE_SHARE = 2 / 3  # share of stored entries above which a dense array is smaller


def array_table(data: Any, name: str) -> Table:
    """Open an array, a sparse matrix or a list of rows as a table."""
    if sparse.issparse(data):
        _require_sound(data, name)
        matrix = numeric_matrix(data, name)
        return Table(matrix.shape[1], lambda part, index: View(part, _picked(matrix, index)))
    array = _rows_of_lists(data) if isinstance(data, list | tuple) else in_memory(data, name)
    array = array if hasattr(array, "shape") else np.asarray(array)
    require_2d(array, name)

    def take(part: str, columns: slice | Array | None) -> View:
        picked = _picked(array, columns)
        if isinstance(picked, np.ma.MaskedArray):
            wide = np.result_type(picked.dtype, np.float32) if picked.mask.any() else picked.dtype
            picked = np.ma.filled(picked.astype(wide), np.nan)
        return View(part, numeric_matrix(picked, name))

    return Table(array.shape[1], take)


def numeric_matrix(data: Any, name: str) -> Matrix:
    """Return the data as a 2-D array of real numbers or a CSR matrix, uncopied if possible."""
    if type(data) is np.ndarray and data.dtype.kind in "biuf" and data.ndim == 2 and data.size:
        return data  # the check would take as long as the product for a small batch
    try:
        checked = check_array(
            data,
            accept_sparse="csr",
            dtype="numeric",
            ensure_all_finite=False,
            ensure_min_samples=0,
            ensure_min_features=1,
            input_name=name,
        )
        if checked.dtype == object:  # such as a category of words in a data frame
            checked = checked.astype(np.float64)
    except (ValueError, TypeError) as error:
        reason = str(error).split("\n")[0]  # the values may follow
        raise type(error)(f"view {name!r}: {reason}") from error
    return _canonical(checked) if sparse.issparse(checked) else checked


def _canonical(array: Matrix) -> Matrix:
    """Return a sparse array with every entry stored once; the user's array does not change.

    An array with few zeros becomes dense: it takes less memory and can be centred, which keeps
    distances between points far from zero accurate.
    """
    if not array.has_canonical_format:
        array = array.copy()
        array.sum_duplicates()
    return array.toarray() if array.nnz > _DENSE_SHARE * math.prod(array.shape) else array


def _rows_of_lists(rows: Any) -> Any:
    """Return a list of rows as an array; None becomes a row of NaN."""
    if any(row is None for row in rows):
        width = next((len(row) for row in rows if row is not None), 1)
        rows = [[np.nan] * width if row is None else row for row in rows]
    try:
        return np.asarray(rows)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"X is a list of {len(rows)} rows of different lengths, or of other things than "
            f"numbers; give rows of equal length. {SEVERAL}"
        ) from error


def _picked(array: Matrix, columns: slice | Array | None) -> Matrix:
    return array if columns is None else array[:, columns]


def _require_sound(array: Any, name: str) -> None:
    """Refuse a sparse matrix with indices outside its shape: SciPy would read invalid memory."""
    kind = array.format
    try:
        # The checks may reorder their argument, so they get a copy of the user's matrix.
        if kind == "coo":
            sparse.coo_array((array.data, (array.row, array.col)), array.shape)
        elif kind in ("csr", "csc", "bsr"):
            parts = (array.data, array.indices, array.indptr)
            type(array)(parts, array.shape).check_format(full_check=True)
    except ValueError as error:
        raise ValueError(
            f"view {name!r} is a damaged sparse matrix ({error}); build it anew from its entries."
        ) from error
