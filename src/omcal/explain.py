"""What each view does in a fitted model: its weight, its agreement, and what changes without it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from omcal.graph import AnchorGraphs, anchor_graphs
from omcal.graph_fits import (
    Array,
    GraphFit,
    explained_shares,
    fit_graphs,
    for_views,
    sampled_rows,
    some_graphs,
)
from omcal.metrics import ari
from omcal.rows.base import decide
from omcal.rows.memory import MemoryRows
from omcal.solver import Problem
from omcal.updates import agreement, settle
from omcal.views import validate_views

Range = tuple[float, float]

SAME_RESULT = 0.95  # adjusted Rand index from which two results are called the same
SAME_GRAPH = 0.99  # cosine from which two views are called the same
IGNORED = 0.05  # of an equal share of the weight
LEANS = 0.5  # of all weight, on one of three or more views
CLEARLY = 0.01  # how much more must be explained to be called better


@dataclass(frozen=True)
class ViewEffect:
    """What one view does. Ranges are the least and the largest value over the resamples.

    Attributes
    ----------
    name : str
    weight : float
        Of the model.
    agreement : float
        Cosine between the view's graph and the clustering, 0 to 1.
    without : float or None
        Adjusted Rand index between the result without the view and that of all views: 1 where
        nothing changes. None where there is none, because beta leaves nothing of the graphs.
    alone : float or None
        The same for the result of the view alone.
    explained : float
        Share of the variance of the view's graph that lies between the clusters.
    explained_alone : float or None
        What the result of the view alone explains of all views, in the mean.
    weight_range, agreement_range, without_range : (float, float) or None
    agreement_by_cluster : tuple of float
        Agreement on the samples of each cluster.
    kept_without_by_cluster : tuple of float or None
        For each cluster its overlap with the most similar cluster of the result without the view:
        shared samples among those in either of the two.
    """

    name: str
    weight: float
    agreement: float
    without: float | None
    alone: float | None
    explained: float
    explained_alone: float | None
    weight_range: Range | None
    agreement_range: Range | None
    without_range: Range | None
    agreement_by_cluster: tuple[float, ...]
    kept_without_by_cluster: tuple[float, ...] | None


@dataclass(frozen=True)
class ViewExplanation:
    """What the views of a model do; `print` it for a table in words.

    Attributes
    ----------
    views : tuple of ViewEffect
    warnings : tuple of str
        What a user should know, in plain words.
    explained : float
        What the clusters explain of all views, in the mean: a score without labels.
    repeated_range : (float, float) or None
        Adjusted Rand index between the result and those of all views on resamples: how much of a
        change is chance.
    cluster_sizes : tuple of int
    n_samples, n_resamples : int
        What this rests on.
    """

    views: tuple[ViewEffect, ...]
    warnings: tuple[str, ...]
    explained: float
    repeated_range: Range | None
    cluster_sizes: tuple[int, ...]
    n_samples: int
    n_resamples: int

    def to_dict(self) -> dict[str, Any]:
        """Plain lists, numbers and None, as for JSON."""
        return asdict(self)

    def __str__(self) -> str:
        width = max(4, *(len(view.name) for view in self.views))
        head = f"{'view':<{width}}  {'weight':<18} {'agreement':<18} {'ARI without it':<18} alone"
        lines = [head, *(_line(view, width) for view in self.views), ""]
        lines.append(
            f"The clusters explain {self.explained:.1%} of the views' graphs. In brackets: range "
            f"over {self.n_resamples} resamples of {self.n_samples} samples."
        )
        if self.repeated_range is not None:
            low, high = self.repeated_range
            lines.append(
                f"All views on a resample: ARI {low:.2f} to {high:.2f}; less is no chance."
            )
        return "\n".join(lines + [f"Warning: {text}" for text in self.warnings])


def explain_views(
    model: Any,
    X: Any,
    *,
    n_resamples: int = 5,
    max_samples: int = 5000,
    random_state: Any = 0,
) -> ViewExplanation:
    """Say what each view does in a fitted model.

    The anchor graphs of the model are built once; the clustering without a view, that of a view
    alone and those of the resamples are small fits to parts of these graphs, which start from the
    model's result.

    Parameters
    ----------
    model : fitted OMCAL
    X : as in `fit`
        The data that the model was fitted to. Samples that lack a view are left out.
    n_resamples : int, default=5
        Bootstrap samples for the ranges; 0 for none.
    max_samples : int, default=5000
        Of more samples a random choice is used.
    random_state : int, RandomState or None, default=0

    Returns
    -------
    ViewExplanation

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(200, n_clusters=3, n_noise_views=1, noise=0.5, random_state=0)
    >>> model = OMCAL(n_clusters=3, weighting="agreement", random_state=0).fit(data.views)
    >>> explanation = explain_views(model, data.views, n_resamples=2)
    >>> min(explanation.views, key=lambda view: view.agreement).name
    'noise1'
    """
    check_is_fitted(model)
    for name, value, least in (("n_resamples", n_resamples, 0), ("max_samples", max_samples, 2)):
        if not isinstance(value, int | np.integer) or value < least:
            raise ValueError(f"{name}={value!r} must be an integer of at least {least}.")
    views = validate_views(model, X, views=getattr(model, "views", None), reset=False, lazy=True)
    if len(views) < 2:
        raise ValueError("X has one view, and there is nothing to compare it with; give several.")
    random_state = check_random_state(random_state)
    sample, _ = sampled_rows(views, max_samples, random_state, "explain_views")
    graphs = anchor_graphs(sample, model._scalings, model.anchors_, model.n_neighbors)
    study = _Study(model, graphs)
    return study.explanation(list(views.names), n_resamples, random_state)


class _Study:
    """The graphs of a model, its result on them, and the results of parts of them."""

    def __init__(self, model: Any, graphs: AnchorGraphs) -> None:
        self.graphs = graphs
        self.everything = list(range(graphs.n_views))
        self.weights: Array = model.view_weights_
        self.problem: Problem = model._problem(graphs.n_views)
        # A resample is near a result that is known, and only its range matters.
        short = {"max_iter": min(self.problem.max_iter, 30), "tol": max(self.problem.tol, 1e-4)}
        self.short_problem = replace(self.problem, **short)
        self.StS = MemoryRows(graphs, model.n_clusters).gram()
        self.basis: Array = model.basis_
        self.labels, self.F = _result(model, graphs)

    def explanation(
        self, names: list[str], n_resamples: int, random_state: np.random.RandomState
    ) -> ViewExplanation:
        without = [self._fit(self._others(v)) for v in self.everything]
        alone = [self._fit([v]) for v in self.everything]
        draws = [
            _Resample(self, without, random_state.randint(self.graphs.n, size=self.graphs.n))
            for _ in range(n_resamples)
        ]
        cosines = agreement_with(self.graphs, self.F, self.basis)
        shares = explained_shares(self.graphs, self.labels)
        clusters = range(self.basis.shape[1])
        by_cluster = [self._agreement_in(cluster) for cluster in clusters]
        effects = tuple(
            ViewEffect(
                name=name,
                weight=float(self.weights[v]),
                agreement=float(cosines[v]),
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
        return replace(result, warnings=tuple(self._warnings(result)))

    def _others(self, v: int) -> list[int]:
        return [u for u in self.everything if u != v]

    def _fit(self, views: list[int], problem: Problem | None = None) -> GraphFit | None:
        return fit_graphs(
            some_graphs(self.graphs, views=views),
            self.basis,
            for_views(problem or self.problem, views),
            self.StS[np.ix_(views, views)],
        )

    def _ari(self, fit: GraphFit | None) -> float | None:
        return None if fit is None else ari(self.labels, fit.labels)

    def _explained(self, fit: GraphFit | None) -> float | None:
        return None if fit is None else float(explained_shares(self.graphs, fit.labels).mean())

    def _agreement_in(self, cluster: int) -> Array:
        rows = np.flatnonzero(self.labels == cluster)
        return agreement_with(some_graphs(self.graphs, rows), self.F[rows], self.basis)

    def _kept(self, fit: GraphFit | None) -> tuple[float, ...] | None:
        """For each cluster its Jaccard index with the most similar cluster of the other result."""
        if fit is None:
            return None
        c = self.basis.shape[1]
        table = np.bincount(self.labels * c + fit.labels, minlength=c * c).reshape(c, c)
        either = table.sum(axis=1)[:, None] + table.sum(axis=0) - table
        return tuple((table / np.maximum(either, 1)).max(axis=1).tolist())

    def _warnings(self, found: ViewExplanation) -> list[str]:
        return [
            *_sufficient(found),
            *_ignored(found),
            *self._twins([view.name for view in found.views]),
            *self._leaning(found),
            *_beaten(found),
        ]

    def _twins(self, names: list[str]) -> list[str]:
        H = np.einsum("uvii->uv", self.StS)
        size = np.sqrt(np.diag(H))
        cosine = H / np.outer(size, size)
        return [
            f"views {names[u]!r} and {names[v]!r} are the same (their graphs agree to "
            f"{cosine[u, v]:.3f}), so what they say counts twice; leave one of them out."
            for u in self.everything
            for v in range(u + 1, len(names))
            if cosine[u, v] >= SAME_GRAPH
        ]

    def _leaning(self, found: ViewExplanation) -> list[str]:
        """Whether most of the weight is on one of many views, and clusters would gain without."""
        first = max(found.views, key=lambda view: view.weight)
        if len(found.views) < 3 or first.weight < LEANS:
            return []
        others = [view for view in found.views if view is not first]
        text = (
            f"the weights lean on view {first.name!r}: it has {first.weight:.0%} of the weight, "
            f"the other {len(others)} views share the rest."
        )
        if first.without is not None:
            text += f" Without it the result is another one (ARI {first.without:.2f} to this one)."
        evened = self._fit(self.everything, replace(self.problem, weighting="agreement"))
        score = self._explained(evened)
        if self.problem.weighting != "adaptive" or score is None:
            return [text]
        if score > found.explained + CLEARLY:
            text += (
                " The weight does not mean that the view is better: weights by agreement give "
                f"clusters that explain more of the views ({score:.1%} instead of "
                f"{found.explained:.1%}). Adaptive weights prefer the view with the smoothest "
                'graph, good or bad; try weighting="agreement".'
            )
        return [text]


class _Resample:
    """The same fits on a bootstrap sample of the rows."""

    def __init__(self, study: _Study, without: list[GraphFit | None], rows: NDArray) -> None:
        graphs = some_graphs(study.graphs, rows)
        labels = study.labels[rows]
        StS = MemoryRows(graphs, study.basis.shape[1]).gram()
        full = fit_graphs(graphs, study.basis, study.short_problem, StS)
        nothing = [None] * graphs.n_views
        self.repeated = None if full is None else ari(labels, full.labels)
        self.weights: Sequence[Any] = nothing if full is None else full.solution.alpha
        self.agreement: Sequence[Any] = (
            nothing if full is None else agreement_with(graphs, full.F, full.basis)
        )
        self.without: list[float | None] = []
        for v, known in enumerate(without):
            others = study._others(v)
            fit = known and fit_graphs(
                some_graphs(graphs, views=others),
                known.basis,
                for_views(study.short_problem, others),
                StS[np.ix_(others, others)],
            )
            self.without.append(ari(labels, fit.labels) if fit else None)


def agreement_with(graphs: AnchorGraphs, F: NDArray, G: Array) -> Array:
    """Cosine between the graph of each view and the clustering F Gᵀ."""
    F = F.astype(np.float64, copy=False)
    V, m = graphs.n_views, graphs.n_anchors
    StF = (graphs.side_by_side().T @ F).reshape(V, m, -1)
    squares = np.square(graphs.weights, dtype=np.float64).sum(axis=(0, 2))
    return agreement(np.diag(squares), StF, F.T @ F, G)


def _result(model: Any, graphs: AnchorGraphs) -> tuple[NDArray, NDArray]:
    """Labels and F of the model on these graphs, as for new samples."""
    Z = model._consensus
    P, R = Z.f_step()
    S = graphs.side_by_side()
    to_P, to_G = (np.concatenate([weight * M for weight in Z.alpha]) for M in (P, Z.G))
    U = settle(S @ to_P, R)
    return decide(U, S @ to_G, float(np.abs(P).max())).labels, np.maximum(U, 0)


def _range(values: Sequence[float | None]) -> Range | None:
    known = [float(value) for value in values if value is not None]
    return (min(known), max(known)) if known else None


def _sufficient(found: ViewExplanation) -> list[str]:
    return [
        f"view {view.name!r} alone gives the same result (ARI {view.alone:.2f}); the other views "
        "change next to nothing."
        for view in found.views
        if view.alone is not None and view.alone >= SAME_RESULT
    ]


def _ignored(found: ViewExplanation) -> list[str]:
    return [
        f"view {view.name!r} is ignored: its weight is {view.weight:.3f}; leave it out, or try "
        'weighting="agreement".'
        for view in found.views
        if view.weight * len(found.views) < IGNORED
    ]


def _beaten(found: ViewExplanation) -> list[str]:
    scored = [view for view in found.views if view.explained_alone is not None]
    if not scored:
        return []
    best = max(scored, key=lambda view: view.explained_alone or 0.0)
    if (best.explained_alone or 0.0) <= found.explained + CLEARLY:
        return []
    return [
        f"all views together are worse than view {best.name!r} alone by a score without labels: "
        f"they explain {found.explained:.1%} of the views' graphs, it alone "
        f'{best.explained_alone:.1%}; try weighting="agreement", or fewer views.'
    ]


def _line(view: ViewEffect, width: int) -> str:
    cells = (
        _with_range(view.weight, view.weight_range),
        _with_range(view.agreement, view.agreement_range),
        _with_range(view.without, view.without_range),
    )
    alone = "–" if view.alone is None else f"{view.alone:.2f}"
    return f"{view.name:<{width}}  " + " ".join(f"{cell:<18}" for cell in cells) + f" {alone}"


def _with_range(value: float | None, interval: Range | None) -> str:
    if value is None:
        return "–"
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")
