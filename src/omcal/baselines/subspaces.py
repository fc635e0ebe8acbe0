"""FSMSC and MVSC-HFD: one anchor graph for orthogonal bases of the views."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial, reduce
from typing import Any, Literal

import numpy as np
from sklearn.preprocessing import normalize

from omcal.baselines._base import MultiViewBaseline
from omcal.baselines._graphs import kmeans_labels
from omcal.baselines._linalg import (
    left_singular_vectors,
    scaled,
    standardized,
    sum_of_squares,
)
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Positive, parameter
from omcal.method.simplex import project_simplex
from omcal.method.updates import orthogonal_factor
from omcal.views.view import Views


class FSMSC(MultiViewBaseline):
    """Fast self-guided multi-view subspace clustering.

    Minimises, with samples in rows and c = n_clusters anchors, ::

        Σ_v |X_v - Z Aᵀ W_vᵀ|² + τ |X̄ - Z̄ Dᵀ|² + λ₁ (|Z - Z̄ Qᵀ|² + |Z|² + |Z̄|²) + λ₂ |Q|²

    over bases W_v, D and a rotation A with orthonormal columns, Q (c × c), Z̄ (n × c), and Z
    (n × c) with rows on the simplex. X_v are the views and X̄ their concatenation, each sample
    standardised. The labels are k-means on the left singular vectors of Z, rows normalised.

    Attributes
    ----------
    anchor_graph_ : array of shape (n, n_clusters)
        Z, rows on the simplex.

    Notes
    -----
    Each block update minimises exactly, so the objective never rises, if every view has at least
    `n_clusters` features. A narrower view has a basis with orthonormal rows instead of columns, and
    the update of Z is then not exact.

    Z, Z̄ and A start from the first `n_clusters` samples, so the result depends on the order of the
    samples: shuffle them if the order has a meaning. The order of the views has no effect.

    Views with one or two features are standardised by feature instead: the z-score of a sample
    would keep nothing of one feature, and of two features only which is larger.

    The published code solves the update of Z with a generic solver, prints another objective
    (without the ridges) and reports the best of 100 k-means runs in every metric. Here Z is an
    exact projection, which gives the same numbers, and a seed gives one labelling. k-means has
    scikit-learn's start, which is better than uniformly drawn samples: on Coil ACC 1.00 instead of
    0.85. Sparse views are made dense.

    References
    ----------
    Z. Chen, X.-J. Wu, T. Xu, J. Kittler. Fast self-guided multi-view subspace clustering. IEEE
    Transactions on Image Processing 32, 2023.
    """

    # The raw views, and four copies of the joined views while they are standardised.
    _copies, _copies_are_dense = 5.0, True
    tau: float = parameter(default=1e-3, help="τ, the weight of the joined views.")
    lam1: Positive = parameter(default=500.0, help="λ₁, how closely Z follows Z̄.")
    lam2: Positive = parameter(default=10.0, help="λ₂, the ridge on Q.")
    max_iter: int = parameter(default=20, help="Rounds of block updates; all of them run.")
    n_init: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        raw = views.dense()
        joined = standardized(np.hstack(raw))
        X = [standardized(view) for view in raw]
        factors, objective = factorize(X, joined, self)
        self.objective_ = np.array(objective)
        self.anchor_graph_: Array = factors.Z
        self.n_iter_ = self.max_iter
        U = normalize(left_singular_vectors(factors.Z, self.n_clusters))
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)


@dataclass
class Factors:
    """The variables of the objective, samples in rows."""

    W: list[Array]
    A: Array
    D: Array
    Q: Array
    Z: Array
    Z_joined: Array


def factorize(X: list[Array], joined: Array, model: FSMSC) -> tuple[Factors, list[float]]:
    """Minimise from the fixed start; return the factors and the objective of each round."""
    c, tau, lam1, lam2 = model.n_clusters, model.tau, model.lam1, model.lam2
    V, eye = len(X), np.eye(c)
    A: Array = np.zeros((c, c))
    Q: Array = np.zeros((c, c))
    Z: Array = np.eye(len(joined), c)
    Z_joined = Z
    objective = []
    for _ in range(model.max_iter):
        W = [orthogonal_factor(x.T @ Z @ A.T) for x in X]
        projected: Any = sum(x @ w for x, w in zip(X, W, strict=True))
        A = orthogonal_factor(projected.T @ Z)
        D = orthogonal_factor(joined.T @ Z_joined)
        gram = lam1 * Z_joined.T @ Z_joined + lam2 * eye
        Q = np.linalg.solve(gram, lam1 * Z_joined.T @ Z).T
        gram = lam1 * Q.T @ Q + (tau + lam1) * eye
        Z_joined = np.linalg.solve(gram, (tau * joined @ D + lam1 * Z @ Q).T).T
        Z = project_simplex((projected @ A + lam1 * Z_joined @ Q.T) / (V + 2 * lam1))

        fit = sum(_misfit(x, Z, w @ A) for x, w in zip(X, W, strict=True))
        ties = sum(map(sum_of_squares, (Z - Z_joined @ Q.T, Z, Z_joined)))
        objective.append(
            float(fit + tau * _misfit(joined, Z_joined, D) + lam1 * ties + lam2 * sum_of_squares(Q))
        )
    return Factors(W, A, D, Q, Z, Z_joined), objective


def _misfit(X: Array, Z: Array, B: Array) -> float:
    """Return |X - Z Bᵀ|²."""
    return sum_of_squares(X - Z @ B.T)


class MVSCHFD(MultiViewBaseline):
    """Anchor-based multi-view subspace clustering with hierarchical feature descent.

    Minimises, with samples in rows, each feature standardised and c = n_clusters anchors, ::

        Σ_v a_v² |X_v - Z Aᵀ (W_v¹ W_v² … W_v^depth)ᵀ|²,    Σ_v a_v = 1,

    over W_v^i with orthonormal columns, a rotation A (c × c) and Z (n × c) with rows on the
    simplex. The labels are k-means on the left singular vectors of Z, rows normalised.

    Parameters
    ----------
    depth : int, default=1
        Number of factors in the chain of each view. Their widths change in equal steps from the
        width of the narrowest view to `n_clusters`, which may be larger or smaller.
    weights : {"squared", "unsquared"}, default="squared"
        View weights proportional to the reciprocal of the squared residual, which is optimal, or
        of its root, as in the published code: the objective can then rise.
    suffix : {"fresh", "stale"}, default="fresh"
        Product of the lower factors that multiplies each factor: "fresh" takes the current ones,
        "stale" the last ones of the view before, zero at the start, as the published code does.
        Without effect at depth 1.

    Attributes
    ----------
    view_weights_ : array of shape (V,)
        a, sum 1.
    anchor_graph_ : array of shape (n, n_clusters)
        Z, rows on the simplex.

    Notes
    -----
    By default every update minimises exactly, so the objective never rises, if every view has at
    least `n_clusters` features. A narrower view has a factor with orthonormal rows instead of
    columns, and the update of Z is then not exact.

    If X_vᵀ Z has full rank and no factor is narrower than `n_clusters`, the optimal chain has the
    same product at every depth: with fresh suffixes a deeper chain gives the result of depth 1.
    With stale ones the results differ because of the first round, in which the upper factors are
    arbitrary. If a view is narrower than `n_clusters`, the chain has fewer columns, the deeper the
    fewer, and loses information: on Coil, with 19 features for 20 clusters, ACC is 1.000, 1.000,
    0.950 and 0.900 at depths 1 to 4; with the options of the published code 1.000, 0.929, 0.950 and
    0.900 (five seeds, no spread).

    Z starts from the first `n_clusters` samples, so the result depends on the order of the samples:
    shuffle them if the order has a meaning. The order of the views has no effect.

    A residual grows with the number of features, so that optimal weights favour narrow views: on
    MSRCv1, with 24 to 576 features, the narrowest view gets 0.81 (ACC 0.34), and 0.51 (ACC 0.61)
    with ``weights="unsquared"`` alone; at depth 1 `suffix` and `n_init` change nothing there. If
    widths are similar, the difference is small: on Wiki ACC 0.539 and 0.537.

    The published code reports the best of 50 k-means runs in every metric; here a seed gives one
    labelling. Sparse views are made dense.

    References
    ----------
    Q. Ou, S. Wang, P. Zhang, S. Zhou, E. Zhu. Anchor-based multi-view subspace clustering with
    hierarchical feature descent. Information Fusion 106, 2024.
    """

    # The standardised views, and copies of the widest view while it is standardised.
    _copies, _copies_are_dense = 3.5, True
    depth: int = 1
    weights: Literal["squared", "unsquared"] = "squared"
    suffix: Literal["fresh", "stale"] = "fresh"
    max_iter: int = 10
    tol: float = 0.0
    n_init: int = 10

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        narrowest = min(views, key=lambda view: view.width)
        sizes = level_sizes(narrowest.width, self.n_clusters, self.depth)
        if min(sizes) < 1:
            raise ValueError(
                f"depth={self.depth} leaves a factor no columns between the {narrowest.width} "
                f"features of {narrowest.name!r} and n_clusters={self.n_clusters}; lower it."
            )
        X = [scaled(view, "feature") for view in views.dense()]
        descent = Descent(X, sizes, stale=self.suffix == "stale")
        step = partial(descent.step, squared=self.weights == "squared")
        self._iterate(step, warn=self.tol > 0)
        self.view_weights_: Floats = descent.weights
        self.anchor_graph_: Array = descent.Z
        U = normalize(left_singular_vectors(descent.Z, self.n_clusters))
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)


def level_sizes(narrowest: int, c: int, depth: int) -> list[int]:
    """Return the widths of the levels: equal steps from the narrowest view down to c."""
    step = (narrowest - c) // depth
    return [(depth - level) * step + c for level in range(1, depth)] + [c]


class Descent:
    """The variables of the objective, samples in rows, and one round of block updates."""

    def __init__(self, X: list[Array], sizes: list[int], *, stale: bool) -> None:
        self.X, self.stale = X, stale
        factor: Any = np.zeros if stale else lambda shape: np.eye(*shape)
        shapes = [zip([x.shape[1], *sizes[:-1]], sizes, strict=True) for x in X]
        # W_v¹ … W_v^depth of each view, and W_v^{i+1} … W_v^depth A of the last view seen.
        self.chains: list[list[Array]] = [[factor(shape) for shape in view] for view in shapes]
        self.suffixes: list[Array] = [np.zeros((size, sizes[-1])) for size in sizes]
        self.A: Array = np.eye(sizes[-1])
        self.Z: Array = np.eye(len(X[0]), sizes[-1])
        self.weights: Array = np.full(len(X), 1 / len(X))

    def step(self, *, squared: bool) -> float:
        """Update every factor, A, Z and the weights once; return the objective after that."""
        for x, chain in zip(self.X, self.chains, strict=True):
            self._refresh_suffixes(chain)
            cross = x.T @ self.Z
            for level, suffix in enumerate(self.suffixes):
                chain[level] = orthogonal_factor(cross @ suffix.T)
                cross = chain[level].T @ cross
        bases = [reduce(np.matmul, chain) for chain in self.chains]
        a2 = self.weights**2
        projected: Any = sum(w * (x @ P) for w, x, P in zip(a2, self.X, bases, strict=True))
        self.A = orthogonal_factor(projected.T @ self.Z)
        self.Z = project_simplex(projected @ self.A / a2.sum())
        fits = [_misfit(x, self.Z, P @ self.A) for x, P in zip(self.X, bases, strict=True)]
        residuals = np.array(fits)
        floored = np.maximum(residuals, np.finfo(np.float64).tiny)
        # Relative to the smallest residual, whose reciprocal may exceed the range of floats.
        closeness = floored.min() / floored if squared else np.sqrt(floored.min() / floored)
        self.weights = closeness / closeness.sum()
        return float(self.weights**2 @ residuals)

    def _refresh_suffixes(self, chain: list[Array]) -> None:
        # From the bottom up, each product uses the one below it, which was just refreshed. From the
        # top down, as in the published code, it uses that of the last view or round.
        last = len(chain) - 1
        for level in range(last + 1) if self.stale else range(last, -1, -1):
            below = self.A if level == last else chain[level + 1] @ self.suffixes[level + 1]
            self.suffixes[level] = below
