"""Numbers of clusters: by size, or as in an earlier clustering."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from omcal.machine.arrays import Array, Floats, on_host
from omcal.metrics import matched_clusters, overlaps
from omcal.views.adapt import separate_views
from omcal.views.columns import listed
from omcal.views.frames import index_of
from omcal.views.pair import require_unique

UNKNOWN = -1  # label of samples that the earlier clustering lacks
_MOST_NUMBERS = 100_000  # largest number of clusters; tables have a row per cluster


class Match(NamedTuple):
    """The cluster of an earlier clustering that a cluster continues.

    Attributes
    ----------
    cluster : int
        Number of the cluster.
    old : int or None
        Number of the earlier cluster; None: the cluster is new.
    share : float
        Jaccard index: samples in both clusters divided by samples in either, among the samples with
        an earlier label.
    """

    cluster: int
    old: int | None
    share: float


def old_labels(like: Any, X: Any, present: Any, n: int) -> Array:
    """Return the earlier cluster of each of the n samples of X; `UNKNOWN` if there is none.

    `like` is a fitted model (its predictions are used), an array of n labels, or labels by id (a
    mapping or a pandas Series) if views are data frames.
    """
    if hasattr(like, "predict"):
        like = on_host(like.predict(X) if present is None else like.predict(X, present=present))
    elif hasattr(like, "items") and not hasattr(like, "columns"):
        like = _by_id(like, X)
    labels = np.asarray(like)
    if labels.shape != (n,):
        raise ValueError(
            f"like has shape {labels.shape}; give a fitted model, or one label for each of the {n} "
            f"samples ({UNKNOWN} where there is none)."
        )
    whole = labels.dtype.kind in "iub"
    if not whole or labels.min(initial=0) < UNKNOWN or labels.max(initial=0) >= _MOST_NUMBERS:
        raise ValueError(
            f"like must be whole numbers from 0 to {_MOST_NUMBERS - 1}, or {UNKNOWN} for samples "
            "without a label; numpy.unique(like, return_inverse=True)[1] numbers other labels."
        )
    return labels.astype(np.int64)


def _by_id(like: Any, X: Any) -> list[Any]:
    """Return the label of each row of X by its id, compared as text; `UNKNOWN` without one."""
    known = {str(name): label for name, label in like.items()}
    require_unique(np.array([str(name) for name, _ in like.items()], str), "like")
    members = (separate_views(X) or {"X": X}).values()
    found = [ids for ids in map(index_of, members) if ids is not None]
    ids = [str(one) for one in found[0].values] if found else []
    if known.keys().isdisjoint(ids):
        raise ValueError(
            f"like maps ids to labels, and X has none of them: X has {listed(ids[:3])}, like has "
            f"{listed(list(known)[:3])}; pass data frames with these ids, or one label per sample."
        )
    return [known.get(one, UNKNOWN) for one in ids]


def names_like(like: Any, matches: list[Match]) -> list[str] | None:
    """Return names for clusters that continue named ones; None if there is no name."""
    known = getattr(like, "_cluster_names", None)
    if known is None:
        return None
    return [new_name(one.cluster, known) if one.old is None else known[one.old] for one in matches]


def new_name(cluster: int, known: Collection[str]) -> str:
    """Return the name of a new cluster: its number, unless a cluster is called so."""
    name = str(cluster)
    while name in known:
        name = f"new {name}"
    return name


def by_size(sizes: Array, order: Array | None = None) -> Array:
    """Return the clusters by size, largest first; clusters of equal size stay in `order`."""
    order = np.arange(len(sizes)) if order is None else order
    return np.asarray(order[np.argsort(-sizes[order], kind="stable")])


def as_before(table: Array, sizes: Array) -> tuple[Array, list[Match]]:
    """Return the order in which clusters have their earlier numbers, and the matches.

    Earlier numbers beyond the number of clusters are dropped; new clusters take free numbers.
    """
    c = len(sizes)
    old_of, shares = matched_clusters(table)
    order = np.full(c, -1)
    for cluster, old in enumerate(old_of):
        if 0 <= old < c:
            order[old] = cluster
    left = [cluster for cluster in by_size(sizes) if cluster not in order]
    order[order < 0] = left
    return order, [
        Match(number, int(old_of[cluster]) if old_of[cluster] >= 0 else None, shares[cluster])
        for number, cluster in enumerate(order.tolist())
    ]


def numbers_of(
    team: Any, sizes: Array, labels: Any, old: Array | None, order: Array | None = None
) -> tuple[Array, list[Match]]:
    """Return the order of the clusters, by size or by earlier labels, and the matches."""
    if old is None:
        return by_size(sizes, order), []
    # The sum over all processes is an upper bound that is the same on all of them.
    n_old = int(team.total(np.array([old.max(initial=UNKNOWN) + 1]))[0])
    table = team.total(overlaps(old, on_host(labels), len(sizes), n_old))
    return as_before(table, sizes)


def renumbered(labels: Any, order: Array) -> Any:
    """Return labels, on any device, in which cluster order[j] has the number j."""
    number = np.argsort(order).astype(np.int32)
    if (number == np.arange(len(number))).all():
        return labels
    if hasattr(labels, "cpu"):
        from omcal.machine import torch

        found = torch.from_numpy(number).to(labels.device)[labels.long()]
        return found.to(labels.dtype)
    if hasattr(labels, "map_blocks"):
        return labels.map_blocks(number.take, dtype=labels.dtype)
    return number.astype(labels.dtype, copy=False).take(labels)


def moved_anchors(old: Any, new: Any) -> list[Floats]:
    """Return the anchors of a GraphModel in the space of the scalings of another."""
    return [
        replace(after, row=None, unit=None, weight=None).apply(before.undo(anchors))
        for anchors, before, after in zip(old.anchors, old.scalings, new.scalings, strict=True)
    ]
