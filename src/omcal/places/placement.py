"""From views to rows: scale, choose anchors, build the graphs, and decide where the rows live."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine.compiled import compiled_pays
from omcal.method.anchors import choose_anchors
from omcal.method.graph import AnchorGraphs, anchor_graphs
from omcal.method.rows import AbstractRows
from omcal.method.scaling import Scale, Scaling
from omcal.places.memory import MemoryRows
from omcal.views.view import Views

# Graphs up to this size stay with a fitted model, so that it can be described without its data:
# those of a million samples in five views. Larger ones would fill the memory unnoticed.
LARGEST_KEPT = 1 << 28


@dataclass(frozen=True)
class GraphSettings:
    """What the anchor graphs are made with."""

    n_clusters: int
    n_anchors: int
    n_neighbors: int
    scale: Scale
    anchors: Any  # how to choose them, or one (m, d_v) array a view


@dataclass(frozen=True)
class Placed:
    """Rows ready for the solver, and what new samples need to be treated the same way."""

    rows: AbstractRows
    scalings: list[Scaling]
    anchors: list[NDArray]
    kept: AnchorGraphs | None = None  # the graphs, where they are to stay with the model


@dataclass(frozen=True)
class Room:
    """Where there is room for the rows, and how much of it."""

    memory_limit: int | None = None  # bytes
    scratch_dir: str | os.PathLike[str] | None = None
    client: Any = None  # of Dask

    def holds_all(self, views: Views) -> bool:
        """Whether views and rows are to be in the memory of this process without a limit."""
        lazy = views.stored or views.distributed
        return not lazy and self.memory_limit is None and self.client is None


def place_in_memory(
    views: Views, settings: GraphSettings, random_state: np.random.RandomState
) -> Placed:
    """Rows in the memory of this machine; nothing of the size of the views is copied."""
    scalings = [Scaling.fit(view, settings.scale) for view in views]
    anchors = resolve_anchors(views, scalings, settings, random_state)
    compiled = compiled_pays(views.n)
    graphs = anchor_graphs(views, scalings, anchors, settings.n_neighbors, compiled=compiled)
    rows = MemoryRows(graphs, settings.n_clusters, compiled=compiled)
    return Placed(rows, scalings, anchors, graphs if graphs.nbytes <= LARGEST_KEPT else None)


def resolve_anchors(
    views: Views,
    scalings: list[Scaling],
    settings: GraphSettings,
    random_state: np.random.RandomState,
) -> list[NDArray]:
    """Anchors chosen as the settings say, or the given ones, checked."""
    m = settings.n_anchors
    if isinstance(settings.anchors, str):
        return choose_anchors(views, scalings, m, settings.anchors, random_state)
    return check_anchors(settings.anchors, m, views.widths)


def check_anchors(anchors: Any, n_anchors: int, widths: tuple[int, ...]) -> list[NDArray]:
    """Anchors given by the user: one finite (m, d_v) array a view."""
    if isinstance(anchors, np.ndarray) and anchors.ndim == 2:
        anchors = [anchors]
    if len(anchors) != len(widths):
        raise ValueError(
            f"anchors has {len(anchors)} arrays for {len(widths)} views; give one array a view."
        )
    given = [np.asarray(a) for a in anchors]
    if any(a.dtype.kind not in "biuf" for a in given):
        raise ValueError(f"anchors must be numbers; they are {[str(a.dtype) for a in given]}.")
    expected = [(n_anchors, width) for width in widths]
    if [a.shape for a in given] != expected:
        raise ValueError(
            f"anchors have shapes {[a.shape for a in given]} but {expected} are needed: one "
            "(n_anchors, n_features) array a view, in the scaled space; "
            "set n_anchors to their number."
        )
    if not all(np.isfinite(a).all() for a in given):
        raise ValueError("anchors contain NaN or infinity; give finite points.")
    return [np.array(a, dtype=np.float64) for a in given]
