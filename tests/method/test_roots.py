"""Steps to an inverse root against LAPACK's eigenvalues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omcal.machine.compiled import inverses_kernel
from omcal.method.roots import inverse_root, steps, terms
from omcal.method.updates import soft_threshold


def with_eigenvalues(values, rng):
    Q = np.linalg.qr(rng.normal(size=(len(values), len(values))))[0]
    return (Q * values) @ Q.T, Q


@given(
    m=st.integers(1, 60), condition=st.floats(1, 1e6), slack=st.floats(1, 4), seed=st.integers(0)
)
def test_steps_lead_to_the_inverse_root(m, condition, slack, seed):
    rng = np.random.default_rng(seed)
    values = condition ** rng.uniform(size=m)
    B, Q = with_eigenvalues(values, rng)
    least, most = values.min() / slack, values.max() * slack
    X, Y = np.eye(m), B / most
    for linear, cubic in steps(np.sqrt(least / most)):
        H = linear * np.eye(m) - cubic * X @ Y
        X, Y = H @ X, Y @ H
    # A change of B by its rounding would change the root by as much.
    exact = (Q / np.sqrt(values)) @ Q.T
    assert np.abs(X / np.sqrt(most) - exact).max() <= 1e-14 * condition + 1e-13


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


@given(condition=st.floats(1, 1e9), least=st.floats(1e-6, 1e6), at=st.floats(0, 1))
def test_terms_sum_to_the_inverse_root_between_the_bounds(condition, least, at):
    shifts, weights = terms(least, least * condition * 1.01)
    x = least * condition**at
    # The bounds enter as a difference from 1, whose rounding tells more the nearer it is to 1.
    near = 1e-14 + 1e-15 * condition**0.5
    assert (weights / (x + shifts)).sum() * np.sqrt(x) == pytest.approx(1, abs=near)


@pytest.fixture(scope="module")
def inverses():
    pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    return inverses_kernel()


@pytest.mark.slow
@given(
    m=st.integers(2, 60),
    condition=st.floats(1, 1e6),
    slack=st.floats(1.01, 1e3),
    seed=st.integers(0),
)
def test_the_inverse_root_of_a_tridiagonal_form(inverses, m, condition, slack, seed):
    rng = np.random.default_rng(seed)
    values = condition ** rng.uniform(size=m)
    B, Q = with_eigenvalues(values, rng)
    exact = (Q / np.sqrt(values)) @ Q.T
    found = inverse_root(B, values.min() / slack, inverses)
    assert np.abs(found - exact).max() <= 1e-14 * condition + 1e-13
    assert inverse_root(B, values.min() * slack, inverses) is None


def test_the_inverse_root_of_a_matrix_that_falls_apart(inverses):
    B = np.diag([4.0, 1.0, 9.0, 0.25])
    np.testing.assert_allclose(
        inverse_root(B, 0.1, inverses), np.diag([0.5, 1, 1 / 3, 2]), atol=1e-15
    )
    blocks = np.kron(np.eye(3), [[2.0, 1.0], [1.0, 2.0]])
    root = inverse_root(blocks, 0.5, inverses)
    np.testing.assert_allclose(root @ blocks @ root, np.eye(6), atol=1e-14)


@pytest.mark.slow
@given(
    m=st.integers(98, 130),
    cut=st.sampled_from([0, 0, 0, 1, 5]),
    condition=st.floats(1.5, 1e5),
    seed=st.integers(0),
)
def test_many_anchors_shrink_as_by_eigenvalues(inverses, m, cut, condition, seed):
    rng = np.random.default_rng(seed)
    values = 0.02 * condition ** rng.uniform(0.01, 1, size=m)
    values[:cut] *= 1e-3
    MtM, _ = with_eigenvalues(values, rng)
    by_eigenvalues = soft_threshold(MtM, 0.02**0.5)
    found = soft_threshold(MtM, 0.02**0.5, inverses)
    np.testing.assert_allclose(found.T, by_eigenvalues.T, atol=1e-13 * condition + 1e-12)
    assert found.total == pytest.approx(by_eigenvalues.total, rel=1e-11, abs=1e-11)
    assert found.squares == pytest.approx(by_eigenvalues.squares, rel=1e-11, abs=1e-11)
