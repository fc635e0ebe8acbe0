"""Graphs, eigenvectors, orthogonal factors and components that the baselines are made of."""

import tracemalloc

import numpy as np
import pytest
from real_views import load_reference, stored_matrix
from scipy import linalg, sparse
from scipy.sparse.csgraph import laplacian
from scipy.sparse.linalg import ArpackNoConvergence
from scipy.spatial.distance import cdist

from omcal.baselines import _graphs
from omcal.baselines._graphs import (
    RankPenalty,
    closed_form_weights,
    component_labels,
    component_surplus,
    graph_of_rows,
    kmeans_labels,
    largest_eigenvectors,
    nearest_samples,
    neighbor_graph,
    normalized_adjacency,
    smallest_eigenvectors,
)
from omcal.baselines._linalg import (
    minmax_features,
    scaled,
)
from omcal.method.simplex import project_simplex
from omcal.method.updates import orthogonal_factor


@pytest.fixture
def rng():
    return np.random.RandomState(0)


# Neighbour graphs


@pytest.mark.parametrize("k", [5, 15])
def test_graph_equals_the_reference(shared, k):
    views, stored = load_reference(shared, "pkn")
    for v, X in enumerate(views):
        W, U = stored_matrix(stored, f"W{k}_v{v}"), stored_matrix(stored, f"U{k}_v{v}")
        np.testing.assert_allclose(neighbor_graph(X, k).toarray(), W, atol=1e-9)
        np.testing.assert_allclose(neighbor_graph(X, k, symmetric=False).toarray(), U, atol=1e-9)


def test_simplex_projection_equals_the_reference(shared):
    stored = np.load(shared / "reference" / "simplex.npz")
    for v, x, length in zip(
        stored["proj_in"], stored["proj_out"], stored["proj_length"], strict=True
    ):
        v, x = v[:length], x[:length]
        tolerance = 1e-12 * max(1, np.abs(v).max())
        np.testing.assert_allclose(project_simplex(v), x, rtol=0, atol=tolerance)


def test_weights_minimise_their_objective(rng):
    X = rng.randn(60, 4)
    weights, r = closed_form_weights(nearest_samples(X, 7)[1])
    directed = neighbor_graph(X, 7, symmetric=False).toarray()
    distances = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(distances, 1e12)
    # min d·w + r|w|² over the simplex is the projection of -d / 2r.
    np.testing.assert_allclose(directed, project_simplex(-distances / (2 * r[:, None])), atol=1e-10)
    np.testing.assert_allclose(weights.sum(axis=1), 1)
    assert np.all(weights[:, :-1] >= weights[:, 1:])


def test_tied_distances_share_the_weight():
    corners = np.eye(6)  # all at distance 2 of one another
    indices, distances, _ = nearest_samples(corners, 3)
    np.testing.assert_array_equal(indices[4], [0, 1, 2, 3])
    np.testing.assert_array_equal(indices[0], [1, 2, 3, 4])
    np.testing.assert_allclose(closed_form_weights(distances)[0], 1 / 3)


def test_duplicates_never_stand_for_the_sample_itself(rng):
    X = np.repeat(rng.rand(4, 3) * 100 + 1e4, 5, axis=0)
    indices, distances, _ = nearest_samples(X, 4)
    assert not np.any(indices == np.arange(20)[:, None])
    np.testing.assert_array_equal(distances[:, :4], 0)  # exactly, in spite of rounding
    W = neighbor_graph(X, 4)
    np.testing.assert_allclose(W.sum(axis=1), 1)
    assert len(np.unique(component_labels(W))) == 4


def test_order_of_equal_distances_is_that_of_the_samples(rng):
    X = rng.randint(3, size=(80, 4)).astype(float)
    distances = cdist(X, X, "sqeuclidean")
    np.fill_diagonal(distances, np.inf)
    expected = np.argsort(distances, axis=1, kind="stable")[:, :6]
    for given in (X, X + 1000, sparse.csr_array(X)):
        np.testing.assert_array_equal(nearest_samples(given, 5)[0], expected)


def test_offset_and_unit_of_the_features_do_not_matter(rng):
    X = rng.randn(50, 3)
    W = neighbor_graph(X, 5).toarray()
    np.testing.assert_allclose(neighbor_graph(X + [1e6, 0, -5], 5).toarray(), W, atol=1e-8)
    np.testing.assert_allclose(neighbor_graph(X * 1e-9, 5).toarray(), W, atol=1e-12)
    np.testing.assert_allclose(neighbor_graph(X * 1e9, 5).toarray(), W, atol=1e-12)


