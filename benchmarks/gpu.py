"""The PyTorch backend on one device: right first, then how fast, and how far from the floor.

    python benchmarks/gpu.py --out gpu.json            # a CUDA GPU, under five minutes
    python benchmarks/gpu.py --device cpu --tiny       # a trial run anywhere

Data are made on the device and stay there. Times are medians of warm repeats, from a synchronised
clock around whole phases and from device events around kernels. A floor is the larger of bytes over
the measured copy bandwidth and operations over the measured rate of float32 products.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch

from omcal.anchors import choose_anchors as host_anchors
from omcal.graph import AnchorGraphs
from omcal.parallel import small_blas
from omcal.placement import GraphSettings, place_in_memory
from omcal.rows import _triton
from omcal.rows.memory import MemoryRows
from omcal.rows.torch import TorchRows
from omcal.scaling import Scaling
from omcal.solver import Problem, solve
from omcal.torch_fit import place_on_device
from omcal.torchbackend import views as device_views
from omcal.torchbackend.anchors import choose_anchors
from omcal.torchbackend.devices import working_on
from omcal.torchbackend.graph import TorchGraphs, anchor_graphs
from omcal.torchbackend.scaling import fit_scaling
from omcal.torchbackend.tensors import validate_tensors
from omcal.torchbackend.views import DeviceViews
from omcal.views import validate_views

N_ITER = 30
N_CLUSTERS = 10
K = 5


@dataclass(frozen=True)
class Case:
    """One shape of data."""

    name: str
    n: int
    widths: tuple[int, ...]
    m: int
    dtype: torch.dtype
    repeats: int

    @property
    def settings(self) -> GraphSettings:
        return GraphSettings(N_CLUSTERS, self.m, K, "feature", "kmeans")


CASES = [
    Case("10⁷ × (128, 256, 64) float32", 10**7, (128, 256, 64), 100, torch.float32, 5),
    Case("60000 × (342, 1024, 64) float32", 60_000, (342, 1024, 64), 30, torch.float32, 20),
    Case("10⁸ × 64 float16", 10**8, (64,), 100, torch.float16, 3),
]
TINY = [
    Case("4000 × (12, 25, 6) float32", 4000, (12, 25, 6), 40, torch.float32, 2),
    Case("6000 × 8 float16", 6000, (8,), 30, torch.float16, 2),
]


def main() -> None:
    """Check, measure, print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true", help="small data, for a trial run")
    parser.add_argument("--sweep", action="store_true", help="also time other settings")
    parser.add_argument("--out", type=Path, help="where the JSON file with all figures goes")
    options = parser.parse_args()
    device = torch.device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    result: dict[str, Any] = {"device": name, "torch": torch.__version__}
    with working_on(device):
        result["checks"] = check_all(device)
        result["ceilings"] = ceilings(device, options.tiny)
        print("ceilings:", result["ceilings"], flush=True)
        if options.sweep:
            result["sweep"] = sweep_settings(device, options.tiny)
        result["cases"] = {}
        for case in TINY if options.tiny else CASES:
            result["cases"][case.name] = measure(case, device, result["ceilings"])
            if options.out:
                options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False))
    print_tables(result)


# Clocks


