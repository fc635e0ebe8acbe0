"""Describe the effect of each view: numbers, a table and warnings."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from omcal.machine.arrays import Floats, Mask
from omcal.model.tabular import Tabular

Range = tuple[float, float]

SAME_RESULT = 0.95  # two results count as the same from this adjusted Rand index on
SAME_GRAPH = 0.95  # two views count as the same from this cosine inside the clusters on
IGNORED = 0.05  # a view with less than this part of an equal weight counts as ignored
LEANS = 0.5  # share of the weight on one of three or more views that raises a warning
CLEARLY = 0.01  # a result is better if it explains more by this share


@dataclass(frozen=True)
class ViewEffect:
    """The effect of one view. Ranges are the smallest and the largest value over the resamples.

    Attributes
    ----------
    name : str
        Name of the view.
    weight : float
        Weight of the view in the model.
    agreement : float
        Cosine between the view's graph and the clustering, 0 to 1.
    without : float
        Adjusted Rand index between the result without the view and that of all views; 1: no change.
    alone : float
        Adjusted Rand index between the result of the view alone and that of all views.
    explained : float
        Share of the variance of the view's graph that lies between the clusters.
    explained_alone : float
        Share that the result of the view alone explains, as a mean over all views.
    weight_range, agreement_range, without_range : (float, float) or None
        Ranges of `weight`, `agreement` and `without`; None without resamples. Weights by the rule
        "adaptive" are not estimated again and have no range.
    agreement_by_cluster : tuple of float
        Agreement on the samples of each cluster.
    kept_without_by_cluster : tuple of float
        Jaccard index of each cluster with the most similar one of the result without the view.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, n_views=2, noise=(0.3, 1.5), random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> clear, noisy = model.explain_views(n_resamples=0).views
    >>> noisy.name, noisy.agreement < clear.agreement
    ('view2', True)
    """

    name: str
    weight: float
    agreement: float
    without: float
    alone: float
    explained: float
    explained_alone: float
    weight_range: Range | None
    agreement_range: Range | None
    without_range: Range | None
    agreement_by_cluster: tuple[float, ...]
    kept_without_by_cluster: tuple[float, ...]


@dataclass(frozen=True)
class ViewExplanation(Tabular):
    """The effects of the views of a model; `print` it for a table in words.

    Attributes
    ----------
    views : tuple of ViewEffect
        The effect of each view.
    warnings : tuple of str
        Observations that need attention, as sentences.
    explained : float
        Mean share of the graphs of the views that the clusters explain: a score without labels.
    repeated_range : (float, float) or None
        Adjusted Rand index between the result and results of all views on resamples: it shows the
        changes that are due to chance.
    cluster_sizes : tuple of int
        Number of samples in each cluster.
    n_samples, n_resamples : int
        Number of samples and of resamples behind these figures.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> found = OMCAL(3, n_anchors=12, random_state=0).fit(data.views).explain_views(n_resamples=0)
    >>> [view.name for view in found.views], found.n_samples
    (['view1', 'view2', 'view3'], 90)
    """

    views: tuple[ViewEffect, ...]
    warnings: tuple[str, ...]
    explained: float
    repeated_range: Range | None
    cluster_sizes: tuple[int, ...]
    n_samples: int
    n_resamples: int

    def remarks(self) -> list[str]:
        lines = [
            f"The clusters explain {self.explained:.1%} of the graphs of the views.",
            "ARI: agreement with the clusters of all views; 1 if they are the same, about 0 if "
            "they have nothing in common.",
        ]
        if self.repeated_range is not None:
            low, high = self.repeated_range
            lines.append(
                f"In brackets: range over {self.n_resamples} resamples of {self.n_samples} "
                f"samples. With all views their ARI is {low:.2f} to {high:.2f}, by chance alone; "
                "only lower values mean that a view makes a difference."
            )
        return lines + [f"Warning: {text}" for text in self.warnings]

    def _table(self) -> list[Sequence[str]]:
        header = ("view", "weight", "agreement", "ARI without it", "ARI alone")
        return [header, *map(_table_row, self.views)]

    def _items(self) -> Sequence[ViewEffect]:
        return self.views


def warnings_about(
    found: ViewExplanation,
    weighting: str,
    cosines_within: Floats,
    explained_by_agreement: float | None,
    uninformative: Mask,
) -> Iterator[str]:
    """Yield the warnings about the views.

    `weighting` is the rule of the model, or "fixed". `cosines_within` are the cosines between the
    graphs less the means of the clusters, (V, V). `explained_by_agreement` is the mean share with
    weighting="agreement", None if the rule is not "adaptive". `uninformative` marks constant views.
    """
    views, other = found.views, other_weighting(weighting)
    first = max(views, key=lambda view: view.weight)
    if len(views) >= 3 and first.weight >= LEANS:
        yield _dominant_view(found, first, explained_by_agreement)
    sufficient = sufficient_views(found)
    if len(sufficient) == 1:
        yield (
            f"view {sufficient[0].name!r} alone gives the same result "
            f"(ARI {sufficient[0].alone:.2f}); the other views change next to nothing."
        )
    names, weights = [view.name for view in views], [view.weight for view in views]
    of_some = ignored_views(names, weights, uninformative, weighting)
    of_pairs = same_views(names, cosines_within, range(len(views)), weighting)
    yield from (f"{what}; {advice}." for what, advice in (*of_some, *of_pairs))
    best = max(views, key=lambda view: view.explained_alone)
    if best.explained_alone > found.explained + CLEARLY:
        yield (
            f"all views together are worse than view {best.name!r} alone by a score without "
            f"labels: they explain {found.explained:.1%} of the views' graphs, it alone "
            f'{best.explained_alone:.1%}; try weighting="{other}", or fewer views.'
        )


def ignored_views(
    names: Sequence[str], weights: Sequence[float] | Floats, uninformative: Mask, weighting: str
) -> Iterator[tuple[str, str]]:
    """Yield an observation and a remedy for each view with hardly any weight.

    Uninformative views are left out: they have no weight under any rule.
    """
    for name, weight, constant in zip(names, weights, uninformative, strict=True):
        if weight * len(names) < IGNORED and not constant:
            yield (
                f"view {name!r} is ignored: its weight is {weight:.3f}",
                f"try weighting={other_weighting(weighting)!r} if it should count; if not, leave "
                "it out",
            )


def same_views(
    names: Sequence[str], cosines_within: Floats, views: Sequence[int], weighting: str
) -> Iterator[tuple[str, str]]:
    """Yield an observation and a remedy for each pair of views with the same graph."""
    distinct = weighting == "distinct"
    follows = "share the weight of one view" if distinct else "count twice"
    remedy = "leave one of them out" + ("" if distinct else ", or take weighting='distinct'")
    for u, v in combinations(views, 2):
        if cosines_within[u, v] >= SAME_GRAPH:
            yield f"views {names[u]!r} and {names[v]!r} are the same, and {follows}", remedy


def _dominant_view(found: ViewExplanation, first: ViewEffect, by_agreement: float | None) -> str:
    text = (
        f"the weights lean on view {first.name!r}: it has {first.weight:.0%} of the weight, "
        f"and the other {len(found.views) - 1} views share the rest. Without it the clusters agree "
        f"with these by an ARI of {first.without:.2f}."
    )
    if by_agreement is not None and by_agreement > found.explained + CLEARLY:
        text += (
            " That does not make it the best view: adaptive weights prefer the view that falls "
            "most easily into groups (the smoothest graph), even if the other views show "
            "different groups. Weights by agreement give clusters that explain more of all views "
            f'({by_agreement:.1%} instead of {found.explained:.1%}): try weighting="agreement".'
        )
    return text


def sufficient_views(found: ViewExplanation) -> list[ViewEffect]:
    """Return the views that alone give the same result as all views."""
    return [view for view in found.views if view.alone >= SAME_RESULT]


def other_weighting(weighting: str) -> str:
    """Return the weighting rule to try instead of this one: by agreement, or uniform."""
    return "uniform" if weighting in ("agreement", "distinct") else "agreement"


def _table_row(view: ViewEffect) -> tuple[str, ...]:
    return (
        view.name,
        _cell(view.weight, view.weight_range),
        _cell(view.agreement, view.agreement_range),
        _cell(view.without, view.without_range),
        _cell(view.alone),
    )


def _cell(value: float, interval: Range | None = None) -> str:
    return f"{value:.2f}" + (f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval else "")
