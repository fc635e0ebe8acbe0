"""The solver alone: rows that are a full matrix in memory, and rows that are no rows at all."""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

import reference
from omcal.method import solver
from omcal.method.rows import AbstractRows, Sums, decide
from omcal.method.solver import Momentum, Problem, VanishedGraphError, solve

RNG = np.random.default_rng(0)
V, N, M, C = 3, 40, 8, 3
S = RNG.dirichlet(np.full(M, 0.3), size=(V, N))
G = np.linalg.qr(RNG.normal(size=(M, C)))[0]


class FullRows(AbstractRows):
    """The rows as full matrices, in a line each."""

    def __init__(self, S, c):
        self.S, self.F = S, np.zeros((S.shape[1], c))

    def gram(self):
        return np.einsum("uni,vnj->uvij", self.S, self.S)

    def step(self, alpha, P, R):
        return np.tensordot(alpha, self.S, axes=1) @ P + self.F @ R

    def sweep(self, alpha, P, R):
        F = np.maximum(self.step(alpha, P, R), 0)
        sums = Sums(self.S.transpose(0, 2, 1) @ F, F.T @ F, self.F.T @ F)
        self.F = F
        return sums

    def assign(self, alpha, P, R, G, *, runner_up=False):
        A = np.tensordot(alpha, self.S, axes=1)
        return decide(
            self.step(alpha, P, R), (A @ G).__getitem__, np.abs(P).max(), runner_up=runner_up
        )


def problem(**changes):
    given = {"beta": 0.1, "gamma": 0.3, "weighting": "adaptive", "alpha": np.full(V, 1 / V)}
    return Problem(**{**given, "max_iter": 12, "tol": 0.0, **changes})


def test_a_rise_is_one_of_the_last_iteration():
    assert problem().rose([1.0, 2.0]) and problem().rose([3.0, 1.0, 2.0])
    for history in ([], [1.0], [2.0, 1.0], [1.0, 2.0, 2.0]):
        assert not problem().rose(history)


@pytest.mark.parametrize("weighting", ["adaptive", "agreement", "fixed"])
@pytest.mark.parametrize(("beta", "gamma"), [(0.1, 0.3), (0.3, 1e-4), (0.0, 2.0)])
def test_the_loop_is_the_papers(weighting, beta, gamma):
    rows = FullRows(S, C)
    asked = problem(weighting=weighting, beta=beta, gamma=gamma)
    found = solve(rows, rows.gram(), G, asked)
    expected = reference.algorithm1(S, G, beta, gamma, found.n_iter, weighting, asked.alpha)
    assert_allclose(found.history, expected.history, rtol=1e-10)
    assert_allclose(found.alpha, expected.alpha, atol=1e-9)
    assert_allclose(found.consensus.G, expected.G, atol=1e-8)
    labels = rows.assign(found.consensus.alpha, *found.consensus.f_step(), found.consensus.G).labels
    assert_array_equal(labels, expected.unclipped.argmax(axis=1))


def test_views_without_a_weight_are_not_heard():
    alpha = np.array([0.5, 0.0, 0.5])
    for weighting in ("adaptive", "agreement", "distinct", "fixed"):
        rows = FullRows(S, C)
        found = solve(rows, rows.gram(), G, problem(weighting=weighting, alpha=alpha))
        assert found.alpha[1] == 0
        assert_allclose(found.alpha.sum(), 1)


def test_each_rule_gives_its_own_weights():
    found = {}
    for weighting in ("adaptive", "agreement", "distinct", "fixed"):
        # Two of the views are alike, which only one rule minds.
        rows = FullRows(S[[0, 1, 1]], C)
        found[weighting] = solve(rows, rows.gram(), G, problem(weighting=weighting)).alpha
    assert_allclose(found["fixed"], 1 / V)
    alike = found["agreement"]
    assert_allclose(alike[1], alike[2])
    assert_allclose(found["distinct"][1], found["distinct"][2])
    # The copies share what one of them would have, about.
    ratio = found["distinct"][1] / found["distinct"][0]
    assert ratio < 0.7 * alike[1] / alike[0]


