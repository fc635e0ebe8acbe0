"""Data for the measurements of the PyTorch backend, and checks of it against the CPU."""

from __future__ import annotations

import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning

from omcal import OMCAL, Consensus
from omcal.machine.threads import small_blas
from omcal.method.anchors import choose_for_runs as host_anchors
from omcal.method.graph import AnchorGraphs
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem
from omcal.places.base import Place, Start
from omcal.places.choose import PlaceRequest
from omcal.places.gpu.iteration import solve_in_lockstep
from omcal.places.gpu.place import OnDevices
from omcal.places.gpu.rows import TorchRows
from omcal.places.memory import InMemory, MemoryRows
from omcal.views.reading import read_views

# Views and clusters that fill whole rounds of a warp's lanes, and such that do not.
ROUNDS = ((3, 10), (4, 10), (5, 10), (3, 12), (3, 16), (6, 7), (7, 5), (8, 10))
WIDTHS = (30, 50, 20, 10, 40, 15, 25, 35)
N_ITER = 30
N_CLUSTERS = 10
K = 5


def place(tensors: list[torch.Tensor], settings: GraphSettings, device: torch.device) -> Any:
    """Rows of these tensors on their device."""
    views = read_views(SimpleNamespace(), tensors)
    return made(OnDevices(views, PlaceRequest(str(device))), settings)


def made(place: Place, settings: GraphSettings) -> Any:
    """Rows as a fit makes them."""
    learned = place.learn(settings, [np.random.RandomState(0)])
    (rows,) = place.build(learned, settings)
    return rows


def run(rows: Any, G: np.ndarray, beta: float = 0.3) -> tuple[Any, Any]:
    """All iterations from G, and the labels."""
    StS = rows.gram()
    V = len(StS)
    problem = Problem(beta, 0.1, "adaptive", np.full(V, 1 / V), N_ITER, tol=0.0)
    start = Start(rows, StS, G, problem, lambda number, value: False)
    with small_blas(len(G)):
        (solution,) = solve_in_lockstep([start])
    Z = solution.consensus
    return solution, rows.assign(Z.alpha, *Z.f_step(), Z.G)


def check_all(device: torch.device) -> dict[str, Any]:
    """Compare with the CPU, and the fused pass with the plain one; raise where they differ."""
    found: dict[str, Any] = {}
    failed = []
    for name, check in _checks(device):
        try:
            found[name] = check()
        except AssertionError as error:
            failed.append(name)
            found[name] = f"FAILED: {error}"
        print("check", name, found[name], flush=True)
    assert not failed, f"failed: {', '.join(failed)}"
    return found


def _checks(device: torch.device) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Yield the name of each check and the function that does it."""
    cuda = device.type == "cuda"
    for sizes in ((100_003, 3, 100, 10), (50_001, 2, 300, 10), (20_001, 3, 60, 40)) if cuda else ():
        for real in (np.float32, np.float64):
            for fused in (True, False):
                name = "pass n={} V={} m={} c={}".format(*sizes)
                check = partial(check_pass, device, sizes, real, fused=fused)
                yield f"{name} {real.__name__} fused={fused}", check
    for m, c in ((100, 10), (200, 40)):  # roots by products; small steps by products
        for dtype in (torch.float32, torch.float64):
            yield f"fit m={m} c={c} {dtype}", partial(check_fit, device, dtype, 3, c, m)
    for m, beta in ((60, 2.0), (100, 2.0)):  # singular values are cut
        check = partial(check_fit, device, torch.float64, 3, 10, m, beta)
        yield f"fit m={m} beta={beta:g}", check
    for dtype in (torch.float32, torch.float64):
        yield f"ten joined runs {dtype}", partial(check_joined, device, dtype)
    for V, c in ROUNDS:
        for dtype in (torch.float32, torch.float64):
            yield f"fit V={V} c={c} {dtype}", partial(check_fit, device, dtype, V, c)
        yield f"predict V={V} c={c}", partial(check_predict, device, V, c)
    if cuda:
        yield "shapes", check_shapes


def check_shapes() -> str:
    """The tests of every pass over all shapes; the last line they print."""
    tests = Path(__file__).parents[1] / "tests" / "places" / "test_passes.py"
    ways = "GPU or CUDA"
    command = [sys.executable, "-m", "pytest", "-v", "-k", ways, str(tests)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.strip().splitlines()[-1]


def clustered(
    n: int, widths: tuple[int, ...], dtype: torch.dtype, device: torch.device, seed: int = 0
) -> list[torch.Tensor]:
    """Views with the same 20 overlapping groups, made block by block on the device."""
    generator = torch.Generator(device).manual_seed(seed)
    member = torch.randint(20, (n,), generator=generator, device=device)
    views = []
    for width in widths:
        centres = 1.5 * torch.randn((20, width), generator=generator, device=device)
        view = torch.empty((n, width), dtype=dtype, device=device)
        for start in range(0, n, 1 << 20):
            rows = slice(start, start + (1 << 20))
            noise = torch.randn((len(view[rows]), width), generator=generator, device=device)
            view[rows] = centres[member[rows]] + noise
        views.append(view)
    return views


def check_fit(
    device: torch.device, dtype: torch.dtype, V: int, c: int, m: int = 60, beta: float = 0.3
) -> dict[str, float]:
    """Labels and objective from the same anchors and start, against the CPU's."""
    tensors = clustered(30_000, WIDTHS[:V], dtype, device, seed=1)
    arrays = [tensor.cpu().numpy() for tensor in tensors]
    host_views = read_views(SimpleNamespace(), arrays)
    rng = np.random.RandomState(0)
    scalings = [Scaling.fit(view, "feature") for view in host_views]
    anchors = host_anchors(host_views, scalings, m, "kmeans", [rng])[0]
    start = np.linalg.qr(rng.standard_normal((m, c)))[0]
    settings = GraphSettings(c, m, K, "feature", anchors)
    host = run(made(InMemory(host_views, PlaceRequest()), settings), start, beta)
    there, again = (run(place(tensors, settings, device), start, beta) for _ in range(2))
    same = there[0].history == again[0].history and there[1].labels.equal(again[1].labels)
    assert same, f"V={V} c={c}: a second fit ends elsewhere"
    different = int((there[1].labels.cpu().numpy() != host[1].labels).sum())
    objective = abs(there[0].history[-1] / host[0].history[-1] - 1)
    assert different == 0, f"V={V} c={c}: {different} labels are not those of the CPU"
    limit = 1e-7 if dtype == torch.float32 else 1e-12
    assert objective <= limit, f"V={V} c={c}: the objective is off by {objective}"
    return {"different_labels": different, "objective_off": objective, "same_bits_twice": same}


