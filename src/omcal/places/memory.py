"""Views and rows in the memory of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import safe_sparse_dot

from omcal.machine import compiled as kernels
from omcal.machine.arrays import Array, Floats
from omcal.machine.compiled import compiled_pays
from omcal.machine.memory import require_memory
from omcal.machine.threads import map_blocks, row_blocks, sum_blocks
from omcal.method.anchors import choose_for_runs
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import (
    ConsensusPredictor,
    GraphModel,
    Predictor,
    graphs_of_runs,
    joined_graph,
    learned_in_span,
)
from omcal.method.rows import AbstractRows, Assignment, Sums, decide, row_bytes
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.span import shared_rows, span_pays
from omcal.method.updates import stack_by_view
from omcal.places.base import OutputKind, Place, SampledGraphs, collect, sample_rows
from omcal.views.view import Views

# Graphs up to this size stay in a fitted model, so that it can be described without its data. A
# million samples in five views have this size. Larger graphs would fill the memory unnoticed.
LARGEST_KEPT = 1 << 28
# Graphs of several runs are made in one pass if all take less than this, and of two runs always.
# They should fit into the memory that a run needs for choosing its anchors.
TOGETHER = 1 << 25

# A fixed block size, so that the order of summation depends only on n.
_BLOCK = 8192


class InMemory(Place):
    """Views and rows in memory; the views are not copied."""

    supported_options = frozenset({"scratch_dir"})  # accepted, as rows in memory need no files
    runs_in_threads = True

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        return learn_in_memory(self.views, settings, random_states)

    def build(self, models: Sequence[GraphModel], settings: GraphSettings) -> Iterator[MemoryRows]:
        self._built, self._kept = models, list[AnchorGraphs]()
        compiled = compiled_pays(self.views.n)
        n_bytes = self._graph_bytes(settings.n_neighbors, settings.n_anchors)
        keeps = len(models) * n_bytes <= (LARGEST_KEPT if len(models) == 1 else TOGETHER)
        for some in row_blocks(len(models), max(2, TOGETHER // n_bytes)):
            for graphs in graphs_of_runs(self.views, models[some], compiled=compiled):
                if keeps:
                    self._kept.append(graphs)
                yield MemoryRows(graphs, settings.n_clusters, compiled=compiled)

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> MemoryRows:
        return join_in_memory(runs, n_clusters)

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        if wanted == "graphs":
            return rule.graphs(self.views, compiled=compiled_pays(self.views.n))
        return collect(rule.blocks(self.views), wanted, self.views.n, out)

    def _graph_bytes(self, n_neighbors: int, n_anchors: int) -> int:
        views = self.views
        return views.n * row_bytes(len(views), n_neighbors, 1, n_anchors, views.dtype)["graphs"]

    def sample_graphs(self, number: int) -> SampledGraphs:
        """Return all graphs if they take at most 256 MiB: stored ones, or built again."""
        if self._kept:
            return SampledGraphs(self._kept[number])
        model = self._built[number].alone
        if self._graph_bytes(model.n_neighbors, len(model.anchors[0])) <= LARGEST_KEPT:
            (graphs,) = graphs_of_runs(self.views, [model], compiled=compiled_pays(self.views.n))
            return SampledGraphs(graphs)
        some = sample_rows(self.views.n)
        views = Views([view.part(view.array[some], some) for view in self.views])
        return SampledGraphs(model.graphs(views), some)

    def require_room(self, n_bytes: float, what: str) -> None:
        require_memory(
            n_bytes,
            what,
            "Set memory_limit, or use fewer samples or anchors, or views in float32; "
            "estimate(n, dims) says more.",
        )


def learn_in_memory(
    views: Views, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
) -> list[GraphModel]:
    """Return scalings and anchors of views in memory, per random state."""
    s = settings
    scalings = [Scaling.fit(view, s.scale) for view in views]
    if span_pays(views.n, views.widths, s, len(random_states)):
        rows = shared_rows(views.n, s.n_anchors, random_states)
        return learned_in_span(views, scalings, s, random_states, rows)
    found = choose_for_runs(views, scalings, s.n_anchors, s.anchors, random_states)
    return [GraphModel(scalings, anchors, s.n_neighbors) for anchors in found]


def join_in_memory(runs: Sequence[Assignment], n_clusters: int) -> MemoryRows:
    """Return the rows of the graph between the samples and the clusters of the runs."""
    graphs = joined_graph(runs, n_clusters)
    return MemoryRows(graphs, n_clusters, compiled=compiled_pays(graphs.n))


class MemoryRows(AbstractRows):
    """All rows in memory, swept in blocks by threads.

    The pass is a compiled function with `compiled`, otherwise products of SciPy and BLAS. If F is
    given, sweeps start from it and write to it.
    """

    def __init__(
        self,
        graphs: AnchorGraphs,
        n_clusters: int,
        *,
        compiled: bool = False,
        F: Array | None = None,
    ) -> None:
        self.graphs = graphs
        self._compiled = compiled
        self.F = np.zeros((graphs.n, n_clusters), graphs.weights.dtype) if F is None else F
        # The SciPy format of the graphs is larger, so it is kept only if every pass needs it.
        self._sparse = {}
        if not compiled:
            for rows in row_blocks(graphs.n, _BLOCK):
                S = graphs[rows].side_by_side()
                St = sparse.csc_array(S.shape[::-1], dtype=S.dtype)
                St.data, St.indices, St.indptr = S.data, S.indices, S.indptr  # S.T may copy them
                self._sparse[rows.start] = S, St

    def gram(self) -> Floats:
        part = _gram_compiled if self._compiled else _gram
        return sum_blocks(lambda rows: part(self.graphs[rows]), self.graphs.n, _BLOCK)

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        Q, R = self._stacked(alpha, P), R.astype(self.F.dtype)
        n, shape = self.graphs.n, (self.graphs.n_views, self.graphs.n_anchors, self.F.shape[1])
        if self._compiled:
            sweep = kernels.Sweep(Q, R)
            total = Sums(*sweep.parts(sum_blocks(partial(self._swept, sweep), n, _BLOCK)))
        else:
            total = sum_blocks(self._plain_pass(Q, R), n, _BLOCK)
        return Sums(total.StF.reshape(shape), total.FtF, total.FoldtF)

    def _swept(self, sweep: kernels.Sweep, rows: slice) -> Any:
        graphs = self.graphs[rows]
        return sweep(graphs.indices, graphs.weights, self.F[rows])

    def _plain_pass(self, Q: Array, R: Array) -> Callable[[slice], Sums]:
        def work(rows: slice) -> Sums:
            S, St = self._sparse[rows.start]
            old = self.F[rows]
            new = old @ R
            new += S @ Q
            np.maximum(new, 0, out=new)
            # With float32 sums the objective would lose up to three digits.
            wide = new.astype(np.float64, copy=False)
            sums = Sums(St @ wide, wide.T @ wide, old.T.astype(np.float64, copy=False) @ wide)
            self.F[rows] = new
            return sums

        return work

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        Q, basis = self._stacked(alpha, P), self._stacked(alpha, G)
        R = R.astype(self.F.dtype)
        scale = float(np.abs(P).max())

        def work(rows: slice) -> Assignment:
            S = self.graphs[rows].side_by_side() if self._compiled else self._sparse[rows.start][0]
            U = S @ Q + self.F[rows] @ R
            self.F[rows] = np.maximum(U, 0)
            return decide(U, lambda some: S[some] @ basis, scale, runner_up=runner_up)

        return Assignment.joined(map_blocks(work, self.graphs.n, _BLOCK))

    def _stacked(self, alpha: Floats, P: Floats) -> Array:
        return stack_by_view(alpha, P).astype(self.F.dtype, copy=False)


def _gram(graphs: AnchorGraphs) -> Floats:
    V, m = graphs.n_views, graphs.n_anchors
    S = graphs.side_by_side().astype(np.float64)
    joint = safe_sparse_dot(S.T.tocsr(), S, dense_output=True)
    return np.ascontiguousarray(joint.reshape(V, m, V, m).swapaxes(1, 2))


def _gram_compiled(graphs: AnchorGraphs) -> Floats:
    V, m = graphs.n_views, graphs.n_anchors
    StS = np.zeros((V, V, m, m))
    kernels.gram_kernel(graphs.indices, graphs.weights, StS)
    for v in range(V):
        StS[v, :v] = StS[:v, v].swapaxes(1, 2)
    return StS
