"""FNMTF: hard clusters of samples and of features, one mean per block."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from omcal.baselines._base import Baseline, copy_bytes
from omcal.baselines._distances import as_floats, squared_norms
from omcal.baselines._partitions import column_sums, refill_empty, row_sums
from omcal.baselines._spectral import kmeans_labels
from omcal.machine.arrays import Array
from omcal.views.view import Matrix, Views


class FNMTF(Baseline):
    """Fast non-negative matrix tri-factorisation.

    Minimises ‖X − F S Gᵀ‖² where each row of F (n×c) and of G (d×l) holds a single 1, the cluster
    of that sample or feature, and S (c×l) holds the mean of each block [1]_. Every step is an exact
    minimiser, so the objective never rises.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters of samples c.
    n_feature_clusters : int or None, default=None
        Number of clusters of features l. None takes `n_clusters`, or the number of features where
        that is less. With one cluster a feature the method is k-means.
    init : {"kmeans", "random"}, default="kmeans"
        First clusters: k-means of the rows and of the columns, or random labels, from which many
        clusters die and are repaired.
    max_iter : int, default=100
        Most sweeps over S, G and F.

    Attributes
    ----------
    feature_labels_ : array of shape (d,)
        Cluster of each feature.
    block_means_ : array of shape (c, l)
        S; 0 where a block is empty.
    objective_ : array of shape (n_iter + 1,)
        ‖X − F S Gᵀ‖² with the best S for the clusters at the start and after each sweep.
    n_iter_ : int
        Number of sweeps.

    Notes
    -----
    The published method starts at random and says nothing of clusters that lose all samples; here
    the start is k-means, and an emptied cluster takes the sample that is fitted worst, which never
    raises the objective. Where all samples are fitted exactly there is nothing to split, and fewer
    clusters than asked for are reported. X may have negative entries: S is unconstrained, and
    non-negative when X is. Sparse X stays sparse; a sweep costs nnz(X) + (n + d) c l. scikit-learn
    has no hard tri-factorisation; its `SpectralBiclustering` is a spectral relative.

    References
    ----------
    .. [1] H. Wang, F. Nie, H. Huang and F. Makedon, "Fast nonnegative matrix tri-factorization for
       large-scale data co-clustering", IJCAI 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.fnmtf import FNMTF
    >>> X = np.kron([[1.0, 5.0, 1.0], [4.0, 2.0, 7.0]], np.ones((3, 2)))
    >>> model = FNMTF(n_clusters=2, n_feature_clusters=3, random_state=0).fit(X)
    >>> bool(len(set(model.labels_[:3])) == 1 and model.labels_[0] != model.labels_[3])
    True
    >>> float(model.objective_[-1].round(12))
    0.0
    """

    n_feature_clusters: int | None = None
    init: Literal["kmeans", "random"] = "kmeans"
    max_iter: int = 100

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = as_floats(views[0].array)
        n, d = X.shape
        c = self.n_clusters
        width = self.n_feature_clusters
        if width is not None and width > d:
            raise ValueError(
                f"n_feature_clusters={width} must be at most the number of features, {d}."
            )
        width = min(c, d) if width is None else width
        squared_norms(X)  # raises on overflow
        if self.init == "kmeans":
            f = kmeans_labels(X, c, random_state, n_init=1)
            g = kmeans_labels(X.T, width, random_state, n_init=1)
        else:
            f = random_state.randint(c, size=n)
            g = random_state.randint(width, size=d)
        solution = tri_factorize(X, f, g, c, width, max_iter=self.max_iter)
        if not solution.converged:
            self._warn(f"still changed labels after max_iter={self.max_iter} sweeps")
        self.feature_labels_: Array = solution.g
        self.block_means_: Array = solution.S
        self.objective_ = np.array(solution.objective)
        self.n_iter_ = len(solution.objective) - 1
        return solution.f

    def _memory_needed(self, views: Views) -> float:
        # Copies for k-means on the rows and on the columns; then sums, costs and
        # centres: every sample and every feature with every cluster.
        widest = max(self.n_clusters, self.n_feature_clusters or 0)
        copies = 2 * copy_bytes(views)
        return copies + 8.0 * 9 * (views.n + views.widths[0]) * widest


class TriFactors(NamedTuple):
    """Result of the sweeps; `objective` begins with that of the start."""

    f: Array
    g: Array
    S: Array
    objective: list[float]
    converged: bool


def tri_factorize(
    X: Matrix, f: Array, g: Array, c: int, width: int, *, max_iter: int = 100
) -> TriFactors:
    """Sweep over S, G and F from the labels `f` of rows and `g` of columns until none changes."""
    norms = squared_norms(X)
    FtX = row_sums(X, f, c)
    S, explained = block_means(FtX, f, g, c, width)
    objective = [max(norms.sum() - explained, 0.0)]
    converged = False
    while not converged and len(objective) <= max_iter:
        before = f, g
        g = _costs(FtX.T, S.T, np.bincount(f, minlength=c)).argmin(axis=1)
        costs = _costs(column_sums(X, g, width), S, np.bincount(g, minlength=width))
        f = costs.argmin(axis=1)
        residuals = norms + costs[np.arange(len(f)), f]
        # Within rounding of 0 a sample is fitted exactly.
        f = refill_empty(f, np.where(residuals > 1e-12 * norms, residuals, 0), c)
        FtX = row_sums(X, f, c)
        S, explained = block_means(FtX, f, g, c, width)
        objective.append(max(norms.sum() - explained, 0.0))
        converged = np.array_equal(f, before[0]) and np.array_equal(g, before[1])
    return TriFactors(f, g, S, objective, converged)


def block_means(FtX: Array, f: Array, g: Array, c: int, width: int) -> tuple[Array, float]:
    """Return the mean of each block, 0 where it is empty, and the explained part of ‖X‖²."""
    blocks = column_sums(FtX, g, width)
    sizes = np.outer(np.bincount(f, minlength=c), np.bincount(g, minlength=width))
    S = blocks / np.maximum(sizes, 1)
    return S, float(np.sum(S * blocks))


def _costs(sums: Array, S: Array, sizes: Array) -> Array:
    """Return the squared error of each row in each cluster, less the row's squared norm."""
    return np.asarray(S**2 @ sizes - 2 * sums @ S.T)
