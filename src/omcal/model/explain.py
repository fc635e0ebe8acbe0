"""What each view does in a fitted model: its weight, its agreement, and what changes without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from omcal.machine.arrays import Array, Floats, Mask, Seed, on_host
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import indicate
from omcal.method.solver import Problem
from omcal.method.weights import agreement
from omcal.metrics import ari
from omcal.model.subset_fits import (
    GraphFit,
    complete_rows,
    cosines_within,
    explained_shares,
    fit_graphs,
    fitted_views,
    for_views,
    kept_graphs,
    sampled_rows,
)
from omcal.model.view_effects import Range, ViewEffect, ViewExplanation, ViewFacts, warnings_about
from omcal.places.memory import MemoryRows
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.view import Views


def explain_views(
    model: Any,
    X: ViewsLike | None,
    present: PresentLike | None,
    n_resamples: int,
    max_samples: int,
    random_state: Seed,
) -> ViewExplanation:
    """`FittedModel.explain_views` of a fitted OMCAL.

    The clustering without a view, that of a view alone and those of the resamples are small fits
    to parts of the anchor graphs of the model, which start from its result. Of joined runs these
    are the graphs of the run most like the result, and what they give is compared with the result.
    """
    check_is_fitted(model)
    for name, value, least in (("n_resamples", n_resamples, 0), ("max_samples", max_samples, 2)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name}={value!r} must be an integer of at least {least}.")
    if len(model.view_names_) < 2:
        raise ValueError("X has one view, and there is nothing to compare it with; give several.")
    rng: np.random.RandomState = check_random_state(random_state)
    if X is None:
        return explain_graphs(model, kept_graphs(model, present), n_resamples, max_samples, rng)
    sample = sampled_rows(fitted_views(model, X, present), max_samples, rng, "explain_views")
    study = _Study(model, model._rule.learned.graphs(sample), _joint_labels(model, sample))
    return study.explanation(model.view_names_, n_resamples, rng)


def explain_graphs(
    model: Any,
    graphs: AnchorGraphs,
    n_resamples: int,
    max_samples: int,
    random_state: np.random.RandomState,
) -> ViewExplanation:
    """`explain_views` from the graphs of the samples of the fit."""
    given = graphs.n, graphs.present, max_samples, random_state, "explain_views"
    rows = complete_rows(*given)
    labels = on_host(model.labels_)[rows] if _is_joined(model) else None
    study = _Study(model, graphs[rows], labels)
    return study.explanation(model.view_names_, n_resamples, random_state)


def _is_joined(model: Any) -> bool:
    return hasattr(model, "joined_by")


def _joint_labels(model: Any, views: Views) -> Array | None:
    """The clusters of these samples where the model stands for joined runs."""
    if not _is_joined(model):
        return None
    return np.concatenate([labels for _, labels in model.joined_by._rule.blocks(views)])


class _Study:
    """The graphs of a model, its result on them, and the results of parts of them."""

    def __init__(self, model: Any, graphs: AnchorGraphs, labels: Array | None) -> None:
        self.graphs = graphs
        self.everything = list(range(graphs.n_views))
        self.weights: Floats = model.view_weights_
        self.problem: Problem = model._problem(graphs.n_views)
        # A resample is near a result that is known, and only its range matters.
        short = {"max_iter": min(self.problem.max_iter, 30), "tol": max(self.problem.tol, 1e-4)}
        self.short_problem = replace(self.problem, **short)
        self.StS = MemoryRows(graphs, model.n_clusters_).gram()
        self.basis: Floats = model.basis_
        U, own = indicate(model._rule.consensus, graphs)
        self.labels = own if labels is None else labels
        self.uninformative: Mask = model._silent
        self.F = np.maximum(U, 0)

    def explanation(
        self, names: list[str], n_resamples: int, random_state: np.random.RandomState
    ) -> ViewExplanation:
        without = [self._fit(self._others(v)) for v in self.everything]
        alone = [self._fit([v]) for v in self.everything]
        draws = [
            _Resample(self, without, random_state.randint(self.graphs.n, size=self.graphs.n))
            for _ in range(n_resamples)
        ]
        agreements = agreement_with(self.graphs, self.F, self.basis)
        shares = explained_shares(self.graphs, self.labels)
        clusters = range(self.basis.shape[1])
        by_cluster = [self._agreement_in(cluster) for cluster in clusters]
        effects = tuple(
            ViewEffect(
                name=name,
                weight=float(self.weights[v]),
                agreement=float(agreements[v]),
                without=self._ari(without[v]),
                alone=self._ari(alone[v]),
                explained=float(shares[v]),
                explained_alone=self._explained(alone[v]),
                weight_range=_range([draw.weights[v] for draw in draws]),
                agreement_range=_range([draw.agreement[v] for draw in draws]),
                without_range=_range([draw.without[v] for draw in draws]),
                agreement_by_cluster=tuple(float(values[v]) for values in by_cluster),
                kept_without_by_cluster=self._kept(without[v]),
            )
            for v, name in enumerate(names)
        )
        result = ViewExplanation(
            views=effects,
            warnings=(),
            explained=float(shares.mean()),
            repeated_range=_range([draw.repeated for draw in draws]),
            cluster_sizes=tuple(np.bincount(self.labels, minlength=len(clusters)).tolist()),
            n_samples=self.graphs.n,
            n_resamples=n_resamples,
        )
        evened = self._fit(self.everything, replace(self.problem, weighting="agreement"))
        cosines = cosines_within(self.graphs, np.einsum("uvii->uv", self.StS), self.labels)
        facts = ViewFacts(
            cosines, self.problem.weighting, self._explained(evened), self.uninformative
        )
        return replace(result, warnings=tuple(warnings_about(result, facts)))

    def _others(self, v: int) -> list[int]:
        return [u for u in self.everything if u != v]

    def _fit(self, views: list[int], problem: Problem | None = None) -> GraphFit | None:
        return fit_graphs(
            self.graphs.of_views(views),
            self.basis,
            for_views(problem or self.problem, views),
            self.StS[np.ix_(views, views)],
        )

    def _ari(self, fit: GraphFit | None) -> float | None:
        return None if fit is None else ari(self.labels, fit.labels)

    def _explained(self, fit: GraphFit | None) -> float | None:
        return None if fit is None else float(explained_shares(self.graphs, fit.labels).mean())

    def _agreement_in(self, cluster: int) -> Floats:
        rows = np.flatnonzero(self.labels == cluster)
        return agreement_with(self.graphs[rows], self.F[rows], self.basis)

    def _kept(self, fit: GraphFit | None) -> tuple[float, ...] | None:
        """For each cluster its Jaccard index with the most similar cluster of the other result."""
        if fit is None:
            return None
        c = self.basis.shape[1]
        table = np.bincount(self.labels * c + fit.labels, minlength=c * c).reshape(c, c)
        either = table.sum(axis=1)[:, None] + table.sum(axis=0) - table
        return tuple((table / np.maximum(either, 1)).max(axis=1).tolist())


class _Resample:
    """The same fits on a bootstrap sample of the rows."""

    def __init__(self, study: _Study, without: list[GraphFit | None], rows: Array) -> None:
        graphs = study.graphs[rows]
        labels = study.labels[rows]
        StS = MemoryRows(graphs, study.basis.shape[1]).gram()
        full = fit_graphs(graphs, study.basis, study.problem, StS)
        nothing: Any = [None] * graphs.n_views
        self.repeated = None if full is None else ari(labels, full.labels)
        self.weights = nothing if full is None else full.solution.alpha
        self.agreement = nothing if full is None else agreement_with(graphs, full.F, full.basis)
        self.without: list[float | None] = []
        for v, known in enumerate(without):
            others = study._others(v)
            fit = known and fit_graphs(
                graphs.of_views(others),
                known.basis,
                replace(study.short_problem, alpha=known.solution.consensus.alpha),
                StS[np.ix_(others, others)],
            )
            self.without.append(ari(labels, fit.labels) if fit else None)


def agreement_with(graphs: AnchorGraphs, F: Array, G: Floats) -> Floats:
    """Cosine between the graph of each view and the clustering F Gᵀ."""
    F = F.astype(np.float64, copy=False)
    V, m = graphs.n_views, graphs.n_anchors
    StF = (graphs.side_by_side().T @ F).reshape(V, m, -1)
    squares = np.square(graphs.weights, dtype=np.float64).sum(axis=(0, 2))
    return agreement(np.diag(squares), StF, F.T @ F, G)


def _range(values: Sequence[float | None]) -> Range | None:
    known = [float(value) for value in values if value is not None]
    return (min(known), max(known)) if known else None
