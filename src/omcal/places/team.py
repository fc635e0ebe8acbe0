"""The processes that share a fit: by default this one alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import reduce
from operator import add
from typing import Any, TypeVar

from omcal.machine.arrays import Array
from omcal.views.view import Views

Result = TypeVar("Result")


class Team:
    """The processes that each hold some rows of a fit; here a single one.

    The methods are collective operations: all processes call them in the same order. `Ranks`
    performs them over a group of torch.distributed.
    """

    rank: int = 0
    is_leader: bool = True  # whether this process does the work for all

    @property
    def first_row(self) -> int:
        """Number of the first row of this process among those of all."""
        return 0

    def check_same(self, facts: Mapping[str, str], n_rows: int, least: int = 2) -> int:
        """Raise if processes have different facts; return the number of rows of all processes.

        Raise also if all together have fewer rows than `least`.
        """
        return n_rows

    def on_leader(self, work: Callable[[], Result]) -> Result:
        """Call `work` on the leader and return its result on every process."""
        return work()

    def each(self, work: Callable[[], Result]) -> list[Result]:
        """Return the results of the work of all processes, on each process; keep them small."""
        return [work()]

    def added(self, work: Callable[[], Result]) -> Result:
        """Return the sum of the results of all processes, on all of them."""
        return reduce(add, self.each(work))

    def total(self, counts: Array) -> Array:
        """Return the sum of `counts` over all processes."""
        return counts

    def any_stops(self, stop: bool) -> bool:
        """Whether all processes stop, given whether this one wants to."""
        return stop

    @contextmanager
    def reporting_failures(self) -> Iterator[None]:
        """Report an error in the block to the other processes, before they first meet."""
        yield


SOLO = Team()


def team_of(group: Any) -> Team:
    """Return the team of a group of torch.distributed, or the solo team for None."""
    if group is None:
        return SOLO
    from omcal.places.ranks import Ranks

    return Ranks(group)


def facts_of(views: Views) -> dict[str, str]:
    """Return facts on the views that must agree on all processes; types only with rows."""
    facts = {"the views": ", ".join(map(repr, views.names))}
    for view in views:
        facts[f"the number of features of view {view.name!r}"] = str(view.width)
        if view.columns is not None:
            facts[f"the columns of view {view.name!r}"] = ", ".join(view.columns)
        if views.n:
            kind = f"sparse {view.dtype}" if view.sparse else str(view.dtype)
            facts[f"the type of view {view.name!r}"] = kind
    return facts
