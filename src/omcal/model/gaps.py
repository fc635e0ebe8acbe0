"""Test by permutation whether missing cells depend on the clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from omcal.machine.arrays import Array, Floats, Mask
from omcal.method.points import members
from omcal.places.team import SOLO, Team
from omcal.views.missing import Gaps

_PERMUTATIONS = 199  # so that the false-alarm rate is 1 in 200 per view
_STRONG = 0.3  # Cramér's V of the weakest link that is worth a word


class LinkedGaps(NamedTuple):
    """The feature whose missing cells go with the clusters most, in one of them."""

    feature: int
    cluster: int
    share: float  # of the cells missing in the cluster
    elsewhere: float


def linked_gaps(gaps: Gaps, labels: Array, n_clusters: int, team: Team = SOLO) -> LinkedGaps | None:
    """Return the feature whose missing cells go with the clusters; None if that may be chance.

    Each process of a team has some of the rows, and the labels of its own samples.

    The largest Cramér's V over the features must exceed 0.3 and those of 199 permutations of the
    labels, so that missing cells at random raise a false alarm in at most 1 of 200 views.
    """
    own = np.asarray(labels)[gaps.rows].astype(np.intp)
    told = team.each(lambda: (own, gaps.missing))
    labels, missing_cells = (np.concatenate(parts) for parts in zip(*told, strict=True))
    if not len(labels):
        return None
    found = _strengths(missing_cells, labels, n_clusters)
    best = int(np.argmax(found))
    if found[best] < _STRONG:
        return None
    rng = np.random.default_rng(0)
    for _ in range(_PERMUTATIONS):
        if _strengths(missing_cells, rng.permutation(labels), n_clusters).max() >= found[best]:
            return None
    missing = missing_cells[:, best]
    inside, sizes = _by_cluster(missing[:, None], labels, n_clusters)
    share = inside[:, 0] / np.maximum(sizes, 1)
    rest = (missing.sum() - inside[:, 0]) / np.maximum(len(labels) - sizes, 1)
    cluster = int(np.argmax(share - rest))
    feature = int(gaps.features[best])
    return LinkedGaps(feature, cluster, float(share[cluster]), float(rest[cluster]))


def _by_cluster(missing: Mask, labels: Array, n_clusters: int) -> tuple[Floats, Floats]:
    """Return the number of missing cells per cluster and feature, and the sizes of the clusters."""
    sizes = np.bincount(labels, minlength=n_clusters).astype(np.float64)
    return members(labels, n_clusters, np.float64) @ missing, sizes


def _strengths(missing: Mask, labels: Array, n_clusters: int) -> Floats:
    """Return Cramér's V between the missing cells of each feature and the clusters."""
    found, sizes = _by_cluster(missing, labels, n_clusters)
    share = missing.mean(axis=0)
    spread = (sizes[:, None] * (found / np.maximum(sizes, 1)[:, None] - share) ** 2).sum(axis=0)
    strengths: Floats = np.sqrt(spread / np.maximum(len(labels) * share * (1 - share), 1e-300))
    return strengths