def test_sparse_features_and_small_blocks_give_the_same_graph(rng, monkeypatch):
    X = sparse.random_array(
        (70, 30), density=0.2, random_state=np.random.default_rng(0), format="csr"
    )
    W = neighbor_graph(X.toarray(), 4).toarray()
    np.testing.assert_allclose(neighbor_graph(X, 4).toarray(), W, atol=1e-12)
    monkeypatch.setattr(_graphs, "_BLOCK_ENTRIES", 300)
    np.testing.assert_allclose(neighbor_graph(X, 4).toarray(), W, atol=1e-12)
    other = rng.rand(70, 3)
    nearest, _, by_view = nearest_samples([X, other], 4)
    for given, found in zip((X.toarray(), other), by_view, strict=True):
        expected = np.take_along_axis(cdist(given, given, "sqeuclidean"), nearest, axis=1)
        np.testing.assert_allclose(found, expected, atol=1e-12)


def test_distances_of_several_views_are_averaged(rng):
    X, Y = rng.rand(40, 3), sparse.csr_array(rng.rand(40, 5))
    joined = np.hstack([X, Y.toarray()]) / np.sqrt(2)
    *both, by_view = nearest_samples([X, Y], 6)
    for found, expected in zip(both, nearest_samples(joined, 6)[:2], strict=True):
        np.testing.assert_allclose(found, expected, atol=1e-12)
    np.testing.assert_allclose(by_view.mean(axis=0), both[1], atol=1e-12)


@pytest.mark.memory
def test_graph_takes_no_quadratic_memory(rng, monkeypatch):
    monkeypatch.setattr(_graphs, "_BLOCK_ENTRIES", 1 << 18)
    n = 3000
    X = rng.rand(n, 2)
    tracemalloc.start()
    try:
        neighbor_graph(X, 5)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < n**2 * 8 / 4


def test_too_many_neighbours_are_reduced_and_too_few_samples_refused(rng):
    X = rng.rand(10, 2)
    assert nearest_samples(X, 100)[0].shape == (10, 9)
    with pytest.raises(ValueError, match="at least 3 samples and X has 2"):
        neighbor_graph(X[:2], 1)


def test_graph_of_rows_leaves_its_input_alone():
    indices, weights = np.array([[2, 1], [0, 2], [1, 0]]), np.array([[0.7, 0.3]] * 3)
    W = graph_of_rows(indices, weights)
    np.testing.assert_array_equal(indices, [[2, 1], [0, 2], [1, 0]])
    np.testing.assert_array_equal(weights, [[0.7, 0.3]] * 3)
    np.testing.assert_array_equal(W.toarray(), [[0, 0.3, 0.7], [0.7, 0, 0.3], [0.3, 0.7, 0]])


def test_matrices_of_a_graph(rng):
    W = neighbor_graph(rng.rand(30, 2), 3).toarray()
    W[7] = W[:, 7] = 0  # an isolated vertex
    degree = W.sum(axis=1)
    root = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1)), 0)
    matrix = root[:, None] * W * root
    dense, kept_sparse = normalized_adjacency(W), normalized_adjacency(sparse.csr_array(W))
    assert isinstance(kept_sparse, sparse.csr_array)
    np.testing.assert_allclose(dense, matrix, atol=1e-15)
    np.testing.assert_allclose(kept_sparse.toarray(), matrix, atol=1e-15)
    np.testing.assert_array_equal(dense, dense.T)
    np.testing.assert_array_equal(kept_sparse.toarray(), kept_sparse.toarray().T)


# Eigenvectors


@pytest.fixture(autouse=True)
def little_is_dense(monkeypatch):
    """Let graphs of more than 100 vertices go to the solver of large ones."""
    monkeypatch.setattr(_graphs, "_DENSE_SIZE", 100)


def hypercube(dimensions):
    """Few different eigenvalues, each of high multiplicity."""
    n = 1 << dimensions
    vertex = np.arange(n)
    neighbors = np.concatenate([vertex ^ (1 << bit) for bit in range(dimensions)])
    return sparse.csr_array((np.ones(n * dimensions), (np.tile(vertex, dimensions), neighbors)))


def chain(n):
    """Eigenvalues that crowd at 0."""
    return sparse.csr_array(sparse.diags_array([np.ones(n - 1)] * 2, offsets=[-1, 1]))


