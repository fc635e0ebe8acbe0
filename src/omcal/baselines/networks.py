"""SNF and NEMO: clusters of a network of samples, joined from the networks of the views."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from omcal.baselines._base import ScaledViews
from omcal.baselines._graphs import kmeans_labels, spectral_embedding, symmetrized
from omcal.baselines._linalg import centred, scaled, sparse_rows, squared_distances
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Natural, Positive, parameter
from omcal.views.view import View, Views

_LEAST_WIDTH = 1e-12  # smallest width of a kernel, relative to the largest


def nearest_others(squared: Array, k: int) -> Array:
    """Return the k nearest other samples of each sample, given all squared distances."""
    others = squared + np.diag(np.full(len(squared), np.inf))
    return np.argsort(others, axis=1, kind="stable")[:, :k]


class SNF(ScaledViews):
    """Similarity network fusion, then spectral clustering of the fused network.

    Each view, its features scaled, has the network ::

        W_ij = exp(−d_ij² / 2 (mu ε_ij)²),    ε_ij = (d̄_i + d̄_j + d_ij) / 3,

    where d̄_i is the mean distance of sample i to its k nearest neighbours. P holds the weights
    between all samples: P_ii = ½, and the other half of row i is divided in proportion to W. S
    holds the weights of sample i and its k nearest neighbours, with rows that sum to 1. Each of
    `n_iter` steps diffuses the mean of the other views through the neighbours of one view [1]_, ::

        P_v ← S_v (Σ_{u≠v} P_u / (V − 1)) S_vᵀ,

    and divides the rows of P_v in the same way again. The labels come from spectral clustering of
    the mean of all P_v.

    Parameters
    ----------
    mu : float, default=0.5
        Width of the networks; the paper recommends 0.3 to 0.8.
    kernel : {"gaussian", "paper"}, default="gaussian"
        "paper": W_ij = exp(−d_ij² / (mu ε_ij)), as printed; see the notes.

    Attributes
    ----------
    network_ : array of shape (n, n)
        The fused network, symmetrised.

    Notes
    -----
    Written from the formulas of the paper. Its exponent d² / (mu ε) has the unit of a distance: in
    wide views, where distances are large, hardly any but the nearest neighbour keeps a weight. The
    exponent of the Gaussian has no unit. A single view is diffused through itself. Sparse views are
    divided by the standard deviations but not centred. Time is cubic in n only if k is near n;
    memory is quadratic.

    References
    ----------
    .. [1] B. Wang et al., "Similarity network fusion for aggregating data types on a genomic
       scale", Nature Methods 11, 2014.
    """

    # Arrays: a network per view, their sum, and four while one network is diffused.
    _pairs, _pairs_per_view = 5.0, 1.0
    n_neighbors: int = parameter(default=20, help="k, at most n − 1.")
    mu: Positive = 0.5
    kernel: Literal["gaussian", "paper"] = "gaussian"
    n_iter: Natural = parameter(default=20, help="Steps of the diffusion.")

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        k = min(self.n_neighbors, views.n - 1)
        full, local = [], []
        for view in views:
            X = centred(scaled(view.array, self.scale))
            W, nearest = network(squared_distances(X, X), k, self.mu, self.kernel)
            full.append(full_network(W))
            local.append(local_network(W, nearest))
        fused = diffused(full, local, self.n_iter)
        self.network_: Floats = symmetrized(fused)
        U = spectral_embedding(self.network_, self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)


def network(squared: Array, k: int, mu: float, kernel: str) -> tuple[Floats, Array]:
    """Return W for squared distances, and the k nearest other samples of each sample."""
    nearest = nearest_others(squared, k)
    mean = np.sqrt(np.take_along_axis(squared, nearest, axis=1)).mean(axis=1)
    width = mu / 3 * (mean[:, None] + mean + np.sqrt(squared))
    if kernel == "gaussian":
        width = 2 * width**2
    width[width == 0] = 1.0  # equal samples with equal neighbours: W = 1
    return np.exp(-squared / width), nearest


def full_network(W: Array) -> Floats:
    """Return P: ½ on the diagonal, and the other half of each row in proportion to W."""
    P = np.array(W, dtype=np.float64)
    np.fill_diagonal(P, 0)
    total = P.sum(axis=1, keepdims=True)
    P /= np.where(total > 0, 2 * total, 1)
    np.fill_diagonal(P, 0.5)
    return P


def local_network(W: Array, nearest: Array) -> sparse.csr_array:
    """Return S: the weights of each sample and its neighbours, with rows that sum to 1."""
    members = np.column_stack([np.arange(len(nearest)), nearest])
    weights = np.take_along_axis(W, members, axis=1)
    return sparse_rows(members, weights / weights.sum(axis=1, keepdims=True), len(nearest))


def diffused(full: list[Floats], local: list[sparse.csr_array], n_iter: int) -> Floats:
    """Return the mean network after `n_iter` steps of cross-diffusion; `full` is overwritten."""
    for _ in range(n_iter):
        total = np.sum(full, axis=0)
        updated = []
        for P, S in zip(full, local, strict=True):
            others = P if len(full) == 1 else (total - P) / (len(full) - 1)
            updated.append(full_network((S @ (S @ others).T).T))
        full[:] = updated
    return np.asarray(np.mean(full, axis=0))


class NEMO(ScaledViews):
    """Neighbourhood-based multi-omics clustering, also with samples absent from views.

    In each view, its features scaled, the similarity of two samples is ::

        s_ij = exp(−d_ij² / 2σ_ij²) / (√(2π) σ_ij),    σ_ij² = (q_i + q_j + d_ij²) / 3,

    where q_i is the mean squared distance of sample i to its k nearest neighbours η_i. Relative to
    the neighbours it is ::

        r_ij = s_ij [j ∈ η_i] / Σ_{l ∈ η_i} s_il + s_ij [i ∈ η_j] / Σ_{l ∈ η_j} s_jl.

    The labels come from spectral clustering of the mean of r_ij over the views in which both
    samples are present [1]_.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        k; None: the number of samples in the view divided by n_clusters, as in the paper. At most
        the number of samples in the view less one.

    Attributes
    ----------
    similarity_ : array of shape (n, n)
        Mean relative similarities; 0 for samples that share no view.

    Notes
    -----
    Written from the formulas of the paper. The paper requires that every two samples share a view;
    here the similarity of samples that share none is 0, which is enough if views overlap. Missing
    cells are filled as in `OMCAL`. Kernel widths of equal samples have a positive minimum. Sparse
    views are divided by the standard deviations but not centred. Memory and time are quadratic in
    the number of samples.

    References
    ----------
    .. [1] N. Rappoport and R. Shamir, "NEMO: cancer subtyping by integration of partial multi-omic
       data", Bioinformatics 35, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines import NEMO
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> X = [np.eye(3, 8)[y] + 0.1 * rng.standard_normal((60, 8)) for _ in range(2)]
    >>> X[0][:20] = X[1][40:] = np.nan  # absent samples
    >>> labels = NEMO(n_clusters=3, random_state=0).fit_predict(X)
    >>> [len(np.unique(labels[y == j])) for j in range(3)]
    [1, 1, 1]
    """

    _takes_absent = True
    _pairs = 7.5  # the sum, the counts, and six arrays while a view is added
    n_neighbors: int | None = None

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        total = np.zeros((views.n, views.n))
        n_shared = np.zeros((views.n, views.n), dtype=np.int32)
        for view in views:
            here = np.arange(views.n) if view.present is None else np.flatnonzero(view.present)
            total[np.ix_(here, here)] += self._relative(view, here)
            n_shared[np.ix_(here, here)] += 1
        self.similarity_: Floats = total / np.maximum(n_shared, 1)
        U = spectral_embedding(self.similarity_, self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)

    def _relative(self, view: View, here: Array) -> Floats:
        n = len(here)
        if n < 2:
            return np.zeros((n, n))
        X = centred(scaled(view.array[here], self.scale))
        k = n // self.n_clusters if self.n_neighbors is None else self.n_neighbors
        return relative_similarities(squared_distances(X, X), min(max(k, 1), n - 1))


def relative_similarities(squared: Array, k: int) -> Floats:
    """Return r for the squared distances of the samples of one view."""
    nearest = nearest_others(squared, k)
    mean = np.take_along_axis(squared, nearest, axis=1).mean(axis=1)
    variance = (mean[:, None] + mean + squared) / 3
    variance = np.maximum(variance, _LEAST_WIDTH * (variance.max() or 1.0))
    similarity = np.exp(-squared / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    near = np.zeros_like(squared)
    np.put_along_axis(near, nearest, np.take_along_axis(similarity, nearest, axis=1), axis=1)
    near /= near.sum(axis=1, keepdims=True)
    return near + near.T
