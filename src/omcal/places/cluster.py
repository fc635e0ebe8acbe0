"""Rows on a Dask cluster, and prediction of Dask arrays."""

from __future__ import annotations

import logging
import math
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property, partial
from itertools import pairwise
from operator import getitem
from typing import Any

import dask
import dask.array as da
import numpy as np
from dask.sizeof import sizeof
from distributed import Client, Future, default_client, wait

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor, graphs_of_runs
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.scaling import ScalingPlan
from omcal.method.settings import GraphSettings
from omcal.places.base import OutputKind, Place, SampledGraphs, sample_rows
from omcal.places.choose import PlaceRequest
from omcal.places.cluster_rows import ClusterRows, clear_errors, tree_sum
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
from omcal.places.memory import MemoryRows, join_in_memory
from omcal.views.view import View, Views, mark_absent

logger: logging.Logger = logging.getLogger("omcal")

_CHUNK_BYTES = 1 << 27  # per chunk of a file
_PARTS_PER_THREAD = 2  # enough to redistribute the work of a lost worker
_SILENT_SECONDS, _MOST_SECONDS = 5, 600  # wait for a first worker
_PART_ROWS = 50_000  # a smaller part costs more than it saves


class OnCluster(Place):
    """Rows on the workers; this process receives only the samples for the anchors.

    Predictions are Dask arrays that are not yet computed.
    """

    supported_options = frozenset({"client"})

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        super().__init__(views, asked)
        for view in views:
            if not (view.stored or view.distributed):
                raise ValueError(
                    f"view {view.name!r} is in the memory of this process, where workers cannot "
                    "read it; pass a file (numpy.load(..., mmap_mode='r')) or a Dask array "
                    "(dask.array.from_array)" + (", or leave out client=." if asked.client else ".")
                )

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        if settings.anchors == "kmeans-full":
            raise ValueError(
                "anchors='kmeans-full' would take all rows off the cluster; use anchors='kmeans'."
            )
        with self._explaining():
            drafts = drafts_of(self.views, self.n, settings.scale, self.load)
            scan_plan = DataScan(self.views.n, self.views.widths, settings, random_states, drafts)
            seen = _look(self._blocks, scan_plan, self._client)
        self._marks = seen.block_checksums
        learned = scan_plan.finish(seen, self.views)
        self.scanned = scan_plan.kept
        return learned

    def build(
        self, models: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        recipe = _Recipe(list(models), settings.n_clusters, self.views.n)
        with self._explaining():
            graphs = _build(self._blocks, recipe, self._marks, self._client)
        runs = _by_run(graphs, len(models), self._client)
        self._samples = [_sampled(parts, self._blocks.rows, self._client) for parts in runs]
        del graphs
        while runs:
            parts = _merged(runs.pop(0), self._blocks.sizes, self._client)
            yield ClusterRows(self._client, *parts)
            del parts

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        if out is not None:
            raise ValueError("out= is not for X in Dask; use dask.array.store on the result.")
        if wanted == "labels":
            return map_rows(self.views, rule.labels, 0, np.int32)
        return map_rows(self.views, rule.indicator, rule.n_clusters, self.views.dtype)

    def load(self, parts: list[slice]) -> list[Views]:
        def touched(rows: slice) -> bool:
            return any(part.start < rows.stop and rows.start < part.stop for part in parts)

        tasks = self._blocks.tasks("sample", _take, lambda rows: (parts,), touched)
        return list(self._client.gather(self._client.compute(list(tasks))))

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        return join_in_memory(runs, n_clusters)

    def sample_graphs(self, number: int) -> SampledGraphs:
        with self._explaining():
            graphs = AnchorGraphs.joined(self._client.gather(self._samples[number]))
        return SampledGraphs(graphs, sample_rows(self.views.n))

    @cached_property
    def _client(self) -> Client:
        return _find_client(self.asked.client)

    @cached_property
    def _blocks(self) -> _Blocks:
        return _Blocks.of(self.views, self._client)

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Turn an error of a worker into one that names the cause and the remedy."""
        with clear_errors(self._client):
            try:
                yield
            except NonFiniteBlockError:
                refuse_nonfinite(self.views, lambda: _count_nonfinite(self._blocks, self._client))
                raise


def map_rows(views: Views, function: Callable[[Views], Array], width: int, dtype: Any) -> Any:
    """Apply `function` to each block of views; return a Dask array, 1-D where width is 0."""
    blocks = _Blocks.of(views)
    tail = (width,) if width else ()
    arrays = [
        da.from_delayed(made, shape=(size, *tail), dtype=dtype)
        for made, size in zip(
            blocks.tasks("predict", _apply, lambda rows: (function,)), blocks.sizes, strict=True
        )
    ]
    return da.concatenate(arrays)


@dataclass(frozen=True)
class _Blocks:
    """The views cut at the same rows: per part, its rows and one delayed block per view."""

    names: tuple[str, ...]
    rows: list[slice]
    blocks: list[tuple[Any, ...]]

    @classmethod
    def of(cls, views: Views, client: Client | None = None) -> _Blocks:
        arrays = _aligned(views, client)
        edges = np.cumsum((0, *arrays[0].chunks[0])).tolist()
        rows = [slice(a, b) for a, b in pairwise(edges)]
        columns = [array.to_delayed().ravel() for array in arrays]
        return cls(views.names, rows, list(zip(*columns, strict=True)))

    @property
    def sizes(self) -> list[int]:
        return [rows.stop - rows.start for rows in self.rows]

    def tasks(
        self,
        what: str,
        function: Callable[..., Any],
        arguments: Callable[[slice], tuple[Any, ...]] = lambda rows: (),
        which: Callable[[slice], bool] = lambda rows: True,
    ) -> Iterator[Any]:
        """Yield delayed function(views in memory, rows, *arguments) of each selected part."""
        token = uuid.uuid4().hex
        for i, (rows, blocks) in enumerate(zip(self.rows, self.blocks, strict=True)):
            if which(rows):
                yield dask.delayed(partial(_with_views, function, self.names))(
                    list(blocks),
                    rows,
                    *arguments(rows),
                    dask_key_name=f"omcal-{what}-{i:06d}-{token}",
                )


@dataclass(frozen=True)
class GraphPart:
    """The graphs of some rows, held by a worker."""

    graphs: AnchorGraphs
    n_clusters: int
    n: int

    @classmethod
    def merge(cls, parts: list[GraphPart]) -> GraphPart:
        """Merge consecutive parts."""
        return replace(parts[0], graphs=AnchorGraphs.joined([part.graphs for part in parts]))

    def rows(self, F: Array | None = None) -> MemoryRows:
        return MemoryRows(self.graphs, self.n_clusters, compiled=compiled_pays(self.n), F=F)


@sizeof.register(GraphPart)  # type: ignore[untyped-decorator]
def _size_of_part(part: GraphPart) -> int:
    return part.graphs.nbytes


@dataclass(frozen=True)
class _Recipe:
    """The models that build the parts of all runs."""

    models: list[GraphModel]
    n_clusters: int
    n: int

    def build(self, block: Views, rows: slice, block_checksums: dict[int, int]) -> list[GraphPart]:
        require_finite_block(block)
        require_same(block, rows, block_checksums)
        made = graphs_of_runs(block, self.models, compiled=compiled_pays(self.n))
        return [GraphPart(graphs, self.n_clusters, self.n) for graphs in made]


def _find_client(given: Any) -> Client:
    try:
        client = default_client() if given is None else given
    except ValueError as error:
        raise ValueError(
            "X lies in Dask and there is no cluster to work on; make a client first "
            "(distributed.Client()), or pass client=."
        ) from error
    _require_workers(client)
    return client


def _require_workers(client: Client) -> None:
    """Wait for a worker, with a warning and a time limit; a task makes adaptive clusters grow."""
    if client.nthreads():
        return
    task = client.submit(int, key=f"omcal-worker-{uuid.uuid4().hex}")
    where = client.scheduler.address if client.scheduler else "?"
    try:
        task.result(timeout=_SILENT_SECONDS)
    except TimeoutError:
        logger.warning(
            "the Dask cluster at %s has no workers; waiting for one, %d s at most",
            where,
            _MOST_SECONDS,
        )
    else:
        return
    try:
        task.result(timeout=_MOST_SECONDS)
    except TimeoutError as error:
        task.cancel()
        raise ConnectionError(
            f"the Dask cluster at {where} has had no worker for {_MOST_SECONDS} s; start some "
            "(dask worker ADDRESS), or fit without client=."
        ) from error


def _aligned(views: Views, client: Client | None) -> list[Any]:
    """Return the views as Dask arrays with the same row chunks."""
    given = [view.array.chunks[0] for view in views if view.distributed]
    rows = given[0] if given else _chunks_of_files(views, client)
    return [
        _cut_like(view, rows) if view.distributed else _array_of_file(view, rows) for view in views
    ]


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


def _array_of_file(view: View, chunks: tuple[int, ...]) -> Any:
    """Return a stored view as a Dask array; the workers read it at the same path."""
    edges = np.cumsum((0, *chunks)).tolist()
    token = uuid.uuid4().hex
    stored = dask.delayed(view.array, name=f"omcal-file-{token}", traverse=False)
    blocks = [
        da.from_delayed(
            dask.delayed(_read)(stored, a, b, dask_key_name=f"omcal-read-{a:012d}-{token}"),
            shape=(b - a, view.width),
            dtype=view.array.dtype,
        )
        for a, b in pairwise(edges)
    ]
    return da.concatenate(blocks)


def _read(stored: Any, start: int, stop: int) -> Array:
    return np.asarray(stored[start:stop])


def _look(blocks: _Blocks, scan_plan: DataScan, client: Client) -> BlockStats:
    shared = dask.delayed(scan_plan.shared, name=f"omcal-drafts-{uuid.uuid4().hex}", traverse=False)
    tasks = blocks.tasks(
        "scan", _see, lambda rows: (scan_plan.sampled(rows), shared), scan_plan.wants
    )
    futures = client.compute(list(tasks))
    return tree_sum(client, futures, "omcal-add-look") if futures else BlockStats()


def _build(
    blocks: _Blocks, made_with: _Recipe, block_checksums: dict[int, int], client: Client
) -> list[Future]:
    recipe = dask.delayed(made_with, name=f"omcal-recipe-{uuid.uuid4().hex}", traverse=False)
    tasks = blocks.tasks(
        "graph",
        _graphs,
        lambda rows: (recipe, {rows.start: block_checksums[rows.start]} if block_checksums else {}),
    )
    futures: list[Future] = client.compute(list(tasks))
    wait(futures)
    for future in futures:
        if future.status == "error":
            future.result()
    return futures


def _by_run(graphs: list[Future], n_runs: int, client: Client) -> list[list[Future]]:
    """Return the parts of each run, which can be released run by run."""
    token = uuid.uuid4().hex
    return [
        [
            client.submit(getitem, part, run, key=f"omcal-run-{run:03d}-{i:06d}-{token}")
            for i, part in enumerate(graphs)
        ]
        for run in range(n_runs)
    ]


def _sampled(parts: list[Future], blocks: list[slice], client: Client) -> list[Future]:
    """Return the graphs of a few samples of each part."""
    numbers, token, found = sample_rows(blocks[-1].stop), uuid.uuid4().hex, []
    for part, rows in zip(parts, blocks, strict=True):
        inside = numbers[(numbers >= rows.start) & (numbers < rows.stop)] - rows.start
        if len(inside):
            key = f"omcal-sample-graphs-{rows.start:012d}-{token}"
            found.append(client.submit(_some, part, inside, key=key))
    return found


def _some(part: GraphPart, inside: Array) -> AnchorGraphs:
    return part.graphs[inside]


def _merged(
    graphs: list[Future], sizes: list[int], client: Client
) -> tuple[list[Future], list[int]]:
    """Merge parts, as each costs the scheduler time per iteration; return them and their sizes."""
    threads = max(1, sum(client.nthreads().values()))
    most = min(max(threads, sum(sizes) // _PART_ROWS), _PARTS_PER_THREAD * threads)
    group = math.ceil(len(graphs) / most)
    if group == 1:
        return graphs, sizes
    starts = range(0, len(graphs), group)
    token = uuid.uuid4().hex
    parts = [
        client.submit(GraphPart.merge, graphs[i : i + group], key=f"omcal-part-{i:06d}-{token}")
        for i in starts
    ]
    return parts, [sum(sizes[i : i + group]) for i in starts]


def _count_nonfinite(blocks: _Blocks, client: Client) -> Array:
    futures = client.compute(list(blocks.tasks("count", _count)))
    return np.asarray(tree_sum(client, futures, "omcal-add-count"))


def _with_views(
    function: Callable[..., Any],
    names: Sequence[str],
    blocks: Sequence[Any],
    rows: slice,
    *arguments: Any,
) -> Any:
    views = [View(name, np.asarray(block)) for name, block in zip(names, blocks, strict=True)]
    for view in views:
        if view.array.shape[0] != rows.stop - rows.start:
            raise ValueError(
                f"view {view.name!r}: rows {rows.start} to {rows.stop - 1} have shape "
                f"{view.array.shape}; the data must not change during the fit."
            )
    return function(mark_absent(Views(views)), rows, *arguments)


def _see(
    block: Views, rows: slice, sampled: slice | Array, drafts: list[ScalingPlan]
) -> BlockStats:
    return scan(block, rows.start, sampled, drafts)


def _take(block: Views, rows: slice, parts: list[slice]) -> Views:
    """Return the rows of a block that are in one of the parts."""
    numbers = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    inside = numbers[(numbers >= rows.start) & (numbers < rows.stop)] - rows.start
    return Views([view.part(view.array[inside], inside) for view in block])


def _graphs(
    block: Views, rows: slice, recipe: _Recipe, block_checksums: dict[int, int]
) -> list[GraphPart]:
    return recipe.build(block, rows, block_checksums)


def _count(block: Views, rows: slice) -> Array:
    return nonfinite_counts(block)


def _apply(block: Views, rows: slice, function: Callable[[Views], Array]) -> Array:
    require_finite_block(block)
    return function(block)
