"""The PyTorch backend against the NumPy modules, on every device there is."""

import os
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

import reference
from omcal import OMCAL
from omcal.anchors import choose_anchors as host_anchors
from omcal.graph import AnchorGraphs
from omcal.graph import anchor_graphs as host_graphs
from omcal.indicator import Indicator
from omcal.placement import GraphSettings, place_in_memory
from omcal.rows.memory import MemoryRows
from omcal.scaling import Scaling
from omcal.solver import Problem, solve
from omcal.updates import Consensus
from omcal.views import View, Views, validate_views

torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")

from omcal import torch_fit
from omcal.rows import _triton
from omcal.rows.torch import TorchRows
from omcal.torchbackend import _torch, devices, kernels
from omcal.torchbackend.anchors import choose_anchors
from omcal.torchbackend.graph import TorchGraphs, anchor_graphs
from omcal.torchbackend.scaling import fit_scaling
from omcal.torchbackend.tensors import TensorArray, holds_tensors, validate_tensors
from omcal.torchbackend.views import DeviceViews

DEVICES = ["cpu"] + (["cuda"] if torch.cuda.is_available() else [])


@pytest.fixture(params=DEVICES)
def device(request):
    return torch.device(request.param)


@pytest.fixture(params=["plain", "fused"])
def fused(request, device):
    """Whether Triton kernels do the pass; TRITON_INTERPRET=1 runs them on the CPU."""
    if request.param == "fused" and not kernels.usable(device):
        pytest.skip(f"Triton kernels do not run on {device}")
    return request.param == "fused"


@pytest.fixture
def small_blocks(monkeypatch):
    """So that a few rows make many blocks."""
    from omcal.rows import torch as rows_torch
    from omcal.torchbackend import anchors, views

    for module in (rows_torch, anchors, views, torch_fit):
        monkeypatch.setattr(module, "block_entries", lambda device: 300)


