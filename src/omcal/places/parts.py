"""Rows in parts, processed in sequence or, on several devices, in parallel."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from functools import reduce
from operator import add
from typing import TypeVar

from omcal.machine.arrays import Floats
from omcal.method.rows import AbstractRows, Assignment, Sums

Result = TypeVar("Result")
Part = AbstractRows | Callable[[], AbstractContextManager[AbstractRows]]


class ChunkedRows(AbstractRows):
    """The rows of several parts, in order; the sums of the parts are added.

    A part may be a function that returns a context manager: its rows then exist during one use
    only. With `at_once` each part has a thread, for parts on different devices.
    """

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        at_once: bool = False,
    ) -> None:
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

        def done(part: Part) -> Result:
            with nullcontext(part) if isinstance(part, AbstractRows) else part() as rows:
                return work(rows)

        if not self._at_once:
            return map(done, self._parts)
        with ThreadPoolExecutor(len(self._parts)) as pool:
            return list(pool.map(done, self._parts))
