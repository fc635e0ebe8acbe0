"""The updates on small matrices, against full ones."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from omcal.method.updates import (
    ConsensusGraph,
    fixed_point,
    orthogonal_factor,
    soft_threshold,
    stack_by_view,
    weighted_sum,
)
from omcal.method.weights import (
    WeightInputs,
    agreement,
    agreement_weights,
    copies,
    distinct_weights,
    normalized,
)

V, N, M, C = 3, 25, 7, 3


@pytest.fixture
def S():
    return np.random.default_rng(0).dirichlet(np.full(M, 0.4), size=(V, N))


@pytest.fixture
def Z():
    rng = np.random.default_rng(1)
    G = np.linalg.qr(rng.normal(size=(M, C)))[0]
    return ConsensusGraph(np.array([0.2, 0.3, 0.5]), G, np.diag(rng.random(M)), 0.7)


def test_mixtures(S):
    for alpha in ([0.2, 0.3, 0.5], [0.4]):
        few = S[: len(alpha)]
        expected = sum(a * part for a, part in zip(alpha, few, strict=True))
        assert_allclose(weighted_sum(np.array(alpha), few), expected, rtol=1e-14)
        P = np.random.default_rng(2).normal(size=(M, C))
        assert_allclose(
            np.hstack(few) @ stack_by_view(np.array(alpha), P), expected @ P, atol=1e-14
        )


# Z


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 9), st.integers(0, 9), st.floats(0.01, 3), st.integers(0, 2**31))
def test_singular_values_are_cut_by_tau(m, rank, tau, seed):
    rng = np.random.default_rng(seed)
    M = rng.normal(size=(12, rank)) @ rng.normal(size=(rank, m))
    U, sigma, Vt = np.linalg.svd(M, full_matrices=False)
    rho = np.maximum(sigma - tau, 0)
    found = soft_threshold(M.T @ M, tau)
    assert_allclose(M @ found.T, (U * rho) @ Vt, atol=1e-6)
    assert found.total == pytest.approx(rho.sum(), abs=1e-6)
    assert found.squares == pytest.approx(np.square(rho).sum(), abs=1e-6)
    assert_allclose(found.T, found.T.T, atol=1e-12)


def test_nothing_is_cut_without_beta():
    M = np.random.default_rng(3).normal(size=(12, 5))
    found = soft_threshold(M.T @ M, 0.0)
    assert_array_equal(found.T, np.eye(5))
    assert found.squares == pytest.approx(np.square(M).sum())
    assert found.total == 0.0


# Weights


def test_agreement_is_the_cosine_of_graph_and_clustering(S, Z):
    F = np.maximum(S[0] @ Z.G, 0)
    clustering, FtF = F @ Z.G.T, F.T @ F
    H = np.einsum("unj,vnj->uv", S, S)
    StF = S.transpose(0, 2, 1) @ F
    size = np.linalg.norm(S, axis=(1, 2)) * np.linalg.norm(clustering)
    cosine = np.sum(S * clustering, axis=(1, 2)) / size
    assert (cosine > 0).all()
    assert_allclose(agreement(H, StF, FtF, Z.G), cosine, rtol=1e-12)
    assert_array_equal(agreement(H, -StF, FtF, Z.G), 0)  # never below
    assert_array_equal(agreement(0 * H, 0 * StF, FtF, Z.G), 0)
    weights = agreement_weights(WeightInputs(H, np.zeros(V), StF, FtF, Z.G, None))
    assert_allclose(weights, cosine / cosine.sum(), rtol=1e-12)


def test_copies_of_a_view_share_its_weight(S, Z):
    twice = [0, 1, 2, 2]
    F = np.maximum(S[0] @ Z.G, 0)
    S = S[twice]
    H, StF = np.einsum("unj,vnj->uv", S, S), S.transpose(0, 2, 1) @ F
    given = WeightInputs(H, np.zeros(len(H)), StF, F.T @ F, Z.G, None)
    plain, distinct = (rule(given) for rule in (agreement_weights, distinct_weights))
    assert distinct.sum() == pytest.approx(1)
    assert_allclose(distinct / plain * plain[0] / distinct[0], [1, 1, 0.5, 0.5], rtol=1e-3)


def test_how_many_copies_there_are():
    cosine = np.array([[1, 0.99, 0], [0.99, 1, 0], [0, 0, 1.0]])
    size = np.array([2.0, 3.0, 5.0])
    found = copies(cosine * np.outer(size, size))
    assert_allclose(found, [1 + 0.99**50, 1 + 0.99**50, 1])
    assert_allclose(copies(np.diag([0.0, 4.0])), 1)  # a graph without weights is alone


def test_shares():
    assert_allclose(normalized(np.array([1.0, 3.0])), [0.25, 0.75])
    assert_allclose(normalized(np.zeros(4)), 0.25)


# The state that a fit ends with


def test_a_sound_state_and_what_breaks_it(Z):
    assert Z.sound
    assert ConsensusGraph(np.array([1.0]), Z.G, np.eye(len(Z.G)), 0.0).sound
    lean = np.zeros((M, M))
    lean[0, 1] = 1
    columns = np.eye(M, C)
    for broken in (
        {"alpha": np.array([-0.1, 0.6, 0.5])},
        {"alpha": np.array([0.2, 0.3, 0.5 + 2e-6])},
        {"alpha": np.array([0.2, 0.3, 0.5 - 2e-6])},
        {"G": columns + 2e-6 * lean[:, :C]},
        {"T": Z.T + 2e-6 * lean},
        {"T": np.eye(M) * (1 + 2e-6)},
        {"T": -np.eye(M) * (1 + 2e-6)},
    ):
        assert not replace(Z, **broken).sound
    for fine in (
        {"alpha": np.array([0.2, 0.3, 0.5 + 5e-7])},
        {"alpha": np.array([0.0, 0.0, 1.0])},
        {"G": columns + 5e-7 * lean[:, :C]},
        {"T": Z.T + 5e-7 * lean},
        {"T": np.eye(M) * (1 + 5e-7)},
    ):
        assert replace(Z, **fine).sound


def test_the_f_step_ahead_of_g(S, Z):
    F = np.random.default_rng(5).random((N, C))
    A = weighted_sum(Z.alpha, S)
    full = (A + Z.gamma * F @ Z.G.T) @ Z.T / (1 + Z.gamma)
    ahead = np.linalg.qr(np.random.default_rng(6).normal(size=(M, C)))[0]
    for basis in (None, ahead):
        P, R = Z.f_step(basis)
        assert_allclose(A @ P + F @ R, full @ (Z.G if basis is None else basis), atol=1e-14)


# New samples


@settings(max_examples=60, deadline=None)
@given(
    n=st.integers(0, 20),
    c=st.integers(1, 6),
    norm=st.floats(0, 0.999),
    seed=st.integers(0, 2**31),
    dtype=st.sampled_from([np.float32, np.float64]),
)
def test_settled_rows_are_a_fixed_point(n, c, norm, seed, dtype):
    rng = np.random.default_rng(seed)
    B = rng.normal(size=(n, c)).astype(dtype)
    R = np.cov(rng.normal(size=(c, c + 3))).reshape(c, c)
    R *= norm / np.linalg.norm(R, 2)
    U = fixed_point(B, R)
    assert U.dtype == dtype and U.flags.c_contiguous and U.shape == B.shape
    near = {"atol": 1e-4 if dtype == np.float32 else 1e-7}
    assert_allclose(U, B + np.maximum(U, 0) @ R, **near)


def test_what_a_row_settles_at_does_not_depend_on_the_others():
    rng = np.random.default_rng(7)
    B, R = rng.normal(size=(6, 3)), 0.3 * np.ones((3, 3))
    alone = np.vstack([fixed_point(row[None], R) for row in B])
    assert_allclose(fixed_point(B, R), alone, atol=1e-8)


@pytest.mark.parametrize("gamma", [1, 30, 300])
def test_rows_settle_however_large_gamma_is(gamma):
    """R then has a norm near 1, and each sweep leaves most of the error."""
    R = gamma / (1 + gamma) * np.full((3, 3), 1 / 3)
    B = np.random.default_rng(0).random((20, 3))
    assert_allclose(fixed_point(B, R), B @ np.linalg.inv(np.eye(3) - R), rtol=1e-8)


def test_settling_ends_after_so_many_sweeps():
    B, R = np.array([[1.0, 1.0]]), np.array([[0.5, 0.4], [0.4, 0.5]])
    # One sweep by hand, from f1 = 1 / .5 on: f0 = (1 + .4 f1) / .5, then f1 = (1 + .4 f0) / .5.
    f0 = (1 + 0.4 * 2) / 0.5
    f1 = (1 + 0.4 * f0) / 0.5
    assert_allclose(fixed_point(B, R, max_sweeps=1), B + np.array([[f0, f1]]) @ R)
    assert_allclose(fixed_point(B, R), [[10, 10]], rtol=1e-8)


@given(
    st.integers(1, 12), st.integers(0, 20), st.integers(0, 2**32 - 1), st.sampled_from([0, 3, 7])
)
@settings(deadline=None)
def test_the_orthogonal_factor_is_that_of_the_svd(c, more, seed, digits):
    rng = np.random.default_rng(seed)
    U, Q = (np.linalg.qr(rng.normal(size=(n, c)))[0] for n in (c + more, c))
    size = 10.0 ** rng.uniform(-150, 150)
    ZtF = size * (U * np.geomspace(1, 10.0**-digits, c)) @ Q.T
    G = orthogonal_factor(ZtF)
    assert_allclose(G.T @ G, np.eye(c), atol=1e-12)
    assert_allclose(G, U @ Q.T, atol=1e-13 * 10.0**digits * 10)
    assert_array_equal(orthogonal_factor(np.zeros((4, 2))).shape, (4, 2))
