"""ECPCS: an ensemble of k-means partitions, joined through a walk between their clusters."""

from __future__ import annotations

from math import isqrt
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.cluster.hierarchy import fcluster, linkage
from scipy.spatial.distance import squareform
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from omcal.baselines._base import Baseline
from omcal.baselines._graphs import largest_eigenvectors
from omcal.baselines._linalg import narrow, narrow_bytes, one_hot
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import parameter
from omcal.method.row_steps import inverse_root
from omcal.views.view import Matrix, Views

_MOST_BASE_CLUSTERS = 100  # in one partition
_NO_NEIGHBOURS = 1e-9
_MAX_ROTATIONS = 20


class ECPCS(Baseline):
    """Ensemble clustering by propagating cluster-wise similarities.

    k-means partitions the data several times, with different numbers of clusters, into N base
    clusters in all. Two base clusters are similar if random walks from them visit the same clusters
    on the graph of Jaccard overlaps [1]_. The similarity is then cut (MC) or transferred to the
    samples (HC).

    Parameters
    ----------
    consensus : {"mc", "hc"}, default="mc"
        "mc" cuts the graph of base clusters into c meta-clusters, and a sample joins the one with
        the largest part of its base clusters around it. "hc" averages the similarity of the base
        clusters of two samples over the partitions and cuts their average linkage: n² memory.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each sample. There are fewer than c clusters if a meta-cluster gets no sample.
    ensemble_ : array of shape (n, n_partitions)
        The base partitions, labels from 0 in each.
    similarity_ : array of shape (N, N)
        Similarity of the base clusters, partition after partition.

    Notes
    -----
    Each partition is one k-means run from a k-means++ start, at most 100 iterations, with between
    c and min(100, √n) clusters, drawn uniformly. The weights of the graph that is cut are the
    propagated similarities, as in the published program; the published text has other weights.

    Wide data (more features than samples) are first reduced to at most n features without changing
    distances. scikit-learn has no ensemble clustering; its k-means makes the partitions.

    References
    ----------
    .. [1] D. Huang, C.-D. Wang, H. Peng, J. Lai and C.-K. Kwoh, "Enhanced ensemble clustering via
       fast propagation of cluster-wise similarities", IEEE Trans. Systems, Man, and Cybernetics:
       Systems 51, 2021.
    """

    consensus: Literal["mc", "hc"] = "mc"
    n_partitions: int = parameter(default=20, help="Size of the ensemble.")
    walk_length: int = parameter(default=20, help="Steps of the walks.")

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = narrow(views[0].array)
        self.ensemble_: NDArray[np.intp] = kmeans_ensemble(
            X, self.n_clusters, self.n_partitions, random_state
        )
        base = base_clusters(self.ensemble_)
        H = one_hot(base, base.max() + 1)  # membership of samples in base clusters, n × N
        self.similarity_: Floats = propagated_similarity(jaccard(H), self.walk_length)
        if self.consensus == "hc":
            return linkage_labels(enhanced_coassociation(self.similarity_, base), self.n_clusters)
        first_row = random_state.randint(H.shape[1])
        return meta_cluster_labels(self.similarity_, H, self.n_clusters, first_row)

    def _memory_needed(self, views: Views) -> float:
        n = views.n
        n_base = self.n_partitions * max(self.n_clusters, _most_clusters(n))
        pairs = 3.0 * n**2 if self.consensus == "hc" else 0.0
        return max(narrow_bytes(views), 8 * (5.0 * n_base**2 + pairs))


def _most_clusters(n: int) -> int:
    return min(_MOST_BASE_CLUSTERS, isqrt(n))


def kmeans_ensemble(
    X: Matrix, c: int, n_partitions: int, random_state: np.random.RandomState
) -> NDArray[np.intp]:
    """Return the partitions of X by k-means with c to √n clusters; n × n_partitions labels."""
    most = max(c, _most_clusters(X.shape[0]))
    sizes = random_state.randint(c, most + 1, size=n_partitions)
    partitions = [
        KMeans(size, n_init=1, max_iter=100, random_state=random_state).fit_predict(X)
        for size in sizes
    ]
    return np.column_stack(partitions).astype(np.intp)


