"""BKM and FNMTF: co-clustering, with hard clusters of samples and of features."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, TypeAlias

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.utils import Tags

from omcal.baselines._base import Baseline
from omcal.baselines._graphs import kmeans_labels
from omcal.baselines._linalg import (
    as_floats,
    column_sums,
    refill_empty,
    row_sums,
    squared_norms,
)
from omcal.machine.arrays import Array
from omcal.machine.declaring import parameter
from omcal.method.row_steps import inverse_root
from omcal.views.view import Matrix, Views

Sweep: TypeAlias = tuple[Array, Array, Array, float]  # labels p and q, S, the objective


class CoClustering(Baseline):
    """Base class of methods that sweep over the clusters of samples and of features."""

    max_iter: int = parameter(
        default=100, help="Most sweeps over the blocks and the clusters of samples and of features."
    )

    def _swept(self, sweeps: Iterator[Sweep]) -> Array:
        """Sweep until no label changes; set the fitted attributes, return the labels of samples.

        The first of the `sweeps` is the start.
        """
        p, q, S, error = next(sweeps)
        objective, converged = [max(error, 0.0)], False
        while not converged and len(objective) <= self.max_iter:
            before = p, q
            p, q, S, error = next(sweeps)
            objective.append(max(error, 0.0))
            converged = np.array_equal(p, before[0]) and np.array_equal(q, before[1])
        if not converged:
            self._warn(f"still changed labels after max_iter={self.max_iter} sweeps", 5)
        self.feature_labels_: Array = q
        self.block_means_: Array = S
        self.objective_ = np.array(objective)
        self.n_iter_ = len(objective) - 1
        return p


class BKM(CoClustering):
    """Bilateral k-means.

    Minimises ‖X − P S Qᵀ‖² where each row of P (n×c) and of Q (d×c) holds a single 1, the cluster
    of that sample or feature, and S is diagonal [1]_: cluster k of samples belongs to cluster k of
    features, and all entries outside the c blocks are fitted by 0. Every step minimises exactly, so
    the objective never rises.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters c, of samples and of features.
    init : {"aligned", "matched", "random"}, default="aligned"
        First clusters. "aligned": k-means of the samples, and each feature in the cluster where
        its mean is largest. "matched": k-means of samples and of features, paired so that the
        blocks hold the largest sum. "random": random labels.
    weighted : bool, default=False
        Minimise ‖D₁^-½ X D₂^-½ − D₁^½ P S Qᵀ D₂^½‖² instead, with the row sums D₁ and column sums
        D₂ of X, which must be non-negative [2]_.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each sample; clusters may be empty.
    feature_labels_ : array of shape (d,)
        Cluster of each feature; feature cluster k belongs to sample cluster k.
    block_means_ : array of shape (c,)
        The diagonal of S; 0 where a block is empty.
    objective_ : array of shape (n_iter + 1,)
        The objective with the best S for the clusters at the start and after each sweep.

    Notes
    -----
    **Collapse.** If no block fits a sample better than 0 does, the sample joins the block of least
    cost. Data without a block structure therefore end in one or two clusters. This is a property of
    the model, not a failure of the search; a warning reports it.

    The publication does not state the start; "aligned" was chosen here. The weighted
    method was published with 30 sweeps. Sparse X stays sparse; a sweep costs nnz(X) + (n + d) c.
    scikit-learn's `SpectralCoclustering` is the spectral relaxation of the same block-diagonal
    model.

    References
    ----------
    .. [1] J. Han, K. Song, F. Nie and X. Li, "Bilateral k-means algorithm for fast co-clustering",
       AAAI 2017.
    .. [2] K. Song, X. Yao, F. Nie, X. Li and M. Xu, "Weighted bilateral k-means algorithm for fast
       co-clustering and fast spectral clustering", Pattern Recognition 109, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines import BKM
    >>> X = np.kron(np.diag([3.0, 5.0]), np.ones((4, 3)))
    >>> model = BKM(n_clusters=2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.feature_labels_[0] != model.labels_[4])
    True
    >>> float(model.objective_[-1].round(12))
    0.0
    """

    _copies = 3.0  # one of them weighted
    init: Literal["aligned", "matched", "random"] = "aligned"
    weighted: bool = False

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = as_floats(views[0].array)
        weights = weights_of(X, self.weighted)
        c = self.n_clusters
        p, q = start(X, c, c, self.init, random_state)
        return self._swept(diagonal_sweeps(X, weights, p, q, c))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.weighted
        return tags


def weights_of(X: Matrix, weighted: bool) -> tuple[Array, Array, float]:
    """Return the weights of rows and of columns, and the squared norm of the fitted matrix.

    The objective is ‖X − P S Qᵀ‖², or ‖D₁^-½ X D₂^-½ − D₁^½ P S Qᵀ D₂^½‖² with the sums D of X.
    """
    total = float(squared_norms(X).sum())
    if not weighted:
        return np.ones(X.shape[0]), np.ones(X.shape[1]), total
    if X.min() < 0:
        raise ValueError(
            f"Negative values in data passed to BKM with weighted=True (least: {X.min():g}); shift "
            "or rescale X so that no entry is below 0, or use weighted=False."
        )
    d1, d2 = (np.asarray(X.sum(axis=axis)).ravel() for axis in (1, 0))
    scaled = sparse.diags_array(inverse_root(d1)) @ X @ sparse.diags_array(inverse_root(d2))
    return d1, d2, float(squared_norms(scaled).sum())


def start(
    X: Matrix, c: int, width: int, init: str, random_state: np.random.RandomState
) -> tuple[Array, Array]:
    """Return the first labels: of the rows (c clusters) and of the columns (`width` clusters)."""
    n, d = X.shape
    if init == "random":
        return random_state.randint(c, size=n), random_state.randint(width, size=d)
    p = kmeans_labels(X, c, random_state, n_init=1)
    if init == "aligned":
        means = row_sums(X, p, c) / np.maximum(np.bincount(p, minlength=c), 1)[:, None]
        return p, means.argmax(axis=0)
    q = kmeans_labels(X.T, min(width, d), random_state, n_init=1)
    if init == "matched":
        _, partner = linear_sum_assignment(column_sums(row_sums(X, p, c), q, c), maximize=True)
        q = np.argsort(partner)[q]
    return p, q


def diagonal_sweeps(
    X: Matrix, weights: tuple[Array, Array, float], p: Array, q: Array, c: int
) -> Iterator[Sweep]:
    """Yield the given labels, then those of each sweep of BKM over P and Q."""
    d1, d2, squared_norm = weights
    while True:
        XQ = column_sums(X, q, c)
        s, explained = block_scales(XQ, d1, d2, p, q, c)
        yield p, q, s, squared_norm - explained
        p = _diagonal_costs(XQ, s, d1, np.bincount(q, d2, minlength=c)).argmin(axis=1)
        XtP = row_sums(X, p, c).T
        q = _diagonal_costs(XtP, s, d2, np.bincount(p, d1, minlength=c)).argmin(axis=1)


def block_scales(
    XQ: Array, d1: Array, d2: Array, p: Array, q: Array, c: int
) -> tuple[Array, float]:
    """Return the best s, 0 where a block is empty, and the explained part of the squared norm."""
    blocks = np.bincount(p, XQ[np.arange(len(p)), p], minlength=c)
    volumes = np.bincount(p, d1, minlength=c) * np.bincount(q, d2, minlength=c)
    s = np.where(volumes > 0, blocks / np.where(volumes > 0, volumes, 1.0), 0.0)
    return s, float(s @ blocks)


def _diagonal_costs(sums: Array, s: Array, weights: Array, volumes: Array) -> Array:
    """Return the error of each row in each block, less the error of fitting it by 0."""
    return np.asarray(np.outer(weights, volumes * s**2) - 2 * s * sums)


class FNMTF(CoClustering):
    """Fast non-negative matrix tri-factorisation.

    Minimises ‖X − F S Gᵀ‖² where each row of F (n×c) and of G (d×l) holds a single 1, the cluster
    of that sample or feature, and S (c×l) holds the mean of each block [1]_. Every step minimises
    exactly, so the objective never rises.

    Parameters
    ----------
    n_clusters : int, default=8
        Number of clusters of samples c.
    n_feature_clusters : int or None, default=None
        Number of clusters of features l. None takes the smaller of `n_clusters` and the number of
        features. With one cluster per feature the method is k-means.
    init : {"kmeans", "random"}, default="kmeans"
        First clusters: k-means of the rows and of the columns, or random labels. From random labels
        many clusters become empty and are refilled.

    Attributes
    ----------
    feature_labels_ : array of shape (d,)
        Cluster of each feature.
    block_means_ : array of shape (c, l)
        S; 0 where a block is empty.
    objective_ : array of shape (n_iter + 1,)
        ‖X − F S Gᵀ‖² with the best S for the clusters at the start and after each sweep.

    Notes
    -----
    The published method starts at random and does not say what happens to empty clusters. Here the
    start is k-means, and an empty cluster takes the sample with the largest error, which never
    raises the objective. If all samples are fitted exactly, empty clusters stay, and a warning
    reports them. X may have negative entries: S is unconstrained, and non-negative when X is.
    Sparse X stays sparse; a sweep costs nnz(X) + (n + d) c l. scikit-learn has no hard
    tri-factorisation; its `SpectralBiclustering` is a spectral relative.

    References
    ----------
    .. [1] H. Wang, F. Nie, H. Huang and F. Makedon, "Fast nonnegative matrix tri-factorization for
       large-scale data co-clustering", IJCAI 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines import FNMTF
    >>> X = np.kron([[1.0, 5.0, 1.0], [4.0, 2.0, 7.0]], np.ones((3, 2)))
    >>> model = FNMTF(n_clusters=2, n_feature_clusters=3, random_state=0).fit(X)
    >>> bool(len(set(model.labels_[:3])) == 1 and model.labels_[0] != model.labels_[3])
    True
    >>> float(model.objective_[-1].round(12))
    0.0
    """

    n_feature_clusters: int | None = None
    init: Literal["kmeans", "random"] = "kmeans"

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = as_floats(views[0].array)
        d = X.shape[1]
        c = self.n_clusters
        width = self.n_feature_clusters
        if width is not None and width > d:
            raise ValueError(
                f"n_feature_clusters={width} must be at most the number of features, {d}."
            )
        width = min(c, d) if width is None else width
        squared_norms(X)  # raises on overflow
        f, g = start(X, c, width, self.init, random_state)
        return self._swept(full_sweeps(X, f, g, c, width))


def full_sweeps(X: Matrix, f: Array, g: Array, c: int, width: int) -> Iterator[Sweep]:
    """Yield the given labels, then those of each sweep of FNMTF over G and F."""
    norms = squared_norms(X)
    while True:
        FtX = row_sums(X, f, c)
        S, explained = block_means(FtX, f, g, c, width)
        yield f, g, S, norms.sum() - explained
        g = _costs(FtX.T, S.T, np.bincount(f, minlength=c)).argmin(axis=1)
        costs = _costs(column_sums(X, g, width), S, np.bincount(g, minlength=width))
        f = costs.argmin(axis=1)
        residuals = norms + costs[np.arange(len(f)), f]
        # Within rounding of 0 a sample is fitted exactly.
        f = refill_empty(f, np.where(residuals > 1e-12 * norms, residuals, 0), c)


def block_means(FtX: Array, f: Array, g: Array, c: int, width: int) -> tuple[Array, float]:
    """Return the mean of each block, 0 where it is empty, and the explained part of ‖X‖²."""
    blocks = column_sums(FtX, g, width)
    sizes = np.outer(np.bincount(f, minlength=c), np.bincount(g, minlength=width))
    S = blocks / np.maximum(sizes, 1)
    return S, float(np.sum(S * blocks))


def _costs(sums: Array, S: Array, sizes: Array) -> Array:
    """Return the squared error of each row in each cluster, less the row's squared norm."""
    return np.asarray(S**2 @ sizes - 2 * sums @ S.T)