def random_graphs(rng, n, V, m, k, dtype):
    indices = rng.random((n, V, m)).argsort(axis=2)[:, :, :k]
    weights = rng.dirichlet(np.ones(k), size=(n, V))
    weights[: n // 4, 0, -1] = 0  # as where the last two distances are equal
    return AnchorGraphs(indices.astype(np.min_scalar_type(m - 1)), weights.astype(dtype), m)


def two_views(seed=0, n=400, widths=(6, 9), clusters=4, dtype=np.float64):
    rng = np.random.default_rng(seed)
    member = rng.integers(clusters, size=n)
    return [
        (6 * rng.normal(size=(clusters, d))[member] + rng.normal(size=(n, d)) + 3).astype(dtype)
        for d in widths
    ]


def host_views(arrays):
    return validate_views(SimpleNamespace(), arrays)


def tensor_views(arrays, device, dtype=None):
    tensors = [torch.from_numpy(array).to(device=device, dtype=dtype) for array in arrays]
    return validate_tensors(SimpleNamespace(), tensors)


def fit(placed, settings, V, init, n_iter=15):
    problem = Problem(0.3, 0.1, "adaptive", np.full(V, 1 / V), n_iter, tol=0.0)
    solution = solve(placed.rows, placed.rows.gram(), init, problem)
    Z = solution.consensus
    return solution, placed.rows.assign(Z.alpha, *Z.f_step(), Z.G)


def given_problem(arrays, c=4, m=12, k=4, scale="feature"):
    """Anchors, start and settings that leave nothing to chance."""
    views = host_views(arrays)
    rng = np.random.RandomState(3)
    scalings = [Scaling.fit(view, scale) for view in views]
    anchors = host_anchors(views, scalings, m, "kmeans", rng)
    init = np.linalg.qr(rng.standard_normal((m, c)))[0]
    return GraphSettings(c, m, k, scale, anchors), init


# ---- rows


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
@pytest.mark.parametrize("scattered", [False, True])
def test_pass_equals_that_in_memory(
    device, fused, small_blocks, monkeypatch, n, V, m, k, c, dtype, scattered
):
    if scattered and not fused:
        pytest.skip("the plain pass has one way only")
    monkeypatch.setattr(_triton, "DENSE_ANCHORS", 0 if scattered else 512)
    rng = np.random.default_rng(n)
    graphs = random_graphs(rng, n, V, m, k, dtype)
    host = MemoryRows(graphs, c)
    rows = TorchRows.from_graphs(graphs, c, device, fused=fused)
    np.testing.assert_allclose(rows.gram(), host.gram(), rtol=1e-12, atol=1e-13)
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
    np.testing.assert_allclose(sums.FtF, F.T @ F, rtol=3e-7 if fused else 1e-13)
    np.testing.assert_allclose(sums.StF[0], S.T @ F, rtol=3e-7 if fused else 1e-13)


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
    np.testing.assert_allclose(whole.gram(), sum(p.gram() for p in parts), rtol=1e-12, atol=1e-14)
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


# ---- scaling, anchors, graphs


@pytest.mark.parametrize("scale", ["feature", "sample", "view", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_scaling_equals_that_on_the_host(device, small_blocks, scale, dtype):
    X = (100 * two_views(n=130)[0] + 1000).astype(dtype)
    X[:, 2] = 7  # constant
    X[5] = 3  # a constant row
    for views in (tensor_views([X], device), host_views([X])):
        view = DeviceViews(views, device)[0]
        fitted = fit_scaling(view, scale)
        expected = Scaling.fit(host_views([X])[0], scale)
        assert fitted.per_sample == expected.per_sample
        for name in ("center", "factor"):
            wanted = getattr(expected, name)
            if wanted is None:
                assert getattr(fitted, name) is None
            else:
                np.testing.assert_allclose(getattr(fitted, name), wanted, rtol=1e-10)
        blocks = torch.cat([block for _, block in view.blocks(expected)]).cpu().numpy()
        standardised = expected.standardise(host_views([X])[0].rows(slice(None)))
        np.testing.assert_allclose(blocks, standardised, atol=2e-6, rtol=2e-6)


def test_moments_of_a_feature_far_from_zero(device):
    rng = np.random.default_rng(0)
    X = 1e4 + rng.normal(size=(5000, 3))
    fitted = fit_scaling(DeviceViews(tensor_views([X], device), device)[0], "feature")
    np.testing.assert_allclose(fitted.center, X.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(fitted.factor, 1 / X.std(axis=0, ddof=1), rtol=1e-9)


@pytest.mark.parametrize("method", ["kmeans", "kmeans-full", "random"])
@pytest.mark.parametrize("n", [300, 2600])
def test_anchors_equal_those_of_the_host(device, small_blocks, method, n):
    arrays = two_views(n=n)
    views = host_views(arrays)
    scalings = [Scaling.fit(view, "feature") for view in views]
    expected = host_anchors(views, scalings, 7, method, np.random.RandomState(1))
    for given in (views, tensor_views(arrays, device)):
        found = choose_anchors(
            DeviceViews(given, device), scalings, 7, method, np.random.RandomState(1)
        )
        assert [a.dtype for a in found] == [np.float64] * 2
        if method == "random":
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, atol=1e-12)
        cost, wanted = (_cost(arrays, scalings, a) for a in (found, expected))
        assert cost <= 1.02 * wanted


def _cost(arrays, scalings, anchors):
    X = np.hstack([s.apply(x) for s, x in zip(scalings, arrays, strict=True)])
    C = np.hstack(anchors)
    return np.square(X[:, None] - C).sum(axis=2).min(axis=1).mean()


def test_anchors_of_fewer_different_rows_than_anchors(device):
    X = np.repeat(np.eye(3), 20, axis=0)
    views = tensor_views([X], device)
    anchors = choose_anchors(
        DeviceViews(views, device), [Scaling()], 5, "kmeans", np.random.RandomState(0)
    )
    assert np.isfinite(anchors[0]).all()
    assert len(np.unique(anchors[0].round(6), axis=0)) == 3


def test_an_empty_cluster_of_the_anchors_is_filled(device):
    from omcal.torchbackend import anchors as module

    X = torch.tensor([[0.0], [0.1], [0.2], [5.0], [9.0]], dtype=torch.float64, device=device)
    start = torch.tensor([[0.1], [100.0], [200.0]], dtype=torch.float64, device=device)
    keep = module._start
    try:
        module._start = lambda *args: start
        centres = module._lloyd(X, 3, 100, np.random.RandomState(0))
    finally:
        module._start = keep
    np.testing.assert_allclose(np.sort(centres.cpu().numpy()[:, 0]), [0.1, 5.0, 9.0])


@pytest.mark.parametrize("scale", ["feature", "sample", None])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("m", [9, 300])
def test_graphs_equal_those_of_the_host(device, small_blocks, scale, dtype, m):
    arrays = two_views(n=320, dtype=dtype)
    views = host_views(arrays)
    scalings = [Scaling.fit(view, scale) for view in views]
    rng = np.random.RandomState(0)
    anchors = host_anchors(views, scalings, m, "random", rng)
    expected = host_graphs(views, scalings, anchors, 5)
    for given in (views, tensor_views(arrays, device)):
        found = anchor_graphs(DeviceViews(given, device), scalings, anchors, 5)
        assert found.indices.element_size() == (1 if m <= 256 else 2)
        close = 2e-3 if dtype == np.float32 else 1e-8
        np.testing.assert_allclose(
            found.dense(slice(None), torch.float64).cpu().numpy(),
            expected.side_by_side().toarray(),
            atol=close,
        )
        part = anchor_graphs(DeviceViews(given, device), scalings, anchors, 5, slice(40, 90))
        assert torch.equal(part.indices, found.indices[:, :, 40:90])


def test_equal_distances_share_the_weight_in_the_order_of_the_anchors(device):
    anchors = [np.repeat(np.array([[1.0, 0.0], [0.0, 1.0]]), 4, axis=0)]
    X = np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0], [0.0, 0.0]])
    expected = host_graphs(host_views([X]), [Scaling()], anchors, 3)
    found = anchor_graphs(DeviceViews(tensor_views([X], device), device), [Scaling()], anchors, 3)
    np.testing.assert_array_equal(found.indices.cpu().numpy().transpose(2, 0, 1), expected.indices)
    np.testing.assert_allclose(found.weights.cpu().numpy().transpose(2, 0, 1), expected.weights)


