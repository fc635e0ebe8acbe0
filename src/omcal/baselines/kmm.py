"""KMM: many prototypes, joined to clusters by a graph with exactly c components."""

from __future__ import annotations

from math import isqrt
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from sklearn.cluster import KMeans
from sklearn.utils.extmath import safe_sparse_dot

from omcal.baselines._base import Baseline
from omcal.baselines._graphs import (
    RankPenalty,
    closed_form_weights,
    component_labels,
    some_eigenpairs,
)
from omcal.baselines._linalg import narrow, narrow_bytes, sparse_rows, squared_distances
from omcal.machine.arrays import Array
from omcal.method.graph import nearest_columns
from omcal.method.simplex import project_simplex
from omcal.views.view import Matrix, Views

_ZERO = 1e-4  # how far a sum of c unit eigenvalues may be from c
_MAX_WEIGHTS = 30  # weights of the rank term to try before the search for c components ends


class KMM(Baseline):
    """K-multiple-means.

    Minimises Σ_ij s_ij ‖xᵢ − aⱼ‖² + γ ‖S‖² over m prototypes a and a graph S (n×m) between samples
    and prototypes, rows on the simplex, that has exactly c connected components [1]_. The
    components are the clusters, each with several prototypes.

    Parameters
    ----------
    n_prototypes : int or None, default=None
        Number of prototypes m, more than `n_neighbors` and at least c. None takes the larger of
        ⌊√(n c)⌋ and `n_neighbors` + 1.
    n_neighbors : int, default=5
        Number of prototypes per sample, and of samples per prototype, that are tied to it.
    prototype_step : {"affinity", "published_code"}, default="affinity"
        Input of the update of the ties of a prototype: "affinity" takes its initial affinities to
        its samples. "published_code" takes their distances, as the published program does; this
        favours the *farthest* samples and depends on the scale of the data.
    max_iter : int, default=15
        Maximum number of graphs to solve, each after an update of the prototypes. It is usually
        reached; a graph with c components is still right, so there is no warning.
    tol : float, default=1e-4
        Stop if the length of the vector of squared moves of the prototypes is smaller.

    Attributes
    ----------
    prototype_labels_ : array of shape (n,)
        Nearest prototype of each sample.
    graph_ : csr_array of shape (n, m)
        S.
    objective_ : array of shape (n_iter,)
        Σ_ij s_ij ‖xᵢ − aⱼ‖² + γ ‖S‖² of each graph solved. It may rise, since γ and the set of
        possible ties change with the prototypes.
    n_iter_ : int
        Number of graphs solved.

    Notes
    -----
    The published program stops with an error if the first graph already has c or more components.
    Here exactly c components are a success. More are a failure like others: new prototypes are
    tried, and if no graph succeeds, the components of the last graph are returned with a warning.
    Then a larger `n_neighbors` helps. A later failure does not replace a graph with c components.

    The default step is the one that a comment in the published program intends. It is not always
    better: in texts, most distances are alike, and prototypes with one close sample become tiny
    components (TDT2, five seeds: accuracy 0.60, against 0.94 with "published_code").

    The penalty λ starts at the size of the squared distances and is doubled up to 30 times, and the
    step of the prototypes compares it with affinities, which have no scale. If neighbours are
    closer than about 1e-4, this is not enough: multiply X by a constant.

    Wide data (more features than samples) are first reduced to at most n features without changing
    distances. scikit-learn has no such method; its k-means places the prototypes.

    References
    ----------
    .. [1] F. Nie, C.-L. Wang and X. Li, "K-Multiple-Means: a multiple-means clustering method with
       specified K clusters", KDD 2019.
    """

    n_prototypes: int | None = None
    n_neighbors: int = 5
    prototype_step: Literal["affinity", "published_code"] = "affinity"
    max_iter: int = 15
    tol: float = 1e-4

    def _cluster(self, views: Views, random_state: np.random.RandomState) -> Array:
        m = self._prototype_count(views.n)
        X = narrow(views[0].array)
        solved: list[StructuredGraph] = []
        A: Array | None = None
        while len(solved) < self.max_iter:
            if A is None:
                A = KMeans(m, n_init=1, random_state=random_state).fit(X).cluster_centers_
            how = self.n_clusters, self.n_neighbors, self.prototype_step
            graph = structured_graph(X, A, *how)
            solved.append(graph)
            before, A = A, next_prototypes(X, graph) if graph.converged else None
            if A is not None:
                moves = squared_distances(before, A).min(axis=1)  # to the nearest new prototype
                if linalg.norm(moves) < self.tol:
                    break
        best = next((graph for graph in reversed(solved) if graph.converged), solved[-1])
        self.n_iter_ = len(solved)
        self.objective_ = np.array([graph.objective for graph in solved])
        self.graph_: Any = best.Z
        self.prototype_labels_: Array = best.nearest
        return bipartite_labels(best.Z)

    def _prototype_count(self, n: int) -> int:
        c, k = self.n_clusters, self.n_neighbors
        if k >= n:
            raise ValueError(f"n_neighbors={k} must be less than the number of samples, {n}.")
        if self.n_prototypes is None:
            return max(isqrt(n * c), k + 1)
        if not max(k + 1, c) <= self.n_prototypes <= n:
            raise ValueError(
                f"n_prototypes={self.n_prototypes} must be more than n_neighbors={k}, at least "
                f"n_clusters={c} and at most the number of samples, {n}."
            )
        return self.n_prototypes

    def _memory_needed(self, views: Views) -> float:
        n = views.n
        m = self._prototype_count(n)
        # Distances between samples and prototypes, both ways, and their order.
        return max(narrow_bytes(views), 8 * (5.0 * n * m + 4.0 * m**2))


