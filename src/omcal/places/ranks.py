"""A team whose processes are the ranks of a group of torch.distributed."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array, Floats
from omcal.places.team import Team

Result = TypeVar("Result")

# An error on one rank is raised on all of them, as an error of the same kind.
_KINDS = (ValueError, TypeError, MemoryError, OSError, ImportError, RuntimeError)
_NAMED = 3  # most ranks to list in a message


@dataclass(frozen=True)
class Failure:
    """An error of one rank, in a form that can be sent to the others."""

    kind: type[Exception]
    text: str

    @classmethod
    def of(cls, error: Exception) -> Failure:
        kind = next((kind for kind in _KINDS if isinstance(error, kind)), None)
        text = " ".join(str(error).split()) or type(error).__name__
        return cls(kind or RuntimeError, text if kind else f"{type(error).__name__}: {text}")


class Ranks(Team):
    """The ranks of a group; all of them call the same methods in the same order.

    Methods take a function that every rank, or one rank, calls. If it fails on one rank, all ranks
    raise an error that names this rank.

    Parameters
    ----------
    group : str or torch.distributed.ProcessGroup
        "world" is the default group.
    """

    def __init__(self, group: Any) -> None:
        self._dist = torch.distributed
        self._group = _find_group(group)
        self.rank: int = self._dist.get_rank(self._group)
        self.size: int = self._dist.get_world_size(self._group)
        self.leader = 0  # the rank that does the work of `on_leader`
        self.sizes: list[int] = []  # rows of each rank, known after `check_same`
        self.wants_stop = self.stops = False
        if self.rank < 0:
            raise ValueError(
                f"group={group!r} does not contain this process; call fit on its members only."
            )
        # NCCL cannot send from host memory; a group with both backends can.
        on_host = self._dist.get_backend_config(self._group) not in ("nccl", "cuda:nccl")
        self._device = "cpu" if on_host else torch.device("cuda", torch.cuda.current_device())

    @property
    def is_leader(self) -> bool:  # type: ignore[override]
        return self.rank == self.leader

    def check_same(self, facts: Mapping[str, str], n_rows: int, least: int = 2) -> int:
        """Raise if ranks have different facts; the first rank with rows becomes the leader."""
        stated = {"the version of PyTorch": torch.version.__version__, **facts}
        met = self.each(lambda: (n_rows, stated))
        self.sizes = [size for size, _ in met]
        _require_same([said for _, said in met])
        n = sum(self.sizes)
        if n < least:
            raise ValueError(f"Found {n} sample(s) while a minimum of {least} is required.")
        self.leader = next(rank for rank, size in enumerate(self.sizes) if size)
        return n

    @property
    def first_row(self) -> int:
        """Return the number of this rank's first row among the rows of all ranks."""
        return sum(self.sizes[: self.rank])

    def any_stops(self, stop: bool) -> bool:
        """Whether some rank wanted to stop before the last sweep.

        The request of this rank is sent with the next sweep, so that no extra message is needed.
        """
        self.wants_stop |= stop
        return self.stops

    def total(self, counts: Array) -> Array:
        summed: Array = self.sum(lambda: counts, counts.shape).astype(counts.dtype)
        return summed

    @contextmanager
    def reporting_failures(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            self._exchanged(None, error)

    def each(self, work: Callable[[], Result]) -> list[Result]:
        """Return the result of each rank's work on all ranks; keep it small."""
        return self._exchanged(*_done(work))

    def _exchanged(self, value: Any, error: Exception | None) -> list[Any]:
        """Return the value of each rank on all ranks, or raise the errors of ranks that failed."""
        found: list[Any] = [None] * self.size
        with self._explaining():
            told = value if error is None else Failure.of(error)
            self._dist.all_gather_object(found, told, group=self._group)
        _raise_failures(dict(enumerate(found)), error)
        return found

    def collected(self, work: Callable[[], Result]) -> list[Result]:
        """Return the result of each rank's work on the leader; an empty list on the others."""
        value, error = _done(work)
        self._exchanged(None, error)
        found: list[Any] = [None] * self.size
        with self._explaining():
            place = found if self.is_leader else None
            self._dist.gather_object(value, place, self._number(self.leader), self._group)
        return found if self.is_leader else []

    def on_leader(self, work: Callable[[], Result]) -> Result:
        value, error = _done(work) if self.is_leader else (None, None)
        told: list[Any] = [value if error is None else Failure.of(error)]
        with self._explaining():
            self._dist.broadcast_object_list(told, self._number(self.leader), self._group)
        _raise_failures({self.leader: told[0]}, error)
        result: Result = told[0]
        return result

    def sum(self, work: Callable[[], Array], shape: tuple[int, ...]) -> Floats:
        """Return the sum of the results of the ranks in float64, with the same bits on all ranks.

        It takes one message, and a second one only if the work fails on a rank.
        """
        value, error = _done(work)
        vector = np.zeros(1 + math.prod(shape))
        if error is None:
            vector[1:] = np.ravel(value)
        else:
            vector[0] = 1.0
        tensor = torch.from_numpy(vector).to(self._device)
        with self._explaining():
            self._dist.all_reduce(tensor, group=self._group)
        summed: Floats = tensor.cpu().numpy()
        if summed[0]:
            self._exchanged(None, error)
        return summed[1:].reshape(shape)

    def _number(self, rank: int) -> int:
        """Return the global number of a rank of this group."""
        return int(self._dist.get_global_rank(self._group, rank))

    @contextmanager
    def _explaining(self) -> Iterator[None]:
        """Convert a lost connection or a time-out of torch.distributed to a ConnectionError."""
        try:
            yield
        except RuntimeError as error:
            reason = str(error).strip().partition("\n")[0][:200]
            raise ConnectionError(
                f"rank {self.rank} of {self.size} has lost the other ranks: one of them has ended, "
                "and its own message says why, or did not come within the time-out of the group "
                f"({reason}); start all of them again (with checkpoint= the fit continues from "
                "it)."
            ) from error


def start_group() -> None:
    """Create the default gloo group of the processes that torchrun has started, or restarted.

    `torch.distributed.init_process_group` may give a restarted process an old address.
    """
    dist = torch.distributed
    store, rank, size = next(dist.rendezvous("env://"))
    attempt = os.environ.get("TORCHELASTIC_RESTART_COUNT", "0")
    store = dist.PrefixStore(f"omcal-{attempt}", store)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=size)