def test_values_too_large_for_products_are_refused(device):
    X = np.full((20, 3), 1e30, dtype=np.float32) * np.arange(1, 21, dtype=np.float32)[:, None]
    views = DeviceViews(tensor_views([X], device), device)
    anchors = [np.random.default_rng(0).normal(size=(5, 3)) * 1e30]
    with pytest.raises(ValueError, match="view 'view1' holds values too large"):
        anchor_graphs(views, [Scaling()], anchors, 2)


# ---- whole fits


@pytest.mark.parametrize(
    ("kind", "close"), [("float32", 1e-6), ("float64", 1e-9), ("float16", 1e-6), ("bfloat16", 1e-6)]
)
@pytest.mark.parametrize("scale", ["feature", "sample"])
def test_labels_and_objective_equal_those_of_the_cpu(device, kind, close, scale):
    tensors = [torch.from_numpy(x).to(getattr(torch, kind)) for x in two_views(1)]
    wide = torch.float64 if kind == "float64" else torch.float32
    arrays = [tensor.to(wide).numpy() for tensor in tensors]
    settings, init = given_problem(arrays, scale=scale)
    host = place_in_memory(host_views(arrays), settings, np.random.RandomState(0))
    expected, wanted = fit(host, settings, 2, init)
    views = validate_tensors(SimpleNamespace(), [t.to(device) for t in tensors])
    placed = torch_fit.place_on_device(views, settings, np.random.RandomState(0), device)
    solution, assignment = fit(placed, settings, 2, init)
    assert isinstance(assignment.labels, torch.Tensor) and assignment.labels.device == device
    np.testing.assert_array_equal(assignment.labels.cpu().numpy(), wanted.labels)
    assert assignment.n_undecided == wanted.n_undecided
    np.testing.assert_allclose(solution.history, expected.history, rtol=close)
    np.testing.assert_allclose(solution.alpha, expected.alpha, atol=1e-4 if close > 1e-8 else 1e-8)


def read_only(x):
    x = x.copy()
    x.flags.writeable = False
    return x


