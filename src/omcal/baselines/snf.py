"""SNF: similarity network fusion, by diffusing each view's network through the others."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse

from omcal.baselines._base import ScaledViews
from omcal.baselines._distances import centred, copy_bytes, squared_distances
from omcal.baselines._graphs import symmetrized
from omcal.baselines._linalg import sparse_rows
from omcal.baselines._spectral import kmeans_labels, spectral_embedding
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Natural, Positive
from omcal.views.view import Views


class SNF(ScaledViews):
    """Similarity network fusion, then spectral clustering of the fused network.

    Each view, its features scaled, has the network ::

        W_ij = exp(−d_ij² / 2 (mu ε_ij)²),    ε_ij = (d̄_i + d̄_j + d_ij) / 3,

    where d̄_i is the mean distance of sample i to its k nearest neighbours. P holds the weights of
    all samples, with P_ii = ½ and the other half of each row shared in proportion to W; S holds
    those of sample i and its k nearest neighbours, with rows that sum to 1. Each of `n_iter` steps
    diffuses the mean of the other views through the neighbours of one [1]_, ::

        P_v ← S_v (Σ_{u≠v} P_u / (V − 1)) S_vᵀ,

    and shares the rows of P_v out anew. The labels are those of spectral clustering of the mean of
    all P_v.

    Parameters
    ----------
    n_neighbors : int, default=20
        k; reduced to n − 1 where there are fewer.
    mu : float, default=0.5
        Width of the networks; the paper recommends 0.3 to 0.8.
    kernel : {"gaussian", "paper"}, default="gaussian"
        "paper": W_ij = exp(−d_ij² / (mu ε_ij)), as printed; see the notes.
    n_iter : int, default=20
        Steps of the diffusion.

    Attributes
    ----------
    network_ : array of shape (n, n)
        The fused network, symmetrised.

    Notes
    -----
    Written from the formulas of the paper. Its exponent d² / (mu ε) has the unit of a distance, so
    that networks of wide views, whose distances are long, keep little but the nearest neighbour;
    the Gaussian of width mu ε has no unit. One view is diffused through itself. Sparse views are
    divided by the standard deviations but not centred. Time is cubic in n only through k = n;
    memory is quadratic.

    References
    ----------
    .. [1] B. Wang et al., "Similarity network fusion for aggregating data types on a genomic
       scale", Nature Methods 11, 2014.
    """

    n_neighbors: int = 20
    mu: Positive = 0.5
    kernel: Literal["gaussian", "paper"] = "gaussian"
    n_iter: Natural = 20

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        k = min(self.n_neighbors, views.n - 1)
        full, local = [], []
        for view in views:
            X = centred(self._scaled(view.array))
            W, nearest = network(squared_distances(X, X), k, self.mu, self.kernel)
            full.append(shared_out(W))
            local.append(local_network(W, nearest))
        fused = diffused(full, local, self.n_iter)
        self.network_: Floats = symmetrized(fused)
        U = spectral_embedding(self.network_, self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)

    def _memory_needed(self, views: Views) -> float:
        # A network per view, their sum, and four while one is diffused; scaled features.
        return 8.0 * (len(views) + 5) * views.n**2 + 2.0 * copy_bytes(views)


def network(squared: Array, k: int, mu: float, kernel: str) -> tuple[Floats, Array]:
    """Return W for squared distances, and the k nearest other samples of each sample."""
    others = squared + np.diag(np.full(len(squared), np.inf))
    nearest = np.argsort(others, axis=1, kind="stable")[:, :k]
    mean = np.sqrt(np.take_along_axis(squared, nearest, axis=1)).mean(axis=1)
    width = mu / 3 * (mean[:, None] + mean + np.sqrt(squared))
    if kernel == "gaussian":
        width = 2 * width**2
    width[width == 0] = 1.0  # equal samples among equal neighbours: W = 1
    return np.exp(-squared / width), nearest


def shared_out(W: Array) -> Floats:
    """Return P: ½ on the diagonal, the other half of each row in proportion to W."""
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
            updated.append(shared_out((S @ (S @ others).T).T))
        full[:] = updated
    return np.asarray(np.mean(full, axis=0))
