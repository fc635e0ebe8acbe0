"""Rows on the workers of a Dask cluster."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any, Protocol

import dask
import dask.array as da
import distributed
import numpy as np
from distributed import CancelledError, Client, Future, get_worker
from distributed.scheduler import KilledWorker

from omcal.machine.arrays import Floats
from omcal.method.rows import AbstractRows, Assignment, Sums

_FAN_IN = 8  # results per addition on a worker

State = tuple[Any, Sums]  # F, and the sums over it


class Part(Protocol):
    """The state of a worker's rows without F."""

    def rows(self, F: Any = None) -> Any:
        """Return rows that continue from F, or from zero; their attribute F is the new one."""


class ClusterRows(AbstractRows):
    """Parts that stay on the workers; an iteration sends one step and returns one sum.

    The F of a part is the result of a task that has the part and its last F as input, and is
    never changed afterwards. So the scheduler knows how each came about: where a worker dies it
    makes the part again from the data, and its F again by the same steps.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of futures of Part
        In the order of rows.
    sizes : sequence of int
        Number of rows of each.
    """

    def __init__(
        self,
        client: Client,
        parts: Sequence[Future],
        sizes: Sequence[int],
    ) -> None:
        self._client = client
        self._parts = list(parts)
        self._sizes = list(sizes)
        self._states: list[Future | None] = [None] * len(self._parts)
        self._homes: dict[int, str] = {}
        self._name = uuid.uuid4().hex
        self._count = itertools.count()

    def gram(self) -> Floats:
        parts = self._each("gram", _gram, range(self.n_parts), self._parts)
        return np.asarray(self._total("gram", parts))

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        step = self._submit("step", _step, alpha, P, R)
        self._states = self._each("sweep", _sweep, self._parts, self._states, common=[step])
        parts = self._each("sums", _sums, range(self.n_parts), self._states)
        sums: Sums = self._total("sums", parts)
        return sums

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        step = self._submit("step", _step, alpha, P, R, G, runner_up)
        assigned = self._each("assign", _assign, self._parts, self._states, common=[step])
        undecided = self._each("undecided", _undecided, range(self.n_parts), assigned)
        kinds: dict[str, Any] = {"labels": np.int32}
        if runner_up:
            kinds |= {"second": np.uint16, "share": np.uint8}
        found = {name: self._array_of(name, assigned, dtype) for name, dtype in kinds.items()}
        return Assignment(n_undecided=self._total("undecided", undecided), **found)

    def _array_of(self, name: str, assigned: list[Future], dtype: Any) -> da.Floats:
        """Return one attribute of all assignments, concatenated on the workers."""
        parts = self._each(name, getattr, assigned, common=[name])
        return da.concatenate(
            [
                da.from_delayed(dask.delayed(future), shape=(size,), dtype=dtype)
                for future, size in zip(parts, self._sizes, strict=True)
            ]
        )

    @property
    def n_parts(self) -> int:
        return len(self._parts)

    def _each(
        self,
        what: str,
        function: Callable[..., Any],
        *columns: Iterable[Any],
        common: Sequence[Any] = (),
    ) -> list[Any]:
        """Submit a task per part to the worker that holds it, or to another if that one is gone."""
        futures = []
        for i, given in enumerate(zip(*columns, strict=True)):
            home = {"workers": self._homes[i], "allow_other_workers": True} if self._homes else {}
            futures.append(self._submit(what, function, *given, *common, **home))
        return futures

    def _submit(self, what: str, function: Callable[..., Any], *given: Any, **how: Any) -> Future:
        key = f"omcal-{what}-{next(self._count):06d}-{self._name}"
        return self._client.submit(function, *given, key=key, **how)

    def _total(self, what: str, futures: list[Future]) -> Any:
        found = tree_sum(self._client, futures, f"omcal-add-{what}")
        self._homes = found.homes
        return found.value


@dataclass(frozen=True)
class Located:
    """A sum over parts, and the workers that held them."""

    value: Any
    homes: dict[int, str]

    def __add__(self, other: Located) -> Located:
        return Located(self.value + other.value, self.homes | other.homes)


def tree_sum(client: Client, futures: Sequence[Future], name: str) -> Any:
    """Return the sum of results in their order; the workers do all but the last additions."""
    level = list(futures)
    token = uuid.uuid4().hex
    for depth in itertools.count():
        if len(level) <= _FAN_IN:
            break
        level = [
            client.submit(_sum, level[i : i + _FAN_IN], key=f"{name}-{depth}-{i}-{token}")
            for i in range(0, len(level), _FAN_IN)
        ]
    with clear_errors(client):
        return _sum(client.gather(level))


@contextmanager
def clear_errors(client: Client) -> Iterator[None]:
    """Turn the loss of the scheduler or of workers into a ConnectionError with a remedy."""
    try:
        yield
    except (CancelledError, distributed.comm.CommClosedError, distributed.TimeoutError) as error:
        raise ConnectionError(
            f"the Dask scheduler at {client.scheduler.address if client.scheduler else '?'} was "
            "lost, or the work was cancelled there; connect to a new cluster and fit again (with "
            "checkpoint= the fit goes on where it was)."
        ) from error
    except KilledWorker as error:
        raise RuntimeError(
            f"{error}. One worker after another died at the same rows: most likely they are too "
            "many for the memory of a worker; use smaller chunks of rows, or larger workers."
        ) from error


def _step(*step: Any) -> tuple[Any, ...]:
    return step


def _gram(i: int, part: Part) -> Located:
    return Located(part.rows().gram(), {i: get_worker().address})


def _sweep(part: Part, state: State | None, step: Any) -> State:
    """Return the new F and its sums; the old F stays unchanged, as it may be needed again."""
    rows = part.rows(None if state is None else state[0].copy())
    sums = rows.sweep(*step)
    return rows.F, sums


def _sums(i: int, state: State) -> Located:
    return Located(state[1], {i: get_worker().address})


def _assign(part: Part, state: State, step: Any) -> Assignment:
    *step, runner_up = step
    rows: AbstractRows = part.rows(state[0].copy())
    return rows.assign(*step, runner_up=runner_up)


def _undecided(i: int, assignment: Assignment) -> Located:
    return Located(assignment.n_undecided, {i: get_worker().address})


def _sum(values: list[Any]) -> Any:
    return reduce(add, values)
