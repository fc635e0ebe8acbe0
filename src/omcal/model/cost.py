"""What a fit will take, before it starts: memory beyond the input, time, where the rows live."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.threads import IN_CACHE, one_blas_thread, thread_count
from omcal.method.anchors import SAMPLE_PER_ANCHOR
from omcal.method.inner_products import MOST_ROWS, inner_products_pay
from omcal.method.kmeans import (
    MOST_PER_TRIAL,
    PART_PER_ANCHOR,
    SEED_PER_ANCHOR,
    start_rows,
    trials,
)
from omcal.method.rows import row_bytes
from omcal.method.scaling import Scale
from omcal.method.span import SHARED_SAMPLES, span_pays
from omcal.model.sizes import INDEX, THIN, ViewSize
from omcal.places.memory import TOGETHER, dense_products_pay

_BLOCK = 8192  # rows of a block in a pass
_BLOCK_ENTRIES = 2**18  # numbers in a block of dense rows
_DISTANCES = 2**20  # numbers in a block of distances
_SPARSE_BLOCK = 2**18  # the same where the rows are sparse
_MEMBER = 44  # bytes of a row's number and cluster, and of a matrix of these
_BUFFERS = 2e6  # of BLAS and the like
_NUMBA, _COMPILED_LOOPS = 50e6, 55e6  # code, once loaded

# Time is counted in operations of dense products, whose speed is measured on the spot. How many
# times slower other operations are was measured once: a factor of two either way is usual.
_GATHER = 12.0  # products with the graphs
_SELECT, _SELECT_COMPILED = 800.0, 220.0  # operations a distance to find the nearest anchors
_LLOYD_STEPS, _LLOYD_STEPS_FULL = 6, 50
_ITERATION_SECONDS = 0.001
LOADING, _COMPILED_SECONDS = "loading compiled loops", 1.5  # once in a process


@dataclass(frozen=True)
class Estimate:
    """What a fit is expected to take.

    `print` it, or read its properties. Bytes are beyond the input, which is not copied; where
    they were measured, with one thread and two, the peak was within a factor of 1.5. Threads that
    wait for a core take less than is said here. Seconds are rough. Both are for the CPU, whatever
    the device.

    Attributes
    ----------
    n_samples : int
        Number of samples.
    views : tuple
        Width, density and type of each view.
    n_anchors, n_clusters, n_neighbors : int
        As in the fit.
    anchors : str
        How they are chosen, or "given".
    n_starts, max_iter : int
        Starts of G, and the iterations of each.
    memory_limit : int or None
        Most bytes of what is kept of the rows; the rest is in files.
    on_cluster : bool
        Whether a Dask cluster would do the work.
    device : str
        As in the fit.
    scale : str, dict or None
        As in the fit.
    n_runs : int
        Runs that are joined.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> expected = OMCAL(n_clusters=10).estimate(1_000_000, [50, 30], dtype="float32")
    >>> expected.rows_in, list(expected.memory), expected.n_anchors
    ('the memory of this machine', ['choosing anchors', 'iterating'], 50)
    """

    n_samples: int
    views: tuple[ViewSize, ...]
    n_anchors: int
    n_clusters: int
    n_neighbors: int
    anchors: str
    n_starts: int
    max_iter: int
    memory_limit: int | None = None
    on_cluster: bool = False
    device: str = "cpu"
    scale: Scale = "auto"
    n_runs: int = 1

    @property
    def rows_in(self) -> str:
        """Where the rows would live, in words."""
        if self.on_cluster:
            return "the memory of the Dask workers"
        if self.device != "cpu":
            return f"the memory of the device {self.device}"
        if "graphs and indicator" in self._row_bytes():
            return f"files, {format_bytes(self.memory_limit or 0)} of them in memory at a time"
        return "the memory of this machine"

    @property
    def memory(self) -> dict[str, dict[str, float]]:
        """Stage -> part -> bytes; the stages follow each other."""
        stages = {"choosing anchors": self._anchor_bytes(), "iterating": self._row_bytes()}
        if self.n_runs > 1:
            stages["joining"] = self._joining_bytes()
        if self._sparse and self.scale not in ("sample", None):
            return {"scaling": self._scaling_bytes()} | stages
        return stages

    @property
    def bytes(self) -> float:
        """Bytes at the fullest moment."""
        return max(sum(parts.values()) for parts in self.memory.values())

    @property
    def time(self) -> dict[str, float]:
        """Stage -> seconds on this machine; the iterations are `max_iter` of each start."""
        n, m, c, k, V = *self._sizes, len(self.views)
        row = sum(view.row_operations() for view in self.views)
        tall_skinny = sum(view.row_operations(tall_skinny=True) for view in self.views)
        steps = _LLOYD_STEPS if self._sample < n else _LLOYD_STEPS_FULL
        seeds = SEED_PER_ANCHOR * m if self._sample < n else self._start_rows or n
        compiled, B = compiled_pays(n), self.n_runs
        start = m * seeds * self._trials * tall_skinny
        if self._start_by_products:  # once for all runs
            start = n**2 * row / B
        anchors = m * self._sample * steps * row + start
        if self._by_products:  # of all rows with each other, once for all runs
            anchors = n**2 * row / B + m * n * (steps + self._trials)
        select = n * m * V * (_SELECT_COMPILED if compiled else _SELECT)
        graphs = B * (n * m * row + select)
        if self._in_span:
            seen = SHARED_SAMPLES * self._sample + 4 * PART_PER_ANCHOR * m
            own = m * (self._sample * steps + seeds * self._trials * THIN)
            anchors = m * (row * min(seen, 2 * n) / B + own)
            passes = math.ceil(B / self._graphs_at_once)
            graphs = n * m * (passes * row + B * V * m) + B * select
        iteration = n * (4 * V * k * c * _GATHER + 6 * c**2) + 60 * m**3
        passes = B * self.n_starts * self.max_iter
        speed = _operations_per_second()
        stages = {
            "anchors": B * anchors / speed,
            "graphs": graphs / speed,
            f"{passes} iterations": passes * (iteration / speed + _ITERATION_SECONDS),
        }
        return stages | ({LOADING: _COMPILED_SECONDS} if compiled else {})

    @property
    def seconds(self) -> float:
        """Seconds where every iteration is used."""
        return sum(self.time.values())

    def __str__(self) -> str:
        widths = " + ".join(str(view.width) for view in self.views)
        runs = f", {self.n_runs} runs" if self.n_runs > 1 else ""
        lines = [
            f"{self.n_samples} samples, {widths} features, {self.n_anchors} anchors{runs}; the "
            f"rows would live in {self.rows_in}.",
            f"Memory beyond the input: about {format_bytes(self.bytes)}; "
            f"{format_bytes(available_memory())} are available.",
        ]
        for stage, parts in self.memory.items():
            listed = ", ".join(
                f"{name} {format_bytes(size)}" for name, size in parts.items() if size
            )
            lines.append(f"  {stage}: {listed}")
        listed = ", ".join(f"{stage} {_format_seconds(s)}" for stage, s in self.time.items())
        lines.append(f"Time: at most about {_format_seconds(self.seconds)} ({listed}).")
        return "\n".join(lines)

    @property
    def _sizes(self) -> tuple[int, int, int, int]:
        return self.n_samples, self.n_anchors, self.n_clusters, self.n_neighbors

    @property
    def _itemsize(self) -> int:
        return np.result_type(*(view.dtype for view in self.views)).itemsize

    @property
    def _sample(self) -> int:
        """Rows from which the anchors are chosen."""
        n, m = self.n_samples, self.n_anchors
        sizes = {"given": 0, "random": m, "kmeans-full": n}
        return min(sizes.get(self.anchors, SAMPLE_PER_ANCHOR * m), n)

    @property
    def _trials(self) -> int:
        """Points that are tried for each anchor in the k-means++ start."""
        return trials(self._sample, self.n_anchors, thorough=self.anchors == "kmeans-full")

    @property
    def _by_products(self) -> bool:
        """Whether all rows are in the sample, and their products with each other are kept."""
        width = sum(view.width for view in self.views)
        return self._sample == self.n_samples and inner_products_pay(self.n_samples, width)

    @property
    def _start_by_products(self) -> bool:
        """Whether all rows are in the sample, and these products are there for its start alone."""
        width = sum(view.width for view in self.views)
        most = width // 4 if self._sparse else 2 * width
        few = MOST_PER_TRIAL * self._trials * self.n_anchors
        return self._sample == self.n_samples <= min(MOST_ROWS, most, few) and not self._start_rows

    @property
    def _start_rows(self) -> int | None:
        """Of how many of all rows the start is drawn, if not of all."""
        width, thorough = sum(view.width for view in self.views), self.anchors == "kmeans-full"
        return start_rows(self.n_samples, width, self.n_anchors, thorough)

    @property
    def _sparse(self) -> list[ViewSize]:
        return [view for view in self.views if view.density is not None]

    def _scaling_bytes(self) -> dict[str, float]:
        values = [view.row_entries for view in self._sparse if view.dtype != np.float64]
        parts = {"values in float64": 8.0 * self.n_samples * max(values, default=0.0)}
        return parts | {"workspace": self._workspace}

    @property
    def _in_span(self) -> bool:
        widths = [view.width for view in self.views]
        return span_pays(self.n_samples, widths, self.n_anchors, self.anchors, self.n_runs)

    def _span_bytes(self) -> dict[str, float]:
        """What is there while several runs find their anchors in one span."""
        n, m, t = self.n_samples, self.n_anchors, self._itemsize
        width = sum(view.width for view in self.views)
        row = sum(view.row_entries for view in self.views) * (t + (INDEX if self._sparse else 0))
        shared = min(n, SHARED_SAMPLES * self._sample)
        threads = min(thread_count(), self.n_runs)
        return {
            "sample": min(n, PART_PER_ANCHOR * m) * row,
            "directions": (8.0 + 4.0 * t) * m * width,
            "coordinates": (2.0 * shared + threads * self._sample) * m * t,
            "distances": threads * (self._sample * 24.0 + 2.0 * t * _DISTANCES),
            # The means of all runs and their sums, in each thread those of a block of rows.
            "means": (16.0 + (8.0 + t) * thread_count()) * self.n_runs * m * width,
            "clusters": float(_MEMBER * self.n_runs * self._sample),
            "workspace": self._workspace,
        } | ({"compiled code": _NUMBA} if compiled_pays(n) else {})

    def _anchor_bytes(self) -> dict[str, float]:
        if self._in_span:
            return self._span_bytes()
        s, m, t = self._sample, self.n_anchors, self._itemsize
        width = sum(view.width for view in self.views)
        entries = sum(view.row_entries for view in self.views)
        row = entries * (t + (INDEX if self._sparse else 0))
        joint = s * row
        # Of the rows that the start is drawn from, up to two products for each of their entries.
        part = min(s, 2 * SEED_PER_ANCHOR * m)
        copies = 1
        if self._sparse:
            # Rows that were drawn or lay in several views before; columns for the products, or
            # the sparse form of dense views.
            mixed = len(self._sparse) < len(self.views)
            copies += (len(self.views) > 1 or s < self.n_samples) + (self._by_products or mixed)
        centres = (2.0 * t + 8.0 if self._by_products else 6.0 * t) * m * width
        parts = {
            "sample": joint * copies,
            "start": joint * part / s if 0 < s < self.n_samples else 0.0,
            # Half of them are gone whenever there is more than one copy of the sample.
            "centres": max(centres / 2, centres - (copies - 1) * joint),
            "distances": s * (t * self._trials + 24.0) + 2.0 * t * min(s * m, _DISTANCES),
            "blocks of sparse rows": self._sparse_blocks(s, width, row, 1),
            "workspace": self._workspace,
        }
        if self._by_products or self._start_by_products:
            parts["inner products"] = float(s**2) * t
        return parts | ({"compiled code": _NUMBA} if compiled_pays(self.n_samples) else {})

    def _runs_bytes(self) -> float:
        """Label, runner-up and share of every sample in each run."""
        label = np.min_scalar_type(max(self.n_clusters - 1, 1)).itemsize
        return float(self.n_samples * self.n_runs * (2 * label + 1))

    def _joining_bytes(self) -> dict[str, float]:
        n, c, B = self.n_samples, self.n_clusters, self.n_runs
        compiled = compiled_pays(n)
        parts = row_bytes(1, 2 * B, c, B * c, np.dtype(np.float32), compiled=compiled)
        rows = {part: float(n * size) for part, size in parts.items()}
        if self._graphs_at_once == B and B * self._graph_bytes <= TOGETHER:
            rows["graphs of the runs"] = B * self._graph_bytes
        rows |= {"labels of the runs": self._runs_bytes(), "labels": 12.0 * n}
        return rows | ({"compiled code": _NUMBA + _COMPILED_LOOPS} if compiled else {})

    @property
    def _graph_bytes(self) -> float:
        n, m, c, k = self._sizes
        dtype = np.result_type(*(view.dtype for view in self.views))
        return float(n * row_bytes(len(self.views), k, c, m, dtype)["graphs"])

    @property
    def _graphs_at_once(self) -> int:
        """Graphs of so many runs are in memory together, where there is no limit for them."""
        if self.memory_limit is not None or self.on_cluster or self.device != "cpu":
            return 1
        most = max(2, int(TOGETHER // max(self._graph_bytes, 1.0)))
        return min(self.n_runs, most) if self._in_span or self.n_runs <= most else 1

    def _row_bytes(self) -> dict[str, float]:
        n, m, c, k, V = *self._sizes, len(self.views)
        dtype, compiled = np.result_type(*(view.dtype for view in self.views)), compiled_pays(n)
        widths = [view.width for view in self.views]
        widest = max((view.row_bytes for view in self._sparse), default=0.0)
        threads = min(thread_count(), 2 * math.ceil(n / _BLOCK))  # as in `_sparse_blocks`
        parts = row_bytes(V, k, c, m, dtype, compiled=compiled)
        parts.pop("label")
        rows = {part: float(n * size) for part, size in parts.items()}
        rows["graphs"] *= self._graphs_at_once
        if self.memory_limit is not None and sum(rows.values()) > self.memory_limit:
            rows = {"graphs and indicator": float(self.memory_limit)}
        if self.n_runs > 1:
            rows["labels of the runs"] = self._runs_bytes()
        a_pass, products = 32.0 * c + 12.0 * V * k, 0.0
        if not compiled:  # of the graphs with each other: dense ones, or entry by entry
            dense = dense_products_pay(V, m, k)
            products = V * m * 8.0 + 12.0 * V * k if dense else 32.0 * V * k
        rest = {
            "labels": 12.0 * n,
            # Blocks of rows return their own sums before these are added up.
            "sums": 8.0 * (2 * threads + 2) * (V * m) ** 2,
            # Those of one view at a time are made ready for products with its rows.
            "anchors": 8.0 * m * (self.n_runs * sum(widths) + 4 * max(widths)),
            "workspace": threads * (_BUFFERS + min(n, _BLOCK) * max(a_pass, products)),
            # As they are and scaled.
            "blocks of sparse rows": self._sparse_blocks(n, max(widths), widest, 2),
        }
        return rows | rest | ({"compiled code": _NUMBA + _COMPILED_LOOPS} if compiled else {})

    @property
    def _workspace(self) -> float:
        """What each thread has in work: a block of dense rows, and buffers of BLAS and others."""
        n, widths = self.n_samples, [view.width for view in self.views]
        dense = [view.width for view in self.views if view.density is None]
        threads = min(thread_count(), math.ceil(n * max(widths) / _BLOCK_ENTRIES))
        block = 8.0 * min(n * max(dense, default=0), _BLOCK_ENTRIES)
        return threads * (_BUFFERS + block)

    def _sparse_blocks(self, n: int, width: int, row: float, copies: int) -> float:
        """Blocks of n sparse rows of these bytes in all threads but one.

        Threads take turns at them, and malloc keeps what each had: some twice as many as there are
        blocks were seen to.
        """
        size = _SPARSE_BLOCK // self.n_anchors
        if not self._sparse or n <= size:
            return 0.0
        by_columns = self.n_anchors * width * self._itemsize > IN_CACHE  # for their products
        threads = min(thread_count(), 2 * math.ceil(n / size))
        return (threads - 1) * (copies + by_columns) * size * row


@cache
def _operations_per_second() -> float:
    """Speed of dense products in float64; the best of a few, since other work only slows them."""
    A = np.ones((256, 256))
    seconds = []
    with one_blas_thread():
        for _ in range(8):
            began = perf_counter()
            A @ A
            seconds.append(perf_counter() - began)
    return thread_count() * 2.0 * A.shape[0] ** 3 / min(seconds)


def _format_seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
