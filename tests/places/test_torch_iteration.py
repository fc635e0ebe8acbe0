"""The small steps of an iteration on a device against those of the host."""

import gc
import weakref
from contextlib import nullcontext
from dataclasses import replace
from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.testing import assert_allclose, assert_array_equal

from cuda_on_cpu import kernels_on_cpu
from omcal.method.simplex import minimize_on_simplex
from omcal.method.solver import Problem, solve
from omcal.places.base import Start
from omcal.places.gpu import batched_steps, iteration, kernel_steps
from omcal.places.gpu.batched_roots import LEAST, ProductRoot
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.rows import TorchRows
from omcal.places.gpu.weights import simplex_faces
from plain_rows import PlainRows, random_graphs
from torch_cases import DEVICES, torch

pytestmark = pytest.mark.torch


@pytest.fixture(autouse=True)
def _no_ended_fits(monkeypatch):
    """No state of an earlier fit, which another test has changed."""
    monkeypatch.setattr(iteration, "_IDLE", {})


def positive(rng, m, least):
    """A symmetric matrix whose eigenvalues are between `least` and 1, times a number."""
    Q = np.linalg.qr(rng.normal(size=(m, m)))[0]
    values = np.geomspace(least, 1, m) if m > 1 else np.ones(1)
    return (Q * values) @ Q.T * rng.uniform(1e-3, 1e5), values


def product_root(A, device, limit):
    """Projector and inverse root beside those of another matrix."""
    m, size = len(A), np.nanmax(np.abs(A).sum(axis=0))
    other, root_of_other = (0.7, 0.7**-0.5) if limit < 0.5 * size else (0.2, 0.0)  # kept, or cut
    right = torch.ones((2, 3), dtype=torch.float64, device=device)[:, 0]
    root = ProductRoot(right, m, cuts=True, least=LEAST)
    both = np.stack([other * np.eye(m), A / size])
    begun = np.stack([both - limit / size * np.eye(m), both - np.eye(m)])
    root.begun.copy_(torch.from_numpy(begun))
    root()
    assert right[0]
    assert_allclose(root.inverse[0].cpu().numpy(), root_of_other * np.eye(m), atol=1e-9)
    found = (root.projector[1].cpu().numpy(), root.inverse[1].cpu().numpy() / np.sqrt(size))
    return *found, bool(right[1])


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=30 if "cuda" in DEVICES else 5, deadline=None)
@given(st.integers(1, 130), st.floats(1e-6, 1.0), st.floats(0.0, 0.9), st.integers(0, 2**32))
def test_root(device, m, least, cut, seed):
    """With eigenvalues up to zero among those that are cut."""
    A, _ = positive(np.random.default_rng(seed), m, least)
    values, Q = np.linalg.eigh(A)
    n_cut = int(cut * m)
    values[: n_cut // 2] = 0.0
    A = (Q * values) @ Q.T
    below = values[n_cut - 1] if n_cut else 0.0
    projector, inverse, right = product_root(A, device, 0.5 * (below + values[n_cut]))
    kept = Q[:, n_cut:]
    wanted = (kept / np.sqrt(values[n_cut:])) @ kept.T
    assert right or values[n_cut] - below < 1e-7 * values[-1]
    if right:
        assert_allclose(projector, kept @ kept.T, rtol=0, atol=1e-8)
        assert_allclose(inverse, wanted, rtol=0, atol=1e-8 * np.abs(wanted).max())


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=30 if "cuda" in DEVICES else 5, deadline=None)
@given(st.integers(1, 130), st.floats(1e-6, 1.0), st.integers(0, 2**32))
def test_a_root_that_cuts_nothing(device, m, least, seed):
    A, _ = positive(np.random.default_rng(seed), m, least)
    size = np.abs(A).sum(axis=0).max()
    right = torch.ones((1, 1), dtype=torch.float64, device=device)[:, 0]
    root = ProductRoot(right, m, cuts=False, least=LEAST)
    root.begun[1, 0].copy_(torch.from_numpy(A / size - np.eye(m)))
    root()
    inverse, squared = root.inverse[0].cpu().numpy(), root.squared[0].cpu().numpy()
    assert right[0] and root.projector is None
    assert_allclose(inverse @ (A / size) @ inverse, np.eye(m), atol=1e-6)
    assert_allclose(squared @ A, size * np.eye(m), atol=1e-6 / least * size)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("least", [1.5, 1.5 + 1e-9, np.nan])
