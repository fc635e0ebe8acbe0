"""Orthogonal factors and scalings of whole views."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from omcal.scaling import Scaling
from omcal.views import Matrix, View


def procrustes(N: NDArray) -> NDArray[np.float64]:
    """The G with orthonormal columns (rows, where N is wide) that maximises tr(GᵀN).

    A zero matrix, for which every G is optimal, gives the first columns of the identity.
    """
    if not np.any(N):
        return np.eye(*N.shape)
    U, _, Vt = np.linalg.svd(N, full_matrices=False)
    return U @ Vt


def standardize_samples(X: Matrix) -> Matrix:
    """z-score of each row (ddof 1); constant rows become 0, sparse rows are only divided."""
    return Scaling(per_sample=True).apply(X.astype(np.float64))


def standardize_features(X: Matrix) -> Matrix:
    """z-score of each column (ddof 1); constant columns become 0, sparse ones are only divided."""
    X = X.astype(np.float64)
    return Scaling.fit(View("X", X), "feature").apply(X)


def minmax_features(X: Matrix) -> Matrix:
    """Each column to [0, 1], constant ones to 0; CSR only where every column has minimum 0."""
    X = X.astype(np.float64)
    if sparse.issparse(X):
        low, high = X.min(axis=0).toarray().ravel(), X.max(axis=0).toarray().ravel()
        if low.any():
            X = X.toarray()
    else:
        low, high = X.min(axis=0), X.max(axis=0)
    width = high - low
    factor = np.where(width > 0, 1.0 / np.where(width > 0, width, 1.0), 0.0)
    if sparse.issparse(X):
        return sparse.csr_array(X @ sparse.diags_array(factor))
    return (X - low) * factor
