"""Cells without a value: counted, and replaced by the middle of their feature.

A fit learns of them when a sum over the data is no number, so that data without any cost nothing.
The middle is the mean of the known values, rounded in wide views of whole numbers, as counts are.
A row without any value is an absent sample and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import map_blocks, row_blocks
from omcal.views.view import Matrix, View, Views

_BLOCK_ENTRIES = 1 << 20
_WIDE = 100  # features, from which on whole numbers show counts and must stay whole


@dataclass(frozen=True)
class MissingCells:
    """Sums over the known values of a view, which add up over blocks of rows.

    Attributes
    ----------
    n : int
        Rows of samples that the view has.
    total, count : arrays of shape (n_features,)
        Sum and number of the known values of each feature.
    fractions : array of shape (n_features,)
        Number of known values that are not whole.
    half_empty : int
        Samples that lack more than half of their values.
    """

    n: int
    total: Floats
    count: Floats
    fractions: Floats
    half_empty: int

    @classmethod
    def of(cls, block: Matrix) -> MissingCells:
        """Count in rows of samples that are present."""
        n = int(block.shape[0])
        if sparse.issparse(block):
            known = ~np.isnan(block.data)
            columns, values = block.indices[known], block.data[known].astype(np.float64)
            lost = np.bincount(block.indices[~known], minlength=block.shape[1])
            broken = columns[values != np.rint(values)]
            rows = np.repeat(np.arange(n), np.diff(block.indptr))[~known]
            by_row = np.bincount(rows, minlength=n)
            half = int((2 * by_row > block.shape[1]).sum())
            total = np.bincount(columns, values, block.shape[1]).astype(np.float64)
            fractions = np.bincount(broken, minlength=block.shape[1])
            return cls(n, total, _floats(n - lost), _floats(fractions), half)
        known = ~np.isnan(block)
        values = np.where(known, block, 0).astype(np.float64)
        half = int((2 * known.sum(axis=1) < block.shape[1]).sum())
        fractions = (values != np.rint(values)).sum(axis=0)
        return cls(n, values.sum(axis=0), _floats(known.sum(axis=0)), _floats(fractions), half)

    def __add__(self, other: MissingCells) -> MissingCells:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return MissingCells(*(mine + its for mine, its in both))

    def over_all(self, total: Callable[[Array], Array]) -> MissingCells:
        """Return the sums over all processes of a fit."""
        numbers = [self.n, self.half_empty, *self.total, *self.count, *self.fractions]
        n, half, *sums = total(np.array(numbers, dtype=np.float64))
        known, count, fractions = np.split(np.array(sums), 3)
        return MissingCells(int(n), known, count, fractions, int(half))

    @property
    def n_cells(self) -> int:
        """Number of missing cells."""
        return int(self.n * len(self.count) - self.count.sum())

    @property
    def mean(self) -> Floats:
        """The mean of the known values of each feature; 0 where none is known."""
        return self.total / np.maximum(self.count, 1)

    @property
    def middle(self) -> Floats:
        """The middle of each feature: the mean; in wide views of whole numbers, rounded."""
        whole = (self.fractions == 0) & (len(self.count) >= _WIDE)
        return np.where(whole, np.rint(self.mean), self.mean)


def _floats(counts: Array) -> Floats:
    return counts.astype(np.float64)


def count_missing(view: View) -> MissingCells:
    """Count the missing cells of a view, wherever its rows are."""
    if view.home == "cluster":
        return _count_in_dask(view.array)
    none = MissingCells.of(np.empty((0, view.width)))
    n = int(view.array.shape[0])
    size = max(1, _BLOCK_ENTRIES // view.width)
    if view.home == "memory":
        return reduce(_add, map_blocks(lambda rows: _count_rows(view, rows), n, size), none)
    # Files and devices are read one block after another.
    return reduce(_add, (_count_rows(view, rows) for rows in row_blocks(n, size)), none)


def _add(one: MissingCells, other: MissingCells) -> MissingCells:
    return one + other


def _count_rows(view: View, rows: slice) -> MissingCells:
    block = view.array[rows]
    block = block if view.present is None else block[view.present[rows]]
    if not sparse.issparse(block) and block.dtype.kind == "f":
        block = block[~np.isnan(block).all(axis=1)]
    return MissingCells.of(block)


def _count_in_dask(array: Any) -> MissingCells:
    import dask
    import dask.array as da

    there = ~da.isnan(array).all(axis=1)
    known = ~da.isnan(array)
    values = da.where(known, array, 0).astype(np.float64)
    half = (there & (2 * known.sum(axis=1) < array.shape[1])).sum()
    sums = (
        there.sum(),
        values.sum(axis=0),
        known.sum(axis=0),
        (values != da.rint(values)).sum(axis=0),
        half,
    )
    n, total, count, fractions, half = dask.compute(*sums)
    return MissingCells(int(n), total, _floats(count), _floats(fractions), int(half))


def fill(view: View, middle: Floats) -> View:
    """Return the view with the middle of its feature in each missing cell."""
    array = view.array
    if view.home == "cluster":
        import dask.array as da

        return replace(view, array=da.map_blocks(filled_block, array, middle, dtype=array.dtype))
    if view.home in ("disk", "device"):
        return replace(view, array=array.filled(middle))
    if sparse.issparse(array):
        found = np.flatnonzero(np.isnan(array.data))
        whole = array.copy()
        whole.data[found] = middle[array.indices[found]]
        return replace(view, array=whole)
    return replace(view, array=filled_block(array, middle))


def filled_block(block: Array, middle: Floats) -> Array:
    """Return rows with their missing cells filled; rows without any value are left."""
    if block.dtype.kind != "f":
        return block
    holes = np.isnan(block)
    if not holes.any():
        return block
    holes &= ~holes.all(axis=1, keepdims=True)
    return np.where(holes, middle.astype(block.dtype), block)


def fill_views(views: Views, middles: Sequence[Floats | None]) -> Views:
    """Return the views with their missing cells filled."""
    both = zip(views, middles, strict=True)
    return Views([view if middle is None else fill(view, middle) for view, middle in both])