@pytest.mark.process
def test_a_root_knows_where_it_is_wrong(device, least):
    """Where it cannot tell on which side of the limit an eigenvalue is."""
    A = np.diag(np.append(np.linspace(1, 1.4, 59), 10))
    A[1, 1] = least
    assert not product_root(A, device, 1.5)[2]


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 6), st.integers(1, 8), st.booleans(), st.integers(0, 2**32))
def test_the_minimum_is_on_one_of_the_faces(V, n, twin, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, V))
    if twin and V > 1:
        X[:, 1] = X[:, 0]  # several solutions
    M, m = X.T @ X, 2 * X.T @ rng.normal(size=n)
    value = lambda a: a @ M @ a - m @ a  # noqa: E731
    points = simplex_faces(M) @ np.append(m, 1)
    found = min((a for a in points if (a >= 0).all()), key=value)
    wanted = minimize_on_simplex(M, m)
    assert_allclose(found.sum(), 1)
    assert (found >= 0).all()
    assert_allclose(value(found), value(wanted), atol=1e-9 * max(1.0, np.abs(M).max()))


def problems(draw_weighting, V, **given):
    alpha = np.full(V, 1 / V)
    return Problem(weighting=draw_weighting, alpha=alpha, max_iter=7, tol=0.0, **given)


def there(rows, StS, G, problem):
    """Solution with the small steps beside the rows, and the run that led to it."""
    runs = []

    class Run(iteration._Run):
        def __init__(self, start):
            super().__init__(start)
            runs.append(self)

    with (
        mock.patch.object(iteration, "_Run", Run),
        mock.patch.object(iteration, "serves", return_value=True),
        kernels_on_cpu() if rows.device.type == "cpu" else nullcontext(),
    ):
        start = Start(rows, StS, G, problem, lambda number, value: False)
        (solution,) = iteration.solve_in_lockstep([start])
    return solution, *runs


def both(device, graphs, c, problem, seed, kernels=True):
    """Solution and rows of the host and of the device, and the run of the latter."""
    G = np.linalg.qr(np.random.default_rng(seed).normal(size=(graphs.n_anchors, c)))[0]
    rows = [TorchRows.from_graphs(graphs, c, device, fused=False) for _ in range(2)]
    rows[1].together.work.in_cuda = kernels
    host = solve(rows[0], rows[0].gram(), G, problem)
    found, run = there(rows[1], rows[1].gram(), G, problem)
    return (host, rows[0]), (found, rows[1], run)


