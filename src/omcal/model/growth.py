"""Growth of a stream: find a group of strangers that is stable, and make it a cluster.

Strangers are samples whose score is below the outlier threshold. A group of them is stable where
anchors of one half explain the other half, and where it is about as compact as the clusters.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from scipy import linalg, sparse

from omcal.machine.arrays import Array, Mask
from omcal.method.anchors import anchors_of_runs
from omcal.method.new_samples import GraphModel, Predictor, indicate
from omcal.method.updates import ConsensusGraph
from omcal.model.certainty import typicality
from omcal.model.drift import Reference
from omcal.model.numbering import Match
from omcal.model.stream import Reservoir, StreamSums, taken
from omcal.views.view import Views

_MOST = 500  # strangers that are kept; older ones give way
_LEAST = 30  # samples of a group
_EXPLAINED = 0.5  # share of the strangers that are in the group
_SPREAD = 1.5  # largest mean squared distance from the mean of a group, of that of the clusters
_AGAIN = 1.25  # growth of the number of strangers from one test to the next


class Strangers(Reservoir):
    """Recent strangers of a stream, and the number of them to test next at."""

    def __init__(self, seed: int) -> None:
        super().__init__(0, float(_MOST), seed)
        self.size, self.next_test = _MOST, float(_LEAST)

    def due(self) -> bool:
        """Whether to test now; if so, set the number to test next at."""
        due = self.n_seen >= self.next_test and self.views is not None
        self.next_test = _AGAIN * self.n_seen if due else self.next_test
        return due


def stable_group(model: Any, strangers: Views, others: Views) -> Views | None:
    """Return the strangers that form a stable group, or None; `others` are any samples."""
    half = np.random.default_rng(0).permutation(strangers.n) % 2 == 0
    explained = np.zeros(strangers.n, bool)
    for part in (half, ~half):
        explained[part] = _explains(model, taken(strangers, np.flatnonzero(~part)), strangers)[part]
    found = np.flatnonzero(explained)
    if len(found) < max(_LEAST, _EXPLAINED * strangers.n):
        return None
    group, learned = taken(strangers, found), model._rule.learned
    alpha = model._rule.consensus.alpha
    known = _spreads(others, learned, alpha, model._rule.labels(others))
    own = _spreads(group, learned, alpha, np.zeros(group.n, np.intp))
    return group if known and own[0] <= _SPREAD * np.median(known) else None


def _explains(model: Any, some: Views, strangers: Views) -> Mask:
    """Whether each stranger is typical of a cluster that is added from some of them."""
    rule = extended(model._rule, some)
    U, labels = indicate(rule.consensus, rule.graphs(strangers))
    typical = typicality(np.maximum(U, 0)) >= model.outlier_threshold_
    return np.asarray(typical & (labels == rule.n_clusters - 1))


def _spreads(views: Views, learned: GraphModel, alpha: Array, labels: Array) -> list[float]:
    """Return the mean squared distance from the mean, over the views, of each larger cluster."""
    scaled = [s.apply(view.array) for view, s in zip(views, learned.scalings, strict=True)]
    found = []
    for cluster in np.unique(labels):
        rows = np.flatnonzero(labels == cluster)
        if len(rows) >= max(2, _LEAST // 3):
            found.append(float(alpha @ [_spread(X[rows]) for X in scaled]))
    return found


def _spread(X: Any) -> float:
    mean = np.asarray(X.mean(axis=0), dtype=np.float64).ravel()
    squares = X.multiply(X).sum() if sparse.issparse(X) else np.square(X, dtype=np.float64).sum()
    return float((squares - X.shape[0] * (mean @ mean)) / (X.shape[0] - 1))


def extended(rule: Predictor, group: Views) -> Predictor:
    """Return the predictor with one cluster more, which has anchors of its own in the group."""
    learned, Z = rule.learned, rule.consensus
    m, c = Z.G.shape
    p = min(max(2, round(m / c)), group.n)
    state = np.random.RandomState(0)
    how: Any = (learned.scalings, p, "kmeans", [state], [None])
    (anchors,) = anchors_of_runs(group, *how, sampled=False)
    both = [np.vstack(pair) for pair in zip(learned.anchors, anchors, strict=True)]
    column = np.full((p, 1), p**-0.5)
    # The threshold leaves of the new cluster the mean share that it leaves of the others.
    kept = np.einsum("mc,mn,nc->", Z.G, Z.T, Z.G) / c
    T = linalg.block_diag(Z.T, kept * column @ column.T)
    graph = ConsensusGraph(Z.alpha, linalg.block_diag(Z.G, column), T, Z.gamma)
    return Predictor(replace(learned.alone, anchors=both), graph)


def grow(model: Any, group: Views) -> None:
    """Add a cluster for the group; sums and names of the others stay."""
    rule, c = extended(model._rule, group), model.n_clusters_
    graphs = rule.graphs(group)
    U, labels = indicate(rule.consensus, graphs)
    own = Reference.of(graphs, labels, rule.consensus.G)
    model._sums = _padded(model._sums, StreamSums.of(rule.consensus, graphs, np.maximum(U, 0)))
    model._reference = _padded(model._reference, own)
    model._set_rule(rule)
    model.n_clusters_, model._n_grown = c + 1, model._n_grown + 1
    model.matched_ = [*model.matched_, Match(c, None, 0.0)] if model.matched_ else []
    if model._cluster_names is not None:
        taken = model._cluster_names
        model._cluster_names = [*taken, f"new {c}" if str(c) in taken else str(c)]


def _padded(old: Any, new: Any) -> Any:
    """Return the sum of two sets of sums, of which the first has fewer anchors and clusters."""
    if old is None:
        return None
    wider = [
        np.pad(part, [(0, size) for size in np.subtract(more.shape, part.shape)])
        for part, more in zip(old.parts, new.parts, strict=True)
    ]
    return type(old)(old.n_fit if isinstance(old, Reference) else old.n, *wider) + new
