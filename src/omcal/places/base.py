"""The interface between a fit and the place of its rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.machine.compiled import compiled_pays
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor
from omcal.method.rows import AbstractRows, Assignment, row_bytes
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, Progress, Solution, solve
from omcal.places.data_scan import BlockStats, DataScan, scan
from omcal.places.team import SOLO, Team
from omcal.views.view import Views

if TYPE_CHECKING:
    from omcal.places.choose import PlaceRequest

OutputKind = Literal["labels", "indicator", "graphs"]

_SAMPLE_ROWS = 5000


class Start(NamedTuple):
    """The arguments of `solve`: one run of Algorithm 1 from one basis."""

    rows: AbstractRows
    StS: Floats
    G: Floats
    problem: Problem
    progress: Progress


@dataclass(frozen=True)
class SampledGraphs:
    """Graphs that describe a model; all models of the same graphs share this object."""

    graphs: AnchorGraphs
    rows: Array | None = None  # row numbers; None: all samples
    # Clusters of single views that diagnostics have computed.
    alone: dict[int, Array] = field(default_factory=dict)


class Place(ABC):
    """Storage and processing of the rows of some views.

    A fit first learns a graph model (scalings and anchors), then builds rows with it. Several runs
    share the scalings and, if possible, one pass over the views. `learn` and `apply` refuse NaN
    and infinity, like the functions for views in memory.
    """

    supported_options: ClassVar[frozenset[str]]  # supported options of `PlaceRequest`
    runs_in_threads: ClassVar[bool] = False  # whether threads can solve several runs at once
    team: Team = SOLO  # the processes that share the fit
    scanned: Views | None = None  # samples that a scan has kept in memory

    def __init__(self, views: Views, asked: PlaceRequest) -> None:
        self.views = views
        self.asked = asked
        self.n = views.n  # samples of the fit, on all processes

    @abstractmethod
    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        """Return the scalings with the anchors that each random state draws."""

    @abstractmethod
    def build(
        self, models: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        """Yield the rows of each graph model.

        Release the rows of a run before the next. Rows of one `batch` may be built together.
        """

    @abstractmethod
    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        """Return the rows of the graph between the samples and the clusters of the runs."""

    @abstractmethod
    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        """Return labels or F of the samples by a fitted predictor; write to `out` if given.

        Graphs, of a run and in the memory of the host, are asked for where a device was requested.
        """

    def batch(self, settings: GraphSettings) -> int:
        """Return the number of runs to solve as one batch."""
        return 1

    def solve(self, starts: Sequence[Start]) -> list[Solution]:
        """Run Algorithm 1 from each start of a batch, by default one after another."""
        return [solve(*start) for start in starts]

    def sample_graphs(self, number: int) -> SampledGraphs | None:
        """Return graphs that describe one of the runs built last; None if there are none."""
        return None

    def require_room(self, n_bytes: float, what: str) -> None:
        """Raise MemoryError if the work needs more memory than this place has."""
        return

    def scan_rows(self, data_scan: DataScan, first: int = 0) -> BlockStats:
        """Scan the rows of this place; `first` is the number of the first among all rows."""
        sampled = data_scan.sampled(slice(first, first + self.views.n))
        rows = slice(0, self.views.n)
        return scan(self.views, rows, sampled, first=first, plans=data_scan.shared)


def bytes_per_row(views: Views, settings: GraphSettings, *, compiled: bool | None = None) -> int:
    """Return the bytes per sample without its features: graphs, row of F, label."""
    s = settings
    compiled = compiled_pays(views.n) if compiled is None else compiled
    size = (len(views), s.n_neighbors, s.n_clusters, s.n_anchors, views.dtype)
    return sum(row_bytes(*size, compiled=compiled).values())


def sample_rows(n: int, most: int = _SAMPLE_ROWS) -> Array:
    """Return the numbers of at most `most` samples, spread evenly over all n."""
    return np.linspace(0, n - 1, min(n, most)).astype(int)


def require_room(out: Any, n: int, labels: tuple[int, ...]) -> None:
    """Raise an error if `out` cannot hold n of these labels: NumPy would silently write others."""
    if tuple(out.shape) != (n,):
        raise ValueError(f"out has shape {tuple(out.shape)}; X has {n} samples.")
    if isinstance(out.dtype, np.dtype) and any(np.array(labels).astype(out.dtype) != labels):
        raise ValueError(
            f"out has the dtype {out.dtype}, which does not hold all of the labels "
            f"{min(labels)} to {max(labels)}; give an array of int32."
        )


def collect(blocks: Iterable[tuple[Array, Array]], wanted: OutputKind, n: int, out: Any) -> Array:
    """Return F or labels as one array, from (unclipped indicator, labels) of each block."""
    if wanted == "indicator":
        return np.concatenate([np.maximum(U, 0) for U, _ in blocks])
    found: Array = np.empty(n, dtype=np.int32) if out is None else out
    start = 0
    for _, labels in blocks:
        found[start : start + len(labels)] = labels
        start += len(labels)
    return found