def check_joined(device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Count the labels of ten joined runs that differ from those of the CPU."""
    tensors = clustered(10_000, (342, 1024, 64), dtype, device, seed=3)
    arrays = [tensor.cpu().numpy() for tensor in tensors]
    here = Consensus(OMCAL(10), random_state=0).fit_predict(arrays)
    there = Consensus(OMCAL(10), random_state=0).fit_predict(tensors)
    different = int((here != there).sum())
    limit = 100 if dtype == torch.float32 else 0  # k-means in float32 ends elsewhere by rounding
    assert different <= limit, f"{different} of 10000 labels are not those of the CPU"
    return {"different_labels": different}


def check_predict(device: torch.device, V: int, c: int) -> dict[str, float]:
    """Labels and F of new samples against the CPU's, by the same fitted model."""
    tensors = clustered(130_000, WIDTHS[:V], torch.float32, device, seed=2)
    arrays = [tensor.cpu().numpy() for tensor in tensors]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = OMCAL(c, n_anchors=60, max_iter=N_ITER, random_state=0)
        model.fit([x[:30_000] for x in arrays])
    different = int((model.predict(tensors).cpu().numpy() != model.predict(arrays)).sum())
    off = relative(model.transform(tensors).cpu().numpy(), model.transform(arrays))
    assert different <= 2, f"V={V} c={c}: {different} labels of new samples are not the CPU's"
    assert off <= 1e-5, f"V={V} c={c}: F of new samples is off by {off}"
    return {"different_labels": different, "F_off": off}


def check_pass(
    device: torch.device, sizes: tuple[int, int, int, int], dtype: Any, *, fused: bool
) -> dict[str, float]:
    """A pass by kernels or not against the plain one and the one in memory, on random graphs."""
    n, V, m, c = sizes
    rng = np.random.default_rng()
    graphs = random_graphs(rng, n, V, m, dtype)
    rows_here, again = (TorchRows.from_graphs(graphs, c, device, fused=fused) for _ in range(2))
    plain = TorchRows.from_graphs(graphs, c, device, fused=False)
    host = MemoryRows(graphs, c)
    off = relative(rows_here.gram(), host.gram())
    limit = 1e-5 if dtype == np.float32 else 1e-11
    repeatable = True
    for _ in range(3):
        alpha = rng.dirichlet(np.ones(V))
        P, R = rng.normal(size=(m, c)), 0.3 * rng.normal(size=(c, c)) / c
        sums = [rows.sweep(alpha, P, R) for rows in (rows_here, again, plain, host)]
        for part in ("StF", "FtF", "FoldtF"):
            first, second, third, fourth = (getattr(s, part) for s in sums)
            off = max(off, relative(first, third), relative(first, fourth))
            repeatable &= bool((first == second).all())
        off = max(off, relative(rows_here.F.cpu().numpy(), host.F))
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    labels = [rows.assign(alpha, P, R, G).labels for rows in (rows_here, plain, host)]
    same = min(float((labels[0] == other).mean()) for other in labels[1:])
    assert off <= limit, f"the pass is off by {off}"
    assert same >= 0.9999, f"only {same:%} of the labels are the same"
    return {"off": off, "same_labels": same, "same_bits_twice": repeatable}


def random_graphs(rng: np.random.Generator, n: int, V: int, m: int, dtype: Any) -> AnchorGraphs:
    """Anchors by chance, different ones in a row; weights that sum to 1."""
    first = rng.integers(m, size=(n, V, 1))
    steps = rng.integers(1, (m - 1) // K, size=(n, V, K)).cumsum(axis=2)
    weights = rng.dirichlet(np.ones(K), size=(n, V)).astype(dtype)
    return AnchorGraphs(((first + steps) % m).astype(np.min_scalar_type(m - 1)), weights, m)


def relative(a: Any, b: Any) -> float:
    """‖a − b‖ / ‖b‖, where NaN never passes."""
    off = float(np.linalg.norm(a - b)) / max(float(np.linalg.norm(b)), np.finfo(float).tiny)
    return off if np.isfinite(off) else float("inf")


@contextmanager
def setting(module: Any, name: str, value: Any) -> Any:
    """The module with another value for a while."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        yield
    finally:
        setattr(module, name, before)
