"""Compute squared norms and distances, safe from overflow and rounding of equal samples."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.metrics import euclidean_distances
from sklearn.utils.extmath import row_norms

from omcal.machine.arrays import Floats
from omcal.views.view import Matrix


def as_floats(X: Matrix) -> Matrix:
    """Return X in float64; sparse X with 32-bit indices where possible, for scikit-learn."""
    X = X.astype(np.float64, copy=False)
    if sparse.issparse(X) and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        indices, starts = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return sparse.csr_array((X.data, indices, starts), shape=X.shape)
    return X


def centred(X: Matrix) -> Matrix:
    """Return X in float64, dense input moved to its median; no distance changes.

    A common offset costs digits in |x|² + |y|² − 2xy. Unlike the mean, the median keeps integers
    exact, so that their tied distances stay tied.
    """
    X = as_floats(X)
    return X if sparse.issparse(X) else X - np.median(X, axis=0)


def squared_norms(X: Matrix) -> Floats:
    """Return |x|² of each row; raise where their sum overflows."""
    norms: Floats = row_norms(X, squared=True)
    with np.errstate(over="ignore"):
        total = norms.sum()
    if not np.isfinite(total):
        raise ValueError("the squares of X exceed the range of float64; scale X first.")
    return norms


def squared_distances(X: Matrix, Y: Matrix) -> Floats:
    """Return the squared Euclidean distances between the rows of X and of Y; 0 below rounding."""
    x_norms, y_norms = squared_norms(X), squared_norms(Y)
    squared: Floats = euclidean_distances(
        X, Y, X_norm_squared=x_norms, Y_norm_squared=y_norms, squared=True
    )
    for row, norm in zip(squared, x_norms, strict=True):  # per row, without a second n×m array
        row[row < 64 * np.finfo(np.float64).eps * (norm + y_norms)] = 0
    return squared
