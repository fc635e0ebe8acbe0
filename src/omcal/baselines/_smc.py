"""Steps of SMC and its variants: filter, anchors, codes, embedding."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import linalg

from omcal.baselines._base import MultiViewBaseline
from omcal.baselines._box import BoxLeastSquares
from omcal.baselines._graphs import degrees, neighbor_graph, normalized_adjacency
from omcal.baselines._linalg import left_singular_vectors, standardized, sum_of_squares
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Natural, parameter
from omcal.views.view import Views


class AbstractSMC(MultiViewBaseline):
    """Base class of SMC and its variants: filtered views, and anchors sampled from them."""

    n_anchors: int | None = parameter(
        default=None,
        help="m, at most n; None stands for the smaller of 2 n_clusters and n.",
    )
    n_neighbors: int = 5
    filter_strength: float = parameter(
        default=0.8,
        help="How much a sample takes of its neighbours at each application of the filter.",
    )
    filter_order: Natural = parameter(
        default=1,
        help="How often the filter is applied; 0 leaves the views as they are.",
    )
    sampling_power: float = parameter(default=2.0, help="0 draws the anchors evenly.")

    anchor_indices_: NDArray[np.intp]

    def _anchor_count(self, n: int) -> int:
        return int(self.n_anchors or min(2 * self.n_clusters, n))

    def _filtered_views(self, views: Views, random_state: np.random.RandomState) -> list[Floats]:
        """Return the standardised and filtered views; draws `anchor_indices_`."""
        m = self._anchor_count(views.n)
        if m > views.n:
            raise ValueError(
                f"n_anchors={m} must be at most the number of samples, {views.n}; lower it."
            )
        X, importance = filtered_views(
            [standardized(view) for view in views.dense()],
            self.n_neighbors,
            self.filter_strength,
            self.filter_order,
        )
        self.anchor_indices_ = sample_anchors(importance, m, self.sampling_power, random_state)
        return X


def filtered_views(
    X: list[Array], k: int, strength: float, order: int
) -> tuple[list[Array], Floats]:
    """Smooth each view over the graph of its k neighbours: (I - strength L)^order X.

    The second result is the degree of each sample, summed over the graphs.
    """
    importance = np.zeros(len(X[0]))
    filtered = []
    for x in X:
        W = neighbor_graph(x, k)
        importance += degrees(W)
        A = normalized_adjacency(W)
        for _ in range(order):
            x = (1 - strength) * x + strength * (A @ x)
        filtered.append(x)
    return filtered, importance


def sample_anchors(
    importance: Array, m: int, power: float, random_state: np.random.RandomState
) -> NDArray[np.intp]:
    """Draw m different samples with probability proportional to importance^power."""
    p = (importance / max(importance.max(), np.finfo(np.float64).tiny)) ** power
    possible = np.flatnonzero(p)
    if len(possible) <= m:  # take all of them, and the rest evenly
        others = np.flatnonzero(p == 0)
        rest = random_state.choice(others, m - len(possible), replace=False)
        return np.concatenate([possible, rest])
    return random_state.choice(len(p), m, replace=False, p=p / p.sum())


def anchor_codes(X: Array, anchors: Array, alpha: float) -> Floats:
    """Return the n×m weights of anchors H: min |x - Hᵀz|² + alpha |z|² with 0 <= z <= 1."""
    m = len(anchors)
    least = 10 * np.finfo(np.float64).eps * sum_of_squares(anchors)
    if alpha < least:
        raise ValueError(
            f"alpha={alpha} is lost in rounding beside the squared size of the anchors; use at "
            f"least {least:.1e}."
        )
    # |x - Hᵀz|² + alpha |z|² = |r - Rz|² + constant, without squaring the condition number.
    Q, R = linalg.qr(np.vstack([anchors.T, np.sqrt(alpha) * np.eye(m)]), mode="economic")
    return BoxLeastSquares(R, X @ Q[: X.shape[1]]).solve()


def stacked_embedding(codes: list[Array], c: int) -> Floats:
    """Return the c leading left singular vectors of the codes of all views side by side."""
    return left_singular_vectors(np.hstack(codes), c)
