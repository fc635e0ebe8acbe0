"""Per-view scaling: fitted once, then folded into products with the rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from omcal.views import Matrix, View, row_blocks

Scale = Literal["feature", "sample", "view"] | None
SCALES = ("feature", "sample", "view", None)

_BLOCK_ENTRIES = 1 << 20


@dataclass(frozen=True)
class Scaling:
    """x -> (standardise(x) - center) * factor, where only "sample" standardises each row.

    `center` and `factor` have one float64 entry a feature; None means 0 and 1.
    """

    per_sample: bool = False
    center: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    @classmethod
    def fit(cls, view: View, scale: Scale) -> Scaling:
        """Read what `scale` needs from the view.

        "feature": z-score of each feature (ddof 1), constant features to 0; sparse input is not
        centred. "sample": z-score of each sample (ddof 1); sparse input is only divided. "view":
        one factor that makes the total variance 1. None: the data as they are.
        """
        if scale is None:
            return cls()
        if scale == "sample":
            return cls(per_sample=True)
        mean, variance = _moments(view)
        if scale == "feature":
            deviation = np.sqrt(variance)
            # Rounding leaves a constant feature of size x with a deviation of about eps·x.
            constant = deviation <= 1e-14 * np.abs(mean)
            factor = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation))
            return cls(center=None if view.sparse else mean, factor=factor)
        total = np.sqrt(variance.sum())
        return cls(factor=np.full(view.width, 1.0 / total if total > 0 else 1.0))

    def standardise(self, block: Matrix) -> Matrix:
        """The part of the scaling that depends on the row; the block itself where there is none."""
        return _standardise_rows(block) if self.per_sample else block

    def apply(self, block: Matrix) -> Matrix:
        """Scaled copy of a block of rows, in its own floating type."""
        block = self.standardise(block)
        if self.factor is None:
            return block
        factor = self.factor.astype(block.dtype)
        if sparse.issparse(block):
            return block @ sparse.diags_array(factor)
        if self.center is None:
            return block * factor
        return (block - self.center.astype(block.dtype)) * factor

    def fold(self, W: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(W', b) such that apply(x)·W == standardise(x)·W' + b, for W with a row a feature."""
        folded = W if self.factor is None else W * self.factor[:, None]
        shift = np.zeros(W.shape[1]) if self.center is None else -(self.center @ folded)
        return folded, shift


def _moments(view: View) -> tuple[NDArray, NDArray]:
    """Mean and variance (ddof 1) of each feature, in float64, by blocks of rows."""
    n = view.array.shape[0]
    if view.sparse:
        array = view.array.astype(np.float64, copy=False)
        mean, variance = mean_variance_axis(array, axis=0)
        return mean, variance * n / max(n - 1, 1)
    mean = np.zeros(view.width)
    squares = np.zeros(view.width)  # Σ (x - mean)², merged block by block (Chan et al.)
    seen = 0
    for rows in row_blocks(n, max(1, _BLOCK_ENTRIES // view.width)):
        block = view.rows(rows)
        size = block.shape[0]
        block_mean = block.mean(axis=0, dtype=np.float64)
        centred = block - block_mean.astype(block.dtype)
        # The rounded mean leaves a small remainder; its square is taken out again.
        rest = centred.mean(axis=0, dtype=np.float64)
        block_mean = block_mean.astype(block.dtype).astype(np.float64) + rest
        block_squares = np.einsum("ij,ij->j", centred, centred, dtype=np.float64) - size * rest**2
        delta = block_mean - mean
        total = seen + size
        squares += np.maximum(block_squares, 0) + delta**2 * (seen * size / total)
        mean += delta * (size / total)
        seen = total
    return mean, squares / max(n - 1, 1)


def _standardise_rows(block: Matrix) -> Matrix:
    """z-score of each row (ddof 1); sparse rows are only divided, constant rows become 0."""
    if sparse.issparse(block):
        return sparse.diags_array(_sparse_row_factors(block).astype(block.dtype)) @ block
    width = block.shape[1]
    centred = block - block.mean(axis=1, keepdims=True, dtype=np.float64).astype(block.dtype)
    # Twice, because the first mean of a wide row is off by many roundings.
    centred -= centred.mean(axis=1, keepdims=True, dtype=np.float64).astype(block.dtype)
    variance = np.einsum("ij,ij->i", centred, centred, dtype=np.float64) / max(width - 1, 1)
    # What is left of a constant row is rounding, not a direction.
    size = np.abs(block).max(axis=1).astype(np.float64)
    variance[variance <= (4 * np.finfo(block.dtype).eps * size) ** 2] = 0
    centred *= _inverse_root(variance).astype(block.dtype)[:, None]
    return centred


def _sparse_row_factors(block: Matrix) -> NDArray[np.float64]:
    """1 / standard deviation of each row, its zeros counted; 0 for constant rows."""
    n, width = block.shape
    stored = np.diff(block.indptr)
    row = np.repeat(np.arange(n), stored)
    values = block.data.astype(np.float64)
    mean = np.bincount(row, values, minlength=n) / width
    squares = np.bincount(row, np.square(values - mean[row]), minlength=n)
    squares += (width - stored) * mean**2
    variance = squares / max(width - 1, 1)
    variance[variance <= (width * np.finfo(np.float64).eps * mean) ** 2] = 0
    return _inverse_root(variance)


def _inverse_root(variance: NDArray) -> NDArray:
    positive = variance > 0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, variance, 1.0)), 0.0)
