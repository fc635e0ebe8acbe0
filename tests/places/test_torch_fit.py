"""Whole fits, prediction, input and errors of the PyTorch backend."""

import sys
from types import SimpleNamespace

import numpy as np
import pytest
from scipy import sparse

from omcal import OMCAL
from omcal.machine import torch as _torch
from omcal.method import anchors
from omcal.method.anchors import choose_for_runs as host_anchors
from omcal.method.new_samples import GraphModel, Predictor
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, solve
from omcal.method.updates import ConsensusGraph
from omcal.places.choose import PlaceRequest
from omcal.places.gpu import devices
from omcal.places.gpu.devices import resolve_device
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.place import OnDevices, find_devices
from omcal.places.gpu.rows import TorchRows
from omcal.places.gpu.views import DeviceViews
from omcal.views.adapt import is_tensor
from omcal.views.reading import read_views
from omcal.views.tensors import TensorArray
from omcal.views.view import View, Views
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


@pytest.fixture(params=DEVICES)
def device(request):
    return resolve_device(request.param)


@pytest.fixture
def small_blocks(monkeypatch):
    cut_small(monkeypatch)


def fit(placed, settings, V, init, n_iter=15):
    problem = Problem(0.3, 0.1, "adaptive", np.full(V, 1 / V), n_iter, tol=0.0)
    solution = solve(placed.rows, placed.rows.gram(), init, problem)
    Z = solution.consensus
    return solution, placed.rows.assign(Z.alpha, *Z.f_step(), Z.G)


def given_problem(arrays, c=4, m=12, k=4, scale="feature"):
    """Anchors, start and settings that leave nothing to chance.

    With seed 3 rounding decides which of two clusters is which: on the CPU alone, moving the start
    by 1e-7 exchanges them in half of all cases.
    """
    views = host_views(arrays)
    rng = np.random.RandomState(4)
    scalings = [Scaling.fit(view, scale) for view in views]
    anchors = host_anchors(views, scalings, m, "kmeans", [rng])[0]
    init = np.linalg.qr(rng.standard_normal((m, c)))[0]
    return GraphSettings(c, m, k, scale, anchors), init


@pytest.mark.parametrize(
    ("kind", "close"), [("float32", 1e-6), ("float64", 1e-9), ("float16", 1e-6), ("bfloat16", 1e-6)]
)
@pytest.mark.parametrize("scale", ["feature", "sample"])
def test_labels_and_objective_equal_those_of_the_cpu(device, kind, close, scale):
    tensors = [torch.from_numpy(x).to(getattr(torch, kind)) for x in two_views(1)]
    wide = torch.float64 if kind == "float64" else torch.float32
    arrays = [tensor.to(wide).numpy() for tensor in tensors]
    settings, init = given_problem(arrays, scale=scale)
    host = placed(host_views(arrays), settings, 0)
    expected, wanted = fit(host, settings, 2, init)
    views = read_views(SimpleNamespace(), [t.to(device) for t in tensors])
    there = placed(views, settings, 0, device)
    solution, assignment = fit(there, settings, 2, init)
    assert isinstance(assignment.labels, torch.Tensor) and assignment.labels.device == device
    np.testing.assert_array_equal(assignment.labels.cpu().numpy(), wanted.labels)
    assert assignment.n_undecided == wanted.n_undecided
    # On the way, where F in single precision still moves, a GPU was 1.4e-6 off.
    np.testing.assert_allclose(solution.history, expected.history, rtol=5 * close)
    np.testing.assert_allclose(solution.history[-1], expected.history[-1], rtol=close)
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
    host = placed(views, settings, 5)
    there = placed(views, settings, 5, device)
    for a, b in zip(there.anchors, host.anchors, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-4 if container == "float32" else 1e-9)
    _, wanted = fit(host, settings, 2, init)
    _, assignment = fit(there, settings, 2, init)
    assert isinstance(assignment.labels, np.ndarray)
    np.testing.assert_array_equal(assignment.labels, wanted.labels)


