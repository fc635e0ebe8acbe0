"""Rows distributed over the ranks of a group of torch.distributed."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import add
from typing import Any

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor
from omcal.method.rows import AbstractRows, Assignment, Sums, decide
from omcal.method.settings import GraphSettings
from omcal.places.base import OutputKind, Place
from omcal.places.blocks import ScannedPlace
from omcal.places.data_scan import BlockStats, DataScan, finite_block
from omcal.places.ranks import Ranks
from omcal.places.team import Result
from omcal.views.view import Views

_CHECKSUM_BITS = 20  # squares of 20 bits sum exactly over a thousand ranks


class OnRanks(ScannedPlace):
    """The rows of this rank at an inner place; the other ranks hold the other rows.

    All ranks do the same steps from the same sums and end with the same model and the labels of
    their own rows. A rank may have no rows. The first rank with rows chooses the anchors.
    """

    supported_options = frozenset({"group", "device", "memory_limit", "scratch_dir"})
    moves_all = "to one rank"

    def __init__(self, inner: Place, team: Any) -> None:
        super().__init__(inner.views, inner.asked)
        self._inner = inner
        self.team: Ranks = team

    def require_room(self, n_bytes: float, what: str) -> None:
        self.team.each(lambda: self._inner.require_room(n_bytes, what))

    def load(self, parts: list[slice]) -> list[Views]:
        start, stop = self.team.first_row, self.team.first_row + self.views.n

        def work() -> list[Views]:
            own = [
                slice(max(part.start, start) - start, min(part.stop, stop) - start)
                for part in parts
                if part.start < stop and start < part.stop
            ]
            return [finite_block(self.views.load(rows)) for rows in own]

        return self._collected(work, [])

    def scan_rows(self, data_scan: DataScan, first: int = 0) -> BlockStats:
        scan = partial(self._inner.scan_rows, data_scan, self.team.first_row)
        return self._collected(scan, BlockStats())

    def _collected(self, scan: Callable[[], Any], start: Result) -> Result:
        """Return start plus the scans of all ranks with rows, in their order, on the leader."""

        def work() -> Any:
            return scan() if self.views.n else None

        found = (one for one in self.team.collected(work) if one is not None)
        return reduce(add, found, start)

    def build(
        self, models: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        built: list[Iterator[AbstractRows]] = []
        made: list[AbstractRows] = []  # passed on at once, so that no reference stays

        def work() -> None:
            if not self.views.n:
                return
            if not built:
                built.append(self._inner.build(models, settings))
            made.append(next(built[0]))

        shape = (len(self.views), settings.n_anchors, settings.n_clusters)
        for _ in models:
            self.team.each(work)
            yield RankRows(self.team, made.pop() if made else None, shape)

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        rows = self._inner.join(runs, n_clusters) if self.views.n else None
        return RankRows(self.team, rows, (1, len(runs) * n_clusters, n_clusters))

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        return self._inner.apply(rule, wanted, out)


class RankRows(AbstractRows):
    """The rows of this rank, or None; their results are summed over all ranks.

    A sweep takes one message. Besides the sums it contains whether some rank wants to stop, and a
    checksum of the step: ranks with different steps must stop.

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
        ranks.wants_stop = ranks.stops = False  # a request to stop ends one run

    def gram(self) -> Floats:
        V, m, _ = self._shape
        shape = (V, V, m, m)
        rows = self._rows
        return self._ranks.sum(lambda: rows.gram() if rows else np.zeros(shape), shape)

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
            # Same length as the message of a sweep, so that a rank that sweeps instead is detected.
            counts = np.zeros(self._size)
            if self._rows is not None:
                own = self._rows.assign(alpha, P, R, G, runner_up=runner_up)
                counts[0] = own.n_undecided
            return counts

        found = self._together(work, alpha, P, R, G)
        return replace(own, n_undecided=int(found[0]))

    @property
    def _size(self) -> int:
        V, m, c = self._shape
        return V * m * c + 2 * c * c

    def _together(self, work: Callable[[], Array], *step: Floats) -> Floats:
        """Return the sum of the results of the ranks, after checking that all do the same step."""
        checksum = 0
        for array in step:
            checksum = zlib.crc32(np.ascontiguousarray(array).tobytes(), checksum)
        checksum %= 1 << _CHECKSUM_BITS
        head = np.array([self._ranks.wants_stop, checksum, checksum**2], dtype=np.float64)
        total = self._ranks.sum(lambda: np.append(head, work()), (len(head) + self._size,))
        stops, first, second = total[: len(head)].tolist()
        # Equal checksums have variance zero, and sums of integers are exact.
        if int(second) * self._ranks.size != int(first) ** 2:
            raise RuntimeError(
                "the ranks came to different numbers from the same sums, as unlike processors or "
                "linear algebra libraries do; start all of them on machines of one kind, with the "
                "same number of threads, or tell the library to treat them alike (for OpenBLAS, "
                "the same OPENBLAS_CORETYPE for all)."
            )
        self._ranks.stops = stops > 0
        return total[len(head) :]
