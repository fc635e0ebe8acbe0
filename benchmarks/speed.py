"""Speed and memory of OMCAL as ratios within one run; prints and saves one Markdown table.

python benchmarks/speed.py [--only NAME …] [--repeats 5] [--out out/speed.md]

Everything that is compared runs interleaved, so that a busy machine slows both sides; a cell is
the median of the repeats and, in brackets, the smallest and the largest. Figures that the front
page shall show go to benchmarks/results/speed.md, and from there by front_page.py.
"""

from __future__ import annotations

import argparse
import os
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning

from omcal import OMCAL
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import small_blas, thread_count
from omcal.method.anchors import choose_anchors
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.scaling import Scaling
from omcal.method.simplex import minimize_on_simplex
from omcal.method.solver import Problem, solve
from omcal.places.memory import MemoryRows
from omcal.views.view import View, Views

warnings.simplefilter("ignore", ConvergenceWarning)
MNIST_WIDTHS = (342, 1024, 64)


def clustered_views(n, widths, c, seed=0, dtype=np.float32):
    """Gaussian clusters, each of five sub-clusters, seen through every view with noise."""
    rng = np.random.default_rng(seed)
    cluster = rng.integers(c, size=n)
    part = 5 * cluster + rng.integers(5, size=n)
    views = []
    for d in widths:
        centres = rng.normal(size=(c, d)).repeat(5, axis=0) + 0.5 * rng.normal(size=(5 * c, d))
        noise = rng.standard_normal((n, d), dtype=np.float32)
        views.append((centres[part] + noise).astype(dtype))
    return views, cluster


def random_graphs(n, V, m, k, dtype=np.float64, seed=0):
    """Anchor graphs with the shape of real ones: each sample near k of m anchors in a view."""
    rng = np.random.default_rng(seed)
    first = rng.integers(m, size=(n, V, 1))
    indices = (first + np.arange(k)) % m
    weights = rng.dirichlet(np.ones(k), size=(n, V))
    return AnchorGraphs(indices.astype(np.min_scalar_type(m - 1)), weights.astype(dtype), m)