class StructuredGraph(NamedTuple):
    """The graph for given prototypes, and whether it has exactly c components."""

    Z: sparse.csr_array  # n×m, rows sum to 1
    nearest: Array  # nearest prototype of each sample
    objective: float  # Σ z_ij ‖xᵢ − aⱼ‖² + α ‖Z‖²
    converged: bool


def structured_graph(X: Matrix, A: Array, c: int, k: int, prototype_step: str) -> StructuredGraph:
    """Return the graph between samples X and fixed prototypes A that has exactly c components."""
    ties = BipartiteTies(X, A, k, prototype_step)
    Z = ties.graph(ties.samples.affinities, ties.prototypes.affinities)
    weight = (ties.samples.alpha + ties.prototypes.alpha) / 2
    rank = RankPenalty(Z, c, weight=weight, tol=_ZERO, embed=embed)
    # No step joins components: if there are too many at the start, the search has failed.
    n_successes = 2 if rank.surplus == 0 else 0
    for _ in range(_MAX_WEIGHTS if rank.surplus < 0 else 0):
        Z = ties.updated_graph(rank)
        n_successes = n_successes + 1 if rank.update(Z) else 0
        if n_successes == 2:
            break
    return StructuredGraph(
        Z,
        nearest=ties.samples.columns[:, 0],
        objective=ties.objective(Z),
        converged=n_successes == 2,
    )


class Ties(NamedTuple):
    """The k nearest columns of each row: indices, squared distances, affinities, regulariser."""

    columns: Array
    distances: Array
    affinities: Array
    alpha: float


def nearest_ties(squared: Array, k: int) -> Ties:
    """Return the ties of each row of a matrix of squared distances."""
    columns, distances = nearest_columns(squared, k + 1)
    affinities, regularisers = closed_form_weights(distances)
    return Ties(columns[:, :k], distances[:, :k], affinities, float(regularisers.mean()))


