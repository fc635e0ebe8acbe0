"""Rows in parts, processed in sequence or, on several devices, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import TypeVar

from omcal.machine.arrays import Floats
from omcal.method.rows import AbstractRows, Assignment, Sums

Result = TypeVar("Result")


class ChunkedRows(AbstractRows):
    """The rows of several parts, in order; the sums of the parts are added.

    With `at_once` a thread waits for each of them: for parts that are on different devices.
    """

    def __init__(self, parts: Sequence[AbstractRows], *, at_once: bool = False) -> None:
        self._parts = parts
        self._at_once = at_once

    def gram(self) -> Floats:
        return reduce(add, self._each(lambda part: part.gram()))

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        return reduce(add, self._each(lambda part: part.sweep(alpha, P, R)))

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        step = (alpha, P, R, G)
        assigned = self._each(lambda part: part.assign(*step, runner_up=runner_up))
        return Assignment.joined(list(assigned))

    def _each(self, work: Callable[[AbstractRows], Result]) -> Iterable[Result]:
        """Return the results of the parts in order."""
        if not self._at_once:
            return map(work, self._parts)
        with ThreadPoolExecutor(len(self._parts)) as pool:
            return list(pool.map(work, self._parts))


class RowsOnDemand(AbstractRows):
    """Rows that exist only during a call, created anew for each one.

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

    def gram(self) -> Floats:
        with self._made() as rows:
            return rows.gram()

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        with self._made() as rows:
            return rows.sweep(alpha, P, R)

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        with self._made() as rows:
            return rows.assign(alpha, P, R, G, runner_up=runner_up)
