"""CGFKM: k-means on data smoothed by a learned filter of its neighbour graph."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.cluster import KMeans

from omcal.baselines._base import Baseline
from omcal.baselines._graphs import neighbor_graph
from omcal.baselines._linalg import (
    narrow,
    narrow_bytes,
    refill_empty,
    row_sums,
    squared_distances,
    sum_of_squares,
)
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import parameter
from omcal.method.simplex import minimize_on_simplex
from omcal.views.view import Views


class CGFKM(Baseline):
    """Chebyshev graph filter k-means.

    Minimises Σᵢ ‖(Σ_p β_p T_p(S) X)ᵢ − u_l(i)‖² over labels l, centres u and weights β on the
    simplex, where S is the directed graph of the k nearest neighbours, with rows that sum to 1,
    and T_p are the Chebyshev polynomials of degree 0 … q − 1 [1]_. Each step minimises exactly or
    is a Lloyd step, so the objective never rises.

    Attributes
    ----------
    filter_weights_ : array of shape (n_filters,)
        β.
    objective_ : array of shape (2 n_iter,)
        The objective after the weights and after the labels of each round.

    Notes
    -----
    The start is the best of ten k-means runs on the unfiltered data. The published text iterates to
    convergence; its program always stops after two rounds. The default here follows the text;
    ``max_iter=2`` follows the program. The filter is applied to X degree by degree, because the n×n
    polynomials would be dense.

    Wide data (more features than samples) are first reduced to at most n features without changing
    distances. The time of the neighbour search is quadratic in the number of samples; it works in
    blocks. The filtered copies take q n min(n, d) numbers.

    References
    ----------
    .. [1] Du et al., k-means with an adaptive graph filter approximated by Chebyshev polynomials,
       2024, https://openreview.net/forum?id=wqe5XucdER.
    """

    n_neighbors: int = 5
    n_filters: int = parameter(default=5, help="Number of polynomials q.")
    max_iter: int = parameter(default=30, help="Most rounds. The published program always runs 2.")
    tol: float = 1e-5

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = narrow(views[0].array)
        X = X.toarray() if sparse.issparse(X) else X
        S = neighbor_graph(X, self.n_neighbors, symmetric=False)
        kmeans = KMeans(self.n_clusters, n_init=10, max_iter=50, random_state=random_state).fit(X)
        filtered = chebyshev_filtered(S, X, self.n_filters)
        rounds = FilteredMeans(filtered, kmeans.labels_, kmeans.cluster_centers_)
        # Whoever asks for fewer than three rounds repeats the published program: no warning.
        self._iterate(rounds.step, warn=self.max_iter > 2)
        self.filter_weights_: Array = rounds.beta
        self.objective_ = np.array(rounds.objective)
        return rounds.labels

    def _memory_needed(self, views: Views) -> float:
        n, d = views.n, views.widths[0]
        return max(narrow_bytes(views), 8 * (self.n_filters + 4.0) * n * min(n, d))


def chebyshev_filtered(S: Any, X: Array, q: int) -> Floats:
    """Return T_p(S) X for the degrees p = 0 … q − 1, by T_{p+1} = 2 S T_p − T_{p−1}; q×n×d."""
    Y = np.empty((q, *X.shape))
    Y[0] = X
    if q > 1:
        Y[1] = S @ X
    for p in range(2, q):
        Y[p] = 2 * (S @ Y[p - 1]) - Y[p - 2]
    return Y


class FilteredMeans:
    """Filter weights and clusters, and one round of updates from given clusters."""

    def __init__(self, Y: Array, labels: Array, centers: Array) -> None:
        self.Y, self.flat = Y, Y.reshape(len(Y), -1)
        self.H: Array = self.flat @ self.flat.T
        self.labels, self.centers = labels, centers
        self.objective: list[float] = []  # after the weights and after the labels of each round

    def step(self) -> float:
        """Update the weights, then the clusters by a Lloyd step; return the objective."""
        targets = self.centers[self.labels]
        # Find the mixture of filtered data that is closest to the centres of the samples.
        self.beta: Array = minimize_on_simplex(self.H, 2 * (self.flat @ targets.ravel()))
        filtered = np.tensordot(self.beta, self.Y, axes=1)
        self.objective.append(sum_of_squares(filtered - targets))
        self.labels, self.centers = lloyd_step(filtered, self.centers)
        self.objective.append(sum_of_squares(filtered - self.centers[self.labels]))
        return self.objective[-1]


def lloyd_step(X: Array, centers: Array) -> tuple[NDArray[np.intp], Floats]:
    """Return the nearest centre of each sample, and the means; empty clusters take far samples."""
    c = len(centers)
    squared = squared_distances(X, centers)
    labels = refill_empty(squared.argmin(axis=1), squared.min(axis=1), c)
    counts = np.bincount(labels, minlength=c)
    means = row_sums(X, labels, c) / np.maximum(counts, 1)[:, None]
    return labels, np.where(counts[:, None] > 0, means, centers)
