"""SMC: graph-filtered views, coded by a few sampled anchors; and SMC with steps of OMCAL."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import linalg
from scipy.spatial.distance import cdist

from omcal.baselines._base import MultiViewBaseline
from omcal.baselines._graphs import (
    closed_form_weights,
    kmeans_labels,
    neighbor_graph,
    normalized_adjacency,
)
from omcal.baselines._linalg import (
    box_least_squares,
    left_singular_vectors,
    sparse_rows,
    standardized,
    sum_of_squares,
)
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Natural, Positive, parameter
from omcal.method.graph import AnchorGraphs, nearest_columns
from omcal.method.solver import Problem, Solution, solve
from omcal.places.memory import MemoryRows
from omcal.views.view import Views


class AbstractSMC(MultiViewBaseline):
    """Base class of SMC and its variants: filtered views, and anchors sampled from them."""

    n_anchors: int | None = parameter(
        default=None,
        help="m, at most n; None stands for the smaller of 2 n_clusters and n.",
    )
    n_neighbors: int = 5
    filter_strength: float = parameter(
        default=0.8,
        help="How much a sample takes of its neighbours at each application of the filter.",
    )
    filter_order: Natural = parameter(
        default=1,
        help="How often the filter is applied; 0 leaves the views as they are.",
    )
    sampling_power: float = parameter(default=2.0, help="0 draws the anchors uniformly.")

    anchor_indices_: NDArray[np.intp]
    _codes_in_memory: ClassVar[tuple[int, int]]  # arrays like the codes: per view, of one view

    def _anchor_count(self, n: int) -> int:
        return int(self.n_anchors or min(2 * self.n_clusters, n))

    def _filtered_views(self, views: Views, random_state: np.random.RandomState) -> list[Floats]:
        """Return the standardised and filtered views; also draw `anchor_indices_`."""
        m = self._anchor_count(views.n)
        if m > views.n:
            raise ValueError(
                f"n_anchors={m} must be at most the number of samples, {views.n}; lower it."
            )
        X, importance = filtered_views(
            [standardized(view) for view in views.dense()],
            self.n_neighbors,
            self.filter_strength,
            self.filter_order,
        )
        self.anchor_indices_ = sample_anchors(importance, m, self.sampling_power, random_state)
        return X

    def _spectral_labels(
        self, codes: Sequence[Array], costs: Sequence[float], random_state: np.random.RandomState
    ) -> Array:
        """Return k-means labels from the singular vectors of all codes; store the total cost."""
        self.objective_ = np.array([sum(costs)])
        self.n_iter_ = 1
        U = left_singular_vectors(np.hstack(codes), self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)

    def _memory_needed(self, views: Views) -> float:
        # Raw, scaled and filtered views; codes with their singular vectors or indices; and the
        # arrays for computing the codes of one view.
        per_view, once = self._codes_in_memory
        m = self._anchor_count(views.n)
        return 8.0 * views.n * (4 * sum(views.widths) + (per_view * len(views) + once) * m)


class SMC(AbstractSMC):
    """Scalable multi-view clustering with graph filtering.

    Each view, every sample standardised, is smoothed over its own neighbour graph with normalised
    Laplacian L_v, ::

        X̂_v = (I - filter_strength L_v)^filter_order X_v.

    The same m samples, drawn with probability proportional to (Σ_v degree)^sampling_power, are
    the anchors H_v (m × d_v) of every view, and each sample x of X̂_v gets the code ::

        argmin_z |x - H_vᵀ z|² + alpha |z|²,    0 <= z <= 1.

    The labels are k-means on the n_clusters leading left singular vectors of all codes side by
    side.

    Attributes
    ----------
    objective_ : array of shape (1,)
        The sum of the minima over all samples and views.
    n_iter_ : int
        1; nothing is iterated.

    Notes
    -----
    The published code works on given graphs; the neighbour graphs, the scaling of the samples and
    the number of anchors for feature data were chosen here. Its routine for drawing anchors can
    never return the last sample; here they are drawn without replacement from all. The codes are
    exact. The order of the views has no effect. The order of the samples changes which anchors a
    seed draws, but not their distribution.

    Views with one or two features are standardised by feature, since the z-score of a sample
    would keep nothing, or almost nothing, of them. Sparse views are made dense. k-means has
    scikit-learn's start, which is better than uniformly drawn samples: on Coil ACC 0.88 instead
    of 0.76.

    References
    ----------
    L. Liu, P. Chen, G. Luo, Z. Kang, Y. Luo, S. Han. Scalable multi-view clustering with graph
    filtering. Neural Computing and Applications 34, 2022.
    """

    _codes_in_memory = 3, 10
    alpha: Positive = parameter(default=1.0, help="Ridge on the codes; positive.")
    n_init: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = self._filtered_views(views, random_state)
        anchors = [x[self.anchor_indices_] for x in X]
        codes = [anchor_codes(x, h, self.alpha) for x, h in zip(X, anchors, strict=True)]
        costs = [
            sum_of_squares(x - z @ h) + self.alpha * sum_of_squares(z)
            for x, h, z in zip(X, anchors, codes, strict=True)
        ]
        return self._spectral_labels(codes, costs, random_state)


class SMCAGC(AbstractSMC):
    """SMC with the anchor graph construction of OMCAL.

    The views are standardised, filtered over their neighbour graphs and given m sampled anchors as
    in :class:`omcal.baselines.SMC`. Each filtered sample x_i is then tied to the k anchors h_j
    nearest to it in its view, with the weights that minimise ::

        Σ_j s_ij |x_i - h_j|² + r_i |s_i|²,    s_ij >= 0, Σ_j s_ij = 1,

    where r_i is the smallest number that leaves k of them positive. The labels are k-means on the
    n_clusters leading left singular vectors of the graphs of all views side by side.

    Parameters
    ----------
    n_nearest : int, default=5
        k, the number of anchors that a sample is tied to, at most m - 1.

    Attributes
    ----------
    objective_ : array of shape (1,)
        The sum of the minima over all samples and views.
    n_iter_ : int
        1; nothing is iterated.

    Notes
    -----
    The paper describes this transfer in one sentence only. A sample that is an anchor is at
    distance 0 from itself, and that anchor keeps its weight.

    References
    ----------
    Z. Xue, B. Yang, X. Zhang, F. Wang, Z. Lin. One-step multi-view clustering with adaptive
    low-rank anchor-graph learning. arXiv 2509.14724.
    """

    _codes_in_memory = 3, 5
    n_nearest: int = 5
    n_init: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = self._filtered_views(views, random_state)
        graphs = [dense_anchor_graph(x, x[self.anchor_indices_], self.n_nearest) for x in X]
        codes, costs = zip(*graphs, strict=True)
        return self._spectral_labels(codes, costs, random_state)


def dense_anchor_graph(X: Array, anchors: Array, k: int) -> tuple[Floats, float]:
    """Return the n×m closed-form weights of the k nearest anchors, and the sum of the minima.

    Rows sum to 1 and have k positive entries, or fewer if distances are equal; k is at most m - 1,
    and at least 1.
    """
    m = len(anchors)
    distances = cdist(X, anchors, "sqeuclidean")
    if m == 1:
        return np.ones((len(X), 1)), float(distances.sum())
    k = min(k, m - 1)
    nearest, d = nearest_columns(distances, k + 1)
    weights, ridge = closed_form_weights(d)
    S = sparse_rows(nearest[:, :-1], weights, m).toarray()
    cost = np.vdot(d[:, :-1], weights) + ridge @ np.square(weights).sum(axis=1)
    return S, float(cost)


class SMCOCL(AbstractSMC):
    """SMC with the one-step consensus learning of OMCAL.

    The views are standardised, filtered over their neighbour graphs and coded by m sampled anchors
    as in :class:`omcal.baselines.SMC`. The codes S_v (n × m), each row divided by its sum, enter ::

        |Z - Σ_v α_v S_v|² + beta |Z|_* + gamma |Z - F Gᵀ|²,
        F >= 0, GᵀG = I, α >= 0, Σ_v α_v = 1,

    which Algorithm 1 of OMCAL minimises from a random basis G. The label of a sample is the
    largest entry of its row of F.

    Parameters
    ----------
    normalize_codes : bool, default=True
        Divide the code of each sample by its sum, so that it is a row of an anchor graph; a zero
        code stays zero. False keeps the scale of the codes; beta must then be chosen for it.

    Attributes
    ----------
    view_weights_ : array of shape (V,)
        α, sum 1.
    basis_ : array of shape (m, n_clusters)
        G.

    Notes
    -----
    The paper describes this transfer in one sentence only. It does not state beta and gamma, nor
    whether the codes, which have no fixed sum, are normalised.

    References
    ----------
    Z. Xue, B. Yang, X. Zhang, F. Wang, Z. Lin. One-step multi-view clustering with adaptive
    low-rank anchor-graph learning. arXiv 2509.14724.
    """

    _codes_in_memory = 4, 8
    alpha: Positive = parameter(default=1.0, help="Ridge on the codes; positive.")
    beta: float = parameter(default=0.3, help="Weight of the nuclear norm.")
    gamma: float = parameter(default=0.1, help="Weight of the factorisation.")
    normalize_codes: bool = True
    max_iter: int = 100
    tol: float = 1e-6

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        m, c = self._anchor_count(views.n), self.n_clusters
        if m < c:
            raise ValueError(f"n_anchors={m} must be at least n_clusters={c}; raise n_anchors.")
        X = self._filtered_views(views, random_state)
        codes = np.stack([anchor_codes(x, x[self.anchor_indices_], self.alpha) for x in X], axis=1)
        for v, name in enumerate(views.names):
            if not codes[:, v].any():
                # With all weight on such a view the objective would be 0.
                raise ValueError(
                    f"view {name!r} has only codes of zeros: each of its samples is constant, or "
                    "all are the same; leave it out."
                )
        if self.normalize_codes:
            codes = rows_with_sum_one(codes)
        G = np.linalg.qr(random_state.standard_normal((m, c)))[0]
        uniform = np.full(len(views), 1 / len(views))
        problem = Problem(self.beta, self.gamma, "adaptive", uniform, self.max_iter, self.tol)
        solution, labels = consensus(codes, G, problem)
        self.view_weights_: Floats = solution.alpha
        self.basis_: Floats = solution.consensus.G
        self.objective_ = np.array(solution.history)
        self.n_iter_ = solution.n_iter
        if not solution.converged:
            self._warn(
                f"has an objective that still changes by more than tol={self.tol:g} after "
                f"max_iter={self.max_iter} iterations; raise max_iter or tol"
            )
        return np.unique(labels, return_inverse=True)[1]

    def _memory_needed(self, views: Views) -> float:
        return super()._memory_needed(views) + 8.0 * views.n * 3 * self.n_clusters  # F


def rows_with_sum_one(codes: Array) -> Floats:
    """Return each code divided by its sum; a zero code stays zero."""
    total = codes.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(codes, total, out=np.zeros_like(codes), where=total > 0))


def consensus(codes: Array, G: Array, problem: Problem) -> tuple[Solution, NDArray[np.int32]]:
    """Run Algorithm 1 on codes (n, V, m) in place of anchor graphs, from an orthonormal G.

    Returns the solution and labels from 0 to c - 1; some labels may not occur.
    """
    m = codes.shape[2]
    columns = np.broadcast_to(np.arange(m, dtype=np.min_scalar_type(m - 1)), codes.shape)
    rows = MemoryRows(AnchorGraphs(columns, codes, m), G.shape[1])
    solution = solve(rows, rows.gram(), G, problem)
    Z = solution.consensus
    return solution, rows.assign(Z.alpha, *Z.f_step(), Z.G).labels


def filtered_views(
    X: list[Array], k: int, strength: float, order: int
) -> tuple[list[Array], Floats]:
    """Smooth each view over the graph of its k neighbours: (I - strength L)^order X.

    The second result is the degree of each sample, summed over the graphs.
    """
    importance = np.zeros(len(X[0]))
    filtered = []
    for x in X:
        W = neighbor_graph(x, k)
        importance += W.sum(axis=1)
        A = normalized_adjacency(W)
        for _ in range(order):
            x = (1 - strength) * x + strength * (A @ x)
        filtered.append(x)
    return filtered, importance


def sample_anchors(
    importance: Array, m: int, power: float, random_state: np.random.RandomState
) -> NDArray[np.intp]:
    """Draw m different samples with probability proportional to importance^power."""
    p = (importance / max(importance.max(), np.finfo(np.float64).tiny)) ** power
    possible = np.flatnonzero(p)
    if len(possible) <= m:  # take all of these, and draw the rest uniformly
        others = np.flatnonzero(p == 0)
        rest = random_state.choice(others, m - len(possible), replace=False)
        return np.concatenate([possible, rest])
    return random_state.choice(len(p), m, replace=False, p=p / p.sum())


def anchor_codes(X: Array, anchors: Array, alpha: float) -> Floats:
    """Return the n×m weights of anchors H: min |x - Hᵀz|² + alpha |z|² with 0 <= z <= 1."""
    m = len(anchors)
    least = 10 * np.finfo(np.float64).eps * sum_of_squares(anchors)
    if alpha < least:
        raise ValueError(
            f"alpha={alpha} is lost in rounding beside the squared size of the anchors; use at "
            f"least {least:.1e}."
        )
    # |x - Hᵀz|² + alpha |z|² = |r - Rz|² + constant, without squaring the condition number.
    Q, R = linalg.qr(np.vstack([anchors.T, np.sqrt(alpha) * np.eye(m)]), mode="economic")
    return box_least_squares(R, X @ Q[: X.shape[1]])
