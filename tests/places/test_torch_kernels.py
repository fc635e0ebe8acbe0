"""The kernels in CUDA C++ without a GPU: compiled for the CPU, where they take tensors too."""

import shutil
from functools import partial
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cuda_on_cpu import kernels_on_cpu
from omcal.method import kmeans
from omcal.method.graph import RelativeDistances
from omcal.method.inner_products import InnerProducts
from omcal.method.new_samples import GraphModel
from omcal.method.rows import decide as host_decide
from omcal.method.rows import zero_tolerance
from omcal.method.scaling import Scaling
from omcal.method.updates import fixed_point, stack_by_view
from omcal.method.vectors import Vectors
from omcal.places.gpu import (
    cuda,
    cuda_graphs,
    cuda_kmeans,
    cuda_views,
    graph,
    nvrtc,
    plain_pass,
)
from omcal.places.gpu.graph import TorchGraphs, index_type, relative_distances
from omcal.places.gpu.plain_pass import PlainPass, second
from omcal.places.gpu.plain_pass import decide as plain_decide
from omcal.places.gpu.views import DeviceViews
from plain_rows import PlainRows, random_graphs
from torch_cases import host_views, torch

pytestmark = [
    pytest.mark.process,  # the compiler's
    pytest.mark.skipif(shutil.which("g++") is None, reason="there is no g++ here"),
]


@pytest.fixture
def on_cpu():
    with kernels_on_cpu():
        yield torch.device("cpu")


def graphs_of(seed, n, V, m, k, dtype):
    host = random_graphs(np.random.default_rng(seed), n, V, m, k, dtype)
    return host, TorchGraphs.from_host(host, torch.device("cpu"))


def check_sweep(n, V, c, m, k, dtype):
    """Two passes."""
    host, graphs = graphs_of(n, n, V, m, k, dtype)
    plain, rng = PlainRows(host, c), np.random.default_rng(n)
    F = torch.zeros((n, c), dtype=graphs.weights.dtype)
    width = max(16, c)
    sweep = cuda.CudaSweep(graphs, F, width)
    close = 1e-12 if dtype == np.float64 else 2e-5
    for _ in range(2):
        alpha, P, R = rng.dirichlet(np.ones(V)), rng.normal(size=(m, c)), 0.1 * rng.random((c, c))
        small = np.zeros((V * m + width, width), dtype)
        small[: V * m, :c], small[V * m : V * m + c, :c] = stack_by_view(alpha, P), R
        wanted = np.concatenate([part.ravel() for part in plain.sweep(alpha, P, R)])
        found = sweep.sweep(torch.from_numpy(small)).numpy()
        np.testing.assert_allclose(found, wanted, rtol=0, atol=close * np.abs(wanted).max())
        np.testing.assert_allclose(F.numpy(), plain.F, atol=10 * close)


@pytest.mark.parametrize(
    ("n", "V", "c", "m", "k", "dtype"),
    [
        (9000, 2, 4, 6, 2, np.float64),  # a block empties its table before its last row
        (2200, 4, 10, 20, 5, np.float64),
        (65, 3, 16, 17, 3, np.float32),
        (40, 1, 7, 9, 2, np.float64),
        (70, 2, 3, 300, 3, np.float32),  # anchors of two bytes
        (101, 3, 10, 12, 5, np.float32),  # as by default
        (77, 12, 2, 9, 5, np.float32),  # more neighbours than registers
        (50, 5, 13, 8, 4, np.float64),
        (33, 3, 1, 6, 1, np.float32),
        (90, 2, 20, 25, 3, np.float32),  # a lane a column
        (45, 1, 32, 33, 2, np.float64),
        (80, 3, 10, 400, 2, np.float32),  # more anchors than there is room for copies of
        (40, 3, 17, 301, 2, np.float32),  # odd numbers of all that has a place in memory
    ],
)
def test_sweep(on_cpu, monkeypatch, n, V, c, m, k, dtype):
    monkeypatch.setattr(nvrtc, "processors", lambda device: 1)
    check_sweep(n, V, c, m, k, dtype)


