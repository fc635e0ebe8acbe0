"""Products with few columns against NumPy's, on shapes of every kind."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from omcal.machine import simd, tall_skinny
from omcal.machine.tall_skinny import ThinProduct

REALS = st.sampled_from([np.float32, np.float64])


def random_product(width, m, real, compiled, seed):
    rng = np.random.default_rng(seed)
    product = ThinProduct((width, m), np.dtype(real), compiled=compiled)
    product.W[:] = rng.standard_normal((width, m))
    return product, rng


def assert_is_product(products, X, W):
    """To the rounding of sums in the type of the rows."""
    X, W = X.astype(np.float64), W.astype(np.float64)
    most = np.finfo(products.dtype).eps * X.shape[1] * (np.abs(X) @ np.abs(W)).max(initial=0.0)
    assert_allclose(products, X @ W, rtol=0, atol=most)


@given(
    n=st.one_of(st.integers(0, 40), st.sampled_from([511, 512, 700])),
    width=st.one_of(st.integers(0, 50), st.sampled_from([95, 96, 400])),
    m=st.one_of(st.integers(1, 70), st.just(12)),
    real=REALS,
)
@example(n=512, width=96, m=12, real=np.float64)
@example(n=700, width=400, m=12, real=np.float32)
def test_blas_has_columns_beyond_the_last_only_in_any_order(n, width, m, real):
    product, rng = random_product(width, m, real, False, n)
    X = rng.standard_normal((n, width)).astype(real)
    exact, more = product(X, any_order=False), product(X)
    assert exact.shape == (n, m) and exact.dtype == real
    assert more.shape[0] == n and m <= more.shape[1] < m + 4
    assert_is_product(exact, X, product.W)
    assert_is_product(more[:, :m], X, product.W)


@pytest.fixture(scope="module")
def wide():
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    if simd.registers()[1] < tall_skinny._WIDE:
        pytest.skip("the processor has no registers of 64 bytes")


# Each number of registers and each type takes a second to compile: all of them, in many shapes.
@pytest.mark.long
@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(
    n=st.integers(0, 100),
    width=st.one_of(st.integers(1, 40), st.sampled_from([63, 64, 65, 343])),
    m=st.integers(1, 120),
    real=REALS,
    seed=st.integers(0, 2**32 - 1),
)
@example(n=8, width=16, m=32, real=np.float32, seed=0)
@example(n=9, width=17, m=36, real=np.float32, seed=1)
@example(n=23, width=343, m=50, real=np.float32, seed=2)
@example(n=31, width=33, m=100, real=np.float32, seed=3)
@example(n=8, width=8, m=16, real=np.float64, seed=4)
@example(n=50, width=65, m=52, real=np.float64, seed=5)
def test_tiles_are_the_plain_product(wide, n, width, m, real, seed):
    product, rng = random_product(width, m, real, True, seed)
    X = rng.standard_normal((n, width)).astype(real)
    products = product(X)
    assert products.shape[0] == n and products.dtype == real
    assert_is_product(products[:, :m], X, product.W)


@pytest.mark.slow
@pytest.mark.parametrize("m", [30, 50])
def test_rows_of_every_layout(wide, m):
    """Read-only, a part of wider rows, every second row, turned, of another type, in no order."""
    product, rng = random_product(40, m, np.float32, True, 0)
    wider = rng.standard_normal((60, 50)).astype(np.float32)
    fixed = wider[:, :40].copy()
    fixed.flags.writeable = False
    turned = np.asfortranarray(fixed)
    other = fixed.astype(np.float64)
    for X in (fixed, wider[:, 5:45], fixed[::2], fixed[::-1], fixed[:, ::-1], turned, other):
        assert_is_product(product(X)[:, :m], X, product.W)


@pytest.mark.slow
def test_a_row_has_the_same_bits_in_every_block(wide):
    product, rng = random_product(100, 50, np.float32, True, 0)
    X = rng.standard_normal((41, 100)).astype(np.float32)
    whole = product(X)
    for start, stop in ((0, 8), (3, 12), (20, 41), (33, 41)):
        assert_array_equal(product(X[start:stop])[:, :50], whole[start:stop, :50])


@pytest.mark.slow
@pytest.mark.parametrize(("m", "real"), [(50, np.float32), (33, np.float64)])
def test_equal_columns_have_equal_products(wide, m, real):
    """Or rounding would decide which of two anchors at one point is nearer."""
    product, rng = random_product(100, m, real, True, 0)
    product.W[:] = product.W[:, [0]]
    products = product(rng.standard_normal((41, 100)).astype(real))[:, :m]
    assert_array_equal(products, np.broadcast_to(products[:, :1], products.shape))


@pytest.mark.slow
@pytest.mark.parametrize("bad", [np.nan, np.inf])
@pytest.mark.parametrize("place", [0, 16, 39])
def test_what_is_not_finite_stays_in_its_row(wide, bad, place):
    product, rng = random_product(40, 50, np.float32, True, 0)
    X = rng.standard_normal((20, 40)).astype(np.float32)
    X[7, place] = bad
    finite = np.isfinite(product(X)[:, :50])
    assert not finite[7].any()
    assert np.delete(finite, 7, axis=0).all()


@pytest.mark.slow
def test_tiles_are_used_where_they_pay(wide):
    """Else the tests above would compare BLAS with itself."""

    def by_tiles(width, m, real):
        return ThinProduct((width, m), np.dtype(real), compiled=True)._tiles is not None

    assert all(by_tiles(64, m, np.float32) for m in (24, 30, 32, 36, 48, 50, 64, 96))
    assert all(by_tiles(64, m, np.float64) for m in (12, 16, 20, 30, 48))
    assert not any(by_tiles(64, m, np.float32) for m in (1, 16, 20, 23, 97, 500))
    assert not any(by_tiles(64, m, np.float64) for m in (1, 8, 11, 49, 500))
    assert ThinProduct((64, 50), np.dtype(np.float32), compiled=False)._tiles is None
