"""Per-view scaling: fitted once, then folded into products with the rows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.sparsefuncs import mean_variance_axis

from omcal.machine.compiled import compiled_pays, moments_kernel
from omcal.machine.threads import map_blocks, row_blocks
from omcal.views.view import Matrix, View

Scale = Literal["feature", "sample", "view"] | None
SCALES = ("feature", "sample", "view", None)

_BLOCK_ENTRIES = 1 << 18
_COMPILED_ENTRIES = 1 << 20  # the compiled loop makes no copy


@dataclass(frozen=True)
class Moments:
    """Number, mean and Σ (x − mean)² of each feature, in float64; those of two sets of rows add."""

    n: int
    mean: NDArray[np.float64]
    squares: NDArray[np.float64]

    @classmethod
    def of(cls, block: Matrix, *, compiled: bool = False) -> Moments:
        """Moments of rows of which a float64 copy does not matter; a compiled loop takes none."""
        n = block.shape[0]
        if sparse.issparse(block):
            parts = (block.data.astype(np.float64, copy=False), block.indices, block.indptr)
            mean, variance = mean_variance_axis(sparse.csr_array(parts, block.shape), axis=0)
            return cls(n, mean, variance * n)
        if compiled:
            total, squares = np.zeros((2, block.shape[1]))
            origin = block[0].astype(np.float64)
            moments_kernel()(block, origin, total, squares)
            return cls(n, origin + total / n, np.maximum(squares - total**2 / n, 0))
        # In float64 it does not show how the rows were cut into blocks.
        centred = block.astype(np.float64)
        mean = centred.mean(axis=0)
        centred -= mean
        # A sum of many rows is off by many roundings; its second look takes them out.
        rest = centred.mean(axis=0)
        squares = np.einsum("ij,ij->j", centred, centred) - n * rest**2
        return cls(n, mean + rest, np.maximum(squares, 0))

    @classmethod
    def none(cls, width: int) -> Moments:
        """Of no row at all."""
        return cls(0, np.zeros(width), np.zeros(width))

    def __add__(self, other: Moments) -> Moments:
        # Chan, Golub and LeVeque: no difference of large numbers.
        n = max(self.n + other.n, 1)
        delta = other.mean - self.mean
        squares = self.squares + other.squares + delta**2 * (self.n * other.n / n)
        return Moments(self.n + other.n, self.mean + delta * (other.n / n), squares)

    @property
    def variance(self) -> NDArray[np.float64]:
        """With ddof 1."""
        return self.squares / max(self.n - 1, 1)


def moments(view: View) -> Moments:
    """Moments of a view, by blocks of rows."""
    if view.sparse:
        return Moments.of(view.array if view.present is None else view.array[view.present])
    n = view.array.shape[0]
    compiled = view.array.dtype in (np.float32, np.float64) and compiled_pays(n)
    size = max(1, (_COMPILED_ENTRIES if compiled else _BLOCK_ENTRIES) // view.width)

    def work(rows: slice) -> Moments:
        block = view.rows(rows)
        if view.present is not None:
            block = block[view.present[rows]]
        return Moments.of(block, compiled=compiled) if len(block) else Moments.none(view.width)

    return reduce(add, map_blocks(work, n, size))


@dataclass(frozen=True)
class Scaling:
    """x -> (standardise(x) - center) * factor, where only "sample" standardises each row.

    `center` and `factor` have one float64 entry a feature; None means 0 and 1.
    """

    per_sample: bool = False
    center: NDArray[np.float64] | None = None
    factor: NDArray[np.float64] | None = None

    @classmethod
    def fit(cls, view: View, scale: Scale) -> Scaling:
        """Read what `scale` needs from the view.

        "feature": z-score of each feature (ddof 1), constant features to 0; sparse input is not
        centred. "sample": z-score of each sample (ddof 1); sparse input is only divided. "view":
        one factor that makes the total variance 1. None: the data as they are.
        """
        found = moments(view) if needs_moments(scale) else None
        return cls.from_moments(found, scale, centred=not view.sparse)

    @classmethod
    def from_moments(cls, found: Moments | None, scale: Scale, *, centred: bool) -> Scaling:
        """The same from moments taken elsewhere; None where `scale` needs none."""
        if found is None:
            return cls(per_sample=scale == "sample")
        variance = found.variance
        if scale == "feature":
            deviation = np.sqrt(variance)
            # Rounding leaves a constant feature of size x with a deviation of about eps·x.
            constant = deviation <= 1e-14 * np.abs(found.mean)
            factor = np.where(constant, 0.0, 1.0 / np.where(constant, 1.0, deviation))
            return cls(center=found.mean if centred else None, factor=factor)
        total = np.sqrt(variance.sum())
        return cls(factor=np.full(len(variance), 1.0 / total if total > 0 else 1.0))

    def standardise(self, block: Matrix) -> Matrix:
        """The part of the scaling that depends on the row; the block itself where there is none."""
        return _standardise_rows(block) if self.per_sample else block

    def apply(self, block: Matrix) -> Matrix:
        """Scaled copy of a block of rows, in its own floating type."""
        block = self.standardise(block)
        if self.factor is None:
            return block
        factor = self.factor.astype(block.dtype)
        if sparse.issparse(block):
            return block @ sparse.diags_array(factor)
        if self.center is None:
            return block * factor
        return (block - self.center.astype(block.dtype)) * factor

    def fold(self, W: NDArray) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """(W', b) such that apply(x)·W == standardise(x)·W' + b, for W with a row a feature."""
        folded = W if self.factor is None else W * self.factor[:, None]
        shift = np.zeros(W.shape[1]) if self.center is None else -(self.center @ folded)
        return folded, shift


def needs_moments(scale: Scale) -> bool:
    """Whether this scaling must see all rows before it can be applied to one."""
    return scale in ("feature", "view")


def _standardise_rows(block: Matrix) -> Matrix:
    """z-score of each row (ddof 1); sparse rows are only divided, constant rows become 0."""
    if sparse.issparse(block):
        return sparse.diags_array(_sparse_row_factors(block).astype(block.dtype)) @ block
    width = block.shape[1]
    centred = block - block.mean(axis=1, keepdims=True, dtype=np.float64).astype(block.dtype)
    # Twice, because the first mean of a wide row is off by many roundings.
    centred -= centred.mean(axis=1, keepdims=True, dtype=np.float64).astype(block.dtype)
    variance = np.einsum("ij,ij->i", centred, centred, dtype=np.float64) / max(width - 1, 1)
    # What is left of a constant row is rounding, not a direction.
    size = np.abs(block).max(axis=1).astype(np.float64)
    variance[variance <= (4 * np.finfo(block.dtype).eps * size) ** 2] = 0
    centred *= _inverse_root(variance).astype(block.dtype)[:, None]
    return centred


def _sparse_row_factors(block: Matrix) -> NDArray[np.float64]:
    """1 / standard deviation of each row, its zeros counted; 0 for constant rows."""
    n, width = block.shape
    factors = np.empty(n)
    # Each stored entry takes five numbers here: not of all rows at once.
    for rows in row_blocks(n, max(1, _BLOCK_ENTRIES * n // max(block.nnz, 1))):
        first, last = block.indptr[rows.start], block.indptr[rows.stop]
        stored = np.diff(block.indptr[rows.start : rows.stop + 1])
        factors[rows] = _row_factors(block.data[first:last].astype(np.float64), stored, width)
    return factors


def _row_factors(values: NDArray[np.float64], stored: NDArray, width: int) -> NDArray[np.float64]:
    n = len(stored)
    row = np.repeat(np.arange(n), stored)
    mean = np.bincount(row, values, minlength=n) / width
    squares: NDArray = np.bincount(row, np.square(values - mean[row]), minlength=n)
    squares += (width - stored) * mean**2
    variance = squares / max(width - 1, 1)
    variance[variance <= (width * np.finfo(np.float64).eps * mean) ** 2] = 0
    return _inverse_root(variance)


def _inverse_root(variance: NDArray) -> NDArray:
    positive = variance > 0
    return np.where(positive, 1.0 / np.sqrt(np.where(positive, variance, 1.0)), 0.0)
