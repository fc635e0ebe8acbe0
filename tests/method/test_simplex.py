"""The projection on the simplex and the exact quadratic program over it."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy.optimize import nnls

from omcal.method.simplex import _shrink_to_interior, minimize_on_simplex, project_simplex

quick = settings(max_examples=150, deadline=None)
finite = st.floats(-1e3, 1e3, width=64)
vectors = arrays(np.float64, st.integers(1, 30), elements=finite)


def scale_of(M, m):
    return max(np.abs(M).max(), np.abs(m).max())


def value(M, m, a):
    return a @ M @ a - m @ a


def relative_gap(M, m, a):
    """An upper bound of the distance to the optimum, relative to the size of the data."""
    gradient = 2 * M @ a - m
    scale = scale_of(M, m)
    return (a @ gradient - gradient.min()) / scale if scale else 0.0


def best_by_enumeration(M, m):
    """Lowest value over the stationary points of all supports that are feasible."""
    V = len(m)
    best = np.inf
    for size in range(1, V + 1):
        for support in map(list, itertools.combinations(range(V), size)):
            bordered = np.zeros((size + 1, size + 1))
            bordered[:size, :size] = 2 * M[np.ix_(support, support)]
            bordered[:size, size], bordered[size, :size] = -1, 1
            right = np.append(m[support], 1.0)
            y = np.linalg.lstsq(bordered, right, rcond=1e-13)[0][:size]
            if y.min() < 0 or abs(y.sum() - 1) > 1e-9:
                continue
            a = np.zeros(V)
            a[support] = y
            best = min(best, value(M, m, a))
    return best


def by_nnls(M, m):
    """The same problem as non-negative least squares."""
    V = len(m)
    kappa = m @ np.linalg.pinv(M, hermitian=True) @ m / 4
    K = M - np.add.outer(m, m) / 2 + kappa
    w, U = np.linalg.eigh((K + K.T) / 2)
    A = np.sqrt(np.maximum(w, 0))[:, None] * U.T
    A /= np.sqrt(np.mean(np.sum(A**2, axis=0)))
    u, _ = nnls(np.vstack([A, np.ones(V)]), np.append(np.zeros(V), 1.0), maxiter=100 * V)
    return u / u.sum()


def mixture(seed, V, rank, target="outside"):
    """M and m of the mixture of V points nearest to a target point."""
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(V, rank))
    z = rng.dirichlet(np.ones(V)) @ points if target == "hull" else rng.normal(size=rank)
    return points @ points.T, 2 * points @ z


# Projection


@quick
@given(vectors)
def test_projection_satisfies_the_optimality_conditions(v):
    x = project_simplex(v)
    tolerance = 1e-12 * max(1.0, np.abs(v).max())
    assert (x >= 0).all()
    assert x.sum() == pytest.approx(1, abs=len(v) * tolerance)
    threshold = np.mean((v - x)[x > 0])
    np.testing.assert_allclose((v - x)[x > 0], threshold, atol=10 * tolerance)
    assert (v[x == 0] <= threshold + 10 * tolerance).all()


@quick
@given(vectors, st.floats(-1e6, 1e6))
def test_projection_ignores_a_common_shift(v, shift):
    np.testing.assert_allclose(
        project_simplex(v + shift), project_simplex(v), atol=1e-14 * (1e4 + abs(shift)) * len(v)
    )


@pytest.mark.slow
@quick
@given(arrays(np.float64, array_shapes(min_dims=2, max_dims=3, max_side=6), elements=finite))
def test_rows_are_projected_independently(v):
    together = project_simplex(v)
    assert together.shape == v.shape
    for index in np.ndindex(v.shape[:-1]):
        np.testing.assert_array_equal(together[index], project_simplex(v[index]))


def test_a_point_of_the_simplex_stays():
    x = np.random.default_rng(0).dirichlet(np.ones(7), size=20)
    np.testing.assert_allclose(project_simplex(x), x, atol=1e-15)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int64])
def test_projection_leaves_its_argument_alone(dtype):
    v = np.array([[3, 1, 2], [0, 0, 0]], dtype=dtype)
    before = v.copy()
    x = project_simplex(v)
    np.testing.assert_array_equal(v, before)
    np.testing.assert_allclose(x, [[1, 0, 0], [1 / 3, 1 / 3, 1 / 3]], rtol=1e-6)


def test_projection_of_huge_values():
    np.testing.assert_allclose(project_simplex(np.array([1e300, -1e300, 1e300])), [0.5, 0, 0.5])
    np.testing.assert_allclose(project_simplex(np.array([1e15 + 0.5, 1e15])), [0.75, 0.25])


def test_projection_equals_the_reference(shared):
    data = np.load(shared / "reference" / "simplex.npz")
    for v, x, length in zip(data["proj_in"], data["proj_out"], data["proj_length"], strict=True):
        v, x = v[:length], x[:length]
        tolerance = 1e-12 * max(1, np.abs(v).max())
        np.testing.assert_allclose(project_simplex(v), x, rtol=0, atol=tolerance)


# Quadratic program


@quick
@given(
    V=st.integers(1, 12),
    rank=st.integers(1, 12),
    seed=st.integers(0, 2**31),
    target=st.sampled_from(["outside", "hull"]),
    start=st.sampled_from(["vertex", "solution", "near", "anywhere"]),
)
def test_gap_certifies_the_optimum(V, rank, seed, target, start):
    M, m = mixture(seed, V, rank, target)
    rng = np.random.default_rng(seed + 1)
    a = minimize_on_simplex(
        M,
        m,
        {
            "vertex": None,
            "solution": minimize_on_simplex(M, m),
            "near": minimize_on_simplex(M, m + 0.1 * M @ rng.normal(size=V)),
            "anywhere": rng.dirichlet(np.ones(V)),
        }[start],
    )
    assert a.shape == (V,)
    assert (a >= 0).all()
    assert a.sum() == pytest.approx(1, abs=1e-12)
    assert relative_gap(M, m, a) <= 1e-10


@quick
@given(
    factor=arrays(np.float64, st.tuples(st.integers(0, 4), st.integers(1, 6)), elements=finite),
    data=st.data(),
)
def test_gap_with_any_factor_and_a_linear_term_in_its_range(factor, data):
    V = factor.shape[1]
    M = factor.T @ factor
    inside = data.draw(arrays(np.float64, V, elements=st.floats(-10, 10)))
    m = M @ inside + data.draw(finite)
    assert relative_gap(M, m, minimize_on_simplex(M, m)) <= 1e-10


@pytest.mark.sampled
@pytest.mark.parametrize("V", [1, 2, 3, 4, 5, 6])
@pytest.mark.parametrize("rank", [1, 2, 6])
def test_equals_enumeration_of_the_supports(V, rank):
    for seed in range(8):
        M, m = mixture(seed, V, rank, ["outside", "hull"][seed % 2])
        found = value(M, m, minimize_on_simplex(M, m))
        assert found == pytest.approx(best_by_enumeration(M, m), abs=1e-11 * scale_of(M, m))


@pytest.mark.parametrize("rank", [15, 60])
def test_mixture_equals_non_negative_least_squares_at_50_views(rank):
    rng = np.random.default_rng(rank)
    points = rng.normal(size=(50, rank))
    z = rng.normal(size=rank)
    M, m = points @ points.T, 2 * points @ z
    # The weights need not be unique; the mixture of the points is.
    np.testing.assert_allclose(
        minimize_on_simplex(M, m) @ points, by_nnls(M, m) @ points, atol=1e-9
    )


def test_optimum_is_zero_where_the_target_is_a_mixture():
    rng = np.random.default_rng(3)
    points = rng.normal(size=(20, 6))
    z = rng.dirichlet(np.ones(20)) @ points
    a = minimize_on_simplex(points @ points.T, 2 * points @ z)
    np.testing.assert_allclose(a @ points, z, atol=1e-7)


def test_duplicated_views_get_a_sparse_solution_the_same_every_time():
    M, m = mixture(0, 3, 5)
    twice = np.repeat([0, 1, 2], 2)
    MM, mm = M[np.ix_(twice, twice)], m[twice]
    a = minimize_on_simplex(MM, mm)
    np.testing.assert_array_equal(a, minimize_on_simplex(MM, mm))
    np.testing.assert_allclose(a.reshape(3, 2).sum(axis=1), minimize_on_simplex(M, m), atol=1e-12)
    assert relative_gap(MM, mm, a) <= 1e-10
    np.testing.assert_array_equal(minimize_on_simplex(np.ones((2, 2)), np.ones(2)), [1, 0])


def test_nearly_equal_views():
    rng = np.random.default_rng(1)
    points = rng.normal(size=8) + 1e-7 * rng.normal(size=(10, 8))
    M, m = points @ points.T, 2 * points @ rng.normal(size=8)
    assert relative_gap(M, m, minimize_on_simplex(M, m)) <= 1e-10


def test_zero_matrix_and_single_view():
    np.testing.assert_array_equal(minimize_on_simplex(np.zeros((3, 3)), np.zeros(3)), [1, 0, 0])
    best = minimize_on_simplex(np.zeros((3, 3)), np.array([0.0, 2.0, 1.0]))
    np.testing.assert_array_equal(best, [0, 1, 0])
    for M in (0.0, 1e-300, 5.0):
        np.testing.assert_array_equal(minimize_on_simplex([[M]], [-3.0]), [1])


@pytest.mark.parametrize("factor", [1e-12, 1e-6, 1e6, 1e12])
@pytest.mark.parametrize("rank", [2, 9])
def test_scale_invariance(factor, rank):
    M, m = mixture(5, 7, rank)
    a, b = minimize_on_simplex(M, m), minimize_on_simplex(M * factor, m * factor)
    assert value(M, m, b) == pytest.approx(value(M, m, a), abs=1e-11 * scale_of(M, m))
    if rank > 7:
        np.testing.assert_allclose(a, b, atol=1e-12)


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_values_that_are_not_finite_raise(bad):
    M, m = mixture(0, 3, 3)
    with pytest.raises(ValueError, match=r"finite.*NaN or infinity"):
        minimize_on_simplex(M, np.array([0, bad, 0]))
    M[1, 1] = bad
    with pytest.raises(ValueError, match=r"finite.*NaN or infinity"):
        minimize_on_simplex(M, m)


@quick
@given(st.integers(2, 6), st.integers(0, 2**32 - 1))
def test_dropping_vertices_never_raises_the_value(V, seed):
    rng = np.random.default_rng(seed)
    factor, m = rng.normal(size=(V, V)), rng.normal(size=V)
    M, a, support = factor.T @ factor, rng.dirichlet(np.ones(V)), list(range(V))
    before = value(M, m, a)
    _shrink_to_interior(M, m, a, support)
    assert (a >= 0).all() and a.sum() == pytest.approx(1)
    assert sorted(support) == a.nonzero()[0].tolist()
    assert value(M, m, a) <= before + 1e-12 * scale_of(M, m)


def test_whole_numbers_and_lists():
    for M, m in (([[2, 0], [0, 2]], [2, 0]), (np.eye(2, dtype=int) * 2, np.array([2, 0]))):
        np.testing.assert_allclose(minimize_on_simplex(M, m), [0.75, 0.25])
    np.testing.assert_allclose(minimize_on_simplex([[3, 0], [0, 1]], [0, 0]), [0.25, 0.75])


def test_what_cannot_be_solved_says_why():
    with pytest.raises(
        ValueError, match=r"^M and m must be finite; they contain NaN or infinity\.$"
    ):
        minimize_on_simplex(np.eye(2), np.array([np.nan, 0]))


def test_a_matrix_that_is_not_semi_definite_is_given_up():
    M = np.array([[4, 2, -1], [2, 4, 4], [-1, 4, 6]])
    with pytest.raises(
        RuntimeError, match=r"^no optimum after 150 supports; is M positive semi-definite\?$"
    ):
        minimize_on_simplex(M, [1, 2, 1])


@quick
@given(
    V=st.integers(2, 6),
    rank=st.integers(0, 3),
    seed=st.integers(0, 2**32 - 1),
    whole=st.booleans(),
    noise=st.sampled_from([0.0, 1e-16, 1e-13, 1e-9, 1e-7, 1e-3, 1.0]),
)
def test_a_linear_term_outside_the_range(V, rank, seed, whole, noise):
    """Along some directions the objective is linear then, as sums in float32 make it."""
    rng = np.random.default_rng(seed)
    factor = rng.integers(-4, 5, size=(rank, V)) if whole else rng.normal(size=(rank, V))
    M = factor.T @ factor
    m = M @ rng.normal(size=V) + noise * rng.normal(size=V)
    for start in (None, np.ones(V) / V):
        assert relative_gap(M, m, minimize_on_simplex(M, m, start)) <= 1e-10


def test_sums_in_float32_of_graphs_that_are_linearly_dependent():
    M = np.full((5, 5), 1.0) + 2 * np.eye(5)
    M[2] = M[:, 2] = [2, 2, 3, 0, 2]
    M[3, 2] = M[2, 3] = 0.0
    m = np.array([0.99547075573302, 0.98541336205445, 0.95931649358006, 1.04766445566657, 0.0])
    m[4] = m[1] - 6.38e-9
    assert relative_gap(M, m, minimize_on_simplex(M, m)) <= 1e-10


def test_program_equals_the_reference(shared):
    data = np.load(shared / "reference" / "simplex.npz")
    for i, V in enumerate(data["qp_dim"]):
        M, m = data["qp_A"][i, :V, :V], data["qp_b"][i, :V]
        a = minimize_on_simplex(M, m)
        best = data["qp_value"][i]
        assert value(M, m, a) == pytest.approx(best, abs=1e-12 * max(1, abs(best)))
        if data["qp_unique"][i]:
            np.testing.assert_allclose(a, data["qp_x"][i, :V], rtol=0, atol=1e-9)


@quick
@given(arrays(np.float64, st.integers(2, 6), elements=st.floats(-5, 5)))
def test_the_identity_matrix_gives_the_projection(v):
    # argmin ||a - v||² is the projection of v.
    np.testing.assert_allclose(
        minimize_on_simplex(np.eye(len(v)), 2 * v), project_simplex(v), atol=1e-11
    )
