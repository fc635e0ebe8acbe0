"""Cells without a value: counted, and replaced by values that the rest of their row suggests.

A fit learns of them when a sum over the data is no number, so that data without any cost nothing.
`omcal.views.filling` has the values. A row without any value is an absent sample and stays so.
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

Sampled: TypeAlias = list[tuple[Array, Matrix]]  # numbers of rows, and the rows

_BLOCK_ENTRIES = 1 << 20
_RUN = 128  # consecutive rows among those whose missing cells are kept
_FEATURES = 50  # of which they are kept


@dataclass(frozen=True)
class MissingCells(Additive):
    """Sums over the known values of a view, which add up over blocks of rows."""

    n: int  # rows of samples that the view has
    half_empty: int  # samples that lack more than half of their values
    infinite: int  # number of infinite values, which have no mean
    total: Floats  # sum of the known values of each feature
    count: Floats  # number of the known values of each feature
    fractions: Floats  # number of the known values of each feature that are not whole
    nonzero: Floats  # number of the known values of each feature that are not zero

    @classmethod
    def of(cls, block: Matrix) -> MissingCells:
        """Count in rows; a row without any value is an absent sample."""
        there = rows_present(block)
        block = block if there is None else block[there]
        n, width = map(int, block.shape)
        stored = block.data if sparse.issparse(block) else block
        lost = np.isnan(stored)
        values = np.where(lost, 0, stored).astype(np.float64)
        summed: list[Any] = [values, lost, values != np.rint(values), values != 0]
        if sparse.issparse(block):
            places = block.indices, block.indptr
            summed = [sparse.csr_array((_floats(part), *places), block.shape) for part in summed]
        total, missing, fractions, nonzero = (_floats(part.sum(axis=0)) for part in summed)
        half = int((2 * summed[1].sum(axis=1) > width).sum())
        infinite = int(np.isinf(values).sum())
        return cls(n, half, infinite, total, n - missing, fractions, nonzero)

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
        """Return the mean of the known values of each feature; 0 where none is known."""
        return self.total / np.maximum(self.count, 1)

    @property
    def mostly_zero(self) -> bool:
        """Whether the view is wide and mostly zero: its features share a unit, as counts do."""
        zero = 1 - self.nonzero.sum() / max(self.count.sum(), 1)
        return bool(len(self.count) >= WIDE and zero >= MOSTLY_ZERO)

    @property
    def middle(self) -> Floats:
        """Return the middle of each feature: its mean, rounded in wide views of whole numbers.

        The kind of a view is recognised with them, as counts must be whole and mostly zero.
        """
        whole = (self.fractions == 0) & (len(self.count) >= WIDE)
        return np.where(whole, np.rint(self.mean), self.mean)


def _floats(counts: Array) -> Floats:
    return counts.astype(np.float64)


def count_missing(views: Views) -> list[MissingCells]:
    """Count the missing cells of each view, wherever its rows are; refuse infinity."""
    with np.errstate(invalid="ignore"):
        found = [count_cells(view) for view in views]
    for view, cells in zip(views, found, strict=True):
        if cells.infinite:
            require_finite(view.name, cells.n_cells, cells.infinite)
    return found


@dataclass(frozen=True)
class Gaps:
    """Missing cells of some rows of a view."""

    rows: Array  # numbers of the rows
    features: Array  # the features with most missing cells, at most 50
    missing: Mask  # whether the cell is missing, by row and feature


def sample_gaps(blocks: Sampled, cells: MissingCells) -> Gaps:
    """Return the missing cells of sampled rows."""
    most = min(_FEATURES, np.count_nonzero(cells.lost))
    features = np.sort(np.argsort(-cells.lost, kind="stable")[:most])
    parts = [block[:, features] for _, block in blocks]
    missing = [np.isnan(part.toarray() if sparse.issparse(part) else part) for part in parts]
    return Gaps(np.concatenate([rows for rows, _ in blocks]), features, np.concatenate(missing))


def sample_blocks(view: View, first: int = 0, n: int | None = None) -> Sampled:
    """Return those of 2,048 rows, read in a few runs, that are here, with their numbers here.

    The first row here is row `first` of the n rows of all processes.
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
    """Return the kind of a view as its known values show it, and their presence."""
    filled = [Fill.of_means(cells.middle).apply(block) for block in blocks]
    stack = sparse.vstack if sparse.issparse(filled[0]) else np.concatenate
    rows = stack(filled)
    kind = recognise(rows) if rows.shape[0] else None
    return KnownValues(kind, not cells.fractions.any(), cells.nonzero / np.maximum(cells.count, 1))


def count_cells(view: View) -> MissingCells:
    """Count the missing cells of a view, wherever its rows are."""
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
    """Return the view with its missing cells filled, wherever its rows are."""
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
    """Fill missing cells by a model of each view, which a fit learns and records.

    `total` sums an array over all processes of a fit; `counted` are the counts of this process,
    whose first row is the first of `of_all`, out of the second.
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
    """Return the number of missing cells of a view; that of a category counts once."""
    starts = column_starts(plan, titles or tuple(map(str, range(len(cells.lost)))))
    return int(cells.lost[list(starts)].sum())