# Each is a kernel to compile: rule, numbers of views, clusters and anchors, momentum.
FEW_SHAPES = [
    ("adaptive", (1, 2, 8), False),
    ("adaptive", (4, 3, 40), True),
    ("agreement", (2, 6, 21), True),
    ("distinct", (3, 4, 60), True),
    ("fixed", (2, 2, 17), False),
]


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@settings(max_examples=25 if "cuda" in DEVICES else 8, deadline=None)
@given(
    st.sampled_from(["adaptive", "agreement", "distinct", "fixed"]),
    st.tuples(st.integers(1, 4), st.integers(2, 6), st.integers(8, 60)),
    st.sampled_from([0.0, 0.05, 0.3, 2.0]),
    st.sampled_from([0.01, 0.1, 1.0]),
    st.booleans(),
    st.integers(0, 2**32),
)
@pytest.mark.parametrize("kernels", [True, False])
def test_iterations_are_those_of_the_host(
    device, kernels, weighting, size, beta, gamma, fast, seed
):
    if kernels and device == "cpu":
        weighting, size, fast = FEW_SHAPES[seed % len(FEW_SHAPES)]
    V, c, m = size
    graphs = random_graphs(np.random.default_rng(seed), 700, V, m, 3, np.float64)
    problem = problems(weighting, V, beta=beta, gamma=gamma, accelerate=fast)
    (one, rows), (two, others, _) = both(device, graphs, c, problem, seed, kernels)
    assert_allclose(two.history, one.history, rtol=1e-10)
    assert_allclose(two.alpha, one.alpha, atol=1e-7)
    for name in ("alpha", "G", "T"):
        assert_allclose(getattr(two.consensus, name), getattr(one.consensus, name), atol=1e-6)
    assert_allclose(others.F.cpu().numpy(), rows.F.cpu().numpy(), atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("few", "kernels"), [(True, True), (False, True), (False, False)])
