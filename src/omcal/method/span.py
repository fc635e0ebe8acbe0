"""Anchors by k-means in a few directions of wide rows; several runs share them and their rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import map_blocks, one_blas_thread, row_blocks, row_slice, sum_blocks
from omcal.method.anchors import (
    SAMPLE_PER_ANCHOR,
    at_mean,
    cut,
    distinct_points,
    draw_rows,
    require_squares,
    side_by_side,
    taken_off,
)
from omcal.method.inner_products import inner_products_pay
from omcal.method.kmeans import (
    FEWEST_SEED_ROWS,
    MOST_ITERATIONS,
    PART_PER_ANCHOR,
    SEED_PER_ANCHOR,
    drawn,
    lloyd,
    trials,
)
from omcal.method.moments import entries_per_feature
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.vectors import Vectors
from omcal.views.view import Matrix, Views

# Runs on the same rows are too similar, so each run draws its rows from a shared sample that is
# this many times as large. Without it, ten joined runs of 5000 × 1430 take 3.6 times the CPU time,
# of 60000 × 448 1.3 (benchmarks/ablations.py).
SHARED_SAMPLES = 2
MOST_LOST = 0.1  # share of the variance of the means that the projection to the span may lose
POWERS = 2  # power of XᵀX that turns random directions to those of largest variance
_ROWS_PER_DIRECTION = 4  # least rows per direction for the first powers
_RANK_TOLERANCE = 1e-12  # relative to the largest eigenvalue of BᵀB in float64
_FEATURES_PER_ANCHOR = 4  # with fewer features, a span saves no numbers per row
_WIDEST_OF_ONE_RUN = 1 << 14  # texts with more features are clustered by frequent features
_OF_TEXTS = 5, 0  # iterations on a part of the rows and on all; more have no measurable effect
_RARE_ENTRIES = 8  # one entry in 8 belongs to features that are too rare for k-means of texts
_BLOCK_ENTRIES = 1 << 18
_SUMMED_AT_A_TIME = 8  # blocks; the cluster sums of all runs are larger than a block
_PARTS = 8  # of the rows that are summed at a time


@dataclass(frozen=True)
class Span:
    """The points o + Σ z_i e_i of each view, with coordinates z.

    Distances of a sample to such points need only its products with the e_i.
    """

    origin: list[Array]  # (d_v,) per view
    directions: list[Array]  # (r_v, d_v) per view

    def points(self, coordinates: Sequence[Array]) -> list[Array]:
        """Return the points with the given coordinates, one array per view."""
        given = zip(self.origin, coordinates, self.directions, strict=True)
        with one_blas_thread():
            return [origin + Z @ E for origin, Z, E in given]


@dataclass(frozen=True)
class InSpan:
    """Anchors by their coordinates in a span that several runs share."""

    span: Span
    coordinates: list[Array]  # (m, r_v) per view


def span_pays(n: int, widths: Sequence[int], settings: GraphSettings, n_runs: int) -> bool:
    """Whether k-means uses a few directions: with many features and enough rows."""
    n_anchors, method = settings.n_anchors, settings.anchors
    width, sampled = sum(widths), SAMPLE_PER_ANCHOR * n_anchors < n
    wide = width >= _FEATURES_PER_ANCHOR * n_anchors
    if not (isinstance(method, str) and method == "kmeans" and wide):
        return False
    many_rows = n >= SEED_PER_ANCHOR * n_anchors
    if n_runs == 1:  # off, one fit of 5000 or 12000 × 1430 takes 1.4 or 1.8 of its CPU time
        few_rows = n <= FEWEST_SEED_ROWS or not many_rows
        return settings.accelerate and not few_rows
    # For few wide rows, inner products between them are cheaper.
    return sampled or (many_rows and not inner_products_pay(n, width))


def shared_rows(
    n: int, n_anchors: int, random_states: Sequence[np.random.RandomState]
) -> Array | None:
    """Return the rows that all runs draw their samples from, ascending; None: all."""
    size = (SHARED_SAMPLES if len(random_states) > 1 else 1) * SAMPLE_PER_ANCHOR * n_anchors
    return None if size >= n else draw_rows(n, size, random_states[0])


def own_rows(n: int, n_anchors: int, random_state: np.random.RandomState) -> Array:
    """Return the shared rows that a run uses, in random order."""
    return drawn(n, SAMPLE_PER_ANCHOR * n_anchors, random_state)


def random_directions(n: int, number: int, random_state: np.random.RandomState) -> Array:
    """Return random numbers with mean zero for the first power of n rows, which takes some of them.

    They are uniform; normal ones would take three times as long.
    """
    generator = np.random.default_rng(random_state.randint(2**31 - 1))
    shape = -(-n // row_steps(n, number)[0]), number
    return np.asarray(generator.random(shape, dtype=np.float32) - np.float32(0.5))


def anchors_in_span(
    views: Views,
    scalings: list[Scaling],
    n_anchors: int,
    random_states: Sequence[np.random.RandomState],
    rows: Array | None = None,
) -> list[tuple[list[Array], InSpan | None]]:
    """Return the anchors of each run from the shared rows; None: all rows.

    k-means uses coordinates of the rows in the directions of largest variance of some rows. The
    means of its clusters have all features; they are projected to a span close to the means of all
    runs. If the projection loses too much, the means are the anchors.
    """
    n = views.n if rows is None else len(rows)
    # If there are no more rows than for a single run, they are scaled once and kept.
    kept = None if n > SAMPLE_PER_ANCHOR * n_anchors else side_by_side(views, scalings, rows)
    rows = np.arange(n) if rows is None else rows

    def rows_of(some: Any) -> Matrix:
        return side_by_side(views, scalings, rows[some]) if kept is None else kept[some]

    if kept is not None and len(random_states) == 1:
        few = distinct_points(kept, n_anchors, rows)
        if few is not None:
            return [(cut(few.astype(np.float64), views), None)]
        of_texts = all(scaling.row == "unit" for scaling in scalings)
        if of_texts and sum(views.widths) > _WIDEST_OF_ONE_RUN:
            return [(cut(_means_of_texts(kept, views, n_anchors, random_states[0]), views), None)]
    part = rows_of(draw_rows(n, min(PART_PER_ANCHOR * n_anchors, n), random_states[0]))
    mean, E = _main_directions(part, views, n_anchors, random_states[0])
    mean = None if at_mean(views, scalings) else mean

    def centred(block: slice) -> Matrix:
        return rows_of(block) if mean is None else rows_of(block) - mean

    size = _rows_at_a_time(views)
    coordinates = np.concatenate(map_blocks(lambda block: np.asarray(centred(block) @ E), n, size))
    compiled = compiled_pays(views.n)
    runs = map_blocks(
        lambda one: _clusters(coordinates, n_anchors, random_states[one.start], compiled=compiled),
        *(len(random_states), 1),
    )
    with one_blas_thread():
        starts = np.concatenate([centres for _, _, centres in runs]) @ E.T
    means = _means(centred, [run[:2] for run in runs], starts, n, _SUMMED_AT_A_TIME * size)
    anchors = means if mean is None else means + mean
    if len(runs) == 1:
        return [(cut(anchors, views), None)]
    with one_blas_thread():
        return anchors_of_means(anchors, views.widths, len(runs), random_states[0])


def _means_of_texts(
    X: Matrix, views: Views, n_anchors: int, random_state: np.random.RandomState
) -> Array:
    """Return the means of clusters that k-means finds with the frequent features of the rows."""
    norms = require_squares(X, views)
    few, columns = frequent_features(X, views.widths)
    own, labels, centres = _clusters(few, n_anchors, random_state, compiled=False, most=_OF_TEXTS)
    found, starts = np.empty_like(labels), np.zeros((n_anchors, X.shape[1]))
    found[own], starts[:, columns] = labels, centres
    with one_blas_thread():
        return Vectors(X, norms).means(found, starts)


def frequent_features(X: Matrix, widths: Sequence[int]) -> tuple[Matrix, Array]:
    """Return the rows in the features with most of the entries, and the numbers of these features.

    Rows keep their length in each view: otherwise k-means separates rows by length (ARI of news
    −.11 ± .04). Entries are counted, not summed, so that storage and type have no effect.
    """
    parts, columns = [], []
    for start, stop in pairwise(np.cumsum((0, *widths))):
        part = X if len(widths) == 1 else X[:, start:stop]
        counts = entries_per_feature(part)
        entries = np.cumsum(np.bincount(counts) * np.arange(counts.max() + 1))
        least = np.searchsorted(entries, entries[-1] / _RARE_ENTRIES, side="right")
        frequent = np.flatnonzero(counts >= least)
        few = part[:, frequent]
        lengths = row_norms(few)
        factors = np.divide(row_norms(part), lengths, out=np.ones_like(lengths), where=lengths > 0)
        if sparse.issparse(few):
            few.data *= np.repeat(factors, np.diff(few.indptr))
        else:
            few *= factors[:, None]
        parts.append(few)
        columns.append(start + frequent)
    if len(parts) == 1:
        return parts[0], columns[0]
    joint = sparse.hstack(parts, format="csr") if sparse.issparse(X) else np.hstack(parts)
    return joint, np.concatenate(columns)


def _rows_at_a_time(views: Views) -> int:
    """Return the rows per block; only stored entries count."""
    entries = sum(view.array.nnz / max(views.n, 1) if view.sparse else view.width for view in views)
    return max(1, int(_BLOCK_ENTRIES / max(entries, 1)))


def _main_directions(
    part: Matrix, views: Views, n_anchors: int, random_state: np.random.RandomState
) -> tuple[Array | None, Array]:
    """Return the mean of some rows, and as many directions (columns) as a run has anchors.

    The mean is subtracted from dense rows in place; sparse rows are not centred. Single precision
    is enough for directions of dense rows: 2000 × 649 in float64 takes a tenth less CPU time.
    """
    mean = None if sparse.issparse(part) else taken_off(part)
    largest = np.sqrt(require_squares(part, views).max()) or 1.0
    number = min(n_anchors, *part.shape)
    if mean is not None:
        short = part if part.dtype == np.float32 else np.empty(part.shape, np.float32)
        np.divide(part, largest, out=short, casting="same_kind")
        E = _powers(short, number, random_state)
        return mean, E.astype(part.dtype, copy=False)
    stored = stored_columns(part)
    few, E = part[:, stored] / largest, np.zeros((part.shape[1], number), part.dtype)
    middle = np.asarray(few.mean(axis=0), part.dtype).ravel()  # that of a sparse matrix has rows
    E[stored] = _powers(few, number, random_state, middle)
    return None, E


def stored_columns(X: Matrix) -> Array:
    """Return the columns of a sparse matrix that have entries; the first column if none has."""
    return np.unique(X.tocsr().indices) if X.nnz else np.zeros(1, np.int32)


def _powers(
    X: Matrix, number: int, random_state: np.random.RandomState, mean: Array | None = None
) -> Array:
    """Return orthonormal columns that span XᵀX…XᵀR, for rows X less their mean and a random R.

    R has a row per sample, so that the order of the columns and sparse storage have no effect.
    Rows have lengths of about 1 or less.
    """
    E = np.empty(0)
    for power, step in enumerate(row_steps(X.shape[0], number)):
        some = X if step == 1 else X[::step]
        # Products of sparse rows with all features are large, so they are not computed in parts.
        size = some.shape[0] if sparse.issparse(X) else -(-some.shape[0] // _PARTS)
        if power:
            Y = np.concatenate(map_blocks(partial(_projected, some, E), some.shape[0], size))
            Y = Y if mean is None else Y - mean @ E
        else:
            Y = random_directions(X.shape[0], number, random_state).astype(X.dtype, copy=False)
        product = sum_blocks(partial(_crossed, some, Y), some.shape[0], size)
        if mean is not None:
            product = product - np.outer(mean, Y.sum(axis=0))
        with one_blas_thread():  # a narrow matrix: threads would wait for one another
            E = _orthonormal(product)
    return E


def row_steps(n: int, number: int) -> list[int]:
    """Return, for each power of n rows in `number` directions, the step between rows to take.

    The last power takes all rows, those before it half and a quarter of them. With all rows in all
    powers, fits take 3 to 10 % more CPU time (benchmarks/ablations.py), and the accuracy over 28
    sets is .001 ± .001 lower (benchmarks/choices.py).
    """
    most = max(1, n // (_ROWS_PER_DIRECTION * number))
    return [min(1 << power, most) for power in range(POWERS, -1, -1)]


def _crossed(X: Matrix, Y: Array, rows: slice) -> Array:
    """Return XᵀY of some rows; in this order OpenBLAS takes half of the time on x86."""
    if sparse.issparse(X):
        return np.asarray(row_slice(X, rows).T @ Y[rows])
    return np.asarray((Y[rows].T @ X[rows]).T)


def _projected(X: Matrix, E: Array, rows: slice) -> Array:
    return np.asarray(row_slice(X, rows) @ E)


def _orthonormal(B: Array) -> Array:
    """Return orthonormal columns that span those of B, from the eigenvectors of BᵀB.

    NumPy's QR takes 20 times as long for 50000 × 100. Columns beyond the rank of B are zero.
    """
    wide = np.divide(B, max(B.max(), -B.min()) or 1.0, dtype=np.float64)
    values, vectors = np.linalg.eigh(wide.T @ wide)
    there = values > _RANK_TOLERANCE * values[-1]
    weights = np.where(there, 1 / np.sqrt(np.where(there, values, 1.0)), 0.0)
    return np.asarray((wide @ (vectors * weights)).astype(B.dtype, copy=False))


def _clusters(
    coordinates: Matrix,
    n_anchors: int,
    random_state: np.random.RandomState,
    *,
    compiled: bool,
    most: tuple[int, int] = MOST_ITERATIONS,
) -> tuple[Array, Array, Array]:
    """Return the rows of a run, their clusters by k-means in coordinates, and the centres."""
    own = own_rows(coordinates.shape[0], n_anchors, random_state)
    points = Vectors(coordinates[own], compiled=compiled)
    n_trials = trials(points.n, n_anchors, thorough=False)
    centres = lloyd(points, n_anchors, True, n_trials, random_state, most=most)
    return own, points.nearest(centres)[0], centres


def _means(
    rows_of: Callable[[slice], Matrix],
    runs: Sequence[tuple[Array, Array]],
    starts: Array,
    n: int,
    size: int,
) -> Array:
    """Return the means of the clusters of all runs, stacked; an empty one keeps its start.

    `size` of the n rows are read at a time.
    """
    n_clusters = len(starts) // len(runs)
    columns = np.concatenate([b * n_clusters + labels for b, (_, labels) in enumerate(runs)])
    own = np.concatenate([own for own, _ in runs])
    ones = np.ones(len(own), starts.dtype)
    member = sparse.coo_array((ones, (own, columns)), shape=(n, len(starts))).tocsr()

    def work(part: slice) -> Array:
        # The sums of all runs are large, so only a few parts have separate sums.
        sums = np.zeros(starts.shape)
        for block in row_blocks(part.stop - part.start, size):
            rows = slice(part.start + block.start, part.start + block.stop)
            more = member[rows].T @ rows_of(rows)
            if sparse.issparse(more):
                more = more.tocoo()
                sums[more.coords] += more.data
            else:
                sums += more
        return sums

    sums = sum_blocks(work, n, max(size, -(-n // _PARTS)))
    counts = np.bincount(columns, minlength=len(starts))[:, None]
    return np.where(counts > 0, sums / np.maximum(counts, 1), starts)


def anchors_of_means(
    means: Array,
    widths: Sequence[int],
    n_runs: int,
    random_state: np.random.RandomState,
) -> list[tuple[list[Array], InSpan | None]]:
    """Project the stacked means of all runs to one span per view.

    It has as many directions as a run has anchors, because the means of two runs differ mainly by
    the random choice of rows. If the projection loses more, as for rare links and words, the means
    stay.
    """
    m, by_view, parts = len(means) // n_runs, np.split(means, np.cumsum(widths)[:-1], axis=1), []
    for points in by_view:
        origin = points.mean(axis=0)
        away = points - origin
        size = np.sqrt(np.square(away).sum(axis=1).mean()) or 1.0
        width = points.shape[1]
        E = _powers(away / size, m, random_state) if m < width else np.eye(width)
        Z = away @ E / size
        if np.square(Z).sum() < (1 - MOST_LOST) * np.square(away / size).sum():
            runs = zip(*(np.split(points, n_runs) for points in by_view), strict=True)
            return [(list(anchors), None) for anchors in runs]
        parts.append((origin, E.T * size, np.split(Z, n_runs)))
    span = Span([part[0] for part in parts], [part[1] for part in parts])
    of_runs = zip(*(part[2] for part in parts), strict=True)
    return [(span.points(Z), InSpan(span, list(Z))) for Z in of_runs]
