"""BKM: clusters of samples, each tied to one cluster of features."""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy import sparse
from scipy.optimize import linear_sum_assignment
from sklearn.utils import Tags

from omcal.baselines._base import Baseline, copy_bytes
from omcal.baselines._distances import as_floats, squared_norms
from omcal.baselines._linalg import inverse_root
from omcal.baselines._partitions import column_sums, row_sums
from omcal.baselines._spectral import kmeans_labels
from omcal.machine.arrays import Array
from omcal.views.view import Matrix, Views


class BKM(Baseline):
    """Bilateral k-means.

    Minimises ‖X − P S Qᵀ‖² where each row of P (n×c) and of Q (d×c) holds a single 1, the cluster
    of that sample or feature, and S is diagonal [1]_: cluster k of samples goes with cluster k of
    features, and everything outside the c blocks is fitted by 0. Every step is an exact
    minimiser, so the objective never rises.

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
    max_iter : int, default=100
        Most sweeps over S, P and Q. (The weighted method was published with 30.)

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
    n_iter_ : int
        Number of sweeps.

    Notes
    -----
    **Collapse.** A sample that no block fits better than 0 does goes to the block that costs it
    least, so data that is not made of blocks ends in one or two clusters. That is the model, not
    a failure of the search; it is reported by a warning and not repaired.

    The start is not known from the publication; "aligned" is a choice made here. Sparse X stays
    sparse; a sweep costs nnz(X) + (n + d) c. scikit-learn's `SpectralCoclustering` is the spectral
    relaxation of the same block-diagonal model.

    References
    ----------
    .. [1] J. Han, K. Song, F. Nie and X. Li, "Bilateral k-means algorithm for fast co-clustering",
       AAAI 2017.
    .. [2] K. Song, X. Yao, F. Nie, X. Li and M. Xu, "Weighted bilateral k-means algorithm for fast
       co-clustering and fast spectral clustering", Pattern Recognition 109, 2021.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.bkm import BKM
    >>> X = np.kron(np.diag([3.0, 5.0]), np.ones((4, 3)))
    >>> model = BKM(n_clusters=2, random_state=0).fit(X)
    >>> bool(model.labels_[0] == model.feature_labels_[0] != model.labels_[4])
    True
    >>> float(model.objective_[-1].round(12))
    0.0
    """

    init: Literal["aligned", "matched", "random"] = "aligned"
    weighted: bool = False
    max_iter: int = 100

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = as_floats(views[0].array)
        problem = weighted_problem(X) if self.weighted else plain_problem(X)
        p, q = start(X, self.n_clusters, self.init, random_state)
        solution = fit_blocks(problem, p, q, self.n_clusters, max_iter=self.max_iter)
        if not solution.converged:
            self._warn(f"still changed labels after max_iter={self.max_iter} sweeps")
        self.feature_labels_: Array = solution.q
        self.block_means_: Array = solution.s
        self.objective_ = np.array(solution.objective)
        self.n_iter_ = len(solution.objective) - 1
        return solution.p

    def _memory_needed(self, views: Views) -> float:
        # Copies for k-means on the rows and on the columns and, weighted, a scaled one; then sums,
        # costs and centres: every sample and every feature with every cluster.
        copies = (3 if self.weighted else 2) * copy_bytes(views)
        return copies + 8.0 * 9 * (views.n + views.widths[0]) * self.n_clusters

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = self.weighted
        return tags


class Problem(NamedTuple):
    """X, the weights of rows and columns, and the squared norm of the fitted matrix."""

    X: Matrix
    row_weights: Array
    column_weights: Array
    squared_norm: float


class Blocks(NamedTuple):
    """Result of the sweeps; `objective` begins with that of the start."""

    p: Array
    q: Array
    s: Array
    objective: list[float]
    converged: bool


def plain_problem(X: Matrix) -> Problem:
    """Return ‖X − P S Qᵀ‖²: all rows and columns weigh 1."""
    n, d = X.shape
    return Problem(X, np.ones(n), np.ones(d), float(squared_norms(X).sum()))


def weighted_problem(X: Matrix) -> Problem:
    """Return ‖D₁^-½ X D₂^-½ − D₁^½ P S Qᵀ D₂^½‖²: weighted by the sums of rows and columns."""
    if X.min() < 0:
        raise ValueError(
            f"Negative values in data passed to BKM with weighted=True (least: {X.min():g}); shift "
            "or rescale X so that no entry is below 0, or use weighted=False."
        )
    squared_norms(X)  # raises on overflow
    d1, d2 = (np.asarray(X.sum(axis=axis)).ravel() for axis in (1, 0))
    scaled = sparse.diags_array(inverse_root(d1)) @ X @ sparse.diags_array(inverse_root(d2))
    return Problem(X, d1, d2, float(squared_norms(scaled).sum()))


def start(X: Matrix, c: int, init: str, random_state: np.random.RandomState) -> tuple[Array, Array]:
    """Return the first labels of the rows and of the columns."""
    n, d = X.shape
    if init == "random":
        return random_state.randint(c, size=n), random_state.randint(c, size=d)
    p = kmeans_labels(X, c, random_state, n_init=1)
    if init == "aligned":
        return p, row_means(X, p, c).argmax(axis=0)
    q = kmeans_labels(X.T, min(c, d), random_state, n_init=1)
    _, partner = linear_sum_assignment(column_sums(row_sums(X, p, c), q, c), maximize=True)
    return p, np.argsort(partner)[q]


def row_means(X: Matrix, labels: Array, c: int) -> Array:
    """Return the mean of the rows in each cluster, 0 for an empty one."""
    return row_sums(X, labels, c) / np.maximum(np.bincount(labels, minlength=c), 1)[:, None]


def fit_blocks(problem: Problem, p: Array, q: Array, c: int, *, max_iter: int = 100) -> Blocks:
    """Sweep over S, P and Q from the labels `p` of rows and `q` of columns until none changes."""
    X, d1, d2, squared_norm = problem
    XQ = column_sums(X, q, c)
    s, explained = block_means(XQ, d1, d2, p, q, c)
    objective = [max(squared_norm - explained, 0.0)]
    converged = False
    while not converged and len(objective) <= max_iter:
        before = p, q
        p = _costs(XQ, s, d1, np.bincount(q, d2, minlength=c)).argmin(axis=1)
        XtP = row_sums(X, p, c).T
        q = _costs(XtP, s, d2, np.bincount(p, d1, minlength=c)).argmin(axis=1)
        XQ = column_sums(X, q, c)
        s, explained = block_means(XQ, d1, d2, p, q, c)
        objective.append(max(squared_norm - explained, 0.0))
        converged = np.array_equal(p, before[0]) and np.array_equal(q, before[1])
    return Blocks(p, q, s, objective, converged)


def block_means(XQ: Array, d1: Array, d2: Array, p: Array, q: Array, c: int) -> tuple[Array, float]:
    """Return the best s, 0 where a block is empty, and the explained part of the squared norm."""
    blocks = np.bincount(p, XQ[np.arange(len(p)), p], minlength=c)
    volumes = np.bincount(p, d1, minlength=c) * np.bincount(q, d2, minlength=c)
    s = np.where(volumes > 0, blocks / np.where(volumes > 0, volumes, 1.0), 0.0)
    return s, float(s @ blocks)


def _costs(sums: Array, s: Array, weights: Array, volumes: Array) -> Array:
    """Return the error of each row in each block, less the error of fitting it by 0."""
    return np.asarray(np.outer(weights, volumes * s**2) - 2 * s * sums)
