"""Compute what speaks for the cluster of each sample: ties, views, and nearest samples."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.neighbors import NearestNeighbors

from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.metrics import overlaps
from omcal.model.certainty import margins, typicality
from omcal.views.view import Views

_BLOCK = 8192
_LARGEST_CELL = 2000  # samples that are compared with one another


@dataclass(frozen=True)
class Evidence:
    """How sure the cluster of each sample is, and by which views; NaN where it is absent."""

    # (n,): tie to the own cluster less that to the next, as a share of all ties; of joined runs the
    # share that puts the sample into its cluster.
    certainty: Array
    second: Array  # (n,): the next cluster
    strength: Array  # (n,): tie to the own cluster
    score: Array  # (n,): how typical it is of any cluster, as `score_samples` returns it
    # (n, V): contribution of each view to the difference between the two clusters, as a share;
    # below 0 where the view speaks for the next cluster.
    decision: Array
    agreement: Array  # (n, V): certainty in the view alone, below 0 where it prefers another
    # Share of the samples that `predict` leaves where they are; None for joined runs.
    same_rule: float | None


def find_evidence(model: Any, graphs: AnchorGraphs, labels: Array) -> Evidence:
    """Compute the ties of every sample, by blocks."""
    n, V = graphs.n, graphs.n_views
    certainty, strength, score = np.zeros((3, n))
    second = np.zeros(n, dtype=np.intp)
    decision, agreement = np.zeros((2, n, V), dtype=np.float32)
    alpha, P = model._rule.consensus.alpha, model._rule.consensus.f_step()[0]
    joined = hasattr(model, "runs_")
    order = _columns_of(model, graphs, labels) if joined else np.arange(P.shape[1])
    P, same = P[:, order], 0
    for block in row_blocks(n, _BLOCK):
        U, predicted = indicate(model._rule.consensus, graphs[block])
        U, own = U[:, order], labels[block]
        same += int((predicted == own).sum())
        margin, second[block], strength[block] = margins(U, own)
        score[block] = typicality(np.maximum(U, 0))
        certainty[block] = np.clip(margin, 0, 1)
        for v in range(V):
            ties = graphs[block].of_views([v]).side_by_side() @ P
            at = np.arange(len(own))
            decision[block, v] = alpha[v] * (ties[at, own] - ties[at, second[block]])
            agreement[block, v] = margins(ties, own)[0]
    total = np.abs(decision).sum(axis=1, keepdims=True)
    decision = np.divide(decision, total, out=np.zeros_like(decision), where=total > 0)
    if graphs.present is not None:
        decision[~graphs.present] = agreement[~graphs.present] = np.nan
    rule = None if joined else same / n
    if joined:
        certainty = model.certainty_
    return Evidence(certainty, second, strength, score, decision, agreement, rule)


def _columns_of(model: Any, graphs: AnchorGraphs, labels: Array) -> Array:
    """Return the column of F of one run for each cluster of the joint result."""
    c = model.n_clusters_
    blocks = row_blocks(graphs.n, _BLOCK)
    found = [indicate(model._rule.consensus, graphs[block])[1] for block in blocks]
    counts = overlaps(labels, np.concatenate(found), c, c)
    return np.asarray(linear_sum_assignment(counts, maximize=True)[1])


def nearest_samples(
    model: Any,
    graphs: AnchorGraphs,
    views: Views | None,
    rows: Array,
    count: int,
    rng: np.random.RandomState,
) -> NDArray[np.uint32]:
    """Return the nearest of these samples in each view as places in `rows`, (rows, V, count).

    Samples are compared with those that have the same nearest anchor there, in the scaled features
    of the view, or, where these are not at hand, by their ties to the anchors; the number of rows
    stands where there are too few, or the sample is absent.
    """
    found = np.full((len(rows), graphs.n_views, count), len(rows), dtype=np.uint32)
    for v in range(graphs.n_views):
        cell_of = graphs.indices[rows, v, 0]
        if graphs.present is not None:
            cell_of = np.where(graphs.present[rows, v], cell_of, graphs.n_anchors)
        view = None if views is None or views[v].stored else views[v]
        for cell in np.unique(cell_of[cell_of < graphs.n_anchors]):
            members = rng.permutation(np.flatnonzero(cell_of == cell))
            for part in np.array_split(members, -(-len(members) // _LARGEST_CELL)):
                k = min(count, len(part) - 1)
                if k < 1:
                    continue
                values = (
                    graphs[rows[part]].of_views([v]).side_by_side()
                    if view is None
                    else model._rule.learned.scalings[v].apply(view.rows(rows[part]))
                )
                near = NearestNeighbors(n_neighbors=k, algorithm="brute").fit(values)
                found[part, v, :k] = part[near.kneighbors(return_distance=False)]
    return found
