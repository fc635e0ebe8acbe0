"""The fitted state that new samples need: how they get graphs and rows of F."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine.arrays import Array, Floats, Mask
from omcal.machine.compiled import compiled_pays
from omcal.machine.compiled import fixed_point as compiled_fixed_point
from omcal.machine.threads import map_blocks, row_blocks
from omcal.method.anchors import SAMPLE_PER_ANCHOR, anchors_of_runs
from omcal.method.graph import AnchorGraphs, anchor_graphs, graphs_in_span
from omcal.method.rows import Assignment, decide, second
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.span import InSpan, anchors_in_span, own_rows
from omcal.method.updates import (
    MAX_SWEEPS,
    ConsensusGraph,
    fixed_point,
    fixed_point_tol,
    stack_by_view,
)
from omcal.views.view import Views

BLOCK = 1 << 16  # new samples at a time
_SETTLED = 4096  # new samples per block of the fixed point, which stays in the cache


@dataclass(frozen=True)
class GraphModel:
    """The state that turns samples into graphs; its size does not depend on n."""

    scalings: list[Scaling]
    anchors: list[Array]
    n_neighbors: int
    # The span shared with the anchors of other runs, or anchors on a device.
    shared_span: Any = None

    @property
    def alone(self) -> GraphModel:
        """Return the model without the data that several runs share."""
        return replace(self, shared_span=None)

    @cached_property
    def uninformative(self) -> Mask:
        """Return a mask of the views whose anchors coincide: they cannot tell samples apart."""
        return np.array([_in_one_point(A) for A in self.anchors])

    def graphs(
        self, views: Views, rows: slice = slice(None), *, compiled: bool = False
    ) -> AnchorGraphs:
        """Return the graphs of the samples."""
        return anchor_graphs(
            views, self.scalings, self.anchors, self.n_neighbors, rows, compiled=compiled
        )


def _in_one_point(A: Array) -> bool:
    """Whether all rows are equal up to rounding; usually two rows decide."""
    size = np.abs(A[0]).max(initial=0.0)
    away = (np.abs(row - A[0]).max(initial=0.0) for row in A)
    return all(distance <= 1e-12 * (size + distance) for distance in away)


def graphs_of_runs(
    views: Views, learned: Sequence[GraphModel], *, compiled: bool = False
) -> Iterator[AnchorGraphs]:
    """Yield the graphs of several runs, from one product with the rows if they share a span."""
    shared = [one.shared_span for one in learned if isinstance(one.shared_span, InSpan)]
    if (
        len(shared) < max(len(learned), 2)
        or len({id(shared_span.span) for shared_span in shared}) > 1
    ):
        for one in learned:
            yield one.graphs(views, compiled=compiled)
        return
    first, coordinates = learned[0], [shared_span.coordinates for shared_span in shared]
    given = (views, first.scalings, shared[0].span, coordinates, first.n_neighbors)
    made = graphs_in_span(*given, compiled=compiled)
    while made:
        yield made.pop(0)


def learned_in_span(
    views: Views,
    scalings: list[Scaling],
    settings: GraphSettings,
    random_states: Sequence[np.random.RandomState],
    rows: Array | None = None,
) -> list[GraphModel]:
    """Return the models of several runs from the rows of `shared_rows`; None: all rows.

    Absent features have no coordinates: if rows have gaps, each run uses all features.
    """
    m, k = settings.n_anchors, settings.n_neighbors
    present = views.present if views.present is None or rows is None else views.present[rows]
    if present is None or present.all():
        found = anchors_in_span(views, scalings, m, random_states, rows)
        return [GraphModel(scalings, anchors, k, shared_span) for anchors, shared_span in found]
    seen, sampled = [rows], len(present) >= SAMPLE_PER_ANCHOR * m
    if len(random_states) > 1:
        own = [own_rows(len(present), m, state) for state in random_states]
        seen, sampled = [one if rows is None else rows[one] for one in own], True
    how = m, "kmeans", random_states, seen
    anchors_of = anchors_of_runs(views, scalings, *how, sampled=sampled)
    return [GraphModel(scalings, anchors, k) for anchors in anchors_of]


class AbstractPredictor(ABC):
    """The state that turns samples into rows of F, with the fitted model unchanged."""

    consensus: ConsensusGraph

    @abstractmethod
    def graphs(
        self, views: Views, rows: slice = slice(None), *, compiled: bool = False
    ) -> AnchorGraphs:
        """Return the graphs of the samples that the consensus graph is made of."""

    @property
    def n_clusters(self) -> int:
        return int(self.consensus.G.shape[1])

    def blocks(self, views: Views) -> Iterator[tuple[Array, Array]]:
        """Yield unclipped indicator and labels of consecutive blocks of samples."""
        compiled = compiled_pays(views.n)
        for rows in row_blocks(views.n, BLOCK):
            graphs = self.graphs(views, rows, compiled=compiled)
            yield indicate(self.consensus, graphs, compiled=compiled)

    def labels(self, views: Views) -> NDArray[np.int32]:
        """Return the cluster of each sample."""
        return np.concatenate([labels for _, labels in self.blocks(views)])

    def indicator(self, views: Views) -> Array:
        """Return F of each sample."""
        return np.concatenate([np.maximum(U, 0) for U, _ in self.blocks(views)])


@dataclass(frozen=True)
class Predictor(AbstractPredictor):
    """The state of one run."""

    learned: GraphModel
    consensus: ConsensusGraph

    def graphs(
        self, views: Views, rows: slice = slice(None), *, compiled: bool = False
    ) -> AnchorGraphs:
        return self.learned.graphs(views, rows, compiled=compiled)


@dataclass(frozen=True)
class ConsensusPredictor(AbstractPredictor):
    """The state of several runs, whose clusters are the anchors of one more graph.

    A sample is tied to two clusters of each run.
    """

    runs: list[Predictor]
    consensus: ConsensusGraph

    def assignments(
        self, views: Views, rows: slice = slice(None), *, compiled: bool = False
    ) -> list[Assignment]:
        """Return label, runner-up and share of each sample in each run."""
        found = (
            indicate(run.consensus, run.graphs(views, rows, compiled=compiled), compiled=compiled)
            for run in self.runs
        )
        return [Assignment(labels, 0, *second(U, labels)) for U, labels in found]

    def graphs(
        self, views: Views, rows: slice = slice(None), *, compiled: bool = False
    ) -> AnchorGraphs:
        return joined_graph(self.assignments(views, rows, compiled=compiled), self.n_clusters)


def joined_graph(runs: Sequence[Assignment], n_clusters: int) -> AnchorGraphs:
    """Return the graph between samples and the clusters of B runs; its rows sum to 1.

    Each run gives 1/B to the label of a sample and to its runner-up, in proportion to the squares
    of their entries in F. Column b c + j is cluster j of run b.

    Examples
    --------
    >>> one = Assignment(np.array([0]), 0, np.array([2]), np.array([204]))
    >>> two = Assignment(np.array([1]), 0, np.array([0]), np.array([255]))
    >>> joined_graph([one, two], 3).side_by_side().toarray().round(3)
    array([[0.4, 0. , 0.1, 0. , 0.5, 0. ]], dtype=float32)
    """
    n, B = len(runs[0].labels), len(runs)
    indices = np.empty((n, 1, 2 * B), dtype=np.min_scalar_type(B * n_clusters - 1))
    weights = np.empty((n, 1, 2 * B), dtype=np.float32)
    for b, run in enumerate(runs):
        assert run.second is not None and run.share is not None
        # Labels of a run are kept in as few bytes as hold them.
        indices[:, 0, 2 * b] = run.labels.astype(np.intp) + b * n_clusters
        indices[:, 0, 2 * b + 1] = run.second.astype(np.intp) + b * n_clusters
        weights[:, 0, 2 * b] = run.share
        weights[:, 0, 2 * b + 1] = 255 - run.share
    weights /= 255 * B
    return AnchorGraphs(indices, weights, B * n_clusters)


def indicate(
    Z: ConsensusGraph, graphs: AnchorGraphs, *, compiled: bool = False, A: Floats | None = None
) -> tuple[Array, Array]:
    """Return unclipped indicator and labels of new samples from their graphs.

    A is their weighted sum, where it is known.
    """
    P, R = Z.f_step()
    dtype = graphs.weights.dtype
    scale = float(np.abs(P).max())

    def to(M: Floats) -> Array:
        return stack_by_view(Z.alpha, M).astype(dtype)

    if compiled:
        settle = compiled_fixed_point(to(P), R, fixed_point_tol(dtype), MAX_SWEEPS)

    def work(rows: slice) -> tuple[Array, Array]:
        some = graphs[rows]
        if compiled:
            U = settle(some.indices, some.weights)
        elif A is None:
            U = fixed_point(some.side_by_side() @ to(P), R)
        else:
            U = fixed_point((A[rows] @ P).astype(dtype), R)
        return U, decide(U, lambda few: some[few].side_by_side() @ to(Z.G), scale).labels

    parts = map_blocks(work, graphs.n, _SETTLED) or [work(slice(0, 0))]
    U, labels = zip(*parts, strict=True)
    return np.concatenate(U), np.concatenate(labels)
