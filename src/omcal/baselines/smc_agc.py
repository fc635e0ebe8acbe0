"""SMC-AGC: SMC with OMCAL's closed-form anchor graphs in place of its codes."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from scipy.spatial.distance import cdist

from omcal.baselines._smc import AbstractSMC, stacked_embedding
from omcal.baselines._spectral import kmeans_labels
from omcal.machine.arrays import Array, Floats, Seed
from omcal.machine.scikit import Interval
from omcal.method.graph import anchor_weights, nearest_columns
from omcal.views.like import ColumnsLike
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
    n_clusters : int, default=8
        Number of clusters c.
    n_anchors : int or None, default=None
        m, at most n; None stands for the smaller of 2 n_clusters and n.
    n_nearest : int, default=5
        k, the anchors a sample is tied to; reduced to m - 1 where there are fewer.
    n_neighbors : int, default=5
        Neighbours per sample in the graphs of the filter; reduced to n - 2 where there are fewer.
    filter_strength : float, default=0.8
        How much a sample takes of its neighbours at each application of the filter.
    filter_order : int, default=1
        How often the filter is applied; 0 leaves the views as they are.
    sampling_power : float, default=2.0
        0 draws the anchors evenly.
    n_init : int, default=10
        Starts of the final k-means.
    views : None, str, mapping or sequence
        How the columns of one table form views.
    random_state : int, RandomState or None, default=None
        Seed of the anchors and of the final k-means.

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each sample, 0 to n_clusters − 1.
    anchor_indices_ : array of shape (m,)
        The samples that serve as anchors.
    objective_ : array of shape (1,)
        The sum of the minima over all samples and views.
    n_iter_ : int
        1; nothing is iterated.
    n_features_in_ : int
        Sum of the widths of the views.
    n_features_per_view_ : list of int
        Number of features of each view.
    n_missing_ : list of int
        Missing cells of each view, which counted as the middle of their feature.
    view_names_ : list of str
        Names of the views, in the order of all attributes with one entry per view.

    Notes
    -----
    The paper that describes this transfer does so in one sentence. A sample that is an anchor is
    at distance 0 from itself, and that anchor keeps its weight.

    References
    ----------
    Z. Xue, B. Yang, X. Zhang, F. Wang, Z. Lin. One-step multi-view clustering with adaptive
    low-rank anchor-graph learning. arXiv 2509.14724.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.smc_agc import SMCAGC
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> X = [np.eye(3, 8)[y] + 0.1 * rng.standard_normal((60, 8)) for _ in range(2)]
    >>> labels = SMCAGC(n_clusters=3, n_anchors=12, random_state=0).fit_predict(X)
    >>> [len(np.unique(labels[y == j])) for j in range(3)]
    [1, 1, 1]
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **AbstractSMC._parameter_constraints,
        "n_nearest": [Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        n_anchors: int | None = None,
        n_nearest: int = 5,
        n_neighbors: int = 5,
        filter_strength: float = 0.8,
        filter_order: int = 1,
        sampling_power: float = 2.0,
        n_init: int = 10,
        views: ColumnsLike | None = None,
        random_state: Seed = None,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_anchors = n_anchors
        self.n_nearest = n_nearest
        self.n_neighbors = n_neighbors
        self.filter_strength = filter_strength
        self.filter_order = filter_order
        self.sampling_power = sampling_power
        self.n_init = n_init
        self.views = views
        self.random_state = random_state

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = self._filtered_views(views, random_state)
        graphs = [dense_anchor_graph(x, x[self.anchor_indices_], self.n_nearest) for x in X]
        self.objective_: Floats = np.array([sum(cost for _, cost in graphs)])
        self.n_iter_ = 1
        U = stacked_embedding([S for S, _ in graphs], self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)

    def _memory_needed(self, views: Views) -> float:
        # Raw, scaled and filtered views; graphs and their singular vectors, and what one view's
        # graph takes while it is computed.
        m = self._anchor_count(views.n)
        return 8.0 * views.n * (4 * sum(views.widths) + (3 * len(views) + 5) * m)


def dense_anchor_graph(X: Array, anchors: Array, k: int) -> tuple[Floats, float]:
    """Return the closed-form weights of the k nearest anchors, and the sum of the minima.

    Parameters
    ----------
    X : array of shape (n, d)
    anchors : array of shape (m, d)
    k : int
        Reduced to m - 1, but at least 1.

    Returns
    -------
    S : array of shape (n, m)
        k positive entries a row, or fewer where distances are equal; rows sum to 1.
    cost : float
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
