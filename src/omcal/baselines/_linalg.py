"""Compute factors and norms, scale or join views, and represent partitions as matrices."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import maxabs_scale
from sklearn.utils.extmath import safe_sparse_dot

from omcal.baselines._distances import as_floats, squared_norms
from omcal.machine.arrays import Array, Floats
from omcal.method.scaling import Scale, Scaling
from omcal.views.view import Matrix, View


def procrustes(N: Array) -> Floats:
    """Return the G with orthonormal columns (rows, where N is wide) that maximises tr(GᵀN).

    A zero matrix, for which every G is optimal, gives the first columns of the identity.
    """
    if not np.any(N):
        return np.eye(*N.shape)
    U, _, Vt = np.linalg.svd(N, full_matrices=False)
    return np.asarray(U @ Vt)


def sum_of_squares(M: Any) -> float:
    """Return |M|², the squared Frobenius norm of an array."""
    return float(np.vdot(M, M))


def inverse_root(d: Array) -> Floats:
    """Return 1 / √d, and 0 where d is not positive."""
    positive = d > 0
    return np.where(positive, 1 / np.sqrt(np.where(positive, d, 1.0)), 0.0)


def scaled(X: Matrix, scale: Scale) -> Matrix:
    """Return the features of one view in float64, scaled; raise where their squares overflow."""
    X = as_floats(X)
    squared_norms(X)
    found = Scaling.fit(View("X", X), scale).apply(X)
    return as_floats(found) if sparse.issparse(found) else found


def minmax_features(X: Matrix) -> Matrix:
    """Scale each column to [0, 1], constant ones to 0; CSR only where all minima are 0."""
    X = X.astype(np.float64)
    if sparse.issparse(X):
        if X.min(axis=0).nnz == 0:
            return maxabs_scale(X)
        X = X.toarray()
    width = np.ptp(X, axis=0)
    return (X - X.min(axis=0)) / np.where(width > 0, width, 1.0)


def side_by_side(arrays: list[Matrix]) -> Matrix:
    """Concatenate the columns; CSR where one of the arrays is sparse."""
    if any(sparse.issparse(array) for array in arrays):
        return sparse.csr_array(sparse.hstack(arrays, format="csr"))
    return np.hstack(arrays)


def standardized(X: Array) -> Floats:
    """Return the z-score of each sample; of each feature where there are at most two features.

    With one feature the z-score of a sample is constant, with two it keeps only their order.
    """
    return np.asarray(scaled(X, "sample" if X.shape[1] > 2 else "feature"))


def left_singular_vectors(Z: Array, count: int) -> Floats:
    """Return the leading left singular vectors, at most `count`; 0 for singular value 0."""
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    # The vectors of a zero singular value are arbitrary.
    present = s > max(Z.shape) * np.finfo(np.float64).eps * s[0]
    return np.asarray((U * present)[:, :count])


def one_hot(labels: Array, n_clusters: int) -> sparse.csr_array:
    """Return the n×c matrix with a 1 at the label of each row."""
    return sparse_rows(labels[:, None], np.ones((len(labels), 1)), n_clusters)


def sparse_rows(columns: Array, weights: Array, width: int) -> sparse.csr_array:
    """Return the matrix of this width with weights[i, j] in row i, column columns[i, j]."""
    n, k = columns.shape
    starts = np.arange(0, n * k + 1, k)
    return sparse.csr_array((weights.ravel(), columns.ravel(), starts), shape=(n, width))


def row_sums(X: Matrix, labels: Array, n_clusters: int) -> Floats:
    """Return the sum of the rows of X in each cluster: c×d, dense."""
    return np.asarray(safe_sparse_dot(one_hot(labels, n_clusters).T, X, dense_output=True))


def column_sums(X: Matrix, labels: Array, n_clusters: int) -> Floats:
    """Return the sum of the columns of X in each cluster: n×c, dense."""
    return np.asarray(safe_sparse_dot(X, one_hot(labels, n_clusters), dense_output=True))


def refill_empty(labels: Array, errors: Array, n_clusters: int) -> Array:
    """Give each empty cluster the row of largest error that is not alone in its own.

    Rows without error stay, since splitting them off gains nothing.
    """
    counts = np.bincount(labels, minlength=n_clusters)
    worst = np.argsort(-errors, kind="stable")
    candidates = iter(worst[errors[worst] > 0])
    labels = labels.copy()
    for empty in np.flatnonzero(counts == 0):
        row = next((i for i in candidates if counts[labels[i]] > 1), None)
        if row is None:
            break
        counts[labels[row]] -= 1
        counts[empty] += 1
        labels[row] = empty
    return labels
