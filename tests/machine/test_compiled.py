"""The compiled loops against the same sums written plainly, on shapes of every kind."""

import errno
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from omcal.machine import compiled, simd, unrolled
from omcal.machine.jit import jit
from omcal.method.graph import _nearest, _tie_limit
from omcal.method.scaling import Moments
from omcal.method.updates import MAX_SWEEPS, fixed_point, fixed_point_tol

numba = pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
pytestmark = pytest.mark.slow  # to compile

SIZES = st.sampled_from([0, 1, 2, 255, 256, 257, 1030])  # around the rows of a tile
REALS = st.sampled_from([np.float32, np.float64])


def random_graphs(rng, n, V, m, k, real):
    indices = np.argsort(rng.random((n, V, m)), axis=2)[:, :, :k]
    weights = rng.dirichlet(np.ones(k), size=(n, V)).astype(real)
    return indices.astype(np.min_scalar_type(m - 1)), weights


def dense(indices, weights, m):
    """[S_1 … S_V] in float64."""
    n, V, _ = indices.shape
    S = np.zeros((n, V, m))
    np.put_along_axis(S, indices.astype(np.intp), weights.astype(np.float64), axis=2)
    return S.reshape(n, V * m)


# Each number of columns, each pair of types, and k = 5 beside all other k take seconds to compile:
# few of them, in many shapes; `test_every_pass_is_the_plain_one` has the others.
# (columns, type, anchors beyond the neighbours, numbers of neighbours)
KINDS = [
    (3, np.float32, 3, [1, 4, 6, 20]),  # columns that fill no vector, indices of one byte
    (9, np.float64, 30, [5]),  # columns in several vectors
    # More columns than are written out, which BLAS multiplies; indices of two bytes.
    (67, np.float64, 300, [1, 4, 6, 20]),
]


# Registers of AVX2 and of ARM, as (number, bytes).
other_registers = pytest.mark.parametrize(
    ("registers", "real"),
    [
        ((16, 32), np.float32),
        ((32, 16), np.float64),
        pytest.param((16, 32), np.float64, marks=pytest.mark.long),
        pytest.param((32, 16), np.float32, marks=pytest.mark.long),
    ],
)


@settings(max_examples=60, deadline=None)
@given(
    n=SIZES,
    V=st.integers(1, 12),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
)
@example(n=257, V=12, kind=KINDS[0], seed=0)
@example(n=600, V=2, kind=KINDS[1], seed=2)
@example(n=1030, V=3, kind=KINDS[2], seed=1)
def test_the_pass_is_the_plain_one(n, V, kind, seed):
    c, real, more, neighbours = kind
    rng = np.random.default_rng(seed)
    k = int(rng.choice(neighbours))
    check_the_pass(rng, (n, V, c, k + more, k), real)


@pytest.mark.long
@pytest.mark.parametrize("k", [5, 20])
@pytest.mark.parametrize("kind", [*KINDS, (21, np.float64, 30, ())], ids=lambda kind: str(kind[0]))
def test_the_pass_with_any_number_of_neighbours(kind, k):
    c, real, more, _ = kind
    check_the_pass(np.random.default_rng(), (1030, 3, c, k + more, k), real)


@pytest.mark.long
@other_registers
def test_the_pass_with_registers_of_other_processors(registers, real, monkeypatch):
    monkeypatch.setattr(compiled, "registers", lambda: registers)
    rng = np.random.default_rng()
    check_the_pass(rng, (700, 3, 5, 12, 5), real)


def check_the_pass(rng, shape, real):
    n, V, c, m, k = shape
    indices, weights = random_graphs(rng, n, V, m, k, real)
    F = rng.random((n, c)).astype(real)
    stack_by_view = rng.normal(size=(V * m, c)).astype(real)
    R = rng.normal(size=(c, c)).astype(real) / c
    S = dense(indices, weights, m)
    old = F.astype(np.float64)
    new = np.maximum(S @ stack_by_view + old @ R, 0)

    sweep = compiled.Sweep(stack_by_view, R)
    StF, FtF, FoldtF = sweep.parts(sweep(indices, weights, F))

    tolerance = 1e-5 if real == np.float32 else 1e-12
    scale = max(1.0, np.abs(new).max(initial=0.0))
    assert_allclose(F, new, rtol=0, atol=tolerance * scale)
    for found, expected in ((StF, S.T @ new), (FtF, new.T @ new), (FoldtF, old.T @ new)):
        assert found.dtype == np.float64
        assert_allclose(
            found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max(initial=0.0))
        )


