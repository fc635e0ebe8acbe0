"""Cells without a value: counted, and replaced by the middle of their feature.

A fit learns of them when a sum over the data is no number, so that data without any cost nothing.
The middle is the mean of the known values, rounded in wide views of whole numbers, as counts are.
A row without any value is an absent sample and stays as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import add
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats, Mask
from omcal.machine.threads import map_blocks, row_blocks
from omcal.views.view import Matrix, View, Views, require_finite

_BLOCK_ENTRIES = 1 << 20
_RUNS, _RUN = 16, 128  # runs of consecutive rows whose missing cells are kept
_FEATURES = 50  # of which they are kept
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
    infinite : int
        Number of infinite values, which have no mean.
    """

    n: int
    total: Floats
    count: Floats
    fractions: Floats
    half_empty: int
    infinite: int

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
            infinite = int(np.isinf(values).sum())
            return cls(n, total, _floats(n - lost), _floats(fractions), half, infinite)
        known = ~np.isnan(block)
        values = np.where(known, block, 0).astype(np.float64)
        half = int((2 * known.sum(axis=1) < block.shape[1]).sum())
        fractions = (values != np.rint(values)).sum(axis=0)
        count, infinite = _floats(known.sum(axis=0)), int(np.isinf(values).sum())
        return cls(n, values.sum(axis=0), count, _floats(fractions), half, infinite)

    def __add__(self, other: MissingCells) -> MissingCells:
        both = zip(vars(self).values(), vars(other).values(), strict=True)
        return MissingCells(*(mine + its for mine, its in both))

    def over_all(self, total: Callable[[Array], Array]) -> MissingCells:
        """Return the sums over all processes of a fit."""
        numbers = [self.n, self.half_empty, *self.total, *self.count, *self.fractions]
        n, half, *sums = total(np.array(numbers, dtype=np.float64))
        known, count, fractions = np.split(np.array(sums), 3)
        return MissingCells(int(n), known, count, fractions, int(half), 0)

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
    def middle(self) -> Floats:
        """Return the middle of each feature: its mean, rounded in wide views of whole numbers."""
        whole = (self.fractions == 0) & (len(self.count) >= _WIDE)
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
    """Missing cells of some rows of a view.

    Attributes
    ----------
    rows : array
        Numbers of the rows.
    features : array
        The features with most missing cells, at most 50.
    missing : array of shape (n_rows, n_features)
        Whether the cell is missing.
    """

    rows: Array
    features: Array
    missing: Mask


def sample_gaps(view: View, cells: MissingCells) -> Gaps | None:
    """Return the missing cells of some rows of a view, read in a few runs."""
    if not cells.n_cells:
        return None
    most = min(_FEATURES, np.count_nonzero(cells.lost))
    features = np.sort(np.argsort(-cells.lost, kind="stable")[:most])
    n = int(view.array.shape[0])
    parts = [slice(0, n)]
    if n > _RUN * _RUNS:
        parts = [slice(i, i + _RUN) for i in np.linspace(0, n - _RUN, _RUNS).astype(int).tolist()]
    blocks = [view.array[part] for part in parts]
    if view.home == "cluster":
        import dask

        blocks = dask.compute(*blocks)
    found = []
    for part, block in zip(parts, blocks, strict=True):
        block = block.toarray() if sparse.issparse(block) else np.asarray(block)
        empty = np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, dtype=bool)
        there = ~empty.all(axis=1)
        found.append((np.arange(part.start, part.stop)[there], empty[there][:, features]))
    rows, missing = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return Gaps(rows, features, missing)


def count_cells(view: View) -> MissingCells:
    """Count the missing cells of a view, wherever its rows are."""
    if view.home == "cluster":
        return _count_in_dask(view.array)
    none = MissingCells.of(np.empty((0, view.width)))
    n = int(view.array.shape[0])
    size = max(1, _BLOCK_ENTRIES // view.width)
    if view.home == "memory":
        return reduce(add, map_blocks(lambda rows: _count_rows(view, rows), n, size), none)
    # Files and devices are read one block after another.
    return reduce(add, (_count_rows(view, rows) for rows in row_blocks(n, size)), none)


def _count_rows(view: View, rows: slice) -> MissingCells:
    block = view.array[rows]
    block = block if view.present is None else block[view.present[rows]]
    if not sparse.issparse(block) and block.dtype.kind == "f":
        block = block[~np.isnan(block).all(axis=1)]
    return MissingCells.of(block)


def _count_in_dask(array: Any) -> MissingCells:
    import dask

    blocks = array.to_delayed().ravel()
    counts = [dask.delayed(_count_block)(block) for block in blocks]
    found: Sequence[MissingCells] = dask.compute(*counts)
    return reduce(add, found)


def _count_block(block: Array) -> MissingCells:
    return _count_rows(View("", block), slice(None))


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