def disconnected(rng):
    """Neighbour graphs of 210, 130 and 60 samples, chains of 3 and single vertices, shuffled."""
    parts = [neighbor_graph(rng.rand(n, 2), 6) for n in (210, 130, 60)]
    W = sparse.block_diag([*parts, *[chain(3)] * 4, sparse.csr_array((5, 5))], format="csr")
    order = rng.permutation(W.shape[0])
    return sparse.csr_array(W[order][:, order])


GRAPHS = {
    "random": lambda rng: neighbor_graph(rng.rand(250, 3), 5),
    "disconnected": disconnected,
    "hypercube": lambda rng: hypercube(8),
    "chain": lambda rng: chain(300),
    "integers": lambda rng: neighbor_graph(rng.randint(3, size=(240, 4)).astype(float), 5),
    "small": lambda rng: neighbor_graph(rng.rand(20, 2), 4),
    "no edges": lambda rng: sparse.csr_array((50, 50)),
}


@pytest.mark.slow
@pytest.mark.parametrize("graph", GRAPHS.values(), ids=GRAPHS.keys())
@pytest.mark.parametrize("c", [3, 15])
def test_smallest_eigenvectors_are_those_of_the_dense_solver(graph, c, rng):
    W = graph(rng)
    for L in (
        laplacian(W),
        sparse.csr_array(sparse.eye_array(W.shape[0]) - normalized_adjacency(W)),
    ):
        values, vectors = smallest_eigenvectors(L, c)
        expected = linalg.eigh(L.toarray(), eigvals_only=True, subset_by_index=[0, c - 1])
        np.testing.assert_allclose(values, expected, atol=1e-12)
        np.testing.assert_allclose(vectors.T @ vectors, np.eye(c), atol=1e-10)
        np.testing.assert_allclose(L @ vectors, vectors * values, atol=1e-10)


def test_equal_eigenvalues_that_lanczos_skips():
    """Of the 36 eigenvalues 4 of this graph it misses one, and finds a 6 in its place."""
    values, _ = smallest_eigenvectors(laplacian(hypercube(9)), 20)
    np.testing.assert_allclose(values, [0] + 9 * [2] + 10 * [4], atol=1e-12)


@pytest.mark.slow
def test_largest_eigenvectors_sparse_and_dense(rng):
    A = normalized_adjacency(disconnected(rng))
    expected = linalg.eigh(A.toarray(), eigvals_only=True)[::-1][:12]
    for given in (A, A.toarray()):
        values, vectors = largest_eigenvectors(given, 12)
        np.testing.assert_allclose(values, expected, atol=1e-12)
        np.testing.assert_allclose(given @ vectors, vectors * values, atol=1e-10)


def test_a_solver_that_gives_up_on_equal_eigenvalues(monkeypatch):
    """LAPACK's search for a few of them can fail, on some matrices of this kind."""
    A = (np.ones((21, 21)) + 0.5 * np.eye(21)) / 22
    eigh = linalg.eigh

    def gives_up(matrix, subset_by_index=None, **options):
        if subset_by_index is not None:
            raise linalg.LinAlgError("Internal Error.")
        return eigh(matrix, **options)

    monkeypatch.setattr(linalg, "eigh", gives_up)
    values, vectors = largest_eigenvectors(A, 8)
    np.testing.assert_allclose(values, [21.5 / 22] + 7 * [0.5 / 22])
    np.testing.assert_allclose(vectors.T @ vectors, np.eye(8), atol=1e-12)
    np.testing.assert_allclose(A @ vectors, vectors * values, atol=1e-12)


def test_as_many_zero_eigenvalues_as_components(rng):
    W = disconnected(rng)
    values, _ = smallest_eigenvectors(laplacian(W), 14)
    np.testing.assert_allclose(values[:12], 0, atol=1e-14)  # 3 + 4 + 5 components
    assert values[12] > 1e-6


def test_eigenvectors_are_reproducible(rng):
    L = laplacian(neighbor_graph(rng.rand(250, 3), 5))
    first, second = smallest_eigenvectors(L, 6), smallest_eigenvectors(L, 6)
    np.testing.assert_array_equal(first[1], second[1])


@pytest.mark.parametrize("dense", [False, True])
def test_eigenvectors_without_convergence_of_lanczos(rng, monkeypatch, dense):
    L = laplacian(neighbor_graph(rng.rand(150, 3), 5))
    expected = linalg.eigh(L.toarray(), eigvals_only=True, subset_by_index=[0, 4])
    lanczos = _graphs._lanczos

    def fails_at_first(A, c, **options):
        if "maxiter" in options and options["maxiter"] == 300:
            raise ArpackNoConvergence("no", np.empty(0), np.empty((0, 0)))
        return lanczos(A, c, **options)

    monkeypatch.setattr(_graphs, "_lanczos", fails_at_first)
    values, _ = smallest_eigenvectors(L.toarray() if dense else L, 5)
    np.testing.assert_allclose(values, expected, atol=1e-12)


