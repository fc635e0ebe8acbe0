"""Speed and memory of OMCAL as ratios within one run; prints and saves one Markdown table.

python benchmarks/speed.py [--only NAME …] [--repeats 5] [--cpu] [--out out/speed.md]

Everything that is compared runs interleaved, so that a busy machine slows both sides; a cell is
the median of the repeats and, in brackets, the smallest and the largest. Figures that the front
page shall show are copied, cp out/speed.md benchmarks/results/speed.md, and go from there by
front_page.py.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
from processes import growth, in_process, memory
from scipy import sparse
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfTransformer

from omcal import OMCAL, Consensus
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import small_blas, thread_count
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.new_samples import learned_in_span
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.simplex import minimize_on_simplex
from omcal.method.solver import Problem, solve
from omcal.method.span import shared_rows
from omcal.places.memory import MemoryRows
from omcal.select import n_clusters
from omcal.views.view import View, Views

warnings.simplefilter("ignore", ConvergenceWarning)
MNIST_WIDTHS = (342, 1024, 64)
CLOCK = time.perf_counter  # by --cpu time.process_time, which a busy machine disturbs less


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
    each piece then gives all the same start, and each round has another order, so that none always
    follows the longest. Some take memory away in a pause, so there is none where one side asks for
    much more of it than the other.
    """
    seconds: dict[str, list[float]] = {name: [] for name in works}
    for repeat in range(repeats + 1):
        order = np.random.RandomState(repeat).permutation(list(works)) if repeat else works
        for name in order:
            time.sleep(pause)
            start = CLOCK()
            works[name]()
            if repeat:
                seconds[name].append(CLOCK() - start)
    return {name: np.array(values) for name, values in seconds.items()}


def spread(values: np.ndarray, unit: str = "") -> str:
    return f"{np.median(values):.3g}{unit} ({values.min():.3g} to {values.max():.3g})"


def against_kmeans(repeats: int):
    """Whole fits on MNIST-shaped data."""
    X, _ = clustered_views(60_000, MNIST_WIDTHS, 10)
    joint = side_by_side(X)
    few, model = OMCAL(10, n_anchors=30, random_state=0), OMCAL(10, random_state=0)
    t = interleaved(
        repeats,
        pause=0.5,
        few=lambda: few.fit(X),
        few_predict=lambda: few.predict(X),
        default=lambda: model.fit(X),
        predict=lambda: model.predict(X),
        mini=lambda: MiniBatchKMeans(10, n_init=1, random_state=0).fit(joint),
        kmeans=lambda: KMeans(10, n_init=1, random_state=0).fit(joint),
    )
    shape = "60000 × (342, 1024, 64) float32, c = 10"
    yield f"whole fit, {shape}, the defaults (m = 50)", spread(t["default"], " s")
    yield f"… {model.n_iter_} iterations; / MiniBatchKMeans(10)", spread(t["default"] / t["mini"])
    yield "… / KMeans(10)", spread(t["default"] / t["kmeans"])
    yield "… predict of the same rows / fit", spread(t["predict"] / t["default"])
    yield f"with m = 30, {few.n_iter_} iterations", spread(t["few"], " s")
    yield "with m = 30 / MiniBatchKMeans(10)", spread(t["few"] / t["mini"])
    yield "with m = 30 / KMeans(10)", spread(t["few"] / t["kmeans"])
    yield "with m = 30, predict of the same rows / fit", spread(t["few_predict"] / t["few"])


DIGITS = (2000, (216, 76, 64, 6, 240, 47), 10)
LEAVES = (1600, (64, 64, 64), 100)
MANY = (3000, (64, 64, 64), 300)
SIZES = (*((n, MNIST_WIDTHS, 10) for n in (1000, 5000, 12_000)), DIGITS, LEAVES)


def side_by_side(views):
    """The standardised views as one array, which k-means gets."""
    return np.hstack([(x - x.mean(axis=0)) / x.std(axis=0) for x in views])


