"""Anchors: the same m points in every view, from one k-means over all views together."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import row_norms, safe_sparse_dot
from sklearn.utils.random import sample_without_replacement

from omcal.scaling import Scaling
from omcal.views import Matrix, Views, row_blocks

SAMPLE_PER_ANCHOR = 256  # rows per anchor that "kmeans" looks at; more change nothing measurable
SEED_PER_ANCHOR = 64  # rows per anchor of a sample that its k-means++ start is drawn from
_MAX_ITER = 100
_MAX_ITER_SAMPLED = 10  # of a sample: what more iterations gain is less than another sample differs
_TOLERANCE = 1e-4
_BLOCK_ENTRIES = 1 << 20


def choose_anchors(
    views: Views,
    scalings: list[Scaling],
    n_anchors: int,
    method: str,
    random_state: np.random.RandomState,
) -> list[NDArray]:
    """Choose m anchors in the scaled space: one (m, d_v) array a view, row j the same point in all.

    "kmeans" runs on a random sample of 256 rows an anchor, "kmeans-full" on all rows, "random"
    takes samples as they are.
    """
    rows = sample_rows(views.n, n_anchors, method, random_state)
    sample = [view.rows(slice(None) if rows is None else rows) for view in views]
    return anchors_of_sample(
        sample, scalings, n_anchors, method, random_state, sampled=rows is not None
    )


def sample_rows(
    n: int, n_anchors: int, method: str, random_state: np.random.RandomState
) -> NDArray | None:
    """Which of the n rows `anchors_of_sample` is to see, ascending; None for all."""
    size = n_anchors if method == "random" else SAMPLE_PER_ANCHOR * n_anchors
    if method == "kmeans-full" or size >= n > n_anchors:
        size = n
    if size >= n:
        return None
    return np.sort(sample_without_replacement(n, size, random_state=random_state))


def anchors_of_sample(
    sample: list[Matrix],
    scalings: list[Scaling],
    n_anchors: int,
    method: str,
    random_state: np.random.RandomState,
    *,
    sampled: bool = True,
) -> list[NDArray]:
    """The anchors from the rows that `sample_rows` named, one block a view, not scaled."""
    scaled = [scaling.apply(block) for block, scaling in zip(sample, scalings, strict=True)]
    joint = _side_by_side(scaled)
    centres: Matrix = (
        joint if method == "random" else _kmeans(joint, n_anchors, sampled, random_state)
    )
    if sparse.issparse(centres):
        centres = centres.toarray()
    widths = [block.shape[1] for block in sample]
    return np.split(centres.astype(np.float64), np.cumsum(widths)[:-1], axis=1)


def _side_by_side(blocks: list[Matrix]) -> Matrix:
    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr")
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def _kmeans(
    X: Matrix, n_clusters: int, sampled: bool, random_state: np.random.RandomState
) -> NDArray:
    """Lloyd's algorithm from a k-means++ start; the sums do not depend on the number of threads."""
    if not sparse.issparse(X):
        # Distances far from the origin would drown in rounding.
        mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        return _lloyd(X - mean, n_clusters, sampled, random_state) + mean
    return _lloyd(X, n_clusters, sampled, random_state)


def _lloyd(
    X: Matrix, n_clusters: int, sampled: bool, random_state: np.random.RandomState
) -> NDArray:
    x_norms = row_norms(X, squared=True)
    few = SEED_PER_ANCHOR * n_clusters
    if sampled and few < X.shape[0]:
        some = sample_without_replacement(X.shape[0], few, random_state=random_state)
        centres = _seed(X[some], x_norms[some], n_clusters, random_state)
    else:
        centres = _seed(X, x_norms, n_clusters, random_state)
    spread = _mean_variance(X, x_norms)
    labels = np.full(X.shape[0], -1)
    for _ in range(_MAX_ITER_SAMPLED if sampled else _MAX_ITER):
        new_labels, distances = _nearest(X, x_norms, centres)
        if np.array_equal(new_labels, labels):
            break
        labels = new_labels
        moved = _means(X, labels, distances, centres)
        shift = np.square(moved - centres).sum()
        centres = moved
        if shift <= _TOLERANCE * spread:
            break
    return centres


