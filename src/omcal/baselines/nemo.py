"""NEMO: the mean of relative similarities to neighbours, over the views that two samples share."""

from __future__ import annotations

import numpy as np

from omcal.baselines._base import ScaledViews
from omcal.baselines._distances import centred, copy_bytes, squared_distances
from omcal.baselines._spectral import kmeans_labels, spectral_embedding
from omcal.machine.arrays import Array, Floats
from omcal.views.view import View, Views

_LEAST_WIDTH = 1e-12  # of a kernel, relative to the largest


class NEMO(ScaledViews):
    """Neighbourhood-based multi-omics clustering, also with samples absent from views.

    In each view, its features scaled, the similarity of two samples is ::

        s_ij = exp(−d_ij² / 2σ_ij²) / (√(2π) σ_ij),    σ_ij² = (q_i + q_j + d_ij²) / 3,

    where q_i is the mean squared distance of sample i to its k nearest neighbours η_i. Relative to
    the neighbours it is ::

        r_ij = s_ij [j ∈ η_i] / Σ_{l ∈ η_i} s_il + s_ij [i ∈ η_j] / Σ_{l ∈ η_j} s_jl.

    The labels are those of spectral clustering of the mean of r_ij over the views in which both
    samples are present [1]_.

    Parameters
    ----------
    n_neighbors : int or None, default=None
        k; None stands for the number of samples in the view over n_clusters, as in the paper.
        Reduced to one less than the samples in the view where there are fewer.

    Attributes
    ----------
    similarity_ : array of shape (n, n)
        Mean relative similarities; 0 for samples that share no view.

    Notes
    -----
    Written from the formulas of the paper. The paper asks that every two samples share a view;
    here the similarity of others is 0, which suffices as long as views overlap. Missing cells are
    filled as by `OMCAL`. Widths of equal samples are kept from 0. Sparse views are divided by the
    standard deviations but not centred. Memory and time are quadratic in the number of samples.

    References
    ----------
    .. [1] N. Rappoport and R. Shamir, "NEMO: cancer subtyping by integration of partial multi-omic
       data", Bioinformatics 35, 2019.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.nemo import NEMO
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> X = [np.eye(3, 8)[y] + 0.1 * rng.standard_normal((60, 8)) for _ in range(2)]
    >>> X[0][:20] = X[1][40:] = np.nan  # absent samples
    >>> labels = NEMO(n_clusters=3, random_state=0).fit_predict(X)
    >>> [len(np.unique(labels[y == j])) for j in range(3)]
    [1, 1, 1]
    """

    _takes_absent = True
    n_neighbors: int | None = None

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        total = np.zeros((views.n, views.n))
        n_shared = np.zeros((views.n, views.n), dtype=np.int32)
        for view in views:
            here = np.arange(views.n) if view.present is None else np.flatnonzero(view.present)
            total[np.ix_(here, here)] += self._relative(view, here)
            n_shared[np.ix_(here, here)] += 1
        self.similarity_: Floats = total / np.maximum(n_shared, 1)
        U = spectral_embedding(self.similarity_, self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)

    def _relative(self, view: View, here: Array) -> Floats:
        n = len(here)
        if n < 2:
            return np.zeros((n, n))
        X = centred(self._scaled(view.array[here]))
        k = n // self.n_clusters if self.n_neighbors is None else self.n_neighbors
        return relative_similarities(squared_distances(X, X), min(max(k, 1), n - 1))

    def _memory_needed(self, views: Views) -> float:
        # The sum, the counts, and six arrays while one view is added; scaled features.
        return 8.0 * 7.5 * views.n**2 + 2.0 * copy_bytes(views)


def relative_similarities(squared: Array, k: int) -> Floats:
    """Return r for the squared distances of the samples of one view."""
    others = squared + np.diag(np.full(len(squared), np.inf))
    nearest = np.argsort(others, axis=1, kind="stable")[:, :k]
    mean = np.take_along_axis(squared, nearest, axis=1).mean(axis=1)
    variance = (mean[:, None] + mean + squared) / 3
    variance = np.maximum(variance, _LEAST_WIDTH * (variance.max() or 1.0))
    similarity = np.exp(-squared / (2 * variance)) / np.sqrt(2 * np.pi * variance)
    near = np.zeros_like(squared)
    np.put_along_axis(near, nearest, np.take_along_axis(similarity, nearest, axis=1), axis=1)
    near /= near.sum(axis=1, keepdims=True)
    return near + near.T
