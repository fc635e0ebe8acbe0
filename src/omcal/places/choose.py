"""The choice of the place for given views and options.

A new place is one file in this folder and one line of `PLACES`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from pkgutil import resolve_name
from typing import Any

from omcal.places.base import Place
from omcal.places.team import SOLO, Team
from omcal.views.view import Views

_LEAVE_OUT = "leave one of them out"
_REMEDIES = {
    "memory_limit": "leave memory_limit out; workers and devices have their own memory",
    "scratch_dir": "leave scratch_dir out; it is for rows in files of this machine",
}
_DEVICES = re.compile(r"mps|cuda|cuda:\d+(,cuda:\d+)*")


@dataclass(frozen=True)
class PlaceRequest:
    """The place that a user requests; the views decide if options are open."""

    device: str = "cpu"
    memory_limit: int | None = None  # bytes
    scratch_dir: str | os.PathLike[str] | None = None
    client: Any = None  # of Dask
    group: Any = None  # of torch.distributed

    @property
    def options(self) -> dict[str, str]:
        """Return the options that were given, as written in a call."""
        given = [one.name for one in fields(self) if getattr(self, one.name) is not None]
        texts = {name: name for name in given} | {"device": f"device={self.device!r}"}
        return {name: text for name, text in texts.items() if text != "device='cpu'"}


def _on_devices(views: Views, asked: PlaceRequest) -> str | None:
    if _DEVICES.fullmatch(asked.device):
        if views.home == "cluster":
            raise ValueError(
                f"device={asked.device!r} cannot be combined with views in Dask; {_LEAVE_OUT}."
            )
        return f"device={asked.device!r}"
    is_tensor = asked.device == "cpu" and views.home == "device"
    return "tensors, which are worked on where they are" if is_tensor else None


def _on_cluster(views: Views, asked: PlaceRequest) -> str | None:
    if asked.device != "cpu" or (asked.client is None and views.home != "cluster"):
        return None
    return "views in Dask" if asked.client is None else "client"


def _on_disk(views: Views, asked: PlaceRequest) -> str | None:
    if asked.device != "cpu" or (asked.memory_limit is None and views.home != "disk"):
        return None
    return "views in files" if views.home == "disk" else "memory_limit"


def _in_memory(views: Views, asked: PlaceRequest) -> str | None:
    return "views in memory" if asked.device == "cpu" else None


# In order of priority: a function that returns why a place serves the views and the request (None:
# it does not), and the class. Classes are given by name, because their modules need libraries that
# may not be installed.
PLACES: list[tuple[Callable[[Views, PlaceRequest], str | None], str | type[Place]]] = [
    (_on_devices, "omcal.places.gpu.place:OnDevices"),
    (_on_cluster, "omcal.places.cluster:OnCluster"),
    (_on_disk, "omcal.places.disk:OnDisk"),
    (_in_memory, "omcal.places.memory:InMemory"),
]


def place_for(views: Views, asked: PlaceRequest, team: Team = SOLO) -> Place:
    """Return the place for the views; refuse options that it does not support.

    With a group, the place of the rows of this rank becomes part of the place of all ranks.
    """
    if asked.group is None:
        return _own_place(views, asked)
    if asked.client is not None:
        raise ValueError(f"client cannot be combined with group; {_LEAVE_OUT}.")
    if views.home == "cluster":
        raise ValueError(
            "group cannot be combined with views in Dask; pass rows of this rank, or omit group."
        )
    from omcal.places.collective import OnRanks

    return OnRanks(_own_place(views, replace(asked, group=None)), team)


def _own_place(views: Views, asked: PlaceRequest) -> Place:
    for serves, kind in PLACES:
        reason = serves(views, asked)
        if reason is None:
            continue
        found: type[Place] = resolve_name(kind) if isinstance(kind, str) else kind
        for name, text in asked.options.items():
            if name not in found.supported_options:
                remedy = _REMEDIES.get(name, _LEAVE_OUT)
                raise ValueError(f"{text} cannot be combined with {reason}; {remedy}.")
        return found(views, asked)
    raise ValueError(
        f"device={asked.device!r} is not known; use 'cpu', 'cuda', 'cuda:1' (the second GPU), "
        "'cuda:0,cuda:1' (both) or 'mps'."
    )
