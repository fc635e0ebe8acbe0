"""Fits that ranks share: what an iteration costs beyond the sweep; writes a Markdown page.

python benchmarks/collective.py [--ranks 2 4 8 16] [--rows 500000] [--without-dask]

Ranks are processes of this machine with one thread each, over loopback. An iteration of theirs
is timed on every rank; its cost beyond the sweep is the mean of these times less that of the
slowest rank's own sweep. The same graphs are swept on as many processes of Dask. What larger
groups would take is counted on paper, and followed message by message in a simulation.
"""

from __future__ import annotations

import argparse
import math
import multiprocessing
import os
import platform
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

RESULTS = Path(__file__).parent / "results"
V, K, C = 2, 5, 10
FEW = 1000  # rows of a rank where the sweep itself shall not count
WARM, REPEATS = 10, 100
SIZES = (30_000, 100_000, 300_000, 1_000_000)  # bytes that are summed up

# On paper: a network of a cluster, its messages with a spread, and machines of sixteen cores.
LATENCY, SPREAD, BANDWIDTH = 30e-6, 0.3, 1.25e9
ROW_SECONDS, ROW_BYTES, CORES = 0.13e-6, 94, 16  # measured in docs/scaling.md
PAPER_ANCHORS = 160


def on_ranks(size: int, work: Callable[..., Any], *given: Any) -> list[Any]:
    """What `work` returns on each of so many ranks of one group."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["torch", "omcal.places.collective", "omcal.places.memory"])
    with tempfile.TemporaryDirectory() as folder:
        pipes, processes = [], []
        for rank in range(size):
            here, there = context.Pipe(duplex=False)
            where = f"file://{folder}/meeting"
            process = context.Process(target=_rank, args=(there, where, rank, size, work, given))
            process.start()
            there.close()
            pipes.append(here)
            processes.append(process)
        found = [pipe.recv() for pipe in pipes]
        for process in processes:
            process.join()
    return found


def _rank(pipe: Any, where: str, rank: int, size: int, work: Any, given: Any) -> None:
    os.environ |= {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=where, rank=rank, world_size=size)
    pipe.send(work(*given))
    dist.barrier()
    dist.destroy_process_group()


def some_graphs(n: int, m: int) -> Any:
    from omcal.method.graph import AnchorGraphs

    rng = np.random.default_rng(0)
    indices = rng.integers(m, size=(n, V, K)).astype(np.min_scalar_type(m - 1))
    return AnchorGraphs(indices, rng.random((n, V, K), dtype=np.float32), m)


def some_step(m: int) -> tuple[Any, ...]:
    rng = np.random.default_rng(0)
    return np.full(V, 1 / V), rng.normal(size=(m, C)), 0.05 * np.eye(C)


class Timed:
    """Rows that note how long their own sweeps take."""

    def __init__(self, rows: Any) -> None:
        self._rows = rows
        self.seconds: list[float] = []

    def sweep(self, *step: Any) -> Any:
        began = time.perf_counter()
        sums = self._rows.sweep(*step)
        self.seconds.append(time.perf_counter() - began)
        return sums


def sweeps(n: int, m: int, repeats: int = REPEATS) -> tuple[list[float], list[float], float]:
    """Seconds of iterations on this rank, those of its own sweeps, and bytes on loopback."""
    from omcal.machine.compiled import compiled_pays
    from omcal.places.collective import RankRows
    from omcal.places.memory import MemoryRows
    from omcal.places.ranks import Ranks

    own = Timed(MemoryRows(some_graphs(n, m), C, compiled=compiled_pays(n)))
    rows, step = RankRows(Ranks("world"), own, (V, m, C)), some_step(m)
    whole = []
    for i in range(WARM + repeats):
        if i == WARM:
            before = bytes_on_loopback()
        began = time.perf_counter()
        rows.sweep(*step)
        whole.append(time.perf_counter() - began)
    moved = (bytes_on_loopback() - before) / repeats
    return whole[WARM:], own.seconds[WARM:], moved


def sums_of(sizes: tuple[int, ...]) -> list[float]:
    """Median seconds of an all-reduce of so many bytes."""
    import torch
    import torch.distributed as dist

    found = []
    for size in sizes:
        tensor = torch.zeros(size // 8, dtype=torch.float64)
        times = []
        for _ in range(WARM + REPEATS):
            began = time.perf_counter()
            dist.all_reduce(tensor)
            times.append(time.perf_counter() - began)
        found.append(float(np.median(times[WARM:])))
    return found


def bytes_on_loopback() -> int:
    lines = Path("/proc/net/dev").read_text().splitlines()
    counts = next((line.split(":")[1] for line in lines if line.strip().startswith("lo:")), "0")
    return int(counts.split()[0])


def beyond_the_sweep(size: int, n: int, m: int) -> tuple[float, float, float]:
    """Median seconds of an iteration beyond the sweep, its tenth slowest, and bytes."""
    found = on_ranks(size, sweeps, n, m)
    whole, own = (np.array([one[i] for one in found]) for i in (0, 1))
    beyond = whole.mean(axis=0) - own.max(axis=0)
    return float(np.median(beyond)), float(np.quantile(beyond, 0.9)), found[0][2]


def beyond_on_dask(size: int, n: int, m: int) -> tuple[float, float]:
    """Median seconds of an iteration beyond the sweep on so many workers, and bytes."""
    from distributed import Client, LocalCluster

    from omcal.places.cluster import GraphPart
    from omcal.places.cluster_rows import ClusterRows
    from omcal.places.memory import MemoryRows

    graphs, step = some_graphs(n, m), some_step(m)
    own = Timed(MemoryRows(graphs, C))
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0"}
    with (
        LocalCluster(n_workers=size, threads_per_worker=1, **options) as cluster,
        Client(cluster) as client,
    ):
        parts = [GraphPart(graphs, C, n) for _ in range(size)]
        held = client.scatter(parts, hash=False)
        rows = ClusterRows(client, held, [n] * size)
        rows.gram()
        whole = []
        for i in range(WARM + REPEATS):
            if i == WARM:
                before = bytes_on_loopback()
            own.sweep(*step)
            began = time.perf_counter()
            rows.sweep(*step)
            whole.append(time.perf_counter() - began)
        moved = (bytes_on_loopback() - before) / REPEATS
        del rows, held
    return float(np.median(np.array(whole[WARM:]) - own.seconds[WARM:])), moved


def overheads(ranks: list[int], with_dask: bool) -> list[str]:
    lines = [
        f"{V} views, {K} neighbours, {C} clusters, {FEW} rows a rank; medians of {REPEATS} "
        "iterations, in brackets the slowest tenth.",
        "",
        "| ranks | anchors | beyond the sweep | on loopback | Dask, as many workers | on loopback "
        "| share of Dask's |",
        "|---|---|---|---|---|---|---|",
    ]
    for m in (50, PAPER_ANCHORS):
        for size in ranks:
            ours, slow, moved = beyond_the_sweep(size, FEW, m)
            dask = beyond_on_dask(size, FEW, m) if with_dask and m == 50 else None
            theirs = ("", "", "")
            if dask:
                theirs = (
                    f"{1e3 * dask[0]:.1f} ms",
                    f"{dask[1] / 1e3:.0f} kB",
                    f"{ours / dask[0]:.3f}",
                )
            lines.append(
                f"| {size} | {m} | {1e3 * ours:.2f} ms ({1e3 * slow:.2f}) | {moved / 1e3:.0f} kB | "
                f"{theirs[0]} | {theirs[1]} | {theirs[2]} |"
            )
    return lines


def all_reduces(ranks: list[int]) -> list[str]:
    lines = [
        "| ranks | " + " | ".join(f"{size // 1000} kB" for size in SIZES) + " |",
        "|---" * (len(SIZES) + 1) + "|",
    ]
    for size in ranks:
        times = np.mean(on_ranks(size, sums_of, SIZES), axis=0)
        lines.append(f"| {size} | " + " | ".join(f"{1e3 * t:.2f} ms" for t in times) + " |")
    return lines


def scalings(ranks: list[int], rows: int) -> list[str]:
    """The same rows on each rank, and the same rows in all."""

    def seconds(size: int, n: int) -> float:
        found = on_ranks(size, sweeps, n, 50, 20)
        return float(np.median(np.mean([one[0] for one in found], axis=0)))

    lines = [
        f"| ranks | {rows} rows each | efficiency | {2 * rows} rows in all | speed-up |",
        "|---|---|---|---|---|",
    ]
    weak_one, strong_one = seconds(1, rows), seconds(1, 2 * rows)
    for size in [1, *ranks]:
        weak, strong = seconds(size, rows), seconds(size, 2 * rows // size)
        lines.append(
            f"| {size} | {1e3 * weak:.1f} ms | {weak_one / weak:.2f} | {1e3 * strong:.1f} ms | "
            f"{strong_one / strong:.1f} |"
        )
    return lines


def ring(size: int, n_bytes: float) -> float:
    """Seconds of a sum in a ring, as gloo makes it: 2 (P − 1) rounds of a P-th of the bytes."""
    return 2 * (size - 1) * (LATENCY + n_bytes / size / BANDWIDTH)


def tree(size: int, n_bytes: float) -> float:
    """Seconds of a sum up a binary tree and down again, as NCCL makes it of few bytes."""
    return 2 * math.ceil(math.log2(size)) * (LATENCY + n_bytes / BANDWIDTH)


def simulated(size: int, n_bytes: float, shape: str, rng: np.random.Generator) -> float:
    """The same, message by message: each takes a time of its own, and a rank waits for its."""
    sigma = math.sqrt(math.log(1 + SPREAD**2))

    def message(n: int, part: float) -> Any:
        return LATENCY * rng.lognormal(-(sigma**2) / 2, sigma, n) + part / BANDWIDTH

    ready = np.zeros(size)
    if shape == "ring":
        for _ in range(2 * (size - 1)):
            ready = np.maximum(ready, np.roll(ready + message(size, n_bytes / size), 1))
        return float(ready.max())
    steps = [1 << i for i in range(math.ceil(math.log2(size)))]
    for step in steps:  # up: rank i + step sends what it has to rank i
        to = np.arange(0, size - step, 2 * step)
        ready[to] = np.maximum(ready[to], ready[to + step] + message(len(to), n_bytes))
    for step in reversed(steps):  # and down
        to = np.arange(0, size - step, 2 * step)
        ready[to + step] = ready[to] + message(len(to), n_bytes)
    return float(ready.max())


def on_paper() -> list[str]:
    n_bytes = 8 * (V * PAPER_ANCHORS * C + 2 * C * C + 4)
    rng = np.random.default_rng(0)
    lines = [
        f"Ranks of {CORES} cores; {PAPER_ANCHORS} anchors, {C} clusters, {V} views: "
        f"{n_bytes / 1e3:.0f} kB are summed up. A row takes {1e6 * ROW_SECONDS:.2f} µs of a core "
        f"and {ROW_BYTES} bytes; a message {1e6 * LATENCY:.0f} µs (±{SPREAD:.0%}) and "
        f"{BANDWIDTH / 1e9:.2f} GB/s. The simulation is the median of 20.",
        "",
        "| rows | ranks | memory a rank | sweep | ring | simulated | tree | simulated | iteration "
        "with ring | with tree |",
        "|---" * 10 + "|",
    ]
    for exponent in (9, 10):
        for size in (8, 64, 1000):
            sweep = 10**exponent / size * ROW_SECONDS / CORES
            found = {
                shape: np.median([simulated(size, n_bytes, shape, rng) for _ in range(20)])
                for shape in ("ring", "tree")
            }
            by_ring, by_tree = ring(size, n_bytes), tree(size, n_bytes)
            cells = (sweep, by_ring, found["ring"], by_tree, found["tree"])
            cells += (sweep + found["ring"], sweep + found["tree"])
            memory = 10**exponent / size * ROW_BYTES / 1e9
            lines.append(
                f"| 10^{exponent} | {size} | {memory:.1f} GB | "
                + " | ".join(f"{1e3 * cell:.1f} ms" for cell in cells)
                + " |"
            )
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--ranks", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--without-dask", action="store_true")
    parser.add_argument("--out", type=Path, default=RESULTS / "collective.md")
    given = parser.parse_args()
    cores = len(os.sched_getaffinity(0))
    page = [
        "# Fits that ranks share",
        "",
        f"{cores} cores of {platform.machine()}, Python {platform.python_version()}; "
        "one thread a rank.",
    ]
    parts = {
        "An iteration beyond the sweep": lambda: overheads(given.ranks, not given.without_dask),
        "An all-reduce": lambda: all_reduces(given.ranks),
        "Scaling on one machine": lambda: scalings(given.ranks, given.rows),
        "On paper": on_paper,
    }
    for title, make in parts.items():
        page += ["", f"## {title}", "", *make()]
        given.out.write_text("\n".join(page) + "\n")
        print("\n".join(page[-12:]), flush=True)


if __name__ == "__main__":
    main()
