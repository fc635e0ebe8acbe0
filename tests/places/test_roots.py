"""Steps to an inverse root against LAPACK's eigenvalues."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omcal.method.updates import soft_threshold
from omcal.places.gpu.batched_roots import steps


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
