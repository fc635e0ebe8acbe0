"""Rows shared out over the ranks of a group of torch.distributed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import row_blocks
from omcal.method.kinds import sample_slices
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor
from omcal.method.rows import AbstractRows, Assignment, Sums, decide
from omcal.method.scaling import Scale, ScalingPlan
from omcal.method.settings import GraphSettings
from omcal.places.base import OutputKind, Place, PlaceRequest, Result, place_for
from omcal.places.data_scan import (
    BlockStats,
    DataScan,
    drafts_of,
    needs_samples,
    require_finite_block,
)
from omcal.places.disk import block_rows, counting_nonfinite
from omcal.places.ranks import Ranks
from omcal.views.view import Views

_CHECKSUM_BITS = 20  # few enough that sums of their squares over a thousand ranks are exact


class OnRanks(Place):
    """The rows of this rank at any of the other places; the other rows are those of other ranks.

    All ranks take the same steps from the same sums and end with the same model, each with the
    labels of its own rows. A rank may have no rows. What is done once, such as to choose the
    anchors, is done by the first rank that has some.
    """

    supported_options = frozenset({"group", "device", "memory_limit", "scratch_dir"})

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        super().__init__(views, asked)
        if views.home == "cluster":
            raise ValueError(
                "group does not go with views in Dask; pass the rows of this rank, or leave group "
                "out."
            )
        self._share = place_for(views, replace(asked, group=None))
        self._sizes: list[int] = []  # rows of each rank, known when they have met

    def check_same(self, facts: Mapping[str, str]) -> None:
        self._ranks = Ranks(self.asked.group)
        said = {**_facts(self.views), "the version of PyTorch": torch.version.__version__, **facts}
        met = self._ranks.each(lambda: (self.views.n, said))
        self._sizes = [size for size, _ in met]
        _require_same([said for _, said in met])
        if self.n < 2:
            raise ValueError(f"Found {self.n} sample(s) while a minimum of 2 is required.")
        self._ranks.leader = next(rank for rank, size in enumerate(self._sizes) if size)

    @property
    def n(self) -> int:
        return sum(self._sizes)

    @property
    def is_leader(self) -> bool:
        return self._ranks.is_leader

    @property
    def _first(self) -> int:
        """The number that the first row of this rank has among all."""
        return sum(self._sizes[: self._ranks.rank])

    def once(self, work: Callable[[], Result]) -> Result:
        return self._ranks.once(work)

    def total(self, counts: Array) -> Array:
        return self._ranks.total(lambda: counts, counts.shape).astype(counts.dtype)

    def require_room(self, n_bytes: float, what: str) -> None:
        self._ranks.each(lambda: self._share.require_room(n_bytes, what))

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        if settings.anchors == "kmeans-full":
            raise ValueError(
                "anchors='kmeans-full' would take all rows to one rank; use anchors='kmeans'."
            )
        scan_plan = DataScan(
            self.n, self.views.widths, settings, random_states, self._drafts(settings.scale)
        )
        seen = self._collected(lambda: self._share.scan_rows(scan_plan, self._first))

        def finish() -> tuple[list[GraphModel], list[Any]]:
            learned = scan_plan.finish(reduce(add, seen, BlockStats()), self.views)
            return learned, [random_state.get_state() for random_state in random_states]

        learned, states = self._ranks.once(finish)
        for random_state, state in zip(random_states, states, strict=True):
            random_state.set_state(state)
        return learned

    def _drafts(self, scale: Scale) -> list[ScalingPlan]:
        """Drafts of the scalings; only those of the leader hold all that it concludes from."""
        blocks: list[Views] = []
        if needs_samples(self.views, scale):
            blocks = reduce(add, self._collected(self._sample), blocks)
        own: list[ScalingPlan] = []

        def make() -> list[ScalingPlan]:
            own.extend(drafts_of(self.views, self.n, scale, lambda parts: blocks))
            return [draft.shared for draft in own]

        shared = self._ranks.once(make)
        return own or shared

    def _sample(self) -> list[Views]:
        """Those of this rank's rows that show the kinds of the views."""
        start, stop = self._first, self._first + self.views.n
        mine = [
            slice(max(part.start, start) - start, min(part.stop, stop) - start)
            for part in sample_slices(self.n)
            if part.start < stop and start < part.stop
        ]
        blocks = self._share.load(mine)
        for block in blocks:
            require_finite_block(block)
        return blocks

    def _collected(self, scan: Callable[[], Result]) -> list[Result]:
        """What the ranks saw in their rows, in their order, on the leader."""

        def work() -> Result | None:
            if not self.views.n:
                return None
            with counting_nonfinite(self.views, list(row_blocks(self.views.n, self._block_rows))):
                return scan()

        return [found for found in self._ranks.collected(work) if found is not None]

    @property
    def _block_rows(self) -> int:
        return block_rows(self.views)

    def build(
        self, learned: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        built: list[Iterator[AbstractRows]] = []
        made: list[AbstractRows] = []  # handed on at once: the last must not be kept

        def work() -> None:
            if not self.views.n:
                return
            if not built:
                built.append(self._share.build(learned, settings))
            made.append(next(built[0]))

        shape = (len(self.views), settings.n_anchors, settings.n_clusters)
        for _ in learned:
            self._ranks.each(work)
            yield RankRows(self._ranks, made.pop() if made else None, shape)

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        rows = self._share.join(runs, n_clusters) if self.views.n else None
        return RankRows(self._ranks, rows, (1, len(runs) * n_clusters, n_clusters))

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        return self._share.apply(rule, wanted, out)


class RankRows(AbstractRows):
    """The rows of this rank, or None; what they return is summed up over all ranks.

    A sweep takes one message. With its sums it carries whether some rank wants to stop, and a
    checksum of what the step was: ranks that have come to take different steps must not go on.

    Parameters
    ----------
    ranks : Ranks
    rows : AbstractRows or None
    shape : tuple of int
        Numbers of views, anchors and clusters.
    """

    def __init__(
        self, ranks: Ranks, rows: AbstractRows | None, shape: tuple[int, int, int]
    ) -> None:
        self._ranks = ranks
        self._rows = rows
        self._shape = shape
        self._wants_stop = False
        self._stops = False

    def gram(self) -> Floats:
        V, m, _ = self._shape
        shape = (V, V, m, m)
        rows = self._rows
        return self._ranks.total(lambda: rows.gram() if rows else np.zeros(shape), shape)

    def sweep(self, alpha: Array, P: Array, R: Floats) -> Sums:
        def work() -> Array:
            if self._rows is None:
                return np.zeros(self._size)
            sums = self._rows.sweep(alpha, P, R)
            return np.concatenate([sums.StF, sums.FtF, sums.FoldtF], axis=None)

        V, m, c = self._shape
        found = self._together(work, alpha, P, R)
        StF, FtF, FoldtF = np.split(found, [V * m * c, V * m * c + c * c])
        return Sums(StF.reshape(V, m, c), FtF.reshape(c, c), FoldtF.reshape(c, c))

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        none = np.empty((0, self._shape[2]))
        own = decide(none, none.__getitem__, 1.0, runner_up=runner_up)

        def work() -> Floats:
            nonlocal own
            # As long as a sweep's: a rank that sweeps instead is then found out, not misread.
            counts = np.zeros(self._size)
            if self._rows is not None:
                own = self._rows.assign(alpha, P, R, G, runner_up=runner_up)
                counts[0] = own.n_undecided
            return counts

        found = self._together(work, alpha, P, R, G)
        return replace(own, n_undecided=int(found[0]))

    def agree(self, stop: bool) -> bool:
        """Whether some rank wanted to stop before the last sweep; what this one wants goes along
        with the next."""
        self._wants_stop |= stop
        return self._stops

    @property
    def _size(self) -> int:
        V, m, c = self._shape
        return V * m * c + 2 * c * c

    def _together(self, work: Callable[[], Array], *step: Floats) -> Floats:
        """The sum of what the ranks' work gives, where all do the same step."""
        checksum = 0
        for array in step:
            checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), checksum)
        checksum %= 1 << _CHECKSUM_BITS
        head = np.array([self._wants_stop, checksum, checksum**2], dtype=np.float64)
        total = self._ranks.total(lambda: np.append(head, work()), (len(head) + self._size,))
        stops, first, second = total[: len(head)].tolist()
        # The variance of numbers that are all the same is zero, and these are whole numbers.
        if int(second) * self._ranks.size != int(first) ** 2:
            raise RuntimeError(
                "the ranks came to different numbers from the same sums, as unlike processors or "
                "linear algebra libraries do; start all of them on machines of one kind, with the "
                "same number of threads, or tell the library to treat them alike (for OpenBLAS, "
                "the same OPENBLAS_CORETYPE for all)."
            )
        self._stops = stops > 0
        return total[len(head) :]


def _facts(views: Views) -> dict[str, str]:
    """What all ranks must say alike of their views; types are those of rows that are there."""
    facts = {"the views": ", ".join(map(repr, views.names))}
    for view in views:
        facts[f"the number of features of view {view.name!r}"] = str(view.width)
        if view.columns is not None:
            facts[f"the columns of view {view.name!r}"] = ", ".join(view.columns)
        if views.n:
            kind = f"sparse {view.dtype}" if view.sparse else str(view.dtype)
            facts[f"the type of view {view.name!r}"] = kind
    return facts


def _require_same(said: Sequence[Mapping[str, str]]) -> None:
    """Raise where ranks differ in a fact that several of them state."""
    differing = []
    for name in dict.fromkeys(name for facts in said for name in facts):
        stated = {rank: facts[name] for rank, facts in enumerate(said) if name in facts}
        first = next(iter(stated))
        other = next((rank for rank in stated if stated[rank] != stated[first]), None)
        if other is not None:
            differing.append(
                f"{name} (rank {first}: {stated[first]:.80}; rank {other}: {stated[other]:.80})"
            )
    if differing:
        raise ValueError(
            f"the ranks of the group differ in {', in '.join(differing):.900}; give all of them "
            "the same."
        )
