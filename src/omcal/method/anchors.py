"""Anchors: the same m points in every view, from one k-means over all views together."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain, pairwise
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.utils.extmath import row_norms

from omcal.machine.arrays import Array, Floats, as_dense
from omcal.machine.compiled import compiled_pays, scaled_rows_kernel
from omcal.machine.threads import map_blocks, sum_blocks
from omcal.method.inner_products import InnerProducts, inner_products_pay
from omcal.method.kmeans import (
    FEWEST_SEED_ROWS,
    drawn,
    lloyd,
    looked_at_in_order,
    start_rows,
    trials,
)
from omcal.method.points import Points
from omcal.method.scaling import Scaling
from omcal.method.vectors import IncompleteVectors, Vectors
from omcal.views.view import Matrix, View, Views

SAMPLE_PER_ANCHOR = 256  # rows per anchor for "kmeans"; more rows have no measurable effect
_FEW_DISTANCES = 1 << 17  # between rows and anchors of a run; with fewer, one thread is used
_BLOCK_ENTRIES = 1 << 18  # per block of rows to scale


def choose_for_runs(
    views: Views,
    scalings: list[Scaling],
    n_anchors: int,
    method: Any,
    random_states: Sequence[np.random.RandomState],
) -> list[list[Array]]:
    """Choose m anchors in the scaled space per random state: one (m, d_v) array per view.

    Row j is the same point in all views. "kmeans" runs on a random sample of 256 rows per anchor,
    "kmeans-full" on all rows with a better start, "random" takes samples. Given anchors are
    checked.
    """
    if not isinstance(method, str):
        return [check_anchors(method, n_anchors, views.widths) for _ in random_states]
    samples = [sample_rows(views.n, n_anchors, method, state) for state in random_states]
    how = n_anchors, method, random_states, samples
    return anchors_of_runs(views, scalings, *how, sampled=samples[0] is not None)


def sample_rows(
    n: int, n_anchors: int, method: str, random_state: np.random.RandomState
) -> Array | None:
    """Return the rows that `anchors_of_runs` uses, ascending; None: all."""
    size = n_anchors if method == "random" else SAMPLE_PER_ANCHOR * n_anchors
    if method == "kmeans-full" or size >= n:
        return None
    return draw_rows(n, size, random_state)


def draw_rows(n: int, size: int, random_state: np.random.RandomState) -> Array:
    """Return `size` of the n rows, drawn uniformly, ascending."""
    return np.sort(drawn(n, size, random_state))


def anchors_of_runs(
    views: Views,
    scalings: list[Scaling],
    n_anchors: int,
    method: str,
    random_states: Sequence[np.random.RandomState],
    samples: Sequence[Array | None],
    *,
    sampled: bool,
) -> list[list[Array]]:
    """Return the anchors of each run from the rows that `sample_rows` drew for it.

    None stands for all rows of the views, which are prepared once for all runs.
    """
    if method != "random" and not sampled and all(rows is None for rows in samples):
        whole = Sample(views, scalings, None, sampled=False)
        thorough = method == "kmeans-full"

        def of_runs(some: slice) -> list[list[Array]]:
            return [whole.anchors(n_anchors, thorough, state) for state in random_states[some]]

        # Waking a thread takes longer than a run with few distances.
        few = views.n * n_anchors <= _FEW_DISTANCES
        return list(
            chain(*map_blocks(of_runs, len(random_states), len(random_states) if few else 1))
        )
    found = []
    for random_state, rows in zip(random_states, samples, strict=True):
        if method == "random":
            X = as_dense(side_by_side(views, scalings, rows))
            found.append(cut(X.astype(np.float64, copy=False), views))
            continue
        if sampled:
            number = views.n if rows is None else len(rows)
            order = looked_at_in_order(number, n_anchors, random_state)
            rows = order if rows is None else rows[order]
        sample = Sample(views, scalings, rows, sampled=sampled)
        found.append(sample.anchors(n_anchors, method == "kmeans-full", random_state))
    return found


class Sample:
    """Scaled and centred rows in which k-means finds anchors."""

    def __init__(
        self, views: Views, scalings: list[Scaling], rows: Array | None, *, sampled: bool
    ) -> None:
        X = side_by_side(views, scalings, rows)
        present = views.present
        if present is not None and rows is not None:
            present = present[rows]
        self._views, self._sampled = views, sampled
        self._rows = X, rows, present is None
        self._mean = None if sparse.issparse(X) or at_mean(views, scalings) else taken_off(X)
        norms = require_squares(X, views)
        self._points: Points
        if present is not None:
            self._points = IncompleteVectors(X, present, views.widths, norms)
        elif not sampled and (inner_products_pay(*X.shape) or _start_has_products(X)):
            self._points = InnerProducts(X)
        else:
            self._points = Vectors(X, norms, compiled=compiled_pays(views.n))

    def anchors(
        self, n_anchors: int, thorough: bool, random_state: np.random.RandomState
    ) -> list[Array]:
        """Return one (m, d_v) array per view."""
        X, rows, complete = self._rows
        found = distinct_points(X, n_anchors, rows) if complete else None
        if found is None:
            points = self._points
            centres = lloyd(
                points,
                n_clusters=n_anchors,
                sampled=self._sampled,
                n_trials=trials(points.n, n_anchors, thorough=thorough),
                random_state=random_state,
                start_rows=start_rows(points.n, sum(self._views.widths), n_anchors, thorough),
            )
            found = points.rows(centres) if isinstance(points, InnerProducts) else centres
        wide = np.array(found, dtype=np.float64)
        if self._mean is not None:
            wide += self._mean
        return cut(wide, self._views)


def _start_has_products(X: Matrix) -> bool:
    """Whether the start of k-means takes the inner products of all rows, which are few and wide.

    The iterations then use them as well. Without it, 1000 × 1430 takes 12 % more CPU time.
    """
    return not sparse.issparse(X) and len(X) <= min(FEWEST_SEED_ROWS, X.shape[1])


def distinct_points(X: Matrix, number: int, rows: Array | None) -> Array | None:
    """Return the distinct rows of X, repeated up to `number`; None if there are more of them.

    With so few distinct points, as in one-hot views, rounding would decide what k-means repeats.
    """
    first = distinct_rows(X, number, rows)
    if first is None:
        return None
    return as_dense(X[np.resize(first, number)])


def distinct_rows(X: Matrix, most: int, rows: Array | None) -> Array | None:
    """Return the positions of the distinct rows of X, or None if there are more than `most`.

    They are in the order of `rows`, the numbers of the samples.
    """
    # A part of the features or rows usually tells that there are more.
    for part in (X[: 4 * most, :64], X[: 4 * most], X):
        first = np.unique(_row_keys(part), return_index=True)[1]
        if len(first) > most:
            return None
    return np.asarray(first[np.argsort(first if rows is None else rows[first])])


def _row_keys(X: Matrix) -> Array:
    """Return one value per row; equal rows have equal values."""
    if sparse.issparse(X):
        directions = np.random.default_rng(0).standard_normal((2, X.shape[1]))
        return np.asarray(X @ directions[0] + 1j * (X @ directions[1]))
    same_zeros = np.ascontiguousarray(X) + X.dtype.type(0)  # -0.0 has other bytes than 0.0
    return np.asarray(same_zeros.view(np.dtype((np.void, same_zeros[:1].nbytes))).ravel())


def cut(centres: Array, views: Views) -> list[Array]:
    """Cut points with the features of all views into one array per view."""
    return np.split(centres, np.cumsum(views.widths)[:-1], axis=1)


def side_by_side(views: Views, scalings: list[Scaling], rows: Array | None) -> Matrix:
    """Return the scaled rows of all views side by side; dense rows are copied once."""
    n = views.n if rows is None else len(rows)
    if any(view.sparse for view in views):
        blocks = []
        for view, scaling in zip(views, scalings, strict=True):
            if view.sparse:
                blocks.append(_sparse_rows(n, view, scaling, rows))
            else:
                block = np.empty((n, view.width), view.dtype)
                _fill(block, 0, view, scaling, rows)
                blocks.append(_all_stored(block))
        return sparse.hstack(blocks, format="csr") if len(blocks) > 1 else blocks[0].tocsr()
    joint = np.empty((n, sum(views.widths)), views.dtype)
    first = 0
    for view, scaling in zip(views, scalings, strict=True):
        _fill(joint, first, view, scaling, rows)
        first += view.width
    return joint


def _sparse_rows(n: int, view: View, scaling: Scaling, rows: Array | None) -> Matrix:
    """Return the scaled rows of a sparse view."""

    def work(part: slice) -> Matrix:
        return scaling.apply(view.rows(part if rows is None else rows[part]))

    in_a_row = view.array.nnz // max(view.array.shape[0], 1)
    parts = map_blocks(work, n, _rows_of(in_a_row))
    return sparse.vstack(parts, format="csr") if len(parts) > 1 else parts[0]


def _all_stored(block: Array) -> Matrix:
    """Return a dense block as CSR; SciPy's conversion takes several times the memory."""
    n, width = block.shape
    columns = np.tile(np.arange(width, dtype=np.int32), n)
    return sparse.csr_array((block.ravel(), columns, np.arange(n + 1) * width), shape=block.shape)


