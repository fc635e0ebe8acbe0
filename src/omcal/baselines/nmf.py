"""NMF: clusters are the columns of a non-negative factor."""

from __future__ import annotations

from typing import Literal

import numpy as np
from scipy import sparse
from sklearn.decomposition import NMF
from sklearn.utils import Tags

from omcal.baselines._base import Baseline
from omcal.baselines._graphs import kmeans_labels
from omcal.baselines._linalg import as_floats, squared_norms
from omcal.machine.arrays import Array
from omcal.machine.declaring import parameter
from omcal.views.view import Matrix, Views


class NMFClustering(Baseline):
    """Clustering by non-negative matrix factorisation.

    Minimises ‖X − F Gᵀ‖² over F ≥ 0 (n×c) and G ≥ 0 (d×c) [1]_; the columns of G are scaled to
    length 1, and F by the inverse. The cluster of a sample is the largest entry of its row of F.

    Parameters
    ----------
    labels : {"argmax", "kmeans"}, default="argmax"
        How labels follow from F: the largest entry of each row, or k-means (20 starts) on the rows.
    solver : {"mu", "cd"}, default="mu"
        Multiplicative updates, or coordinate descent, which is faster.
    init : {"random", "nndsvda"}, default="random"
        Random positive factors, or the deterministic start from singular vectors.
    weighting : {"ncw"} or None, default=None
        "ncw" divides each sample by sqrt(xᵢᵀ Σⱼ xⱼ), which turns the fit into a normalised cut of
        the graph X Xᵀ [2]_; meant for text.
    tol : float, default=1e-5
        Stop when ten iterations lower the error by less than this fraction of its first value.

    Attributes
    ----------
    memberships_ : array of shape (n, c)
        F, for unit columns of G.
    components_ : array of shape (c, d)
        Gᵀ, unit rows.
    objective_ : float
        ‖X − F Gᵀ‖² at the end (of the weighted X where weighted).
    n_iter_ : int
        Iterations of the kept start.

    Notes
    -----
    The factorisation is scikit-learn's. Scaling G makes the entries of a row of F comparable:
    otherwise each column of F could be multiplied by any factor, and that of G divided by it, and
    the largest entry would have no meaning. A sample of zeros has a row of zeros and gets label 0.

    References
    ----------
    .. [1] D. D. Lee and H. S. Seung, "Algorithms for non-negative matrix factorization", NIPS 2000.
    .. [2] W. Xu, X. Liu and Y. Gong, "Document clustering based on non-negative matrix
       factorization", SIGIR 2003.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.nmf import NMFClustering
    >>> X = np.array([[5.0, 4, 0, 0], [4, 5, 0, 0], [0, 0, 3, 4], [0, 0, 4, 3]])
    >>> labels = NMFClustering(n_clusters=2, random_state=0).fit_predict(X)
    >>> bool(labels[0] == labels[1] != labels[2] == labels[3])
    True
    """

    _copies = 3.0  # one of them weighted
    labels: Literal["argmax", "kmeans"] = "argmax"
    solver: Literal["mu", "cd"] = "mu"
    init: Literal["random", "nndsvda"] = "random"
    weighting: Literal["ncw"] | None = None
    n_init: int = parameter(default=1, help="Number of starts; the best fit is kept.")
    max_iter: int = parameter(default=500, help="Most iterations of one start.")
    tol: float = 1e-5

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        X = as_floats(views[0].array)
        if (least := X.min()) < 0:
            raise ValueError(
                f"Negative values in data passed to NMFClustering (least: {least:g}); shift or "
                "rescale X so that no entry is below 0."
            )
        if X.max() == 0:
            raise ValueError("all entries of X are 0; there is nothing to factorise.")
        squared_norms(X)  # raises on overflow
        if self.weighting == "ncw":
            X = normalized_cut_weighted(X)
        fits = []
        for _ in range(self.n_init):
            model = NMF(
                self.n_clusters,
                init=self.init,
                solver=self.solver,
                max_iter=self.max_iter,
                tol=self.tol,
                random_state=random_state,
            )
            fits.append((model.fit_transform(X), model))
        F, model = min(fits, key=lambda fit: fit[1].reconstruction_err_)
        self.memberships_, self.components_ = unit_components(F, model.components_)
        self.objective_: float = float(model.reconstruction_err_) ** 2
        self.n_iter_ = int(model.n_iter_)
        if self.labels == "argmax":
            return np.asarray(self.memberships_.argmax(axis=1))
        return kmeans_labels(self.memberships_, self.n_clusters, random_state, n_init=20)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.positive_only = True
        return tags


def unit_components(F: Array, Gt: Array) -> tuple[Array, Array]:
    """Return the same product F Gᵀ with rows of Gᵀ of length 1; a row of zeros stays."""
    lengths = np.linalg.norm(Gt, axis=1)
    return F * lengths, Gt / np.where(lengths > 0, lengths, 1.0)[:, np.newaxis]


def normalized_cut_weighted(X: Matrix) -> Matrix:
    """Return each sample divided by the root of its degree xᵢᵀ Σⱼ xⱼ in the graph X Xᵀ."""
    degree = X @ np.asarray(X.sum(axis=0)).ravel()
    factor = 1 / np.sqrt(np.where(degree > 0, degree, 1.0))
    return sparse.diags_array(factor) @ X
