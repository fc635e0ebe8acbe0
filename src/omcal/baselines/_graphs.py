"""Build neighbour graphs with closed-form weights, and their Laplacians."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from omcal.baselines._distances import centred, squared_distances
from omcal.baselines._linalg import inverse_root, sparse_rows
from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import row_blocks
from omcal.method.graph import nearest_columns
from omcal.views.view import Matrix

_BLOCK_ENTRIES = 1 << 22


def neighbor_graph(X: Matrix, k: int, *, symmetric: bool = True) -> sparse.csr_array:
    """Return the graph of the k nearest neighbours with weights linear in the distance.

    Row i minimises Σ_j d_ij w_j + r_i |w|² over the simplex, with r_i chosen so that k weights
    are positive; k is reduced to n - 2. The diagonal is 0, and no zero is stored. `symmetric` gives
    (W + Wᵀ) / 2 instead of the directed graph W, whose rows sum to 1.
    """
    indices, distances, _ = nearest_samples(X, k)
    weights, _ = closed_form_weights(distances)
    W = graph_of_rows(indices[:, :-1], weights)
    return symmetrized(W) if symmetric else W


def nearest_samples(
    X: Matrix | Sequence[Matrix], k: int
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return the k + 1 nearest other samples of each sample, in the order of (distance, index).

    Both their indices and the squared distances are (n, k + 1); k is reduced to n - 2. Of several
    views the squared distances are averaged; those in each view are the last result, (V, n, k + 1).
    """
    views = [centred(view) for view in (X if isinstance(X, Sequence) else [X])]
    n = views[0].shape[0]
    if n < 3:
        raise ValueError(f"a neighbour graph needs at least 3 samples and X has {n}; add samples.")
    count = min(k, n - 2) + 1
    indices = np.empty((n, count), dtype=np.intp)
    distances = np.empty((n, count))
    by_view = np.empty((len(views), n, count))
    for rows in row_blocks(n, max(1, _BLOCK_ENTRIES // n)):
        blocks = [squared_distances(view[rows], view) for view in views]
        mean: Any = sum(blocks) / len(views)
        mean[np.arange(len(mean)), np.arange(rows.start, rows.stop)] = np.inf
        indices[rows], distances[rows] = nearest_columns(mean, count)
        for v, block in enumerate(blocks):
            by_view[v, rows] = np.take_along_axis(block, indices[rows], axis=1)
    return indices, distances, by_view


def closed_form_weights(distances: Array) -> tuple[Floats, Floats]:
    """Return the weights of the k nearest from the k + 1 smallest squared distances of each row.

    w_j = (d_(k+1) - d_j) / (k d_(k+1) - Σ_h d_h); k equal weights where all distances tie. The
    distances ascend in each row. The second result, half the denominator, is the regulariser of
    each row for which the weights are optimal.
    """
    last = distances[:, -1:]
    gaps = last - distances[:, :-1]
    total = gaps.sum(axis=1, keepdims=True)
    tied = total <= 1e-12 * last
    weights = np.where(tied, 1.0 / gaps.shape[1], gaps / np.where(tied, 1.0, total))
    return weights, total[:, 0] / 2


def graph_of_rows(indices: Array, weights: Array) -> sparse.csr_array:
    """Return the directed graph with the edges i -> indices[i, j] of weight weights[i, j].

    Rows of `weights` lie on the simplex, see `without_rounding`.
    """
    # A copy, so that the caller's arrays stay unchanged.
    W = without_rounding(sparse_rows(indices, weights, len(indices)).copy())
    W.sort_indices()
    return W


def without_rounding(W: sparse.csr_array) -> sparse.csr_array:
    """Return W, changed in place, without the edges whose weight is rounding (row sums are 1).

    Values that tie with the threshold of a projection on the simplex are left with some 1e-17: as
    edges they would join components that the eigenvalues of the Laplacian separate.
    """
    W.data[W.data < 1e-14] = 0
    W.eliminate_zeros()
    return W


def graph_bytes(n: int, k: int) -> int:
    """Return the most bytes of a symmetrised graph of k neighbours."""
    return 2 * 16 * n * k


def symmetrized(W: Any) -> Any:
    """Return (W + Wᵀ) / 2, dense or CSR as given."""
    return sparse.csr_array((W + W.T) / 2) if sparse.issparse(W) else (W + W.T) / 2


def degrees(W: Any) -> Floats:
    """Return the row sums."""
    return np.asarray(W.sum(axis=1)).reshape(-1)


def normalized_adjacency(W: Any) -> Any:
    """Return D^-1/2 W D^-1/2, dense or CSR as given; rows of degree 0 stay 0."""
    scale = inverse_root(degrees(W))
    # The product of the two factors first: it is the same number on both sides of the diagonal,
    # so that a symmetric W stays symmetric to the last bit.
    if not sparse.issparse(W):
        A = np.multiply.outer(scale, scale)
        A *= W
        return A
    A = sparse.csr_array(W, dtype=np.float64, copy=True)
    A.data *= np.repeat(scale, np.diff(A.indptr)) * scale[A.indices]
    return A


def normalized_laplacian(W: Any) -> Any:
    """Return I - D^-1/2 W D^-1/2, dense or CSR as given."""
    A = normalized_adjacency(W)
    if sparse.issparse(A):
        return sparse.csr_array(sparse.diags_array(np.ones(A.shape[0])) - A)
    return np.eye(len(A)) - A
