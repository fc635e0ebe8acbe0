"""Compute squared norms and distances, safe from overflow and rounding of equal samples.

Wide data is reduced to at most n columns without a change of distances.
"""

from __future__ import annotations

import numpy as np
from scipy import linalg, sparse
from sklearn.metrics import euclidean_distances
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from omcal.machine.arrays import Floats
from omcal.views.view import Matrix, Views


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


def copy_bytes(views: Views) -> int:
    """Return the bytes of a float64 copy of all views; 16 per entry of sparse ones."""
    return sum(16 * v.array.nnz if v.sparse else 8 * v.array.size for v in views)


def narrow_bytes(views: Views) -> float:
    """Return the bytes that `narrow` needs: a centred copy and, for wide data, three n×n arrays."""
    n, d = views.n, views.widths[0]
    return copy_bytes(views) + (8 * 3.0 * n**2 if d > n else 0.0)


def narrow(X: Matrix) -> Matrix:
    """Return X or, where it has more columns than rows, an image of it with at most n columns.

    Both have the pairwise distances of X, to rounding. The image is E diag(√w), dense, from the
    Gram matrix X Xᵀ = E diag(w) Eᵀ. For methods that see samples through distances and means.
    """
    n, d = X.shape
    X = centred(X)
    squared_norms(X)  # raises on overflow
    if d <= n:
        return X
    values, vectors = linalg.eigh(safe_sparse_dot(X, X.T, dense_output=True))
    # Eigenvalues up to this are rounding. The last, largest, stays even where all are 0.
    rounding = n * np.finfo(np.float64).eps * values[-1]
    first = min(int(np.searchsorted(values, rounding, side="right")), n - 1)
    return vectors[:, first:] * np.sqrt(np.maximum(values[first:], 0))
