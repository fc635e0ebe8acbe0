"""Rows in parts, one after another."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import reduce
from operator import add

import numpy as np

from omcal.rows.base import AbstractRows, Array, Assignment, Sums


class ChunkedRows(AbstractRows):
    """The rows of several parts, in their order; what the parts return is added up."""

    def __init__(self, parts: Sequence[AbstractRows]) -> None:
        self._parts = parts

    def gram(self) -> Array:
        return reduce(add, (part.gram() for part in self._parts))

    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        return reduce(add, (part.sweep(alpha, P, R) for part in self._parts))

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        assigned = [part.assign(alpha, P, R, G) for part in self._parts]
        return Assignment(
            np.concatenate([part.labels for part in assigned]),
            sum(part.n_undecided for part in assigned),
        )


class RowsOnDemand(AbstractRows):
    """Rows that exist only while they are used, made each time from where they are kept.

    `release` is called after each use.
    """

    def __init__(self, make: Callable[[], AbstractRows], release: Callable[[], None]) -> None:
        self._make = make
        self._release = release

    @contextmanager
    def _made(self) -> Iterator[AbstractRows]:
        try:
            yield self._make()
        finally:
            self._release()

    def gram(self) -> Array:
        with self._made() as rows:
            return rows.gram()

    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        with self._made() as rows:
            return rows.sweep(alpha, P, R)

    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        with self._made() as rows:
            return rows.assign(alpha, P, R, G)
