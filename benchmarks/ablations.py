"""Time of whole fits without each mechanism of the CPU code, relative to fits with all of them.

python benchmarks/ablations.py [--only NAME …] [--cases NAME …] [--repeats 7] [--out FILE]

A mechanism is switched off by a patch, and fits with and without it run in turns in one process.
A cell is the median of the ratio of CPU times (without / with), in percent more, and in brackets
the median of the wall times. Below 3 % in all cases a mechanism should go.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

from speed import MNIST_WIDTHS, clustered_views

from omcal import OMCAL, Consensus
from omcal.machine import compiled, tall_skinny, threads
from omcal.machine.threads import thread_count
from omcal.method import anchors, graph, kmeans, scaling, span, vectors
from omcal.places import memory

# Shapes: samples, widths, clusters, runs.
CASES = {
    "1000 × 1430": (1000, MNIST_WIDTHS, 10, 1),
    "5000 × 1430": (5000, MNIST_WIDTHS, 10, 1),
    "12000 × 1430": (12_000, MNIST_WIDTHS, 10, 1),
    "2000 × 649": (2000, (216, 76, 64, 6, 240, 47), 10, 1),
    "60000 × 1430": (60_000, MNIST_WIDTHS, 10, 1),
    "60000 × 30": (60_000, (20, 10), 10, 1),
    "200000 × 64": (200_000, (40, 24), 20, 1),
    "60000 × 60, c = 40": (60_000, (40, 20), 40, 1),
    "1600 × 192, c = 100": (1600, (128, 64), 100, 1),
    "10 runs, 5000 × 1430": (5000, MNIST_WIDTHS, 10, 10),
    "10 runs, 60000 × 448": (60_000, (256, 128, 64), 10, 10),
}


def no(*_: Any, **__: Any) -> bool:
    return False


def plain_product(self: Any, X: Any, *, any_order: bool = True) -> Any:
    return X @ self.W


def without_loops(module: Any) -> Any:
    """Switch off the compiled loops that a module uses."""
    return patch.object(module, "compiled_pays", no)


@contextmanager
def plain_vectors() -> Iterator[None]:
    """k-means without its own compiled loops."""
    made = vectors.Vectors.__init__

    def init(self: Any, X: Any, norms: Any = None, *, compiled: bool = False) -> None:
        made(self, X, norms, compiled=False)

    with patch.object(vectors.Vectors, "__init__", init):
        yield


@contextmanager
def plain_rows() -> Iterator[None]:
    """The pass by products of SciPy and BLAS."""
    made = memory.MemoryRows.__init__

    def init(self: Any, *given: Any, compiled: bool = False, **more: Any) -> None:
        made(self, *given, compiled=False, **more)

    with patch.object(memory.MemoryRows, "__init__", init):
        yield


MECHANISMS: dict[str, Callable[[], list[Any]]] = {
    "all compiled loops": lambda: [patch.object(compiled, "MIN_ROWS", 10**12)],
    "compiled pass (unrolled or vectors)": lambda: [plain_rows()],
    "pass of vectors": lambda: [patch.object(compiled, "_MOST_PRODUCTS", 0)],
    "search of vectors (top-k)": lambda: [patch.object(graph, "_IN_REGISTERS", 0)],
    "product with few columns": lambda: [
        patch.object(tall_skinny.ThinProduct, "__call__", plain_product)
    ],
    "compiled loops of k-means": lambda: [plain_vectors()],
    "compiled rows of the sample": lambda: [without_loops(anchors)],
    "compiled moments": lambda: [patch.object(scaling, "compiled_pays", no)],
    "bounds of k-means": lambda: [patch.object(vectors, "_MANY_DISTANCES", 10**15)],
    "inner products": lambda: [
        patch.object(anchors, "inner_products_pay", no),
        patch.object(kmeans, "inner_products_pay", no),
        patch.object(vectors.Vectors, "among_themselves", property(lambda self: self)),
    ],
    "few directions of wide rows": lambda: [patch.object(memory, "span_pays", no)],
    "part of the rows in first powers": lambda: [
        patch.object(span, "row_steps", lambda n, number: [1] * (span.POWERS + 1))
    ],
    "search of short rows": lambda: [patch.object(graph, "_SHORT_ROW", 0)],
    "smallest one by one": lambda: [patch.object(graph, "_FEW_NEIGHBOURS", 0)],
    "one BLAS thread": lambda: [
        patch.object(module, name, lambda *given: nullcontext())
        for name in ("one_blas_thread", "small_blas")
        for module in _modules_with(name)
    ],
}


def _modules_with(name: str) -> list[Any]:
    return [
        module
        for key, module in sys.modules.items()
        if key.startswith("omcal") and module is not threads and name in vars(module)
    ]


@contextmanager
def without(name: str | None) -> Iterator[None]:
    """Switch a mechanism off in the block; None: all stay on."""
    with ExitStack() as stack:
        if name is not None:
            for switch in MECHANISMS[name]():
                stack.enter_context(switch)
        yield


def timed(fit: Callable[[], Any]) -> tuple[float, float]:
    began, began_cpu = time.perf_counter(), time.process_time()
    fit()
    return time.process_time() - began_cpu, time.perf_counter() - began


def measure(case: str, names: list[str], repeats: int) -> dict[str, tuple[float, float]]:
    """Percent more CPU time and wall time without each mechanism."""
    n, widths, c, runs = CASES[case]
    views, _ = clustered_views(n, widths, c)
    model: Any = OMCAL(c, random_state=0)
    if runs > 1:
        model = Consensus(OMCAL(c), n_runs=runs, random_state=0)
    ratios: dict[str, list[tuple[float, float]]] = {name: [] for name in names}
    for name in (None, *names):  # compile and load
        with without(name):
            model.fit(views)
    for _ in range(repeats):
        for name in names:
            base = timed(lambda: model.fit(views))
            with without(name):
                off = timed(lambda: model.fit(views))
            again = timed(lambda: model.fit(views))
            both = [(a + b) / 2 for a, b in zip(base, again, strict=True)]
            ratios[name].append((off[0] / both[0], off[1] / both[1]))
    return {
        name: tuple(100 * (median(one[i] for one in found) - 1) for i in (0, 1))
        for name, found in ratios.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=MECHANISMS, default=list(MECHANISMS))
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--out", type=Path)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    columns = {}
    for case in options.cases:
        columns[case] = measure(case, options.only, options.repeats)
        print(case, {k: [round(x, 1) for x in v] for k, v in columns[case].items()}, flush=True)
    lines = [
        f"{platform.machine()}, {thread_count()} threads: % more CPU time (wall time) without",
        "",
        "| mechanism | " + " | ".join(columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for name in options.only:
        cells = [
            f"{columns[case][name][0]:+.1f} ({columns[case][name][1]:+.1f})" for case in columns
        ]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