def test_silent_views_lose_their_weight_unless_all_are_silent():
    asked = problem(alpha=np.array([0.2, 0.3, 0.5]))
    assert_allclose(asked.without(np.array([False, True, False])).alpha, [2 / 7, 0, 5 / 7])
    assert asked.without(np.ones(V, dtype=bool)) is asked


def test_weight_for_silent_views_alone_is_refused():
    asked = Problem(0.3, 0.1, "fixed", np.array([0.25, 0.75, 0.0]), max_iter=5, tol=0)
    with pytest.raises(ValueError, match="weighting") as refused:
        asked.without(np.array([True, True, False]))
    assert str(refused.value) == (
        "weighting=[0.25, 0.75, 0.0] gives all weight to views that are the same for all samples "
        "after scaling; give some to the others."
    )


# Stopping


@pytest.mark.parametrize(
    ("tol", "n_iter"), [(1e-300, 4), (0.25, 3), (0.5, 2), (np.nextafter(0.5, 0), 3)]
)
def test_a_change_of_exactly_the_tolerance_ends_the_loop(monkeypatch, tol, n_iter):
    values = iter([2.0, 1.0, 0.75, 0.75])
    monkeypatch.setattr(solver, "objective", lambda *parts: next(values))
    rows = FullRows(S, C)
    found = solve(rows, rows.gram(), G, problem(tol=tol, max_iter=4))
    assert (found.n_iter, found.converged) == (n_iter, True)


def test_without_a_tolerance_all_iterations_are_done(monkeypatch):
    """Also where the objective repeats bit by bit."""
    monkeypatch.setattr(solver, "objective", lambda *parts: 2.0)
    rows = FullRows(S, C)
    found = solve(rows, rows.gram(), G, problem(tol=0.0, max_iter=7))
    assert (found.n_iter, found.converged) == (7, False)


def test_the_loop_ends_at_the_first_change_within_the_tolerance():
    rows = FullRows(S, C)
    history = np.array(solve(rows, rows.gram(), G, problem()).history)
    change = -np.diff(history) / history[:-1]
    for i in (1, 4):
        assert change[:i].min() > change[i]
        rows = FullRows(S, C)
        # Halfway to the change before.
        tol = (change[i] + change[:i].min()) / 2
        found = solve(rows, rows.gram(), G, problem(tol=tol))
        assert found.converged
        assert found.n_iter == i + 2


def test_the_loop_ends_after_its_last_iteration():
    for max_iter in (1, 3):
        rows = FullRows(S, C)
        found = solve(rows, rows.gram(), G, problem(max_iter=max_iter))
        assert (found.n_iter, found.converged) == (max_iter, False)


def test_progress_is_told_and_may_end_the_loop():
    told = []

    def progress(iteration, value):
        told.append((iteration, value))
        return iteration == 3

    rows = FullRows(S, C)
    found = solve(rows, rows.gram(), G, problem(), progress)
    assert not found.converged
    assert told == list(enumerate(found.history, start=1))
    assert found.n_iter == 3


def test_a_graph_that_vanishes_is_an_error_with_a_remedy():
    rows = FullRows(S, C)
    largest = np.linalg.svd(S.mean(axis=0), compute_uv=False)[0]
    with pytest.raises(VanishedGraphError, match=r"beta=1000 .* use beta well below") as caught:
        solve(rows, rows.gram(), G, problem(beta=1000.0, gamma=0.0))
    assert f"largest singular value is {largest:.3g}" in str(caught.value)
    assert f"well below {2 * largest:.3g}." in str(caught.value)
    rows = FullRows(S, C)
    with pytest.raises(VanishedGraphError) as caught:
        solve(rows, rows.gram(), G, problem(beta=1000.0, gamma=3.0))
    F = np.maximum(S.mean(axis=0) @ G, 0)
    U, _, Vt = np.linalg.svd(S.mean(axis=0).T @ F, full_matrices=False)
    largest = np.linalg.norm((S.mean(axis=0) + 3 * F @ (U @ Vt).T) / 4, 2)
    assert str(caught.value) == (
        "beta=1000 removes the whole consensus graph, which leaves no clusters to read off; its "
        f"largest singular value is {largest:.3g}: use beta well below {8 * largest:.3g}."
    )