def interleaved(
    repeats: int, *, pause: float = 0.0, **works: Callable[[], object]
) -> dict[str, np.ndarray]:
    """Seconds of each piece of work, after one warm-up round, in turns.

    Some machines that lend cores take them away for a while after seconds of work: a pause before
    each piece then gives all the same start. Some take memory away in a pause, so there is none
    where one side asks for much more of it than the other.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        for name, work in works.items():
            time.sleep(pause)
            start = time.perf_counter()
            work()
            if repeat:
                seconds[name].append(time.perf_counter() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def spread(values: np.ndarray, unit: str = "") -> str:
    return f"{np.median(values):.3g}{unit} ({values.min():.3g} to {values.max():.3g})"


def against_kmeans(repeats: int):
    """Whole fits on MNIST-shaped data."""
    X, _ = clustered_views(60_000, MNIST_WIDTHS, 10)
    joint = np.hstack([(x - x.mean(axis=0)) / x.std(axis=0) for x in X])
    model = OMCAL(10, n_anchors=30, random_state=0)
    t = interleaved(
        repeats,
        pause=1.0,
        omcal=lambda: model.fit(X),
        accelerated=lambda: OMCAL(10, n_anchors=30, accelerate=True, random_state=0).fit(X),
        mini=lambda: MiniBatchKMeans(10, n_init=1, random_state=0).fit(joint),
        kmeans=lambda: KMeans(10, n_init=1, random_state=0).fit(joint),
    )
    shape = "60000 × (342, 1024, 64) float32, c = 10, m = 30"
    yield f"whole fit, {shape}", spread(t["omcal"], " s")
    yield f"… {model.n_iter_} iterations; / MiniBatchKMeans(10)", spread(t["omcal"] / t["mini"])
    yield "… / KMeans(10)", spread(t["omcal"] / t["kmeans"])
    yield "… with accelerate=True / MiniBatchKMeans(10)", spread(t["accelerated"] / t["mini"])


def phases(repeats: int):
    """Where the time of that fit goes."""
    X, _ = clustered_views(60_000, MNIST_WIDTHS, 10)
    views = Views([View(str(v), x) for v, x in enumerate(X)])
    compiled = compiled_pays(views.n)
    scalings = [Scaling.fit(view, "feature") for view in views]
    anchors = choose_anchors(views, scalings, 30, "kmeans", np.random.RandomState(0))
    graphs = anchor_graphs(views, scalings, anchors, 5, compiled=compiled)
    rows = MemoryRows(graphs, 10, compiled=compiled)
    StS = rows.gram()
    G = np.linalg.qr(np.random.RandomState(0).standard_normal((30, 10)))[0]
    alpha, R = np.full(3, 1 / 3), 0.1 * np.eye(10)
    problem = Problem(0.3, 0.1, "adaptive", alpha, 30, 0.0)

    def iterate():
        with small_blas(30):
            solve(rows, StS, G, problem)

    t = interleaved(
        repeats,
        scaling=lambda: [Scaling.fit(view, "feature") for view in views],
        anchors=lambda: choose_anchors(views, scalings, 30, "kmeans", np.random.RandomState(0)),
        graph=lambda: anchor_graphs(views, scalings, anchors, 5, compiled=compiled),
        gram=rows.gram,
        one_pass=lambda: rows.sweep(alpha, G, R),
        iteration=iterate,
        copy=lambda: [x.copy() for x in X],
    )
    for name in ("scaling", "anchors", "graph", "gram"):
        yield f"phase: {name} (ms)", spread(1e3 * t[name])
    yield "phase: one pass (ms)", spread(1e3 * t["one_pass"])
    yield "phase: one iteration, pass and small algebra (ms)", spread(1e3 * t["iteration"] / 30)
    yield "for scale: copying the views (ms)", spread(1e3 * t["copy"])


def dense_iteration(S, H, Z, G, alpha, beta=0.3, gamma=0.1):
    """One iteration of Algorithm 1 with the n×m matrices of the paper: F, G, Z, α, objective."""
    F = np.maximum(Z @ G, 0)
    U, _, Vt = np.linalg.svd(Z.T @ F, full_matrices=False)
    FGt = F @ (U @ Vt).T
    M = (sum(a * s for a, s in zip(alpha, S, strict=True)) + gamma * FGt) / (1 + gamma)
    P, sigma, Qt = np.linalg.svd(M, full_matrices=False)
    rho = np.maximum(sigma - beta / (2 * (1 + gamma)), 0)
    Z = (P * rho) @ Qt
    alpha = minimize_on_simplex(H, 2 * np.array([np.vdot(s, Z) for s in S]))
    A = sum(a * s for a, s in zip(alpha, S, strict=True))
    return np.square(Z - A).sum() + beta * rho.sum() + gamma * np.square(Z - FGt).sum()


def against_dense(repeats: int):
    """One iteration against the paper's, which takes the SVD of an n×m matrix."""
    n, V, k = 60_000, 3, 5
    for m, c in ((100, 10), (300, 10), (150, 100)):
        graphs = random_graphs(n, V, m, k)
        S = [graphs.side_by_side()[:, v * m : (v + 1) * m].toarray() for v in range(V)]
        G = np.linalg.qr(np.random.default_rng(0).normal(size=(m, c)))[0]
        alpha = np.full(V, 1 / V)
        rows, narrow = in_float64_and_32(graphs, c)
        StS = rows.gram()
        problem = Problem(0.3, 0.1, "adaptive", alpha, 10, 0.0)
        Z, H = sum(S) / V, np.einsum("uvii->uv", StS)

        def fit(rows):
            with small_blas(m):  # noqa: B023
                solve(rows, StS, G, problem)  # noqa: B023

        t = interleaved(
            min(repeats, 3),
            fast=lambda: fit(rows),  # noqa: B023
            narrow=lambda: fit(narrow),  # noqa: B023
            dense=lambda: dense_iteration(S, H, Z, G, alpha),  # noqa: B023
        )
        yield (
            f"dense iteration / ours, n = 60000, V = 3, m = {m}, c = {c}",
            spread(t["dense"] / (t["fast"] / 10)),
        )
        yield "… / ours with rows in float32", spread(t["dense"] / (t["narrow"] / 10))


def in_float64_and_32(graphs, c):
    """Rows with these graphs, as for views in float64, and in float32."""
    narrow = replace(graphs, weights=graphs.weights.astype(np.float32))
    return [MemoryRows(g, c, compiled=compiled_pays(g.n)) for g in (graphs, narrow)]


