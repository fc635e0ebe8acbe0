"""Describe the views of a model: numbers, a table, and warnings in plain words."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omcal.machine.arrays import Floats, Mask
from omcal.model.tabular import Tabular

Range = tuple[float, float]

SAME_RESULT = 0.95  # adjusted Rand index from which two results are called the same
SAME_GRAPH = 0.95  # cosine inside the clusters from which two views are called the same
IGNORED = 0.05  # of an equal share of the weight
LEANS = 0.5  # of all weight, on one of three or more views
CLEARLY = 0.01  # how much more must be explained to be called better


@dataclass(frozen=True)
class ViewEffect:
    """The effect of one view. Ranges are the least and the largest value over the resamples.

    Attributes
    ----------
    name : str
        That of the view.
    weight : float
        Of the model.
    agreement : float
        Cosine between the view's graph and the clustering, 0 to 1.
    without : float
        Adjusted Rand index between the result without the view and that of all views: 1 where
        nothing changes.
    alone : float
        The same for the result of the view alone.
    explained : float
        Share of the variance of the view's graph that lies between the clusters.
    explained_alone : float
        Share that the result of the view alone explains, as a mean over all views.
    weight_range, agreement_range, without_range : (float, float) or None
        Of `weight`, `agreement` and `without`; None where nothing was resampled. Weights by the
        rule "adaptive" are not estimated anew, and have no range.
    agreement_by_cluster : tuple of float
        Agreement on the samples of each cluster.
    kept_without_by_cluster : tuple of float
        For each cluster its overlap with the most similar cluster of the result without the view:
        shared samples among those in either of the two.

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
        Observations that a user should know, in plain words.
    explained : float
        Share of the views' graphs that the clusters explain, in the mean: a score without labels.
    repeated_range : (float, float) or None
        Adjusted Rand index between the result and those of all views on resamples: how much of a
        change is chance.
    cluster_sizes : tuple of int
        Number of samples in each cluster.
    n_samples, n_resamples : int
        Number of samples and of resamples that the figures rest on.

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


@dataclass(frozen=True)
class ViewFacts:
    """The figures that the warnings need beside the explanation."""

    cosines_within: Floats  # (V, V): of the graphs, less the means of the clusters
    weighting: str  # of the model: adaptive, agreement, distinct or fixed
    # The mean share with weighting="agreement"; None where the model's rule is not "adaptive".
    explained_by_agreement: float | None
    uninformative: Mask  # views that are the same for all samples


def warnings_about(found: ViewExplanation, facts: ViewFacts) -> list[str]:
    """Return the warnings about the views."""
    return [
        *_leaning(found, facts),
        *_sufficient(found),
        *_ignored(found, facts),
        *_twins(found, facts),
        *_beaten(found, facts),
    ]


def _twins(found: ViewExplanation, facts: ViewFacts) -> list[str]:
    cosines = facts.cosines_within
    shared = facts.weighting == "distinct"
    follows = "and share the weight of one view" if shared else "so what they say counts twice"
    return [
        f"views {first.name!r} and {second.name!r} are the same (inside the clusters their "
        f"graphs still agree to {cosines[u, v]:.2f}), {follows}; leave one of them out."
        for u, first in enumerate(found.views)
        for v, second in enumerate(found.views)
        if u < v and cosines[u, v] >= SAME_GRAPH
    ]


def _leaning(found: ViewExplanation, facts: ViewFacts) -> list[str]:
    """Whether one of many views has most of the weight, and whether that does good."""
    first = max(found.views, key=lambda view: view.weight)
    if len(found.views) < 3 or first.weight < LEANS:
        return []
    text = (
        f"the weights lean on view {first.name!r}: it has {first.weight:.0%} of the weight, "
        f"and the other {len(found.views) - 1} views share the rest. Without it the clusters agree "
        f"with these by an ARI of {first.without:.2f}."
    )
    score = facts.explained_by_agreement
    if score is not None and score > found.explained + CLEARLY:
        text += (
            " That does not make it the best view: adaptive weights prefer the view that falls "
            "most easily into groups (the smoothest graph), even if the other views show "
            "different groups. Weights by agreement give clusters that explain more of all views "
            f'({score:.1%} instead of {found.explained:.1%}): try weighting="agreement".'
        )
    return [text]


def sufficient(found: ViewExplanation) -> list[ViewEffect]:
    """Return the views that give the result each by itself; several confirm each other."""
    return [view for view in found.views if view.alone >= SAME_RESULT]


def _sufficient(found: ViewExplanation) -> list[str]:
    enough = sufficient(found)
    return [
        f"view {view.name!r} alone gives the same result (ARI {view.alone:.2f}); the other views "
        "change next to nothing."
        for view in enough
        if len(enough) == 1
    ]


def other_weighting(weighting: str) -> str:
    """Return the rule to try where this one has gone wrong: by agreement, or uniform."""
    return "uniform" if weighting in ("agreement", "distinct") else "agreement"


def _ignored(found: ViewExplanation, facts: ViewFacts) -> list[str]:
    return [
        f"view {view.name!r} is ignored: its weight is {view.weight:.3f}. If it should count, try "
        f'weighting="{other_weighting(facts.weighting)}"; if not, leave it out.'
        for view, uninformative in zip(found.views, facts.uninformative, strict=True)
        if view.weight * len(found.views) < IGNORED and not uninformative
    ]


def _beaten(found: ViewExplanation, facts: ViewFacts) -> list[str]:
    best = max(found.views, key=lambda view: view.explained_alone)
    if best.explained_alone <= found.explained + CLEARLY:
        return []
    return [
        f"all views together are worse than view {best.name!r} alone by a score without labels: "
        f"they explain {found.explained:.1%} of the views' graphs, it alone "
        f'{best.explained_alone:.1%}; try weighting="{other_weighting(facts.weighting)}", or fewer '
        "views."
    ]


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
