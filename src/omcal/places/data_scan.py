"""One scan of all blocks of rows, for the statistics and samples of scalings and anchors."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array
from omcal.method.anchors import anchors_of_runs, check_anchors, sample_rows
from omcal.method.moments import Moments
from omcal.method.new_samples import GraphModel, learned_in_span
from omcal.method.scaling import Scale, ScalingPlan, moments, needs_sample
from omcal.method.settings import GraphSettings
from omcal.method.span import shared_rows, span_pays
from omcal.places.team import Team
from omcal.views.present import check_present, require_enough
from omcal.views.view import Matrix, MissingValuesError, View, Views, count_nonfinite

MOST_SAMPLED = 1024  # most samples to keep in memory for testing the result
_MARKED = 16  # the checksum of a block covers every 16th row


@dataclass(frozen=True)
class BlockStats:
    """Statistics of some blocks, to which later blocks can be added."""

    moments: tuple[Moments | None, ...] = ()  # per view; None if not needed
    sample: tuple[tuple[Matrix, ...], ...] = ()
    present: tuple[Array, ...] = ()  # mask: rows of the sample × views
    absent: Array | int = 0  # number of absent samples per view
    block_checksums: dict[int, int] = field(default_factory=dict)

    def __add__(self, other: BlockStats) -> BlockStats:
        both = zip(self.moments, other.moments, strict=False)
        return BlockStats(
            tuple(a + b if a and b else a or b for a, b in both) or self.moments or other.moments,
            self.sample + other.sample,
            self.present + other.present,
            self.absent + other.absent,
            self.block_checksums | other.block_checksums,
        )


class DataScan:
    """The rows to scan, and the scalings and anchors that follow from them.

    The moments cover all rows, and the samples for the anchors are the same as for views in memory:
    the result does not depend on the place of the rows.
    """

    def __init__(
        self,
        n: int,
        widths: Sequence[int],
        settings: GraphSettings,
        random_states: Sequence[np.random.RandomState],
        plans: Sequence[ScalingPlan],
    ) -> None:
        self._n = n
        self._settings = settings
        self.kept: Views | None = None  # after `finish`: samples in every view, in random order
        self._random_states = random_states
        self._plans = plans
        self.shared = [plan.shared for plan in plans]  # the parts that a scan needs
        self._rows: Array | None = np.empty(0, dtype=np.int64)  # all drawn rows; None: all rows
        self._drawn: list[Array | None] = []
        how = (settings.n_anchors, settings.anchors)
        self._in_span = span_pays(n, widths, settings, len(random_states))
        if self._in_span:
            self._rows = shared_rows(n, settings.n_anchors, random_states)
        elif isinstance(settings.anchors, str):
            self._drawn = [sample_rows(n, *how, state) for state in random_states]
            known = [rows for rows in self._drawn if rows is not None]
            self._rows = np.unique(np.concatenate(known)) if known else None

    def sampled(self, rows: slice) -> slice | Array:
        """Return the rows of a block that belong to a sample, counted from its start."""
        if self._rows is None:
            return slice(None)
        first, last = np.searchsorted(self._rows, [rows.start, rows.stop])
        return np.asarray(self._rows[first:last] - rows.start)

    def wants(self, rows: slice) -> bool:
        """Whether a block must be read for the scan."""
        sampled = self.sampled(rows)
        looks = any(plan.looks for plan in self._plans)
        return looks or isinstance(sampled, slice) or len(sampled) > 0

    def finish(self, seen: BlockStats, views: Views) -> list[GraphModel]:
        """Return the graph model of each random state from the statistics of all blocks."""
        s = self._settings
        require_enough(views.names, self._n - np.broadcast_to(seen.absent, len(views)), s.n_anchors)
        found = seen.moments or (None,) * len(views)
        scalings = [plan.finish(m) for plan, m in zip(self._plans, found, strict=True)]
        if not isinstance(s.anchors, str):
            anchors = check_anchors(s.anchors, s.n_anchors, views.widths)
            return [GraphModel(scalings, anchors, s.n_neighbors) for _ in self._random_states]
        sample = _joined(seen, views)
        some = complete_sample(sample.n, sample.present, MOST_SAMPLED)
        self.kept = Views([view.part(view.array[some], some) for view in sample])
        if self._in_span:
            return learned_in_span(sample, scalings, s, self._random_states)
        how = s.n_anchors, s.anchors, self._random_states, list(map(self._among_seen, self._drawn))
        anchors_of = anchors_of_runs(sample, scalings, *how, sampled=self._drawn[0] is not None)
        return [GraphModel(scalings, anchors, s.n_neighbors) for anchors in anchors_of]

    def _among_seen(self, drawn: Array | None) -> Array | None:
        """Return the positions of a run's rows among the sampled rows of all runs; None: all."""
        if drawn is None or self._rows is None or len(drawn) == len(self._rows):
            return None
        return np.searchsorted(self._rows, drawn)


