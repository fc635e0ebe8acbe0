"""Measure the effect of each view on a fitted model: weight, agreement, the result without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from omcal.machine.arrays import Array, Floats, Mask, Seed, on_host
from omcal.machine.declaring import require_integer
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.method.points import members
from omcal.method.solver import Problem
from omcal.method.weights import agreement, uses_z
from omcal.metrics import ari, overlaps
from omcal.model.subset_fits import (
    Refit,
    complete_rows,
    cosines_within,
    explained_shares,
    fitted_views,
    for_views,
    graphs_of,
    most_steps,
    numbered_sample,
    refit,
    view_products,
)
from omcal.model.view_effects import Range, ViewEffect, ViewExplanation, warnings_about
from omcal.views.like import PresentLike, ViewsLike

MANY_ANCHORS = 200
_SAMPLES, _FEWER_SAMPLES = 5000, 2000


def explain_views(
    model: Any,
    X: ViewsLike | None,
    present: PresentLike | None,
    n_resamples: int,
    max_samples: int | None,
    random_state: Seed,
) -> ViewExplanation:
    """Return `FittedModel.explain_views` of a fitted OMCAL.

    Parts of the model's anchor graphs are fitted again: without a view, with a view alone, and on
    resamples. These refits start from the result of the model and leave out the nuclear norm. For
    joined runs the graphs are those of the run most similar to the joint result, and the refits are
    compared with the joint result.
    """
    if max_samples is None:
        max_samples = default_samples(model)
    for name, value, least in (("n_resamples", n_resamples, 0), ("max_samples", max_samples, 2)):
        require_integer(name, value, least)
    if len(model.view_names_) < 2:
        raise ValueError("X has one view; explain_views compares views, so pass at least two.")
    rng: np.random.RandomState = check_random_state(random_state)
    if X is None:
        return explain_graphs(model, graphs_of(model, None, present), n_resamples, max_samples, rng)
    views = fitted_views(model, X, present)
    _, sample = numbered_sample(views, max_samples, rng, "explain_views")
    joined = getattr(model, "joined_by", None)
    labels = None if joined is None else joined._rule.labels(sample)
    comparison = _ViewComparison(model, model._rule.learned.graphs(sample), labels)
    return comparison.explanation(model.view_names_, n_resamples, rng)


def default_samples(model: Any) -> int:
    """Return the number of samples to use: with many anchors a refit takes long."""
    return _FEWER_SAMPLES if len(model.basis_) > MANY_ANCHORS else _SAMPLES


def explain_graphs(
    model: Any,
    graphs: AnchorGraphs,
    n_resamples: int,
    max_samples: int | None,
    random_state: np.random.RandomState,
    *,
    resample_without: bool = True,
) -> ViewExplanation:
    """Return `explain_views` from the graphs of the samples of the fit.

    `resample_without=False` leaves out `without_range`, which takes most of the time.
    """
    most = default_samples(model) if max_samples is None else max_samples
    rows = complete_rows(graphs, most, random_state, "explain_views")
    labels = on_host(model.labels_)[rows] if hasattr(model, "joined_by") else None
    comparison = _ViewComparison(model, graphs[rows], labels)
    return comparison.explanation(model.view_names_, n_resamples, random_state, resample_without)


class _ViewComparison:
    """The graphs of a model, its result on them, and refits of parts of them."""

    def __init__(self, model: Any, graphs: AnchorGraphs, labels: Array | None) -> None:
        self.graphs = graphs
        self.all_views = list(range(graphs.n_views))
        self.weights: Floats = model.view_weights_
        # Weights that depend on Z stay fixed.
        problem = model._problem(graphs.n_views)
        self.fixed = uses_z(problem.weighting)
        self.problem: Problem = replace(problem, alpha=self.weights) if self.fixed else problem
        self.H = view_products(graphs)
        self.basis: Floats = model.basis_
        U, run_labels = indicate(model._rule.consensus, graphs)
        self.labels = run_labels if labels is None else labels
        self.uninformative: Mask = model._rule.learned.uninformative
        self.F = np.maximum(U, 0)

    def explanation(
        self,
        names: list[str],
        n_resamples: int,
        random_state: np.random.RandomState,
        resample_without: bool = True,
    ) -> ViewExplanation:
        without = [self._fit(self.others(v)) for v in self.all_views]
        alone = [self._fit([v]) for v in self.all_views]
        n, resampled_without = self.graphs.n, without if resample_without else []
        draws = [
            _Resample(self, resampled_without, random_state.randint(n, size=n))
            for _ in range(n_resamples)
        ]
        agreements = agreement_with(self.graphs, self.F, self.basis)
        shares = explained_shares(self.graphs, self.labels)
        by_cluster = self._agreement_by_cluster()
        effects = tuple(
            ViewEffect(
                name=name,
                weight=float(self.weights[v]),
                agreement=float(agreements[v]),
                without=ari(self.labels, without[v].labels),
                alone=ari(self.labels, alone[v].labels),
                explained=float(shares[v]),
                explained_alone=self._explained(alone[v]),
                weight_range=_range([] if self.fixed else [draw.weights[v] for draw in draws]),
                agreement_range=_range([draw.agreement[v] for draw in draws]),
                without_range=_range([draw.without[v] for draw in draws if draw.without]),
                agreement_by_cluster=tuple(by_cluster[:, v].tolist()),
                kept_without_by_cluster=self._kept_clusters(without[v]),
            )
            for v, name in enumerate(names)
        )
        result = ViewExplanation(
            views=effects,
            warnings=(),
            explained=float(shares.mean()),
            repeated_range=_range([draw.repeated for draw in draws]),
            cluster_sizes=tuple(np.bincount(self.labels, minlength=len(by_cluster)).tolist()),
            n_samples=self.graphs.n,
            n_resamples=n_resamples,
        )
        found = warnings_about(
            result,
            self.problem.weighting,
            cosines_within(self.graphs, self.H, self.labels),
            self._explained_by_agreement(),
            self.uninformative,
        )
        return replace(result, warnings=tuple(found))

    def others(self, v: int) -> list[int]:
        """Return all views but one."""
        return [u for u in self.all_views if u != v]

    def _fit(self, views: list[int]) -> Refit:
        H = self.H[np.ix_(views, views)]
        return refit(self.graphs.of_views(views), self.basis, for_views(self.problem, views), H)

    def _explained(self, fit: Refit) -> float:
        return float(explained_shares(self.graphs, fit.labels).mean())

    def _explained_by_agreement(self) -> float | None:
        """Return the share that weights by agreement explain, if the rule is "adaptive"."""
        if self.problem.weighting != "adaptive":
            return None
        equal = np.full(len(self.weights), 1 / len(self.weights))
        problem = replace(self.problem, weighting="agreement", alpha=equal)
        return self._explained(refit(self.graphs, self.basis, problem, self.H))

    def _agreement_by_cluster(self) -> Floats:
        """Return the cosine of each view's graph with the clustering, per cluster, (c, V)."""
        graphs, c = self.graphs, self.basis.shape[1]
        product = (self.F @ self.basis.T)[np.arange(graphs.n)[:, None, None], graphs.indices]
        by_cluster = members(self.labels, c, np.float64)
        inner = by_cluster @ np.einsum("ivk,ivk->iv", graphs.weights, product)
        squares = by_cluster @ np.square(graphs.weights, dtype=np.float64).sum(axis=2)
        size = np.sqrt(squares * (by_cluster @ np.square(self.F).sum(axis=1))[:, None])
        cosines = np.divide(inner, size, out=np.zeros_like(inner), where=size > 0)
        return np.asarray(np.maximum(cosines, 0))

    def _kept_clusters(self, fit: Refit) -> tuple[float, ...]:
        """Return each cluster's Jaccard index with the most similar cluster of another result."""
        c = self.basis.shape[1]
        return tuple(best_overlaps(overlaps(self.labels, fit.labels, c, c)).tolist())


