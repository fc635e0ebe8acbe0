"""Expected memory and time of a fit: bytes of the rows and of the sample, times constant factors.

Memory must not be underestimated, since fits are refused by it; it may be several times too large.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from timeit import repeat
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.threads import one_blas_thread, thread_count
from omcal.method.anchors import SAMPLE_PER_ANCHOR
from omcal.method.inner_products import MOST_ROWS
from omcal.method.kmeans import SEED_PER_ANCHOR, trials
from omcal.method.rows import row_bytes
from omcal.method.vectors import FEW_ROWS
from omcal.model.tabular import html_table
from omcal.places.memory import TOGETHER
from omcal.views.view import View

# Numbers of copies in measured peaks: of a dense sample, a sparse sample, and anchors.
_COPIES, _SPARSE_COPIES, _CENTRES = 2, 4, 6
_GRAM_ROWS = 8192  # per block; up to three products of blocks per thread are in memory
_WORKSPACE, _PER_THREAD = 10e6, 16e6  # bytes: buffers of BLAS; blocks of rows and distances
_COMPILED_CODE, _COMPILED_SECONDS = 150e6, 1.5  # bytes; seconds to load it, once per process
# Costs in dense multiplications, right within a factor of about two.
_SPARSE, _LLOYD_STEPS, _SELECT, _GATHER = 15, 10, 500.0, 12.0
_ITERATION_SECONDS = 0.001


@dataclass(frozen=True)
class ViewSize:
    """Width, fraction of stored entries (None: dense) and float type of a view."""

    width: int
    density: float | None
    dtype: np.dtype

    @classmethod
    def of(cls, view: View) -> ViewSize:
        n, width = view.array.shape
        return cls(width, view.array.nnz / max(n * width, 1) if view.sparse else None, view.dtype)

    @property
    def row_entries(self) -> float:
        """Number of stored entries per row."""
        return self.width * (1.0 if self.density is None else self.density)

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in a copy; a sparse entry also has an index of 4 bytes."""
        return self.row_entries * (self.dtype.itemsize + 4 * (self.density is not None))


def view_sizes(
    dims: int | Sequence[int], dtype: DTypeLike, density: float | Sequence[float | None] | None
) -> tuple[ViewSize, ...]:
    """Return the sizes of views from `dims`, `dtype` and `density`."""
    widths: list[Any] = list(dims) if isinstance(dims, Sequence) else [dims]
    shares = list(density) if isinstance(density, Sequence) else [density] * len(widths)
    for width in widths:
        if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1:
            raise ValueError(f"dims has the entry {width!r}; give the width of each view.")
    sound = all(share is None or 0 <= share <= 1 for share in shares)
    if not widths or len(shares) != len(widths) or not sound:
        raise ValueError(
            f"dims={dims!r} and density={density!r}: give at least one width, and one share of "
            "stored entries from 0 to 1, or one per view."
        )
    used = View("", np.empty((0, 1), np.dtype(dtype))).dtype
    return tuple(ViewSize(int(w), share, used) for w, share in zip(widths, shares, strict=True))