def test_all_eigenvectors(rng):
    L = laplacian(neighbor_graph(rng.rand(12, 2), 3))
    values, vectors = smallest_eigenvectors(L, 12)
    np.testing.assert_allclose(vectors * values @ vectors.T, L.toarray(), atol=1e-12)


def test_labels_of_equal_rows():
    U = np.vstack([np.zeros((1, 3)), 5 * np.eye(3)])
    labels = kmeans_labels(np.repeat(U, 4, axis=0), 4, random_state=0)
    assert sorted(np.bincount(labels)) == [4, 4, 4, 4]


# Orthogonal factors and scalings


@pytest.mark.parametrize("shape", [(8, 3), (4, 4), (3, 6)])
def test_orthogonal_factors_reach_the_sum_of_singular_values(shape, rng):
    N = rng.randn(*shape)
    G = orthogonal_factor(N)
    narrow = G if shape[0] >= shape[1] else G.T
    np.testing.assert_allclose(narrow.T @ narrow, np.eye(min(shape)), atol=1e-14)
    np.testing.assert_allclose(np.sum(G * N), linalg.svdvals(N).sum())


def test_the_orthogonal_factor_of_zero_is_the_identity():
    np.testing.assert_array_equal(orthogonal_factor(np.zeros((4, 2))), np.eye(4, 2))


def test_scalings(rng):
    X = np.hstack([rng.rand(20, 3), np.full((20, 1), 7.0)])
    X[4] = 7.0
    by_feature, by_sample, to_unit = (
        scaled(X, "feature"),
        scaled(X, "sample"),
        minmax_features(X),
    )
    np.testing.assert_allclose(by_feature[:, :3].std(axis=0, ddof=1), 1)
    np.testing.assert_allclose(by_feature.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_array_equal(by_feature[:, 3], 0)
    np.testing.assert_allclose(np.delete(by_sample, 4, axis=0).std(axis=1, ddof=1), 1)
    np.testing.assert_array_equal(by_sample[4], 0)
    np.testing.assert_array_equal(to_unit[:, :3].min(axis=0), 0)
    np.testing.assert_allclose(to_unit[:, :3].max(axis=0), 1)
    np.testing.assert_array_equal(to_unit[:, 3], 0)


def test_minmax_keeps_sparse_what_can_be(rng):
    X = sparse.random_array(
        (20, 6), density=0.3, random_state=np.random.default_rng(0), format="csr"
    )
    scaled = minmax_features(X)
    assert sparse.issparse(scaled)
    np.testing.assert_allclose(scaled.toarray(), minmax_features(X.toarray()))
    np.testing.assert_allclose(minmax_features(-X), minmax_features(-X.toarray()))


# Components


def test_stored_zeros_are_no_edges():
    S = sparse.csr_array((np.array([1.0, 1.0, 0.0]), ([0, 1, 1], [1, 0, 2])), shape=(3, 3))
    np.testing.assert_array_equal(component_labels(S), [0, 0, 1])
    assert S.nnz == 3


def test_surplus_of_components():
    values = np.array([0.0, 1e-15, 0.3])
    assert component_surplus(values, 1, 1e-10) == 1
    assert component_surplus(values, 2, 1e-10) == 0
    assert component_surplus(values, 3, 1e-10) == -1
    assert component_surplus(np.zeros(3), 3, 1e-10) == 0


def test_rank_penalty_follows_the_components():
    two, three = chain(3), chain(4)
    S = sparse.block_diag([two, three], format="csr")
    rank = RankPenalty(S, 2, weight=1.0, tol=1e-10)
    assert rank.surplus == 0
    np.testing.assert_allclose(rank.squared_distances([0, 3], [2, 6]), 0, atol=1e-14)
    start = rank.F
    assert not rank.update(sparse.block_diag([chain(3), chain(2), chain(2)], format="csr"))
    assert rank.weight == 0.5  # too many components: weaker, and the old F stays
    assert rank.F is start
    assert not rank.update(chain(7))
    assert rank.weight == 1.0
    assert rank.F is not start
    assert rank.update(S)
    assert rank.weight == 1.0
