"""The anchor graphs of a fitted model, and small fits to some of their rows or views.

Scalings and anchors stay, so such a fit costs only a few passes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats
from omcal.machine.compiled import compiled_pays
from omcal.machine.declaring import require_integer
from omcal.machine.memory import format_bytes
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.method.rows import Sums
from omcal.method.solver import MOST_MOMENTUM, Problem
from omcal.method.starts import rotated_basis
from omcal.method.updates import stack_by_view, weighted_sum
from omcal.method.weights import normalized, uses_z
from omcal.model.stream import weighted_graph
from omcal.places.data_scan import stacked
from omcal.places.memory import LARGEST_KEPT
from omcal.views.reading import read_views
from omcal.views.view import Views

_FEWEST_STEPS, _MOST_STEPS = 8, 30  # of a refit
_ALL_STEPS = 1200  # steps of a refit times number of clusters, at most
_SETTLED = 1e-3  # a refit ends when at most this share of the labels changes
_BLOCK_ENTRIES = 1 << 18  # per block of graphs


@dataclass(frozen=True)
class Refit:
    """The result of clustering some rows or views of known graphs."""

    labels: Array
    F: Array
    basis: Array
    alpha: Floats


def complete_rows(
    of: AnchorGraphs | Views, most: int, random_state: np.random.RandomState, asked_by: str
) -> Array:
    """Return at most `most` random samples that are in every view, ascending."""
    require_integer("max_samples", 2 if most is None else most, 2)
    complete = np.arange(of.n)
    if of.present is not None:
        complete = np.flatnonzero(of.present.all(axis=1))
    require_two(len(complete), asked_by)
    return np.sort(random_state.permutation(complete)[:most])


def require_two(count: int, asked_by: str) -> None:
    """Refuse data with fewer than two samples that are in every view."""
    if count < 2:
        raise ValueError(
            f"{asked_by} compares samples that are in every view; X has {count} of them."
        )


def numbered_sample(
    views: Views, most: int, random_state: np.random.RandomState, asked_by: str
) -> tuple[Array, Views]:
    """Return the row numbers and values of at most `most` random samples that are in every view."""
    if views.home == "cluster":
        raise ValueError(
            f"{asked_by} works on a sample in memory; pass computed arrays of some thousand "
            "samples instead of those of Dask."
        )
    rows = complete_rows(views, most, random_state, asked_by)
    rows, arrays = _read_rows(views, rows)
    require_two(len(rows), asked_by)
    chosen = zip(views, arrays, strict=True)
    return rows, Views([replace(view, array=array, present=None) for view, array in chosen])


def _read_rows(views: Views, rows: Array) -> tuple[Array, list[Any]]:
    """Read rows of each view, and drop those that are absent from a view."""
    kept, parts, start = [], [], 0
    for block in views_in_memory(views):
        inside = rows[(rows >= start) & (rows < start + block.n)] - start
        if block.present is not None:
            inside = inside[block.present[inside].all(axis=1)]
        kept.append(inside + start)
        parts.append([view.array[inside] for view in block])
        start += block.n
    return np.concatenate(kept), [stacked(blocks) for blocks in zip(*parts, strict=True)]


def refit(graphs: AnchorGraphs, G: Array, problem: Problem, H: Floats) -> Refit:
    """Cluster graphs from the basis G on, without the nuclear norm and in float32.

    With beta = 0 the best Z is a mixture of A(alpha) and F Gᵀ. The problem is then to minimise
    ‖A(alpha) − F Gᵀ‖ for any gamma, and no step needs a matrix of anchors × anchors. Weights that
    depend on Z ("adaptive") stay fixed, since the nuclear norm determines them. H is the result of
    `view_products`. The loop stops when at most one label in a thousand changes, or the share `tol`
    of the problem if it is larger.
    """
    V, m, c = graphs.n_views, *G.shape
    if V == 1 or uses_z(problem.weighting):
        problem = replace(problem, weighting="fixed")
    S = graphs.side_by_side().astype(np.float32)
    St = S.T  # for SciPy a transposition takes as long as a product
    ahead = G = G.astype(np.float32)
    alpha, labels = problem.alpha, np.full(graphs.n, -1)
    for step in range(min(problem.max_iter, most_steps(c))):
        U = S @ stack_by_view(alpha.astype(np.float32), ahead)
        before, labels = labels, U.argmax(axis=1)
        F = np.maximum(U, 0, out=U)
        StF = (St @ F).reshape(V, m, c)
        old, G = G, _polar(weighted_sum(alpha.astype(np.float32), StF))
        ahead = G + np.float32(min(step / (step + 3), MOST_MOMENTUM)) * (G - old)
        FtF = np.diag(np.einsum("ij,ij->j", F, F, dtype=np.float64))
        alpha = problem.weights(None, H, np.zeros(V), Sums(StF, FtF, FtF), G)
        if (labels != before).mean() <= max(_SETTLED, problem.tol):
            break
    return Refit(labels, F, G, alpha)


def spectral_refits(
    graphs: AnchorGraphs, problem: Problem, numbers: Sequence[int]
) -> Iterator[Refit]:
    """Yield the refit for each number of clusters, from leading eigenvectors of AᵀA."""
    A, H = weighted_graph(graphs, problem.alpha), view_products(graphs)
    vectors = np.linalg.eigh(A.T @ A)[1]
    for c in numbers:
        yield refit(graphs, rotated_basis(vectors[:, -c:]), problem, H)


def most_steps(n_clusters: int) -> int:
    """Return the largest number of steps of a refit: with many clusters a step takes longer."""
    return max(_FEWEST_STEPS, min(_MOST_STEPS, _ALL_STEPS // n_clusters))


def _polar(M: Array) -> Array:
    """Return the orthogonal polar factor M (MᵀM)^(−½); it is zero in the null space of M."""
    double = M.astype(np.float64)
    squares, Q = np.linalg.eigh(double.T @ double)
    there = squares > 1e-12 * squares[-1]
    half = (Q[:, there] / squares[there] ** 0.25).astype(np.float32)
    return np.asarray(M @ (half @ half.T))


def for_views(problem: Problem, views: Sequence[int]) -> Problem:
    """Return the problem of some of the views; if all their weights are 0, with equal weights."""
    return replace(problem, alpha=normalized(problem.alpha[list(views)]))


def view_products(graphs: AnchorGraphs) -> Floats:
    """Return the inner products of the graphs of all pairs of views, (V, V)."""
    V, m = graphs.n_views, graphs.n_anchors
    H = np.zeros((V, V))
    for rows in row_blocks(graphs.n, max(1, _BLOCK_ENTRIES // graphs.indices[0].size)):
        some = graphs[rows]
        cells = (some.indices + m * np.arange(some.n)[:, None, None]).swapaxes(0, 1)
        weights = some.weights.swapaxes(0, 1).astype(np.float64)
        ends = np.arange(V + 1) * cells[0].size
        S = sparse.csr_array((weights.ravel(), cells.ravel(), ends), (V, some.n * m))
        H += (S @ S.T).toarray()
    return H


def explained_shares(graphs: AnchorGraphs, labels: Array) -> Floats:
    """Return the share of each view's graph that the clusters explain, 0 to 1.

    This is the between-cluster share of the variance of the rows of S_v: 1 if all samples of a
    cluster are tied to the same anchors, about c / n if labels and S_v are unrelated.
    """
    sums, sizes = _cluster_sums(graphs, labels)
    of_mean = np.square(sums.sum(axis=1)).sum(axis=1) / graphs.n
    total = np.square(graphs.weights, dtype=np.float64).sum(axis=(0, 2)) - of_mean
    between = np.einsum("vjm,vjm,j->v", sums, sums, 1 / sizes) - of_mean
    return np.asarray(np.divide(between, total, out=np.zeros_like(total), where=total > 0))


def cosines_within(graphs: AnchorGraphs, H: Floats, labels: Array) -> Floats:
    """Return the (V, V) cosines between the graphs after subtracting the means of the clusters.

    Views of the same clusters have similar graphs; only copies are also similar inside clusters.
    """
    sums, sizes = _cluster_sums(graphs, labels)
    within = H - np.einsum("ujm,vjm,j->uv", sums, sums, 1 / sizes)
    size = np.sqrt(np.maximum(np.diag(within), 0))
    norm = np.outer(size, size)
    return np.asarray(np.divide(within, norm, out=np.zeros_like(norm), where=norm > 0))


def _cluster_sums(graphs: AnchorGraphs, labels: Array) -> tuple[Floats, Array]:
    """Return the sums of S_v over each non-empty cluster, (V, c, m), and the cluster sizes."""
    m = graphs.n_anchors
    codes = np.unique(labels, return_inverse=True)[1].reshape(-1)
    sizes = np.bincount(codes)
    sums = np.empty((graphs.n_views, len(sizes), m))
    for v, view in enumerate(sums):
        cells = codes[:, None] * m + graphs.indices[:, v]
        weights = graphs.weights[:, v].astype(np.float64, copy=False)
        view[:] = np.bincount(cells.ravel(), weights.ravel(), view.size).reshape(view.shape)
    return sums, sizes


def graphs_of(model: Any, X: Any = None, present: Any = None) -> AnchorGraphs:
    """Return the graphs of the samples of X, or without X the graphs that the model has kept."""
    if X is not None:
        views = fitted_views(model, X, present)
        if views.home == "cluster":
            raise ValueError(
                "X is in Dask, and its graphs are needed in memory; pass computed arrays."
            )
        learned, compiled = model._rule.learned, compiled_pays(views.n)
        blocks = (learned.graphs(block, compiled=compiled) for block in views_in_memory(views))
        return AnchorGraphs.joined(list(blocks))
    if present is not None:
        raise ValueError("present is for the samples of X; pass X as well.")
    if model._graphs is None:
        raise ValueError(
            "the model has kept no anchor graphs; pass X, the data that it was fitted to. Graphs "
            f"of up to {format_bytes(LARGEST_KEPT)} are kept of a fit on the CPU to data in "
            "memory, and they are not part of copies and files of a model."
        )
    graphs: AnchorGraphs = model._graphs
    return graphs


def fitted_views(model: Any, X: Any, present: Any = None) -> Views:
    """Return X as the views of the fit; data in files stay there."""
    return read_views(model, X, reset=False, present=present, home="host")


def views_in_memory(views: Views) -> Any:
    """Return the blocks of views that must be read, or the views unchanged."""
    if not views.stored:
        return [views]
    from omcal.places.disk import loaded

    return loaded(views)


def consensus_graphs(model: Any, X: Any) -> tuple[Array, Array]:
    """Return the mean of the anchor graphs of samples and their consensus graph, both (n, m)."""
    Z, graphs = model._rule.consensus, graphs_of(model, X)
    S = graphs.side_by_side().toarray().reshape(graphs.n, graphs.n_views, -1)
    F = np.maximum(indicate(Z, graphs)[0], 0)
    A = np.einsum("v,ivj->ij", Z.alpha, S)
    return S.mean(axis=1), Z.s * (A + Z.gamma * F @ Z.G.T) @ Z.T