CONTAINERS = {
    "array": np.asarray,
    "fortran": np.asfortranarray,
    "read-only": read_only,
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "float32": lambda x: x.astype(np.float32),
    "sparse": sparse.csr_array,
}


@pytest.mark.parametrize("container", list(CONTAINERS))
@pytest.mark.parametrize("anchors", ["given", "kmeans"])
def test_arrays_are_sent_in_blocks(device, small_blocks, container, anchors):
    arrays = [CONTAINERS[container](x) for x in two_views(2, n=150)]
    views = host_views(arrays)
    settings, init = given_problem(arrays)
    if anchors == "kmeans":
        settings = GraphSettings(4, 12, 4, "feature", "kmeans")
    host = place_in_memory(views, settings, np.random.RandomState(5))
    placed = torch_fit.place_on_device(views, settings, np.random.RandomState(5), device)
    for a, b in zip(placed.anchors, host.anchors, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 if container == "float32" else 1e-9)
    _, wanted = fit(host, settings, 2, init)
    _, assignment = fit(placed, settings, 2, init)
    assert isinstance(assignment.labels, np.ndarray)
    np.testing.assert_array_equal(assignment.labels, wanted.labels)


def test_views_in_files_are_read_by_blocks(device, small_blocks, tmp_path):
    (X,) = two_views(3, n=3500, widths=(5,))
    np.save(tmp_path / "x.npy", X)
    stored = validate_views(
        SimpleNamespace(), [np.load(tmp_path / "x.npy", mmap_mode="r")], lazy=True
    )
    assert stored.stored
    settings = GraphSettings(4, 8, 3, "feature", "kmeans")
    placed = torch_fit.place_on_device(stored, settings, np.random.RandomState(0), device)
    host = place_in_memory(host_views([X]), settings, np.random.RandomState(0))
    np.testing.assert_allclose(placed.anchors[0], host.anchors[0], atol=1e-9)


def test_a_tensor_on_the_device_is_not_copied(device):
    X = torch.zeros((50, 4), device=device)
    view = DeviceViews(validate_tensors(SimpleNamespace(), X), device)[0]
    ((_, block),) = view.blocks(Scaling())
    assert block.data_ptr() == X.data_ptr()


def test_gradients_are_left_alone(device):
    X = torch.randn((60, 4), device=device, requires_grad=True)
    settings = GraphSettings(2, 6, 3, "feature", "kmeans")
    views = validate_tensors(SimpleNamespace(), [X, 2 * X])
    placed = torch_fit.place_on_device(views, settings, np.random.RandomState(0), device)
    assert not placed.rows.F.requires_grad
    assert X.grad is None


# ---- prediction


@pytest.mark.parametrize("gamma", [0.1, 50.0])
@pytest.mark.parametrize("kind", ["tensor", "array", "float16"])
def test_prediction_equals_that_of_the_host(device, small_blocks, gamma, kind):
    arrays = two_views(4, n=160, dtype=np.float16)
    arrays = [x.astype(np.float32 if kind == "float16" else np.float64) for x in arrays]
    settings, init = given_problem(arrays)
    host = place_in_memory(host_views(arrays), settings, np.random.RandomState(0))
    problem = Problem(0.3, gamma, "adaptive", np.full(2, 0.5), 30, tol=0.0)
    Z = solve(host.rows, host.rows.gram(), init, problem).consensus
    indicator = Indicator(Z, host.scalings, host.anchors, settings.n_neighbors)
    if kind == "array":
        views = host_views(arrays)
    else:
        views = tensor_views(arrays, device, torch.float16 if kind == "float16" else None)
    labels = torch_fit.predict_on_device(indicator, views, device)
    F = torch_fit.transform_on_device(indicator, views, device)
    if kind != "array":
        assert labels.device == F.device == device
        labels, F = labels.cpu().numpy(), F.cpu().numpy()
    wanted = host_views(arrays)
    assert labels.dtype == np.int32
    assert F.dtype == wanted.dtype
    close = 1e-4 if kind == "float16" else 1e-8
    np.testing.assert_allclose(F, indicator.transform(wanted, 64), atol=close)
    np.testing.assert_array_equal(labels, indicator.labels(wanted, 64))


