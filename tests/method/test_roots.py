"""Eq. 23 by products against LAPACK's eigenvalues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omcal.method.roots import inverse_root, shrunk_uncut, steps
from omcal.method.updates import soft_threshold


def with_eigenvalues(values, rng):
    Q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return (Q * values) @ Q.T, Q


@given(
    m=st.integers(1, 60), condition=st.floats(1, 1e6), slack=st.floats(1, 4), seed=st.integers(0)
)
def test_root_by_products_is_that_of_the_eigenvalues(m, condition, slack, seed):
    rng = np.random.default_rng(seed)
    values = condition ** rng.uniform(size=m)
    B, Q = with_eigenvalues(values, rng)
    exact = (Q / np.sqrt(values)) @ Q.T
    found = inverse_root(B, np.eye(m), values.min() / slack, values.max() * slack)
    # A change of B by its rounding would change the root by as much.
    assert np.abs(found - exact).max() <= 1e-14 * condition + 1e-13


@given(m=st.integers(1, 40), tau=st.floats(0.01, 3), above=st.floats(1, 1e3), seed=st.integers(0))
def test_shrinking_by_products_is_shrinking_by_eigenvalues(m, tau, above, seed):
    rng = np.random.default_rng(seed)
    sigma = tau * (1.001 + above * rng.uniform(size=m))
    B, _ = with_eigenvalues(sigma**2, rng)
    T, total, squares = shrunk_uncut(
        B, tau, np.eye(m), inverse_root(B, np.eye(m), tau**2, 1.1 * (sigma**2).max())
    )
    exact = soft_threshold(B, tau)
    np.testing.assert_allclose(T, exact.T, atol=1e-9)
    assert total == pytest.approx(exact.total, rel=1e-9, abs=1e-9 * tau)
    assert squares == pytest.approx(exact.squares, rel=1e-9, abs=1e-9 * tau**2)


@pytest.mark.parametrize("smallest", [1.0, 0.9, 0.1, 1e-3, 1e-6])
def test_steps_bring_the_interval_to_one_sooner_than_without_scaling(smallest):
    x, lowest, plain, count = np.linspace(smallest, 1, 1000), smallest, 1, 0
    while 1 - lowest > 1e-8:
        lowest, plain = lowest * (1.5 - 0.5 * lowest**2), plain + 1
    for linear, cubic in steps(smallest):
        x, count = x * (linear - cubic * x**2), count + 1
    np.testing.assert_allclose(x, 1, atol=1e-14)
    assert count < plain if smallest < 0.5 else count <= plain


def test_without_threshold_nothing_is_cut():
    B, _ = with_eigenvalues(np.array([4.0, 1.0, 0.0]), np.random.default_rng(0))
    shrunk = soft_threshold(B, 0.0)
    np.testing.assert_array_equal(shrunk.T, np.eye(3))
    assert shrunk.squares == pytest.approx(5)


def test_tensors_serve_as_arrays_do():
    torch = pytest.importorskip("torch")
    B, _ = with_eigenvalues(np.array([9.0, 4.0, 2.0]), np.random.default_rng(1))
    there, eye = torch.tensor(B), torch.eye(3, dtype=torch.float64)
    T, total, squares = shrunk_uncut(there, 0.5, eye, inverse_root(there, eye, 0.25, 10.0))
    exact = soft_threshold(B, 0.5)
    np.testing.assert_allclose(T.numpy(), exact.T, atol=1e-12)
    assert (float(total), float(squares)) == pytest.approx((exact.total, exact.squares))
