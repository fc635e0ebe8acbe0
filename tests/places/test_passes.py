"""Every way to do the pass over the rows against a plain one, over all shapes that come up.

On a GPU this is run first of all by `benchmarks/gpu.py`.
"""

from unittest import mock

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import GraphModel
from omcal.method.rows import zero_tolerance
from omcal.method.scaling import Scaling
from omcal.places.gpu import nvrtc
from omcal.places.gpu.rows import TorchRows
from omcal.places.memory import MemoryRows
from omcal.views.present import stand_in, stand_ins
from plain_rows import PlainRows, random_graphs

TILES = (1, 32, 64, 128, 512, 2048, 8192)  # rows that some way takes at a time
CLOSE = {np.float32: 2e-5, np.float64: 1e-12}


@st.composite
def shapes(draw):
    """(n, V, c, m, k): samples, views, clusters, anchors, neighbours."""
    V, c = draw(st.integers(1, 12)), draw(st.integers(2, 64))
    # Indices of one, two and four bytes; of the last, small matrices only.
    numbers = [st.integers(c, 256), st.integers(257, 1000), st.just(40_000)]
    m = draw(st.one_of(*numbers[: 3 if V * c <= 24 else 2]))
    k = draw(st.integers(1, min(20, m)))
    n = max(1, draw(st.sampled_from(TILES)) + draw(st.integers(-2, 2)))
    most = min(300_000 // (V * k * c), 3_000_000 // (V * m))  # so that an example takes no second
    return min(n, max(1, most)), V, c, m, k


def on_gpu(way):
    """Rows on the first GPU whose pass is written in CUDA C++, or is PyTorch's own."""

    def make(graphs, n_clusters):
        # Few blocks of threads have many rows each, as with millions of rows.
        with mock.patch.object(nvrtc, "processors", return_value=1):
            return TorchRows.from_graphs(graphs, n_clusters, "cuda", fused=way == "CUDA")

    return make


def made_by(way):
    """(graphs, n_clusters) -> rows, or a skip where there is no such way here."""
    if way == "SciPy":
        return MemoryRows
    if way == "Numba":
        pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
        return lambda graphs, c: MemoryRows(graphs, c, compiled=True)
    torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
    if way == "PyTorch":
        return lambda graphs, c: TorchRows.from_graphs(graphs, c, fused=False)
    if not torch.cuda.is_available():
        pytest.skip("there is no CUDA GPU here")
    return on_gpu(way.removesuffix(" on a GPU"))


def check(make, graphs, c, seed):
    """Three passes, the labels after them, and SᵀS where it is small."""
    rng = np.random.default_rng(seed)
    V, m = graphs.n_views, graphs.n_anchors
    close = CLOSE[graphs.weights.dtype.type]
    rows, plain = make(graphs, c), PlainRows(graphs, c)
    if V * m <= 600 and len(plain.slots) <= 60:
        # In fixed point a product has 40 bits.
        atol = 1e-12 + graphs.n * 2.0**-41
        np.testing.assert_allclose(rows.gram(), plain.gram(), rtol=1e-12, atol=atol)
    alpha = rng.dirichlet(np.ones(V))
    for _ in range(3):
        P, R = rng.normal(size=(m, c)), 0.3 * rng.normal(size=(c, c)) / c
        sums = rows.sweep(alpha, P, R)
        for name, wanted in zip(("StF", "FtF", "FoldtF"), plain.sweep(alpha, P, R), strict=True):
            atol = close * max(1.0, np.abs(wanted).max())
            np.testing.assert_allclose(getattr(sums, name), wanted, rtol=0, atol=atol, err_msg=name)
        F = rows.F if isinstance(rows.F, np.ndarray) else rows.F.cpu().numpy()
        np.testing.assert_allclose(F, plain.F, rtol=0, atol=10 * close)
    U = plain.assign(alpha, P, R)
    labels = rows.assign(alpha, P, R, np.eye(m, c)).labels
    chosen = np.take_along_axis(U, labels[:, None], axis=1)[:, 0]
    # Of entries that are equal to rounding in float32 the first is taken.
    slack = 10 * close + zero_tolerance(float(np.abs(P).max()))
    assert (chosen >= U.max(axis=1) - slack).all()


# The compiled ways are compiled anew for most shapes, which takes about a second.
EXAMPLES = {
    "SciPy": 15,
    "Numba": 3,
    "PyTorch": 15,
    "PyTorch on a GPU": 15,
    "CUDA": 40,
}

WAYS = [
    pytest.param(
        way, marks={"SciPy": [], "Numba": [pytest.mark.long]}.get(way, [pytest.mark.torch])
    )
    for way in EXAMPLES
]


@pytest.mark.parametrize("way", WAYS)
def test_every_pass_is_the_plain_one(way):
    make = made_by(way)

    @settings(
        max_examples=EXAMPLES[way],
        deadline=None,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow],
    )
    @given(shapes(), st.sampled_from([np.float32, np.float64]), st.integers(0, 2**32))
    def compare(shape, dtype, seed):
        n, V, c, m, k = shape
        graphs = random_graphs(np.random.default_rng(seed), n, V, m, k, dtype)
        check(make, graphs, c, seed)

    compare()


