"""Cells without a value: counts, and estimates from the rest of their rows.

A fit detects them when a sum over the data is NaN, so that complete data need no extra pass.
`omcal.views.filling` computes the values. A row without any value is an absent sample and stays so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Additive, Array, Floats, Mask
from omcal.machine.threads import map_blocks, row_blocks
from omcal.views.filling import Fill
from omcal.views.kinds import MOSTLY_ZERO, WIDE, recognise, sample_slices
from omcal.views.mixed import Plan, column_starts
from omcal.views.present import rows_present
from omcal.views.view import KnownValues, Matrix, View, Views, require_finite

Sampled: TypeAlias = list[tuple[Array, Matrix]]  # row numbers, and the rows

_BLOCK_ENTRIES = 1 << 20
_RUN = 128  # consecutive rows in the sample of missing cells
_FEATURES = 50  # most features in the sample of missing cells


@dataclass(frozen=True)
class MissingCells(Additive):
    """Sums over the known values of a view; sums of blocks of rows can be added."""

    n: int  # number of samples in the view
    half_empty: int  # number of samples that lack more than half of their values
    infinite: int  # number of infinite values, which have no mean
    total: Floats  # sum of the known values of each feature
    count: Floats  # number of the known values of each feature
    fractions: Floats  # number of the known values of each feature that are not whole
    nonzero: Floats  # number of the known values of each feature that are not zero

    @classmethod
    def of(cls, block: Matrix) -> MissingCells:
        """Return the counts of a block; a row without any value is an absent sample."""
        present = rows_present(block)
        block = block if present is None else block[present]
        n, width = map(int, block.shape)
        stored = block.data if sparse.issparse(block) else block
        lost = np.isnan(stored)
        values = np.where(lost, 0, stored).astype(np.float64)
        summed: list[Any] = [values, lost, values != np.rint(values), values != 0]
        if sparse.issparse(block):
            positions = block.indices, block.indptr
            summed = [sparse.csr_array((_floats(part), *positions), block.shape) for part in summed]
        total, missing, fractions, nonzero = (_floats(part.sum(axis=0)) for part in summed)
        half_empty = int((2 * summed[1].sum(axis=1) > width).sum())
        infinite = int(np.isinf(values).sum())
        return cls(n, half_empty, infinite, total, n - missing, fractions, nonzero)

    def over_all(self, total: Callable[[Array], Array]) -> MissingCells:
        """Return the sums over all processes of a fit."""
        sums = np.array([self.total, self.count, self.fractions, self.nonzero])
        n, half = total(np.array([self.n, self.half_empty], dtype=np.float64))
        return MissingCells(int(n), int(half), 0, *total(sums))

    @property
    def lost(self) -> Floats:
        """Return the number of missing cells of each feature."""
        return self.n - self.count

    @property
    def n_cells(self) -> int:
        """Number of missing cells."""
        return int(self.lost.sum())

    @property
    def mean(self) -> Floats:
        """Return the mean of the known values of each feature; 0 if none is known."""
        return self.total / np.maximum(self.count, 1)

    @property
    def mostly_zero(self) -> bool:
        """Whether the view is wide and mostly zero: its features share a unit, as counts do."""
        zero = 1 - self.nonzero.sum() / max(self.count.sum(), 1)
        return bool(len(self.count) >= WIDE and zero >= MOSTLY_ZERO)

    @property
    def middle(self) -> Floats:
        """Return the middle of each feature: its mean, rounded in wide views of whole numbers.

        Middles fill cells before the kind is recognised: counts must be whole and mostly zero.
        """
        whole = (self.fractions == 0) & (len(self.count) >= WIDE)
        return np.where(whole, np.rint(self.mean), self.mean)


def _floats(counts: Array) -> Floats:
    return counts.astype(np.float64)


def count_missing(views: Views) -> list[MissingCells]:
    """Count the missing cells of each view, in memory or elsewhere; refuse infinity."""
    with np.errstate(invalid="ignore"):
        found = [count_cells(view) for view in views]
    for view, cells in zip(views, found, strict=True):
        if cells.infinite:
            require_finite(view.name, cells.n_cells, cells.infinite)
    return found


@dataclass(frozen=True)
class Gaps:
    """The missing cells of sampled rows of a view."""

    rows: Array  # row numbers
    features: Array  # at most 50 features, those with most missing cells
    missing: Mask  # whether the cell is missing, by row and feature


def sample_gaps(blocks: Sampled, cells: MissingCells) -> Gaps:
    """Return the missing cells of sampled rows."""
    most = min(_FEATURES, np.count_nonzero(cells.lost))
    features = np.sort(np.argsort(-cells.lost, kind="stable")[:most])
    parts = [block[:, features] for _, block in blocks]
    missing = [np.isnan(part.toarray() if sparse.issparse(part) else part) for part in parts]
    return Gaps(np.concatenate([rows for rows, _ in blocks]), features, np.concatenate(missing))


def sample_blocks(view: View, first: int = 0, n: int | None = None) -> Sampled:
    """Return the rows of this process among 2,048 sampled rows, with their numbers in this process.

    The rows of this process begin at row `first` of the n rows of all processes.
    """
    own = int(view.array.shape[0])
    n = own if n is None else n
    runs = sample_slices(n, _RUN)
    ends = [np.clip([run.start - first, run.stop - first], 0, own).tolist() for run in runs]
    parts = [slice(*pair) for pair in ends if pair[0] < pair[1]] or [slice(0, 0)]
    blocks = [view.array[part] for part in parts]
    if view.home == "cluster":
        import dask

        blocks = dask.compute(*blocks)
    found = []
    for part, block in zip(parts, blocks, strict=True):
        there = np.ones(block.shape[0], bool) if view.present is None else view.present[part]
        filled = rows_present(block)
        there = there if filled is None else there & filled
        found.append((np.arange(part.start, part.stop)[there], block[there]))
    return found


def known_values(blocks: Sequence[Matrix], cells: MissingCells) -> KnownValues:
    """Return facts from the known values of a view: its kind, and shares of non-zero values."""
    filled = [Fill.of_means(cells.middle).apply(block) for block in blocks]
    stack = sparse.vstack if sparse.issparse(filled[0]) else np.concatenate
    rows = stack(filled)
    kind = recognise(rows) if rows.shape[0] else None
    return KnownValues(kind, not cells.fractions.any(), cells.nonzero / np.maximum(cells.count, 1))


def count_cells(view: View) -> MissingCells:
    """Count the missing cells of a view, in memory or elsewhere."""
    if view.home == "cluster":
        import dask

        blocks = view.array.to_delayed().ravel()
        counts = [dask.delayed(MissingCells.of)(block) for block in blocks]
        found: Sequence[MissingCells] = dask.compute(*counts)
        return reduce(add, found)
    none = MissingCells.of(np.empty((0, view.width)))
    n = int(view.array.shape[0])
    size = max(1, _BLOCK_ENTRIES // view.width)

    def count(rows: slice) -> MissingCells:
        block = view.array[rows]
        return MissingCells.of(block if view.present is None else block[view.present[rows]])

    if view.home == "memory":
        return reduce(add, map_blocks(count, n, size), none)
    # Files and devices are read one block after another.
    return reduce(add, map(count, row_blocks(n, size)), none)


def fill(view: View, values: Fill) -> View:
    """Return the view with missing cells filled, in memory or elsewhere."""
    array = view.array
    if view.home == "cluster":
        import dask.array as da

        return replace(view, array=da.map_blocks(values.apply, array, dtype=array.dtype))
    if view.home in ("disk", "device"):
        return replace(view, array=array.filled(values))
    return replace(view, array=values.apply(array))


def fill_missing(
    estimator: Any,
    views: Views,
    reset: bool,
    total: Callable[[Array], Array],
    counted: list[MissingCells] | None = None,
    of_all: tuple[int, int | None] = (0, None),
) -> Views:
    """Fill missing cells with a model of each view, which a fit learns and records.

    `total` sums an array over all processes of a fit. `counted` has the counts of this process;
    `of_all` is the number of its first row, and the number of rows of all processes.
    """
    if not reset:
        known = zip(estimator._fills, estimator._rule_middles(), strict=True)
        values = [Fill.of_means(middle) if one is None else one for one, middle in known]
        return Views([fill(view, one) for view, one in zip(views, values, strict=True)])
    found = [cells.over_all(total) for cells in counted or count_missing(views)]
    estimator._missing = found
    estimator._gaps, estimator._fills = ([None] * len(views) for _ in range(2))
    filled = list(views)
    for v, (view, cells) in enumerate(zip(views, found, strict=True)):
        if cells.n_cells:
            blocks = sample_blocks(view, *of_all)
            estimator._gaps[v] = sample_gaps(blocks, cells)
            rows = [block for _, block in blocks]
            estimator._fills[v] = Fill.learn(rows, cells.mean, not cells.mostly_zero, total)
            view = replace(view, known=known_values(rows, cells))
            filled[v] = fill(view, estimator._fills[v])
    estimator.n_missing_ = [
        lost_cells(cells, estimator._encoding.get(view.name, {}), view.columns)
        for view, cells in zip(views, found, strict=True)
    ]
    return Views(filled)


def lost_cells(cells: MissingCells, plan: Plan, titles: Sequence[str] | None) -> int:
    """Return the number of missing cells of a view; a category counts as one cell."""
    starts = column_starts(plan, titles or tuple(map(str, range(len(cells.lost)))))
    return int(cells.lost[list(starts)].sum())