def synchronize(device: torch.device) -> None:
    """Wait until the device has done what was asked of it."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def timed(device: torch.device, work: Callable[[], Any], repeats: int, warm: int = 1) -> float:
    """Median seconds of whole calls, the device's work included."""
    for _ in range(warm):
        work()
    times = []
    for _ in range(repeats):
        synchronize(device)
        start = time.perf_counter()
        work()
        synchronize(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def device_timed(device: torch.device, work: Callable[[], Any], repeats: int) -> float:
    """Median seconds between events before and after, without the wait of the host."""
    if device.type != "cuda":
        return timed(device, work, repeats)
    work()
    times = []
    for _ in range(repeats):
        before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        before.record()
        work()
        after.record()
        after.synchronize()
        times.append(before.elapsed_time(after) / 1e3)
    return statistics.median(times)


def ceilings(device: torch.device, tiny: bool) -> dict[str, float]:
    """Bytes a second of a copy, read and written, and operations a second of a float32 product."""
    size = 1 << (20 if tiny else 31)
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = device_timed(device, lambda: target.copy_(source), 20)
    side = 256 if tiny else 8192
    a, b = torch.randn((2, side, side), device=device)
    product = device_timed(device, lambda: a @ b, 10)
    # Thin like the products with the anchors, which no library runs at the rate of square ones.
    tall = torch.randn((side * 16, 256), device=device)
    few = torch.randn((256, 100), device=device)
    thin = device_timed(device, lambda: tall @ few, 10)
    return {
        "bytes_per_s": 2 * size / copy,
        "flops_per_s": 2 * side**3 / product,
        "thin_flops_per_s": 2 * tall.numel() * 100 / thin,
    }


# Checks


def check_all(device: torch.device) -> dict[str, Any]:
    """Compare with the CPU, and the fused pass with the plain one; stop where they differ."""
    found: dict[str, Any] = {}
    for dtype in (torch.float32, torch.float64):
        found[f"fit {dtype}"] = check_fit(device, dtype)
    fused = _triton.serves(device, N_CLUSTERS)
    found["fused"] = fused
    if fused:
        for n, V, m, c in ((100_003, 3, 100, 10), (50_001, 2, 300, 10), (20_001, 3, 30, 40)):
            for dtype in (np.float32, np.float64):
                for scattered in (False, True):
                    key = f"pass n={n} V={V} m={m} c={c} {dtype.__name__} scattered={scattered}"
                    found[key] = check_pass(device, (n, V, m, c), dtype, scattered)
    for name, value in found.items():
        print("check", name, value, flush=True)
    return found


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


def check_fit(device: torch.device, dtype: torch.dtype) -> dict[str, float]:
    """Labels and objective from the same anchors and start, against the CPU's."""
    tensors = clustered(30_000, (30, 50, 20), dtype, device, seed=1)
    arrays = [tensor.cpu().numpy() for tensor in tensors]
    host_views = validate_views(SimpleNamespace(), arrays)
    rng = np.random.RandomState(0)
    scalings = [Scaling.fit(view, "feature") for view in host_views]
    anchors = host_anchors(host_views, scalings, 60, "kmeans", rng)
    start = np.linalg.qr(rng.standard_normal((60, N_CLUSTERS)))[0]
    settings = GraphSettings(N_CLUSTERS, 60, K, "feature", anchors)
    host = run(place_in_memory(host_views, settings, rng), start)
    there = run(place(tensors, settings, device), start)
    labels = there[1].labels.cpu().numpy()
    same = float((labels == host[1].labels).mean())
    objective = abs(there[0].history[-1] / host[0].history[-1] - 1)
    assert same >= 0.9999, f"only {same:%} of the labels are those of the CPU"
    assert objective <= (1e-6 if dtype == torch.float32 else 1e-9), f"objective off by {objective}"
    return {"same_labels": same, "objective_off": objective}


def check_pass(
    device: torch.device, sizes: tuple[int, int, int, int], dtype: Any, scattered: bool
) -> dict[str, float]:
    """The fused pass against the plain one and the one in memory, on fresh random graphs."""
    n, V, m, c = sizes
    rng = np.random.default_rng()
    graphs = random_graphs(rng, n, V, m, dtype)
    with setting(_triton, "DENSE_ANCHORS", 0 if scattered else 1024):
        fused = TorchRows.from_graphs(graphs, c, device, fused=True)
        again = TorchRows.from_graphs(graphs, c, device, fused=True)
    plain = TorchRows.from_graphs(graphs, c, device, fused=False)
    host = MemoryRows(graphs, c)
    off = relative(fused.gram(), host.gram())
    limit = 1e-5 if dtype == np.float32 else 1e-11
    repeatable = True
    for _ in range(3):
        alpha = rng.dirichlet(np.ones(V))
        P, R = rng.normal(size=(m, c)), 0.3 * rng.normal(size=(c, c)) / c
        sums = [rows.sweep(alpha, P, R) for rows in (fused, again, plain, host)]
        for part in ("StF", "FtF", "FoldtF"):
            first, second, third, fourth = (getattr(s, part) for s in sums)
            off = max(off, relative(first, third), relative(first, fourth))
            repeatable &= bool((first == second).all())
        off = max(off, relative(fused.F.cpu().numpy(), host.F))
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    labels = [rows.assign(alpha, P, R, G).labels for rows in (fused, plain, host)]
    same = min(float((labels[0] == other).mean()) for other in labels[1:])
    assert off <= limit, f"the fused pass is off by {off}"
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
    off = float(np.linalg.norm(a - b) / np.linalg.norm(b))
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


# Measurements


def place(tensors: list[torch.Tensor], settings: GraphSettings, device: torch.device) -> Any:
    """Rows of these tensors on their device."""
    views = validate_tensors(SimpleNamespace(), tensors)
    return place_on_device(views, settings, np.random.RandomState(0), device)


def run(placed: Any, G: np.ndarray) -> tuple[Any, Any]:
    """All iterations from G, and the labels."""
    V = len(placed.anchors)
    problem = Problem(0.3, 0.1, "adaptive", np.full(V, 1 / V), N_ITER, tol=0.0)
    with small_blas(len(G)):
        solution = solve(placed.rows, placed.rows.gram(), G, problem)
    Z = solution.consensus
    return solution, placed.rows.assign(Z.alpha, *Z.f_step(), Z.G)


def measure(case: Case, device: torch.device, ceiling: dict[str, float]) -> dict[str, Any]:
    """Phases, whole fit, memory and k-means of one case."""
    tensors = clustered(case.n, case.widths, case.dtype, device)
    G = np.linalg.qr(np.random.default_rng(0).standard_normal((case.m, N_CLUSTERS)))[0]
    run(place(tensors, case.settings, device), G)  # compiles what is not compiled yet
    found: dict[str, Any] = {"n": case.n, "m": case.m}
    found["fit_s"] = timed(
        device, lambda: run(place(tensors, case.settings, device), G), case.repeats, warm=0
    )
    found |= memory(case, device, tensors, G)
    found["phases"] = phases(case, device, tensors, G, ceiling)
    found["kmeans_s"] = timed(device, lambda: kmeans(tensors), min(case.repeats, 3))
    print(case.name, json.dumps(found), flush=True)
    return found


def memory(
    case: Case, device: torch.device, tensors: list[torch.Tensor], G: np.ndarray
) -> dict[str, Any]:
    """Bytes of the input and the most beyond them during a fit."""
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if device.type != "cuda":
        return {"input_bytes": held}
    torch.cuda.empty_cache()
    before = torch.cuda.memory_allocated(device)
    torch.cuda.reset_peak_memory_stats(device)
    run(place(tensors, case.settings, device), G)
    beyond = torch.cuda.max_memory_allocated(device) - before
    return {"input_bytes": held, "beyond_bytes": beyond, "beyond_share": beyond / held}


def phases(
    case: Case,
    device: torch.device,
    tensors: list[torch.Tensor],
    G: np.ndarray,
    ceiling: dict[str, float],
) -> dict[str, dict[str, float]]:
    """Seconds of each phase and its floor."""
    views = DeviceViews(validate_tensors(SimpleNamespace(), tensors), device)
    scalings = [fit_scaling(view, "feature") for view in views]

    def anchors() -> Any:
        return choose_anchors(views, scalings, case.m, "kmeans", np.random.RandomState(0))

    chosen = anchors()
    graphs = anchor_graphs(views, scalings, chosen, K)
    rows = TorchRows(graphs, N_CLUSTERS, labels_on_host=False)
    V = len(tensors)
    alpha, R = np.full(V, 1 / V), 0.1 * np.eye(N_CLUSTERS)
    small = rows._send(alpha, G, R)
    repeats = case.repeats
    times = {
        "scaling": timed(device, lambda: [fit_scaling(v, "feature") for v in views], repeats),
        "anchors": timed(device, anchors, repeats),
        "graph": timed(device, lambda: anchor_graphs(views, scalings, chosen, K), repeats),
        "gram": timed(device, rows.gram, repeats),
        "pass, kernels": device_timed(device, lambda: rows._pass.sweep(small), 3 * repeats),
        "pass, to and fro": timed(device, lambda: rows.sweep(alpha, G, R), 3 * repeats),
        "labels": timed(device, lambda: rows.assign(alpha, G, R, G), repeats),
        "algebra of an iteration": algebra(rows, G, alpha),
    }
    floors = phase_floors(case, tensors, graphs, rows, ceiling)
    return {name: {"s": t, "floor_s": floors.get(name)} for name, t in times.items()}


def phase_floors(
    case: Case,
    tensors: list[torch.Tensor],
    graphs: TorchGraphs,
    rows: TorchRows,
    ceiling: dict[str, float],
) -> dict[str, float]:
    """The least seconds that bytes and operations allow."""
    size = lambda *ts: sum(t.numel() * t.element_size() for t in ts)  # noqa: E731
    data, graph, F = size(*tensors), size(graphs.indices, graphs.weights), size(rows.F)
    bytes_per_s, flops_per_s = ceiling["bytes_per_s"], ceiling["flops_per_s"]
    products = 2.0 * case.n * sum(case.widths) * case.m
    sweep = (graph + 2 * F) / bytes_per_s
    return {
        "scaling": data / bytes_per_s,
        "graph": max((data + graph) / bytes_per_s, products / flops_per_s),
        "gram": graph / bytes_per_s,
        "pass, kernels": sweep,
        "pass, to and fro": sweep,
        "labels": (graph + 2 * F + 4 * case.n) / bytes_per_s,
    }


def algebra(rows: TorchRows, G: np.ndarray, alpha: np.ndarray) -> float:
    """Seconds of what an iteration does on the host: the loop with sums that are at hand."""
    StS = rows.gram()
    sums = rows.sweep(alpha, G, np.zeros((N_CLUSTERS,) * 2))
    still: Any = SimpleNamespace(sweep=lambda alpha, P, R: sums)
    problem = Problem(0.3, 0.1, "adaptive", alpha, N_ITER, tol=-1.0)
    with small_blas(len(G)):
        whole = timed(torch.device("cpu"), lambda: solve(still, StS, G, problem), 5)
    return whole / N_ITER


def kmeans(views: list[torch.Tensor], n_clusters: int = 10, n_iter: int = N_ITER) -> torch.Tensor:
    """Lloyd's algorithm on all views together in plain PyTorch, by blocks, from random rows."""
    n, device = len(views[0]), views[0].device
    start = torch.randint(n, (n_clusters,), device=device)
    centres = [view[start].float() for view in views]
    labels = torch.empty(n, dtype=torch.int64, device=device)
    size = 1 << 20
    for _ in range(n_iter):
        norms = sum(c.square().sum(dim=1) for c in centres)
        sums = [torch.zeros_like(c) for c in centres]
        counts = torch.zeros(n_clusters, device=device)
        for top in range(0, n, size):
            rows = slice(top, top + size)
            blocks = [view[rows].float() for view in views]
            d = norms - 2 * sum(x @ c.T for x, c in zip(blocks, centres, strict=True))
            labels[rows] = d.argmin(dim=1)
            member = torch.zeros_like(d).scatter_(1, labels[rows, None], 1)
            for total, x in zip(sums, blocks, strict=True):
                total += member.T @ x
            counts += member.sum(dim=0)
        centres = [total / counts.clamp(min=1)[:, None] for total in sums]
    return labels


def sweep_settings(device: torch.device, tiny: bool) -> dict[str, Any]:
    """Seconds of the pass with either way to SᵀF, and of the graph by the size of its blocks."""
    n = 20_000 if tiny else 4_000_000
    found: dict[str, Any] = {}
    rng = np.random.default_rng(0)
    for m in (30, 100, 200, 300):
        graphs = TorchGraphs.from_host(random_graphs(rng, n, 3, m, np.float32), device)
        for way, limit in (("blocks of S", 1 << 20), ("scattered", 0), ("plain", None)):
            if limit is not None and not _triton.serves(device, N_CLUSTERS):
                continue
            with setting(_triton, "DENSE_ANCHORS", limit or 0):
                rows = TorchRows(graphs, N_CLUSTERS, fused=limit is not None)
            P = rng.normal(size=(m, N_CLUSTERS))
            small = rows._send(np.full(3, 1 / 3), P, 0.1 * np.eye(N_CLUSTERS))
            seconds = device_timed(device, lambda rows=rows, s=small: rows._pass.sweep(s), 5)
            found[f"pass n={n} m={m} {way}"] = seconds
    X = clustered(n, (128,), torch.float32, device)
    views = DeviceViews(validate_tensors(SimpleNamespace(), X), device)
    anchors = [rng.normal(size=(100, 128))]
    for bits in (14, 16) if tiny else (22, 23, 24, 25, 26):
        with setting(device_views, "block_entries", lambda device, bits=bits: 1 << bits):
            found[f"graph n={n} d=128 m=100 block=2^{bits}"] = timed(
                device, lambda: anchor_graphs(views, [Scaling()], anchors, K), 5
            )
    for name, seconds in found.items():
        print(f"sweep {name}: {seconds * 1e3:.3f} ms", flush=True)
    return found


def print_tables(result: dict[str, Any]) -> None:
    """Phases of each case, then one line a case."""
    for name, case in result["cases"].items():
        print(f"\n{name}, m = {case['m']}\n")
        print("| phase | ms | floor, ms | times the floor |\n|---|---|---|---|")
        for phase, t in case["phases"].items():
            floor = t["floor_s"]
            tail = f"{floor * 1e3:.3g} | {t['s'] / floor:.1f}" if floor else "– | –"
            print(f"| {phase} | {t['s'] * 1e3:.3g} | {tail} |")
    rates = result["ceilings"]
    print(
        f"\n{result['device']}, PyTorch {result['torch']}: copies {rates['bytes_per_s'] / 1e12:.2f} "
        f"TB/s, float32 products {rates['flops_per_s'] / 1e12:.1f} TFLOP/s; c = {N_CLUSTERS}, "
        f"k = {K}, {N_ITER} iterations.\n"
    )
    print("| data on the device | m | whole fit, ms | k-means, ms | memory beyond the input |")
    print("|---|---|---|---|---|")
    for name, case in result["cases"].items():
        share = f"{case['beyond_share']:.0%}" if "beyond_share" in case else "–"
        print(
            f"| {name} | {case['m']} | {case['fit_s'] * 1e3:.1f} | "
            f"{case['kmeans_s'] * 1e3:.1f} | {share} |"
        )


if __name__ == "__main__":
    main()
