"""Reduce wide data to at most n columns without changing distances."""

from __future__ import annotations

import numpy as np
from scipy import linalg
from sklearn.utils.extmath import safe_sparse_dot

from omcal.baselines._base import copy_bytes
from omcal.baselines._distances import centred, squared_norms
from omcal.views.view import Matrix, Views


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
