"""Placement of rows whose views, or whose graphs, are larger than the memory of this machine."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from functools import partial, reduce
from operator import add

import numpy as np
from numpy.typing import NDArray

from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import available_memory, format_bytes
from omcal.machine.scratch import Scratch
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.rows import AbstractRows
from omcal.method.scaling import Scaling
from omcal.places.memory import MemoryRows
from omcal.places.parts import ChunkedRows, RowsOnDemand
from omcal.places.placement import GraphSettings, Placed, Room, resolve_anchors
from omcal.places.survey import (
    NonFiniteBlockError,
    Seen,
    Survey,
    look,
    nonfinite_counts,
    refuse_nonfinite,
    require_finite_block,
    require_same,
)
from omcal.views.stored import read_ahead
from omcal.views.view import Views

logger = logging.getLogger("omcal")

_READ_BYTES = 1 << 24  # a block this large is read at full speed, and small beside any memory
_PART_ROWS = 4096  # parts in scratch files have a multiple of this


def place_out_of_core(
    views: Views, settings: GraphSettings, random_state: np.random.RandomState, room: Room
) -> Placed:
    """Rows from views that are read by blocks, twice in all; in memory where they fit.

    The first read takes the moments and the sample for the anchors, the second builds the graphs.
    """
    limit = available_memory() // 2 if room.memory_limit is None else room.memory_limit
    blocks = list(row_blocks(views.n, block_rows(views, limit)))
    if settings.anchors == "kmeans-full":
        _require_sample_fits(views, limit)
    try:
        scalings, anchors, marks = _first_read(views, blocks, settings, random_state)
        rows = _second_read(views, blocks, settings, room, limit, scalings, anchors, marks)
    except NonFiniteBlockError:
        refuse_nonfinite(views, lambda: _count_nonfinite(views, blocks))
        raise
    return Placed(rows, scalings, anchors)


def loaded(views: Views) -> Iterator[Views]:
    """Consecutive blocks of rows, in memory and finite."""
    blocks = list(row_blocks(views.n, block_rows(views)))
    for _, block in read_ahead(views.load, blocks):
        try:
            require_finite_block(block)
        except NonFiniteBlockError:
            refuse_nonfinite(views, lambda: _count_nonfinite(views, blocks))
        yield block


def block_rows(views: Views, limit: int | None = None) -> int:
    """Rows to read at a time: whole chunks of the store, a few megabytes in all."""
    row_bytes = sum(view.width * max(view.array.dtype.itemsize, 4) for view in views)
    wanted = min(_READ_BYTES, limit // 8) if limit else _READ_BYTES
    rows = max(1, wanted // row_bytes)
    chunk = max(view.array.table.chunk_rows if view.stored else 1 for view in views)
    return max(chunk, rows // chunk * chunk)


def _first_read(
    views: Views,
    blocks: list[slice],
    settings: GraphSettings,
    random_state: np.random.RandomState,
) -> tuple[list[Scaling], list[NDArray], dict[int, int]]:
    if not views.stored:
        scalings = [Scaling.fit(view, settings.scale) for view in views]
        return scalings, resolve_anchors(views, scalings, settings, random_state), {}
    survey = Survey(views.n, settings, random_state)
    looked_at = [rows for rows in blocks if survey.wants(rows)]
    seen = reduce(
        add,
        (
            look(block, rows.start, survey.sampled(rows), survey.moments)
            for rows, block in read_ahead(views.load, looked_at)
        ),
        Seen(),
    )
    return *survey.conclude(seen, views), seen.marks


def _second_read(
    views: Views,
    blocks: list[slice],
    settings: GraphSettings,
    room: Room,
    limit: int,
    scalings: list[Scaling],
    anchors: list[NDArray],
    marks: dict[int, int],
) -> AbstractRows:
    compiled = compiled_pays(views.n)
    store = _RowStore(views, settings, room, limit, compiled)
    for rows, block in read_ahead(views.load, blocks):
        require_finite_block(block)
        require_same(block, rows, marks)
        part = anchor_graphs(block, scalings, anchors, settings.n_neighbors, compiled=compiled)
        store.put(rows, part)
    return store.rows()


class _RowStore:
    """Graphs and F of all rows: in memory where they fit the limit, else in scratch files."""

    def __init__(
        self, views: Views, settings: GraphSettings, room: Room, limit: int, compiled: bool
    ) -> None:
        n, c, m = views.n, settings.n_clusters, settings.n_anchors
        self._make = partial(MemoryRows, n_clusters=c, compiled=compiled)
        row_bytes = bytes_per_row(
            len(views), settings.n_neighbors, c, m, views.dtype, compiled=compiled
        )
        self._scratch = None if n * row_bytes <= limit else Scratch(room.scratch_dir)
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
        return ChunkedRows(list(self._parts(self._scratch)))

    def _parts(self, scratch: Scratch) -> Iterator[AbstractRows]:
        for rows in row_blocks(self._graphs.n, self._part_rows):
            make = partial(self._make, self._graphs[rows], F=self._F[rows])
            yield RowsOnDemand(make, scratch.release)


def bytes_per_row(
    n_views: int,
    n_neighbors: int,
    n_clusters: int,
    n_anchors: int,
    dtype: np.dtype,
    *,
    compiled: bool,
) -> int:
    """Bytes of memory that a sample takes during the fit: its graphs, its row of F, its label.

    Examples
    --------
    >>> bytes_per_row(2, 5, 10, 160, np.dtype("float32"), compiled=True)
    94
    """
    edges = n_views * n_neighbors
    graphs = edges * (np.min_scalar_type(n_anchors - 1).itemsize + dtype.itemsize)
    if not compiled:
        graphs += edges * (np.dtype(np.int32).itemsize + dtype.itemsize)  # SciPy's form as well
    return graphs + n_clusters * dtype.itemsize + np.dtype(np.int32).itemsize


def _require_sample_fits(views: Views, limit: int) -> None:
    n_bytes = views.n * sum(view.width * view.dtype.itemsize for view in views if view.stored)
    if n_bytes > limit:
        raise ValueError(
            f"anchors='kmeans-full' takes all rows into memory, {format_bytes(n_bytes)}, and the "
            f"limit is {format_bytes(limit)}; use anchors='kmeans', or raise memory_limit."
        )


def _count_nonfinite(views: Views, blocks: list[slice]) -> NDArray:
    counts = (nonfinite_counts(block) for _, block in read_ahead(views.load, blocks))
    return reduce(add, counts)
