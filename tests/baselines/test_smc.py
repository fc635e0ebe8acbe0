"""SMC against the reference numbers, and its steps one by one."""

import itertools
from functools import partial

import numpy as np
import pytest
from real_views import load_reference
from scipy import linalg

from omcal.baselines._graphs import neighbor_graph, normalized_adjacency
from omcal.baselines._linalg import box_least_squares, left_singular_vectors, scaled
from omcal.baselines.smc import SMC, anchor_codes, filtered_views, sample_anchors


@pytest.mark.parametrize(("prefix", "scaling", "atol"), [
    ("", np.asarray, 1e-6),
    ("rowz_", partial(scaled, scale="sample"), 1e-9),
])  # fmt: skip
def test_equals_the_reference(shared, prefix, scaling, atol):
    views, stored = load_reference(shared, "smc")
    X = [scaling(x) for x in views]
    index, alpha = stored["anchor_index"], float(stored["alpha"])
    codes = [anchor_codes(x, x[index], alpha) for x in X]
    for v, code in enumerate(codes):
        np.testing.assert_allclose(code.T, stored[f"{prefix}Z_v{v}"], atol=atol)
    values = np.linalg.svd(np.hstack(codes), compute_uv=False)
    np.testing.assert_allclose(values, stored[prefix + "singular_values"], atol=atol)
    U = left_singular_vectors(np.hstack(codes), int(stored["n_clusters"]))
    np.testing.assert_allclose(U @ U.T, stored[prefix + "projector"], atol=atol)


def by_enumeration(R, target):
    """Least squares in the box, from all ways to put each unknown at a bound or between."""
    best, best_cost = None, np.inf
    for state in itertools.product((0.0, 1.0, None), repeat=R.shape[1]):
        free = np.array([value is None for value in state])
        z = np.array([0.0 if value is None else value for value in state])
        if free.any():
            z[free] = np.linalg.lstsq(R[:, free], target - R @ z, rcond=None)[0]
        cost = np.sum((target - R @ z) ** 2)
        if z.min() >= -1e-12 and z.max() <= 1 + 1e-12 and cost < best_cost:
            best, best_cost = z, cost
    return best


@pytest.mark.slow
def test_box_least_squares_equals_enumeration():
    rng = np.random.RandomState(0)
    R = np.triu(rng.randn(4, 4)) + 0.5 * np.eye(4)
    targets = 2 * rng.randn(40, 4)
    solved = box_least_squares(R, targets)
    for z, target in zip(solved, targets, strict=True):
        np.testing.assert_allclose(z, by_enumeration(R, target), atol=1e-9)


@pytest.mark.sampled
@pytest.mark.parametrize("spread", [1.0, 1e-2, 1e-4])
@pytest.mark.parametrize("m", [1, 10, 40])
@pytest.mark.parametrize("exchanges", [10, 0])  # 0: each row is solved by itself
def test_box_least_squares_satisfies_the_optimality_conditions(m, spread, exchanges, monkeypatch):
    """Anchors that nearly agree: a Hessian of condition up to 1e8."""
    monkeypatch.setattr("omcal.baselines._linalg._MAX_BOX_EXCHANGES", exchanges)
    rng = np.random.RandomState(1)
    H = np.abs(rng.randn(20)) + spread * rng.randn(m, 20)
    R = linalg.qr(np.vstack([H.T, spread * np.eye(m)]), mode="economic")[1]
    targets = rng.randn(60, m) * np.abs(np.diag(R)) * 2
    z = box_least_squares(R, targets)
    assert z.min() >= 0 and z.max() <= 1
    residual = z @ R.T - targets
    slope = residual @ R
    # What remains is rounding: of the residual, and of the terms it is the difference of.
    size = np.linalg.norm(residual, axis=1) + 1e-4 * np.linalg.norm(targets, axis=1)
    scale = size[:, None] * np.linalg.norm(R, axis=0)
    violation = np.where(z <= 0, np.maximum(-slope, 0), np.abs(slope))
    violation = np.where(z >= 1, np.maximum(slope, 0), violation)
    assert (violation <= 1e-11 * scale).all()