def _find_group(group: Any) -> Any:
    dist = torch.distributed
    if not (dist.is_available() and dist.is_initialized()):
        raise ValueError(
            f"group={group!r}: this process belongs to no group; start the program with torchrun "
            "and call torch.distributed.init_process_group() first."
        )
    if not isinstance(group, str):
        return group
    if group == "world":
        return dist.group.WORLD
    try:
        return dist.distributed_c10d._resolve_process_group(group)
    except (AttributeError, RuntimeError) as error:
        raise ValueError(
            f"group={group!r} is not known here; give 'world', or a group that "
            "torch.distributed.new_group() returned."
        ) from error


def _done(work: Callable[[], Result]) -> tuple[Any, Exception | None]:
    """Return the result of the work, or its error."""
    try:
        return work(), None
    except Exception as error:
        return None, error


def _raise_failures(found: Mapping[int, Any], own: Exception | None) -> None:
    """Raise if some rank has failed; `own` is the error of this rank."""
    failures = {rank: one for rank, one in found.items() if isinstance(one, Failure)}
    if not failures:
        return
    listed = [f"rank {rank}: {one.text}" for rank, one in list(failures.items())[:_NAMED]]
    if len(failures) > _NAMED:
        listed.append(f"and {len(failures) - _NAMED} more ranks")
    first = next(iter(failures.values()))
    raise first.kind("; ".join(listed)) from own


def _require_same(said: Sequence[Mapping[str, str]]) -> None:
    """Raise if ranks differ in a fact that several of them have."""
    differing = []
    for name in dict.fromkeys(name for facts in said for name in facts):
        stated = {rank: facts[name] for rank, facts in enumerate(said) if name in facts}
        first = next(iter(stated))
        other = next((rank for rank in stated if stated[rank] != stated[first]), None)
        if other is not None:
            differing.append(
                f"{name} (rank {first}: {stated[first]:.80}; rank {other}: {stated[other]:.80})"
            )
    if differing:
        raise ValueError(
            f"the ranks of the group differ in {', in '.join(differing):.900}; give all of them "
            "the same."
        )
