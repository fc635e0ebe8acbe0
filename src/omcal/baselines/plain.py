"""Provide the floor for multi-view methods: all features together, or one view alone."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import silhouette_score

from omcal.baselines._base import ScaledViews
from omcal.baselines._distances import copy_bytes
from omcal.baselines._graphs import graph_bytes, neighbor_graph
from omcal.baselines._linalg import side_by_side
from omcal.baselines._spectral import kmeans_labels, spectral_embedding
from omcal.machine.arrays import Array, Floats
from omcal.views.view import Matrix, Views

_SILHOUETTE_SAMPLES = 2000


class ConcatKMeans(ScaledViews):
    """k-means on the scaled features of all views side by side.

    Notes
    -----
    With scale="feature" a view counts in proportion to its number of features.
    """

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = side_by_side([self._scaled(view.array) for view in views])
        return kmeans_labels(X, self.n_clusters, random_state, self.n_init)


class BestSingleView(ScaledViews):
    """k-means on each view alone; the view whose clusters are best separated is kept.

    The score is the mean silhouette in the view's own scaled space, which uses no labels. It is
    a guess at the best view: silhouettes fall with the number of features.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of k-means and, above 2000 samples, of the 2000 that are scored.

    Attributes
    ----------
    best_view_ : str
        Name of the view they come from; the first of equals.
    scores_ : dict
        View name -> silhouette; 0 where it is not defined (one cluster, or one per sample).

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.plain import BestSingleView
    >>> noise = np.random.default_rng(0).normal(size=(6, 3))
    >>> good = np.array([[0.0], [1], [2], [50], [51], [52]])
    >>> model = BestSingleView(2, random_state=0).fit({"noise": noise, "good": good})
    >>> model.best_view_
    'good'
    """

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        scored = random_state.permutation(views.n)[:_SILHOUETTE_SAMPLES]
        labels: dict[str, Array] = {}
        self.scores_: dict[str, float] = {}
        for name, view in zip(views.names, views, strict=True):
            X = self._scaled(view.array)
            labels[name] = kmeans_labels(X, self.n_clusters, random_state, self.n_init)
            self.scores_[name] = _silhouette(X[scored], labels[name][scored])
        self.best_view_: str = max(self.scores_, key=self.scores_.__getitem__)
        return labels[self.best_view_]


class ConcatSpectral(ScaledViews):
    """Spectral clustering of the scaled features of all views side by side.

    The leading eigenvectors of D^-1/2 W D^-1/2, rows scaled to length 1, clustered by k-means. W is
    the symmetrised graph of nearest neighbours, whose weights fall linearly with the squared
    distance.

    Attributes
    ----------
    embedding_ : array of shape (n, n_clusters)
        Input of k-means: leading eigenvectors, each row of length 1.
    """

    n_neighbors: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = side_by_side([self._scaled(view.array) for view in views])
        W = neighbor_graph(X, self.n_neighbors)
        self.embedding_: Floats = spectral_embedding(W, self.n_clusters)
        return kmeans_labels(self.embedding_, self.n_clusters, random_state, self.n_init)

    def _memory_needed(self, views: Views) -> float:
        return 3.0 * copy_bytes(views) + 2.0 * graph_bytes(views.n, self.n_neighbors)


def _silhouette(X: Matrix, labels: Array) -> float:
    n_labels = len(np.unique(labels))
    if not 1 < n_labels < len(labels):
        return 0.0
    return float(silhouette_score(X, labels))