class _Resample:
    """The same fits on a bootstrap sample of the rows."""

    def __init__(self, comparison: _ViewComparison, without: list[Refit], rows: Array) -> None:
        graphs, labels = comparison.graphs[rows], comparison.labels[rows]
        H = view_products(graphs)
        full = refit(graphs, comparison.basis, comparison.problem, H)
        self.repeated = ari(labels, full.labels)
        self.weights = full.alpha
        self.agreement = agreement_with(graphs, full.F, full.basis)
        self.without: list[float] = []
        for v, known in enumerate(without):
            others = comparison.others(v)
            # Half the steps are enough from the result for the same views on all rows.
            steps = min(comparison.problem.max_iter, most_steps(known.basis.shape[1]) // 2)
            problem = replace(comparison.problem, alpha=known.alpha, max_iter=steps)
            part = graphs.of_views(others), known.basis, problem, H[np.ix_(others, others)]
            self.without.append(ari(labels, refit(*part).labels))


def agreement_with(graphs: AnchorGraphs, F: Array, G: Array) -> Floats:
    """Return the cosine between the graph of each view and the clustering F Gᵀ."""
    F = F.astype(np.float64, copy=False)
    V, m = graphs.n_views, graphs.n_anchors
    StF = (graphs.side_by_side().T @ F).reshape(V, m, -1)
    squares = np.square(graphs.weights, dtype=np.float64).sum(axis=(0, 2))
    return agreement(np.diag(squares), StF, F.T @ F, G)


def _range(values: Sequence[float]) -> Range | None:
    return (float(min(values)), float(max(values))) if len(values) else None


def best_overlaps(table: Array) -> Floats:
    """Return for each row its largest Jaccard index, from the counts of shared samples."""
    either = table.sum(axis=1)[:, None] + table.sum(axis=0) - table
    return np.asarray((table / np.maximum(either, 1)).max(axis=1))
