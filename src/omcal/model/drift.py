"""Compare new samples with those of a fit: which views, features and clusters have moved."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Additive, Floats, as_dense
from omcal.method.graph import AnchorGraphs
from omcal.method.moments import Moments
from omcal.method.new_samples import indicate
from omcal.method.points import members
from omcal.method.scaling import Scaling
from omcal.model.certainty import typicality
from omcal.model.tabular import Tabular
from omcal.views.present import check_present
from omcal.views.reading import read_views
from omcal.views.view import Matrix, Views

ALARM_RATE = 0.01  # probability of a false alarm in all comparisons of a call
_FAMILIES = 4  # views, features, clusters, outliers: they share the rate equally
_MUCH = 0.1  # refit if this share of the weights has moved to other anchors
_MOST_FEATURES = 20  # listed per view


@dataclass(frozen=True)
class Reference(Additive):
    """Sums over the samples of a fit.

    Each anchor belongs to the cluster in which it has the largest weight. Single anchors are not
    compared: they are means of samples of the fit, which are therefore nearer to them than later
    samples.
    """

    n_fit: float  # number of samples of the fit, which the moments of the scalings cover
    sizes: Floats  # (c,), number of samples per cluster
    mass: Floats  # (V, c, g), sums of weights of the samples of a cluster by group of anchors
    squares: Floats  # (V, c, g), sums of the squares of these weights

    @classmethod
    def of(cls, graphs: AnchorGraphs, labels: Any, G: Floats, n_fit: float = 0.0) -> Reference:
        """Return the sums of samples, of one cluster if labels are None; G is the basis."""
        n, V, c = graphs.n, graphs.n_views, G.shape[1]
        groups = G.argmax(axis=1)
        member = np.ones((1, n)) if labels is None else members(labels, c, np.float64)
        cells = np.arange(0, n * V * c, c).reshape(n, V, 1) + groups[graphs.indices]
        weights = graphs.weights.astype(np.float64, copy=False).ravel()
        at_groups = np.bincount(cells.ravel(), weights, n * V * c).reshape(n, V * c)
        mass, squares = (
            (member @ part).reshape(-1, V, c).transpose(1, 0, 2)
            for part in (at_groups, at_groups**2)
        )
        return cls(n_fit, np.asarray(member.sum(axis=1)), mass, squares)

    @property
    def parts(self) -> tuple[Floats, Floats, Floats]:
        return self.sizes, self.mass, self.squares

    @property
    def n(self) -> float:
        return float(self.sizes.sum())


@dataclass(frozen=True)
class Moved:
    """One comparison of new samples with those of the fit.

    Attributes
    ----------
    kind : {"view", "feature", "cluster size", "cluster place", "outliers"}
        The quantity that is compared.
    name : str
        Name of the view, of the view and the feature, or of the cluster.
    before, now : float
        Its value in the fit and in the new samples: share of samples, or mean of a feature; None
        for other quantities.
    change : float
        For a view or the place of a cluster: share of the weights that has moved to anchors of
        other clusters. For a feature: difference of the means in standard deviations. Else `now` −
        `before`.
    p : float
        Upper bound of the probability of such a difference by chance, corrected for the number of
        comparisons. That of a view is at most that of its features.
    view : str
        Name of the view of a feature.

    Examples
    --------
    >>> moved = Moved("cluster size", "2", 0.3, 0.5, 0.2, 0.001)
    >>> moved.now > moved.before
    True
    """

    kind: str
    name: str
    before: float | None
    now: float | None
    change: float
    p: float
    view: str = ""


@dataclass(frozen=True)
class Drift(Tabular):
    """New samples compared with those of the fit; `print` it.

    Attributes
    ----------
    comparisons : list of Moved
        Comparisons of every view, every cluster, the outliers, and the features that moved most.
    n_samples : int
        Number of new samples.
    alarm_rate : float
        Probability of a false alarm: that a comparison counts as moved although nothing has.
    notes : list of str
        Comparisons that were impossible.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(600, n_clusters=3, random_state=0)
    >>> model = OMCAL(3, random_state=0).fit([view[:400] for view in data.views.values()])
    >>> new = [view[400:] for view in data.views.values()]
    >>> model.drift(new).moved
    []
    >>> new[0] = new[0] + 3
    >>> sorted({one.name for one in model.drift(new).moved if one.kind == "view"})
    ['view1']
    """

    comparisons: list[Moved]
    n_samples: int
    alarm_rate: float = ALARM_RATE
    notes: list[str] = field(default_factory=list)

    @property
    def moved(self) -> list[Moved]:
        """Return the comparisons with a difference beyond chance."""
        return [one for one in self.comparisons if one.p <= self.alarm_rate]

    @property
    def refit(self) -> bool:
        """Whether to fit again: a cluster has moved, or there are more outliers."""
        return any(
            one.kind == "outliers" or (one.kind == "cluster place" and one.change > _MUCH)
            for one in self.moved
        )

    def to_frame(self) -> Any:
        frame = super().to_frame()
        return frame.assign(moved=frame["p"] <= self.alarm_rate)

    def remarks(self) -> list[str]:
        lines = [f"{self.n_samples} new samples against the fit."]
        if not self.moved:
            lines[0] = f"{lines[0][:-1]}: nothing has moved (false alarms: {self.alarm_rate:.0%})."
        lines += self.notes
        if self.refit:
            lines.append("Fit again: omcal cluster with --like, or fit(X, like=model).")
        return lines

    def _table(self) -> list[Sequence[str]]:
        rows = [
            (one.kind, one.name, _number(one.before), _number(one.now),
             _CHANGES[one.kind](one.change))
            for one in self.moved
        ]  # fmt: skip
        return [("moved", "name", "before", "now", "change"), *rows]

    def _items(self) -> Sequence[Moved]:
        return self.comparisons


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.3g}"


def _elsewhere(change: float) -> str:
    return f"{change:.0%} of its weights lie at anchors of other clusters"


def _of_view(change: float) -> str:
    return _elsewhere(change) if change >= 0.005 else "features only: its weights have not moved"


_CHANGES: dict[str, Any] = {
    "view": _of_view,
    "cluster place": _elsewhere,
    "cluster size": "{:+.1%} of the samples".format,
    "outliers": "{:+.1%} of the samples".format,
    "feature": "{:+.2f} standard deviations".format,
}


def chance(delta: Floats, variance: Floats, n: Any, n_new: Any, largest: Any = 1.0) -> Floats:
    """Return an upper bound of the probability that two means differ by chance (Bernstein).

    `variance` is the variance of one value, `largest` its largest distance from the mean.
    """
    spread = variance * (1 / n + 1 / n_new)
    size = np.abs(delta)
    bound = spread + size * largest / (3 * np.minimum(n, n_new))
    exponent = np.divide(size**2, 2 * bound, out=np.zeros_like(size), where=bound > 0)
    return np.asarray(np.minimum(2 * np.exp(-exponent), 1.0))


def compare_views(old: Reference, new: Reference) -> tuple[Floats, Floats]:
    """Return the change of each view, and an upper bound of the probability that it is chance."""
    return _compare(*((one.mass.sum(axis=1), one.squares.sum(axis=1), one.n) for one in (old, new)))


def compare_places(old: Reference, new: Reference, cluster: int) -> tuple[float, float]:
    """Return the largest change of a cluster in any view, and an upper bound of its probability."""
    n, n_new = old.sizes[cluster], new.sizes[cluster]
    if not n or not n_new:
        return 0.0, 1.0
    change, p = _compare(
        *((one.mass[:, cluster], one.squares[:, cluster], one.sizes[cluster]) for one in (old, new))
    )
    return float(change.max()), min(1.0, float(p.min()) * len(p))


def _compare(old: Any, new: Any) -> tuple[Floats, Floats]:
    """Compare means of graph rows, given as sums, sums of squares and numbers of rows."""
    (mass, squares, n), (mass_new, squares_new, n_new) = old, new
    delta = mass_new / n_new - mass / n
    mean = (mass + mass_new) / (n + n_new)
    variance = np.maximum((squares + squares_new) / (n + n_new) - mean**2, 0)
    p = chance(delta, variance, n, n_new)
    change = np.abs(delta).sum(axis=-1) / 2
    return change, np.minimum(1.0, p.min(axis=-1) * p.shape[-1])


def _corrected(p: float, number: int) -> float:
    """Return the Bonferroni-corrected probability for one of `number` comparisons of a family."""
    return min(1.0, float(p) * number * _FAMILIES)


def compare_all(
    old: Reference, new: Reference, names: list[str], cluster_names: list[str]
) -> Iterator[Moved]:
    """Yield the comparisons of views and clusters."""
    V, c = len(names), len(cluster_names)
    for name, change, p in zip(names, *compare_views(old, new), strict=True):
        yield Moved("view", name, None, None, float(change), _corrected(p, V))
    share, now = old.sizes / old.n, new.sizes / new.n
    pooled = (old.sizes + new.sizes) / (old.n + new.n)
    p = chance(now - share, pooled * (1 - pooled), old.n, new.n)
    for j, name in enumerate(cluster_names):
        sizes = float(share[j]), float(now[j])
        chance_of_size = _corrected(p[j], 2 * c)
        yield Moved("cluster size", name, *sizes, sizes[1] - sizes[0], chance_of_size)
        change, of_place = compare_places(old, new, j)
        yield Moved("cluster place", name, None, None, change, _corrected(of_place, 2 * c))


def compare_outliers(share: float, n: float, n_outliers: int, n_new: int) -> Moved:
    """Compare the share of outliers among new samples with that of the fit."""
    now = n_outliers / n_new
    pooled = np.array((share * n + n_outliers) / (n + n_new))
    p = chance(np.array(now - share), pooled * (1 - pooled), n, n_new)
    p = p if now > share else np.ones(())
    return Moved("outliers", "", share, now, now - share, _corrected(float(p), 1))


def compare_features(
    views: Views, scalings: list[Scaling], columns: list[Any], n: float
) -> Iterator[Moved]:
    """Yield the features of each view that differ most, if the scaling has their means."""
    for view, scaling, names in zip(views, scalings, columns, strict=True):
        if scaling.mean is None or scaling.variance is None:
            continue
        rows = view.array if view.present is None else view.array[view.present]
        n_new = rows.shape[0]
        if not n_new:
            continue
        block = rows.astype(view.dtype, copy=False)
        binary = scaling.kind.name == "tfidf"
        moments, largest = _moments(block != 0 if binary else scaling.prepare(block))
        pooled = Moments(int(n), scaling.mean, n * scaling.variance) + moments
        variance, delta = pooled.squares / pooled.n, moments.mean - scaling.mean
        p = chance(delta, variance, n, n_new, np.maximum(largest, np.abs(delta)))
        deviation = np.sqrt(np.maximum(variance, 0))
        change = np.divide(delta, deviation, out=np.zeros_like(delta), where=deviation > 0)
        for j in np.argsort(p, kind="stable")[:_MOST_FEATURES]:
            name = f"{view.name}: {names[j] if names else j}"
            values = float(scaling.mean[j]), float(moments.mean[j]), float(change[j])
            by_chance = _corrected(p[j], len(views) * view.width)
            yield Moved("feature", name, *values, by_chance, view.name)


def _moments(block: Matrix) -> tuple[Moments, Floats]:
    """Return the moments, and the largest distance from the mean (sparse: from zero) by feature."""
    moments = Moments.of(block)
    distance = block if sparse.issparse(block) else block - moments.mean
    return moments, as_dense(abs(distance).max(axis=0)).ravel()


def find_drift(model: Any, X: Any, present: Any = None) -> Drift:
    """Compare the samples of X with those that a model was fitted to."""
    run, old = model._described, model._reference
    if old is None:
        raise ValueError(
            "drift needs sums of the fit, which this model lacks: it was fitted on a device or by "
            "ranks, or saved by an earlier version; fit it again on the CPU."
        )
    views = read_views(run, X, reset=False, present=present, home="memory")
    check_present(views.present)
    learned, Z = run._rule.learned, run._rule.consensus
    graphs = learned.graphs(views)
    new = Reference.of(graphs, model._rule.labels(views), Z.G)
    features = list(compare_features(views, learned.scalings, run._view_columns, old.n_fit))
    best = {name: [one.p for one in features if one.view == name] for name in views.names}
    found = [
        replace(one, p=min([one.p, *best[one.name]])) if one.kind == "view" else one
        for one in compare_all(old, new, list(views.names), model.cluster_names_)
    ]
    found += features
    scores = typicality(np.maximum(indicate(Z, graphs)[0], 0))
    strange = int(np.count_nonzero(scores < model.outlier_threshold_))
    found.append(compare_outliers(run.contamination, old.n, strange, views.n))
    without = [v.name for v, s in zip(views, learned.scalings, strict=True) if s.mean is None]
    notes = [
        f"features of the view {name} are not compared: their means are not known"
        for name in without
    ]
    return Drift(found, views.n, notes=notes)
