"""Rows on a Dask cluster, and prediction of Dask arrays."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import pairwise
from operator import getitem
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import Client, Future, default_client, wait

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor
from omcal.method.rows import AbstractRows
from omcal.method.settings import GraphSettings
from omcal.places.base import OutputKind, SampledGraphs, sample_rows
from omcal.places.blocks import BlockTask, InBlocks, graphs_of_block
from omcal.places.choose import PlaceRequest
from omcal.places.cluster_rows import ClusterRows, clear_errors, submit_each, tree_sum
from omcal.places.data_scan import finite_block
from omcal.places.memory import MemoryRows
from omcal.views.view import View, Views, mark_absent

logger: logging.Logger = logging.getLogger("omcal")

_CHUNK_BYTES = 1 << 27  # per chunk of a file
_PARTS_PER_THREAD = 2  # enough to redistribute the work of a lost worker
_SILENT_SECONDS, _MOST_SECONDS = 5, 600  # wait for a first worker
_PART_ROWS = 50_000  # a smaller part costs more than it saves


class OnCluster(InBlocks):
    """Rows on the workers; this process receives only the samples for the anchors.

    Predictions are lazy Dask arrays.
    """

    supported_options = frozenset({"client"})
    moves_all = "off the cluster"

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        super().__init__(views, asked)
        for view in views:
            if view.home not in ("disk", "cluster"):
                raise ValueError(
                    f"view {view.name!r} is in the memory of this process, where workers cannot "
                    "read it; pass a file (numpy.load(..., mmap_mode='r')) or a Dask array "
                    "(dask.array.from_array)" + (", or leave out client=." if asked.client else ".")
                )

    def load(self, parts: list[slice]) -> list[Views]:
        numbers = np.concatenate([np.arange(part.start, part.stop) for part in parts])

        def inside(rows: slice) -> Array:
            return np.asarray(numbers[(numbers >= rows.start) & (numbers < rows.stop)] - rows.start)

        task = BlockTask(_take, lambda rows: (inside(rows),), lambda rows: inside(rows).size > 0)
        found: list[Views] = self.total([], task)
        return found

    def total(self, start: Any, task: BlockTask) -> Any:
        with clear_errors(self._client):
            futures = self._client.compute(list(self._blocks.tasks("scan", task)))
            return start + tree_sum(self._client, futures, "scan") if futures else start

    def build(
        self, models: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        compiled = compiled_pays(self.views.n)
        build = partial(graphs_of_block, list(models), compiled)
        task = BlockTask(build, lambda rows: (self._checksums.get(rows.start),))
        with clear_errors(self._client):
            graphs = self._client.compute(list(self._blocks.tasks("graph", task)))
            wait(graphs)
            for future in graphs:
                if future.status == "error":
                    future.result()
        # A separate list of parts per run, so that the parts of a run can be released.
        runs = [
            submit_each(self._client, f"run-{run:03d}", getitem, graphs, common=[run])
            for run in range(len(models))
        ]
        self._samples = [self._sampled(parts) for parts in runs]
        del graphs
        make = partial(MemoryRows, n_clusters=settings.n_clusters, compiled=compiled)
        while runs:
            parts = _merged(runs.pop(0), self._blocks.sizes, self._client)
            yield ClusterRows(self._client, *parts, make)
            del parts

    def _sampled(self, parts: list[Future]) -> list[Future]:
        """Return the graphs of a few samples of each part."""
        numbers, found = sample_rows(self.views.n), []
        for part, rows in zip(parts, self._blocks.rows, strict=True):
            inside = numbers[(numbers >= rows.start) & (numbers < rows.stop)] - rows.start
            if len(inside):
                found += submit_each(self._client, "sample-graphs", getitem, [part], [inside])
        return found

    def sample_graphs(self, number: int) -> SampledGraphs:
        with clear_errors(self._client):
            graphs = AnchorGraphs.joined(self._client.gather(self._samples[number]))
        return SampledGraphs(graphs, sample_rows(self.views.n))

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        if out is not None:
            raise ValueError("out= is not for X in Dask; use dask.array.store on the result.")
        labels = wanted == "labels"
        work, dtype = (rule.labels, np.int32) if labels else (rule.indicator, self.views.dtype)
        tail = () if labels else (rule.n_clusters,)
        blocks = _Blocks.of(self.views)
        tasks = blocks.tasks("predict", BlockTask(partial(_apply, work)))
        return da.concatenate(
            [
                da.from_delayed(task, shape=(size, *tail), dtype=dtype)
                for task, size in zip(tasks, blocks.sizes, strict=True)
            ]
        )

    @cached_property
    def _client(self) -> Client:
        return _find_client(self.asked.client)

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks.of(self.views, self._client)


@dataclass(frozen=True)
class _Blocks:
    """The views split at the same rows: for each part its rows and one delayed block per view."""

    names: tuple[str, ...]
    rows: list[slice]
    blocks: list[tuple[Any, ...]]

    @classmethod
    def of(cls, views: Views, client: Client | None = None) -> _Blocks:
        given = [view.array.chunks[0] for view in views if view.home == "cluster"]
        sizes = given[0] if given else _chunks_of_files(views, client)
        rows = [slice(a, b) for a, b in pairwise(np.cumsum((0, *sizes)).tolist())]
        columns = [
            _blocks_of_file(view, rows) if view.stored else _cut_like(view, sizes).to_delayed().flat
            for view in views
        ]
        return cls(views.names, rows, list(zip(*columns, strict=True)))

    @property
    def sizes(self) -> list[int]:
        return [rows.stop - rows.start for rows in self.rows]

    def tasks(self, name: str, task: BlockTask) -> Iterator[Any]:
        """Yield the delayed result of each selected part."""
        token = uuid.uuid4().hex
        # A separate task, so that its data are sent once per worker.
        work = dask.delayed(task.work, name=f"omcal-work-{token}", traverse=False)
        for i, (rows, blocks) in enumerate(zip(self.rows, self.blocks, strict=True)):
            if task.which(rows):
                key = f"omcal-{name}-{i:06d}-{token}"
                given = work, self.names, list(blocks), rows, *task.arguments(rows)
                yield dask.delayed(_with_views)(*given, dask_key_name=key)


def _find_client(given: Any) -> Client:
    try:
        client = default_client() if given is None else given
    except ValueError as error:
        raise ValueError(
            "X is in Dask and there is no cluster; create a client first "
            "(distributed.Client()), or pass client=."
        ) from error
    if not client.nthreads():
        _wait_for_worker(client)
    return client


def _wait_for_worker(client: Client) -> None:
    """Wait for a worker, with a warning and a limit; pending tasks make adaptive clusters grow."""
    (task,) = submit_each(client, "worker", int)
    where = client.scheduler.address if client.scheduler else "?"
    try:
        task.result(timeout=_SILENT_SECONDS)
        return
    except TimeoutError:
        logger.warning(
            "the Dask cluster at %s has no workers; waiting for one, %d s at most",
            where,
            _MOST_SECONDS,
        )
    try:
        task.result(timeout=_MOST_SECONDS)
    except TimeoutError as error:
        task.cancel()
        raise ConnectionError(
            f"the Dask cluster at {where} has had no worker for {_MOST_SECONDS} s; start some "
            "(dask worker ADDRESS), or fit without client=."
        ) from error


def _cut_like(view: View, rows: tuple[int, ...]) -> Any:
    if view.array.chunks[0] == rows:
        return view.array
    logger.warning(
        "view %r has %d chunks of rows and another view %d; it is cut anew like that one, which "
        "moves data between the workers",
        view.name,
        len(view.array.chunks[0]),
        len(rows),
    )
    return view.array.rechunk({0: rows})


def _chunks_of_files(views: Views, client: Client | None) -> tuple[int, ...]:
    row_bytes = sum(view.width * view.array.dtype.itemsize for view in views)
    workers = len(client.nthreads()) if client else 1
    size = min(max(1, _CHUNK_BYTES // row_bytes), math.ceil(views.n / max(1, 2 * workers)))
    return tuple(da.core.normalize_chunks((size,), (views.n,))[0])


def _blocks_of_file(view: View, rows: Sequence[slice]) -> list[Any]:
    """Return delayed blocks of a stored view; the workers read it at the same path."""
    stored = dask.delayed(view.array, name=f"omcal-file-{uuid.uuid4().hex}", traverse=False)
    return [stored[block] for block in rows]


def _merged(
    graphs: list[Future], sizes: list[int], client: Client
) -> tuple[list[Future], list[int]]:
    """Merge parts, because each takes scheduler time per iteration; return parts and sizes."""
    threads = max(1, sum(client.nthreads().values()))
    most = min(max(threads, sum(sizes) // _PART_ROWS), _PARTS_PER_THREAD * threads)
    group = math.ceil(len(graphs) / most)
    if group == 1:
        return graphs, sizes
    some = [slice(i, i + group) for i in range(0, len(graphs), group)]
    parts = submit_each(client, "part", AnchorGraphs.joined, [graphs[one] for one in some])
    return parts, [sum(sizes[one]) for one in some]


def _with_views(
    work: Callable[..., Any],
    names: Sequence[str],
    blocks: Sequence[Any],
    rows: slice,
    *arguments: Any,
) -> Any:
    """Call `work` with blocks of all views, in the memory of a worker."""
    views = [View(name, np.asarray(block)) for name, block in zip(names, blocks, strict=True)]
    for view in views:
        if view.array.shape[0] != rows.stop - rows.start:
            raise ValueError(
                f"view {view.name!r}: rows {rows.start} to {rows.stop - 1} have shape "
                f"{view.array.shape}; the data must not change during the fit."
            )
    return work(mark_absent(Views(views)), rows, *arguments)


def _take(block: Views, rows: slice, inside: Array) -> list[Views]:
    """Return some rows of a block."""
    return [finite_block(Views([view.part(view.array[inside], inside) for view in block]))]


def _apply(work: Callable[[Views], Array], block: Views, rows: slice) -> Array:
    return work(finite_block(block))
