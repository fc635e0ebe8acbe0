"""SC: the spectral clustering of Ng, Jordan and Weiss."""

from __future__ import annotations

import numpy as np

from omcal.baselines._base import Baseline
from omcal.baselines._distances import centred, squared_distances
from omcal.baselines._spectral import kmeans_labels, spectral_embedding
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Positive
from omcal.views.view import Views

_MEDIAN_SAMPLES = 2000


class SC(Baseline):
    """Spectral clustering of the fully connected Gaussian graph.

    A_ij = exp(−‖xᵢ − xⱼ‖² / 2σ²) with A_ii = 0; the c largest eigenvectors of D^-½ A D^-½ are the
    columns of U, its rows are scaled to length 1 and clustered by k-means [1]_.

    Parameters
    ----------
    sigma : float or None, default=None
        Width σ. None takes the median distance between two samples (of 2000 drawn at random where
        there are more).

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

    A width far below the distances gives a graph of isolated samples and clusters without meaning;
    a sample without any neighbour has a row of zeros in U. Memory and time are quadratic in the
    number of samples. Wide sparse data needs no reduction: only X Xᵀ enters.

    References
    ----------
    .. [1] A. Y. Ng, M. I. Jordan and Y. Weiss, "On spectral clustering: analysis and an algorithm",
       NIPS 2001.
    """

    sigma: Positive | None = None

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = centred(views[0].array)
        squared = squared_distances(X, X)
        self.sigma_: float = (
            median_distance(squared, random_state) if self.sigma is None else self.sigma
        )
        A = gaussian_affinity(squared, self.sigma_)
        del squared  # n×n, and done with
        self.embedding_: Floats = spectral_embedding(A, self.n_clusters)
        return kmeans_labels(self.embedding_, self.n_clusters, random_state)

    def _memory_needed(self, views: Views) -> float:
        # Distances and affinities, then affinities, scaled ones and their negative; centred data.
        return 8.0 * (3.1 * views.n**2 + int(views[0].array.size))


def median_distance(squared: Array, random_state: np.random.RandomState) -> float:
    """Return the median distance between two samples; where it is 0, the mean of positive ones."""
    n = len(squared)
    if n > _MEDIAN_SAMPLES:
        chosen = random_state.choice(n, _MEDIAN_SAMPLES, replace=False)
        squared = squared[np.ix_(chosen, chosen)]
    pairs = np.sqrt(squared[np.triu_indices(len(squared), k=1)])
    median = float(np.median(pairs))
    if median > 0:
        return median
    # Most samples are equal: the others set the width, and with no others any width does.
    return float(pairs[pairs > 0].mean()) if pairs.any() else 1.0


def gaussian_affinity(squared: Array, sigma: float) -> Array:
    """Return exp(−d² / 2σ²) with a zero diagonal."""
    A = np.exp(squared / (-2 * sigma**2))
    np.fill_diagonal(A, 0)
    return A
