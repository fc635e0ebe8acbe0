"""MLAN: one neighbour graph for all views, with as many components as clusters."""

from __future__ import annotations

from typing import Literal

import numpy as np

from omcal.baselines._base import MultiViewBaseline
from omcal.baselines._distances import copy_bytes
from omcal.baselines._graphs import (
    closed_form_weights,
    difference_bytes,
    distances_to,
    graph_bytes,
    graph_of_rows,
    nearest_samples,
    symmetrized,
)
from omcal.baselines._linalg import standardize_samples
from omcal.baselines._spectral import RankPenalty, component_labels
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Positive, parameter
from omcal.method.simplex import project_simplex
from omcal.views.view import Matrix, Views


class MLAN(MultiViewBaseline):
    """Multi-view learning with adaptive neighbours.

    Minimises Σ_v sqrt(Σ_ij ‖xᵢᵛ − xⱼᵛ‖² s_ij) + α‖S‖² over graphs S whose rows lie on the simplex
    and which have exactly n_clusters connected components. View v has the weight
    w_v = 1 / (2 sqrt(Σ_ij ‖xᵢᵛ − xⱼᵛ‖² s_ij)). The components are bought by a term
    2λ tr(FᵀL_S F), FᵀF = I, with λ doubled while there are too few of them and halved while there
    are too many.

    Parameters
    ----------
    n_neighbors : int, default=9
        Edges start only at the nearest samples in the mean distance, found once; reduced to
        n - 2 where there are fewer. Too many keep the graph in one piece, too few cut it into
        more than n_clusters pieces from the start.
    weights : {"fresh", "compound"}, default="fresh"
        "fresh" weights the given distances, as published. "compound" multiplies the distances
        of the iteration before, as a circulating program does: on Wiki ACC 0.46 instead of 0.41.
    normalize : {"sample"} or None, default=None
        "sample" takes the z-score of each sample in each view first; sparse views become dense.
        It changes much: on Wiki ACC 0.15 instead of 0.41.
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
    The published program draws the first λ at random between 1 and 30 and stops with an error
    where the first graph has too many components; here λ is a parameter and a warning says so.

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
        X, c = self._scaled(views), self.n_clusters
        nearest, mean_distances = nearest_samples(X, self.n_neighbors)
        neighbors = nearest[:, :-1]
        s, regularizers = closed_form_weights(mean_distances)
        # 0 where every sample's neighbours tie: then each α > 0 leaves their weights equal.
        alpha = regularizers.mean() or 1.0
        given = np.stack([distances_to(view, neighbors) for view in X])
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

    def _scaled(self, views: Views) -> list[Matrix]:
        if self.normalize == "sample":
            return [standardize_samples(array) for array in views.dense()]
        return [view.array for view in views]

    def _memory_needed(self, views: Views) -> float:
        dense = self.normalize == "sample"
        features = 8.0 * views.n * sum(views.widths) if dense else copy_bytes(views)
        # The graph, its Laplacian and their sums; the distances of each view along its edges.
        edges = (3 + len(views)) * graph_bytes(views.n, self.n_neighbors)
        differences = difference_bytes(views.n, self.n_neighbors, max(views.widths))
        return 2.0 * features + edges + differences


def _spread(distances: Array, s: Array) -> Floats:
    """Return Σ d s of each view, kept from 0 where all joined samples are equal in a view."""
    total = distances.sum(axis=(1, 2))
    floor = np.where(total > 0, np.finfo(np.float64).eps * total, 1.0)
    return np.asarray(np.maximum(np.einsum("vnk,nk->v", distances, s), floor))
