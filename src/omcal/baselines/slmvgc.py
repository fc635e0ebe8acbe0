"""SLMVGC: one weight vector per sample joins the views' graphs into one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy as np
from scipy import sparse
from scipy.linalg import helmert
from scipy.sparse.csgraph import laplacian

from omcal.baselines._base import MultiViewBaseline
from omcal.baselines._graphs import kmeans_labels, neighbor_graph, spectral_embedding, symmetrized
from omcal.baselines._linalg import minimize_batch, sum_of_squares, ten_lagrangian_steps
from omcal.machine.arrays import Array
from omcal.machine.declaring import Positive, parameter
from omcal.machine.threads import row_blocks
from omcal.method.simplex import project_simplex
from omcal.views.view import Views

_BLOCK_ENTRIES = 1 << 22
_AGREEMENT = 1e-10

Solver = Callable[[Array, Array], Array]


class SLMVGC(MultiViewBaseline):
    """Sample-level multi-view graph clustering.

    Minimises ::

        Σ_v [tr(Z_v L Z_vᵀ) + lam |Z_v - I|² + gamma |Z_v - Q_v|²]
        + alpha Σ_i |s_i - Σ_v w_iv q_iv|² + beta |S|²

    over graphs Z_v with rows on the simplex inside the neighbourhoods of view v, Q_v >= 0, a
    consensus graph S with rows on the simplex and, for every sample i, view weights w_i with sum
    1 and any sign; s_i is row i of S and q_iv column i of Q_v. L is the Laplacian of the mean of
    the views' neighbour graphs. The labels come from the spectral embedding of S.

    Parameters
    ----------
    lam : float, default=0.5
        Ridge on Z_v: since its diagonal is 0, its distance to I is a ridge and a constant.
    z_solver : {"exact", "alm10"}, default="exact"
        Solution of the small quadratic programs for the rows of Z_v: exact, or as in the published
        code ten steps of an augmented Lagrangian.

    Attributes
    ----------
    sample_weights_ : array of shape (n, V)
        w, rows of sum 1. Entries can be negative and large where views nearly agree.
    graph_ : array of shape (n, n)
        S.

    Notes
    -----
    S and all Q_v are dense: memory and time grow with n².

    If views agree on a sample (up to 1e-5 of their distance to S), infinitely many weights are
    optimal; the ones nearest to equal weights are taken. The published code has no such rule.
    Neither here nor there are Q_v and the symmetrised graphs exact minimisers, so the objective may
    rise. It rarely converges in the 11 rounds of the published code; a warning says so.

    The published code prints another loss, with the graphs of the views instead of L. On MSRCv1
    ``z_solver="alm10"`` changes the entries of S by at most 0.01, S as a whole by 4 to 5 % and
    the accuracy by 0.002; on Wiki the accuracy is 0.529 instead of 0.524.

    The order of samples and views has no effect, except through ties of distances and the random
    start of k-means.

    References
    ----------
    Y. Tan, Y. Liu, S. Huang, W. Feng, J. Lv. Sample-level multi-view graph clustering. CVPR 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.baselines.slmvgc import SLMVGC
    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> X = [np.eye(3, 5)[y] + 0.1 * rng.standard_normal((60, 5)) for _ in range(2)]
    >>> model = SLMVGC(n_clusters=3, tol=0.01, random_state=0).fit(X)
    >>> [len(np.unique(model.labels_[y == j])) for j in range(3)]
    [1, 1, 1]
    """

    # Arrays: every Q_v; S, L, and those of the projection on the simplex and of the eigenvectors.
    _copies, _pairs, _pairs_per_view = 1.0, 9.0, 1.0
    alpha: Positive = parameter(default=50.0, help="How closely S follows the views.")
    beta: float = parameter(default=0.005, help="Ridge on S.")
    lam: Positive = 0.5
    gamma: Positive = parameter(default=0.05, help="How closely Q_v follows Z_v.")
    n_neighbors: int = 10
    z_solver: Literal["exact", "alm10"] = "exact"
    max_iter: int = 11
    tol: float = 1e-6
    n_init: int = 20

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        graphs = [neighbor_graph(view.array, self.n_neighbors) for view in views]
        consensus = Consensus(graphs, self)
        self._iterate(consensus.step)
        self.sample_weights_: Array = consensus.weights
        self.graph_: Array = consensus.S
        U = spectral_embedding(consensus.S, self.n_clusters)
        return kmeans_labels(U, self.n_clusters, random_state, self.n_init)


SOLVERS: dict[str, Solver] = {"exact": minimize_batch, "alm10": ten_lagrangian_steps}


class Consensus:
    """The variables of the objective and one round of updates."""

    def __init__(self, graphs: list[sparse.csr_array], model: SLMVGC) -> None:
        self.alpha, self.beta, self.lam, self.gamma = (
            model.alpha,
            model.beta,
            model.lam,
            model.gamma,
        )
        self.solver = SOLVERS[model.z_solver]
        mean = sum(graphs) / len(graphs)
        self.L: Any = laplacian(mean)
        self.dense_L: Array = self.L.toarray()
        self.S: Array = mean.toarray()  # symmetric
        # Where Z may have edges; row i of view v is row v n + i.
        self.supports = sparse.csr_array(sparse.vstack(graphs, format="csr"))
        self.Q = np.zeros((len(graphs), *self.S.shape))  # Q[v, i] is column i of Q_v
        self.Z = self._graphs(model.lam)  # symmetric
        for v, Z in enumerate(self.Z):
            self.Q[v] = Z.toarray()

    def step(self) -> float:
        """Update the weights, Z, Q and S once; return the objective after that."""
        self.weights = self._sample_weights()  # (n, V)
        self.Z = self._graphs(self.lam + self.gamma)
        self._follow_graphs()
        mixture = self._mixture(self.Q)
        S = project_simplex(self.alpha / (self.alpha + self.beta) * mixture)
        self.S = symmetrized(S)
        return self._objective(mixture)

    def _sample_weights(self) -> Array:
        """Return the weights of least |Tᵀw_i|² with sum 1, where row v of T is s_i - q_iv.

        The weights are 1/V plus a part of sum zero. Directions in which the views agree are left
        out of this part: rounding would turn them into large weights of opposite signs.
        """
        n, V = len(self.S), len(self.Q)
        gram = np.empty((n, V, V))
        for u in range(V):
            T = self.S - self.Q[u]
            for v in range(u, V):
                gram[:, u, v] = gram[:, v, u] = np.einsum("ij,ij->i", T, self.S - self.Q[v])
        basis = helmert(V)  # orthonormal rows of sum zero
        values, vectors = np.linalg.eigh(basis @ gram @ basis.T)
        directions = np.swapaxes(vectors, 1, 2) @ basis  # of each sample, one per row
        slope = directions @ gram.mean(axis=2)[:, :, None]
        agree = values <= _AGREEMENT * np.einsum("ivv->i", gram)[:, None] / V
        steps = np.where(agree, 0.0, slope[:, :, 0] / np.where(agree, 1.0, values))
        return np.asarray(1 / V - np.einsum("ik,ikv->iv", steps, directions))

    def _graphs(self, ridge: float) -> list[sparse.csr_array]:
        """Return Z_v: rows of least zᵀ(L + ridge I)z - 2 gamma qᵀz on their supports, symmetric."""
        n, rows = len(self.S), self.supports
        sizes = np.diff(rows.indptr)
        data = np.empty(rows.nnz)
        for size in np.unique(sizes):
            alike = np.flatnonzero(sizes == size)[:, None]
            for block in row_blocks(len(alike), max(1, _BLOCK_ENTRIES // size**2)):
                view, row = np.divmod(alike[block], n)
                entries = rows.indptr[alike[block]] + np.arange(size)
                columns = rows.indices[entries]
                A = self.dense_L[columns[:, :, None], columns[:, None, :]] + ridge * np.eye(size)
                # Q_v enters symmetrised.
                b = self.gamma * (self.Q[view, row, columns] + self.Q[view, columns, row])
                data[entries] = self.solver(A, b)
        Z = sparse.csr_array((data, rows.indices, rows.indptr), rows.shape)
        return [symmetrized(Z[first : first + n]) for first in range(0, len(sizes), n)]

    def _follow_graphs(self) -> None:
        """Set Q to max(0, (gamma I + alpha w wᵀ)⁻¹ (gamma Z + alpha w sᵀ)), in closed form."""
        w = self.weights
        gap = self.S - self._mixture(self.Z)
        share = self.alpha * w / (self.gamma + self.alpha * np.square(w).sum(axis=1, keepdims=True))
        for v, Z in enumerate(self.Z):
            self.Q[v] = np.maximum(Z + share[:, v, None] * gap, 0)

    def _mixture(self, matrices: Any) -> Array:
        """Return the rows Σ_v w_iv m_iv."""
        total = np.zeros_like(self.S)
        for w, M in zip(self.weights.T, matrices, strict=True):
            total += sparse.diags_array(w) @ M if sparse.issparse(M) else w[:, None] * M
        return total

    def _objective(self, mixture: Array) -> float:
        total = self.alpha * sum_of_squares(self.S - mixture)
        total += self.beta * sum_of_squares(self.S)
        n = len(self.S)
        for Z, Q in zip(self.Z, self.Q, strict=True):
            total += (Z @ self.L).multiply(Z).sum()
            total += self.lam * (sum_of_squares(Z.data) + n)  # the diagonal of Z is 0
            total += self.gamma * sum_of_squares(Z - Q)
        return float(total)
