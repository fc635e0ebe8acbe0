"""Small fits to anchor graphs that are there already: to some of their rows or views.

Nothing is scaled and no anchor is chosen anew, so a fit costs its few passes and nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from omcal.graph import AnchorGraphs
from omcal.parallel import small_blas
from omcal.rows.memory import MemoryRows
from omcal.solver import Problem, Solution, VanishedGraphError, solve
from omcal.views import Views

Array = NDArray[np.float64]


@dataclass(frozen=True)
class GraphFit:
    """What a fit to graphs gave."""

    labels: NDArray
    F: NDArray
    solution: Solution

    @property
    def basis(self) -> Array:
        return self.solution.consensus.G


def sampled_rows(
    views: Views, most: int, random_state: np.random.RandomState, asked_by: str
) -> tuple[Views, NDArray]:
    """At most so many random samples that are in every view, in memory, and which they are."""
    if views.distributed:
        raise ValueError(
            f"{asked_by} works on a sample in memory; pass computed arrays of some thousand "
            "samples instead of those of Dask."
        )
    present = views.present
    complete = np.arange(views.n) if present is None else np.flatnonzero(present.all(axis=1))
    if len(complete) < 2:
        raise ValueError(
            f"{asked_by} compares samples that are in every view; X has {len(complete)} of them."
        )
    rows = np.sort(random_state.permutation(complete)[:most])
    if views.stored:
        from omcal.out_of_core import loaded

        parts, start = [], 0
        for block in loaded(views):
            inside = rows[(rows >= start) & (rows < start + block.n)] - start
            parts.append([view.array[inside] for view in block])
            start += block.n
        arrays = [_stack(blocks) for blocks in zip(*parts, strict=True)]
    else:
        arrays = [view.array[rows] for view in views]
    chosen = zip(views, arrays, strict=True)
    return Views([replace(view, array=array, present=None) for view, array in chosen]), rows


def _stack(blocks: Sequence[Any]) -> Any:
    return sparse.vstack(blocks).tocsr() if sparse.issparse(blocks[0]) else np.concatenate(blocks)


def some_graphs(graphs: AnchorGraphs, rows: Any = slice(None), views: Any = None) -> AnchorGraphs:
    """The graphs of these rows and views; a row may come more than once."""
    indices, weights = graphs.indices[rows], graphs.weights[rows]
    if views is not None:
        indices, weights = indices[:, views], weights[:, views]
    return replace(graphs, indices=indices, weights=weights)


def fit_graphs(
    graphs: AnchorGraphs, G: Array, problem: Problem, StS: Array | None = None
) -> GraphFit | None:
    """Run the solver from the basis G; None where beta leaves nothing of the graphs."""
    rows = MemoryRows(graphs, G.shape[1])
    try:
        with small_blas(len(G)):
            solution = solve(rows, rows.gram() if StS is None else StS, G, problem)
    except VanishedGraphError:
        return None
    Z = solution.consensus
    labels = rows.assign(Z.alpha, *Z.f_step(), Z.G).labels
    return GraphFit(labels, rows.F, solution)


def for_views(problem: Problem, views: Sequence[int]) -> Problem:
    """The same problem for some of its views; where all their weights are 0, with equal ones."""
    alpha = problem.alpha[list(views)]
    total = alpha.sum()
    return replace(
        problem, alpha=alpha / total if total > 0 else np.full(len(alpha), 1.0 / len(alpha))
    )


def explained_shares(graphs: AnchorGraphs, labels: NDArray) -> Array:
    """How much of each view's graph the clusters explain, 0 to 1.

    It is the between-cluster share of the variance of the rows of S_v: 1 where the samples of a
    cluster are all tied to the same anchors, about c / n where labels have nothing to do with S_v.
    """
    sums, sizes = _cluster_sums(graphs, labels)
    of_mean = np.square(sums.sum(axis=1)).sum(axis=1) / graphs.n
    total = np.square(graphs.weights, dtype=np.float64).sum(axis=(0, 2)) - of_mean
    between = np.einsum("vjm,vjm,j->v", sums, sums, 1 / sizes) - of_mean
    return np.divide(between, total, out=np.zeros_like(total), where=total > 0)


def cosines_within(graphs: AnchorGraphs, H: Array, labels: NDArray) -> Array:
    """(V, V): cosines between the graphs, less the means of the clusters.

    Views that show the same clusters have similar graphs; only copies are similar inside of them.
    """
    sums, sizes = _cluster_sums(graphs, labels)
    within = H - np.einsum("ujm,vjm,j->uv", sums, sums, 1 / sizes)
    size = np.sqrt(np.maximum(np.diag(within), 0))
    norm = np.outer(size, size)
    return np.divide(within, norm, out=np.zeros_like(norm), where=norm > 0)


def _cluster_sums(graphs: AnchorGraphs, labels: NDArray) -> tuple[Array, NDArray]:
    """Sums of the rows of S_v over each cluster that is not empty, (V, c, m), and its size."""
    m = graphs.n_anchors
    codes = np.unique(labels, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(codes)
    sums = np.empty((graphs.n_views, len(sizes), m))
    for v, view in enumerate(sums):
        cells = codes[:, None] * m + graphs.indices[:, v]
        weights = graphs.weights[:, v].astype(np.float64, copy=False)
        view[:] = np.bincount(cells.ravel(), weights.ravel(), view.size).reshape(view.shape)
    return sums, sizes