def test_the_pass_does_not_hide_what_is_no_number():
    rng = np.random.default_rng(0)
    indices, weights = random_graphs(rng, 300, 2, 6, 5, np.float32)
    F = np.zeros((300, 3), np.float32)
    F[7, 1] = np.nan
    sweep = compiled.Sweep(np.ones((12, 3), np.float32), np.eye(3, dtype=np.float32))
    _, FtF, _ = sweep.parts(sweep(indices, weights, F))
    assert np.isnan(F[7, 1]) and np.isnan(FtF[1, 1]) and np.isfinite(np.delete(F, 7, 0)).all()


def test_the_pass_is_the_same_in_registers_and_by_loops(monkeypatch):
    rng = np.random.default_rng(0)
    c, m, k = 3, 12, 4  # compiled for other tests, too
    indices, weights = random_graphs(rng, 600, 2, m, k, np.float32)
    stack_by_view = rng.normal(size=(2 * m, c)).astype(np.float32)
    R = (rng.normal(size=(c, c)) / c).astype(np.float32)
    found = []
    for most in (256, 0):  # in registers; with products left to BLAS
        monkeypatch.setattr(compiled, "_MOST_PRODUCTS", most)
        F = np.random.default_rng(1).random((600, c)).astype(np.float32)
        sweep = compiled.Sweep(stack_by_view, R)
        found.append((F, *sweep.parts(sweep(indices, weights, F))))
    for kind in zip(*found, strict=True):
        for other in kind[1:]:
            assert_allclose(kind[0], other, rtol=1e-5, atol=1e-5 * np.abs(other).max())


@settings(max_examples=40, deadline=None)
@given(n=SIZES, V=st.integers(1, 5), k=st.integers(1, 6), real=REALS, seed=st.integers(0, 999))
def test_the_products_of_graphs_are_the_plain_ones(n, V, k, real, seed):
    rng = np.random.default_rng(seed)
    m = k + 3
    indices, weights = random_graphs(rng, n, V, m, k, real)
    StS = np.zeros((V, V, m, m))
    compiled.gram_kernel(indices, weights, StS)
    S = dense(indices, weights, m)
    expected = (S.T @ S).reshape(V, m, V, m).swapaxes(1, 2)
    upper = np.triu_indices(V)
    assert_allclose(StS[upper], expected[upper], atol=1e-4 if real == np.float32 else 1e-10)


@pytest.mark.long
@settings(max_examples=60, deadline=None)
@given(
    n=st.sampled_from([0, 1, 63, 64, 65, 200]),
    V=st.integers(1, 5),
    k=st.integers(1, 6),
    # Each number of vectors is compiled: these have three.
    kind=st.sampled_from(
        [(c, np.float32) for c in (9, 12, 24)] + [(1, np.float64), (2, np.float64)]
    ),
    norm=st.floats(0, 0.99),
    seed=st.integers(0, 999),
)
def test_rows_settle_as_the_plain_ones_do(n, V, k, kind, norm, seed):
    check_the_fixed_point(n, V, k, kind, norm, seed)


@pytest.mark.long
@pytest.mark.parametrize("real", [np.float32, np.float64])
@pytest.mark.parametrize("c", [3, 5, 7, 21, 45])
def test_rows_of_any_width_settle_as_the_plain_ones_do(c, real):
    check_the_fixed_point(200, 3, 5, (c, real), 0.9, c)


def check_the_fixed_point(n, V, k, kind, norm, seed):
    c, real = kind
    rng = np.random.default_rng(seed)
    m = k + 3
    indices, weights = random_graphs(rng, n, V, m, k, real)
    stack_by_view = rng.normal(size=(V * m, c)).astype(real)
    R = np.cov(rng.normal(size=(c, c + 3))).reshape(c, c)
    R *= norm / np.linalg.norm(R, 2)
    settles = compiled.fixed_point(
        stack_by_view, R, fixed_point_tol(stack_by_view.dtype), MAX_SWEEPS
    )
    U = settles(indices, weights)
    assert U.shape == (n, c) and U.dtype == real
    expected = fixed_point((dense(indices, weights, m) @ stack_by_view).astype(real), R)
    size = np.abs(expected).max(initial=1.0)
    # What is left to change shrinks by the norm of R in each sweep, at worst.
    near = (1e-6 if real == np.float32 else 1e-9) / (1 - norm)
    assert_allclose(U, expected, rtol=0, atol=near * size)


def simd_topk(k, real, registers=None):
    return unrolled.nearest_kernel(k, registers or simd.registers(), np.dtype(real))


# Each number of neighbours, type and order is compiled by itself.
VECTOR_SEARCHES = [(1, np.float32, "C"), (5, np.float64, "F"), (5, np.float32, "C")]
MORE_VECTOR_SEARCHES = [
    (k, real, order)
    for k in (1, 2, 5, 16)
    for real in (np.float32, np.float64)
    for order in ("C", "F")
    if (k, real, order) not in VECTOR_SEARCHES
]


