"""Which kind of numbers a view holds, from a bounded sample of its rows.

The same rows are looked at wherever the view is, so that the kind does not depend on that.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import row_blocks
from omcal.views.view import Matrix, View

SAMPLE_ROWS = 2048
_RUN = 64  # rows that lie together, so that files are read in few pieces

_MOSTLY_ZERO = 0.7
_WIDE = 100  # features; fewer are a table with zeros, not words
_UNIT_LENGTH = 1e-2  # off by no more than this
_LONG_TAIL = 4.0  # times a usual value, reached by one value in a hundred
_TAIL_OF_COUNTS = 2.5  # of whole numbers; pixels and histograms stay below 2
_COLUMNS = 256  # of which the tails are looked at
_LEAST_POSITIVE = 10  # values of a feature, to speak of its tail


class Kind(NamedTuple):
    """What is done to a view, by its name in `scale`, and why."""

    name: str | None
    reason: str = "as asked"

    def __str__(self) -> str:
        return f"{self.name or 'none'} ({self.reason})"


ASKED = Kind(None)


def sample_slices(n: int) -> list[slice]:
    """The rows to look at: all of few, else runs of rows spread evenly."""
    if n <= SAMPLE_ROWS:
        return [slice(0, n)]
    starts = np.linspace(0, n - _RUN, SAMPLE_ROWS // _RUN).astype(int)
    return [slice(start, start + _RUN) for start in starts.tolist()]


def sample_of(view: View) -> Matrix:
    """The rows to look at of a view in memory, without those of absent samples."""
    parts = sample_slices(int(view.array.shape[0]))
    rows = np.concatenate([np.arange(part.start, part.stop) for part in parts])
    if view.present is not None:
        rows = rows[view.present[rows]]
    return view.rows(rows)


def recognise(sample: Matrix) -> Kind:
    """The kind of numbers that these rows hold.

    Mostly zero and wide: counts, terms or links without negative values ("tfidf"), or something
    else with them ("unit"). Rows of length 1 are left as they are ("view"). Long tails are those of
    counts where whole numbers are wide ("tfidf": how much was counted in a row says nothing), else
    damped ("log"). Everything else, binary and one-hot columns too, has its features standardised.
    """
    n, width = sample.shape
    values = sample.data if sparse.issparse(sample) else sample
    if n == 0 or not values.size:
        return Kind("standard", "no value to go by")
    negative = bool((values < 0).any())
    zero = 1.0 - np.count_nonzero(values != 0) / (n * width)
    if zero >= _MOSTLY_ZERO and width >= _WIDE:
        if negative:
            return Kind("unit", f"{zero:.0%} of its values are zero, and some are negative")
        return Kind("tfidf", f"{zero:.0%} of its values are zero, as in counts, terms or links")
    if width > 3 and _unit_length(sample):
        return Kind("view", "its rows have length 1, as embeddings have")
    tail = 0.0 if negative else _tail(sample)
    text = f"one value in a hundred is {tail:.1f} times a usual one, or more"
    if tail >= _TAIL_OF_COUNTS and width >= _WIDE and np.array_equal(values, np.rint(values)):
        return Kind("tfidf", f"whole numbers, and {text}, as in counts")
    if tail >= _LONG_TAIL:
        return Kind("log", text)
    return Kind("standard", "numbers without anything special")


def typical_values(sample: Matrix) -> Floats:
    """Median of the values of each feature that are not zero, by size; 1 where there are none."""
    typical = np.ones(sample.shape[1])
    # Of a wide sparse view few features have any value.
    filled = np.unique(sample.indices) if sparse.issparse(sample) else np.arange(len(typical))
    for block in row_blocks(len(filled), _COLUMNS):
        sizes, counts = _sizes(sample[:, filled[block]])
        known = np.flatnonzero(counts)
        typical[filled[block][known]] = _quantile(sizes[:, known], counts[known], 0.5)
    return typical


def _unit_length(sample: Matrix) -> bool:
    for rows in (sample[:_RUN], sample):  # the first few tell of most views
        squares = _squares(rows)
        there = squares > 0
        if (np.abs(np.sqrt(squares[there]) - 1) > _UNIT_LENGTH).any():
            return False
    return bool(there.any())


def _squares(rows: Matrix) -> Floats:
    """Of the lengths of rows, in float64."""
    if sparse.issparse(rows):
        rows = rows.astype(np.float64)
        with np.errstate(over="ignore"):
            return np.asarray(rows.multiply(rows).sum(axis=1)).ravel()
    return np.asarray(np.einsum("ij,ij->i", rows, rows, dtype=np.float64))


def _tail(sample: Matrix) -> float:
    """How far the positive values of a usual feature reach: their 99 % quantile over the median."""
    width = sample.shape[1]
    columns = np.unique(np.linspace(0, width - 1, min(width, _COLUMNS)).astype(int))
    sizes, counts = _sizes(sample[:, columns])
    enough = counts >= _LEAST_POSITIVE
    if not enough.any():
        return 0.0
    high, middle = (_quantile(sizes[:, enough], counts[enough], q) for q in (0.99, 0.5))
    return float(np.median(high / middle))


def _sizes(sample: Matrix) -> tuple[Floats, Array]:
    """Absolute values of each feature in descending order, and how many are not zero."""
    dense = sample.toarray() if sparse.issparse(sample) else sample
    sizes = -np.sort(-np.abs(dense).astype(np.float64), axis=0)
    return sizes, np.count_nonzero(sizes, axis=0)


def _quantile(sizes: Floats, counts: Array, q: float) -> Floats:
    """A quantile of the first `counts` values of each column, which are in descending order."""
    rows = np.rint((1 - q) * (counts - 1)).astype(int)
    return np.asarray(sizes[rows, np.arange(len(counts))])
