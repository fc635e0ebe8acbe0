"""Provide the simplest methods to compare with: k-means and spectral clustering of features."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import silhouette_score

from omcal.baselines._base import Baseline, ScaledViews
from omcal.baselines._graphs import kmeans_labels, neighbor_graph, spectral_embedding
from omcal.baselines._linalg import centred, scaled, side_by_side, squared_distances
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Positive
from omcal.views.view import Views

_SILHOUETTE_SAMPLES = 2000
_MEDIAN_SAMPLES = 2000


class ConcatKMeans(ScaledViews):
    """k-means on the scaled features of all views side by side.

    Notes
    -----
    With scale="feature" a view counts in proportion to its number of features.
    """

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = side_by_side([scaled(view.array, self.scale) for view in views])
        return kmeans_labels(X, self.n_clusters, random_state, self.n_init)


class BestSingleView(ScaledViews):
    """k-means on each view alone; the view whose clusters are best separated is kept.

    The score is the mean silhouette in the view's own scaled space, which uses no labels. It need
    not find the best view: silhouettes fall with the number of features.

    Parameters
    ----------
    random_state : int, RandomState or None, default=None
        Seed of k-means, and with more than 2000 samples of the choice of 2000 that are scored.

    Attributes
    ----------
    best_view_ : str
        Name of the view that the labels come from; of views with equal scores the first.
    scores_ : dict
        View name -> silhouette; 0 where it is not defined (one cluster, or one per sample).

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines import BestSingleView
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
            X = scaled(view.array, self.scale)
            labels[name] = kmeans_labels(X, self.n_clusters, random_state, self.n_init)
            found = labels[name][scored]
            defined = 1 < len(np.unique(found)) < len(found)
            self.scores_[name] = float(silhouette_score(X[scored], found)) if defined else 0.0
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

    _copies = 3.0
    n_neighbors: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = side_by_side([scaled(view.array, self.scale) for view in views])
        W = neighbor_graph(X, self.n_neighbors)
        self.embedding_: Floats = spectral_embedding(W, self.n_clusters)
        return kmeans_labels(self.embedding_, self.n_clusters, random_state, self.n_init)


class SC(Baseline):
    """Spectral clustering of the fully connected Gaussian graph.

    A_ij = exp(−‖xᵢ − xⱼ‖² / 2σ²) with A_ii = 0; the c largest eigenvectors of D^-½ A D^-½ are the
    columns of U, its rows are scaled to length 1 and clustered by k-means [1]_.

    Parameters
    ----------
    sigma : float or None, default=None
        Width σ. None takes the median distance between two samples, of at most 2000 drawn at
        random.

    Attributes
    ----------
    sigma_ : float
        The width that was used.
    embedding_ : array of shape (n, c)
        U with rows of length 1.

    Notes
    -----
    scikit-learn's `SpectralClustering(affinity="rbf")` keeps the diagonal of A, divides the
    eigenvectors by the square roots of the degrees instead of scaling the rows, and has a fixed
    default width that does not follow the scale of the data.

    If the width is far below the distances, samples are isolated and clusters have no meaning; a
    sample without any neighbour has a row of zeros in U. Memory and time are quadratic in the
    number of samples. Wide sparse data need no reduction: only X Xᵀ is used.

    References
    ----------
    .. [1] A. Y. Ng, M. I. Jordan and Y. Weiss, "On spectral clustering: analysis and an algorithm",
       NIPS 2001.
    """

    # Centred data; distances and affinities, then affinities, scaled ones and their negative.
    _copies, _pairs = 1.0, 3.1
    sigma: Positive | None = None

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = centred(views[0].array)
        squared = squared_distances(X, X)
        self.sigma_: float = (
            median_distance(squared, random_state) if self.sigma is None else self.sigma
        )
        A = np.exp(squared / (-2 * self.sigma_**2))
        del squared  # an n×n array that is not needed any more
        np.fill_diagonal(A, 0)
        self.embedding_: Floats = spectral_embedding(A, self.n_clusters)
        return kmeans_labels(self.embedding_, self.n_clusters, random_state)


def median_distance(squared: Array, random_state: np.random.RandomState) -> float:
    """Return the median distance between two samples, or if it is 0 the mean positive distance."""
    n = len(squared)
    if n > _MEDIAN_SAMPLES:
        chosen = random_state.choice(n, _MEDIAN_SAMPLES, replace=False)
        squared = squared[np.ix_(chosen, chosen)]
    pairs = np.sqrt(squared[np.triu_indices(len(squared), k=1)])
    median = float(np.median(pairs))
    if median > 0:
        return median
    # Most samples are equal: the others determine the width; without others any width will do.
    return float(pairs[pairs > 0].mean()) if pairs.any() else 1.0