@settings(max_examples=4, deadline=None)
@given(st.data())
def test_sweep_of_any_shape(data):
    """Also where tables and registers are emptied often, and where there is no room for copies."""
    V, c, k = (data.draw(st.integers(*ends)) for ends in ((1, 6), (1, 32), (1, 6)))
    m, n = data.draw(st.integers(max(c, k), 60)), data.draw(st.integers(1, 400))
    dtype = data.draw(st.sampled_from([np.float32, np.float64]))
    with kernels_on_cpu(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(cuda, "_MOST_ADDED", data.draw(st.sampled_from([10, 100, 4096])))
        patch.setattr(cuda, "_ROWS_A_LANE", data.draw(st.sampled_from([1, 4096])))
        patch.setattr(nvrtc, "processors", lambda device: 1)
        if data.draw(st.booleans()):
            patch.setattr(nvrtc, "room", lambda device: 0)
        check_sweep(n, V, c, m, k, dtype)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("size", [10.0, 300.0])
def test_sweep_of_large_numbers(on_cpu, size, dtype):
    """F that a sample of it does not tell of is added up, too, and beyond all bounds it is told."""
    host, graphs = graphs_of(0, 3000, 2, 12, 3, dtype)
    plain, rng = PlainRows(host, 5), np.random.default_rng(0)
    rows = rng.choice(3000, 20, replace=False)  # of which hardly one is in the sample
    plain.F[rows] = size * rng.random((20, 5))
    F = torch.from_numpy(plain.F.astype(dtype))
    sweep = cuda.CudaSweep(graphs, F, 16)
    alpha, P, R = np.array([0.3, 0.7]), rng.normal(size=(12, 5)), 0.5 * np.eye(5)
    small = np.zeros((2 * 12 + 16, 16), dtype)
    small[:24, :5], small[24:29, :5] = stack_by_view(alpha, P), R
    wanted = np.concatenate([part.ravel() for part in plain.sweep(alpha, P, R)])
    found = sweep.sweep(torch.from_numpy(small)).numpy()
    close = 1e-12 if dtype == np.float64 else 2e-6
    np.testing.assert_allclose(found, wanted, rtol=0, atol=close * np.abs(wanted).max())
    F[rows[0]] = 1e12
    assert np.isnan(sweep.sweep(torch.from_numpy(small)).numpy()[: 24 * 5]).all()


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_sums_as_large_as_can_be(on_cpu, monkeypatch, dtype):
    """All rows have the largest F, and all of it goes to one anchor."""
    monkeypatch.setattr(nvrtc, "processors", lambda device: 1)
    n, c = 5000, 17  # one copy of the sums
    ones = torch.from_numpy(np.ones((1, 1, n), dtype))
    graphs = TorchGraphs(torch.zeros((1, 1, n), dtype=torch.uint8), ones, c)
    small = np.zeros((c + 32, 32), dtype)
    small[0, :c] = 1
    F = torch.zeros((n, c), dtype=ones.dtype)
    found = cuda.CudaSweep(graphs, F, 32).sweep(torch.from_numpy(small)).numpy()
    np.testing.assert_allclose(found[:c], n, rtol=1e-6 if dtype == np.float32 else 1e-14)
    assert not found[c : c * c].any()
    assert F.eq(1).all()


def test_a_small_gpu_has_fewer_warps_at_work(monkeypatch):
    _, graphs = graphs_of(0, 50, 3, 100, 5, np.float32)
    F = torch.zeros((50, 10))
    layouts = []
    for room in (227 << 10, 99 << 10, 64 << 10, 40 << 10):
        monkeypatch.setattr(nvrtc, "room", lambda device, room=room: room)
        assert cuda.in_shared_memory(graphs, F)
        layouts.append(cuda._Layout.of(graphs, F))
        assert layouts[-1].bytes <= room
    assert [(one.apart, one.warps) for one in layouts] == [
        (True, 12),
        (False, 12),
        (False, 8),
        (False, 4),
    ]
    monkeypatch.setattr(nvrtc, "room", lambda device: 20 << 10)
    assert not cuda.in_shared_memory(graphs, F)


@pytest.mark.parametrize(
    ("n", "V", "c", "m", "k", "dtype"),
    [
        (300, 2, 40, 50, 3, np.float32),
        (70, 1, 65, 70, 5, np.float64),
        (9, 3, 2, 300, 1, np.float32),  # anchors of two bytes
    ],
)
@pytest.mark.parametrize("copies", [1, 1 << 20])
def test_a_pass_that_adds_up_in_device_memory(on_cpu, monkeypatch, copies, n, V, c, m, k, dtype):
    """Of two runs, of which one may stand still."""
    monkeypatch.setattr(cuda, "_SUMS_BYTES", copies)
    monkeypatch.setattr(cuda, "_SPREAD_THREADS", 32)
    host, graphs = zip(*(graphs_of(n + b, n, V, m, k, dtype) for b in range(2)), strict=True)
    both = (torch.stack([getattr(g, name) for g in graphs]) for name in ("indices", "weights"))
    plain, rng = [PlainRows(g, c) for g in host], np.random.default_rng(n)
    F = torch.zeros((2, n, c), dtype=graphs[0].weights.dtype)
    sweep = cuda.SpreadSweep(TorchGraphs(*both, m), F)
    sums = torch.zeros((2, V * m * c + 2 * c * c), dtype=torch.float64)
    close = 1e-12 if dtype == np.float64 else 2e-5
    for on in ([1.0, 1.0], [0.0, 1.0]):
        alpha, P, R = rng.dirichlet(np.ones(V)), rng.normal(size=(m, c)), rng.random((c, c)) / c
        small = np.concatenate([stack_by_view(alpha, P), R]).astype(dtype)
        small = torch.from_numpy(np.stack([small, small]))
        before = sums[0].clone()
        sweep.bound(small, sums, torch.tensor(on))()
        for b in range(2):
            if not on[b]:
                assert torch.equal(sums[b], before)
                continue
            wanted = np.concatenate([part.ravel() for part in plain[b].sweep(alpha, P, R)])
            atol = close * np.abs(wanted).max()
            np.testing.assert_allclose(sums[b].numpy(), wanted, rtol=0, atol=atol)
        for b in range(2):
            np.testing.assert_allclose(F[b].numpy(), plain[b].F, atol=10 * close)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "m", "k"), [(50, 300, 5), (33, 20, 19), (7, 3, 1)])