def base_clusters(ensemble: Array) -> NDArray[np.intp]:
    """Number the clusters of all partitions consecutively, without gaps."""
    numbered = [np.unique(labels, return_inverse=True)[1] for labels in ensemble.T]
    offsets = np.cumsum([0] + [labels.max() + 1 for labels in numbered[:-1]])
    return np.asarray(np.column_stack(numbered) + offsets)


def jaccard(H: sparse.csr_array) -> Floats:
    """Return the Jaccard index of each pair of base clusters: intersection over union."""
    common: Floats = (H.T @ H).toarray()
    sizes = common.diagonal()
    return common / (sizes[:, None] + sizes - common)


def propagated_similarity(J: Array, walk_length: int) -> Floats:
    """Return the cosine similarity of t-step random walks from each pair of base clusters.

    A cluster that overlaps no other is similar to itself only.
    """
    P = J - np.diag(J.diagonal())
    sums = P.sum(axis=1)
    connected = sums >= _NO_NEIGHBOURS
    P[connected] /= sums[connected, None]
    P[~connected] = 0
    walk = P
    W = walk @ walk.T
    for _ in range(walk_length - 1):
        walk = walk @ P
        W += walk @ walk.T
    scale = inverse_root(W.diagonal())
    Z: Floats = W * np.outer(scale, scale)
    np.fill_diagonal(Z, 1.0)
    return Z


def enhanced_coassociation(Z: Array, base: Array) -> Floats:
    """Return the mean similarity of the base clusters of two samples over the partitions; n×n."""
    n, n_partitions = base.shape
    B = np.zeros((n, n))
    for clusters in base.T:
        B += Z[np.ix_(clusters, clusters)]
    B /= n_partitions
    return B


def linkage_labels(B: Array, c: int) -> NDArray[np.intp]:
    """Return c clusters by average linkage of the distances 1 − B."""
    distances = np.maximum(1 - squareform(B, checks=False), 0)
    numbered = fcluster(linkage(distances, "average"), c, "maxclust")
    return np.asarray(numbered, dtype=np.intp) - 1


def meta_cluster_labels(Z: Array, H: sparse.csr_array, c: int, first_row: int) -> NDArray[np.intp]:
    """Cut the base clusters into c meta-clusters and assign each sample to the closest."""
    _, U = cut_embedding(Z, min(c, len(Z)))
    meta = discretized(U, first_row)
    sizes = np.bincount(meta, minlength=c)
    votes = (H @ one_hot(meta, c)).toarray() / np.maximum(sizes, 1)
    return np.unique(votes.argmax(axis=1), return_inverse=True)[1]


def cut_embedding(Z: Array, c: int) -> tuple[Floats, Floats]:
    """Return the c largest eigenvalues of the regularised normalised cut of Z, and unit rows."""
    W = np.where(np.abs(Z) > 1e-6, Z, 0)
    # The regularisation adds 1 to each degree and one half to the diagonal.
    root = np.sqrt(W.sum(axis=1) + 1)
    values, vectors = largest_eigenvectors((W + 0.5 * np.eye(len(W))) / np.outer(root, root), c)
    U = vectors / root[:, None]
    U /= np.linalg.norm(U, axis=0)
    return values, np.asarray(normalize(U))


def discretized(U: Array, first_row: int) -> NDArray[np.intp]:
    """Return labels by the rotation R that brings the unit rows of U closest to one-hot."""
    R = _spread_rows(U, first_row).T
    labels: NDArray[np.intp] = (U @ R).argmax(axis=1)
    for _ in range(_MAX_ROTATIONS):
        left, _, right = np.linalg.svd(one_hot(labels, U.shape[1]).T @ U)
        R = (left @ right).T
        before, labels = labels, (U @ R).argmax(axis=1)
        if np.array_equal(labels, before):
            break
    return labels


def _spread_rows(U: Array, first_row: int) -> Array:
    """Return c rows of U, each the one least aligned with the rows before it."""
    rows = [first_row]
    alignment = np.zeros(len(U))
    while len(rows) < U.shape[1]:
        alignment += np.abs(U @ U[rows[-1]])
        rows.append(int(alignment.argmin()))
    return U[rows]