@dataclass(frozen=True)
class Estimate:
    """Expected memory and time of a fit.

    `print` it, or read its properties. Bytes do not include the input, which is not copied. They
    are an upper bound: measured peaks were 0.3 to 0.98 of it. Seconds are rough. Both are for the
    CPU, even if a device is set.

    Attributes
    ----------
    n_samples : int
        Number of samples.
    views : tuple
        Width, density and type of each view.
    n_anchors, n_clusters, n_neighbors : int
        As in the fit.
    anchors : str
        How anchors are chosen, or "given".
    n_starts, max_iter : int
        Starts of G, and the iterations of each.
    memory_limit : int or None
        Bytes of rows to keep in memory; the rest is in files.
    on_cluster : bool
        Whether the rows are on a Dask cluster.
    device : str
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
    n_runs: int = 1

    @property
    def rows_in(self) -> str:
        """Return the place of the rows, in words."""
        if self.on_cluster:
            return "the memory of the Dask workers"
        if self.device != "cpu":
            return f"the memory of the device {self.device}"
        if self._in_files:
            return f"files, {format_bytes(self.memory_limit or 0)} of them in memory at a time"
        return "the memory of this machine"

    @property
    def memory(self) -> dict[str, dict[str, float]]:
        """Dict stage -> part -> bytes; the stages follow each other."""
        n, m, B, s = self.n_samples, self.n_anchors, self.n_runs, self._sample
        width, threads, joined = sum(view.width for view in self.views), thread_count(), B > 1
        sparse = [view.row_entries for view in self.views if view.density is not None]
        # Rows whose inner products with each other are kept.
        few = s if s == n <= MOST_ROWS else min(s, SEED_PER_ANCHOR * m, FEW_ROWS)
        copies = _SPARSE_COPIES if sparse else _COPIES
        sample = {
            "sample": copies * s * sum(view.row_bytes for view in self.views),
            "anchors": 8.0 * m * width * (_CENTRES + joined * B * (1 + threads)),
            "distances": 8.0 * (s * (8 + self._tried + joined * 2 * m) + few**2),
        }
        if sparse:
            sample["values in float64"] = 8.0 * n * max(sparse)
        rows = {"graphs and indicator": float(self.memory_limit or 0)}
        if not self._in_files:
            rows = self._rows
            rows["graphs"] = min(B * rows["graphs"], max(2 * rows["graphs"], TOGETHER))
        grams = 2 + min(3 * threads, 1 + n // _GRAM_ROWS)
        rows["small matrices"] = 8.0 * (grams * (len(self.views) * m) ** 2 + 3 * m * width)
        stages = {"choosing anchors": sample, "iterating": rows}
        if joined:  # label, runner-up and share of every sample in each run
            c = self.n_clusters
            rows["labels of the runs"] = n * B * 3.0 * np.min_scalar_type(c - 1).itemsize
            joint = row_bytes(1, 2 * B, c, B * c, np.dtype("f4"), compiled=compiled_pays(n))
            stages["joining"] = {
                "labels of the runs": rows["labels of the runs"],
                "joint graph": n * (12.0 + sum(joint.values())),
                "graphs of the runs": min(rows.get("graphs", 0.0), TOGETHER),
            }
        always = {"workspace": _WORKSPACE + _PER_THREAD * threads}
        always |= {"compiled code": _COMPILED_CODE} if compiled_pays(n) else {}
        return {stage: parts | always for stage, parts in stages.items()}

    @property
    def bytes(self) -> float:
        """Bytes of the largest stage."""
        return max(sum(parts.values()) for parts in self.memory.values())

    @property
    def time(self) -> dict[str, float]:
        """Dict stage -> seconds on this machine; each start has `max_iter` iterations."""
        n, m, V, runs = self.n_samples, self.n_anchors, len(self.views), self.n_runs
        c, k, s = self.n_clusters, self.n_neighbors, self._sample
        row = sum(
            view.row_entries * (view.dtype.itemsize / 4 if view.density is None else 2 * _SPARSE)
            for view in self.views
        )
        steps = _LLOYD_STEPS if s < n else _LLOYD_STEPS + 2 * self._tried
        anchors = runs * m * s * row * steps
        if s == n <= MOST_ROWS:  # products of all rows with each other, once for all runs
            anchors = min(anchors, n * n * row + runs * m * n * steps)
        passes = runs * self.n_starts * self.max_iter
        speed = _operations_per_second()
        stages = {
            "anchors": anchors / speed,
            "graphs": runs * n * m * (row + V * _SELECT) / speed,
            f"{passes} iterations": passes
            * ((n * (4 * V * k * c * _GATHER + 6 * c**2) + 60 * m**3) / speed + _ITERATION_SECONDS),
        }
        if compiled_pays(n):
            stages["loading compiled loops"] = _COMPILED_SECONDS
        return stages

    @property
    def seconds(self) -> float:
        """Seconds if no start converges before `max_iter`."""
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
            sizes = ", ".join(f"{part} {format_bytes(size)}" for part, size in parts.items())
            lines.append(f"  {stage}: {sizes}")
        listed = ", ".join(f"{stage} {_format_seconds(s)}" for stage, s in self.time.items())
        lines.append(f"Time: at most about {_format_seconds(self.seconds)} ({listed}).")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        rows = [
            (stage, name, format_bytes(size))
            for stage, parts in self.memory.items()
            for name, size in parts.items()
        ]
        first, *_, last = str(self).split("\n")
        return html_table([("stage", "part", "memory"), *rows], [first, last])

    @property
    def _sample(self) -> int:
        """Number of rows from which the anchors of a run are chosen."""
        n, m = self.n_samples, self.n_anchors
        sizes = {"given": 0, "random": m, "kmeans-full": n}
        return min(sizes.get(self.anchors, SAMPLE_PER_ANCHOR * m), n)

    @property
    def _tried(self) -> int:
        """Candidates per anchor of the k-means++ start, each with distances to all rows."""
        return trials(max(self._sample, 1), self.n_anchors, self.anchors == "kmeans-full")

    @property
    def _rows(self) -> dict[str, float]:
        """Bytes of graphs, indicator and labels of a run."""
        n, dtype = self.n_samples, np.result_type(*(view.dtype for view in self.views))
        size = len(self.views), self.n_neighbors, self.n_clusters, self.n_anchors, dtype
        parts = row_bytes(*size, compiled=compiled_pays(n))
        return {part: float(n * one) for part, one in parts.items()}

    @property
    def _in_files(self) -> bool:
        return self.memory_limit is not None and sum(self._rows.values()) > self.memory_limit


@cache
def _operations_per_second() -> float:
    """Measure the speed of dense products in float64; the best of several trials."""
    A = np.ones((256, 256))
    with one_blas_thread():
        seconds = min(repeat(lambda: A @ A, number=1, repeat=8))
    return thread_count() * 2.0 * len(A) ** 3 / seconds


def _format_seconds(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