def _fill(joint: Array, first: int, view: View, scaling: Scaling, rows: Array | None) -> None:
    """Write the scaled rows of a dense view to `joint`, from the column `first` on.

    Absent rows are the mean of the view.
    """
    block = joint[:, first : first + view.width]

    def work(part: slice) -> None:
        scaling.apply(view.rows(part if rows is None else rows[part]), out=block[part])

    def compiled_work(part: slice) -> None:
        assert rows is not None and scaling.factor is not None
        steps = *scaling.center_in(view.dtype), scaling.factor.astype(view.dtype)
        scaled_rows_kernel(view.array, rows[part], *steps, joint[part], first)

    if rows is not None and _only_centred(view, scaling) and compiled_pays(len(view.array)):
        work = compiled_work
    map_blocks(work, len(block), _rows_of(view.width))
    if view.present is None:
        return
    there = view.present if rows is None else view.present[rows]
    if there.any() and not there.all():
        block[~there] = block[there].mean(axis=0, dtype=np.float64).astype(view.dtype)


def _only_centred(view: View, scaling: Scaling) -> bool:
    """Whether the scaling only centres and weights features."""
    whole = type(view.array) is np.ndarray and view.array.dtype == view.dtype
    steps = not scaling.prepares and scaling.center is not None and scaling.factor is not None
    return whole and steps and view.present is None