def test_views_in_files_are_read_by_blocks(device, small_blocks, tmp_path):
    (X,) = two_views(3, n=3500, widths=(5,))
    np.save(tmp_path / "x.npy", X)
    stored = read_views(SimpleNamespace(), [np.load(tmp_path / "x.npy", mmap_mode="r")])
    assert stored.stored
    settings = GraphSettings(4, 8, 3, "feature", "kmeans")
    there = placed(stored, settings, 0, device)
    host = placed(host_views([X]), settings, 0)
    np.testing.assert_allclose(there.anchors[0], host.anchors[0], atol=1e-9)


def test_a_tensor_on_the_device_is_not_copied(device):
    X = torch.zeros((50, 4), device=device)
    view = DeviceViews(read_views(SimpleNamespace(), X), device)[0]
    ((_, block),) = view.blocks(Scaling())
    assert block.data_ptr() == X.data_ptr()


def test_gradients_are_left_alone(device):
    X = torch.randn((60, 4), device=device, requires_grad=True)
    settings = GraphSettings(2, 6, 3, "feature", "kmeans")
    views = read_views(SimpleNamespace(), [X, 2 * X])
    there = placed(views, settings, 0, device)
    assert not there.rows.F.requires_grad
    assert X.grad is None


@pytest.mark.parametrize("gamma", [0.1, 50.0])
@pytest.mark.parametrize("kind", ["tensor", "array", "float16"])
def test_prediction_equals_that_of_the_host(device, small_blocks, gamma, kind):
    arrays = two_views(4, n=160, dtype=np.float16)
    arrays = [x.astype(np.float32 if kind == "float16" else np.float64) for x in arrays]
    settings, init = given_problem(arrays)
    host = placed(host_views(arrays), settings, 0)
    problem = Problem(0.3, gamma, "adaptive", np.full(2, 0.5), 30, tol=0.0)
    Z = solve(host.rows, host.rows.gram(), init, problem).consensus
    rule = Predictor(host.learned, Z)
    if kind == "array":
        views = host_views(arrays)
    else:
        views = tensor_views(arrays, device, torch.float16 if kind == "float16" else None)
    labels = applied(rule, views, device, "labels")
    F = applied(rule, views, device, "indicator")
    if kind != "array":
        assert labels.device == F.device == device
        labels, F = labels.cpu().numpy(), F.cpu().numpy()
    wanted = host_views(arrays)
    assert labels.dtype == np.int32
    assert F.dtype == wanted.dtype
    close = 1e-4 if kind == "float16" else 1e-8
    np.testing.assert_allclose(F, rule.indicator(wanted), atol=close)
    np.testing.assert_array_equal(labels, rule.labels(wanted))


def test_prediction_of_silent_rows(device):
    consensus = ConsensusGraph(
        np.ones(1), np.linalg.qr(np.eye(6, 2) + 0.1)[0], np.zeros((6, 6)), 0.1
    )
    (X,) = two_views(0, n=30, widths=(3,))
    rule = Predictor(GraphModel([Scaling()], [X[:6]], 3), consensus)
    labels = applied(rule, tensor_views([X], device), device, "labels")
    expected = rule.labels(host_views([X]))
    np.testing.assert_array_equal(labels.cpu().numpy(), expected)


def test_tensors_are_recognised_without_loading_torch():
    assert is_tensor(torch.zeros(2, 2))
    assert is_tensor(torch.nn.Parameter(torch.zeros(2, 2)))
    assert not is_tensor(np.zeros((2, 2)))
    assert not is_tensor(sparse.dok_array((2, 2)))


def test_validated_tensors_are_recorded_and_compared():
    model = OMCAL(2)
    read_views(model, {"a": torch.zeros(5, 3), "b": torch.zeros(5, 2)})
    assert model.view_names_ == ["a", "b"]
    assert model.n_features_per_view_ == [3, 2]
    assert model.n_features_in_ == 5
    swapped = {"b": torch.zeros(4, 2), "a": torch.zeros(4, 3)}
    assert read_views(model, swapped, reset=False).names == ("a", "b")
    # What was fitted to tensors takes arrays, too.
    assert read_views(model, [np.zeros((4, 3)), np.zeros((4, 2))], reset=False).n == 4
    with pytest.raises(ValueError, match="has 2 features but the model was fitted on 3"):
        read_views(model, [torch.zeros(4, 2), torch.zeros(4, 2)], reset=False)
    with pytest.raises(ValueError, match="X has 1 views"):
        read_views(model, [torch.zeros(4, 3)], reset=False)


