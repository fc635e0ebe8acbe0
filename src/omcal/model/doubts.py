"""Diagnostics of a fitted model: reasons to doubt the result, each with a remedy."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from omcal.machine.arrays import Array, Floats, Mask, on_host
from omcal.method.graph import AnchorGraphs
from omcal.method.points import members
from omcal.metrics import ari
from omcal.model.structure import Structure
from omcal.model.subset_fits import (
    cosines_within,
    explained_shares,
    for_views,
    spectral_refits,
    view_products,
)
from omcal.model.tabular import html_table
from omcal.model.view_effects import ignored_views, same_views
from omcal.places.base import SampledGraphs, sample_rows
from omcal.places.team import SOLO, Team
from omcal.views.missing import Gaps
from omcal.views.mixed import column_starts

_NEARLY_ALL = 0.9  # share of the samples, or of the weight
_LITTLE, _MUCH = 0.05, 0.25  # share of the variance of a graph between the clusters
_ALONE = 500  # samples for clustering single views
_UNLIKE = 0.5  # cosine of two graphs: below it their views may show different groups
_CLEAR = 0.35  # share of a graph that groups of its view explain; below it there may be no groups
_UNSTABLE = 0.5  # mean adjusted Rand index of runs with their result
_HALF_EMPTY = 0.05  # share of samples that lack more than half of their values
_CHANCE = 0.05  # largest adjusted Rand index of unrelated groups
_WARNINGS: dict[str, type[Warning]] = {
    kind.__name__: kind for kind in (UserWarning, ConvergenceWarning)
}
_PERMUTATIONS = 199  # so that the false-alarm rate is 1 in 200 per view
_STRONG = 0.3  # Cramér's V of the weakest dependence to report


class Diagnostic(NamedTuple):
    """An observation that makes a result doubtful, and a remedy."""

    what: str
    advice: str
    warning: type[Warning] = UserWarning

    def __str__(self) -> str:
        return f"{self.what}; {self.advice}."


class Diagnostics(list[Diagnostic]):
    """The diagnostics of a model, shown as a table in a notebook."""

    def _repr_html_(self) -> str:
        if not self:
            return "<p>Nothing to report.</p>"
        return html_table([("observation", "remedy"), *(found[:2] for found in self)])


def __getattr__(name: str) -> Any:
    if name != "Doubt":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    warnings.warn("Doubt is now called Diagnostic.", FutureWarning, stacklevel=2)
    return Diagnostic


def written(found: list[Diagnostic]) -> list[list[str]]:
    """Return diagnostics as plain lists of text, for a file."""
    return [[doubt.what, doubt.advice, doubt.warning.__name__] for doubt in found]


def read(rows: Any) -> Diagnostics:
    """Return the diagnostics from the output of `written`; else raise ValueError or KeyError."""
    found = Diagnostics(Diagnostic(what, advice, _WARNINGS[kind]) for what, advice, kind in rows)
    if not all(isinstance(text, str) for doubt in found for text in doubt[:2]):
        raise ValueError("a diagnostic is not text")
    return found


def doubts(model: Any, sampled: SampledGraphs | None, sizes: Array, team: Team) -> Diagnostics:
    """Return the diagnostics of a fitted model; some of them need its graphs.

    `sizes` are the cluster sizes over all processes of the `team`; each process has its own labels.
    """
    found = Diagnostics(
        [
            *about_structure(model.structure_),
            *about_missing(model, team),
            *_about_views(model),
            *_about_sizes(model, sizes),
        ]
    )
    several = len(model.view_names_) > 1 and np.count_nonzero(sizes) > 1
    if several and sampled is not None:
        found += _about_agreement(model, sampled)
    return found


def about_missing(model: Any, team: Team = SOLO) -> Iterator[Diagnostic]:
    """Yield diagnostics of missing cells, and of mostly empty features and samples."""
    for v, cells in enumerate(getattr(model, "_missing", ())):
        if not cells.n_cells:
            continue
        name, names = model.view_names_[v], _column_starts(model, v)
        lost = cells.lost[list(names)]
        share = lost.sum() / (cells.n * len(lost))
        yield Diagnostic(
            f"view {name!r} lacks {lost.sum():.0f} of its values ({share:.1%}), which are filled "
            "with estimates from their rows",
            "impute them yourself if you have better estimates",
        )
        empty = [
            title for title, count in zip(names.values(), lost, strict=True) if 2 * count > cells.n
        ]
        if empty:
            examples = ", ".join(empty[:5]) + (" …" if len(empty) > 5 else "")
            yield Diagnostic(
                f"{len(empty)} features of view {name!r} lack more than half of their values "
                f"({examples})",
                "leave them out",
            )
        if cells.half_empty > _HALF_EMPTY * cells.n:
            yield Diagnostic(
                f"{cells.half_empty} samples lack more than half of their values in view {name!r}",
                "treat them as absent from it: make all of their values NaN",
            )
        yield from _about_gaps(model, v, team)


def _about_gaps(model: Any, v: int, team: Team) -> Iterator[Diagnostic]:
    """Yield a diagnostic if missing cells of a view depend on the clusters."""
    link = linked_gaps(model._gaps[v], on_host(model.labels_), model.n_clusters_, team)
    if link is not None:
        feature, cluster, share, elsewhere = link
        starts = _column_starts(model, v)
        title = starts[max(start for start in starts if start <= feature)]
        yield Diagnostic(
            f"missing values depend on the clusters: {title!r} in view {model.view_names_[v]!r} "
            f"lacks {share:.0%} of its values in cluster {cluster} and {elsewhere:.0%} elsewhere "
            "(chance: below 0.5 %)",
            "find out why they are missing; impute them or leave the feature out, and compare",
        )


def _column_starts(model: Any, v: int) -> dict[int, str]:
    """Return the title of each column of a view, by its first feature."""
    titles = model._view_columns[v] or tuple(map(str, range(model.n_features_per_view_[v])))
    return column_starts(model._encoding.get(model.view_names_[v], {}), titles)


def warn(model: Any) -> None:
    """Raise a warning for each diagnostic."""
    for doubt in model.doubts_:
        warnings.warn(str(doubt), doubt.warning, stacklevel=3)


def about_structure(found: Structure | None) -> Iterator[Diagnostic]:
    """Yield a diagnostic if the clusters separate the samples no better than noise."""
    if found is not None and not found.found:
        yield Diagnostic(
            f"no cluster structure found: the clusters separate neighbours with a score of "
            f"{found.separation:.2f} (0: chance, 1: perfect; {found.n_samples} samples), data "
            f"without clusters (one Gaussian with the same covariance) reach {found.null:.2f}",
            "do not read meaning into the clusters; look at the views and at view_scales_, leave "
            "out views or features that only add noise, or try another n_clusters",
        )


def unconverged(max_iter: int, tol: float) -> Diagnostic:
    """Return the diagnostic for iterations that ended before the objective converged."""
    if tol == 0:
        return Diagnostic(
            f"tol=0 ran all max_iter={max_iter} iterations and did not test for convergence",
            "set tol above 0 to stop when the objective has converged",
            ConvergenceWarning,
        )
    return Diagnostic(
        f"the objective still changes by more than tol={tol:g} after max_iter={max_iter} "
        "iterations",
        "raise max_iter or tol",
        ConvergenceWarning,
    )


def of_runs(converged: Sequence[bool], max_iter: int, stability: float) -> Iterator[Diagnostic]:
    """Yield diagnostics of joined runs that did not converge, or that differ."""
    late = len(converged) - sum(converged)
    if late:
        yield Diagnostic(
            f"{late} of {len(converged)} runs had not converged after max_iter={max_iter} "
            "iterations",
            "raise max_iter or tol of the estimator",
            ConvergenceWarning,
        )
    if stability < _UNSTABLE:
        yield Diagnostic(
            f"the runs differ: their mean ARI with the result is {stability:.2f}",
            "look at certainty_, and compare with fewer clusters or another scale=",
        )


def of_few_runs(n_done: int, n_runs: int, *, same_anchors: bool) -> Iterator[Diagnostic]:
    """Yield a diagnostic if there are too few runs, or too similar ones, for `stability_`."""
    if n_done < min(n_runs, 2):
        yield Diagnostic(
            f"{n_done} of n_runs={n_runs} runs was done, so that stability_ and certainty_ "
            "compare it with itself",
            "fit again",
        )
    elif same_anchors:
        yield Diagnostic(
            f"all {n_done} runs have the same anchors, so that stability_ and certainty_ say "
            "nothing about the choice of anchors",
            "use anchors='kmeans' and fewer anchors than there are distinct samples",
        )


def _about_views(model: Any) -> Iterator[Diagnostic]:
    names, weights = model.view_names_, model.view_weights_
    uninformative = model._rule.learned.uninformative
    if uninformative.all():
        yield Diagnostic("all samples are the same in every view after scaling", "look at the data")
        return
    for name in np.array(names, dtype=object)[uninformative]:
        yield Diagnostic(
            f"view {name!r} is the same for all samples after scaling, and says nothing about "
            "clusters: its weight is 0",
            "leave it out",
        )
    largest = int(np.argmax(weights))
    active_views = len(names) - int(uninformative.sum())
    if not isinstance(model._weighting, str):
        return
    if active_views > 1 and weights[largest] > _NEARLY_ALL:
        yield Diagnostic(
            f"view {names[largest]!r} took {weights[largest]:.0%} of the weight, and the other "
            "views hardly count",
            "compare with weighting='uniform', or leave that view out",
        )
        return
    found = ignored_views(names, weights, uninformative, model._weighting)
    yield from (Diagnostic(*seen) for seen in found)


def _about_sizes(model: Any, sizes: Array) -> Iterator[Diagnostic]:
    c, n = model.n_clusters_, int(sizes.sum())
    empty = int((sizes == 0).sum())
    if empty:
        yield Diagnostic(
            f"only {c - empty} of n_clusters={c} clusters hold samples",
            "lower n_clusters, raise n_init, or change beta or n_anchors",
            ConvergenceWarning,
        )
    largest = int(np.argmax(sizes))
    if c - empty > 1 and sizes[largest] > _NEARLY_ALL * n:
        yield Diagnostic(
            f"cluster {largest} holds {sizes[largest] / n:.0%} of the samples",
            "look at view_scales_ and try another scale= for the views, or n_anchors=",
        )


def _about_agreement(model: Any, sampled: SampledGraphs) -> Iterator[Diagnostic]:
    """Yield diagnostics of views that show other groups than the result, and of copies."""
    graphs, present = sampled.graphs, sampled.graphs.present
    labels = on_host(model.labels_ if sampled.rows is None else model.labels_[sampled.rows])
    complete = np.arange(graphs.n) if present is None else np.flatnonzero(present.all(axis=1))
    if len(complete) < 2:
        return
    some = complete[sample_rows(len(complete))]
    graphs, labels = graphs[some], labels[some]
    active_views = np.flatnonzero(~model._rule.learned.uninformative).tolist()
    shares = explained_shares(graphs, labels)
    most = float(shares[active_views].max())
    deviating = [v for v in active_views if shares[v] < _LITTLE and most >= _MUCH]
    for v in deviating:
        yield Diagnostic(
            f"view {model.view_names_[v]!r} shows other groups than the result, or none: the "
            f"clusters explain {shares[v]:.0%} of its graph",
            "see explain_views(), and compare with a fit without it",
        )
    others = [v for v in active_views if v not in deviating]
    yield from _about_contradictions(model, graphs, labels, others, sampled.alone)
    weighting = model._weighting  # a name, or an array of weights
    if isinstance(weighting, str) and weighting != "distinct":
        within = cosines_within(graphs, view_products(graphs), labels)
        copies = same_views(model.view_names_, within, active_views, weighting)
        yield from (Diagnostic(*seen) for seen in copies)


def _about_contradictions(
    model: Any, graphs: AnchorGraphs, labels: Array, views: list[int], alone: dict[int, Array]
) -> Iterator[Diagnostic]:
    """Yield diagnostics of views with clear groups that neither another view nor the result shows.

    If views contradict one another, the result mixes them. Clustering each view alone tells such
    views from noisy ones; this is done only if the graphs of two views differ.
    """
    rows = np.linspace(0, graphs.n - 1, min(graphs.n, _ALONE)).astype(int)
    graphs, labels = graphs.of_views(views)[rows], labels[rows]
    alike = cosines_within(graphs, view_products(graphs), np.zeros_like(labels))
    np.fill_diagonal(alike, 0)
    if len(views) < 2 or alike.max(axis=1).min() >= _UNLIKE:
        return
    shares = explained_shares(graphs, labels)
    problem = model._problem(len(model.view_names_))

    def groups(at: int) -> Array:
        if views[at] not in alone:
            c, one = model.n_clusters_, graphs.of_views([at])
            (fit,) = spectral_refits(one, for_views(problem, [0]), [c])
            alone[views[at]] = fit.labels
        return alone[views[at]]

    # The groups of a view explain at most all of its graph, so explaining half of it is enough.
    for at in np.flatnonzero(shares < 0.5).tolist():
        v, others = views[at], [u for u in range(len(views)) if u != at]
        explained_alone = float(explained_shares(graphs.of_views([at]), groups(at))[0])
        is_shown = shares[at] >= explained_alone / 2 or explained_alone < _CLEAR
        if not is_shown and all(ari(groups(u), groups(at)) < _CHANCE for u in others):
            yield Diagnostic(
                f"view {model.view_names_[v]!r} contradicts the others: the clusters explain "
                f"{shares[at]:.0%} of its graph, groups of its own, which no other view shows, "
                f"{explained_alone:.0%}",
                "cluster it by itself, or leave it out",
            )


def cluster_sizes(labels: Any, n_clusters: int) -> Array:
    """Return the number of samples per cluster, counted in place (on a device, in Dask)."""
    if hasattr(labels, "cpu"):
        return np.asarray(labels.bincount(minlength=n_clusters).cpu().numpy())
    return np.asarray(np.bincount(labels, minlength=n_clusters))


def linked_gaps(
    gaps: Gaps, labels: Array, n_clusters: int, team: Team = SOLO
) -> tuple[int, int, float, float] | None:
    """Return the feature whose missing cells depend on the clusters; None if that may be chance.

    Further results: the cluster with the largest difference, and the shares of missing cells there
    and elsewhere. Each process of a team passes its own rows and labels.

    The largest Cramér's V over the features must exceed 0.3 and those of 199 permutations of the
    labels, so that missing cells at random raise a false alarm in at most 1 of 200 views.
    """
    own_labels = np.asarray(labels)[gaps.rows].astype(np.intp)
    collected = team.each(lambda: (own_labels, gaps.missing))
    labels, missing_cells = (np.concatenate(parts) for parts in zip(*collected, strict=True))
    if not len(labels):
        return None
    strengths = _strengths(missing_cells, labels, n_clusters)
    best = int(np.argmax(strengths))
    if strengths[best] < _STRONG:
        return None
    rng = np.random.default_rng(0)
    for _ in range(_PERMUTATIONS):
        if _strengths(missing_cells, rng.permutation(labels), n_clusters).max() >= strengths[best]:
            return None
    missing = missing_cells[:, best]
    inside, sizes = _by_cluster(missing[:, None], labels, n_clusters)
    share = inside[:, 0] / np.maximum(sizes, 1)
    rest = (missing.sum() - inside[:, 0]) / np.maximum(len(labels) - sizes, 1)
    cluster = int(np.argmax(share - rest))
    feature = int(gaps.features[best])
    return feature, cluster, float(share[cluster]), float(rest[cluster])


def _by_cluster(missing: Mask, labels: Array, n_clusters: int) -> tuple[Floats, Floats]:
    """Return the number of missing cells per cluster and feature, and the sizes of the clusters."""
    sizes = np.bincount(labels, minlength=n_clusters).astype(np.float64)
    return members(labels, n_clusters, np.float64) @ missing, sizes


def _strengths(missing: Mask, labels: Array, n_clusters: int) -> Floats:
    """Return Cramér's V between the missing cells of each feature and the clusters."""
    counts, sizes = _by_cluster(missing, labels, n_clusters)
    share = missing.mean(axis=0)
    spread = (sizes[:, None] * (counts / np.maximum(sizes, 1)[:, None] - share) ** 2).sum(axis=0)
    strengths: Floats = np.sqrt(spread / np.maximum(len(labels) * share * (1 - share), 1e-300))
    return strengths