def test_the_device_does_them_where_values_are_cut_too(device, few, kernels, monkeypatch):
    """By a projector, from the first step on: the products of the graphs foretell it."""
    monkeypatch.setattr(kernel_steps, "_MOST_ANCHORS", 20 if few else 19)
    graphs = random_graphs(np.random.default_rng(0), 2000, 3, 20, 3, np.float64)
    for beta in (0.3, 8.0):
        (host, _), (found, _, run) = both(
            *(device, graphs, 4),
            *(problems("distinct", 3, beta=beta, gamma=0.1, accelerate=True), 0, kernels),
        )
        assert run.state is not None and run._stay == 0
        assert run.state._cuts == (beta == 8.0)
        assert (np.linalg.matrix_rank(host.consensus.T) < 20) == (beta == 8.0)
        assert_allclose(found.history, host.history, rtol=1e-10)
        assert_allclose(found.consensus.T, host.consensus.T, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kernels", [True, False])
def test_values_that_are_cut_against_expectation_are_noticed(device, kernels, monkeypatch):
    monkeypatch.setattr(kernel_steps, "_MOST_ANCHORS", 19)
    monkeypatch.setattr(iteration, "_outlook", lambda StS, problem, margin: (False, 1e-8))
    graphs = random_graphs(np.random.default_rng(0), 2000, 3, 20, 3, np.float64)
    problem = problems("distinct", 3, beta=8.0, gamma=0.1, accelerate=True)
    (host, _), (found, _, run) = both(device, graphs, 4, problem, 0, kernels)
    assert run._stay == 1  # the first iteration is done on the host, and those after it there
    assert run.state is not None and run.state._cuts
    assert_allclose(found.history, host.history, rtol=1e-10)
    assert_allclose(found.consensus.T, host.consensus.T, atol=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(("kernels", "beta"), [(True, 0.3), (False, 0.0), (False, 0.3)])
def test_what_is_never_right_there_is_not_tried_for_ever(device, monkeypatch, kernels, beta):
    """The device rejects each of its steps, and so stops before the pass that is launched ahead."""
    monkeypatch.setattr(kernel_steps, "_MOST_ANCHORS", 8)
    graphs = random_graphs(np.random.default_rng(0), 500, 2, 12, 3, np.float64)
    heard = []

    def reject(*given, **more):
        *found, right = soft_threshold(*given, **more)
        return *found, torch.zeros_like(right)

    def listen(state, number, launch):
        heard.append(answer(state, number, launch))
        return heard[-1]

    soft_threshold, answer = batched_steps.soft_threshold, iteration._State.answer
    monkeypatch.setattr(batched_steps, "soft_threshold", reject)
    monkeypatch.setattr(ProductRoot, "__call__", lambda root: root._right.zero_())
    monkeypatch.setattr(iteration._State, "answer", listen)
    problem = problems("distinct", 2, beta=beta, gamma=0.1)
    (host, _), (found, _, run) = both(device, graphs, 3, problem, 0, kernels)
    assert_allclose(found.history, host.history, rtol=1e-12 if device == "cpu" else 1e-10)
    assert run.state is None
    assert 0 < len(heard) <= 5
    assert not any(right or goes_on for _, right, goes_on in heard)


@pytest.mark.slow
@pytest.mark.parametrize("device", DEVICES)
def test_the_first_iteration_does_not_look_at_the_last_f(device):
    graphs = random_graphs(np.random.default_rng(0), 300, 2, 9, 3, np.float64)
    rows = TorchRows.from_graphs(graphs, 3, device, fused=False)
    rows.together.work.in_cuda = True
    G, problem = np.eye(9, 3), replace(problems("fixed", 2, beta=0.1, gamma=0.1), max_iter=1)
    StS = rows.gram()
    one = solve(rows, StS, G, problem)
    two, _ = there(rows, StS, G, problem)
    assert_allclose(two.history, one.history, rtol=1e-12)
    assert_allclose(two.consensus.T, one.consensus.T, atol=1e-12)


@pytest.mark.slow
def test_views_that_are_not_heard_stay_without_a_weight():
    graphs = random_graphs(np.random.default_rng(0), 500, 3, 12, 3, np.float64)
    for weighting in ("adaptive", "agreement", "distinct", "fixed"):
        problem = Problem(0.1, 0.1, weighting, np.array([0.5, 0.0, 0.5]), 7, 0.0)
        (one, _), (two, *_) = both("cpu", graphs, 3, problem, 0)
        assert two.alpha[1] == 0
        assert_allclose(two.alpha, one.alpha, atol=1e-9)
        assert_array_equal(two.consensus.alpha > 0, [True, False, True])


@pytest.fixture(params=["kernels", "products"])
def in_runs(request, monkeypatch):
    """A function that makes rows of runs on the CPU, with kernels or with PyTorch's operations."""
    made = []

    def make(graphs, n_clusters):
        made.extend(TorchRows.of_runs(graphs, n_clusters, fused=request.param == "kernels"))
        return list(made)

    monkeypatch.setattr(iteration, "serves", lambda rows, problem: any(rows is x for x in made))
    with kernels_on_cpu():
        yield make
    made.clear()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("tol", "stop", "runs", "few", "weighting", "fast"),
    [
        (0.002, None, 1, True, "adaptive", False),
        (0.0, 4, 1, True, "adaptive", False),
        (0.002, None, 3, True, "distinct", True),
        (0.0, 4, 3, True, "distinct", True),
        (0.002, None, 3, False, "adaptive", True),
        pytest.param(0.0, None, 1, True, "adaptive", False, marks=pytest.mark.long),
        pytest.param(0.0, None, 3, True, "distinct", True, marks=pytest.mark.long),
        pytest.param(0.0, 4, 3, False, "adaptive", True, marks=pytest.mark.long),
        pytest.param(0.0, None, 3, False, "adaptive", True, marks=pytest.mark.long),
    ],
)
def test_runs_go_ahead_together_and_end_where_those_of_the_host_do(
    in_runs, monkeypatch, tol, stop, runs, few, weighting, fast
):
    """Each at its own iteration; with many anchors they come to the device one after another."""
    monkeypatch.setattr(kernel_steps, "_MOST_ANCHORS", 9 if few else 8)
    rng = np.random.default_rng(3)
    host = [random_graphs(rng, 250 + 50 * runs, 2, 9, 3, np.float64) for _ in range(runs)]
    Gs = [np.linalg.qr(rng.normal(size=(9, 3)))[0] for _ in range(runs)]
    alphas = [np.full(2, 0.5), np.array([0.0, 1.0]), np.full(2, 0.5)]  # one hears one view only
    asked = [Problem(0.1, 0.1, weighting, alpha, 12, tol, fast) for alpha in alphas[:runs]]
    on_cpu = [TorchGraphs.from_host(graphs, torch.device("cpu")) for graphs in host]
    both = (torch.stack([getattr(g, name) for g in on_cpu]) for name in ("indices", "weights"))
    rows = in_runs(TorchGraphs(*both, 9), 3)
    progress = [lambda number, value: number == stop, *[lambda number, value: False] * runs]
    given = list(
        zip(rows, [PlainRows(g, 3).gram() for g in host], Gs, asked, progress, strict=False)
    )
    found = iteration.solve_in_lockstep([Start(*of_run) for of_run in given])
    for b, (_, StS, G, problem, _) in enumerate(given):
        plain = TorchRows.from_graphs(host[b], 3)
        last = None
        if stop is not None and b == 0:  # from outside: iterations in progress are the last
            last = len(found[b].history)
            assert last == stop + 1 or (last > stop and not few)
        wanted = solve(plain, StS, G, problem, lambda number, value, last=last: number == last)
        assert found[b].converged == wanted.converged == (tol > 0)
        assert_allclose(found[b].history, wanted.history, rtol=1e-11)
        assert_allclose(found[b].alpha, wanted.alpha, atol=1e-9)
        assert_allclose(found[b].consensus.T, wanted.consensus.T, atol=1e-9)
        assert_allclose(rows[b].F.numpy(), plain.F.numpy(), atol=1e-9)
    assert runs == 1 or tol == 0 or len({len(of_run.history) for of_run in found}) > 1


@pytest.mark.parametrize(("kilobytes", "most"), [(227, 64), (99, 56), (48, 40)])
def test_one_block_takes_as_many_anchors_as_it_has_room_for(monkeypatch, kilobytes, most):
    """A block of many a GPU has less room than those of data centres."""
    monkeypatch.setattr(kernel_steps.nvrtc, "room", lambda device: kilobytes << 10)
    device = torch.device("cpu")
    found = [m for m in range(1, 100) if kernel_steps.in_one_block(m, device)]
    assert found == list(range(1, most + 1))


@pytest.mark.parametrize("room", [0, 1 << 30])
@pytest.mark.parametrize(("few", "kernels"), [(True, True), (False, True), (False, False)])
def test_states_serve_fits_of_the_same_sizes_and_the_rows_are_free(monkeypatch, few, kernels, room):
    """At once, and not when Python looks for cycles: the next fit needs the memory."""
    monkeypatch.setattr(kernel_steps, "_MOST_ANCHORS", 9 if few else 8)
    monkeypatch.setattr(iteration, "serves", lambda rows, problem: True)
    monkeypatch.setattr(iteration, "_room", lambda device: room)
    asked, states = problems("distinct", 2, beta=0.1, gamma=0.1), set()
    for seed, n in enumerate((300, 300)):
        graphs = random_graphs(np.random.default_rng(seed), n, 2, 9, 3, np.float64)
        one = TorchGraphs.from_host(graphs, torch.device("cpu"))
        both = TorchGraphs(one.indices[None], one.weights[None], 9)
        start = (PlainRows(graphs, 3).gram(), np.eye(9, 3), asked)
        wanted = solve(TorchRows.from_graphs(graphs, 3), *start)
        gc.disable()
        try:
            with kernels_on_cpu():
                (rows,) = TorchRows.of_runs(both, 3, fused=kernels)
                given = Start(rows, *start, lambda number, value: False)
                (found,) = iteration.solve_in_lockstep([given])
            work = weakref.ref(rows.together.work)
            del rows, given
            assert work() is None
        finally:
            gc.enable()
        assert_allclose(found.history, wanted.history, rtol=1e-10)
        states |= {id(state) for state in iteration._IDLE.values()}
    assert len(states) == (room > 0)