def beside_kmeans(n, widths, c, repeats, runs=(1, 10), **more):
    """Seconds of one fit, of ten joined ones (what the command line does) and of k-means."""
    X, _ = clustered_views(n, widths, c)
    joint = side_by_side(X)
    ours = {1: OMCAL(c, random_state=0), 10: Consensus(OMCAL(c), random_state=0)}
    works = {}
    for number in runs:
        theirs = KMeans(c, n_init=number, random_state=0)
        works[f"ours{number}"] = partial(ours[number].fit, X)
        works[f"kmeans{number}"] = partial(theirs.fit, joint)
    works |= {name: partial(model.fit, joint) for name, model in more.items()}
    return interleaved(repeats, **works)


def sizes(repeats: int):
    """One fit and ten joined ones at the sizes that most data have."""
    for n, widths, c in SIZES:
        mini = MiniBatchKMeans(c, n_init=1, random_state=0)
        # k-means of few samples takes 50 ms or 100, as its threads happen to meet.
        rounds = 3 * repeats if n <= 2000 and c <= 10 else min(repeats, 3)
        t = beside_kmeans(n, widths, c, rounds, mini=mini)
        shape = f"{n} × {sum(widths)} in {len(widths)} views, c = {c}"
        yield f"one fit, {shape} (ms)", spread(1e3 * t["ours1"])
        ratios = ", ".join(spread(t["ours1"] / t[name]) for name in ("kmeans1", "mini"))
        yield "… / KMeans(n_init=1), / MiniBatchKMeans", ratios
        yield "… ten joined runs", spread(t["ours10"], " s")
        yield "… / KMeans(n_init=10)", spread(t["ours10"] / t["kmeans10"])


def questions(repeats: int):
    """Answers about a model, against the ten joined runs that it comes from."""
    for n, widths, c in (DIGITS, LEAVES, MANY):
        X, _ = clustered_views(n, widths, c)
        model = Consensus(OMCAL(c), random_state=0).fit(X)
        works = {
            "fit": partial(Consensus(OMCAL(c), random_state=0).fit, X),
            "explain_views": partial(model.explain_views, X),
        }
        if c == 10:
            works["select.n_clusters"] = partial(n_clusters, X, random_state=0)
        with tempfile.TemporaryDirectory() as folder:
            works["report"] = partial(model.report, f"{folder}/r.html", X)
            t = interleaved(min(repeats, 2), **works)
        for name in works.keys() - {"fit"}:
            yield f"{name}, {n} × {sum(widths)}, c = {c}", spread(t[name], " s")
            yield "… / ten joined runs", spread(t[name] / t["fit"])


def counts(n, width, per_row, c, seed=0):
    """Terms of documents on c topics: each has 200 terms of its own among those of all."""
    rng = np.random.default_rng(seed)
    own = rng.integers(width, size=(c, 200))
    topic = rng.integers(c, size=n)
    common = np.minimum(rng.zipf(1.3, size=(n, per_row)) - 1, width - 1)
    special = own[topic[:, None], rng.integers(200, size=(n, per_row))]
    columns = np.where(rng.random((n, per_row)) < 0.3, special, common)
    columns = columns.astype(np.int32)
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    X = sparse.csr_array((np.ones(n * per_row, np.float32), columns.ravel(), starts), (n, width))
    X.sum_duplicates()
    return X


def on_counts(repeats: int):
    """A fit to counts against k-means on the same numbers as tf-idf, which is not timed."""
    X = counts(30_000, 50_000, 100, 20)
    tfidf = TfidfTransformer(sublinear_tf=True).fit_transform(X)
    t = interleaved(
        repeats,
        omcal=lambda: OMCAL(20, random_state=0).fit(X),
        mini=lambda: MiniBatchKMeans(20, n_init=1, random_state=0).fit(tfidf),
    )
    yield "fit, 30000 × 50000 counts, 100 terms a row, c = 20, m = 100", spread(t["omcal"], " s")
    yield "… / MiniBatchKMeans(20) on tf-idf", spread(t["omcal"] / t["mini"])


