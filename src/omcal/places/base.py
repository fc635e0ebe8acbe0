"""Where the rows of a fit live: what every place offers, and the one choice between them."""

from __future__ import annotations

import os
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor, joined_graph
from omcal.method.rows import AbstractRows, Assignment, row_bytes
from omcal.method.settings import GraphSettings
from omcal.places.data_scan import BlockStats, DataScan, scan
from omcal.views.view import Views, check_finite

OutputKind = Literal["labels", "indicator"]
Result = TypeVar("Result")

_ALONE = "leave one of them out"
_GLIMPSED = 5000  # samples


@dataclass(frozen=True)
class PlaceRequest:
    """Where a user wants the work to be done; what is left open follows the views."""

    device: str = "cpu"
    memory_limit: int | None = None  # bytes
    scratch_dir: str | os.PathLike[str] | None = None
    client: Any = None  # of Dask
    group: Any = None  # of torch.distributed

    def __post_init__(self) -> None:
        if not re.fullmatch(r"cpu|mps|cuda|cuda:\d+(,cuda:\d+)*", self.device):
            raise ValueError(
                f"device={self.device!r} is not known; use 'cpu', 'cuda', 'cuda:1' (the second "
                "GPU), 'cuda:0,cuda:1' (both) or 'mps'."
            )

    @property
    def options(self) -> dict[str, str]:
        """What was asked for, as it is written in a call."""
        given = {
            "device": None if self.device == "cpu" else f"device={self.device!r}",
            "memory_limit": None if self.memory_limit is None else "memory_limit",
            "scratch_dir": None if self.scratch_dir is None else "scratch_dir",
            "client": None if self.client is None else "client",
            "group": None if self.group is None else "group",
        }
        return {name: text for name, text in given.items() if text is not None}


