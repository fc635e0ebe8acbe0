"""Number, mean and variance of features, added up over blocks of rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from omcal.machine.arrays import Floats
from omcal.machine.compiled import moments_kernel
from omcal.views.view import Matrix, count_nonfinite

# Variance relative to the squared mean from which the difference of both sums keeps 12 digits.
_LEAST_VARIANCE = 1e-4


@dataclass(frozen=True)
class Moments:
    """Number, mean and Σ (x − mean)² of each feature in float64; two sets of rows add up."""

    n: int
    mean: Floats
    squares: Floats

    @classmethod
    def of(cls, block: Matrix, *, compiled: bool = False) -> Moments:
        """Return the moments of a small block of rows; the compiled loop makes no float64 copy."""
        n = block.shape[0]
        if sparse.issparse(block):
            values = block.data.astype(np.float64, copy=False)
            wide = sparse.csr_array((values, block.indices, block.indptr), block.shape)
            mean, variance = mean_variance_axis(wide, axis=0)
            # Scikit-learn skips NaN.
            return cls(n, mean, np.where(np.isnan(values).any(), np.nan, variance * n))
        if compiled:
            total, squares = np.zeros((2, block.shape[1]))
            origin = block[0].astype(np.float64)
            moments_kernel(block, origin, total, squares)
            return cls(n, origin + total / n, np.maximum(squares - total**2 / n, 0))
        # In float64 the result does not depend on the blocks of rows.
        wide = block.astype(np.float64, copy=False)
        mean = wide.mean(axis=0)
        of_mean = n * mean**2
        squares = np.einsum("ij,ij->j", wide, wide) - of_mean
        if (squares >= _LEAST_VARIANCE * of_mean).all():
            return cls(n, mean, squares)
        wide = wide - mean
        # A sum of many rows has many rounding errors; the second pass removes them.
        rest = wide.mean(axis=0)
        squares = np.einsum("ij,ij->j", wide, wide) - n * rest**2
        return cls(n, mean + rest, np.maximum(squares, 0))

    @classmethod
    def of_presence(cls, block: Matrix) -> Moments:
        """Return the moments of the pattern of non-zero values; only the means are right.

        If a value is not finite, the squares are not finite.
        """
        n, width = block.shape
        share = entries_per_feature(block) / max(n, 1)
        return cls(n, share, np.full(width, np.nan if any(count_nonfinite(block)) else 0.0))

    @classmethod
    def none(cls, width: int) -> Moments:
        """Return the moments of no rows."""
        return cls(0, np.zeros(width), np.zeros(width))

    def __add__(self, other: Moments) -> Moments:
        # Chan, Golub and LeVeque: no difference of large numbers.
        n = max(self.n + other.n, 1)
        delta = other.mean - self.mean
        squares = self.squares + other.squares + delta**2 * (self.n * other.n / n)
        return Moments(self.n + other.n, self.mean + delta * (other.n / n), squares)

    @property
    def variance(self) -> Floats:
        """Return the variance with ddof 1."""
        return self.squares / max(self.n - 1, 1)


def entries_per_feature(X: Matrix) -> NDArray[np.intp]:
    """Return the number of non-zero entries of each column."""
    return np.asarray(
        X.count_nonzero(axis=0) if sparse.issparse(X) else np.count_nonzero(X, axis=0)
    )