def test_columns_of_one_tensor_form_views():
    X = torch.arange(12.0).reshape(3, 4)
    model = OMCAL(2)
    model.views = {"a": slice(0, 3), "b": [3]}
    views = read_views(model, X)
    assert model.n_features_in_ == 4
    assert views.widths == (3, 1)
    assert views[0].array.tensor.data_ptr() == X.data_ptr()
    np.testing.assert_array_equal(views[1].rows(slice(1, 3)), [[7], [11]])
    with pytest.raises(ValueError, match="X has 3 features, but OMCAL is expecting 4"):
        read_views(model, X[:, :3], reset=False)


def test_bad_tensors_are_named():
    good = torch.zeros(5, 3)
    for X, message in {
        "mixed": ([good, np.zeros((5, 2))], "view 'view2' is a ndarray while others are tensors"),
        "1-D": ([good, torch.zeros(5)], r"view 'view2' is a Tensor of shape \(5,\)"),
        "no column": ([good, torch.zeros(5, 0)], r"'view2': Found array with 0 feature\(s\)"),
        "complex": ([good, good.to(torch.complex64)], "torch.complex64"),
        "sparse": ([good, good.to_sparse()], "torch.sparse_coo"),
        "lengths": ([good, torch.zeros(4, 3)], "'view1': 5 × 3, 'view2': 4 × 3"),
        "devices": ([good, torch.zeros((5, 3), device="meta")], "'view2': meta"),
        "too few": ([good[:1]], "minimum of 2"),
    }.values():
        with pytest.raises(ValueError, match=message):
            read_views(SimpleNamespace(), X, min_samples=2)


@pytest.mark.parametrize("scale", ["feature", "sample", None])
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_values_that_are_not_finite_are_refused(device, scale, value):
    X = np.zeros((30, 3)) + np.arange(30)[:, None]
    X[7, 1] = X[9, 2] = value
    settings = GraphSettings(2, 5, 2, scale, "kmeans")
    counts = "2 NaN and 0 infinity" if np.isnan(value) else "0 NaN and 2 infinity"
    views = tensor_views([X], device)
    with pytest.raises(ValueError, match=f"view 'view1' contains {counts}"):
        placed(views, settings, 0, device)
    rule = Predictor(
        GraphModel([Scaling()], [X[:5]], 2),
        ConsensusGraph(np.ones(1), np.eye(5, 2), np.eye(5), 0.0),
    )
    with pytest.raises(ValueError, match=f"view 'view1' contains {counts}"):
        applied(rule, views, device, "labels")


def test_views_that_are_refused_leave_the_random_numbers(device):
    """A second attempt, with filled cells, draws the same."""
    X = np.random.default_rng(0).normal(size=(1200, 40))
    X[7, 1] = np.nan
    place = OnDevices(tensor_views([X], device), SimpleNamespace(device=str(device)))
    state = np.random.RandomState(0)
    with pytest.raises(ValueError, match="NaN"):
        place.learn(GraphSettings(2, 8, 2, "feature", "kmeans"), [state])
    assert state.uniform() == np.random.RandomState(0).uniform()


def test_given_anchors_are_checked(device):
    views = tensor_views(two_views(), device)
    settings = GraphSettings(3, 5, 2, "feature", [np.zeros((5, 6)), np.zeros((5, 8))])
    with pytest.raises(ValueError, match="anchors have shapes"):
        placed(views, settings, 0, device)


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
    with pytest.raises(RuntimeError, match=r"device='cuda:2' does not exist.*'cuda:1'"):
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
    assert find_devices("cpu", elsewhere) == [torch.device("meta")]
    assert find_devices("cuda:0", here) == [torch.device("cuda:0")]
    with pytest.raises(ValueError, match="device='cuda:0' but the views are on meta"):
        find_devices("cuda:0", elsewhere)
    with pytest.raises(ValueError, match="Several devices take arrays"):
        find_devices("cpu,cpu", here)


