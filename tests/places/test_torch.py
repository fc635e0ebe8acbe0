"""Rows, scaling, anchors and graphs on a PyTorch device against those of NumPy."""

from contextlib import ExitStack
from types import SimpleNamespace
from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from scipy import sparse
from scipy.sparse import csr_array

import reference
from cuda_on_cpu import kernels_on_cpu
from omcal.method.anchors import choose_for_runs as host_anchors
from omcal.method.graph import AnchorGraphs
from omcal.method.graph import anchor_graphs as host_graphs
from omcal.method.new_samples import GraphModel, Predictor
from omcal.method.new_samples import joined_graph as host_joined_graph
from omcal.method.rows import Assignment
from omcal.method.rows import second as host_second
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, solve
from omcal.method.updates import ConsensusGraph
from omcal.places.gpu import cuda_kmeans, nvrtc
from omcal.places.gpu import kmeans as device_kmeans
from omcal.places.gpu import views as device_views
from omcal.places.gpu.anchors import choose_for_runs
from omcal.places.gpu.devices import resolve_device
from omcal.places.gpu.graph import anchor_graphs
from omcal.places.gpu.kinds import facts_of
from omcal.places.gpu.new_samples import joined_graph, second
from omcal.places.gpu.rows import TorchRows
from omcal.places.gpu.scaling import fit_scalings
from omcal.places.gpu.views import DeviceViews
from omcal.places.memory import MemoryRows
from omcal.views.kinds import kind_of, recognise
from omcal.views.reading import read_views
from torch_cases import (
    DEVICES,
    applied,
    cut_small,
    host_views,
    placed,
    tensor_views,
    torch,
    two_views,
)
from view_kinds import KINDS


@pytest.fixture(params=DEVICES)
def device(request):
    return resolve_device(request.param)


@pytest.fixture(params=["plain", "CUDA"])
def fused(request, device):
    """Whether kernels do the pass."""
    if request.param == "CUDA" and device.type != "cuda":
        pytest.skip(f"{device} is no CUDA GPU")
    return request.param != "plain"


def test_the_text_of_a_kernel_comes_with_the_package():
    for name in ("sweep", "decide", "gram", "nearest"):
        assert f") {name}(" in nvrtc.source(name)


@pytest.fixture
def small_blocks(monkeypatch):
    cut_small(monkeypatch)


def random_graphs(rng, n, V, m, k, dtype):
    indices = rng.random((n, V, m)).argsort(axis=2)[:, :, :k]
    weights = rng.dirichlet(np.ones(k), size=(n, V))
    weights[: n // 4, 0, -1] = 0  # as where the last two distances are equal
    return AnchorGraphs(indices.astype(np.min_scalar_type(m - 1)), weights.astype(dtype), m)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("n", "V", "m", "k", "c"),
    [
        (300, 3, 12, 4, 3),
        (77, 1, 5, 1, 1),
        (260, 2, 40, 5, 10),
        (90, 2, 300, 6, 20),
        (65, 1, 66, 3, 40),
    ],
)
def test_pass_equals_that_in_memory(device, fused, small_blocks, n, V, m, k, c, dtype):
    rng = np.random.default_rng(n)
    graphs = random_graphs(rng, n, V, m, k, dtype)
    host = MemoryRows(graphs, c)
    rows = TorchRows.from_graphs(graphs, c, device, fused=fused)
    # In fixed point a product has 40 bits.
    np.testing.assert_allclose(rows.gram(), host.gram(), rtol=1e-12, atol=n * 2.0**-41)
    close = 1e-5 if dtype == np.float32 else 1e-12
    alpha = rng.dirichlet(np.ones(V))
    for _ in range(3):
        P, R = rng.normal(size=(m, c)), 0.3 * rng.normal(size=(c, c)) / c
        expected, sums = host.sweep(alpha, P, R), rows.sweep(alpha, P, R)
        for name in ("StF", "FtF", "FoldtF"):
            wanted = getattr(expected, name)
            atol = close * max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(getattr(sums, name), wanted, atol=atol)
        np.testing.assert_allclose(rows.F.cpu().numpy(), host.F, atol=close)
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    expected, assignment = host.assign(alpha, P, R, G), rows.assign(alpha, P, R, G)
    assert assignment.labels.dtype == np.int32
    # Two entries may be equal to rounding in float32.
    assert (assignment.labels == expected.labels).mean() >= (0.99 if dtype == np.float32 else 1)
    assert abs(assignment.n_undecided - expected.n_undecided) <= (dtype == np.float32)