def _seed(
    X: Matrix, x_norms: NDArray, n_clusters: int, random_state: np.random.RandomState
) -> NDArray:
    """Greedy k-means++: of a few rows drawn by squared distance, take the one that helps most."""
    n_trials = 2 + int(np.log(n_clusters))
    chosen = [random_state.randint(X.shape[0])]
    closest = _distances_to(X, x_norms, chosen)[:, 0]
    for _ in range(1, n_clusters):
        cumulative = np.cumsum(closest, dtype=np.float64)
        drawn = np.searchsorted(cumulative, random_state.uniform(size=n_trials) * cumulative[-1])
        trials = np.minimum(drawn, X.shape[0] - 1)
        candidates = np.minimum(_distances_to(X, x_norms, trials), closest[:, None])
        best = candidates.sum(axis=0, dtype=np.float64).argmin()
        closest = candidates[:, best]
        chosen.append(trials[best])
    rows = X[chosen]
    return rows.toarray() if sparse.issparse(rows) else rows


def _distances_to(X: Matrix, x_norms: NDArray, chosen: Sequence[int] | NDArray) -> NDArray:
    """Squared distances of all rows to the chosen ones."""
    rows = X[chosen]
    rows = rows.toarray() if sparse.issparse(rows) else rows
    d = np.asarray(X @ np.ascontiguousarray(rows.T))
    d *= -2
    d += x_norms[:, None]
    d += x_norms[chosen]
    # A chosen row is at distance 0 from itself, which rounding must not hide.
    d[chosen, np.arange(len(chosen))] = 0
    return np.maximum(d, 0, out=d)


def _mean_variance(X: Matrix, x_norms: NDArray) -> float:
    mean = np.asarray(X.mean(axis=0)).reshape(-1)
    return max(float(x_norms.mean(dtype=np.float64) - mean @ mean), 0.0) / X.shape[1]


def _nearest(X: Matrix, x_norms: NDArray, centres: NDArray) -> tuple[NDArray, NDArray]:
    """Label and squared distance of the nearest centre of each row."""
    n = X.shape[0]
    labels = np.empty(n, dtype=np.int32)
    distances = np.empty(n, dtype=centres.dtype)
    c_norms = row_norms(centres, squared=True)
    W = np.ascontiguousarray(-2.0 * centres.T)
    for rows in row_blocks(n, max(1, _BLOCK_ENTRIES // len(centres))):
        d = safe_sparse_dot(X[rows], W, dense_output=True)
        d += c_norms
        labels[rows] = d.argmin(axis=1)
        distances[rows] = d[np.arange(len(d)), labels[rows]]
    return labels, np.maximum(distances + x_norms, 0)


def _means(X: Matrix, labels: NDArray, distances: NDArray, centres: NDArray) -> NDArray:
    """Mean of each cluster; an empty one takes the row farthest from its own centre."""
    n_clusters = len(centres)
    empty = np.setdiff1d(np.arange(n_clusters), labels)
    if empty.size:
        farthest = np.argsort(-distances, kind="stable")[: empty.size]
        labels[farthest] = empty
    n = len(labels)
    member = sparse.csr_array(
        (np.ones(n, dtype=X.dtype), labels, np.arange(n + 1)), shape=(n, n_clusters)
    )
    counts = np.bincount(labels, minlength=n_clusters)[:, None]
    sums = safe_sparse_dot(member.T, X, dense_output=True)
    # The move may have emptied another cluster, which keeps its centre until the next round.
    return np.where(counts > 0, sums / np.maximum(counts, 1), centres).astype(X.dtype)