@pytest.mark.slow
@pytest.mark.parametrize("way", [way for way in WAYS if way.values != ("Numba",)])
@pytest.mark.parametrize(("V", "c"), [(4, 10), (5, 10), (3, 12), (3, 16), (6, 7), (7, 5), (8, 10)])
def test_views_that_do_not_fill_a_round(way, V, c):
    """A warp takes 32 // c views at a time; in the last round some of its lanes have none."""
    make = made_by(way)
    graphs = random_graphs(np.random.default_rng(), 3001, V, 20, 5, np.float64)
    check(make, graphs, c, seed=None)


def plain_graphs(X, scalings, anchors, present, k):
    """Eq. 2 as it is written down, and how much rounding moves the weights of each row."""
    n, V, m = len(X[0]), len(X), len(anchors[0])
    indices, weights = np.zeros((n, V, k), np.intp), np.zeros((n, V, k))
    loose = np.zeros((n, V))
    for v, (x, how, A) in enumerate(zip(X, scalings, anchors, strict=True)):
        d = np.square(((x - how.center) * how.factor)[:, None] - A).sum(axis=2)
        order = np.argsort(d, axis=1, kind="stable")[:, : k + 1]
        near = np.take_along_axis(d, order, axis=1)
        gaps = near[:, -1:] - near[:, :-1]
        total = gaps.sum(axis=1, keepdims=True)
        indices[:, v], weights[:, v] = order[:, :k], gaps / total
        loose[:, v] = d.max(axis=1) / total[:, 0]
    stand_in(indices, weights, present, stand_ins(anchors))
    S = np.zeros((n, V, m))
    np.put_along_axis(S, indices, weights, axis=2)
    return S.reshape(n, -1), loose.max(axis=1)


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("way", ["PyTorch", "PyTorch on a GPU"])
def test_graphs_of_views_with_gaps(way):
    """Of tensors of any type, and twice the same bits; then the passes over them."""
    made_by(way)  # or skip
    from omcal.places.gpu.graph import anchor_graphs
    from omcal.places.gpu.views import DeviceViews
    from torch_cases import tensor_views, torch

    device = torch.device("cuda", 0) if "GPU" in way else torch.device("cpu")

    @settings(max_examples=EXAMPLES[way], deadline=None, suppress_health_check=list(HealthCheck))
    @given(
        shapes().filter(lambda shape: shape[3] <= 1000),
        st.sampled_from([np.float16, np.float32, np.float64]),
        st.sampled_from([0.0, 0.01, 0.6]),
        st.integers(0, 2**32),
    )
    def compare(shape, dtype, missing, seed):
        n, V, c, m, k = shape
        rng, k = np.random.default_rng(seed), min(k, m - 1)
        widths = rng.integers(1, 40, size=V)
        X = [(rng.normal(size=(n, width)) + 1).astype(dtype) for width in widths]
        present = rng.random((n, V)) >= missing
        present[np.arange(n), rng.integers(V, size=n)] = True
        present[0] = True  # no view is without any sample
        with_gaps = [
            np.where(here[:, None], x, np.nan) for x, here in zip(X, present.T, strict=True)
        ]
        scalings = [
            Scaling(center=x.mean(axis=0, dtype=np.float64), factor=np.ones(x.shape[1])) for x in X
        ]
        anchors = [rng.normal(size=(m, width)) for width in widths]
        views = DeviceViews(tensor_views([x.astype(dtype) for x in with_gaps], device), device)
        graphs, again = (
            anchor_graphs(views, [GraphModel(scalings, anchors, k)]).of_run(0) for _ in range(2)
        )
        assert graphs.indices.equal(again.indices)
        assert graphs.weights.equal(again.weights)
        found = graphs.dense(slice(None), torch.float64).cpu().numpy()
        wide = [x.astype(np.float64) for x in X]
        wanted, loose = plain_graphs(wide, scalings, anchors, present, k)
        close = 1e-12 if dtype == np.float64 else 1e-5
        off = np.abs(found - wanted).max(axis=1)
        assert (off <= close * loose).all(), (off / loose).max()
        rows = TorchRows(graphs, c, fused=None if "GPU" in way else False)
        on_host = AnchorGraphs(
            graphs.indices.permute(2, 0, 1).cpu().numpy(),
            graphs.weights.permute(2, 0, 1).cpu().numpy(),
            m,
        )
        check(lambda *given: rows, on_host, c, seed)

    compare()


@pytest.mark.slow
@pytest.mark.parametrize("runner_up", [False, True])
def test_rows_without_a_positive_entry_are_decided_alike(runner_up):
    rng = np.random.default_rng(0)
    n, V, m, c = 700, 2, 20, 4
    graphs = random_graphs(rng, n, V, m, 5, np.float64)
    alpha, G = np.array([0.4, 0.6]), np.linalg.qr(rng.normal(size=(m, c)))[0]
    P = 0.1 * rng.normal(size=(m, c)) - 0.05
    P[:6] = 0  # rows near these alone are silent
    graphs.indices[:50] = np.arange(5)
    R = 0.05 * np.eye(c)
    found = []
    for compiled in (False, True):
        rows = MemoryRows(graphs, c, compiled=compiled)
        rows.sweep(alpha, P, R)
        found.append((rows.assign(alpha, P, R, G, runner_up=runner_up), rows.F))
    (plain, plain_F), (fast, fast_F) = found
    assert 50 < plain.n_undecided < n
    assert fast.n_undecided == plain.n_undecided
    np.testing.assert_array_equal(fast.labels, plain.labels)
    np.testing.assert_allclose(fast_F, plain_F, atol=1e-12)
    if runner_up:
        np.testing.assert_array_equal(fast.second, plain.second)
        np.testing.assert_array_equal(fast.share, plain.share)