def test_rows_without_an_entry_follow_the_basis(device, fused):
    graphs = random_graphs(np.random.default_rng(0), 50, 1, 8, 3, np.float64)
    G = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 3)))[0]
    P, R = np.zeros((8, 3)), np.zeros((3, 3))
    P[0] = [1.0, -1.0, -2.0]  # only rows with anchor 0 hear anything
    host, rows = MemoryRows(graphs, 3), TorchRows.from_graphs(graphs, 3, device, fused=fused)
    expected = host.assign(np.ones(1), P, R, G)
    assignment = rows.assign(np.ones(1), P, R, G)
    assert 0 < expected.n_undecided < 50
    assert assignment.n_undecided == expected.n_undecided
    np.testing.assert_array_equal(assignment.labels, expected.labels)


def test_sums_are_in_float64(device, fused):
    n = 200_000 if device.type == "cuda" or not fused else 3000
    graphs = random_graphs(np.random.default_rng(0), 50, 1, 6, 2, np.float32)
    repeated = AnchorGraphs(
        np.resize(graphs.indices, (n, 1, 2)), np.resize(graphs.weights, (n, 1, 2)), 6
    )
    rows = TorchRows.from_graphs(repeated, 2, device, fused=fused)
    P = np.abs(np.random.default_rng(1).normal(size=(6, 2)))
    sums = rows.sweep(np.ones(1), P, np.zeros((2, 2)))
    F = rows.F.cpu().numpy().astype(np.float64)
    S = repeated.side_by_side().astype(np.float64)
    np.testing.assert_allclose(sums.FtF, F.T @ F, rtol=3e-7 if fused else 1e-11)
    np.testing.assert_allclose(sums.StF[0], S.T @ F, rtol=3e-7 if fused else 1e-11)


def test_sums_of_parts_add(device, fused):
    rng = np.random.default_rng(2)
    graphs = random_graphs(rng, 120, 2, 9, 3, np.float64)
    P, R = rng.normal(size=(9, 4)), 0.1 * np.eye(4)
    alpha = np.array([0.3, 0.7])
    whole = TorchRows.from_graphs(graphs, 4, device, fused=fused)
    parts = [
        TorchRows.from_graphs(graphs[rows], 4, device, fused=fused)
        for rows in (slice(0, 31), slice(31, 120))
    ]
    np.testing.assert_allclose(whole.gram(), sum(p.gram() for p in parts), rtol=1e-12, atol=1e-10)
    for _ in range(2):
        total = whole.sweep(alpha, P, R)
        both = parts[0].sweep(alpha, P, R) + parts[1].sweep(alpha, P, R)
        for name in ("StF", "FtF", "FoldtF"):
            np.testing.assert_allclose(
                getattr(total, name), getattr(both, name), rtol=1e-12, atol=1e-14
            )


def test_sums_of_a_pass_are_not_overwritten_by_the_next(device, fused):
    rows = TorchRows.from_graphs(
        random_graphs(np.random.default_rng(0), 30, 1, 6, 2, np.float64), 2, device, fused=fused
    )
    P, R = np.ones((6, 2)), np.zeros((2, 2))
    first = rows.sweep(np.ones(1), P, R)
    before = first.StF.copy()
    rows.sweep(np.ones(1), 2 * P, R)
    np.testing.assert_array_equal(first.StF, before)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("weighting", ["adaptive", "agreement"])