def test_prediction_of_silent_rows(device):
    consensus = Consensus(np.ones(1), np.linalg.qr(np.eye(6, 2) + 0.1)[0], np.zeros((6, 6)), 0.1)
    (X,) = two_views(0, n=30, widths=(3,))
    indicator = Indicator(consensus, [Scaling()], [X[:6]], 3)
    labels = torch_fit.predict_on_device(indicator, tensor_views([X], device), device)
    expected = indicator.labels(host_views([X]), 64)
    np.testing.assert_array_equal(labels.cpu().numpy(), expected)


# ---- input and errors


def test_tensors_are_recognised_without_loading_torch():
    assert holds_tensors(torch.zeros(2, 2))
    assert holds_tensors([np.zeros((2, 2)), torch.zeros(2, 2)])
    assert holds_tensors({"a": torch.zeros(2, 2)})
    assert not holds_tensors([np.zeros((2, 2))])
    assert not holds_tensors(sparse.dok_array((2, 2)))


def test_validated_tensors_are_recorded_and_compared():
    model = OMCAL(2)
    validate_tensors(model, {"a": torch.zeros(5, 3), "b": torch.zeros(5, 2)})
    assert model.view_names_ == ["a", "b"]
    assert model.n_features_per_view_ == [3, 2]
    assert model.n_features_in_ == 5
    swapped = {"b": torch.zeros(4, 2), "a": torch.zeros(4, 3)}
    assert validate_tensors(model, swapped, reset=False).names == ("a", "b")
    # What was fitted to tensors takes arrays, too.
    assert validate_views(model, [np.zeros((4, 3)), np.zeros((4, 2))], reset=False).n == 4
    with pytest.raises(ValueError, match="has 2 features but the model was fitted on 3"):
        validate_tensors(model, [torch.zeros(4, 2), torch.zeros(4, 2)], reset=False)
    with pytest.raises(ValueError, match="X has 1 views"):
        validate_tensors(model, [torch.zeros(4, 3)], reset=False)


def test_columns_of_one_tensor_form_views():
    X = torch.arange(12.0).reshape(3, 4)
    model = OMCAL(2)
    views = validate_tensors(model, X, views={"a": slice(0, 3), "b": [3]})
    assert model.n_features_in_ == 4
    assert views.widths == (3, 1)
    assert views[0].array.tensor.data_ptr() == X.data_ptr()
    np.testing.assert_array_equal(views[1].rows(slice(1, 3)), [[7], [11]])
    with pytest.raises(ValueError, match="X has 3 features, but OMCAL is expecting 4"):
        validate_tensors(model, X[:, :3], views=[slice(0, 3)], reset=False)


def test_bad_tensors_are_named():
    good = torch.zeros(5, 3)
    for X, message in {
        "mixed": ([good, np.zeros((5, 2))], "view 'view2' is a ndarray while others are tensors"),
        "1-D": ([good, torch.zeros(5)], r"view 'view2' has shape \(5,\)"),
        "no column": ([good, torch.zeros(5, 0)], r"view 'view2' has shape \(5, 0\)"),
        "complex": ([good, good.to(torch.complex64)], "torch.complex64"),
        "sparse": ([good, good.to_sparse()], "torch.sparse_coo"),
        "lengths": ([good, torch.zeros(4, 3)], "'view1': 5, 'view2': 4"),
        "devices": ([good, torch.zeros((5, 3), device="meta")], "'view2': meta"),
        "too few": ([good[:1]], "minimum of 2"),
    }.values():
        with pytest.raises(ValueError, match=message):
            validate_tensors(SimpleNamespace(), X, min_samples=2)


@pytest.mark.parametrize("scale", ["feature", "sample", None])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(device, scale, value):
    X = np.zeros((30, 3)) + np.arange(30)[:, None]
    X[7, 1] = X[9, 2] = value
    settings = GraphSettings(2, 5, 2, scale, "kmeans")
    counts = "2 NaN and 0 infinity" if np.isnan(value) else "0 NaN and 2 infinity"
    views = tensor_views([X], device)
    with pytest.raises(ValueError, match=f"view 'view1' contains {counts}"):
        torch_fit.place_on_device(views, settings, np.random.RandomState(0), device)
    indicator = Indicator(Consensus.start(np.ones(1), np.eye(5, 2)), [Scaling()], [X[:5]], 2)
    with pytest.raises(ValueError, match=f"view 'view1' contains {counts}"):
        torch_fit.predict_on_device(indicator, views, device)


