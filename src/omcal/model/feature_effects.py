"""Describe the clusters of a model: features that stand out, a table, and remarks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from omcal.model.tabular import Tabular


@dataclass(frozen=True)
class FeatureEffect:
    """A feature in which the samples of a cluster differ from all others.

    Attributes
    ----------
    cluster : int
        The cluster.
    view, feature : str
        Their names; a feature without one has its number.
    effect : float
        Mean in the cluster less the mean elsewhere, in standard deviations of all samples; below 0
        where the cluster has less of it. Of amounts the logarithm of 1 + x is taken; where the
        fit took them for terms ("tfidf"), x is the share in the sample, per thousand.
    share, share_elsewhere : float
        Share of the samples, in the cluster and elsewhere, that have the feature at all where it is
        an amount, such as the count of a term, or more of it than the mean of all samples.
    mean, mean_elsewhere : float
        Of the feature as it was given, in the cluster and elsewhere.
    low, high : float
        Between them lie the bins of the distribution; what lies beyond is in the outermost.
    inside, outside : tuple of float
        Shares of the samples in each bin, in the cluster and elsewhere.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> first = model.describe_clusters(data.views, top=1).features[0]
    >>> first.cluster, first.view, (first.effect > 0) == (first.mean > first.mean_elsewhere)
    (0, 'view1', True)
    """

    cluster: int
    view: str
    feature: str
    effect: float
    share: float
    share_elsewhere: float
    mean: float
    mean_elsewhere: float
    low: float
    high: float
    inside: tuple[float, ...]
    outside: tuple[float, ...]


@dataclass(frozen=True)
class ClusterDescription(Tabular):
    """The features that make each cluster; `print` it for a table.

    Attributes
    ----------
    features : tuple of FeatureEffect
        By cluster, then by view, the largest effect first.
    typical : dict
        View -> for each cluster the samples nearest to its mean there.
    cluster_sizes : tuple of int
        Number of samples in each cluster.
    named : tuple of str
        Views whose features have names; those of the others have numbers.
    amounts : tuple of str
        Views that hold amounts: never below zero, and mostly zero.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(90, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, n_anchors=12, random_state=0).fit(data.views)
    >>> described = model.describe_clusters(data.views, top=2)
    >>> len(described.features), len(described.of(cluster=1, view="view2"))
    (18, 2)
    """

    features: tuple[FeatureEffect, ...]
    typical: dict[str, tuple[tuple[int, ...], ...]]
    cluster_sizes: tuple[int, ...]
    named: tuple[str, ...]
    amounts: tuple[str, ...]

    def of(self, cluster: int, view: str | None = None) -> list[FeatureEffect]:
        """Return the features of a cluster, in one view or in all.

        Parameters
        ----------
        cluster : int
            The cluster.
        view : str, optional
            The view; by default all.

        Returns
        -------
        list of FeatureEffect
            By view, the largest effect first.
        """
        return [f for f in self._by_cluster.get(cluster, ()) if view in (None, f.view)]

    @cached_property
    def _by_cluster(self) -> dict[int, list[FeatureEffect]]:
        found: dict[int, list[FeatureEffect]] = {}
        for feature in self.features:
            found.setdefault(feature.cluster, []).append(feature)
        return found

    def _table(self) -> list[Sequence[str]]:
        header = ("cluster", "view", "feature", "effect", "here", "elsewhere")
        return [header, *map(_table_row, self.features)]

    def _items(self) -> Sequence[FeatureEffect]:
        return self.features

    def remarks(self) -> list[str]:
        lines = [
            "effect: mean in the cluster less that elsewhere, in standard deviations of all "
            "samples.",
            "here, elsewhere: share of the samples above the mean of all"
            + (f", or, in {', '.join(self.amounts)}, not zero." if self.amounts else "."),
        ]
        return lines + [
            f"typical in {view}, by cluster: " + "; ".join(map(_listed, self.typical[view]))
            for view in self.typical
            if view not in self.named
        ]


def _table_row(feature: FeatureEffect) -> tuple[str, ...]:
    return (
        str(feature.cluster),
        feature.view,
        feature.feature,
        f"{feature.effect:+.2f}",
        f"{feature.share:.1%}",
        f"{feature.share_elsewhere:.1%}",
    )


def _listed(samples: tuple[int, ...]) -> str:
    return ", ".join(map(str, samples)) or "none"
