"""The PyTorch backend on one device: right first, then how fast, and how far from the floor.

    python benchmarks/gpu.py --out gpu.json            # a CUDA GPU, under five minutes
    python benchmarks/gpu.py --device cpu --tiny       # a trial run anywhere

Data are made on the device and stay there. Times are medians of warm repeats, between events of
the device before and after. A floor is the larger of bytes over the measured copy bandwidth and
operations over the measured rate of float32 products.
"""

from __future__ import annotations

import argparse
import gc
import json
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from gpu_checks import (
    N_CLUSTERS,
    N_ITER,
    K,
    check_all,
    clustered,
    place,
    random_graphs,
    run,
    setting,
)
from sklearn.exceptions import ConvergenceWarning
from speed import SIZES, clustered_views

from omcal import OMCAL, Consensus
from omcal.machine.threads import small_blas
from omcal.method.new_samples import GraphModel
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, solve
from omcal.places.base import Start
from omcal.places.gpu import views as device_views
from omcal.places.gpu.anchors import choose_for_runs
from omcal.places.gpu.devices import Repeated, resolve_device, working_on
from omcal.places.gpu.graph import TorchGraphs, anchor_graphs
from omcal.places.gpu.iteration import solve_in_lockstep
from omcal.places.gpu.rows import TorchRows
from omcal.places.gpu.scaling import fit_scalings
from omcal.places.gpu.views import DeviceViews
from omcal.views.reading import read_views


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


