"""Places that read rows in blocks: once for statistics and samples, once for the graphs."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import GraphModel, graphs_of_runs
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.settings import GraphSettings
from omcal.places.base import Place
from omcal.places.data_scan import (
    BlockStats,
    DataScan,
    finite_block,
    require_same,
    scaling_plans,
    scan,
)
from omcal.places.memory import join_in_memory
from omcal.views.kinds import sample_slices
from omcal.views.view import Views


class ScannedPlace(Place):
    """A place whose scalings and anchors come from one scan of all rows.

    All processes of the team scan their rows; the leader combines the results.
    """

    moves_all: ClassVar[str] = ""  # destination of all rows with "kmeans-full", if it is refused

    @abstractmethod
    def load(self, parts: list[slice]) -> list[Views]:
        """Return the given rows, numbered over the whole fit, in the memory of the leader."""

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        if self.moves_all and settings.anchors == "kmeans-full":
            raise ValueError(
                f"anchors='kmeans-full' would take all rows {self.moves_all}; use anchors='kmeans'."
            )
        sample = partial(self.load, sample_slices(self.n))
        plans = scaling_plans(self.views, settings.scale, sample, self.team)
        data_scan = DataScan(self.n, self.views.widths, settings, random_states, plans)
        seen = self.scan_rows(data_scan)

        def finish() -> tuple[list[GraphModel], list[Any]]:
            learned = data_scan.finish(seen, self.views)
            self.scanned = data_scan.kept
            return learned, [random_state.get_state() for random_state in random_states]

        learned, states = self.team.on_leader(finish)
        for random_state, state in zip(random_states, states, strict=True):
            random_state.set_state(state)
        return learned


class BlockTask(NamedTuple):
    """A function of blocks of rows, its further arguments per block, and a selection of blocks.

    It is called as ``work(block, rows, *arguments(rows))`` if ``which(rows)``.
    """

    work: Callable[..., Any]
    arguments: Callable[[slice], tuple[Any, ...]] = lambda rows: ()
    which: Callable[[slice], bool] = lambda rows: True


class InBlocks(ScannedPlace):
    """A place that computes sums over blocks of rows."""

    _checksums: dict[int, int]  # checksums of blocks at the first read, by first row

    @abstractmethod
    def total(self, start: Any, task: BlockTask) -> Any:
        """Return start plus the sum of the task's results over the blocks that it selects."""

    def scan_rows(self, data_scan: DataScan, first: int = 0) -> BlockStats:
        def among_all(rows: slice) -> slice:
            return slice(first + rows.start, first + rows.stop)

        task = BlockTask(
            partial(scan, first=first, plans=data_scan.shared),
            lambda rows: (data_scan.sampled(among_all(rows)),),
            lambda rows: data_scan.wants(among_all(rows)),
        )
        seen: BlockStats = self.total(BlockStats(), task)
        self._checksums = {start - first: sum_ for start, sum_ in seen.block_checksums.items()}
        return seen

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        return join_in_memory(runs, n_clusters)


def graphs_of_block(
    models: Sequence[GraphModel], compiled: bool, block: Views, rows: slice, checksum: int | None
) -> list[AnchorGraphs]:
    """Return the graphs of a block, one per run; raise if it has changed since the first read."""
    require_same(finite_block(block), rows, checksum)
    return list(graphs_of_runs(block, models, compiled=compiled))