@pytest.mark.parametrize("n_parts", [2, 3])
def test_several_devices_share_the_rows(device, n_parts):
    arrays = two_views(2, n=151)
    settings, init = given_problem(arrays)
    views = host_views(arrays)
    host = placed(views, settings, 5)
    places = ",".join([str(device)] * n_parts)
    there = placed(views, settings, 5, places)
    assert len(there.rows._parts) == n_parts
    expected, wanted = fit(host, settings, 2, init)
    solution, assignment = fit(there, settings, 2, init)
    np.testing.assert_allclose(solution.history, expected.history, rtol=1e-9)
    np.testing.assert_array_equal(assignment.labels, wanted.labels)


def test_a_model_on_several_devices(device):
    if device.type != "cuda":
        pytest.skip("two parts on the CPU have no name")
    arrays = two_views(2, n=200)
    options = {"n_anchors": 12, "random_state": 0}
    one = OMCAL(4, device="cuda", **options).fit(arrays)
    two = OMCAL(4, device="cuda:0,cuda:0", **options).fit(arrays)
    np.testing.assert_array_equal(two.labels_, one.labels_)
    np.testing.assert_array_equal(two.predict(arrays), one.predict(arrays))


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA GPU")
def test_a_gpu_that_is_full_is_explained():
    X = torch.zeros((200_000, 2), device="cuda")
    X[:, 0] = torch.arange(200_000)
    torch.cuda.empty_cache()
    free = torch.cuda.mem_get_info()[0]
    held = torch.empty(max(free - 60 * 2**20, 1), dtype=torch.uint8, device="cuda")
    try:
        with pytest.raises(MemoryError, match=r"cuda:0 is out of memory: .* need about .*block"):
            OMCAL(60, n_anchors=200, n_neighbors=100, max_iter=2).fit(X)
    finally:
        del held
        torch.cuda.empty_cache()


def test_torch_that_is_not_installed_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match="pip install torch"):
        _torch.__getattr__("something_not_used_before")
    assert not hasattr(_torch, "pytest_plugins")  # which pytest asks every module for


def test_a_full_device_is_answered_with_an_estimate(monkeypatch):
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (10**9, 80 * 10**9))
    monkeypatch.setattr(torch.cuda, "memory_reserved", lambda device: 3 * 10**9)
    monkeypatch.setattr(torch.cuda, "memory_allocated", lambda device: 2 * 10**9)
    message = r"need about 10.0 GB.*2.0 GB of 80.0 GB are free.*at most about 16000000 samples"
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
        graphs = TorchGraphs.empty(1, 50, 2, 4, m, views.dtype, device)
        rows = TorchRows(graphs, 3)
        held = sum(t.numel() * t.element_size() for t in (graphs.indices, graphs.weights, rows.F))
        assert OnDevices(views, PlaceRequest())._row_bytes(settings) == held / 50 + 4


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


def test_runs_of_sparse_views_share_the_rows_that_the_host_prepares(monkeypatch):
    prepared, init = [], anchors.Sample.__init__

    def counted(sample, *given, **settings):
        prepared.append(sample)
        init(sample, *given, **settings)

    monkeypatch.setattr(anchors.Sample, "__init__", counted)
    views = host_views([sparse.random_array((80, 30), density=0.2, random_state=0, format="csr")])
    how = GraphSettings(3, 8, 4, None, "kmeans")
    place = OnDevices(views, PlaceRequest())
    joined = place.learn(how, [np.random.RandomState(seed) for seed in range(3)])
    assert len(prepared) == 1
    for seed, one in enumerate(joined):
        (alone,) = place.learn(how, [np.random.RandomState(seed)])
        np.testing.assert_array_equal(one.anchors[0], alone.anchors[0])
