"""Fits from disk and on a Dask cluster: memory, time and bytes; prints and saves Markdown tables.

python benchmarks/scaling.py disk [--rows 5000000 …] [--widths 64 32] [--iterations 100]
python benchmarks/scaling.py dask [--parts 2 8] [--rows 10000 1000000]

`disk` fits the same files from memory, from disk, and from disk with a limit that sends the
graphs to scratch files, each in a process of its own, in turns. Memory is the peak resident size
of the process over its size after `import omcal`. The files are put out of the system's cache
before each fit from disk. `dask` measures a sweep on a LocalCluster of two processes.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import zlib
from functools import partial
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results"
PLACES = ("memory", "disk", "scratch")
N_CLUSTERS = 10


def write_views(folder: Path, n: int, widths: list[int], seed: int = 0) -> list[Path]:
    """Gaussian clusters of five sub-clusters each, as .npy files, written by blocks."""
    rng = np.random.default_rng(seed)
    parts = 5 * N_CLUSTERS
    paths, files, centres = [], [], []
    for v, d in enumerate(widths):
        paths.append(folder / f"view{v}-{n}.npy")
        files.append(np.lib.format.open_memmap(paths[-1], "w+", np.float32, (n, d)))
        coarse = rng.normal(size=(N_CLUSTERS, d)).repeat(5, axis=0)
        centres.append((coarse + 0.5 * rng.normal(size=(parts, d))).astype(np.float32))
    for start in range(0, n, 1 << 16):
        part = rng.integers(parts, size=min(1 << 16, n - start))
        for file, c in zip(files, centres, strict=True):
            noise = rng.standard_normal((len(part), c.shape[1]), dtype=np.float32)
            file[start : start + len(part)] = c[part] + noise
    for file in files:
        file.flush()
    return paths


def leave_cache(path: Path) -> None:
    """Ask the system to forget what it holds of the file."""
    with path.open("rb") as file:
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def resident(field: str) -> int:
    """VmRSS or VmHWM of this process in bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(field))


def fit_once(place: str, paths: list[str], iterations: int, limit: str) -> None:
    """The work of one process: fit, and print what it took as JSON."""
    import warnings

    from omcal import OMCAL

    bare = resident("VmRSS")
    warnings.simplefilter("ignore")
    settings = {"max_iter": iterations, "tol": 0.0, "random_state": 0}
    if place == "scratch":
        settings["memory_limit"] = limit
        settings["scratch_dir"] = str(Path(paths[0]).parent)
    X = [np.load(path, mmap_mode=None if place == "memory" else "r") for path in paths]
    began, worked = time.perf_counter(), time.process_time()
    model = OMCAL(N_CLUSTERS, **settings).fit(X)
    result = {
        "seconds": time.perf_counter() - began,
        "cpu": time.process_time() - worked,
        "bytes": resident("VmHWM") - bare,
        "labels": zlib.crc32(model.labels_.tobytes()),
        "m": len(model.basis_),
    }
    print(json.dumps(result))


def disk(rows: list[int], widths: list[int], iterations: int, limit: str, repeats: int) -> str:
    lines = [
        f"{' + '.join(map(str, widths))} features, float32, {N_CLUSTERS} clusters, default "
        f"anchors, {iterations} iterations; median of {repeats}.",
        "",
        "| rows | data | place | seconds | against memory | CPU seconds | peak memory over the "
        "import | labels |",
        "|---|---|---|---|---|---|---|---|",
    ]
    with tempfile.TemporaryDirectory() as folder:
        for n in rows:
            paths = write_views(Path(folder), n, widths)
            found = _in_turns(paths, iterations, limit, repeats)
            size = sum(path.stat().st_size for path in paths)
            base = np.median([run["seconds"] for run in found["memory"]])
            for place in PLACES:
                runs = found[place]
                seconds = np.median([run["seconds"] for run in runs])
                peak = max(run["bytes"] for run in runs)
                same = runs[0]["labels"] == found["memory"][0]["labels"]
                name = f"scratch, limit {limit}" if place == "scratch" else place
                lines.append(
                    f"| {n:.0e} | {size / 1e9:.2f} GB | {name} | {seconds:.1f} | "
                    f"{seconds / base:.2f} | {np.median([run['cpu'] for run in runs]):.0f} | "
                    f"{peak / 1e6:.0f} MB | "
                    f"{'the same' if same else 'differ'} |"
                )
            for path in paths:
                path.unlink()
    return "\n".join(lines)


