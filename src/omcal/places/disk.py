"""Views, or rows, that are larger than the memory of this machine."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.scratch import Scratch
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor, graphs_of_runs
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.settings import GraphSettings
from omcal.places.base import (
    OutputKind,
    Place,
    SampledGraphs,
    bytes_per_row,
    collect,
    sample_rows,
)
from omcal.places.choose import PlaceRequest
from omcal.places.data_scan import (
    BlockStats,
    DataScan,
    NonFiniteBlockError,
    drafts_of,
    nonfinite_counts,
    refuse_nonfinite,
    require_finite_block,
    require_same,
    scan,
)
from omcal.places.memory import MemoryRows, join_in_memory, learn_in_memory
from omcal.places.parts import ChunkedRows
from omcal.views.stored import read_ahead
from omcal.views.view import Views

logger: logging.Logger = logging.getLogger("omcal")

_READ_BYTES = 1 << 24  # large enough to be read at full speed
_PART_ROWS = 4096  # parts in scratch files have a multiple of this


class OnDisk(Place):
    """Views, or rows, larger than the memory: read in blocks, twice in all.

    Where the kind of a view is to be found, some of its rows are looked at before. The first read
    takes the moments and the samples for the anchors, the second builds the graphs; they stay in
    memory where they fit the limit.
    """

    supported_options = frozenset({"memory_limit", "scratch_dir"})
    checks_values = True

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        super().__init__(views, asked)
        given = asked.memory_limit
        self._limit = available_memory() // 2 if given is None else given
        self._blocks = list(row_blocks(views.n, block_rows(views, self._limit)))
        self._marks: dict[int, int] = {}  # checksums of the blocks at the first read

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        if settings.anchors == "kmeans-full":
            _require_sample_fits(self.views, self._limit)
        if not self.views.stored:
            return learn_in_memory(self.views, settings, random_states)
        with counting_nonfinite(self.views, self._blocks):
            drafts = drafts_of(self.views, self.n, settings.scale, self.load)
            scan_plan = DataScan(self.views.n, self.views.widths, settings, random_states, drafts)
            seen = self.scan_rows(scan_plan)
        learned = scan_plan.finish(seen, self.views)
        self.scanned = scan_plan.kept
        return learned

    def load(self, parts: list[slice]) -> list[Views]:
        return [block for _, block in read_ahead(self.views.load, parts)]

    def scan_rows(self, scan_plan: DataScan, first: int = 0) -> BlockStats:
        def among_all(rows: slice) -> slice:
            return slice(first + rows.start, first + rows.stop)

        looked_at = [rows for rows in self._blocks if scan_plan.wants(among_all(rows))]
        blocks = read_ahead(self.views.load, looked_at)
        seen = reduce(
            add,
            (
                scan(
                    block, first + rows.start, scan_plan.sampled(among_all(rows)), scan_plan.shared
                )
                for rows, block in blocks
            ),
            BlockStats(),
        )
        self._marks = {
            start - first: block_checksum for start, block_checksum in seen.block_checksums.items()
        }
        return seen

    def build(
        self, models: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        stores = [self._store(settings, len(models)) for _ in models]
        self._samples: list[list[AnchorGraphs]] = [[] for _ in models]
        some = sample_rows(self.views.n)
        with counting_nonfinite(self.views, self._blocks):
            for rows, block in read_ahead(self.views.load, self._blocks):
                require_finite_block(block)
                require_same(block, rows, self._marks)
                made = graphs_of_runs(block, models, compiled=compiled_pays(self.views.n))
                inside = some[(some >= rows.start) & (some < rows.stop)] - rows.start
                for graphs, store, sample in zip(made, stores, self._samples, strict=True):
                    store.put(rows, graphs)
                    sample.append(graphs[inside])
        while stores:
            yield stores.pop(0).rows()

    def _store(self, settings: GraphSettings, count: int) -> _RowStore:
        row_bytes, compiled = bytes_per_row(self.views, settings), compiled_pays(self.views.n)
        make = partial(MemoryRows, n_clusters=settings.n_clusters, compiled=compiled)
        return _RowStore(self.views, settings, make, row_bytes, self._limit // count, self.asked)

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        return join_in_memory(runs, n_clusters)

    def sample_graphs(self, number: int) -> SampledGraphs:
        return SampledGraphs(AnchorGraphs.joined(self._samples[number]), sample_rows(self.views.n))

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        parts = (part for block in loaded(self.views) for part in rule.blocks(block))
        return collect(parts, wanted, self.views.n, out)


@contextmanager
def counting_nonfinite(views: Views, blocks: list[slice]) -> Iterator[None]:
    """Turn the error of a non-finite block into one with the number of such values per view."""
    try:
        yield
    except NonFiniteBlockError:
        refuse_nonfinite(views, lambda: _count_nonfinite(views, blocks))
        raise


def loaded(views: Views) -> Iterator[Views]:
    """Yield consecutive blocks of rows, in memory and finite."""
    blocks = list(row_blocks(views.n, block_rows(views)))
    with counting_nonfinite(views, blocks):
        for _, block in read_ahead(views.load, blocks):
            require_finite_block(block)
            yield block


def block_rows(views: Views, limit: int | None = None) -> int:
    """Return the rows per read: whole chunks of the store, a few megabytes."""
    row_bytes = sum(view.width * max(view.array.dtype.itemsize, 4) for view in views)
    wanted = min(_READ_BYTES, limit // 8) if limit else _READ_BYTES
    rows = max(1, wanted // row_bytes)
    chunk = max(view.array.table.chunk_rows if view.stored else 1 for view in views)
    return int(max(chunk, rows // chunk * chunk))


class _RowStore:
    """Graphs and F of all rows, in memory within the limit, else in scratch files."""

    def __init__(
        self,
        views: Views,
        settings: GraphSettings,
        make: Callable[..., AbstractRows],
        row_bytes: int,
        limit: int,
        asked: PlaceRequest,
    ) -> None:
        n, c, m = views.n, settings.n_clusters, settings.n_anchors
        self._make = make
        self._scratch = None if n * row_bytes <= limit else Scratch(asked.scratch_dir)
        self._part_rows = max(1, limit // 2 // row_bytes // _PART_ROWS) * _PART_ROWS
        empty = self._scratch.array if self._scratch else np.empty
        edges = (n, len(views), settings.n_neighbors)
        self._graphs = AnchorGraphs(
            empty(edges, np.min_scalar_type(m - 1)), empty(edges, views.dtype), m
        )
        if self._scratch:
            self._F = self._scratch.array((n, c), views.dtype)
            logger.info(
                "%s of graphs are kept in %s", format_bytes(n * row_bytes), self._scratch.folder
            )

    def put(self, rows: slice, part: AnchorGraphs) -> None:
        self._graphs.indices[rows] = part.indices
        self._graphs.weights[rows] = part.weights
        if self._scratch:
            self._scratch.release()

    def rows(self) -> AbstractRows:
        if self._scratch is None:
            return self._make(self._graphs)
        parts = row_blocks(self._graphs.n, self._part_rows)
        return ChunkedRows([partial(self._part, rows, self._scratch) for rows in parts])

    @contextmanager
    def _part(self, rows: slice, scratch: Scratch) -> Iterator[AbstractRows]:
        """Make some rows for one use, and release their memory."""
        try:
            yield self._make(self._graphs[rows], F=self._F[rows])
        finally:
            scratch.release()


def _require_sample_fits(views: Views, limit: int) -> None:
    n_bytes = views.n * sum(view.width * view.dtype.itemsize for view in views if view.stored)
    if n_bytes > limit:
        raise ValueError(
            f"anchors='kmeans-full' takes all rows into memory, {format_bytes(n_bytes)}, and the "
            f"limit is {format_bytes(limit)}; use anchors='kmeans', or raise memory_limit."
        )


def _count_nonfinite(views: Views, blocks: list[slice]) -> Array:
    counts = (nonfinite_counts(block) for _, block in read_ahead(views.load, blocks))
    return reduce(add, counts)
