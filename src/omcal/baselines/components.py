"""MLAN and MCGC: a graph of all views with as many components as clusters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import sparse

from omcal.baselines._base import MultiViewBaseline
from omcal.baselines._graphs import (
    RankPenalty,
    closed_form_weights,
    component_labels,
    graph_of_rows,
    largest_eigenvectors,
    nearest_samples,
    symmetrized,
    without_rounding,
)
from omcal.baselines._linalg import scaled, squared_distances
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Positive, parameter
from omcal.machine.threads import row_blocks
from omcal.method.simplex import project_simplex
from omcal.views.view import Matrix, Views

_BLOCK_ENTRIES = 1 << 20


class MLAN(MultiViewBaseline):
    """Multi-view learning with adaptive neighbours.

    Minimises Σ_v sqrt(Σ_ij ‖xᵢᵛ − xⱼᵛ‖² s_ij) + α‖S‖² over graphs S whose rows lie on the simplex
    and which have exactly n_clusters connected components. View v has the weight
    w_v = 1 / (2 sqrt(Σ_ij ‖xᵢᵛ − xⱼᵛ‖² s_ij)). A term 2λ tr(FᵀL_S F), FᵀF = I, enforces the
    components: λ is doubled while there are too few of them and halved while there are too many.

    Parameters
    ----------
    n_neighbors : int, default=9
        Number of nearest samples, by mean distance, that a sample may have edges to; at most n - 2.
        They are found once. With too many the graph stays in one piece; with too few it has more
        than n_clusters pieces from the start.
    weights : {"fresh", "compound"}, default="fresh"
        "fresh" weights the given distances, as published. "compound" multiplies the distances
        of the iteration before, as a program in circulation does: on Wiki ACC 0.46 instead of 0.41.
    normalize : {"sample"} or None, default=None
        "sample" takes the z-score of each sample in each view first; sparse views become dense.
        The effect is large: on Wiki ACC 0.15 instead of 0.41.
    tol : float, default=1e-10
        The sum of n_clusters eigenvalues of L_S that counts as zero.
    random_state : ignored
        Nothing is random here.

    Attributes
    ----------
    labels_ : array of shape (n,)
        The components of the graph, whatever their number.
    graph_ : csr_array of shape (n, n)
        S.
    view_weights_ : array of shape (V,)
        w_v; they do not sum to 1.
    objective_ : array of shape (n_iter,)
        Without the rank term, whose λ changes; it may rise where λ does.

    Notes
    -----
    The published program draws the first λ at random between 1 and 30, and stops with an error if
    the first graph has too many components. Here λ is a parameter, and too many components raise a
    warning.

    References
    ----------
    F. Nie, G. Cai, X. Li. Multi-view clustering and semi-supervised classification with adaptive
    neighbours. AAAI 2017.
    """

    n_neighbors: int = 9
    lambda0: Positive = parameter(default=1.0, help="The first λ.")
    weights: Literal["fresh", "compound"] = "fresh"
    normalize: Literal["sample"] | None = None
    max_iter: int = 30
    tol: Positive = 1e-10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        c = self.n_clusters
        if self.normalize == "sample":
            X = [scaled(array, "sample") for array in views.dense()]
        else:
            X = [view.array for view in views]
        nearest, mean_distances, given = nearest_samples(X, self.n_neighbors)
        neighbors = nearest[:, :-1]
        s, regularizers = closed_form_weights(mean_distances)
        # 0 if all neighbours of every sample tie: then any α > 0 leaves their weights equal.
        alpha = regularizers.mean() or 1.0
        given = given[:, :, :-1]
        S = symmetrized(graph_of_rows(neighbors, s))
        rank = RankPenalty(S, c, weight=self.lambda0, tol=self.tol)
        if rank.surplus > 0:
            self._warn(f"aims at {c} components and starts from more; raise n_neighbors")
        samples = np.arange(views.n)[:, None]
        weights = np.ones(len(views))
        objective: list[float] = []
        for _ in range(self.max_iter):
            applied = weights if self.weights == "compound" else 1.0
            weights = np.sqrt(applied / _spread(given, s)) / 2
            distances = np.tensordot(weights, given, axes=1)
            distances += rank.weight * rank.squared_distances(samples, neighbors)
            s = project_simplex(distances / (-2 * alpha))
            S = symmetrized(graph_of_rows(neighbors, s))
            objective.append(float(np.sqrt(_spread(given, s)).sum() + alpha * np.sum(S.data**2)))
            if rank.update(S):
                break
        else:
            self._warn(f"did not reach {c} components in max_iter={self.max_iter} iterations")
        self.graph_ = S
        self.view_weights_ = weights
        self.objective_ = np.array(objective)
        self.n_iter_ = len(objective)
        return component_labels(S)

    def _memory_needed(self, views: Views) -> float:
        made_dense = self.normalize == "sample" and any(view.sparse for view in views)
        dense = 8.0 * views.n * sum(views.widths) if made_dense else 0.0
        return super()._memory_needed(views) + 2.0 * dense


def _spread(distances: Array, s: Array) -> Floats:
    """Return Σ d s of each view, at least a small positive number: joined samples may be equal."""
    total = distances.sum(axis=(1, 2))
    floor = np.where(total > 0, np.finfo(np.float64).eps * total, 1.0)
    return np.asarray(np.maximum(np.einsum("vnk,nk->v", distances, s), floor))


class MCGC(MultiViewBaseline):
    """Multi-view consensus graph clustering.

    First the graph W_v of each view is driven to n_clusters components. Then

    −Σ_v tr(U_vᵀW_v U_v) − β Σ_v tr(U_vᵀS U_v) + ½|S|²

    is minimised over embeddings U_vᵀU_v = I and a graph S, rows on the simplex, with exactly
    n_clusters components: enforced by γ tr(HᵀL_S H), HᵀH = I, with γ doubled while there
    are too few of them and halved while there are too many.

    Parameters
    ----------
    beta : float, default=0.6
        How strongly the embeddings of the views are drawn to S. The best value differs between data
        sets: on Wiki, all samples but nine are in one cluster with 0.6 (ACC 0.16), but not with 5.6
        (ACC 0.40).
    local : bool, default=True
        Whether the graph of a view has edges between nearest neighbours only, or between any pairs.
    consensus : {"sum", "mean"}, default="sum"
        "sum" projects β Σ_v U_v U_vᵀ on the simplex, as the authors' program does; "mean"
        projects its mean over the views, as their text does. The latter gives a less sharp
        graph: on Coil ACC 0.95 instead of 1.00.
    random_state : ignored
        Nothing is random here.

    Attributes
    ----------
    labels_ : array of shape (n,)
        The components of S, whatever their number.
    graph_ : csr_array of shape (n, n)
        S.
    view_graphs_ : list of csr_array
        W_v.
    view_components_ : list of int
        Their numbers of components.
    objective_ : array of shape (n_iter,)
        Without the rank term, whose γ changes.

    Notes
    -----
    Rows of S are projected with all n entries, in blocks, and only positive entries are kept. The
    first S is the dense β Σ_v U_v U_vᵀ, so memory is quadratic in the number of samples.

    References
    ----------
    K. Zhan, F. Nie, J. Wang, Y. Yang. Multiview consensus graph clustering. IEEE Transactions on
    Image Processing 28(3), 2019.
    """

    # In the worst case S has n² edges. S, its transpose, their sum and the Laplacian are CSR with
    # one index per entry; W + βS and the working copy of the eigensolver are dense.
    _copies, _pairs = 1.0, 12.0
    n_neighbors: int = 15
    beta: Positive = 0.6
    local: bool = True
    consensus: Literal["sum", "mean"] = "sum"
    max_iter: int = parameter(default=5, help="Rounds of U and S; all of them are made.")

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        c, beta = self.n_clusters, self.beta
        graphs = [view_graph(view.array, c, self.n_neighbors, self.local) for view in views]
        share = len(views) if self.consensus == "mean" else 1
        U = [largest_eigenvectors(W, c)[1] for W in graphs]
        stacked = np.hstack(U)
        S: Any = beta * (stacked @ stacked.T)
        rank = RankPenalty(S, c, weight=1.0, tol=1e-10)
        objective = []
        for _ in range(self.max_iter):
            U = [largest_eigenvectors(W + beta * S, c)[1] for W in graphs]
            S = _consensus_graph(np.sqrt(beta / share) * np.hstack(U), rank, share)
            fit = sum(np.sum(u * (W @ u)) for u, W in zip(U, graphs, strict=True))
            agreement = sum(np.sum(u * (S @ u)) for u in U)
            objective.append(float(-fit - beta * agreement + np.sum(S.data**2) / 2))
        self.graph_ = S
        self.view_graphs_ = graphs
        self.view_components_: list[int] = [int(component_labels(W).max()) + 1 for W in graphs]
        self.objective_ = np.array(objective)
        self.n_iter_ = self.max_iter
        return component_labels(S)


def view_graph(X: Matrix, c: int, k: int, local: bool) -> sparse.csr_array:
    """Return the graph of one view, driven to c components; distances only determine its start."""
    nearest, distances, _ = nearest_samples(X, k)
    neighbors = nearest[:, :-1]
    A = symmetrized(graph_of_rows(neighbors, closed_form_weights(distances)[0]))
    rank = RankPenalty(A, c, weight=1.0, tol=1e-11)
    n = len(neighbors)
    samples = np.arange(n)[:, None]
    for _ in range(30):
        if local:
            s = project_simplex(rank.squared_distances(samples, neighbors) * (-rank.weight / 2))
            A = symmetrized(graph_of_rows(neighbors, s))
        else:
            A = _projected_rows(
                n, lambda rows: squared_distances(rank.F[rows], rank.F) * (-rank.weight / 2)
            )
        if rank.update(A):
            break
    return A


def _consensus_graph(B: Array, rank: RankPenalty, share: int) -> sparse.csr_array:
    """Return the graph nearest to B Bᵀ, driven by `rank` to c components."""

    def rows_of(rows: slice) -> Floats:
        pull = rank.weight / (2 * share) * squared_distances(rank.F[rows], rank.F)
        return B[rows] @ B.T - pull

    for _ in range(50):
        S = _projected_rows(len(B), rows_of)
        if rank.update(S):
            break
    return S


def _projected_rows(n: int, rows_of: Callable[[slice], Array]) -> sparse.csr_array:
    """Project each row of an n×n matrix on the simplex, in blocks, and symmetrise the result."""
    blocks = row_blocks(n, max(1, _BLOCK_ENTRIES // n))
    projected = [sparse.csr_array(project_simplex(rows_of(rows))) for rows in blocks]
    return symmetrized(without_rounding(sparse.csr_array(sparse.vstack(projected))))