class BipartiteTies:
    """The possible edges: k prototypes per sample, and k samples per prototype."""

    def __init__(self, X: Matrix, A: Array, k: int, prototype_step: str) -> None:
        self._squared = squared_distances(X, A)
        self.samples: Ties = nearest_ties(self._squared, k)
        self.prototypes: Ties = nearest_ties(self._squared.T, k)
        self._offset = (
            self.prototypes.affinities
            if prototype_step == "affinity"
            else self.prototypes.distances
        )

    def updated_graph(self, rank: RankPenalty) -> sparse.csr_array:
        """Return the graph whose ties also follow distances in the embedding."""
        samples, prototypes = np.split(np.arange(sum(self._squared.shape)), [len(self._squared)])
        apart = rank.squared_distances(samples[:, None], prototypes[self.samples.columns])
        cost = self.samples.distances + rank.weight * apart
        # If all distances tie, every weighting of them is optimal, and 1 keeps them equal.
        alpha = self.samples.alpha or 1.0
        apart = rank.squared_distances(prototypes[:, None], self.prototypes.columns)
        of_prototypes = project_simplex(self._offset - rank.weight / 2 * apart)
        return self.graph(project_simplex(-cost / (2 * alpha)), of_prototypes)

    def objective(self, Z: sparse.csr_array) -> float:
        """Return Σ z_ij ‖xᵢ − aⱼ‖² + α ‖Z‖²."""
        edges = Z.tocoo()
        distances = self._squared[edges.row, edges.col]
        return float(edges.data @ (distances + self.samples.alpha * edges.data))

    def graph(self, of_samples: Array, of_prototypes: Array) -> sparse.csr_array:
        """Return the mean of the weights from both sides, with rows that sum to 1."""
        n, m = len(of_samples), len(of_prototypes)
        Z = sparse_rows(self.samples.columns, of_samples, m)
        Z = sparse.csr_array(Z + sparse_rows(self.prototypes.columns, of_prototypes, n).T)
        Z.eliminate_zeros()
        Z.data /= np.repeat(Z.sum(axis=1), np.diff(Z.indptr))
        return Z


def embed(Z: sparse.csr_array, c: int) -> tuple[Array, Array]:
    """Return the c + 1 smallest eigenvalues of the normalised Laplacian of the bipartite graph.

    The second result has the leading singular vectors of the graph: a row of coordinates for each
    sample, then for each prototype.
    """
    m = Z.shape[1]
    root = np.sqrt(Z.sum(axis=0))
    Z1 = Z @ sparse.diags_array(1 / root)
    first = max(m - c - 1, 0)
    values, vectors = some_eigenpairs((Z1.T @ Z1).toarray(), first, m - 1)
    values, V = values[::-1], vectors[:, ::-1][:, :c]
    U = Z1 @ V / np.sqrt(np.maximum(values[:c], np.finfo(np.float64).tiny))
    return 1 - values, np.vstack([U, V / root[:, None]]) / np.sqrt(2)


def bipartite_labels(Z: sparse.csr_array) -> NDArray[np.intp]:
    """Return the component of each sample in the graph between samples and prototypes."""
    n = Z.shape[0]
    return component_labels(sparse.block_array([[None, Z], [Z.T, None]]))[:n]


def next_prototypes(X: Matrix, graph: StructuredGraph) -> Array | None:
    """Return the means of the samples nearest to each prototype, weighted by their ties to it.

    None where a prototype has no sample.
    """
    n, m = graph.Z.shape
    counts = np.bincount(graph.nearest, minlength=m)
    if not counts.all():
        return None
    ties = graph.Z[np.arange(n), graph.nearest]
    totals = np.bincount(graph.nearest, ties, minlength=m)
    ties = np.where(totals[graph.nearest] > 0, ties, 1.0)  # no tie at all: the plain mean
    totals = np.where(totals > 0, totals, counts)
    membership = sparse_rows(graph.nearest[:, None], ties / totals[graph.nearest], m)
    return np.asarray(safe_sparse_dot(membership.T, X, dense_output=True))