def test_given_anchors_are_checked(device):
    views = tensor_views(two_views(), device)
    settings = GraphSettings(3, 5, 2, "feature", [np.zeros((5, 6)), np.zeros((5, 8))])
    with pytest.raises(ValueError, match="anchors have shapes"):
        torch_fit.place_on_device(views, settings, np.random.RandomState(0), device)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is CUDA here")
def test_cuda_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match="device='cuda' needs CUDA"):
        devices.resolve_device("cuda")


@pytest.mark.skipif(torch.backends.mps.is_available(), reason="there is an Apple GPU here")
def test_an_apple_gpu_that_is_not_there_is_an_error():
    with pytest.raises(RuntimeError, match="device='mps' needs an Apple GPU"):
        devices.resolve_device("mps")


def test_a_gpu_beyond_the_last_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    with pytest.raises(RuntimeError, match="device='cuda:2' does not exist.*'cuda:1'"):
        devices.resolve_device("cuda:2")
    assert devices.resolve_device("cuda:1") == torch.device("cuda", 1)


@pytest.mark.parametrize("name", ["gpu", "cuda:x", "meta", "xpu", 1.5, None])
def test_unknown_devices_are_errors(name):
    with pytest.raises(ValueError, match="is not known"):
        devices.resolve_device(name)


def test_tensors_elsewhere_than_asked_for(monkeypatch):
    elsewhere = Views([View("a", TensorArray(torch.zeros((3, 2), device="meta")))])
    here = Views([View("a", TensorArray(torch.zeros(3, 2)))])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    assert torch_fit.find_device("cpu", elsewhere).type == "meta"
    assert torch_fit.find_device("cuda:0", here) == torch.device("cuda:0")
    with pytest.raises(ValueError, match="device='cuda:0' but the views are on meta"):
        torch_fit.find_device("cuda:0", elsewhere)


def test_torch_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"omcal\[gpu\]"):
        _torch.__getattr__("something_not_used_before")


def test_a_full_device_is_answered_with_an_estimate(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 80 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * 10**9)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * 10**9)
    message = "need about 10.0 GB.*2.0 GB of 80.0 GB are free.*at most 16000000 samples"
    with (
        pytest.raises(MemoryError, match=message),
        devices.explaining_out_of_memory(torch.device("cuda", 0), 10**8, 100),
    ):
        raise torch.cuda.OutOfMemoryError("CUDA out of memory")


def test_bytes_per_row_are_those_of_the_tensors(device):
    arrays = two_views(n=50, dtype=np.float32)
    for m in (10, 300):
        settings = GraphSettings(3, m, 4, None, [np.zeros((m, 6)), np.zeros((m, 9))])
        views = tensor_views(arrays, device)
        graphs = TorchGraphs.empty(50, 2, 4, m, views.dtype, device)
        rows = TorchRows(graphs, 3)
        held = sum(t.numel() * t.element_size() for t in (graphs.indices, graphs.weights, rows.F))
        assert torch_fit.bytes_per_row(views, settings) == held / 50 + 4


def test_products_are_in_true_float32_and_the_setting_is_restored(device):
    switch = torch.backends.cuda.matmul
    name = "fp32_precision" if hasattr(switch, "fp32_precision") else "allow_tf32"
    before = getattr(switch, name)
    reduced, exact = ("tf32", "ieee") if name == "fp32_precision" else (True, False)
    try:
        setattr(switch, name, reduced)
        with devices.working_on(device):
            assert getattr(switch, name) == exact
            assert not torch.is_grad_enabled()
        assert getattr(switch, name) == reduced
    finally:
        setattr(switch, name, before)


@pytest.mark.skipif("triton" in sys.modules, reason="Triton was loaded by PyTorch itself")
def test_triton_is_optional():
    if os.environ.get("TRITON_INTERPRET") == "1":
        pytest.skip("Triton was asked for")
    assert not kernels.usable(torch.device("cpu"))