def test_solver_equals_algorithm_1(device, fused, seed, weighting):
    rng = np.random.default_rng(seed)
    V, m, k, c = 2, 10, 4, 3
    centres = rng.normal(size=(V, m, 4)) + 4 * rng.normal(size=(V, c, 4))[:, np.arange(m) % c]
    points = centres[:, rng.integers(m, size=70)] + rng.normal(size=(V, 70, 4))
    S = np.stack([reference.anchor_graph(points[v], centres[v], k) for v in range(V)])
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    expected = reference.algorithm1(S, G, 0.2, 0.5, 8, weighting)
    assert expected.conditioning > 1e-5
    indices = np.argsort(-S, axis=2, kind="stable")[:, :, :k]
    weights = np.take_along_axis(S, indices, axis=2)
    graphs = AnchorGraphs(
        indices.transpose(1, 0, 2).astype(np.uint8), weights.transpose(1, 0, 2), m
    )
    rows = TorchRows.from_graphs(graphs, c, device, fused=fused)
    problem = Problem(0.2, 0.5, weighting, np.full(V, 1 / V), 8, tol=0.0)
    solution = solve(rows, rows.gram(), G, problem)
    Z = solution.consensus
    assignment = rows.assign(Z.alpha, *Z.f_step(), Z.G)
    np.testing.assert_allclose(solution.history, expected.history, rtol=1e-9)
    np.testing.assert_allclose(rows.F.cpu().numpy(), expected.F, atol=1e-8)
    np.testing.assert_array_equal(assignment.labels, expected.unclipped.argmax(axis=1))


@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_scaling_equals_that_on_the_host(device, small_blocks, scale, dtype):
    X = (100 * two_views(n=400)[0] + 1000).astype(dtype)
    X[:, 2] = 7  # constant
    X[5] = 3  # a constant row
    for views in (tensor_views([X], device), host_views([X])):
        views = DeviceViews(views, device)
        view, (fitted,) = views[0], fit_scalings(views, scale)
        expected = Scaling.fit(host_views([X])[0], scale)
        assert fitted.row == expected.row
        for name in ("center", "factor"):
            wanted = getattr(expected, name)
            if wanted is None:
                assert getattr(fitted, name) is None
            else:
                np.testing.assert_allclose(getattr(fitted, name), wanted, rtol=1e-10)
        blocks = torch.cat([block for _, block in view.blocks(expected)]).cpu().numpy()
        standardised = expected.prepare(host_views([X])[0].rows(slice(None)))
        np.testing.assert_allclose(blocks, standardised, atol=2e-6, rtol=2e-6)


@pytest.mark.parametrize("keeps", [False, True])
def test_rows_of_any_array_arrive(device, monkeypatch, keeps):
    monkeypatch.setattr(device_views, "_PIECE_BYTES", 1000)
    X = np.random.default_rng(0).normal(size=(501, 14))
    still = X.astype(np.float32)
    still.flags.writeable = False
    arrays = [X[::-1, ::2], np.asfortranarray(X), still, (9 * X).astype(np.int16)]
    views = DeviceViews(host_views(arrays), device, keeps=keeps)
    for view, array in zip(views, arrays, strict=True):
        found = torch.cat([block for _, block in view.blocks(Scaling())])
        np.testing.assert_array_equal(found.cpu().numpy(), array.astype(view.dtype))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_kinds_are_those_that_the_host_tells(device, kind, dtype):
    X = KINDS[kind]
    X = (X.toarray() if sparse.issparse(X) else X).astype(dtype)
    tensors = [torch.from_numpy(each).to(device) for each in (X, -X)]
    facts = facts_of(tensors, np.arange(len(X)))
    found, other = map(kind_of, facts)
    assert found == recognise(X)
    assert other == recognise(-X)
    assert found.name == kind
    (fitted,) = fit_scalings(DeviceViews(tensor_views([X], device), device), "auto")
    expected = Scaling.fit(host_views([X])[0], "auto")
    assert fitted.kind == expected.kind
    for name in ("unit", "weight", "center", "factor"):
        assert (getattr(fitted, name) is None) == (getattr(expected, name) is None)
    np.testing.assert_allclose(fitted.factor, expected.factor, rtol=1e-5)