def phases(repeats: int):
    """Where the time of that fit goes."""
    X, _ = clustered_views(60_000, MNIST_WIDTHS, 10)
    views = Views([View(str(v), x) for v, x in enumerate(X)])
    compiled = compiled_pays(views.n)
    scalings = [Scaling.fit(view, "feature") for view in views]
    settings = GraphSettings(10, 30, 5, "feature", "kmeans")

    def choose():
        state = np.random.RandomState(0)
        rows = shared_rows(views.n, 30, [state])
        return learned_in_span(views, scalings, settings, [state], rows)[0].anchors

    anchors = choose()
    graphs = anchor_graphs(views, scalings, anchors, 5, compiled=compiled)
    rows = MemoryRows(graphs, 10, compiled=compiled)
    StS = rows.gram()
    G = np.linalg.qr(np.random.RandomState(0).standard_normal((30, 10)))[0]
    alpha, R = np.full(3, 1 / 3), 0.1 * np.eye(10)
    problem = Problem(0.3, 0.1, "adaptive", alpha, 30, 0.0)

    # Passes and iterations come one after another, as in a fit.
    def sweep():
        with small_blas(30):
            for _ in range(30):
                rows.sweep(alpha, G, R)

    def iterate():
        with small_blas(30):
            solve(rows, StS, G, problem)

    t = interleaved(
        repeats,
        scaling=lambda: [Scaling.fit(view, "feature") for view in views],
        anchors=choose,
        graph=lambda: anchor_graphs(views, scalings, anchors, 5, compiled=compiled),
        gram=rows.gram,
        passes=sweep,
        iteration=iterate,
        copy=lambda: [x.copy() for x in X],
    )
    for name in ("scaling", "anchors", "graph", "gram"):
        yield f"phase: {name} (ms)", spread(1e3 * t[name])
    yield "phase: one pass (ms)", spread(1e3 * t["passes"] / 30)
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
    for m, c in ((100, 10), (300, 10), (150, 100), (500, 100)):
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
            min(repeats, 2),
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


def small_data(repeats: int):
    """What a fit of n = 500 costs: the second in a process, and the first."""
    X, _ = clustered_views(500, (10, 20, 30), 5, dtype=np.float64)
    model = OMCAL(5, random_state=0)
    t = interleaved(5 * repeats, fit=lambda: model.fit(X))  # each takes 20 ms
    yield "n = 500, c = 5: a fit (ms)", spread(1e3 * t["fit"])
    yield "… the first in a process (ms)", f"{float(in_process('first')):.3g}"
    alone, after = map(float, in_process("import").split())
    yield "import omcal (ms)", f"{alone:.3g}"
    yield "from omcal import OMCAL, after import sklearn.cluster (ms)", f"{after:.3g}"


PARTS = {
    "kmeans": against_kmeans,
    "sizes": sizes,
    "questions": questions,
    "phases": phases,
    "dense": against_dense,
    "scipy": against_scipy,
    "counts": on_counts,
    "small": small_data,
    "memory": memory,
    "growth": growth,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=PARTS, default=list(PARTS))
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--out", type=Path, default=Path("out") / "speed.md")
    parser.add_argument("--cpu", action="store_true", help="CPU time, on a busy machine")
    options = parser.parse_args()
    if options.cpu:
        globals()["CLOCK"] = time.process_time
    lines = [
        f"{thread_count()} cores, {'CPU' if options.cpu else 'wall'} time; median (smallest to "
        f"largest) of {options.repeats} interleaved repeats, three times as many for fits to 2000 "
        "samples or fewer, 2 or 3 where one takes seconds; a process for each line of growth.",
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
