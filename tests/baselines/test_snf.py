"""SNF against its formulas, written as loops."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.preprocessing import scale

from omcal.baselines import SNF
from omcal.metrics import ari


def reference(views, k, mu, n_iter, kernel):
    """The fused network, entry by entry."""
    n = len(views[0])
    full, local = [], []
    for X in views:
        X = scale(X) * np.sqrt((n - 1) / n)  # ddof 1
        d = [[float(np.linalg.norm(X[i] - X[j])) for j in range(n)] for i in range(n)]
        near = [
            sorted((j for j in range(n) if j != i), key=lambda j: d[i][j])[:k] for i in range(n)
        ]  # noqa: B023
        mean = [sum(d[i][j] for j in near[i]) / k for i in range(n)]
        W = np.zeros((n, n))
        for i in range(n):
            for j in range(n):
                width = mu * (mean[i] + mean[j] + d[i][j]) / 3
                W[i, j] = np.exp(
                    -(d[i][j] ** 2) / (2 * width**2 if kernel == "gaussian" else width)
                )
        S = np.zeros((n, n))
        for i in range(n):
            members = [i, *near[i]]
            for j in members:
                S[i, j] = W[i, j] / sum(W[i, m] for m in members)
        full.append(share(W))
        local.append(S)
    for _ in range(n_iter):
        others = [
            sum(P for u, P in enumerate(full) if u != v) / (len(full) - 1) for v in range(len(full))
        ]
        full = [share(S @ P @ S.T) for S, P in zip(local, others, strict=True)]
    fused = sum(full) / len(full)
    return (fused + fused.T) / 2


def share(W):
    P = np.full(W.shape, 0.5)
    for i in range(len(W)):
        for j in range(len(W)):
            if i != j:
                P[i, j] = W[i, j] / (2 * sum(W[i, m] for m in range(len(W)) if m != i))
    return P


@pytest.mark.parametrize("kernel", ["gaussian", "paper"])
@settings(max_examples=10, deadline=None)
@given(st.integers(0, 999), st.integers(6, 14), st.integers(2, 3), st.integers(1, 5))
def test_network_follows_the_formulas(kernel, seed, n, n_views, k):
    rng = np.random.default_rng(seed)
    views = [rng.normal(size=(n, 3)) for _ in range(n_views)]
    mu = rng.uniform(0.3, 0.8)
    model = SNF(2, n_neighbors=k, mu=mu, n_iter=3, kernel=kernel, random_state=0).fit(views)
    np.testing.assert_allclose(model.network_, reference(views, k, mu, 3, kernel), rtol=1e-8)


def test_rows_keep_half_of_their_weight():
    rng = np.random.default_rng(0)
    model = SNF(2, random_state=0).fit([rng.normal(size=(30, 4)), rng.normal(size=(30, 2))])
    np.testing.assert_allclose(np.diag(model.network_), 0.5)
    assert (model.network_ >= 0).all()


def test_equal_samples_and_far_ones():
    X = np.zeros((12, 2))
    X[6:] = 1e6
    labels = SNF(2, n_neighbors=3, random_state=0).fit_predict([X, X])
    assert ari(np.repeat([0, 1], 6), labels) == 1


def test_two_noisy_views_are_better_than_one():
    rng = np.random.default_rng(0)
    y = np.repeat([0, 1, 2], 30)
    views = [rng.normal(size=(90, 4)) + 2.4 * np.eye(3, 4)[y] for _ in range(2)]
    single = [ari(y, SNF(3, random_state=0).fit_predict([view])) for view in views]
    assert ari(y, SNF(3, random_state=0).fit_predict(views)) > max(*single, 0.95)


def test_absent_samples_are_refused():
    X = np.random.default_rng(0).normal(size=(9, 2))
    with pytest.raises(ValueError, match="SNF needs all samples in every view; leave present="):
        SNF(2).fit([X, X], present=[None, np.arange(9) > 0])


def test_scaled_views_can_be_left_as_they_are():
    rng = np.random.default_rng(1)
    X = [rng.normal(size=(24, 5)) * [1, 2, 5, 9, 20], rng.normal(size=(24, 3))]
    standard = [(x - x.mean(axis=0)) / x.std(axis=0, ddof=1) for x in X]
    default, kept, raw = (
        SNF(3, n_neighbors=6, scale=scale, random_state=0).fit(views).network_
        for views, scale in ((X, "feature"), (standard, None), (X, None))
    )
    np.testing.assert_allclose(default, kept, rtol=1e-9)
    assert np.abs(default - raw).max() > 1e-3
    with pytest.raises(ValueError, match="'scale' parameter of SNF"):
        SNF(3, scale="tfidf").fit(X)
