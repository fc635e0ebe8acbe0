"""Build neighbour graphs with closed-form weights, and compute their eigenvectors and labels."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import linalg, sparse
from scipy.sparse.csgraph import connected_components, laplacian
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh
from sklearn.cluster import KMeans
from sklearn.preprocessing import normalize

from omcal.baselines._linalg import centred, sparse_rows, squared_distances
from omcal.machine.arrays import Array, Floats
from omcal.machine.memory import require_memory
from omcal.machine.threads import row_blocks
from omcal.method.graph import anchor_weights, nearest_columns
from omcal.method.row_steps import inverse_root
from omcal.views.view import Matrix

_BLOCK_ENTRIES = 1 << 22
Pairs = tuple[Floats, Floats]
_DENSE_SIZE = 400
# Older SciPy has a fixed generator for ARPACK's restarts and no argument for it.
_FIXED_RESTARTS = {"rng": 0} if "rng" in inspect.signature(eigsh).parameters else {}


def neighbor_graph(X: Matrix, k: int, *, symmetric: bool = True) -> sparse.csr_array:
    """Return the graph of the k nearest neighbours with weights linear in the distance.

    Row i minimises Σ_j d_ij w_j + r_i |w|² over the simplex, with r_i chosen so that k weights
    are positive; k is reduced to n - 2. The diagonal is 0, and no zero is stored. `symmetric` gives
    (W + Wᵀ) / 2 instead of the directed graph W, whose rows sum to 1.
    """
    indices, distances, _ = nearest_samples(X, k)
    weights, _ = closed_form_weights(distances)
    W = graph_of_rows(indices[:, :-1], weights)
    return symmetrized(W) if symmetric else W


def nearest_samples(
    X: Matrix | Sequence[Matrix], k: int
) -> tuple[NDArray[np.intp], Floats, Floats]:
    """Return the k + 1 nearest other samples of each sample, in the order of (distance, index).

    The indices and the squared distances have shape (n, k + 1); k is at most n - 2. With several
    views the squared distances are averaged, and the last result holds those of each view, (V, n, k
    + 1).
    """
    views = [centred(view) for view in (X if isinstance(X, Sequence) else [X])]
    n = views[0].shape[0]
    if n < 3:
        raise ValueError(f"a neighbour graph needs at least 3 samples and X has {n}; add samples.")
    count = min(k, n - 2) + 1
    indices = np.empty((n, count), dtype=np.intp)
    distances = np.empty((n, count))
    by_view = np.empty((len(views), n, count))
    for rows in row_blocks(n, max(1, _BLOCK_ENTRIES // n)):
        blocks = [squared_distances(view[rows], view) for view in views]
        mean: Any = sum(blocks) / len(views)
        mean[np.arange(len(mean)), np.arange(rows.start, rows.stop)] = np.inf
        indices[rows], distances[rows] = nearest_columns(mean, count)
        for v, block in enumerate(blocks):
            by_view[v, rows] = np.take_along_axis(block, indices[rows], axis=1)
    return indices, distances, by_view


def closed_form_weights(distances: Array) -> tuple[Floats, Floats]:
    """Return the weights of the k nearest from the k + 1 smallest squared distances of each row.

    w_j = (d_(k+1) - d_j) / (k d_(k+1) - Σ_h d_h), or k equal weights if all distances are equal.
    The distances ascend in each row. The second result is the regulariser for which the weights of
    a row are optimal: half the denominator.
    """
    last = distances[:, -1:]
    weights = anchor_weights(distances, 1e-12 * last)
    return weights, (last - distances[:, :-1]).sum(axis=1) / 2


def graph_of_rows(indices: Array, weights: Array) -> sparse.csr_array:
    """Return the directed graph with the edges i -> indices[i, j] of weight weights[i, j].

    Rows of `weights` lie on the simplex, see `without_rounding`.
    """
    # A copy, so that the caller's arrays stay unchanged.
    W = without_rounding(sparse_rows(indices, weights, len(indices)).copy())
    W.sort_indices()
    return W


def without_rounding(W: sparse.csr_array) -> sparse.csr_array:
    """Remove, in place, the edges of W whose weight is rounding error; return W (row sums are 1).

    The projection on the simplex leaves values that equal its threshold at about 1e-17. As edges
    they would join components that the eigenvalues of the Laplacian separate.
    """
    W.data[W.data < 1e-14] = 0
    W.eliminate_zeros()
    return W


def graph_bytes(n: int, k: int) -> int:
    """Return an upper bound of the bytes of a symmetrised graph of k neighbours."""
    return 2 * 16 * n * k


def symmetrized(W: Any) -> Any:
    """Return (W + Wᵀ) / 2, dense or CSR as given."""
    return sparse.csr_array((W + W.T) / 2) if sparse.issparse(W) else (W + W.T) / 2


def normalized_adjacency(W: Any) -> Any:
    """Return D^-1/2 W D^-1/2, dense or CSR as given; rows of degree 0 stay 0."""
    scale = inverse_root(W.sum(axis=1))
    # Multiply the two factors first: their product is the same on both sides of the diagonal, so
    # that a symmetric W stays symmetric to the last bit.
    if not sparse.issparse(W):
        A = np.multiply.outer(scale, scale)
        A *= W
        return A
    A = sparse.csr_array(W, dtype=np.float64, copy=True)
    A.data *= np.repeat(scale, np.diff(A.indptr)) * scale[A.indices]
    return A


def smallest_eigenvectors(L: Any, c: int) -> Pairs:
    """Return the c smallest eigenvalues, ascending, of a symmetric matrix, and their eigenvectors.

    Each connected part of the matrix is solved by itself. A graph Laplacian may have many zero
    eigenvalues, which one Krylov space cannot tell apart; each part has only one.
    """
    L = sparse.csr_array(L) if sparse.issparse(L) else L
    # If one row of a dense matrix is tied to all others, there is one part, and no search is
    # needed: the search would copy the matrix to a sparse graph of twice its size.
    ties = 0 if sparse.issparse(L) else np.count_nonzero(L, axis=1) - (L.diagonal() != 0)
    if np.max(ties) == L.shape[0] - 1:
        return _smallest_of_connected(L, c)
    n_parts, part = connected_components(L != 0, directed=False)
    if n_parts == 1:
        return _smallest_of_connected(L, c)
    diagonal, lone = L.diagonal(), np.ones((1, 1))
    found: list[tuple[float, Array, Array]] = []  # (value, rows, vector) of every candidate
    for rows in np.split(np.argsort(part, kind="stable"), np.cumsum(np.bincount(part))[:-1]):
        if len(rows) == 1:
            values, vectors = diagonal[rows], lone
        else:
            values, vectors = _smallest_of_connected(L[rows][:, rows], min(c, len(rows)))
        found += [(value, rows, u) for value, u in zip(values.tolist(), vectors.T, strict=True)]
    best = sorted(found, key=lambda candidate: candidate[0])[:c]
    scattered = np.zeros((L.shape[0], c))
    for position, (_, rows, u) in enumerate(best):
        scattered[rows, position] = u
    return np.array([value for value, _, _ in best]), scattered


def largest_eigenvectors(A: Any, c: int) -> Pairs:
    """Return the c largest eigenvalues, descending, and their eigenvectors."""
    values, vectors = smallest_eigenvectors(-A, c)
    return -values, vectors


def _smallest_of_connected(L: Any, c: int) -> Pairs:
    n = L.shape[0]
    if sparse.issparse(L) and 3 * L.nnz > n**2:
        L = L.toarray()  # dense products are quicker
    # ARPACK needs more basis vectors than it returns, and a small matrix is quicker without it.
    basis_size = max(2 * c + 20, 40)
    if n <= max(_DENSE_SIZE, 2 * basis_size):
        return _dense(L, c)
    try:
        values, vectors = _krylov(L, c, basis_size)
    except ArpackNoConvergence:
        return _dense(L, c)
    return _dense(L, c) if _misses_one(L, values, vectors) else (values, vectors)


def _krylov(L: Any, c: int, basis_size: int) -> Pairs:
    try:
        return _lanczos(L, c, ncv=basis_size, maxiter=300)
    except ArpackNoConvergence:
        if not sparse.issparse(L):
            raise
    # Lanczos is slow if the spectrum is crowded at its lower end, as for chains of samples. Such
    # graphs are easily cut in two, hence cheap to factorise.
    return _shift_invert(L, c, basis_size)


def _lanczos(A: Any, c: int, **options: Any) -> Pairs:
    start = np.random.RandomState(0).uniform(-1, 1, A.shape[0])
    options = {"which": "SA", "v0": start} | _FIXED_RESTARTS | options
    values, vectors = eigsh(A, k=c, **options)
    order = np.argsort(values, kind="stable")
    return values[order], vectors[:, order]


def _shift_invert(L: Any, c: int, basis_size: int) -> Pairs:
    size = float(abs(L).sum(axis=1).max())
    shifted = _operator(L, lambda x: L @ x - size * x)  # tol is relative to the size of L here
    lowest = _lanczos(shifted, 1, tol=1e-4, ncv=basis_size)[0][0] + size
    return _lanczos(L, c, sigma=lowest - 1e-4 * size, which="LM", ncv=basis_size)


def _misses_one(L: Any, values: Array, vectors: Array) -> bool:
    """Whether an eigenvalue below the last was missed: Lanczos can skip equal ones."""
    size = float(abs(L).sum(axis=1).max())
    # The directions already found are moved above the spectrum: the lowest left must be the next.
    rest = _operator(L, lambda x: L @ x + vectors @ (3 * size * (vectors.T @ x)))
    try:
        lowest = _lanczos(rest, 1, tol=1e-2, ncv=40, maxiter=50)[0][0]
    except ArpackNoConvergence:
        return False
    return bool(lowest < values[-1] - 1e-8 * size)


def _operator(L: Any, product: Callable[[Array], Array]) -> LinearOperator:
    return LinearOperator(L.shape, matvec=product, dtype=np.float64)


def _dense(L: Any, c: int) -> Pairs:
    n = L.shape[0]
    require_memory(3 * 8 * n**2, f"the dense eigenproblem of {n} samples", "Use fewer samples.")
    full = L.toarray() if sparse.issparse(L) else L
    return some_eigenpairs(full, 0, c - 1)


def some_eigenpairs(A: Array, first: int, last: int) -> Pairs:
    """Return the eigenpairs `first` to `last` of a symmetric matrix, ascending."""
    try:
        pairs: Pairs = linalg.eigh(A, subset_by_index=[first, last])
        return pairs
    except linalg.LinAlgError:
        # LAPACK's subset solver may fail on many equal eigenvalues; the full one does not.
        values, vectors = linalg.eigh(A, driver="evd")
        return values[first : last + 1], vectors[:, first : last + 1]


def spectral_embedding(W: Any, c: int) -> Floats:
    """Return the c leading eigenvectors of D^-1/2 W D^-1/2, rows scaled to length 1."""
    return np.asarray(normalize(largest_eigenvectors(normalized_adjacency(W), c)[1]))


def kmeans_labels(
    U: Any, n_clusters: int, random_state: np.random.RandomState | int | None, n_init: int = 10
) -> NDArray[np.intp]:
    """Return the labels of the best of `n_init` k-means runs on the rows of U."""
    model = KMeans(n_clusters, n_init=n_init, random_state=random_state)
    return np.asarray(model.fit_predict(U), dtype=np.intp)


def component_labels(S: Any) -> NDArray[np.intp]:
    """Return the label of the connected component of each vertex of a graph, dense or sparse."""
    edges = sparse.csr_array(S) != 0  # a stored zero is no edge
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.intp)


def component_surplus(values: Array, c: int, tol: float) -> int:
    """Return -1, 0 or 1 for fewer than, exactly or more than c components, by eigenvalues.

    `values` holds the c + 1 smallest eigenvalues of the Laplacian, ascending, or all n if n <= c.
    """
    if values[:c].sum() > tol:
        return -1
    return 1 if len(values) > c and values[: c + 1].sum() < tol else 0


def laplacian_embedding(S: Any, c: int) -> Pairs:
    """Return the c + 1 smallest eigenvalues of the Laplacian, or all, and c eigenvectors."""
    values, vectors = smallest_eigenvectors(laplacian(S), min(c + 1, S.shape[0]))
    return values, vectors[:, :c]


class RankPenalty:
    """The term λ tr(FᵀL_S F) that drives a graph S to exactly c components.

    `weight` is the current λ. F is the embedding of the last graph that was kept, and `surplus` the
    `component_surplus` of the last graph. `embed` returns the smallest eigenvalues of a graph and
    its F. A sum of the c smallest values up to `tol` counts as zero.
    """

    def __init__(
        self,
        S: Any,
        c: int,
        *,
        weight: float,
        tol: float,
        embed: Callable[[Any, int], tuple[Floats, Any]] = laplacian_embedding,
    ) -> None:
        self.c, self.weight, self.tol, self.embed = c, weight, tol, embed
        self.F = self._decompose(S)

    def _decompose(self, S: Any) -> Any:
        self.values, F = self.embed(S, self.c)
        self.surplus = component_surplus(self.values, self.c, self.tol)
        return F

    def update(self, S: Any) -> bool:
        """Adapt λ and F to the next graph; return whether it has c components."""
        F = self._decompose(S)
        if self.surplus == 0:
            self.F = F
            return True
        if self.surplus < 0:
            self.F, self.weight = F, self.weight * 2
        else:  # too many components: restore the previous F and halve the weight
            self.weight /= 2
        return False

    def squared_distances(self, rows: Any, columns: Any) -> Floats:
        """Return |f_i - f_j|² for index arrays that broadcast."""
        difference = self.F[rows] - self.F[columns]
        return np.asarray(np.einsum("...k,...k->...", difference, difference))