def test_moments_of_a_feature_far_from_zero(device):
    rng = np.random.default_rng(0)
    X = 1e4 + rng.normal(size=(5000, 3))
    (fitted,) = fit_scalings(DeviceViews(tensor_views([X], device), device), "feature")
    np.testing.assert_allclose(fitted.center, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(fitted.factor, 1 / X.std(axis=0, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("method", ["kmeans", "kmeans-full", "random"])
@pytest.mark.parametrize("n", [300, 2600])
def test_anchors_equal_those_of_the_host(device, small_blocks, method, n):
    arrays = two_views(n=n)
    views = host_views(arrays)
    scalings = [Scaling.fit(view, "feature") for view in views]
    expected = host_anchors(views, scalings, 7, method, [np.random.RandomState(1)])[0]
    for source in (views, tensor_views(arrays, device)):
        ((found, _),) = choose_for_runs(
            DeviceViews(source, device), scalings, 7, method, [np.random.RandomState(1)]
        )
        assert [a.dtype for a in found] == [np.float64] * 2
        if method == "random":
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        cost, wanted = (_cost(arrays, scalings, a) for a in (found, expected))
        assert cost <= 1.02 * wanted


@pytest.mark.parametrize("form", [np.asarray, csr_array])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_values_that_are_not_finite_are_seen_on_the_way(device, form, bad):
    arrays = two_views(n=300)
    rows = placed(host_views(arrays), GraphSettings(3, 7, 3, "feature", "kmeans"), devices=device)
    rule = Predictor(rows.learned, ConsensusGraph(np.full(2, 0.5), np.eye(7, 3), np.eye(7), 0.0))
    arrays[1][200, 4] = bad
    views = read_views(SimpleNamespace(), [arrays[0], form(arrays[1])])
    for scale in ("feature", None):
        with pytest.raises(ValueError, match="'view2' contains"):
            placed(views, GraphSettings(3, 7, 3, scale, "kmeans"), devices=device)
    with pytest.raises(ValueError, match="'view2' contains"):
        applied(rule, views, device, "labels")


@pytest.mark.parametrize("widths", [(6, 9), (30, 9)])
@pytest.mark.parametrize("seed", [0, 1, 2])
def test_anchors_of_a_sample_are_those_of_the_host(device, seed, widths):
    """With few features, and with so many that most iterations are done in a smaller space."""
    arrays = two_views(seed, n=2600, widths=widths)
    views = host_views(arrays)
    scalings = [Scaling.fit(view, "feature") for view in views]
    expected = host_anchors(views, scalings, 7, "kmeans", [np.random.RandomState(seed)])[0]
    there = DeviceViews(tensor_views(arrays, device), device)
    ((found, _),) = choose_for_runs(there, scalings, 7, "kmeans", [np.random.RandomState(seed)])
    for a, b in zip(found, expected, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


@pytest.mark.slow
@settings(max_examples=8, deadline=None)
@given(
    st.integers(1, 4),
    st.integers(20, 900),
    st.tuples(st.integers(1, 30), st.integers(1, 9)),
    st.integers(2, 9),
    st.sampled_from(["kmeans", "kmeans-full", "random"]),
    st.sampled_from(["feature", None]),
    st.integers(0, 2**32 - 1),
)
@pytest.mark.parametrize("kernels", [False, True])
def test_anchors_of_runs_are_those_of_each_on_the_host(
    kernels, runs, n, widths, m, method, scale, seed
):
    """Where runs share all rows, draw their starts from some, and have samples of their own."""
    arrays = two_views(seed, n=n, widths=widths)
    views = host_views(arrays)
    scalings = [Scaling.fit(view, scale) for view in views]
    there = DeviceViews(views, torch.device("cpu"))
    states = [np.random.RandomState(seed ^ b) for b in range(runs)]
    with ExitStack() as stack:
        if kernels:
            stack.enter_context(kernels_on_cpu())
            stack.enter_context(mock.patch.object(cuda_kmeans, "_THREADS", 64))
        found = choose_for_runs(there, scalings, m, method, states)
    for b, (anchors, on_device) in enumerate(found):
        expected = host_anchors(views, scalings, m, method, [np.random.RandomState(seed ^ b)])[0]
        for a, d, wanted in zip(anchors, on_device, expected, strict=True):
            np.testing.assert_allclose(a, wanted, atol=1e-7)
            np.testing.assert_array_equal(d.numpy(), a)


def _cost(arrays, scalings, anchors):
    X = np.hstack([s.apply(x) for s, x in zip(scalings, arrays, strict=True)])
    C = np.hstack(anchors)
    return np.square(X[:, None] - C).sum(axis=2).min(axis=1).mean()


def test_anchors_of_fewer_different_rows_than_anchors(device):
    X = np.repeat(np.eye(3), 20, axis=0)
    views = tensor_views([X], device)
    ((anchors, _),) = choose_for_runs(
        DeviceViews(views, device), [Scaling()], 5, "kmeans", [np.random.RandomState(0)]
    )
    assert np.isfinite(anchors[0]).all()
    assert len(np.unique(anchors[0].round(6), axis=0)) == 3


@pytest.mark.parametrize("width", [3, 9])  # the span of two anchors pays with the latter
def test_anchors_of_more_rows_than_give_their_start_are_those_of_the_host(device, width):
    X = np.random.default_rng(0).normal(size=(150, width))
    views, (state, same) = host_views([X]), (np.random.RandomState(0) for _ in range(2))
    ((there, _),) = choose_for_runs(DeviceViews(views, device), [Scaling()], 2, "kmeans", [state])
    here = host_anchors(views, [Scaling()], 2, "kmeans", [same])[0]
    np.testing.assert_allclose(there[0], here[0], atol=1e-9)


def test_an_empty_cluster_of_the_anchors_is_filled(device, monkeypatch):
    X = torch.tensor([[0.0], [0.1], [0.2], [5.0], [9.0]], dtype=torch.float64, device=device)
    start = torch.tensor([[0.1], [100.0], [200.0]], dtype=torch.float64, device=device)
    both = torch.stack([X[[0, 3, 4]], start])  # of two runs one has empty clusters
    monkeypatch.setattr(device_kmeans, "_seed", lambda *given: None)
    monkeypatch.setattr(device_kmeans, "_pick", lambda X, rows: both)
    states = [np.random.RandomState(0) for _ in range(2)]
    for points in (torch.stack([X, X]), X[None]):
        plain, centres = device_kmeans.lloyd(points, 3, False, 2, states)
        np.testing.assert_allclose(np.sort(plain.cpu().numpy()[:, 0]), [0.1, 5.0, 9.0])
        np.testing.assert_allclose(np.sort(centres.cpu().numpy()[:, 0]), [0.1, 5.0, 9.0])


@pytest.mark.parametrize("c", [1, 2, 5])
def test_the_graph_of_joined_runs_is_that_of_the_host(device, c):
    """Where F has no second positive entry, or none, the anchors of a row differ all the same."""
    rng = np.random.default_rng(c)
    U = rng.normal(size=(3, 200, c)) - 0.7
    U[:, ::5] = np.where(np.arange(c) == 0, 0.5, -1.0)
    host = [
        Assignment(of, 0, *host_second(u, of)) for u, of in zip(U, U.argmax(axis=2), strict=True)
    ]
    F = torch.from_numpy(np.maximum(U, 0)).to(device)
    labels = torch.from_numpy(U.argmax(axis=2)).to(device)
    parts = [second(*of_run) for of_run in zip(F, labels, strict=True)]
    found = joined_graph(labels, *map(torch.stack, zip(*parts, strict=True)), c)
    expected = host_joined_graph(host, c).side_by_side().toarray()
    np.testing.assert_allclose(found.dense(slice(None), torch.float32).cpu(), expected, atol=1e-6)
    row = found.columns(slice(None)).cpu().numpy()
    assert all(len(np.unique(columns)) == len(columns) for columns in row)


@pytest.mark.parametrize("scale", ["feature", "sample", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [9, 300])
def test_graphs_equal_those_of_the_host(device, monkeypatch, scale, dtype, m):
    cut_small(monkeypatch, 20 * m)
    arrays = two_views(n=320, dtype=dtype)
    views = host_views(arrays)
    scalings = [Scaling.fit(view, scale) for view in views]
    rng = np.random.RandomState(0)
    anchors = host_anchors(views, scalings, m, "random", [rng])[0]
    expected = host_graphs(views, scalings, anchors, 5)
    for source in (views, tensor_views(arrays, device)):
        learned = GraphModel(scalings, anchors, 5)
        found = anchor_graphs(DeviceViews(source, device), [learned]).of_run(0)
        assert found.indices.element_size() == (1 if m <= 256 else 2)
        close = 2e-3 if dtype == np.float32 else 1e-8
        np.testing.assert_allclose(
            found.dense(slice(None), torch.float64).cpu().numpy(),
            expected.side_by_side().toarray(),
            atol=close,
        )
        other = GraphModel(scalings, [A[::-1].copy() for A in anchors], 5)
        part = anchor_graphs(DeviceViews(source, device), [other, learned], slice(40, 90))
        assert torch.equal(part.indices[1], found.indices[:, :, 40:90])
        turned = part.of_run(0).dense(slice(None), torch.float64).unflatten(1, (2, m)).flip(2)
        np.testing.assert_allclose(
            turned.flatten(1).cpu(), found.dense(slice(40, 90), torch.float64).cpu(), atol=close
        )


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.tuples(st.integers(1, 300), st.integers(1, 400), st.integers(3, 300), st.integers(1, 18)),
    st.sampled_from(["float16", "bfloat16", "float32", "float64"]),
    st.integers(0, 2**32),
)
def test_graphs_of_any_shape_equal_those_in_float64(device, shape, kind, seed):
    n, d, m, k = shape
    k, rng = min(k, m - 1), np.random.default_rng(seed)
    X = torch.from_numpy(rng.normal(size=(n, d)) + 1).to(getattr(torch, kind))
    anchors = [rng.normal(size=(m, d)) + 1]
    learned = GraphModel([Scaling()], anchors, k)
    wide = X.double().numpy()
    expected = host_graphs(host_views([wide]), learned.scalings, anchors, k)
    views = DeviceViews(read_views(SimpleNamespace(), [X.to(device)]), device)
    found = anchor_graphs(views, [learned]).of_run(0).dense(slice(None), torch.float64)
    found = found.cpu().numpy()
    # Weights change continuously with the distances, most where those differ least.
    distances = np.sort(np.square(wide[:, None] - anchors[0]).sum(axis=2), axis=1)[:, : k + 1]
    spread = (distances[:, -1:] - distances[:, :-1]).sum(axis=1, keepdims=True)
    off = 100 * np.finfo(views.dtype).eps * (2 * d + 10) / np.maximum(spread, 1e-300)
    assert (np.abs(found - expected.side_by_side().toarray()) <= off).all()
    np.testing.assert_allclose(found.sum(axis=1), 1, rtol=1e-5)


def test_equal_distances_share_the_weight_in_the_order_of_the_anchors(device):
    anchors = [np.repeat(np.array([[1.0, 0.0], [0.0, 1.0]]), 4, axis=0)]
    X = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    expected = host_graphs(host_views([X]), [Scaling()], anchors, 3)
    views = DeviceViews(tensor_views([X], device), device)
    found = anchor_graphs(views, [GraphModel([Scaling()], anchors, 3)]).of_run(0)
    np.testing.assert_array_equal(found.indices.cpu().numpy().transpose(2, 0, 1), expected.indices)
    np.testing.assert_allclose(found.weights.cpu().numpy().transpose(2, 0, 1), expected.weights)


def test_values_too_large_for_products_are_refused(device):
    X = np.full((20, 3), 3e38, dtype=np.float32)
    views = DeviceViews(tensor_views([X], device), device)
    anchors = [1e3 * np.random.default_rng(0).normal(size=(5, 3))]
    with pytest.raises(ValueError, match="view 'view1' holds values too large"):
        anchor_graphs(views, [GraphModel([Scaling()], anchors, 2)])
