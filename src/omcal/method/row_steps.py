"""Transformations of each row before features are centred and weighted."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from omcal.machine.arrays import Array, Floats
from omcal.views.view import Matrix

RowStep = Literal["standard", "unit"]


def damped(block: Matrix, unit: Array) -> Matrix:
    """Return sign(x) · log(1 + |x| / unit), with one unit per feature."""
    values = block.data if sparse.issparse(block) else block
    if (unit != 1).any():
        each = unit.take(block.indices) if sparse.issparse(block) else unit
        values = values / each.astype(block.dtype)
    counts = values.min(initial=0.0) >= 0
    found = _log1p(values) if counts else np.copysign(_log1p(np.abs(values)), values)
    return _with_values(block, found) if sparse.issparse(block) else found


def _log1p(sizes: Array) -> Array:
    """Return log(1 + x); of small whole numbers, such as counts, from a table."""
    with np.errstate(invalid="ignore"):
        whole = sizes.astype(np.uint8)
    if np.array_equal(whole, sizes):
        # `take` is three times as fast as indexing, with small integer types.
        return np.asarray(np.log1p(np.arange(256, dtype=sizes.dtype)).take(whole))
    return np.log1p(sizes)


def weighted(block: Matrix, weight: Array) -> Matrix:
    """Return each feature times its weight."""
    if sparse.issparse(block):
        alike = weight.size > 0 and (weight == weight[0]).all()
        each = weight[0] if alike else weight.astype(block.dtype).take(block.indices)
        return _with_values(block, block.data * each.astype(block.dtype))
    return block * weight.astype(block.dtype)


def unit_rows(block: Matrix) -> Matrix:
    """Return each row divided by its length; a zero row stays zero."""
    block = _squarable(block)
    if sparse.issparse(block):
        stored = np.diff(block.indptr)
        filled = stored > 0
        squares = np.square(block.data, dtype=np.float64)
        inverse = inverse_root(np.add.reduceat(squares, block.indptr[:-1][filled]))
        each = np.repeat(inverse.astype(block.dtype), stored[filled])
        return _with_values(block, block.data * each)
    inverse = inverse_root(np.einsum("ij,ij->i", block, block, dtype=np.float64))
    return block * inverse.astype(block.dtype)[:, None]


def _squarable(block: Matrix) -> Matrix:
    """Return the block, with rows divided by their largest value if squares would overflow.

    The lengths of rows have no effect on either step.
    """
    values = block.data if sparse.issparse(block) else block
    largest = max(values.max(initial=0.0), -values.min(initial=0.0))
    limit = np.sqrt(np.finfo(np.float64).max) / max(block.shape[1], 1)
    if largest <= limit or not np.isfinite(largest):  # a row with infinity must not become zero
        return block
    sizes = abs(block).max(axis=1)
    if sparse.issparse(block):
        inverse = 1.0 / np.maximum(sizes.toarray().ravel(), 1.0)
        return (sparse.diags_array(inverse) @ block).tocsr()
    return block / np.maximum(sizes, 1.0)[:, None]


def _with_values(block: Matrix, values: Array) -> Matrix:
    return type(block)((values, block.indices, block.indptr), shape=block.shape)


def standard_rows(block: Matrix) -> Matrix:
    """Return the z-score of each row (ddof 1); sparse rows are only divided, constant ones 0."""
    block = _squarable(block)
    if sparse.issparse(block):
        return sparse.diags_array(_sparse_row_factors(block).astype(block.dtype)) @ block
    width = block.shape[1]
    centred = block - block.mean(axis=1, keepdims=True, dtype=np.float64).astype(block.dtype)
    # Twice, because the first mean of a wide row has many rounding errors.
    centred -= centred.mean(axis=1, keepdims=True, dtype=np.float64).astype(block.dtype)
    variance = np.einsum("ij,ij->i", centred, centred, dtype=np.float64) / max(width - 1, 1)
    # What remains of a constant row is rounding error, not a direction.
    size = np.abs(block).max(axis=1).astype(np.float64)
    variance[variance <= (np.finfo(block.dtype).eps * size) ** 2] = 0
    centred *= inverse_root(variance).astype(block.dtype)[:, None]
    return centred


def _sparse_row_factors(block: Matrix) -> Floats:
    """Return 1 / standard deviation of each row, zeros included; 0 for constant rows."""
    width = block.shape[1]
    mean, variance = mean_variance_axis(block.astype(np.float64, copy=False), axis=1)
    variance *= width / max(width - 1, 1)
    variance[variance <= (width * np.finfo(np.float64).eps * mean) ** 2] = 0
    return inverse_root(variance)


def inverse_root(variance: Array) -> Array:
    """Return 1 / √variance, and 0 where it is not positive."""
    positive = variance > 0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, variance, 1.0)), 0.0)
