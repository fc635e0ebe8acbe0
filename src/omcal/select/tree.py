"""A tree over numbers of clusters: how the clusters of a level split at the next level."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.metrics.cluster import contingency_matrix
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.extmath import safe_sparse_dot

from omcal.machine.arrays import Array, Floats, Seed
from omcal.machine.files import write_whole
from omcal.method.points import members
from omcal.method.scaling import Scale, Scaling
from omcal.model.explain import best_overlaps
from omcal.model.structure import few_directions
from omcal.select.levels import Level, Progress, Runs, fit_levels
from omcal.select.number import check_numbers, n_clusters, whole_sample
from omcal.views.like import ColumnsLike, PresentLike, ViewsLike
from omcal.views.view import Matrix, View

if TYPE_CHECKING:
    from omcal.model.parameters import Weighting

_FEATURES = 5  # per cluster
_LEVELS = 9
_RUNS = 4


class Edge(NamedTuple):
    """The samples that a cluster shares with a cluster of the next level.

    Attributes
    ----------
    level : int
        Number of clusters of the upper level.
    source, target : int
        Cluster of the upper level, and of the next one.
    size : int
        Number of samples in both.
    share : float
        Fraction of the samples of `source`.
    main : bool
        Whether most samples of `target` come from `source`; other edges jump between branches.
    """

    level: int
    source: int
    target: int
    size: int
    share: float
    main: bool


class Feature(NamedTuple):
    """A feature that sets a cluster apart: its mean there, in standard deviations from the mean."""

    view: str
    name: str
    deviation: float


@dataclass(frozen=True)
class ClusterTree:
    """Clusterings into increasing numbers of clusters, and their connections.

    A cluster keeps its number and colour along its branch: when it splits, one part keeps the
    number, and the others take the next free numbers.

    Attributes
    ----------
    numbers : tuple of int
        Number of clusters of each level.
    sizes : tuple of tuple of int
        Number of samples in each cluster, by level.
    stability : tuple of float
        Mean adjusted Rand index between two runs of a level.
    cluster_stability : tuple of tuple of float
        Mean Jaccard index of each cluster with the most similar cluster of each run.
    edges : tuple of Edge
        All connections, with the share of samples that go from cluster to cluster.
    jumps : tuple of float
        Share of the samples that jump between branches, from each level to the next.
    features : tuple of tuple of tuple of Feature
        The most different features of each cluster, by level.
    suggestion : int or None
        Suggested number of clusters; None where the levels were given.
    all_labels : array of shape (levels, n)
        The labels of each level, as `labels` gives them.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import cluster_tree
    >>> data = make_multiview(120, n_clusters=4, noise=0.3, random_state=0)
    >>> tree = cluster_tree(data.views, [2, 4])
    >>> tree.numbers, tree.sizes[1], tree.labels(4).shape
    ((2, 4), (30, 30, 30, 30), (120,))
    """

    numbers: tuple[int, ...]
    sizes: tuple[tuple[int, ...], ...]
    stability: tuple[float, ...]
    cluster_stability: tuple[tuple[float, ...], ...]
    edges: tuple[Edge, ...]
    jumps: tuple[float, ...]
    features: tuple[tuple[tuple[Feature, ...], ...], ...]
    suggestion: int | None
    all_labels: Array = field(repr=False)  # (levels, n)

    def labels(self, k: int) -> Array:
        """Return the cluster of each sample at the level of k clusters.

        Parameters
        ----------
        k : int
            One of `numbers`.

        Returns
        -------
        array of shape (n,)
            −1 for samples that are absent from a view, or were not among the `max_samples` drawn.
        """
        if k not in self.numbers:
            listed = ", ".join(map(str, self.numbers))
            raise ValueError(f"k={k!r} is not a level of the tree; its levels are {listed}.")
        return np.array(self.all_labels[self.numbers.index(k)])

    def __str__(self) -> str:
        lines = ["clusters  stability  jumps to next level  sizes"]
        for level, (k, jump) in enumerate(zip(self.numbers, (*self.jumps, None), strict=True)):
            sizes = ", ".join(map(str, sorted(self.sizes[level], reverse=True)[:6]))
            more = ", ..." if k > 6 else ""
            share = "" if jump is None else f"{jump:.1%}"
            lines.append(f"{k:<8}  {self.stability[level]:<9.2f}  {share:<19}  {sizes}{more}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from omcal.report.tree import tree_chart

        return tree_chart(self)

    def write(
        self,
        path: str | os.PathLike[str],
        *,
        ids: Collection[object] | None = None,
        title: str | None = None,
    ) -> Path:
        """Write a page with the tree, the features of its clusters, and labels to download.

        Parameters
        ----------
        path : str or path-like
            Of the HTML file.
        ids : collection, optional
            Names of the samples, for the labels; by default their numbers.
        title : str, optional
            Title of the page.

        Returns
        -------
        pathlib.Path
            The file.
        """
        from omcal.report.tree import tree_page

        path = Path(path)
        write_whole(path, tree_page(self, ids, title))
        return path


def cluster_tree(
    X: ViewsLike,
    numbers: Iterable[int] | None = None,
    *,
    views: ColumnsLike | None = None,
    present: PresentLike | None = None,
    scale: Scale = "auto",
    weighting: Weighting = "distinct",
    max_samples: int = 100_000,
    random_state: Seed = 0,
    progress: Progress = lambda text: None,
) -> ClusterTree:
    """Cluster X with several numbers of clusters, and connect the levels to a tree.

    Parameters
    ----------
    X : as in `OMCAL.fit`
        The views.
    numbers : iterable of int, optional
        Numbers of clusters of the levels, from 2 on. By default about nine, from 2 to beyond the
        suggestion of `n_clusters`, which is included.
    views : as in `OMCAL`
        Which columns of one table form which view.
    present : as in `OMCAL.fit`
        Samples that are absent from a view are not part of the tree.
    scale, weighting : as in `OMCAL`
        How the views are scaled, and how they are weighted.
    max_samples : int, default=100_000
        Of more samples a random choice is used.
    random_state : int, RandomState or None, default=0
        Seed of the choice of samples, and of the runs.
    progress : callable, optional
        Called with a line of text after each step.

    Returns
    -------
    ClusterTree
        Levels, sizes, stability and edges; `labels(k)` has the labels of a level.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(120, n_clusters=4, noise=0.3, random_state=0)
    >>> cluster_tree(data.views, [2, 4]).sizes
    ((60, 60), (30, 30, 30, 30))
    """
    rng = check_random_state(random_state)
    suggestion = None
    if numbers is None:
        read: dict[str, Any] = {"views": views, "present": present, "scale": scale}
        found = n_clusters(X, weighting=weighting, random_state=rng, progress=progress, **read)
        suggestion = found.suggestion
        listed = default_levels(suggestion, found.candidates[-1])
    else:
        listed = check_numbers("numbers", numbers)
    n, rows, sample = whole_sample(X, views, present, max_samples, rng, "cluster_tree")
    if 2 * listed[-1] > sample.n:
        raise ValueError(f"numbers go up to {listed[-1]}, beyond half of the {sample.n} samples.")
    scaled = [Scaling.fit(view, scale).apply(view.rows(slice(None))) for view in sample]
    seeds = rng.randint(2**31 - 1, size=_RUNS).tolist()
    runs = Runs([few_directions(A) for A in scaled], seeds, weighting)
    levels: dict[int, Level] = {}
    for found_levels, _ in fit_levels(runs, listed, progress):
        levels |= found_levels
    return _tree(levels, scaled, list(sample), rows, n, suggestion)


def default_levels(suggestion: int, most: int) -> list[int]:
    """Return about nine levels from 2 to beyond the suggested number."""
    top = min(max(12, round(1.5 * suggestion)), max(most, suggestion, 2))
    spaced = np.geomspace(2, top, _LEVELS) if top > 12 else (2, 3, 4, 5, 6, 8, 10, 12)
    found = {min(round(number), top) for number in spaced} | {max(suggestion, 2)}
    return sorted(found)


def _tree(
    levels: dict[int, Level],
    scaled: Sequence[Matrix],
    views: Sequence[View],
    rows: Array,
    n: int,
    suggestion: int | None,
) -> ClusterTree:
    """Number the clusters along their branches and connect the levels."""
    labels: list[Array] = []
    kept: dict[int, Level] = {}
    for level in levels.values():
        codes = np.unique(level.labels, return_inverse=True)[1].reshape(-1)
        c = int(codes.max()) + 1
        if c not in kept and (not labels or c > labels[-1].max() + 1):
            kept[c] = level  # the number of non-empty clusters of a level counts
            labels.append(numbered(codes, labels[-1] if labels else None))
    tables = [contingency_matrix(a, b) for a, b in pairwise(labels)]
    edges = [edge for c, table in zip(kept, tables, strict=False) for edge in edges_of(c, table)]
    everyone = np.full((len(labels), n), -1, dtype=np.int32)
    everyone[:, rows] = labels
    return ClusterTree(
        numbers=tuple(kept),
        sizes=tuple(tuple(np.bincount(one).tolist()) for one in labels),
        stability=tuple(level.stability for level in kept.values()),
        cluster_stability=tuple(
            similarity(one, level.runs) for one, level in zip(labels, kept.values(), strict=True)
        ),
        edges=tuple(edges),
        jumps=tuple(1 - float(table.max(axis=0).sum() / table.sum()) for table in tables),
        features=tuple(top_features(one, scaled, views) for one in labels),
        suggestion=suggestion,
        all_labels=everyone,
    )


def numbered(labels: Array, above: Array | None) -> Array:
    """Return the labels with the numbers of the level above; new clusters take the next numbers.

    New clusters, and those of the first level, are numbered by size, largest first.
    """
    order = np.argsort(-np.bincount(labels), kind="stable")
    if above is not None:
        matched = linear_sum_assignment(contingency_matrix(above, labels), maximize=True)[1]
        order = np.append(matched, order[~np.isin(order, matched)])
    new = np.empty_like(order)
    new[order] = np.arange(len(order))
    return new[labels]


def edges_of(level: int, table: Array) -> list[Edge]:
    """Return the edges between a level and the next, from their counts of shared samples."""
    largest, sizes = table.argmax(axis=0), table.sum(axis=1)
    return [
        Edge(level, a, b, int(table[a, b]), float(table[a, b] / sizes[a]), a == int(largest[b]))
        for a, b in np.argwhere(table).tolist()
    ]


def similarity(labels: Array, runs: Sequence[Array]) -> tuple[float, ...]:
    """Return for each cluster the mean Jaccard index with the most similar cluster of each run."""
    found = [best_overlaps(contingency_matrix(labels, run)) for run in runs]
    return tuple(np.mean(found, axis=0).tolist())


def top_features(
    labels: Array, scaled: Sequence[Matrix], views: Sequence[View]
) -> tuple[tuple[Feature, ...], ...]:
    """Return the features of each cluster whose means deviate most from those of all samples."""
    c = int(labels.max()) + 1
    member = members(labels, c, np.dtype(np.float64))
    sizes = np.bincount(labels)[:, None]
    found: list[list[Feature]] = [[] for _ in range(c)]
    for X, view in zip(scaled, views, strict=True):
        means: Floats = safe_sparse_dot(member, X, dense_output=True) / sizes
        spread = StandardScaler(with_mean=False).fit(X)
        away = np.where(spread.var_ > 0, means - spread.mean_, 0) / spread.scale_
        for cluster, row in enumerate(away):
            for j in np.argsort(-np.abs(row), kind="stable")[:_FEATURES].tolist():
                name = f"feature {j}" if view.columns is None else view.columns[j]
                found[cluster].append(Feature(view.name, name, float(row[j])))
    return tuple(
        tuple(sorted(some, key=lambda one: -abs(one.deviation))[:_FEATURES]) for some in found
    )
