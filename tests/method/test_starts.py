"""Bases to start from."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omcal import OCAL, OMCAL
from omcal.datasets import make_multiview
from omcal.method.starts import check_init, spectral_bases, starts


@settings(max_examples=60, deadline=None)
@given(m=st.integers(1, 12), data=st.data(), seed=st.integers(0, 2**31))
def test_a_spectral_basis_is_orthonormal_whatever_the_rank(m, data, seed):
    c, rank = data.draw(st.integers(1, m)), data.draw(st.integers(0, m))
    A = np.random.default_rng(seed).random((rank, m))
    G = spectral_bases((A.T @ A)[None], c)[0]
    np.testing.assert_allclose(G.T @ G, np.eye(c), atol=1e-12)


@settings(max_examples=60, deadline=None)
@given(m=st.integers(2, 12), data=st.data(), seed=st.integers(0, 2**31))
def test_it_spans_the_leading_eigenvectors(m, data, seed):
    c = data.draw(st.integers(1, m))
    rng = np.random.default_rng(seed)
    Q = np.linalg.qr(rng.normal(size=(m, m)))[0]
    AtA = (Q * np.arange(m, 0, -1)) @ Q.T
    G = spectral_bases(AtA[None], c)[0]
    np.testing.assert_allclose(Q[:, :c] @ (Q[:, :c].T @ G), G, atol=1e-9)


def test_separate_blocks_of_anchors_are_told_apart():
    block = np.repeat([0, 1, 2], [4, 2, 5])
    AtA = np.equal.outer(block, block) * 1.0 + np.eye(len(block))
    G = spectral_bases(AtA[None], 3)[0]
    found = np.abs(G).argmax(axis=1)
    assert len(set(zip(block, found, strict=True))) == 3
    np.testing.assert_allclose(G[G > 1e-9], 1 / np.sqrt(np.bincount(block)[block]), atol=1e-12)


def test_the_starts_after_a_spectral_one_are_random():
    AtA = np.diag(np.arange(6.0))
    several = starts("spectral", 3, AtA[None], 2, [np.random.RandomState(0)])[0]
    random = starts("random", 2, AtA[None], 2, [np.random.RandomState(0)])[0]
    np.testing.assert_array_equal(several[0], spectral_bases(AtA[None], 2)[0])
    np.testing.assert_array_equal(several[1:], random)
    given_one = starts(random[0], 5, AtA[None], 2, [np.random.RandomState(0)])[0]
    assert len(given_one) == 1


def test_a_given_basis_is_a_copy_in_float64():
    G = np.eye(4, 2, dtype=np.float32)
    ((start,),) = starts(G, 5, np.eye(4)[None], 2, [np.random.RandomState(0)])
    assert start.dtype == np.float64
    assert not np.shares_memory(start, G)
    np.testing.assert_array_equal(start, G)


def test_a_given_basis_has_one_shape_and_is_orthonormal_but_for_rounding():
    G = np.eye(5, 2)
    for basis in ("random", G, G.tolist(), G.astype(object)):
        check_init(basis, 5, 2)
    with pytest.raises(
        ValueError, match=r"^init has shape \(5, 2\) but .* = \(6, 2\) is needed\.$"
    ):
        check_init(G, 6, 2)
    for lean, fits in ((9e-7, True), (2e-6, False)):  # the inner product of the two columns
        leaning = G.copy()
        leaning[0, 1] = lean
        if fits:
            check_init(leaning, 5, 2)
            continue
        with pytest.raises(
            ValueError,
            match=r"^init is not orthonormal: its columns must have length 1 and be perpendicular; "
            r"pass numpy\.linalg\.qr\(init\)\[0\]\.$",
        ):
            check_init(leaning, 5, 2)


@pytest.mark.parametrize("method", [OMCAL, OCAL])
def test_with_given_anchors_the_default_start_has_no_chance_in_it(method):
    X = make_multiview(300, n_clusters=4, n_views=1, random_state=0).views
    first = method(4, random_state=0).fit(X)
    again = method(4, anchors=first.anchors_, random_state=7).fit(X)
    np.testing.assert_array_equal(again.objective_, first.objective_)
    assert method(4, init="random", random_state=0).fit(X).objective_[0] != first.objective_[0]


def test_a_spectral_start_ends_no_higher_than_random_ones():
    X = make_multiview(400, n_clusters=8, n_views=3, noise=1.0, random_state=1).views
    how = {"weighting": "uniform", "max_iter": 500, "random_state": 0}
    spectral = OMCAL(8, **how).fit(X)
    random = OMCAL(8, init="random", n_init=5, **how).fit(X)
    assert spectral.objective_[-1] <= random.objective_[-1] * (1 + 1e-4)
    assert spectral.n_iter_ < random.n_iter_


def test_eigenvectors_that_a_place_gives_are_taken():
    rng = np.random.default_rng(0)
    AtA = np.array([A.T @ A for A in rng.normal(size=(3, 20, 8))])
    asked = []

    def leading(given, number):
        asked.append((given, number))
        return np.linalg.eigh(given[::-1])[1][:, :, -number:]  # of the matrices in another order

    found = spectral_bases(AtA, 3, leading)
    ((given, number),) = asked
    assert given is AtA and number == 3
    for basis, expected in zip(found, spectral_bases(AtA[::-1], 3), strict=True):
        np.testing.assert_allclose(basis, expected)