MANY_SAMPLES = (10**6, (64, 128, 256), 10)
FEW = 100_000  # samples that are also predicted from the memory of the host, and joined
CASES = [
    Case("10⁷ × (128, 256, 64) float32", 10**7, (128, 256, 64), 100, torch.float32, 7),
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
    parser.add_argument("--unchecked", action="store_true", help="figures alone, after a whole run")
    parser.add_argument("--sweep", action="store_true", help="also time other settings")
    parser.add_argument("--out", type=Path, help="where the JSON file with all figures goes")
    options = parser.parse_args()
    device = resolve_device(options.device)
    name = torch.cuda.get_device_name(device) if device.type == "cuda" else "CPU"
    result: dict[str, Any] = {"device": name, "torch": torch.__version__}
    with working_on(device):
        if not options.unchecked:
            result["checks"] = check_all(device)
        result["ceilings"] = ceilings(device, options.tiny)
        print("ceilings:", result["ceilings"], flush=True)
        if options.sweep:
            result["sweep"] = sweep_settings(device, options.tiny)
        result["sizes"] = usual_sizes(device, options.tiny)
        result["cases"] = {}
        for case in TINY if options.tiny else CASES:
            result["cases"][case.name] = measure(case, device, result["ceilings"])
            if options.out:
                options.out.write_text(json.dumps(result, indent=1, ensure_ascii=False))
    print_tables(result)


def timed(device: torch.device, work: Callable[[], Any], repeats: int) -> float:
    """Median seconds of calls, the device's work included; by its own events where it has them."""
    return spread(device, work, repeats)["s"]


def spread(device: torch.device, work: Callable[[], Any], repeats: int) -> dict[str, float]:
    """Median, least and most seconds of warm calls."""
    work()
    return _summary([_once(device, work) for _ in range(repeats)])


def _summary(times: list[float]) -> dict[str, float]:
    return {"s": statistics.median(times), "least_s": min(times), "most_s": max(times)}


def _once(device: torch.device, work: Callable[[], Any]) -> float:
    if device.type != "cuda":
        start = time.perf_counter()
        work()
        return time.perf_counter() - start
    torch.cuda.synchronize(device)
    before, after = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    before.record()
    work()
    after.record()
    after.synchronize()
    return before.elapsed_time(after) / 1e3


def ceilings(device: torch.device, tiny: bool) -> dict[str, float]:
    """Bytes a second of a copy, read and written, and over the bus; operations of a product."""
    size = 1 << (20 if tiny else 31)
    source = torch.randint(0, 255, (size,), dtype=torch.uint8, device=device)
    target = torch.empty_like(source)
    copy = timed(device, lambda: target.copy_(source), 20)
    side = 256 if tiny else 8192
    a, b = torch.randn((2, side, side), device=device)
    product = timed(device, lambda: a @ b, 10)
    # Thin like the products with the anchors, which no library runs at the rate of square ones.
    tall = torch.randn((side * 16, 256), device=device)
    few = torch.randn((256, 100), device=device)
    thin = timed(device, lambda: tall @ few, 10)
    locked = torch.empty(size // 4, dtype=torch.uint8, pin_memory=device.type == "cuda")
    bus = timed(device, lambda: target[: size // 4].copy_(locked, non_blocking=True), 10)
    return {
        "bytes_per_s": 2 * size / copy,
        "bus_bytes_per_s": size // 4 / bus,
        "flops_per_s": 2 * side**3 / product,
        "thin_flops_per_s": 2 * tall.numel() * 100 / thin,
    }


def measure(case: Case, device: torch.device, ceiling: dict[str, float]) -> dict[str, Any]:
    """Phases, whole fit, memory and k-means of one case."""
    tensors = clustered(case.n, case.widths, case.dtype, device)
    G = np.linalg.qr(np.random.default_rng(0).standard_normal((case.m, N_CLUSTERS)))[0]
    run(place(tensors, case.settings, device), G)  # compiles what is not compiled yet
    found: dict[str, Any] = {"n": case.n, "m": case.m}
    found["fit"] = spread(
        device, lambda: run(place(tensors, case.settings, device), G), case.repeats
    )
    found |= estimator(case, device, tensors)
    found |= memory(case, device, tensors, G)
    found["phases"] = phases(case, device, tensors, G, ceiling)
    found["kmeans_s"] = timed(device, lambda: kmeans(tensors), min(case.repeats, 3))
    print(case.name, json.dumps(found), flush=True)
    return found


def estimator(
    case: Case, device: torch.device, tensors: list[torch.Tensor]
) -> dict[str, dict[str, float]]:
    """Fit, predict and transform as a user calls them, and from the host where that is quick."""
    options = {"n_anchors": case.m, "n_neighbors": K, "max_iter": N_ITER, "random_state": 0}
    model = OMCAL(N_CLUSTERS, tol=0.0, **options)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        found = {"model.fit": spread(device, lambda: model.fit(tensors), case.repeats)}
        for name in ("predict", "transform"):
            work = partial(getattr(model, name), tensors)
            found[f"model.{name}"] = spread(device, work, case.repeats)
        if case.dtype == torch.float16:
            return found
        arrays = [tensor.cpu().numpy() for tensor in tensors]
        model.set_params(device=device.type)
        repeats = case.repeats if case.n <= FEW else 2
        found["model.fit, arrays"] = spread(device, lambda: model.fit(arrays), repeats)
        if case.n <= FEW:
            work = partial(model.predict, arrays)
            found["model.predict, arrays"] = spread(device, work, repeats)
            found |= joined(device, tensors, N_CLUSTERS, case.repeats)
    return found


def usual_sizes(device: torch.device, tiny: bool) -> dict[str, dict[str, dict[str, float]]]:
    """One run and ten joined on the data of the table of the CPU, and on a million samples."""
    found = {}
    for n, widths, c in SIZES[-1:] if tiny else (*SIZES, MANY_SAMPLES):
        arrays, _ = clustered_views(n, widths, c)
        tensors = [torch.from_numpy(array).to(device) for array in arrays]
        name = f"{n} × {widths}, c = {c}"
        found[name] = joined(device, tensors, c, repeats=2 if tiny else 9)
        print(name, json.dumps(found[name]), flush=True)
    return found


def joined(
    device: torch.device, tensors: list[torch.Tensor], c: int, repeats: int
) -> dict[str, dict[str, float]]:
    """One run with the defaults and ten joined, in turns, and what ten take of the time of one."""
    one, ten = OMCAL(c, random_state=0), Consensus(OMCAL(c), random_state=0)
    works = {"one run": one, "ten runs joined": ten}
    for model in (*works.values(), *works.values()):
        model.fit(tensors)
    times: dict[str, list[float]] = {name: [] for name in works}
    for _ in range(repeats):
        for name, model in works.items():
            times[name].append(_once(device, partial(model.fit, tensors)))
    ratios = np.divide(times["ten runs joined"], times["one run"])
    found = {name: _summary(some) for name, some in times.items()}
    return found | {"ten runs / one run": {"ratio": float(np.median(ratios))}}


def memory(
    case: Case, device: torch.device, tensors: list[torch.Tensor], G: np.ndarray
) -> dict[str, Any]:
    """Bytes of the input and the most beyond them during a fit."""
    held = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    if device.type != "cuda":
        return {"input_bytes": held}
    gc.collect()  # what earlier fits left must not be freed in this one
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
    views = DeviceViews(read_views(SimpleNamespace(), tensors), device)
    scalings = fit_scalings(views, "feature")

    def anchors() -> Any:
        state = np.random.RandomState(0)
        return choose_for_runs(views, scalings, case.m, "kmeans", [state])[0][0]

    chosen = anchors()
    graphs = anchor_graphs(views, [GraphModel(scalings, chosen, K)]).of_run(0)
    rows = TorchRows(graphs, N_CLUSTERS, labels_on_host=False)
    V = len(tensors)
    alpha, R = np.full(V, 1 / V), 0.1 * np.eye(N_CLUSTERS)
    small = rows.packed(alpha, G, R, G)
    repeats = case.repeats
    kernels = Repeated(lambda: rows._pass.sweep(small), device)
    times = {
        "scaling": timed(device, lambda: fit_scalings(views, "feature"), repeats),
        "anchors": timed(device, anchors, repeats),
        "graph": timed(
            device, lambda: anchor_graphs(views, [GraphModel(scalings, chosen, K)]), repeats
        ),
        "gram": timed(device, lambda: rows._pass.gram().cpu(), repeats),
        "pass, kernels": timed(device, kernels, 3 * repeats),
        "pass, to and fro": timed(device, lambda: rows.sweep(alpha, G, R), 3 * repeats),
        "labels": timed(device, lambda: rows.assign(alpha, G, R, G), repeats),
        "small steps on the host": algebra(rows, G, alpha),
    }
    times |= iterations(rows, G, alpha, repeats)
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


def iterations(rows: TorchRows, G: np.ndarray, alpha: np.ndarray, repeats: int) -> dict[str, float]:
    """Seconds of an iteration whose small steps are beside the rows, where they are."""
    StS = rows.gram()

    def some(number: int) -> None:
        problem = Problem(0.3, 0.1, "adaptive", alpha, max_iter=number, tol=0.0)
        solve_in_lockstep([Start(rows, StS, G, problem, lambda number, value: False)])

    if rows.device.type != "cuda":
        return {}
    with small_blas(len(G)):
        few, many = (timed(rows.device, partial(some, number), repeats) for number in (5, 25))
    return {"iteration, on the device": (many - few) / 20}


def algebra(rows: TorchRows, G: np.ndarray, alpha: np.ndarray) -> float:
    """Seconds of what an iteration does on the host: the loop with sums that are at hand."""
    StS = rows.gram()
    sums = rows.sweep(alpha, G, np.zeros((N_CLUSTERS,) * 2))
    still: Any = SimpleNamespace(sweep=lambda *given: sums)
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
    """Seconds of the pass by each way to do it, and of the graph by the size of its blocks."""
    n = 20_000 if tiny else 4_000_000
    found: dict[str, Any] = {}
    rng = np.random.default_rng(0)
    for m in (30, 100, 200, 300):
        graphs = TorchGraphs.from_host(random_graphs(rng, n, 3, m, np.float32), device)
        for way in ("CUDA", "plain"):
            if way == "CUDA" and device.type != "cuda":
                continue
            rows = TorchRows(graphs, N_CLUSTERS, fused=way == "CUDA")
            P = rng.normal(size=(m, N_CLUSTERS))
            small = rows.packed(np.full(3, 1 / 3), P, 0.1 * np.eye(N_CLUSTERS), P)
            seconds = timed(device, lambda rows=rows, s=small: rows._pass.sweep(s), 5)
            found[f"pass n={n} m={m} {way}"] = seconds
    X = clustered(n, (128,), torch.float32, device)
    views = DeviceViews(read_views(SimpleNamespace(), X), device)
    anchors = [rng.normal(size=(100, 128))]
    for bits in (14, 16) if tiny else (22, 23, 24, 25, 26):
        with setting(device_views, "block_entries", lambda device, bits=bits: 1 << bits):
            found[f"graph n={n} d=128 m=100 block=2^{bits}"] = timed(
                device, lambda: anchor_graphs(views, [GraphModel([Scaling()], anchors, K)]), 5
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
            tail = f"{floor * 1e3:.3g} | {t['s'] / floor:.1f}" if floor else "- | -"
            print(f"| {phase} | {t['s'] * 1e3:.3g} | {tail} |")
    rates = result["ceilings"]
    print(
        f"\n{result['device']}, PyTorch {result['torch']}: "
        f"copies {rates['bytes_per_s'] / 1e12:.2f} TB/s, "
        f"from the host {rates['bus_bytes_per_s'] / 1e9:.1f} GB/s, "
        f"float32 products {rates['flops_per_s'] / 1e12:.1f} TFLOP/s "
        f"({rates['thin_flops_per_s'] / 1e12:.1f} with 100 columns); "
        f"c = {N_CLUSTERS}, k = {K}, {N_ITER} iterations.\n"
    )
    print("| data on the device | m | whole fit, ms | k-means, ms | memory beyond the input |")
    print("|---|---|---|---|---|")
    for name, case in (result["sizes"] | result["cases"]).items():
        for what, t in case.items():
            if isinstance(t, dict) and "least_s" in t:
                low, mid, high = (t[key] * 1e3 for key in ("least_s", "s", "most_s"))
                print(f"{name}: {what} {mid:.2f} ms ({low:.2f} to {high:.2f})")
            elif isinstance(t, dict) and "ratio" in t:
                print(f"{name}: {what} {t['ratio']:.2f}")
    for name, case in result["cases"].items():
        share = f"{case['beyond_share']:.0%}" if "beyond_share" in case else "-"
        print(
            f"| {name} | {case['m']} | {case['fit']['s'] * 1e3:.1f} | "
            f"{case['kmeans_s'] * 1e3:.1f} | {share} |"
        )


if __name__ == "__main__":
    main()