def _rows_of(width: int) -> int:
    """Return the rows per block for rows of this width."""
    return max(1, _BLOCK_ENTRIES // max(width, 1))


def at_mean(views: Views, scalings: Sequence[Scaling]) -> bool:
    """Whether scaled rows are already centred."""
    return views.present is None and all(scaling.center is not None for scaling in scalings)


def taken_off(X: Array) -> Array:
    """Subtract the mean from the rows of X, so that distances are accurate; return the mean."""
    size = _rows_of(X.shape[1])

    def sums(rows: slice) -> Floats:
        # Any point near the mean will do, so sums of a few rows may have the type of the rows.
        with np.errstate(over="ignore", invalid="ignore"):
            return np.asarray(X[rows].sum(axis=0), dtype=np.float64)

    mean: Array = (sum_blocks(sums, len(X), size) / len(X)).astype(X.dtype)

    def work(rows: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            X[rows] -= mean

    map_blocks(work, len(X), size)
    return mean


def require_squares(X: Matrix, views: Views) -> Array:
    """Return the squared lengths of the rows; raise an error if they overflow or vanish."""

    def work(rows: slice) -> Array:
        return np.asarray(row_norms(X[rows], squared=True))  # which raises no warning

    n, width = X.shape
    norms = np.concatenate(map_blocks(work, n, n if sparse.issparse(X) else _rows_of(width)))
    if not np.isfinite(norms).all():
        raise ValueError(_beyond(X, views, "large"))
    if not norms.any() and abs(X).max() > 0:
        raise ValueError(_beyond(X, views, "small"))
    return norms


def check_anchors(anchors: Any, n_anchors: int, widths: tuple[int, ...]) -> list[Array]:
    """Check anchors given by the user: one finite (m, d_v) array per view."""
    if isinstance(anchors, np.ndarray) and anchors.ndim == 2:
        anchors = [anchors]
    if len(anchors) != len(widths):
        raise ValueError(
            f"anchors has {len(anchors)} arrays for {len(widths)} views; give one array a view."
        )
    given = [np.asarray(a) for a in anchors]
    if any(a.dtype.kind not in "biuf" for a in given):
        raise ValueError(f"anchors must be numbers; they are {[str(a.dtype) for a in given]}.")
    expected = [(n_anchors, width) for width in widths]
    if [a.shape for a in given] != expected:
        raise ValueError(
            f"anchors have shapes {[a.shape for a in given]} but {expected} are needed: one "
            "(n_anchors, n_features) array a view, in the scaled space; "
            "set n_anchors to their number."
        )
    if not all(np.isfinite(a).all() for a in given):
        raise ValueError("anchors contain NaN or infinity; give finite points.")
    return [np.array(a, dtype=np.float64) for a in given]


def _beyond(X: Matrix, views: Views, what: str) -> str:
    """Return the error message for rows whose squares overflow or vanish."""
    edges = np.cumsum((0, *views.widths))
    largest = [abs(X[:, start:stop]).max() for start, stop in pairwise(edges)]
    name = views.names[int(np.argmax(largest))]
    remedy = "rescale it" if X.dtype == np.float64 else "rescale it, or pass float64"
    return f"view {name!r} holds values too {what} to be squared in {X.dtype}; {remedy}."