def _joined(seen: BlockStats, views: Views) -> Views:
    """Return the sampled rows as views in memory."""
    present = np.concatenate(seen.present)
    masks = [None] * len(views) if present.all() else list(present.T)
    blocks = (stacked(blocks) for blocks in zip(*seen.sample, strict=True))
    return Views(
        [
            replace(view, array=block, present=mask)
            for view, block, mask in zip(views, blocks, masks, strict=True)
        ]
    )


def complete_sample(n: int, present: Array | None, count: int) -> Array:
    """Return the numbers of at most `count` random samples of n that are in every view."""
    rng = np.random.RandomState(0)
    drawn = np.unique(rng.randint(n, size=4 * count))
    if present is not None:
        drawn = drawn[present[drawn].all(axis=1)]
    return rng.permutation(drawn)[:count]


def scaling_plans(
    views: Views, scale: Scale, sample: Callable[[], list[Views]], team: Team
) -> list[ScalingPlan]:
    """Return plans of the scalings; only the plans of the leader have all statistics.

    `sample` returns blocks of rows; it is called only if the plans need them.
    """
    needed = any(needs_sample(scale, name) for name in views.names)
    blocks = sample() if needed else []
    own: list[ScalingPlan] = []

    def make() -> list[ScalingPlan]:
        for v, view in enumerate(views):
            rows = stacked(_present_rows(block[v] for block in blocks)) if needed else None
            own.append(ScalingPlan.of(view, scale, rows))
        return [plan.shared for plan in own]

    shared = team.on_leader(make)
    return own or shared


def _present_rows(views: Iterable[View]) -> tuple[Matrix, ...]:
    return tuple(
        view.rows(slice(None)) if view.present is None else view.rows(np.flatnonzero(view.present))
        for view in views
    )


def scan(
    block: Views, rows: slice, sampled: slice | Array, *, first: int, plans: Sequence[ScalingPlan]
) -> BlockStats:
    """Scan a block of rows in memory; `first` is the number of its first row among all rows."""
    finite_block(block)
    start = first + rows.start
    present = np.ones((block.n, len(block)), bool) if block.present is None else block.present
    check_present(block.present, start)
    return BlockStats(
        tuple(
            moments(view, plan) if plan.looks else None
            for view, plan in zip(block, plans, strict=True)
        ),
        (tuple(view.rows(sampled) for view in block),),
        (present[sampled],),
        block.n - present.sum(axis=0),
        {start: block_checksum(block)},
    )


def block_checksum(block: Views) -> int:
    """Return a checksum of some rows of a block."""
    value = 0
    for view in block:
        rows = view.array[::_MARKED]
        value = zlib.crc32((rows.data if view.sparse else rows).tobytes(), value)
    return value


def require_same(block: Views, rows: slice, checksum: int | None) -> None:
    """Raise if the checksum of a block differs from that of its first read, if there was one."""
    if checksum is not None and checksum != block_checksum(block):
        raise ValueError(
            f"rows {rows.start} to {rows.stop - 1} have changed since they were first read; the "
            "data must not change during the fit."
        )


def finite_block(block: Views) -> Views:
    """Return a block; raise if a value is not finite (the fit then counts them in all rows)."""
    for view in block:
        if any(count_nonfinite(view.array, view.present)):
            raise MissingValuesError(
                f"view {view.name!r} contains NaN or infinity; remove or impute them first."
            )
    return block


def stacked(blocks: tuple[Matrix, ...]) -> Matrix:
    """Return blocks of rows as one matrix, which is sparse if one of them is."""
    if any(map(sparse.issparse, blocks)):
        return sparse.vstack(blocks, format="csr")
    return np.concatenate(blocks)