def test_codes_reproduce_an_anchor():
    rng = np.random.RandomState(0)
    anchors = rng.randn(5, 12)
    np.testing.assert_allclose(anchor_codes(anchors, anchors, 1e-10), np.eye(5), atol=1e-8)
    assert not anchor_codes(-anchors.sum(axis=0)[None], np.abs(anchors) * 0, 1.0).any()


def test_filter_follows_its_formula():
    rng = np.random.RandomState(0)
    X = [rng.randn(30, 4), rng.randn(30, 7)]
    filtered, importance = filtered_views(X, 5, 0.8, 3)
    graphs = [neighbor_graph(x, 5) for x in X]
    np.testing.assert_allclose(importance, graphs[0].sum(axis=1) + graphs[1].sum(axis=1))
    for x, graph, smooth in zip(X, graphs, filtered, strict=True):
        F = 0.2 * np.eye(30) + 0.8 * normalized_adjacency(graph).toarray()
        np.testing.assert_allclose(smooth, np.linalg.matrix_power(F, 3) @ x, atol=1e-12)
    for x, same in zip(X, filtered_views(X, 5, 0.8, 0)[0], strict=True):
        np.testing.assert_array_equal(x, same)


@pytest.mark.slow
def test_anchors_are_drawn_by_importance():
    rng = np.random.RandomState(0)
    importance = np.array([1.0, 2.0, 3.0])
    first = [sample_anchors(importance, 1, 2.0, rng)[0] for _ in range(3000)]
    np.testing.assert_allclose(np.bincount(first) / 3000, np.array([1, 4, 9]) / 14, atol=0.03)
    even = [sample_anchors(importance, 1, 0.0, rng)[0] for _ in range(3000)]
    np.testing.assert_allclose(np.bincount(even) / 3000, 1 / 3, atol=0.03)


def test_anchors_are_different_and_filled_up():
    rng = np.random.RandomState(0)
    importance = np.array([0.0, 0.0, 5.0, 0.0, 1.0])
    for m in (2, 3, 5):
        chosen = sample_anchors(importance, m, 2.0, rng)
        assert len(set(chosen)) == m and {2, 4} <= set(chosen)
    assert len(set(sample_anchors(np.zeros(5), 3, 2.0, rng))) == 3
    assert sorted(sample_anchors(np.ones(5), 5, 2.0, rng)) == [0, 1, 2, 3, 4]


def test_stacked_embedding_spans_the_leading_directions():
    rng = np.random.RandomState(0)
    codes = [rng.rand(20, 3), rng.rand(20, 4)]
    U = left_singular_vectors(np.hstack(codes), 2)
    expected = np.linalg.svd(np.hstack(codes))[0][:, :2]
    np.testing.assert_allclose(U @ U.T, expected @ expected.T, atol=1e-12)
    assert left_singular_vectors(np.hstack(codes), 10).shape == (20, 7)


def random_views(n=40):
    rng = np.random.RandomState(0)
    return [rng.randn(n, 5), rng.randn(n, 8)]


def test_estimator_runs_the_steps():
    X = random_views()
    model = SMC(3, n_anchors=7, alpha=0.5, random_state=0).fit(X)
    assert len(set(model.anchor_indices_)) == 7 and model.n_iter_ == 1
    filtered, _ = filtered_views([scaled(x, "sample") for x in X], 5, 0.8, 1)
    cost = 0.0
    for x in filtered:
        H = x[model.anchor_indices_]
        z = anchor_codes(x, H, 0.5)
        cost += np.sum((x - z @ H) ** 2) + 0.5 * np.sum(z**2)
    np.testing.assert_allclose(model.objective_, [cost])


def test_alpha_lost_in_rounding_is_refused():
    X = np.repeat(random_views()[0], 2, axis=0)
    SMC(3, alpha=1e-11, random_state=0).fit([X])
    with pytest.raises(ValueError, match="alpha=1e-16 is lost in rounding"):
        SMC(3, alpha=1e-16, random_state=0).fit([X])


def test_default_number_of_anchors():
    assert len(SMC(4, random_state=0).fit(random_views()).anchor_indices_) == 8
    assert len(SMC(4, random_state=0).fit(random_views(6)).anchor_indices_) == 6


def test_more_anchors_than_samples_are_refused():
    with pytest.raises(ValueError, match="n_anchors=41 must be at most the number of samples, 40"):
        SMC(3, n_anchors=41).fit(random_views())
