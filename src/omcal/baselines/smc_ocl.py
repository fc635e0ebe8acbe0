"""SMC-OCL: the codes of SMC, and OMCAL's one-step consensus in place of SVD and k-means."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from omcal.baselines._smc import AbstractSMC, anchor_codes
from omcal.machine.arrays import Array, Floats
from omcal.machine.declaring import Positive
from omcal.method.graph import AnchorGraphs
from omcal.method.solver import Problem, Solution, solve
from omcal.places.memory import MemoryRows
from omcal.views.view import Views


class SMCOCL(AbstractSMC):
    """SMC with the one-step consensus learning of OMCAL.

    The views are standardised, filtered over their neighbour graphs and coded by m sampled anchors
    as in :class:`omcal.baselines.SMC`. The codes S_v (n × m), each row divided by its sum, enter ::

        |Z - Σ_v α_v S_v|² + beta |Z|_* + gamma |Z - F Gᵀ|²,
        F >= 0, GᵀG = I, α >= 0, Σ_v α_v = 1,

    which Algorithm 1 of OMCAL minimises from a random basis G. The label of a sample is the
    largest entry of its row of F.

    Parameters
    ----------
    alpha : float, default=1.0
        Ridge on the codes; positive.
    beta : float, default=0.3
        Weight of the nuclear norm.
    gamma : float, default=0.1
        Weight of the factorisation.
    normalize_codes : bool, default=True
        Divide the code of each sample by its sum, so that it is a row of an anchor graph; a code
        that is zero stays so. False keeps the codes in their own scale, to which beta then has to
        fit.

    Attributes
    ----------
    view_weights_ : array of shape (V,)
        α, sum 1.
    basis_ : array of shape (m, n_clusters)
        G.

    Notes
    -----
    The paper that describes this transfer does so in one sentence, and says neither which beta and
    gamma it takes nor whether the codes, which have no fixed sum, are normalised.

    References
    ----------
    Z. Xue, B. Yang, X. Zhang, F. Wang, Z. Lin. One-step multi-view clustering with adaptive
    low-rank anchor-graph learning. arXiv 2509.14724.
    """

    alpha: Positive = 1.0
    beta: float = 0.3
    gamma: float = 0.1
    normalize_codes: bool = True
    max_iter: int = 100
    tol: float = 1e-6

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        m, c = self._anchor_count(views.n), self.n_clusters
        if m < c:
            raise ValueError(f"n_anchors={m} must be at least n_clusters={c}; raise n_anchors.")
        X = self._filtered_views(views, random_state)
        codes = np.stack([anchor_codes(x, x[self.anchor_indices_], self.alpha) for x in X], axis=1)
        for v, name in enumerate(views.names):
            if not codes[:, v].any():
                # All weight on such a view would bring the objective to 0.
                raise ValueError(
                    f"view {name!r} has only codes of zeros: each of its samples is constant, or "
                    "all are the same; leave it out."
                )
        if self.normalize_codes:
            codes = rows_with_sum_one(codes)
        G = np.linalg.qr(random_state.standard_normal((m, c)))[0]
        uniform = np.full(len(views), 1 / len(views))
        problem = Problem(self.beta, self.gamma, "adaptive", uniform, self.max_iter, self.tol)
        solution, labels = consensus(codes, G, problem)
        self.view_weights_: Floats = solution.alpha
        self.basis_: Floats = solution.consensus.G
        self.objective_ = np.array(solution.history)
        self.n_iter_ = solution.n_iter
        if not solution.converged:
            self._warn(
                f"has an objective that still changes by more than tol={self.tol:g} after "
                f"max_iter={self.max_iter} iterations; raise max_iter or tol"
            )
        return np.unique(labels, return_inverse=True)[1]

    def _memory_needed(self, views: Views) -> float:
        # Raw, scaled and filtered views; codes, twice, once as a sparse matrix with its indices,
        # and what one view's codes take while they are computed; the indicator.
        m = self._anchor_count(views.n)
        per_sample = 4 * sum(views.widths) + (4 * len(views) + 8) * m + 3 * self.n_clusters
        return 8.0 * views.n * per_sample


def rows_with_sum_one(codes: Array) -> Floats:
    """Return each code divided by its sum; zero where it is zero."""
    total = codes.sum(axis=-1, keepdims=True)
    return np.asarray(np.divide(codes, total, out=np.zeros_like(codes), where=total > 0))


def consensus(codes: Array, G: Array, problem: Problem) -> tuple[Solution, NDArray[np.int32]]:
    """Run Algorithm 1 on codes (n, V, m) in place of anchor graphs, from an orthonormal G.

    Returns the solution and labels from 0 to c - 1, not all of which need occur.
    """
    m = codes.shape[2]
    columns = np.broadcast_to(np.arange(m, dtype=np.min_scalar_type(m - 1)), codes.shape)
    rows = MemoryRows(AnchorGraphs(columns, codes, m), G.shape[1])
    solution = solve(rows, rows.gram(), G, problem)
    Z = solution.consensus
    return solution, rows.assign(Z.alpha, *Z.f_step(), Z.G).labels
