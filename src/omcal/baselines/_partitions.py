"""Represent hard partitions as matrices, sum over clusters, refill empty clusters."""

from __future__ import annotations

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from omcal.machine.arrays import Array, Floats
from omcal.views.view import Matrix


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