@pytest.mark.long
@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(1, 600),
    more=st.integers(1, 60),
    kind=st.sampled_from(VECTOR_SEARCHES),
    seed=st.integers(0, 999),
)
def test_the_nearest_anchors_found_by_vectors_are_the_plain_ones(n, more, kind, seed):
    k, real, order = kind
    rng = np.random.default_rng(seed)
    check_the_nearest(simd_topk(k, real), rng, (n, k + more, k), real, order)


@pytest.mark.long
@pytest.mark.parametrize(("k", "real", "order"), MORE_VECTOR_SEARCHES)
def test_any_number_of_nearest_anchors_found_by_vectors(k, real, order):
    rng = np.random.default_rng(k)
    for n, more in ((1, 1), (64, 3), (600, 50)):
        check_the_nearest(simd_topk(k, real), rng, (n, k + more, k), real, order)


@pytest.mark.long
@other_registers
def test_the_nearest_anchors_with_registers_of_other_processors(registers, real):
    rng = np.random.default_rng()
    check_the_nearest(simd_topk(3, real, registers), rng, (333, 20, 3), real, "C")


def check_the_nearest(kernel, rng, shape, real, order):
    n, m, k = shape
    # Of few values, so that there are ties.
    products = rng.integers(-4, 5, size=(n, m)).astype(real)
    bias = rng.integers(-2, 3, size=m).astype(real)
    found, expected = (
        (np.empty((n, k), np.uint8), np.empty((n, k), real)),
        (np.empty((n, k), np.uint8), np.empty((n, k), real)),
    )
    tie = _tie_limit(np.dtype(real))
    assert kernel(np.array(products, order=order), bias, tie, *found)
    assert _nearest(products, bias, tie, *expected)
    assert_array_equal(found[0], expected[0])
    assert_allclose(found[1], expected[1], rtol=1e-5 if real == np.float32 else 1e-12, atol=1e-7)


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
@pytest.mark.parametrize(
    "nearest",
    [lambda: simd_topk(5, np.float32), lambda: _nearest],
)
def test_products_that_are_not_finite_are_noticed(nearest, value):
    products, bias = np.ones((70, 7), np.float32), np.zeros(7, np.float32)
    products[67, 3] = value
    out = np.empty((70, 5), np.uint8), np.empty((70, 5), np.float32)
    tie = _tie_limit(products.dtype)
    assert nearest()(np.ones_like(products), bias, tie, *out)
    assert not nearest()(products, bias, tie, *out)


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("real", [np.float32, np.float64])
def test_the_moments_are_the_plain_ones(order, real):
    X = np.asarray(3e4 + np.random.default_rng(0).normal(size=(999, 7)), dtype=real, order=order)
    X.flags.writeable = False
    found, expected = Moments.of(X, compiled=True), Moments.of(X)
    assert found.n == expected.n
    assert_allclose(found.mean, expected.mean, rtol=1e-12)
    assert_allclose(found.squares, expected.squares, rtol=1e-9)


def test_threads_that_need_a_loop_at_once_compile_it_once(monkeypatch):
    compilations = []
    njit, together = numba.njit, Barrier(4)

    def counted(*functions, **options):
        # Ours, as Numba compiles some of its own meanwhile; tried again where there is no cache.
        if "cache" in options:
            compilations.append(options)
        return njit(*functions, **options)

    monkeypatch.setattr(numba, "njit", counted)
    c = 4  # with three neighbours, which no other test asks for

    def first_call(_):
        together.wait()
        return unrolled.vector_sweep_kernel(c, 3, (32, 64), np.dtype("f"))

    with ThreadPoolExecutor(4) as pool:
        kernels = set(pool.map(first_call, range(4)))
    assert len(kernels) == len(compilations) == 1


def test_without_a_place_for_what_is_compiled_it_is_compiled_anew(monkeypatch):
    plain, asked = numba.njit, []

    def njit(*functions, cache=False, **options):
        asked.append(cache)
        if cache:  # where neither the folder of the source nor a home can be written to
            raise RuntimeError("cannot cache function 'f': no locator available for file 'f.py'")
        return plain(*functions, cache=cache, **options)

    monkeypatch.setattr(numba, "njit", njit)
    assert jit(fastmath=True)(lambda x: x + 1)(2) == 3
    assert asked == [False, True]


def test_other_errors_of_the_compiler_are_not_hidden(monkeypatch):
    def njit(**options):
        raise RuntimeError("something else")

    monkeypatch.setattr(numba, "njit", njit)
    with pytest.raises(RuntimeError, match="something else"):
        jit()(len)


def test_a_full_disk_is_said_aloud_and_does_no_harm(monkeypatch):
    def save(*given):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(numba.core.caching.IndexDataCacheFile, "save", save)
    one_more = jit()(lambda x: x + 1)
    with pytest.warns(RuntimeWarning, match="No space left.*NUMBA_CACHE_DIR"):
        assert one_more(2) == 3
    assert one_more(3) == 4  # and is not said again
