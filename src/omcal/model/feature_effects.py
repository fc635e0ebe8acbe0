"""Describe clusters by the features in which their samples differ from all others."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import euclidean_distances

from omcal.machine.arrays import Array, as_dense
from omcal.machine.declaring import require_integer
from omcal.method.points import members
from omcal.metrics import ari
from omcal.model.stream import taken
from omcal.model.subset_fits import fitted_views, views_in_memory
from omcal.model.tabular import Tabular
from omcal.places.base import sample_rows
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.view import Matrix, Views

N_BINS = 10
_TYPICAL = 5
_BLOCK_ENTRIES = 1 << 22
_COMPARED = 500  # samples whose predictions are compared with their labels
_WIDE = 2.5  # standard deviations from the mean that the bins cover


@dataclass(frozen=True)
class FeatureEffect:
    """A feature in which the samples of a cluster differ from all others.

    Attributes
    ----------
    cluster : int
        The cluster.
    view, feature : str
        Their names; features without names have numbers.
    effect : float
        Mean in the cluster less the mean elsewhere, in standard deviations of all samples. For
        amounts it is computed from log(1 + x); if the fit scaled the view as terms ("tfidf"), x is
        the share of the sample, per thousand.
    share, share_elsewhere : float
        Share of the samples, in the cluster and elsewhere, with a value above the mean of all
        samples; for amounts, such as counts of terms, with a value that is not zero.
    mean, mean_elsewhere : float
        Means of the unscaled feature, in the cluster and elsewhere.
    low, high : float
        Range of the bins of the distribution; values beyond it are in the outermost bins.
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
    """The features that distinguish each cluster; `print` it for a table.

    Attributes
    ----------
    features : tuple of FeatureEffect
        By cluster, then by view, the largest effect first.
    typical : dict
        View -> for each cluster the samples that are nearest to its mean in the view.
    cluster_sizes : tuple of int
        Number of samples in each cluster.
    named : tuple of str
        Views whose features have names; those of the others have numbers.
    amounts : tuple of str
        Views of amounts: values are never negative, and mostly zero.

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
        return [f for f in self.features if f.cluster == cluster and view in (None, f.view)]

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
            f"typical in {view}, by cluster: "
            + "; ".join(", ".join(map(str, found)) or "none" for found in self.typical[view])
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


def describe_clusters(
    model: Any,
    X: ViewsLike,
    feature_names: Mapping[str, Collection[object]] | None,
    top: int,
    present: PresentLike | None,
) -> ClusterDescription:
    """Return `FittedModel.describe_clusters` of a fitted OMCAL or OCAL."""
    require_integer("top", top, 1)
    views = fitted_views(model, X, present)
    if views.home == "cluster":
        raise ValueError("X is in Dask, and its values are needed here; pass computed arrays.")
    labels = np.asarray(model.labels_)
    if views.n != len(labels):
        raise ValueError(
            f"X has {views.n} samples and the model was fitted to {len(labels)}; pass the X of fit."
        )
    some, rule = sample_rows(views.n, _COMPARED), getattr(model, "joined_by", model)._rule
    # Predictions differ from the labels of a fit for few samples.
    if not views.stored and ari(labels[some], rule.labels(taken(views, some))) < 0.5:
        warnings.warn(
            "the model predicts other clusters for X than it has in labels_: X has other samples "
            "than in fit, or in another order; pass the X of fit.",
            UserWarning,
            stacklevel=3,
        )
    names = _feature_names(model, views, feature_names or {})
    parts = [
        _ViewSums(view.name, view.width, model.n_clusters_, scaling)
        for view, scaling in zip(views, model._rule.learned.scalings, strict=True)
    ]
    _visit_rows(views, labels, parts, _ViewSums.add_sums)
    for part in parts:
        part.choose_features(top)
    _visit_rows(views, labels, parts, _ViewSums.add_distributions)
    return ClusterDescription(
        features=tuple(
            feature
            for cluster in range(model.n_clusters_)
            for part in parts
            for feature in part.effects(cluster, names.get(part.name))
        ),
        typical={
            part.name: tuple(tuple(sample for _, sample in found) for found in part.nearest)
            for part in parts
        },
        cluster_sizes=tuple(np.bincount(labels, minlength=model.n_clusters_).tolist()),
        named=tuple(name for name in views.names if name in names),
        amounts=tuple(part.name for part in parts if part.amounts),
    )


def _feature_names(
    model: Any, views: Views, given: Mapping[str, Collection[object]]
) -> dict[str, list[str]]:
    """Return the names of the features of each view that has any."""
    unknown = [name for name in given if name not in views.names]
    if unknown:
        raise ValueError(
            f"feature_names has the unknown view {unknown[0]!r}; use {list(views.names)}."
        )
    known = dict(zip(views.names, model._view_columns, strict=True))
    found = {}
    for view in views:
        listed = given.get(view.name, view.columns or known.get(view.name))
        if listed is None:
            continue
        if len(listed) != view.width:
            raise ValueError(
                f"feature_names[{view.name!r}] has {len(listed)} names for {view.width} features."
            )
        found[view.name] = [str(name) for name in listed]
    return found


def _visit_rows(
    views: Views,
    labels: Array,
    parts: list[_ViewSums],
    add: Callable[[_ViewSums, Matrix, Array, Array], None],
) -> None:
    """Pass blocks of the samples of each view, with labels and row numbers, to its part."""
    start = 0
    for block in views_in_memory(views):
        for part, view in zip(parts, block, strict=True):
            size = max(1, _BLOCK_ENTRIES // view.width)
            for first in range(0, block.n, size):
                there = np.arange(first, min(first + size, block.n))
                if view.present is not None:
                    there = there[view.present[there]]
                if len(there):
                    rows = view.rows(there).astype(np.float64, copy=False)
                    add(part, rows, labels[start + there], start + there)
        start += block.n


class _ViewSums:
    """Sums per cluster over the samples of one view."""

    def __init__(self, name: str, width: int, n_clusters: int, scaling: Any) -> None:
        self.name, self.scaling, self.c = name, scaling, n_clusters
        self.n = np.zeros(n_clusters)
        # Sums of x and x², of ln(1 + x) and its square, and of x scaled by the model.
        self.sums, self.log_sums = np.zeros((2, 2, n_clusters, width))
        self.scaled_sums = np.zeros((n_clusters, width))
        self.zeros = 0
        self.minimum, self.maximum = np.full(width, np.inf), np.full(width, -np.inf)
        self.nearest: list[list[tuple[float, int]]] = [[] for _ in range(n_clusters)]
        self.relative = scaling.kind.name == "tfidf"

    def add_sums(self, rows: Matrix, labels: Array, at: Array) -> None:
        member = members(labels, self.c, np.float64)
        self.n += member.sum(axis=1)
        self.zeros += rows.shape[0] * rows.shape[1] - (
            rows.count_nonzero() if sparse.issparse(rows) else np.count_nonzero(rows)
        )
        self.minimum = np.minimum(self.minimum, as_dense(rows.min(axis=0)).ravel())
        self.maximum = np.maximum(self.maximum, as_dense(rows.max(axis=0)).ravel())
        self.sums += _sums(member, rows)
        if self.minimum.min() >= 0:
            self.log_sums += _sums(member, _log(self._row_factors(rows) @ rows))
        self.scaled_sums += as_dense(member @ self.scaling.apply(rows))

    def _row_factors(self, rows: Matrix) -> Any:
        """Return one factor per row for amounts, because a long text has more of every word."""
        if not self.relative:
            return sparse.eye_array(rows.shape[0])
        total = np.asarray(rows.sum(axis=1)).ravel()
        return sparse.diags_array(np.divide(1e3, total, out=np.zeros_like(total), where=total > 0))

    @property
    def amounts(self) -> bool:
        """Whether values are never negative, and mostly zero: counts, or weights of terms."""
        total = self.n.sum() * len(self.minimum)
        return bool(self.minimum.min() >= 0 and self.zeros > total / 2)

    def choose_features(self, top: int) -> None:
        """Choose the features of each cluster from the sums of the first pass."""
        sums, squares = self.log_sums if self.amounts else self.sums
        n, rest = self.n[:, None], self.n.sum() - self.n[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            mean = sums.sum(axis=0) / self.n.sum()
            variance = squares.sum(axis=0) / self.n.sum() - mean**2
            # The rounding error of a constant feature is no difference.
            deviation = np.sqrt(np.where(variance > 1e-12 * (mean**2 + 1e-300), variance, np.nan))
            effect = (sums / n - (sums.sum(axis=0) - sums) / rest) / deviation
            self.means = self.sums[0] / n, (self.sums[0].sum(axis=0) - self.sums[0]) / rest
        self.effect = np.nan_to_num(effect, nan=0.0, posinf=0.0, neginf=0.0)
        order = np.argsort(-np.abs(self.effect), axis=1, kind="stable")[:, :top]
        self.chosen = [row[self.effect[c, row] != 0] for c, row in enumerate(order)]
        self.columns = np.unique(np.concatenate(self.chosen)).astype(np.intp)
        spread = np.nan_to_num(deviation)
        least, largest = self.minimum, self.maximum
        if self.amounts:
            bound = np.log1p(1e3) if self.relative else np.log1p(largest)
            least, largest = np.zeros_like(least), np.broadcast_to(bound, mean.shape)
        self.low = np.maximum(least, mean - _WIDE * spread)[self.columns]
        self.high = np.minimum(largest, mean + _WIDE * spread)[self.columns]
        self.threshold = np.zeros_like(mean) if self.amounts else mean
        self.above = np.zeros((len(self.columns), self.c))
        self.bins = np.zeros((len(self.columns), self.c, N_BINS))
        self.centres = self.scaled_sums / np.maximum(self.n, 1)[:, None]

    def add_distributions(self, rows: Matrix, labels: Array, at: Array) -> None:
        few = as_dense(rows[:, self.columns])
        if self.amounts:
            few = np.log1p(self._row_factors(rows) @ few)
        for k, column in enumerate(few.T):
            above = column > self.threshold[self.columns[k]]
            self.above[k] += np.bincount(labels[above], minlength=self.c)
            width = max(self.high[k] - self.low[k], 1e-300)
            place = np.clip((column - self.low[k]) / width * N_BINS, 0, N_BINS - 1).astype(np.intp)
            cells = np.bincount(labels * N_BINS + place, minlength=self.c * N_BINS)
            self.bins[k] += cells.reshape(self.c, N_BINS)
        scaled = self.scaling.apply(rows)
        for cluster in np.unique(labels):
            mine = np.flatnonzero(labels == cluster)
            away = euclidean_distances(self.centres[[cluster]], scaled[mine], squared=True)[0]
            nearest = np.argsort(away, kind="stable")[:_TYPICAL]
            found = zip(away[nearest].tolist(), at[mine[nearest]].tolist(), strict=True)
            self.nearest[cluster] = sorted([*self.nearest[cluster], *found])[:_TYPICAL]

    def effects(self, cluster: int, names: list[str] | None) -> Iterator[FeatureEffect]:
        here, total = self.n[cluster], self.n.sum()
        for feature in self.chosen[cluster]:
            k = int(np.searchsorted(self.columns, feature))
            inside, bins = self.bins[k, cluster], self.bins[k].sum(axis=0)
            above = self.above[k, cluster]
            yield FeatureEffect(
                cluster=cluster,
                view=self.name,
                feature=str(feature) if names is None else names[feature],
                effect=float(self.effect[cluster, feature]),
                share=float(above / here),
                share_elsewhere=float((self.above[k].sum() - above) / (total - here)),
                mean=float(self.means[0][cluster, feature]),
                mean_elsewhere=float(self.means[1][cluster, feature]),
                low=float(self.low[k]),
                high=float(self.high[k]),
                inside=tuple((inside / here).tolist()),
                outside=tuple(((bins - inside) / (total - here)).tolist()),
            )


def _sums(member: Any, rows: Matrix) -> Array:
    squares = rows.power(2) if sparse.issparse(rows) else np.square(rows)
    return np.stack([as_dense(member @ rows), as_dense(member @ squares)])


def _log(rows: Matrix) -> Matrix:
    return rows.log1p() if sparse.issparse(rows) else np.log1p(rows)