# Acceleration


class Steps:
    """Iterations with objectives as given, which note when they are to start anew."""

    def __init__(self, values):
        self.values, self.alpha, self.consensus, self.anew = iter(values), None, None, []
        self.taken = 0

    def step(self):
        self.taken += 1
        return next(self.values)

    def restart(self):
        self.anew.append(self.taken)

    def solution(self, history, *, converged):
        return history


def test_momentum_starts_anew_after_a_step_that_did_harm(monkeypatch):
    rows = FullRows(S, C)
    steps = Steps([5.0, 4.0, 4.5, 4.6, 3.0, 3.5])
    monkeypatch.setattr(solver, "Iteration", lambda *given: steps)
    solve(rows, rows.gram(), G, problem(max_iter=6, tol=1e-3))
    assert steps.anew == [3, 4, 6]


def test_momentum_grows_to_its_bound_and_starts_anew():
    steps = [np.linalg.qr(RNG.normal(size=(M, C)))[0] for _ in range(3)]
    ahead = Momentum(G)
    assert_allclose(ahead.basis(steps[0]), steps[0], atol=1e-12)  # the first goes nowhere ahead
    for age, (old, new) in enumerate(pairwise(steps), start=1):
        U, _, Vt = np.linalg.svd(new + age / (age + 3) * (new - old), full_matrices=False)
        assert_allclose(ahead.basis(new), U @ Vt, atol=1e-12)
    ahead.restart()
    assert_allclose(ahead.basis(steps[0]), steps[0], atol=1e-12)


def test_momentum_is_bounded():
    ahead = Momentum(G)
    for _ in range(40):
        ahead.basis(G)
    new = np.linalg.qr(RNG.normal(size=(M, C)))[0]
    U, _, Vt = np.linalg.svd(new + 0.9 * (new - G), full_matrices=False)
    assert_allclose(ahead.basis(new), U @ Vt, atol=1e-12)


def test_acceleration_reaches_the_objective_in_fewer_passes():
    plain, fast = FullRows(S, C), FullRows(S, C)
    found = solve(plain, plain.gram(), G, problem(max_iter=500, tol=1e-9))
    ahead = solve(fast, fast.gram(), G, problem(max_iter=500, tol=1e-9, accelerate=True))
    assert found.converged and ahead.converged
    assert ahead.n_iter < found.n_iter
    assert ahead.history[-1] <= found.history[-1] * (1 + 1e-6)


# Labels


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_labels_of_rows_that_say_little(dtype):
    scale = 4.0
    bound = 16 * np.finfo(np.float32).eps * scale  # whatever the type is
    U = np.array(
        [
            [0.1, 0.5, 0.2],  # the largest
            [-0.3, -0.2, -0.9],  # no positive entry: the least negative
            [bound, -bound, 0.0],  # zero to rounding: what A G says
            [2 * bound, -bound, 0.0],  # just above it
            [0.0, -2 * bound, 0.0],  # not silent, and nothing positive
            [0.1, 0.5 - bound / 2, 0.5],  # equal to rounding: the first
            [0.1, 0.5 - 2 * bound, 0.5],  # not equal
        ],
        dtype=dtype,
    )
    AG = np.tile(np.array([0.0, 0.1, 0.7], dtype=dtype), (len(U), 1))
    found = decide(U, AG.__getitem__, scale)
    assert_array_equal(found.labels, [1, 1, 2, 0, 0, 1, 2])
    assert found.n_undecided == 3
    assert found.labels.dtype == np.int32
    assert found.second is None and found.share is None
    more = decide(U, AG.__getitem__, scale, runner_up=True)
    assert (more.second.dtype, more.share.dtype) == (np.uint16, np.uint8)
    assert_array_equal(more.second[-2:], [2, 1])  # never the label
    assert_array_equal(more.share >= 127, True)  # nor ahead of it, where A G decides either