def against_scipy(repeats: int):
    """The pass against the same products written plainly with SciPy."""
    n, V, m, c, k = 1_000_000, 3, 100, 10, 5
    graphs = random_graphs(n, V, m, k)
    whole = graphs.side_by_side()
    S = [sparse.csr_array(whole[:, v * m : (v + 1) * m]) for v in range(V)]
    del whole
    rng = np.random.default_rng(0)
    G = np.linalg.qr(rng.normal(size=(m, c)))[0]
    alpha, R = np.full(V, 1 / V), 0.1 * np.eye(c)
    F = rng.random((n, c))
    rows, narrow = in_float64_and_32(graphs, c)

    def plain():
        new = sum(a * (s @ G) for a, s in zip(alpha, S, strict=True)) + F @ R
        np.maximum(new, 0, out=new)
        return [s.T @ new for s in S], new.T @ new, F.T @ new

    t = interleaved(
        min(repeats, 3),
        fast=lambda: rows.sweep(alpha, G, R),
        narrow=lambda: narrow.sweep(alpha, G, R),
        plain=plain,
    )
    yield "pass with SciPy / ours, n = 10⁶, V = 3, m = 100, c = 10", spread(t["plain"] / t["fast"])
    yield "… / ours with rows in float32", spread(t["plain"] / t["narrow"])
    yield "the pass itself, rows in float32 (ms)", spread(1e3 * t["narrow"])


def growth(repeats: int):
    """How a fit of 30 iterations grows in each size, against n = 10⁵, m = 40, c = 10, V = 2."""
    base = {"n": 100_000, "m": 40, "c": 10, "V": 2}
    steps = [("n", 1_000_000), ("m", 80), ("c", 20), ("V", 4)]

    def fit(size):
        X, _ = clustered_views(size["n"], (16,) * size["V"], 10)
        model = OMCAL(size["c"], n_anchors=size["m"], max_iter=30, tol=0, random_state=0)
        return lambda: model.fit(X)

    for name, value in steps:
        t = interleaved(min(repeats, 3), small=fit(base), large=fit({**base, name: value}))
        label = f"{name}: {base[name]} → {value}"
        yield f"time, {label}", spread(t["large"] / t["small"])


def small_data(repeats: int):
    """What a fit of n = 500 costs: the second in a process, and the first."""
    X, _ = clustered_views(500, (10, 20, 30), 5, dtype=np.float64)
    model = OMCAL(5, random_state=0)
    t = interleaved(max(repeats, 5), fit=lambda: model.fit(X))
    yield "n = 500, c = 5: a fit (ms)", spread(1e3 * t["fit"])
    yield "… the first in a process (ms)", f"{_in_process('first'):.3g}"
    yield "import omcal after import sklearn.cluster (ms)", f"{_in_process('import'):.3g}"


def memory(repeats: int):
    """Peak memory of a fit beyond its input, in a process of its own."""
    yield (
        "peak memory beyond the input, n = 10⁶ × (16, 16, 16) float32, c = 10 (GB)",
        f"{_in_process('memory'):.3g}",
    )


_SNIPPETS = {
    "first": """
import time, warnings; import numpy as np; warnings.simplefilter("ignore")
from omcal import OMCAL
from speed import clustered_views
X, _ = clustered_views(500, (10, 20, 30), 5, dtype=np.float64)
start = time.perf_counter(); OMCAL(5, random_state=0).fit(X)
print(1e3 * (time.perf_counter() - start))
""",
    "import": """
import time, sklearn.cluster
start = time.perf_counter(); import omcal
print(1e3 * (time.perf_counter() - start))
""",
    "memory": """
import resource, warnings; warnings.simplefilter("ignore")
from omcal import OMCAL
from speed import clustered_views
from pathlib import Path
X = clustered_views(1_000_000, (16, 16, 16), 10)[0]
def resident(key):
    text = Path("/proc/self/status").read_text()
    return int(text.split(key + ":")[1].split()[0]) / 1e6
Path("/proc/self/clear_refs").write_text("5")
before = resident("VmRSS")
OMCAL(10, random_state=0).fit(X)
print(resident("VmHWM") - before)
""",
}


def _in_process(name: str) -> float:
    path = os.pathsep.join([str(Path(__file__).parent), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "-c", _SNIPPETS[name]],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return float(done.stdout)


PARTS = {
    "kmeans": against_kmeans,
    "phases": phases,
    "dense": against_dense,
    "scipy": against_scipy,
    "growth": growth,
    "small": small_data,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out") / "speed.md")
    options = parser.parse_args()
    lines = [
        f"{thread_count()} cores; median (smallest to largest) of {options.repeats} interleaved "
        f"repeats, 3 where one takes seconds.",
        "",
        "| what | value |",
        "|---|---|",
    ]
    print("\n".join(lines), flush=True)
    for name in options.only:
        for label, value in PARTS[name](options.repeats):
            lines.append(f"| {label} | {value} |")
            print(lines[-1], flush=True)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    print(f"\npeak memory of this script: {peak:.2g} GB")
    options.out.parent.mkdir(exist_ok=True)
    options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
