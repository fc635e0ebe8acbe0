"""Anchors: the same m points in every view, from one k-means over all views together."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.random import sample_without_replacement

from omcal.kmeans import InnerProducts, Rows, RowsWithGaps, inner_products_pay, lloyd
from omcal.scaling import Scaling
from omcal.views import Matrix, Views

SAMPLE_PER_ANCHOR = 256  # rows per anchor that "kmeans" looks at; more change nothing measurable


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
    index = slice(None) if rows is None else rows
    return anchors_of_sample(
        [view.rows(index) for view in views],
        scalings,
        n_anchors,
        method,
        random_state,
        sampled=rows is not None,
        present=None if views.present is None else views.present[index],
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
    return _draw_rows(n, size, random_state)


def _draw_rows(n: int, size: int, random_state: np.random.RandomState) -> NDArray:
    """`size` of the n rows, ascending, each as likely as any other."""
    if size > 0.01 * n:
        return np.sort(sample_without_replacement(n, size, random_state=random_state))
    # The numbers that scikit-learn draws one at a time, which takes longer than a fit on a GPU.
    drawn = np.empty(0, dtype=np.int64)
    while len(drawn) < size:
        more = random_state.randint(n, size=size - len(drawn))
        drawn = np.sort(np.append(drawn, more))
        drawn = drawn[np.append(True, drawn[1:] != drawn[:-1])]
    return drawn


def anchors_of_sample(
    sample: list[Matrix],
    scalings: list[Scaling],
    n_anchors: int,
    method: str,
    random_state: np.random.RandomState,
    *,
    sampled: bool = True,
    present: NDArray | None = None,
) -> list[NDArray]:
    """The anchors from the rows that `sample_rows` named, one block a view, not scaled.

    `present` says which of these rows are in which view; None: all in all.
    """
    masks = [None] * len(sample) if present is None else present.T
    scaled = [
        _with_mean(scaling.apply(block), mask)
        for block, scaling, mask in zip(sample, scalings, masks, strict=True)
    ]
    joint = _side_by_side(scaled)
    widths = [block.shape[1] for block in sample]
    centres: Matrix = joint
    if method != "random":
        centres = _kmeans(joint, n_anchors, sampled, random_state, present, widths)
    if sparse.issparse(centres):
        centres = centres.toarray()
    return np.split(centres.astype(np.float64), np.cumsum(widths)[:-1], axis=1)


def _side_by_side(blocks: list[Matrix]) -> Matrix:
    if any(sparse.issparse(block) for block in blocks):
        return sparse.hstack(blocks, format="csr")
    return blocks[0] if len(blocks) == 1 else np.hstack(blocks)


def _with_mean(block: Matrix, present: NDArray | None) -> Matrix:
    """Rows that are absent from a view count as its mean, or as zero where it is sparse."""
    if present is None or sparse.issparse(block) or present.all() or not present.any():
        return block
    return np.where(present[:, None], block, block[present].mean(axis=0, dtype=np.float64)).astype(
        block.dtype
    )


def _kmeans(
    X: Matrix,
    n_clusters: int,
    sampled: bool,
    random_state: np.random.RandomState,
    present: NDArray | None,
    widths: list[int],
) -> NDArray:
    mean: NDArray | float = 0.0
    if not sparse.issparse(X):
        # Distances far from the origin would drown in rounding.
        mean = X.mean(axis=0, dtype=np.float64).astype(X.dtype)
        X = X - mean
    if present is not None:
        centres = lloyd(RowsWithGaps(X, present, widths), n_clusters, sampled, random_state)
    elif inner_products_pay(*X.shape):
        points = InnerProducts(X)
        centres = points.rows(lloyd(points, n_clusters, sampled, random_state))
    else:
        centres = lloyd(Rows(X), n_clusters, sampled, random_state)
    return np.asarray(centres + mean)
