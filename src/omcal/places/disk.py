"""Views, or rows, that are larger than the memory of this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.scratch import Scratch
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor
from omcal.method.rows import AbstractRows
from omcal.method.settings import GraphSettings
from omcal.places.base import OutputKind, SampledGraphs, bytes_per_row, collect, sample_rows
from omcal.places.blocks import BlockTask, InBlocks, graphs_of_block
from omcal.places.choose import PlaceRequest
from omcal.places.data_scan import finite_block
from omcal.places.memory import MemoryRows, learn_in_memory
from omcal.places.parts import ChunkedRows
from omcal.views.stored import read_ahead
from omcal.views.view import Views

logger: logging.Logger = logging.getLogger("omcal")

_READ_BYTES = 1 << 24  # large enough to be read at full speed
_PART_ROWS = 4096  # rows per part in scratch files, or a multiple


class OnDisk(InBlocks):
    """Views, or rows, larger than memory: read in blocks, twice in all.

    Graphs stay in memory if they fit the limit, else in scratch files.
    """

    supported_options = frozenset({"memory_limit", "scratch_dir"})

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        super().__init__(views, asked)
        given = asked.memory_limit
        self._limit = available_memory() // 2 if given is None else given
        self.blocks = list(row_blocks(views.n, _block_rows(views, self._limit)))
        self._checksums: dict[int, int] = {}

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        if settings.anchors == "kmeans-full":
            _require_sample_fits(self.views, self._limit)
        if not self.views.stored:
            return learn_in_memory(self.views, settings, random_states)
        return super().learn(settings, random_states)

    def load(self, parts: list[slice]) -> list[Views]:
        return [finite_block(self.views.load(part)) for part in parts]

    def total(self, start: Any, task: BlockTask) -> Any:
        blocks = read_ahead(self.views.load, [rows for rows in self.blocks if task.which(rows)])
        found = (task.work(block, rows, *task.arguments(rows)) for rows, block in blocks)
        return reduce(add, found, start)

    def build(
        self, models: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        limit = self._limit // len(models)
        stores = [_RowStore(self.views, settings, limit, self.asked.scratch_dir) for _ in models]
        self._samples: list[list[AnchorGraphs]] = [[] for _ in models]
        compiled, some = compiled_pays(self.views.n), sample_rows(self.views.n)
        for rows, block in read_ahead(self.views.load, self.blocks):
            checksum = self._checksums.get(rows.start)
            made = graphs_of_block(models, compiled, block, rows, checksum)
            inside = some[(some >= rows.start) & (some < rows.stop)] - rows.start
            for graphs, store, sample in zip(made, stores, self._samples, strict=True):
                store.put(rows, graphs)
                sample.append(graphs[inside])
        while stores:
            yield stores.pop(0).rows()

    def sample_graphs(self, number: int) -> SampledGraphs:
        return SampledGraphs(AnchorGraphs.joined(self._samples[number]), sample_rows(self.views.n))

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        parts = (part for block in loaded(self.views) for part in rule.blocks(block))
        return collect(parts, wanted, self.views.n, out)


def loaded(views: Views) -> Iterator[Views]:
    """Yield consecutive blocks of rows, in memory and finite."""
    for _, block in read_ahead(views.load, OnDisk(views, PlaceRequest()).blocks):
        yield finite_block(block)


def _block_rows(views: Views, limit: int) -> int:
    """Return the rows per read: whole chunks of the store, a few megabytes."""
    row_bytes = sum(view.width * max(view.array.dtype.itemsize, 4) for view in views)
    rows = max(1, min(_READ_BYTES, limit // 8) // row_bytes)
    chunk = max(view.array.table.chunk_rows if view.stored else 1 for view in views)
    return int(max(chunk, rows // chunk * chunk))


class _RowStore:
    """Graphs and F of all rows, in memory within the limit, else in scratch files."""

    def __init__(self, views: Views, settings: GraphSettings, limit: int, scratch_dir: Any) -> None:
        n, c, m = views.n, settings.n_clusters, settings.n_anchors
        row_bytes = bytes_per_row(views, settings)
        self._make = partial(MemoryRows, n_clusters=c, compiled=compiled_pays(n))
        self._scratch = None if n * row_bytes <= limit else Scratch(scratch_dir)
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
        """Create rows for one use, and release their memory afterwards."""
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
