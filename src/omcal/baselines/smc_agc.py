"""SMC-AGC: SMC with OMCAL's closed-form anchor graphs in place of its codes."""

from __future__ import annotations

import numpy as np
from scipy.spatial.distance import cdist

from omcal.baselines._smc import AbstractSMC, stacked_embedding
from omcal.baselines._spectral import kmeans_labels
from omcal.machine.arrays import Array, Floats
from omcal.method.graph import anchor_weights, nearest_columns
from omcal.views.view import Views


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
        k, the anchors a sample is tied to; reduced to m - 1 where there are fewer.

    Attributes
    ----------
    objective_ : array of shape (1,)
        The sum of the minima over all samples and views.
    n_iter_ : int
        1; nothing is iterated.

    Notes
    -----
    The paper that describes this transfer does so in one sentence. A sample that is an anchor is
    at distance 0 from itself, and that anchor keeps its weight.

    References
    ----------
    Z. Xue, B. Yang, X. Zhang, F. Wang, Z. Lin. One-step multi-view clustering with adaptive
    low-rank anchor-graph learning. arXiv 2509.14724.
    """

    n_nearest: int = 5
    n_init: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = self._filtered_views(views, random_state)
        graphs = [dense_anchor_graph(x, x[self.anchor_indices_], self.n_nearest) for x in X]
        self.objective_ = np.array([sum(cost for _, cost in graphs)])
        self.n_iter_ = 1
        U = stacked_embedding([S for S, _ in graphs], self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)

    def _memory_needed(self, views: Views) -> float:
        # Raw, scaled and filtered views; graphs and their singular vectors, and what one view's
        # graph takes while it is computed.
        m = self._anchor_count(views.n)
        return 8.0 * views.n * (4 * sum(views.widths) + (3 * len(views) + 5) * m)


def dense_anchor_graph(X: Array, anchors: Array, k: int) -> tuple[Floats, float]:
    """Return the n×m closed-form weights of the k nearest anchors, and the sum of the minima.

    Rows have k positive entries, or fewer where distances are equal, and sum to 1; k is reduced to
    m - 1, but at least 1.
    """
    m = len(anchors)
    distances = cdist(X, anchors, "sqeuclidean")
    if m == 1:
        return np.ones((len(X), 1)), float(distances.sum())
    k = min(k, m - 1)
    nearest, d = nearest_columns(distances, k + 1)
    weights = anchor_weights(d, 16 * np.finfo(np.float64).eps * d[:, -1])
    S = np.zeros((len(X), m))
    np.put_along_axis(S, nearest[:, :-1], weights, axis=1)
    ridge = (k * d[:, -1] - d[:, :-1].sum(axis=1)) / 2
    cost = np.vdot(d[:, :-1], weights) + ridge @ np.square(weights).sum(axis=1)
    return S, float(cost)