class Place(ABC):
    """Where the rows of some views live and are worked on.

    A fit asks for what is learnt of the views (scalings and anchors), then for rows made with it;
    several draws of anchors share the scalings, and as far as it can be one look at the views.

    Other processes may hold further rows of the same fit. `check_same`, `once` and `total` are
    collective operations of these processes; a single process does them by itself.
    """

    supported_options: ClassVar[
        frozenset[str]
    ]  # the options of `PlaceRequest` that mean something here
    checks_values: ClassVar[bool] = False  # whether NaN and infinity in memory are seen on the way

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        self.views = views
        self.asked = asked

    @abstractmethod
    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        """Scalings, and the anchors that each of the random states draws."""

    @abstractmethod
    def build(
        self, learned: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        """Rows made with each of these, one after another: the last must not be needed any more.

        But for those that are worked on `together`, which may be made at once.
        """

    @abstractmethod
    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        """Labels, or F, of the samples by a rule that was fitted before; in `out` if given."""

    def together(self, settings: GraphSettings) -> int:
        """Of how many runs the next iterations are best done at the same time."""
        return 1

    @property
    def n(self) -> int:
        """Number of samples of the fit, wherever they are."""
        return self.views.n

    @property
    def is_leader(self) -> bool:
        """Whether this process writes what is written once for all."""
        return True

    def check_same(self, facts: Mapping[str, str]) -> None:
        """Before any work: refuse others that are to hold rows, but say something else."""
        return

    def once(self, work: Callable[[], Result]) -> Result:
        """What `work` gives, where it is done once for all."""
        return work()

    def total(self, counts: Array) -> Array:
        """The sum of these over all who hold rows."""
        return counts

    def load(self, parts: list[slice]) -> list[Views]:
        """Blocks of rows in memory."""
        return [self.views.load(part) for part in parts]

    def scan_rows(self, scan_plan: DataScan, first: int = 0) -> BlockStats:
        """What the scan_plan is to see in these rows, which begin at number `first` of all."""
        rows = slice(first, first + self.views.n)
        return scan(self.views, first, scan_plan.sampled(rows), scan_plan.shared)

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        """Rows of the graph between the samples and the clusters of these runs."""
        from omcal.places.memory import MemoryRows

        graphs = joined_graph(runs, n_clusters)
        return MemoryRows(graphs, n_clusters, compiled=compiled_pays(graphs.n))

    def keeps(self, settings: GraphSettings, n_runs: int = 1) -> bool:
        """Whether the graphs of so many runs may stay, all of them in memory."""
        return False

    def kept(self, rows: AbstractRows) -> AnchorGraphs | None:
        """The graphs of these rows, where they are to stay with a model."""
        return None

    def sample_graphs(self, number: int) -> AnchorGraphs | None:
        """Return the graphs of the rows in `sample_rows`, of one of the runs built last.

        None where this place does not give them.
        """
        return None

    def require_room(self, n_bytes: float, what: str) -> None:
        """Refuse work that needs more memory than there is, where that can be known."""
        return

    def bytes_per_row(self, settings: GraphSettings) -> int:
        """Bytes that a sample takes beside its features: graphs, row of F, label."""
        s = settings
        size = (len(self.views), s.n_neighbors, s.n_clusters, s.n_anchors, self.views.dtype)
        return sum(row_bytes(*size, compiled=self.compiled).values())

    @property
    def compiled(self) -> bool:
        """Whether compiled loops pay for these rows, and are there."""
        return compiled_pays(self.views.n)


def place_for(views: Views, asked: PlaceRequest) -> Place:
    """The place for these views and wishes; wishes that mean nothing there are refused."""
    chosen, why = _choose(views, asked)
    for name, text in asked.options.items():
        if name not in chosen.supported_options:
            raise ValueError(f"{text} does not go with {why}; {_REMEDIES.get(name, _ALONE)}.")
    if not chosen.checks_values:
        for view in views:
            if view.home == "memory":
                check_finite(view)
    return chosen(views, asked)


_REMEDIES = {
    "memory_limit": "leave memory_limit out; the memory of workers and devices is their own",
    "scratch_dir": "leave scratch_dir out; it is for rows in files of this machine",
}


def _choose(views: Views, asked: PlaceRequest) -> tuple[type[Place], str]:
    """The class of the place, and the reason in words."""
    # Each is loaded only where it is used: they need other libraries.
    if asked.group is not None:
        from omcal.places.collective import OnRanks

        return OnRanks, "group"
    if asked.device != "cpu" or views.home == "device":
        from omcal.places.gpu.place import OnDevices

        if views.home == "cluster":
            raise ValueError(f"device={asked.device!r} does not go with views in Dask; {_ALONE}.")
        wish = asked.options.get("device")
        return OnDevices, wish or "tensors, which are worked on where they are"
    if asked.client is not None or views.home == "cluster":
        from omcal.places.cluster import OnCluster

        return OnCluster, "client" if asked.client is not None else "views in Dask"
    if asked.memory_limit is not None or views.home == "disk":
        from omcal.places.disk import OnDisk

        return OnDisk, "views in files" if views.home == "disk" else "memory_limit"
    from omcal.places.memory import InMemory

    return InMemory, "views in memory"


def sample_rows(n: int) -> Array:
    """Numbers of samples that stand for all n of them, spread evenly."""
    return np.linspace(0, n - 1, min(n, _GLIMPSED)).astype(int)


def require_shape(out: Any, n: int) -> None:
    """Raise where `out` cannot take the labels of n samples."""
    if out is not None and tuple(out.shape) != (n,):
        raise ValueError(f"out has shape {tuple(out.shape)}; X has {n} samples.")


def collect(blocks: Iterable[tuple[Array, Array]], wanted: OutputKind, n: int, out: Any) -> Array:
    """What is wanted of (unclipped indicator, labels) of consecutive blocks, as one array."""
    if wanted == "indicator":
        return np.concatenate([np.maximum(U, 0) for U, _ in blocks])
    labels = np.empty(n, dtype=np.int32) if out is None else out
    written: Array = write_blocks((labels for _, labels in blocks), labels)
    return written


def write_blocks(blocks: Iterable[Any], out: Any) -> Any:
    """`out`, with the blocks written to its rows one after another."""
    start = 0
    for block in blocks:
        out[start : start + len(block)] = block
        start += len(block)
    return out
