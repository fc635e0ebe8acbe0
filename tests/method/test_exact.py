"""The one-pass solver against Algorithm 1 in full matrices."""

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning

import reference
from omcal import OCAL, OMCAL
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import zero_tolerance
from omcal.method.solver import Problem, VanishedGraphError, solve
from omcal.places.memory import MemoryRows

exhaustive = settings(
    max_examples=30,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)

# Rows that a run of all tests has; `test_rows_may_be_grouped_in_any_way` has them always.
long_rows = pytest.mark.long_rows("compiled", "n chunks", "1 chunk")


def log_uniform(low, high):
    return st.floats(np.log10(low), np.log10(high)).map(lambda x: 10.0**x)


@st.composite
def problems(draw):
    """Random anchor graphs with some cluster structure, and parameters over their whole range."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    V = draw(st.integers(1, 5))
    c = draw(st.sampled_from([1, 2, 6]))  # each is compiled by itself, which takes seconds
    m = draw(st.integers(max(c, 3), c + 12))
    k = draw(st.integers(1, m - 1))
    n = draw(st.integers(m, 90))
    centres = rng.normal(size=(V, m, 4)) + 4 * rng.normal(size=(V, c, 4))[:, np.arange(m) % c]
    points = centres[:, rng.integers(m, size=n)] + rng.normal(size=(V, n, 4))
    S = np.stack([reference.anchor_graph(points[v], centres[v], k) for v in range(V)])
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    beta = draw(st.just(0.0) | log_uniform(1e-3, 10))
    gamma = draw(log_uniform(1e-5, 1e5))
    return S, G, k, beta, gamma


def compact(S, k, dtype):
    """The compact form of dense anchor graphs of shape (V, n, m)."""
    indices = np.argsort(-S, axis=2, kind="stable")[:, :, :k]
    weights = np.take_along_axis(S, indices, axis=2)
    return AnchorGraphs(
        np.ascontiguousarray(indices.transpose(1, 0, 2)).astype(np.uint8),
        np.ascontiguousarray(weights.transpose(1, 0, 2)).astype(dtype),
        S.shape[2],
    )


def run(make_rows, S, G, k, beta, gamma, weighting="adaptive", n_iter=8, dtype=np.float64):
    rows = make_rows(compact(S, k, dtype), G.shape[1])
    alpha = np.full(len(S), 1 / len(S))
    problem = Problem(beta, gamma, weighting, alpha, n_iter, tol=0.0)
    solution = solve(rows, rows.gram(), G, problem)
    Z = solution.consensus
    assignment = rows.assign(Z.alpha, *Z.f_step(), Z.G)
    return solution, np.asarray(rows.F), assignment


def clear_rows(U, margin):
    """Rows whose two largest entries differ by more than the margin."""
    if U.shape[1] == 1:
        return np.ones(len(U), dtype=bool)
    top = np.sort(U, axis=1)
    return top[:, -1] - top[:, -2] > margin


@pytest.mark.long_rows("compiled")
@exhaustive
@given(problems(), st.sampled_from(["adaptive", "agreement", "fixed"]))
def test_equals_algorithm_1(make_rows, problem, weighting):
    S, G, k, beta, gamma = problem
    expected = reference.algorithm1(S, G, beta, gamma, 8, weighting)
    assume(expected.conditioning > 1e-5)
    if not expected.Z.any():  # gone in the last iteration; sooner, it has no conditioning left
        with pytest.raises(VanishedGraphError):
            run(make_rows, S, G, k, beta, gamma, weighting)
        return
    # Near a balance that any nudge upsets, rounding decides where the iteration goes. Graphs are
    # nudged, too: what is zero by their structure stays so whatever the basis is, but for rounding.
    for turn in (0.0, 1.0, 2.0):
        nudges = [1e-13 * np.cos(turn + np.arange(x.size)).reshape(x.shape) for x in (S, G)]
        nudged = reference.algorithm1(S + nudges[0], G + nudges[1], beta, gamma, 8, weighting)
        assume(np.abs(nudged.F - expected.F).max() < 1e-10)
    solution, F, assignment = run(make_rows, S, G, k, beta, gamma, weighting)
    if solution.n_iter < 8:  # the loop ends where the objective no longer changes at all
        expected = reference.algorithm1(S, G, beta, gamma, solution.n_iter, weighting)

    # An objective that falls to 0 is a difference of terms of the size of S and γ Z.
    rounding = 1e-14 * (1 + gamma) * np.square(S).sum()
    np.testing.assert_allclose(solution.history, expected.history, rtol=1e-9, atol=rounding)
    np.testing.assert_allclose(F, expected.F, atol=1e-8)
    # Of graphs that are linearly dependent only the mixture is unique, not the weights.
    mixtures = [np.tensordot(alpha, S, axes=1) for alpha in (solution.alpha, expected.alpha)]
    np.testing.assert_allclose(*mixtures, atol=1e-8)
    if np.linalg.cond(S.reshape(len(S), -1)) < 1e4:
        np.testing.assert_allclose(solution.alpha, expected.alpha, atol=1e-8)
    # Of a row that is zero to rounding in float32 A G decides, of equal entries the first.
    limit = 2 * zero_tolerance(np.abs(solution.consensus.f_step()[0]).max())
    clear = clear_rows(expected.unclipped, limit)
    clear &= np.abs(expected.unclipped).max(axis=1) > limit
    labels = expected.unclipped.argmax(axis=1)
    np.testing.assert_array_equal(assignment.labels[clear], labels[clear])


@pytest.mark.slow
@long_rows
@exhaustive
@given(problems())
def test_float32_storage_gives_the_same_labels(make_rows, problem):
    S, G, k, beta, gamma = problem
    S = S.astype(np.float32).astype(np.float64)
    expected = reference.algorithm1(S, G, beta, gamma, 5)
    assume(expected.conditioning > 1e-2)
    try:
        _, _, assignment = run(make_rows, S, G, k, beta, gamma, n_iter=5, dtype=np.float32)
    except VanishedGraphError:
        assume(False)
    clear = clear_rows(expected.unclipped, 1e-3 * np.abs(expected.unclipped).max())
    labels = expected.unclipped.argmax(axis=1)
    np.testing.assert_array_equal(assignment.labels[clear], labels[clear])


@long_rows
@exhaustive
@given(problems())
def test_objective_never_rises(make_rows, problem):
    S, G, k, beta, gamma = problem
    try:
        solution, _, _ = run(make_rows, S, G, k, beta, gamma, n_iter=15)
    except VanishedGraphError:
        assume(False)
    history = np.array(solution.history)
    rounding = 1e-14 * (1 + gamma) * np.square(S).sum()
    assert (np.diff(history) <= 1e-9 * np.abs(history[:-1]) + rounding).all()


@long_rows
@given(problems())
@settings(max_examples=20, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_graph_that_vanishes_is_reported_exactly_then(make_rows, problem):
    S, G, k, _, gamma = problem
    gamma = min(gamma, 1.0)
    A = S.mean(axis=0)
    F = np.maximum(A @ G, 0)
    U, _, Vt = np.linalg.svd(A.T @ F, full_matrices=False)
    largest = np.linalg.norm((A + gamma * F @ (U @ Vt).T) / (1 + gamma), 2)
    limit = 2 * (1 + gamma) * largest
    with pytest.raises(VanishedGraphError, match="beta="):
        run(make_rows, S, G, k, 1.001 * limit, gamma, n_iter=1)
    run(make_rows, S, G, k, 0.999 * limit, gamma, n_iter=1)


@pytest.mark.parametrize("container", [np.asarray, np.asfortranarray, sparse.csr_array])
@pytest.mark.parametrize("n_views", [1, 3])
def test_estimator_from_given_anchors_and_init(container, n_views):
    rng = np.random.default_rng(n_views)
    n, m, c, k = 120, 9, 3, 4
    anchors = [rng.normal(size=(m, d)) * 2 for d in range(5, 5 + n_views)]
    member = rng.integers(m, size=n)
    X = [a[member] + rng.normal(size=(n, a.shape[1])) for a in anchors]
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    model = OMCAL.paper(
        c, n_anchors=m, n_neighbors=k, anchors=anchors, init=G, scale=None, max_iter=12, tol=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit([container(x) for x in X])
    S = [reference.anchor_graph(x, a, k) for x, a in zip(X, anchors, strict=True)]
    expected = reference.algorithm1(S, G, model.beta, model.gamma, 12)
    assert expected.conditioning > 1e-5
    np.testing.assert_allclose(model.objective_, expected.history, rtol=1e-9)
    np.testing.assert_allclose(model.view_weights_, expected.alpha, atol=1e-8)
    order, labels = reference.by_size(expected.unclipped.argmax(axis=1), c)
    np.testing.assert_allclose(model.basis_, expected.G[:, order], atol=1e-7)
    np.testing.assert_array_equal(model.labels_, labels)


def test_ocal_is_omcal_with_one_view():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4)) + 6 * rng.integers(3, size=(150, 1))
    one = OCAL(3, random_state=0).fit(X)
    many = OMCAL(3, random_state=0).fit([X])
    np.testing.assert_array_equal(one.labels_, many.labels_)
    np.testing.assert_array_equal(one.objective_, many.objective_)


def test_rows_may_be_grouped_in_any_way(make_rows):
    S, G, k = next(_fixed_problem())
    whole = make_rows(compact(S, k, np.float64), G.shape[1])
    alpha = np.full(len(S), 1 / len(S))
    P, R = G, np.zeros((G.shape[1],) * 2)
    parts = (S[:, :31], S[:, 31:])
    halves = [make_rows(compact(part, k, np.float64), G.shape[1]) for part in parts]
    together = halves[0].gram() + halves[1].gram()
    np.testing.assert_allclose(whole.gram(), together, rtol=1e-12, atol=1e-14)
    for _ in range(2):
        total = whole.sweep(alpha, P, R)
        added = halves[0].sweep(alpha, P, R) + halves[1].sweep(alpha, P, R)
        for name in ("StF", "FtF", "FoldtF"):
            np.testing.assert_allclose(getattr(total, name), getattr(added, name), rtol=1e-12)
        R = 0.1 * np.eye(G.shape[1])


def _fixed_problem():
    rng = np.random.default_rng(5)
    centres, points = rng.normal(size=(2, 10, 3)), rng.normal(size=(2, 80, 3))
    S = np.stack([reference.anchor_graph(points[v], centres[v], 4) for v in range(2)])
    yield S, np.linalg.qr(rng.normal(size=(10, 4)))[0], 4


@pytest.mark.long
@pytest.mark.slow
@pytest.mark.parametrize(
    ("c", "k"),
    [
        (1, 5),
        (10, 1),
        pytest.param(23, 1, marks=pytest.mark.long),
        pytest.param(50, 5, marks=pytest.mark.long),
    ],
)
def test_sums_of_many_rows_in_float32_are_as_exact_as_the_rows(c, k):
    pytest.importorskip("numba")
    rng = np.random.default_rng(c)
    n, V, m = 20_011, 2, 30
    indices = np.argsort(rng.random((n, V, m)), axis=2)[:, :, :k].astype(np.uint8)
    graphs = AnchorGraphs(indices, rng.dirichlet(np.ones(k), (n, V)).astype(np.float32), m)
    rows = MemoryRows(graphs, c, compiled=True)
    rows.F[:] = old = rng.random((n, c), dtype=np.float32)
    old = old.astype(np.float64)
    alpha, P, R = np.array([0.3, 0.7]), rng.normal(size=(m, c)), 0.1 * rng.random((c, c))
    sums = rows.sweep(alpha, P, R)
    S = graphs.side_by_side().astype(np.float64)
    new = np.maximum(S @ np.concatenate([weight * P for weight in alpha]) + old @ R, 0)
    np.testing.assert_allclose(rows.F, new, atol=1e-6 * new.max())
    expected = {"StF": (S.T @ new).reshape(V, m, c), "FtF": new.T @ new, "FoldtF": old.T @ new}
    for name, value in expected.items():
        found = getattr(sums, name)
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, value, rtol=1e-6, atol=1e-7 * value.max())