def test_selection_of_the_nearest(dtype, n, m, k):
    """Of equal distances the first, and even shares where all are equal."""
    rng = np.random.default_rng(m)
    products = rng.integers(-9, 9, size=(n, m)).astype(dtype)  # many are equal
    products[0] = 1  # all are
    products[1, 0] = np.nan
    bias = rng.integers(-3, 3, size=m).astype(dtype)
    bias[: m // 2] = 0
    distances = products + bias
    order = np.argsort(distances[2:], axis=1, kind="stable")[:, : k + 1]
    nearest = np.take_along_axis(distances[2:], order, axis=1)
    gaps = nearest[:, -1:] - nearest[:, :-1]
    total = gaps.sum(axis=1, keepdims=True)
    shares = np.where(total > 0, gaps / np.where(total > 0, total, 1), 1 / k)
    kinds = (index_type(m), torch.from_numpy(products).dtype)
    indices, weights = (torch.zeros((k, n), dtype=kind) for kind in kinds)
    search = graph._ByProducts(torch.eye(m, dtype=kinds[1]), torch.from_numpy(bias), 1e-6, 3.0)
    search(torch.from_numpy(products), indices, weights)
    np.testing.assert_array_equal(indices.numpy().T[2:], order[:, :k])
    np.testing.assert_allclose(weights.numpy().T[2:], shares, rtol=1e-6)
    assert weights[:, 1].isnan().all()


@pytest.mark.parametrize("most", [1 << 22, 300])
@pytest.mark.parametrize("room", [227 << 10, 1000])
def test_gram(on_cpu, monkeypatch, room, most):
    """In shared memory, and where it does not fit there; also of more rows than a block may add."""
    monkeypatch.setattr(nvrtc, "room", lambda device: room)
    monkeypatch.setattr(cuda, "_MOST_FIXED", most)
    monkeypatch.setattr(cuda, "_GRAM_THREADS", 64)
    host, graphs = zip(
        *(graphs_of(seed, 3100, 3, 12, 4, np.float32) for seed in (0, 1)), strict=True
    )
    both = (torch.stack([getattr(g, name) for g in graphs]) for name in ("indices", "weights"))
    wanted = [PlainRows(g, 2).gram().swapaxes(1, 2).reshape(36, 36) for g in host]
    for found, some in ((TorchGraphs(*both, 12), wanted), (graphs[0], wanted[:1])):
        F = torch.zeros((*found.indices.shape[:-3], 3100, 2))
        StS = cuda.CudaPass(found, F).gram()
        np.testing.assert_allclose(StS.numpy(), some, atol=3100 * 2.0**-41)


@pytest.mark.parametrize(
    ("V", "c", "m", "dtype"), [(3, 10, 20, np.float32), (1, 30, 40, np.float64)]
)
def test_decide(on_cpu, V, c, m, dtype):
    host, graphs = graphs_of(c, 150, V, m, 3, dtype)
    rng, plain = np.random.default_rng(c), PlainRows(host, c)
    alpha, P, G = rng.dirichlet(np.ones(V)), rng.normal(size=(m, c)) - 0.3, rng.normal(size=(m, c))
    P[: m // 3] = 0  # rows without a word of their own
    A = rng.normal(size=(c, c))
    P[m // 3 :, 1] += 1.0
    for M in (P.T, G.T, A):  # columns 1 and 2 are equal but for rounding
        M[2] = M[1]
    P[m // 3 :, 2] += 1e-7
    G[:, 2] += 1e-7
    R = 0.9 * A @ A.T / np.linalg.norm(A @ A.T, 2)
    scale = float(np.abs(P).max())
    limit = zero_tolerance(scale)
    on_device = [torch.from_numpy(stack_by_view(alpha, M).astype(dtype)) for M in (P, G)]
    decide = partial(cuda.Decision, on_device[0], torch.from_numpy(R), on_device[1], limit, c)
    F = torch.empty((150, c), dtype=graphs.weights.dtype)
    labels, undecided = (
        torch.full((150,), -1, dtype=torch.int32),
        torch.zeros((), dtype=torch.int32),
    )
    decide(settles=True)(graphs, F=F, labels=labels, undecided=undecided)
    U, AG = fixed_point(plain.times(alpha, P), R), plain.times(alpha, G)
    uninformative = np.abs(U).max(axis=1) <= limit
    wanted = host_decide(U, lambda some: AG[some], scale, runner_up=True)
    assert 1 in wanted.labels and 2 not in wanted.labels and 2 in U.argmax(axis=1)
    np.testing.assert_allclose(
        F.numpy(), np.maximum(U, 0), atol=1e-6 if dtype == np.float32 else 1e-9
    )
    np.testing.assert_array_equal(labels.numpy(), wanted.labels)
    assert undecided.item() == np.count_nonzero(uninformative | (U.max(axis=1) <= 0))
    again, *runners_up = decide(settles=True).labels(graphs, runner_up=True)
    assert torch.equal(again, labels)
    assert not torch.eq(runners_up[0], labels).any()
    for found, plainly in zip(runners_up, second(F, labels), strict=True):
        assert torch.equal(found, plainly)
    np.testing.assert_allclose(runners_up[1].numpy(), wanted.share, atol=1)
    for kind in (torch.float32, torch.float64):  # without the kernel
        plainly, number = plain_decide(*(torch.from_numpy(M).to(kind) for M in (U, AG)), limit)
        np.testing.assert_array_equal(plainly.numpy(), wanted.labels)
        assert number.item() == undecided.item()
    # One step from an F that is given.
    before = F.double().numpy()
    decide(settles=False)(graphs, F=F, labels=labels)
    U = plain.times(alpha, P) + before @ R
    np.testing.assert_allclose(F.numpy(), np.maximum(U, 0), atol=1e-6)


@pytest.mark.parametrize(
    ("n", "d", "m", "k", "kind"),
    [(70, 36, 100, 5, "float32"), (50, 30, 17, 3, "float16"), (40, 300, 150, 2, "bfloat16")],
)
def test_nearest(on_cpu, n, d, m, k, kind):
    rng = np.random.default_rng(d)
    X = torch.from_numpy(rng.normal(size=(n, d)) + 1).to(getattr(torch, kind))
    W, bias = (rng.normal(size=size).astype(np.float32) for size in ((d, m), m))
    W[:, m // 2], bias[m // 2] = W[:, 0], bias[0]  # an anchor twice
    given = (torch.from_numpy(W), torch.from_numpy(bias), 1e-6, float(np.abs(bias).max()))
    nearest = cuda_graphs.NearestAnchors(*given)
    indices, weights = torch.zeros((k, n), dtype=torch.uint8), torch.zeros((k, n))
    nearest(X, indices, weights)
    distances = X.double().numpy() @ W.astype(np.float64) + bias
    order = np.argsort(distances, axis=1, kind="stable")[:, : k + 1]
    found = np.take_along_axis(distances, order, axis=1)
    wanted = found[:, -1:] - found[:, :-1]
    np.testing.assert_array_equal(indices.numpy().T, order[:, :k])
    np.testing.assert_allclose(
        weights.numpy().T, wanted / wanted.sum(axis=1, keepdims=True), atol=1e-4
    )


@pytest.mark.parametrize("kind", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("cuts", [(), (40,), (1, 700)])
def test_moments(on_cpu, kind, cuts):
    rng = np.random.default_rng(len(cuts))
    X = torch.from_numpy(3 * rng.normal(size=(70, 771)) + 100).to(getattr(torch, kind)).T
    blocks = torch.tensor_split(X, cuts)
    mean, squares = cuda_views.moments(blocks).numpy().reshape(2, -1)
    wide = X.double().numpy()
    np.testing.assert_allclose(mean, wide.mean(axis=0), rtol=1e-14)
    np.testing.assert_allclose(squares, 771 * wide.var(axis=0), rtol=1e-11)


@pytest.mark.parametrize("far", [0.0, 1e6])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_what_distances_are_made_of(far, dtype):
    rng = np.random.default_rng(0)
    X = (rng.normal(size=(9, 150)) + far).astype(dtype)
    factor = np.append(rng.uniform(0.5, 2, size=149), 0.0)  # the last is constant
    scalings = [Scaling(center=X.mean(axis=0, dtype=np.float64), factor=factor), Scaling()]
    runs = [
        GraphModel(scalings, [rng.normal(size=(7, 150)), X[:7].astype(np.float64) + run], 3)
        for run in range(2)
    ]
    views = host_views([X, X])
    found = relative_distances(DeviceViews(views, torch.device("cpu")), runs)
    for v, of_view in enumerate(found):
        for run, learned in enumerate(runs):
            wanted = RelativeDistances(views[v], scalings[v], learned.anchors[v])
            np.testing.assert_allclose(of_view.W[run], wanted._W[:, :7], rtol=1e-5, atol=1e-7)
            largest = np.abs(wanted.bias).max()
            np.testing.assert_allclose(of_view.bias[run], wanted.bias, atol=1e-6 * largest)
            np.testing.assert_allclose(of_view.largest_bias[run], largest, rtol=1e-6)
            assert (of_view.origin[run] is None) == (wanted.origin is None)
            assert (wanted.origin is not None) == (far > 0 and dtype == np.float32)
            if wanted.origin is not None:
                np.testing.assert_allclose(of_view.origin[run], wanted.origin, rtol=1e-6)


@pytest.mark.parametrize("shared", [True, False])
@pytest.mark.parametrize(("n", "c"), [(300, 20), (65, 7), (9, 1)])
def test_seed(on_cpu, monkeypatch, n, c, shared):
    monkeypatch.setattr(cuda_kmeans, "_THREADS", 64)
    rng, runs = np.random.default_rng(n), 3
    X, firsts = rng.normal(size=(1 if shared else runs, n, 3)), rng.integers(n, size=runs)
    draws = rng.uniform(size=(runs, c - 1, 4))
    found = cuda_kmeans.seed(*(torch.from_numpy(X), c), *map(torch.from_numpy, (firsts, draws)))
    for b, first in enumerate(firsts):
        numbers = iter([np.array((first + 0.5) / n), *draws[b]])
        state = SimpleNamespace(uniform=lambda size=None, numbers=numbers: next(numbers))
        points = InnerProducts(X[0 if shared else b])
        assert found[b].tolist() == kmeans._seed(points, c, 4, state)


@pytest.mark.parametrize(
    ("runs", "n", "d", "m", "dtype"),
    [
        (2, 300, 5, 9, np.float64),
        (3, 70, 20, 20, np.float32),
        (1, 40, 1, 1, np.float64),
        (2, 60, 150, 4, np.float64),  # more columns than threads
    ],
)
@pytest.mark.parametrize("tolerance", [kmeans.TOLERANCE, 0.1])
def test_lloyd(on_cpu, monkeypatch, tolerance, runs, n, d, m, dtype):
    """Each run comes to rest by itself, or where its centres hardly move."""
    monkeypatch.setattr(kmeans, "TOLERANCE", tolerance)
    X = np.random.default_rng(n).normal(size=(runs, n, d)).astype(dtype)
    centres, points = torch.from_numpy(X[:, :m].copy()), [Vectors(of_run) for of_run in X]
    limits = torch.tensor([kmeans.TOLERANCE * part.spread for part in points])
    iterate = cuda_kmeans.Lloyd(torch.from_numpy(X), centres, limits)
    for _ in range(30):
        iterate()
    for b in range(runs):
        wanted = kmeans._improved(X[b, :m], points[b], m, 30)
        close = 1e-12 if dtype == np.float64 else 1e-5
        np.testing.assert_allclose(centres[b].numpy(), wanted, atol=close)
    assert not iterate.empty.any()


def test_lloyd_tells_of_an_empty_cluster(on_cpu):
    X = torch.tensor([[0.0], [0.1], [0.2], [5.0], [9.0]]).repeat(2, 1, 1)
    centres = torch.tensor([[[0.1], [6.0]], [[0.1], [100.0]]])
    iterate = cuda_kmeans.Lloyd(X, centres, torch.tensor([1e-9, 1e-9]))
    iterate()
    assert iterate.empty.tolist() == [0, 1]


@pytest.mark.parametrize("entries", [1 << 18, 100])
def test_products_of_dense_blocks(monkeypatch, entries):
    monkeypatch.setattr(plain_pass, "block_entries", lambda device: entries)
    host, graphs = graphs_of(1, 500, 2, 9, 3, np.float64)
    found = PlainPass(graphs, torch.zeros((500, 2), dtype=torch.float64)).gram()[0].numpy()
    wanted = PlainRows(host, 2).gram().swapaxes(1, 2).reshape(18, 18)
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("answers", "waits"), [([0], 0), ([201, 0], 1)])
def test_a_thread_that_the_driver_does_not_know_is_made_known(monkeypatch, answers, waits):
    kernel, given, waited = object.__new__(nvrtc.Kernel), iter(answers), []
    kernel._function, kernel._device = None, SimpleNamespace(index=0)
    driver = SimpleNamespace(cuLaunchKernel=lambda *launch: next(given))
    stream = SimpleNamespace(synchronize=lambda: waited.append(1))
    monkeypatch.setattr(nvrtc, "_driver", lambda: driver)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: 0, raising=False)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda device: stream)
    kernel.bound((1, 1), 32, 0)()
    assert len(waited) == waits
    assert next(given, None) is None
