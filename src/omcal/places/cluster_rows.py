"""Rows on the workers of a Dask cluster."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, reduce
from operator import add, attrgetter, itemgetter
from types import MappingProxyType
from typing import Any

import dask
import dask.array as da
import distributed
import numpy as np
from dask.sizeof import sizeof
from distributed import CancelledError, Client, Future, get_worker
from distributed.scheduler import KilledWorker

from omcal.machine.arrays import Floats
from omcal.method.graph import AnchorGraphs
from omcal.method.rows import AbstractRows, Assignment, Sums

_FAN_IN = 8  # results per addition on a worker

State = tuple[Any, Sums]  # F, and sums over F


@sizeof.register(AnchorGraphs)  # type: ignore[untyped-decorator]
def _size_of_graphs(graphs: AnchorGraphs) -> int:
    return graphs.nbytes


class ClusterRows(AbstractRows):
    """Parts that stay on the workers; an iteration sends one step and returns one sum.

    The F of a part is the result of a task whose input is the part and its previous F; it never
    changes afterwards. So the scheduler knows the origin of each F: if a worker dies, the scheduler
    computes the part from the data and F by the same steps again.

    Parameters
    ----------
    client : distributed.Client
    parts : sequence of futures of AnchorGraphs
        In the order of rows.
    sizes : sequence of int
        Number of rows of each.
    make : callable
        Function of the graphs of a part and its F (None: zero) that returns rows; it may change F.
    """

    def __init__(
        self,
        client: Client,
        parts: Sequence[Future],
        sizes: Sequence[int],
        make: Callable[..., Any],
    ) -> None:
        self._client, self._make = client, make
        self._parts, self._sizes = list(parts), list(sizes)
        self._states: list[Future | None] = [None] * len(self._parts)
        self._homes: dict[int, str] = {}

    def gram(self) -> Floats:
        return np.asarray(self._total("gram", self._parts, partial(_gram, self._make)))

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        step = submit_each(self._client, "step", tuple, [(alpha, P, R)])
        common = [*step, self._make]
        self._states = self._each("sweep", _sweep, self._parts, self._states, common=common)
        sums: Sums = self._total("sums", self._states, itemgetter(1))
        return sums

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        step = submit_each(self._client, "step", tuple, [(alpha, P, R, G)])
        common = [*step, self._make, runner_up]
        assigned = self._each("assign", _assign, self._parts, self._states, common=common)
        kinds: dict[str, Any] = {"labels": np.int32}
        if runner_up:
            kinds |= {"second": np.uint16, "share": np.uint8}
        found = {name: self._array_of(name, assigned, dtype) for name, dtype in kinds.items()}
        n_undecided = self._total("undecided", assigned, attrgetter("n_undecided"))
        return Assignment(n_undecided=n_undecided, **found)

    def _array_of(self, name: str, assigned: list[Future], dtype: Any) -> da.Floats:
        """Return one attribute of all assignments, concatenated on the workers."""
        parts = self._each(name, getattr, assigned, common=[name])
        return da.concatenate(
            [
                da.from_delayed(dask.delayed(future), shape=(size,), dtype=dtype)
                for future, size in zip(parts, self._sizes, strict=True)
            ]
        )

    def _each(
        self,
        name: str,
        function: Callable[..., Any],
        *columns: Iterable[Any],
        common: Sequence[Any] = (),
    ) -> list[Any]:
        """Submit a task per part to the worker that holds it, or to another if that has died."""
        return submit_each(self._client, name, function, *columns, common=common, homes=self._homes)

    def _total(self, name: str, futures: Sequence[Any], take: Callable[[Any], Any]) -> Any:
        """Return the sum of take(result) over the parts, and note the workers that hold them."""
        located = self._each(name, _located, range(len(futures)), futures, common=[take])
        found = tree_sum(self._client, located, name)
        self._homes = found.homes
        return found.value


@dataclass(frozen=True)
class Located:
    """A sum over parts, and the workers that hold them."""

    value: Any
    homes: dict[int, str]

    def __add__(self, other: Located) -> Located:
        return Located(self.value + other.value, self.homes | other.homes)


def submit_each(
    client: Client,
    name: str,
    function: Callable[..., Any],
    *columns: Iterable[Any],
    common: Sequence[Any] = (),
    homes: Mapping[int, str] = MappingProxyType({}),
) -> list[Any]:
    """Submit function(*entries, *common) for the entries of the columns; one task without columns.

    `homes` has the workers on which task i should run, if they still exist.
    """
    token, futures = uuid.uuid4().hex, []
    for i, given in enumerate(zip(*columns, strict=True) if columns else [()]):
        home = {"workers": homes[i], "allow_other_workers": True} if i in homes else {}
        key = f"omcal-{name}-{i:06d}-{token}"
        futures.append(client.submit(function, *given, *common, key=key, **home))
    return futures


def tree_sum(client: Client, futures: Sequence[Future], name: str) -> Any:
    """Return the sum of results in order; the workers do all but the last additions."""
    level = list(futures)
    while len(level) > _FAN_IN:
        groups = [level[i : i + _FAN_IN] for i in range(0, len(level), _FAN_IN)]
        level = submit_each(client, f"add-{name}", _sum, groups)
    with clear_errors(client):
        return _sum(client.gather(level))


@contextmanager
def clear_errors(client: Client) -> Iterator[None]:
    """Convert the loss of the scheduler or of workers to an error with a remedy."""
    try:
        yield
    except (CancelledError, distributed.comm.CommClosedError, distributed.TimeoutError) as error:
        raise ConnectionError(
            f"the Dask scheduler at {client.scheduler.address if client.scheduler else '?'} was "
            "lost, or the work was cancelled there; connect to a new cluster and fit again (with "
            "checkpoint= the fit continues from its checkpoint)."
        ) from error
    except KilledWorker as error:
        raise RuntimeError(
            f"{error}. One worker after another died at the same rows: most likely they are too "
            "many for the memory of a worker; use smaller chunks of rows, or larger workers."
        ) from error


def _gram(make: Callable[..., Any], graphs: AnchorGraphs) -> Floats:
    found: Floats = make(graphs).gram()
    return found


def _sweep(graphs: AnchorGraphs, state: State | None, step: Any, make: Callable[..., Any]) -> State:
    """Return the new F and its sums; the old F stays unchanged, as it may be needed again."""
    rows = make(graphs, F=None if state is None else state[0].copy())
    sums = rows.sweep(*step)
    return rows.F, sums


def _assign(
    graphs: AnchorGraphs, state: State, step: Any, make: Callable[..., Any], runner_up: bool
) -> Assignment:
    rows: AbstractRows = make(graphs, F=state[0].copy())
    return rows.assign(*step, runner_up=runner_up)


def _located(i: int, result: Any, take: Callable[[Any], Any]) -> Located:
    return Located(take(result), {i: get_worker().address})


def _sum(values: list[Any]) -> Any:
    return reduce(add, values)