def _in_turns(
    paths: list[Path], iterations: int, limit: str, repeats: int
) -> dict[str, list[dict[str, float]]]:
    found: dict[str, list[dict[str, float]]] = {place: [] for place in PLACES}
    for _ in range(repeats):
        for place in PLACES:
            for path in paths:
                leave_cache(path)
            command = [sys.executable, __file__, "once", place, str(iterations), limit]
            done = subprocess.run(
                [*command, *map(str, paths)], check=True, stdout=subprocess.PIPE, text=True
            )
            found[place].append(json.loads(done.stdout))
            print(place, found[place][-1], file=sys.stderr, flush=True)
    return found


def on_dask(parts: list[int], rows: list[int]) -> str:
    import psutil
    from distributed import Client, LocalCluster

    from omcal.method.graph import AnchorGraphs
    from omcal.places.cluster_rows import ClusterRows
    from omcal.places.memory import MemoryRows

    V, k, m, c = 2, 5, 50, 10
    rng = np.random.default_rng(0)
    step = (np.full(V, 1 / V), rng.normal(size=(m, c)), 0.05 * np.eye(c))
    lines = [
        f"{V} views, {k} neighbours, {m} anchors, {c} clusters, LocalCluster of 2 processes with "
        "one thread; the sweep alone is that of the same rows in memory with one thread.",
        "",
        "| rows | parts | ms an iteration | of these the sweep | kB an iteration on the network |",
        "|---|---|---|---|---|",
    ]
    cluster = LocalCluster(
        n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0"
    )
    os.environ["OMP_NUM_THREADS"] = "1"
    with cluster, Client(cluster) as client:
        for n in rows:
            indices = rng.integers(m, size=(n, V, k)).astype(np.uint8)
            graphs = AnchorGraphs(indices, rng.random((n, V, k), dtype=np.float32), m)
            for count in parts:
                size = n // count
                slices = [slice(i * size, (i + 1) * size) for i in range(count)]
                held = client.scatter([graphs[s] for s in slices], hash=False)
                make = partial(MemoryRows, n_clusters=c, compiled=n >= 50_000)
                there = ClusterRows(client, held, [size] * count, make)
                there.gram()
                here = MemoryRows(graphs[slices[0]], c, compiled=n >= 50_000)
                sweep = _milliseconds(lambda rows=here: rows.sweep(*step)) * count / 2
                for _ in range(5):
                    there.sweep(*step)
                before = psutil.net_io_counters(pernic=True)["lo"].bytes_sent
                whole = _milliseconds(lambda rows=there: rows.sweep(*step))
                moved = psutil.net_io_counters(pernic=True)["lo"].bytes_sent - before
                lines.append(
                    f"| {n} | {count} | {whole:.0f} | {sweep:.0f} | {moved / _REPEATS / 1e3:.0f} |"
                )
                del there, held
    return "\n".join(lines)


_REPEATS = 40


def _milliseconds(work) -> float:
    times = []
    for _ in range(_REPEATS):
        began = time.perf_counter()
        work()
        times.append(time.perf_counter() - began)
    return 1e3 * float(np.median(times))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    what = parser.add_subparsers(dest="what", required=True)
    one = what.add_parser("once")
    one.add_argument("place", choices=PLACES)
    one.add_argument("iterations", type=int)
    one.add_argument("limit")
    one.add_argument("paths", nargs="+")
    files = what.add_parser("disk")
    files.add_argument("--rows", type=int, nargs="+", default=[5_000_000])
    files.add_argument("--widths", type=int, nargs="+", default=[64, 32])
    files.add_argument("--iterations", type=int, default=100)
    files.add_argument("--limit", default="200MB")
    files.add_argument("--repeats", type=int, default=1)
    cluster = what.add_parser("dask")
    cluster.add_argument("--parts", type=int, nargs="+", default=[2, 8])
    cluster.add_argument("--rows", type=int, nargs="+", default=[10_000, 1_000_000])
    given = parser.parse_args()
    if given.what == "once":
        fit_once(given.place, given.paths, given.iterations, given.limit)
        return
    if given.what == "disk":
        table = disk(given.rows, given.widths, given.iterations, given.limit, given.repeats)
    else:
        table = on_dask(given.parts, given.rows)
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / f"scaling_{given.what}.md").write_text(table + "\n")
    print(table)


if __name__ == "__main__":
    main()
