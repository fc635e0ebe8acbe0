"""Expected memory and time of a fit: bytes of the rows, bytes of the sample, and a stated margin.

Memory must not be underestimated, as fits are refused by it; it may be overestimated a few times.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from time import perf_counter

import numpy as np

from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.threads import one_blas_thread, thread_count
from omcal.method.anchors import SAMPLE_PER_ANCHOR
from omcal.method.inner_products import MOST_ROWS
from omcal.method.kmeans import SEED_PER_ANCHOR, trials
from omcal.method.rows import row_bytes
from omcal.method.scaling import Scale
from omcal.method.span import SHARED_SAMPLES
from omcal.method.vectors import FEW_ROWS
from omcal.model.sizes import ViewSize
from omcal.model.tabular import html_table
from omcal.places.memory import TOGETHER

# Copies of the sample: as drawn and side by side; of sparse rows also by columns and by blocks.
_COPIES, _SPARSE_COPIES = 2, 4
_CENTRES = 6  # copies of the anchors during k-means, in float64
_PER_THREAD, _ONCE = 16e6, 10e6  # bytes: blocks of rows and distances, buffers of BLAS
_COMPILED_CODE = 150e6  # bytes, once loaded
# Operations per dense multiplication; a factor of two either way is usual.
_LLOYD_STEPS, _SELECT, _GATHER = 10, 500.0, 12.0
_ITERATION_SECONDS = 0.001
LOADING, _COMPILED_SECONDS = "loading compiled loops", 1.5  # once per process


@dataclass(frozen=True)
class Estimate:
    """Expected memory and time of a fit.

    `print` it, or read its properties. Bytes are beyond the input, which is not copied. They are
    an upper bound: measured peaks were 0.2 to 0.9 of it. Seconds are rough. Both are for the CPU,
    whatever the device.

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
        Bytes of rows to keep in memory; the rest is in files.
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
        """Return where the rows would live, in words."""
        if self.on_cluster:
            return "the memory of the Dask workers"
        if self.device != "cpu":
            return f"the memory of the device {self.device}"
        if self._in_files:
            return f"files, {format_bytes(self.memory_limit or 0)} of them in memory at a time"
        return "the memory of this machine"

    @property
    def memory(self) -> dict[str, dict[str, float]]:
        """Stage -> part -> bytes; the stages follow each other."""
        stages = {"choosing anchors": self._anchor_bytes(), "iterating": self._row_bytes()}
        if self.n_runs > 1:
            stages["joining"] = self._joining_bytes()
        code = {"compiled code": _COMPILED_CODE} if compiled_pays(self.n_samples) else {}
        workspace = {"workspace": _ONCE + _PER_THREAD * thread_count()} | code
        return {stage: parts | workspace for stage, parts in stages.items()}

    @property
    def bytes(self) -> float:
        """Bytes at the fullest moment."""
        return max(sum(parts.values()) for parts in self.memory.values())

    @property
    def time(self) -> dict[str, float]:
        """Stage -> seconds on this machine; the iterations are `max_iter` of each start."""
        n, m, V, B = self.n_samples, self.n_anchors, len(self.views), self.n_runs
        c, k, s = self.n_clusters, self.n_neighbors, self._sample
        row = sum(view.row_operations for view in self.views)
        steps = _LLOYD_STEPS if s < n else _LLOYD_STEPS + 2 * self._tried
        anchors = B * m * s * row * steps
        if s == n <= MOST_ROWS:  # products of all rows with each other, once for all runs
            anchors = min(anchors, n * n * row + B * m * n * steps)
        graphs = B * n * m * (row + V * _SELECT)
        passes = B * self.n_starts * self.max_iter
        iterations = passes * (n * (4 * V * k * c * _GATHER + 6 * c**2) + 60 * m**3)
        speed = _operations_per_second()
        stages = {
            "anchors": anchors / speed,
            "graphs": graphs / speed,
            f"{passes} iterations": iterations / speed + passes * _ITERATION_SECONDS,
        }
        return stages | ({LOADING: _COMPILED_SECONDS} if compiled_pays(n) else {})

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

    def _repr_html_(self) -> str:
        rows = [
            (stage, name, format_bytes(size))
            for stage, parts in self.memory.items()
            for name, size in parts.items()
            if size
        ]
        first, *_, last = str(self).split("\n")
        return html_table([("stage", "part", "memory"), *rows], [first, last])

    @property
    def _dtype(self) -> np.dtype:
        return np.result_type(*(view.dtype for view in self.views))

    @property
    def _sample(self) -> int:
        """Rows from which the anchors of a run are chosen."""
        n, m = self.n_samples, self.n_anchors
        sizes = {"given": 0, "random": m, "kmeans-full": n}
        return min(sizes.get(self.anchors, SAMPLE_PER_ANCHOR * m), n)

    @property
    def _tried(self) -> int:
        """Points tried per anchor of the k-means++ start, each with distances to all rows."""
        thorough = self.anchors == "kmeans-full"
        return trials(self._sample, self.n_anchors, thorough=thorough) if self._sample else 0

    def _anchor_bytes(self) -> dict[str, float]:
        s, m, t, B = self._sample, self.n_anchors, self._dtype.itemsize, self.n_runs
        width = sum(view.width for view in self.views)
        row = sum(view.row_bytes for view in self.views)
        is_sparse = any(view.density is not None for view in self.views)
        shared = min(self.n_samples, SHARED_SAMPLES * s) if B > 1 else s
        return {
            "sample": (_SPARSE_COPIES if is_sparse else _COPIES) * s * row,
            "anchors": 8.0 * m * width * (_CENTRES + (1 + thread_count()) * (B if B > 1 else 0)),
            "distances": float(t * (shared * m * (B > 1) + s * (8 + self._tried))),
            "inner products": self._products_bytes(),
            "values in float64": 8.0 * self.n_samples * self._widest_sparse,
        }

    def _products_bytes(self) -> float:
        """Return the bytes of the products of sampled rows with each other, where they are few."""
        s, start = self._sample, min(self._sample, SEED_PER_ANCHOR * self.n_anchors)
        rows = s if s == self.n_samples <= MOST_ROWS else min(start, FEW_ROWS)
        return float(self._dtype.itemsize * rows * rows)

    @property
    def _widest_sparse(self) -> float:
        """Return the most stored numbers per row of a sparse view, which are copied to scale it."""
        sparse = [view.row_entries for view in self.views if view.density is not None]
        return max(sparse, default=0.0) if self.scale not in ("sample", None) else 0.0

    def _graph_bytes(self, n_runs: int) -> float:
        n, m, c, k = self.n_samples, self.n_anchors, self.n_clusters, self.n_neighbors
        return float(n_runs * n * row_bytes(len(self.views), k, c, m, self._dtype)["graphs"])

    @property
    def _graphs_at_once(self) -> int:
        """Number of runs whose graphs are in memory together."""
        if self.memory_limit is not None or self.on_cluster or self.device != "cpu":
            return 1
        return min(self.n_runs, max(2, int(TOGETHER // max(self._graph_bytes(1), 1.0))))

    def _rows(self) -> dict[str, float]:
        n, m, c, k = self.n_samples, self.n_anchors, self.n_clusters, self.n_neighbors
        compiled = compiled_pays(n)
        parts = row_bytes(len(self.views), k, c, m, self._dtype, compiled=compiled)
        rows = {part: float(n * size) for part, size in parts.items()}
        return rows | {"graphs": self._graph_bytes(self._graphs_at_once)}

    @property
    def _in_files(self) -> bool:
        return self.memory_limit is not None and sum(self._rows().values()) > self.memory_limit

    def _row_bytes(self) -> dict[str, float]:
        rows = self._rows()
        if self._in_files:
            rows = {"graphs and indicator": float(self.memory_limit or 0)}
        V, m = len(self.views), self.n_anchors
        width = sum(view.width for view in self.views)
        small = 8.0 * (2 * (V * m) ** 2 + 6 * m * m + 3 * m * width)
        return rows | {"labels of the runs": self._run_labels, "small matrices": small}

    @property
    def _run_labels(self) -> float:
        """Return the bytes of label, runner-up and share of every sample in each run."""
        label = np.min_scalar_type(max(self.n_clusters - 1, 1)).itemsize
        return float(self.n_samples * self.n_runs * (2 * label + 1)) if self.n_runs > 1 else 0.0

    def _joining_bytes(self) -> dict[str, float]:
        n, c, B = self.n_samples, self.n_clusters, self.n_runs
        size = (1, 2 * B, c, B * c, np.dtype(np.float32))
        parts = row_bytes(*size, compiled=compiled_pays(n))
        rows = {part: float(n * size) for part, size in parts.items()}
        rows["graphs of the runs"] = min(self._graph_bytes(B), float(TOGETHER))
        return rows | {"labels of the runs": self._run_labels + 12.0 * n}


@cache
def _operations_per_second() -> float:
    """Measure the speed of dense products in float64; the best of a few."""
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
