"""k-means from a k-means++ start; sums and draws do not depend on the number of threads."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.threads import one_blas_thread
from omcal.method.inner_products import inner_products_pay
from omcal.method.points import Points

MAX_ITER = 100
# A sample is refined from coarse to fine: more rows or iterations matter less than the sample.
SEED_PER_ANCHOR = 16  # rows per anchor for the k-means++ start
FEWEST_SEED_ROWS = 1024  # where k-means uses all rows
PART_PER_ANCHOR = 64  # rows per anchor for most of the iterations
MAX_ITER_PART = 10
MAX_ITER_SAMPLED = 3  # iterations on the whole sample, after the part
MOST_ITERATIONS = MAX_ITER_PART, MAX_ITER_SAMPLED
TOLERANCE = 1e-4
# Rows per candidate of the start: with fewer, all products between rows at once take less time than
# the products with a few candidates at a time.
MOST_PER_TRIAL = 8
STEPS = 1 << 16  # number of steps from zero to the largest distance
SAME_SUM = 1e-6  # sums of distances with a smaller relative difference count as equal
_TRIED_DISTANCES = 1 << 24  # of the candidates that are tested at once in the start: 128 MB


def lloyd(
    points: Points,
    n_clusters: int,
    sampled: bool,
    n_trials: int,
    random_state: np.random.RandomState,
    start_rows: int | None = None,
    most: tuple[int, int] = MOST_ITERATIONS,
) -> Any:
    """Return centres by Lloyd's algorithm.

    With `sampled` the points are a sample of 256 per centre in random order; `most` limits the
    iterations on its first points, and on all. Else the start is drawn from `start_rows` points;
    None: all.
    """
    with one_blas_thread():
        if not sampled:
            few = points
            if start_rows is not None:
                few = points[np.sort(drawn(points.n, start_rows, random_state))]
            by_products = few.n <= MOST_PER_TRIAL * n_trials * n_clusters
            among = few.among_themselves if by_products else few
            chosen = _seed(among, n_clusters, n_trials, random_state)
            return _improved(few.at(chosen), points, n_clusters, MAX_ITER)
        part = points[: PART_PER_ANCHOR * n_clusters]
        few = part[: SEED_PER_ANCHOR * n_clusters]
        chosen = _seed(few.among_themselves, n_clusters, n_trials, random_state)
        centres = _improved(few.at(chosen), part, n_clusters, most[0])
        return _improved(centres, points, n_clusters, most[1])


def drawn(n: int, size: int, random_state: np.random.RandomState) -> Array:
    """Draw `size` of the numbers below n, or all, in random order.

    scikit-learn's function takes five times as long for 7680 of 60 000, and 33 ms for 12 800 of a
    million, which is longer than a fit on a GPU.
    """
    generator = np.random.default_rng(random_state.randint(2**31 - 1))
    return generator.choice(n, size, replace=False) if size < n else generator.permutation(n)


def looked_at_in_order(n: int, n_clusters: int, random_state: np.random.RandomState) -> Array:
    """Return the numbers of the n points of a sample in the order that `lloyd` uses.

    Rows of the same stage are ascending, because they are then read faster.
    """
    seen = [size * n_clusters for size in (SEED_PER_ANCHOR, PART_PER_ANCHOR)]
    return np.concatenate([np.sort(part) for part in np.split(drawn(n, n, random_state), seen)])


def _improved(centres: Any, points: Points, n_clusters: int, max_iter: int) -> Any:
    """Return the centres after at most `max_iter` iterations."""
    labels, search = np.full(points.n, -1), points.search(n_clusters)
    for left in reversed(range(max_iter)):
        new_labels = search(centres)
        if np.array_equal(new_labels, labels):
            break
        labels = _filled(new_labels, points, centres, n_clusters)
        last, centres = centres, points.means(labels, centres)
        if not left or points.moved(last, centres) <= TOLERANCE * points.spread:
            break
    return centres


def start_rows(n: int, width: int, n_clusters: int, thorough: bool) -> int | None:
    """Return the number of points that the start is drawn from; None: all of them."""
    few = max(SEED_PER_ANCHOR * n_clusters, FEWEST_SEED_ROWS)
    return None if thorough or n <= few or inner_products_pay(n, width) else few


def trials(n: int, n_clusters: int, thorough: bool) -> int:
    """Return the number of candidates per centre of the start.

    The number of scikit-learn, or with `thorough` up to one per centre: the centres then depend
    less on the seed, and the start takes as long as this number of Lloyd iterations.
    """
    few = 2 + int(np.log(n_clusters))
    return max(few, min(n_clusters, _TRIED_DISTANCES // n)) if thorough else few


def _filled(labels: Array, points: Points, centres: Any, n_clusters: int) -> Array:
    """Give each empty cluster the point farthest from its own centre."""
    empty = np.flatnonzero(np.bincount(labels, minlength=n_clusters) == 0)
    if empty.size:
        _, distances = points.nearest(centres)
        # Of points with equal distances, up to rounding, take the first.
        farness = np.rint(STEPS * (distances / (float(distances.max()) or 1.0)))
        labels[np.argsort(-farness, kind="stable")[: empty.size]] = empty
    return labels


def _seed(
    points: Points, n_clusters: int, n_trials: int, random_state: np.random.RandomState
) -> list[int]:
    """Return centres by greedy k-means++: draw candidates by squared distance, take the best.

    The draws are those of scikit-learn, so that the same seed gives the centres of its `KMeans`.
    """
    chosen = [int(random_state.uniform() * points.n)]
    closest = points.distances_to(chosen)[0]
    for _ in range(1, n_clusters):
        cumulative = np.cumsum(closest, dtype=np.float64)
        drawn = np.searchsorted(cumulative, random_state.uniform(size=n_trials) * cumulative[-1])
        tried = np.minimum(drawn, points.n - 1)
        candidates = points.distances_to(tried)
        np.minimum(candidates, closest, out=candidates)
        left = candidates.sum(axis=1, dtype=np.float64)
        best = int((left <= left.min() * (1 + SAME_SUM)).argmax())
        closest = candidates[best].copy()  # free the rest
        chosen.append(int(tried[best]))
    return chosen
