"""The kind of numbers in a view, from a bounded sample of its rows.

The sampled rows, and so the kind, do not depend on where the view is stored.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import row_blocks
from omcal.views.view import Matrix, View

SAMPLE_ROWS = 2048
RUN = 64  # consecutive rows, so that files are read in few pieces

MOSTLY_ZERO = 0.7
WIDE = 100  # features; narrower views are tables with zeros, not word counts
_UNIT_LENGTH = 1e-2  # tolerance for rows of length 1
_LONG_TAIL = 4.0  # 99th percentile divided by the median
_TAIL_OF_COUNTS = 2.5  # the same for whole numbers; pixels and histograms have less than 2
_COLUMNS = 256  # most features for measuring tails
_LEAST_POSITIVE = 10  # values of a feature, to measure its tail
TAIL_QUANTILES = (0.99, 0.5)


class Kind(NamedTuple):
    """The scaling of a view, by its name in `scale`, and the reason."""

    name: str | None
    reason: str = "as asked"

    def __str__(self) -> str:
        return f"{self.name or 'none'} ({self.reason})"


ASKED = Kind(None)


def sample_slices(n: int, run: int = RUN) -> list[slice]:
    """Return the slices of rows to sample: all rows if there are few, else evenly spread runs."""
    if n <= SAMPLE_ROWS:
        return [slice(0, n)]
    starts = np.linspace(0, n - run, SAMPLE_ROWS // run).astype(int)
    return [slice(start, start + run) for start in starts.tolist()]


def sample_rows(view: View) -> Array:
    """Return the numbers of the sampled rows of a view, without absent samples."""
    parts = sample_slices(int(view.array.shape[0]))
    rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    return rows if view.present is None else rows[view.present[rows]]


def sample_of(view: View) -> Matrix:
    """Return the sampled rows of a view in memory; all rows are not copied."""
    rows = sample_rows(view)
    return view.rows(slice(None) if len(rows) == view.array.shape[0] else rows)


class Facts(NamedTuple):
    """The statistics of sampled rows that decide the kind of a view; some are functions."""

    n: int
    width: int
    n_values: int  # number of values that are not zero
    negative: bool  # whether there is a negative value
    unit_length: Callable[[], bool]  # whether all rows but zero rows have length 1
    whole: Callable[[], bool]  # whether all values are whole numbers
    tail: Callable[[], float]  # 99th percentile / median of positive values, of the median feature


def recognise(sample: Matrix) -> Kind:
    """Return the kind of numbers in the rows."""
    if not sample.size:  # for sparse samples the stored entries
        return Kind("standard", "no values in the sample")
    return kind_of(_facts_of(sample))


def kind_of(facts: Facts) -> Kind:
    """Return the kind of numbers in rows with the given statistics.

    Mostly zero and wide views are counts, terms or links ("tfidf") without negative values,
    otherwise "unit". Rows of length 1 are unchanged ("view"). Wide views of whole numbers with long
    tails are counts ("tfidf", which ignores the totals of rows); other views with long tails are
    damped ("log"). The features of other views, even binary and one-hot ones, are standardised.
    """
    width, negative = facts.width, facts.negative
    zero = 1.0 - facts.n_values / (facts.n * width)
    if zero >= MOSTLY_ZERO and width >= WIDE:
        if negative:
            return Kind("unit", f"{zero:.0%} of its values are zero, and some are negative")
        return Kind("tfidf", f"{zero:.0%} of its values are zero, as in counts, terms or links")
    # One-hot rows have length 1, too, but whole numbers are not embeddings.
    if width > 3 and facts.unit_length() and not facts.whole():
        return Kind("view", "its rows have length 1, as embeddings have")
    tail = 0.0 if negative else facts.tail()
    text = f"long tail: 99th percentile is {tail:.1f} × the median"
    if tail >= _TAIL_OF_COUNTS and width >= WIDE and facts.whole():
        return Kind("tfidf", f"whole numbers, and {text}, as in counts")
    if tail >= _LONG_TAIL:
        return Kind("log", text)
    return Kind("standard", "plain numeric features")


def _facts_of(sample: Matrix) -> Facts:
    """Return the statistics of rows in memory."""
    values = sample.data if sparse.issparse(sample) else sample
    n, width = map(int, sample.shape)

    def unit_length() -> bool:
        def of(rows: Matrix) -> bool | None:
            return of_length_one(row_norms(rows.astype(np.float64, copy=False), squared=True))

        return of(sample[:RUN]) is not False and bool(of(sample))  # few are enough for most views

    def tail() -> float:
        sizes, counts = _sizes(sample[:, tail_columns(width)])
        high, middle = (_quantile(sizes, counts, q) for q in TAIL_QUANTILES)
        return usual_tail(high, middle, counts)

    return Facts(
        *(n, width, int(np.count_nonzero(values != 0)), bool((values < 0).any())),
        unit_length=unit_length,
        whole=lambda: np.array_equal(values, np.rint(values)),
        tail=tail,
    )


def typical_values(sample: Matrix) -> Floats:
    """Return the median absolute non-zero value of each feature; 1 if there is none."""
    typical = np.ones(sample.shape[1])
    # In a wide sparse view only a few features have values.
    filled = np.unique(sample.indices) if sparse.issparse(sample) else np.arange(len(typical))
    for block in row_blocks(len(filled), _COLUMNS):
        sizes, counts = _sizes(sample[:, filled[block]])
        known = np.flatnonzero(counts)
        typical[filled[block][known]] = _quantile(sizes[:, known], counts[known], 0.5)
    return typical


def of_length_one(squares: Floats) -> bool | None:
    """Whether rows with the given squared lengths have length 1; None where all are zero."""
    there = squares[squares > 0]
    return bool((np.abs(np.sqrt(there) - 1) <= _UNIT_LENGTH).all()) if there.size else None


def tail_columns(width: int) -> Array:
    """Return the features whose tails are measured."""
    return np.unique(np.linspace(0, width - 1, min(width, _COLUMNS)).astype(int))


def usual_tail(high: Floats, middle: Floats, counts: Array) -> float:
    """Return `Facts.tail` from quantiles of the features and their numbers of values."""
    enough = counts >= _LEAST_POSITIVE
    return float(np.median(high[enough] / middle[enough])) if enough.any() else 0.0


def _sizes(sample: Matrix) -> tuple[Floats, Array]:
    """Return the absolute values of each feature, descending, and the number of non-zeros."""
    dense = sample.toarray() if sparse.issparse(sample) else sample
    sizes = -np.sort(-np.abs(dense).astype(np.float64), axis=0)
    return sizes, np.count_nonzero(sizes, axis=0)


def _quantile(sizes: Floats, counts: Array, q: float) -> Floats:
    """Return a quantile of the first `counts` values of each column, sorted descending."""
    rows = np.rint((1 - q) * np.maximum(counts - 1, 0)).astype(int)
    return np.asarray(sizes[rows, np.arange(len(counts))])
