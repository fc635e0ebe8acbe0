"""Nearest centres of points while the centres move; bounds avoid most distances.

Hamerly (Making k-means even faster, 2010): if a point is nearer to its own centre than to any other
by more than the centres have moved, its centre stays. Without it, fits take 7 to 29 % more CPU time
(benchmarks/ablations.py).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from omcal.machine.arrays import Array, Floats

# (centres, some of the points or None for all) -> label of the nearest centre, squared distance to
# it and to the second
TwoNearest = Callable[[Array, Array | None], tuple[Array, Array, Array]]

_ROUNDING = 64  # of a distance, in units in the last place of its square
_MOST_UNSURE = 0.7  # share of the points above which testing all is faster than selecting them


class MovingCentres:
    """A function from centres to labels of the nearest, for repeated calls with moved centres.

    `norms` are the squared lengths of the points.
    """

    def __init__(self, two_nearest: TwoNearest, norms: Array) -> None:
        self._two_nearest, self._norms = two_nearest, norms
        self._labels = np.empty(len(norms), np.int32)
        self._own, self._others = np.empty(
            (2, len(norms))
        )  # upper and lower bounds of the distances
        self._centres: Array | None = None

    def __call__(self, centres: Array) -> Array:
        if self._centres is None:
            self._look(centres, None)
        else:
            self._move(np.linalg.norm(centres - self._centres, axis=1).astype(np.float64))
            unsure = np.flatnonzero(self._own >= self._others)
            if unsure.size:
                most = _MOST_UNSURE * len(self._labels)
                self._look(centres, unsure if unsure.size < most else None)
        self._centres = centres
        return self._labels.copy()

    def _move(self, by: Floats) -> None:
        """Loosen the bounds by the moves of the centres."""
        self._own += by[self._labels]
        farthest = int(by.argmax())
        elsewhere = float(np.delete(by, farthest).max(initial=0.0))
        self._others -= np.where(self._labels == farthest, elsewhere, by[farthest])

    def _look(self, centres: Array, some: Array | None) -> None:
        labels, first, second = self._two_nearest(centres, some)
        here = slice(None) if some is None else some
        squares = self._norms[here] + np.square(centres).sum(axis=1).max()
        rounding = _ROUNDING * np.finfo(centres.dtype).eps * squares.astype(np.float64)
        self._labels[here] = labels
        self._own[here] = np.sqrt(first + rounding)
        self._others[here] = np.sqrt(np.maximum(second - rounding, 0))
