"""Anchor graphs, Eq. 2: each sample tied to its k nearest anchors in every view."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats, Mask
from omcal.machine.simd import registers
from omcal.machine.tall_skinny import ThinProduct
from omcal.machine.threads import (
    map_blocks,
    one_blas_thread,
    row_blocks,
    sparse_product,
    sum_blocks,
)
from omcal.machine.unrolled import nearest_kernel
from omcal.method.scaling import Scaling
from omcal.method.span import Span
from omcal.views.present import stand_in, stand_ins
from omcal.views.view import Matrix, View, Views, check_finite

_BLOCK_ENTRIES = 1 << 18  # per block of distances, so that it stays in the cache
_COPY_ENTRIES = 1 << 20
_FEW_ENTRIES = 1 << 17  # of rows and distances; with fewer, one thread finds the neighbours
_FOLDED_ENTRIES = 1 << 16  # per block of anchors for folding, so that it stays in the cache
MOST_ROUNDING = 1e-4  # largest rounding error of products, relative to squared distances of anchors
_SHORT_ROW = 96  # most anchors of a short row
_FEW_NEIGHBOURS = 32  # up to this many, repeated minima are faster than sorting
_IN_REGISTERS = 16  # most neighbours of the compiled search


@dataclass(frozen=True)
class AnchorGraphs:
    """The graphs S_1 … S_V, compactly: row i of S_v has weights[i, v] at columns indices[i, v]."""

    indices: Array  # (n, V, k), the smallest unsigned integers that hold m
    weights: Array  # (n, V, k), rows sum to 1
    n_anchors: int
    present: Mask | None = None  # (n, V), False where another view stands in

    @property
    def n(self) -> int:
        return int(self.indices.shape[0])

    @property
    def n_views(self) -> int:
        return int(self.indices.shape[1])

    @property
    def nbytes(self) -> int:
        return self.indices.nbytes + self.weights.nbytes

    def __getitem__(self, rows: slice | Array) -> AnchorGraphs:
        return self._each(lambda array: array[rows])

    def of_views(self, views: Sequence[int]) -> AnchorGraphs:
        """Return the graphs of some views."""
        return self._each(lambda array: array[:, list(views)])

    def _each(self, part: Callable[[Array], Array]) -> AnchorGraphs:
        present = None if self.present is None else part(self.present)
        return AnchorGraphs(part(self.indices), part(self.weights), self.n_anchors, present)

    @classmethod
    def joined(cls, parts: Sequence[AnchorGraphs]) -> AnchorGraphs:
        """Concatenate the graphs of consecutive samples."""
        whole = all(part.present is None for part in parts)
        masks = [np.True_ if part.present is None else part.present for part in parts]
        shapes = [part.indices.shape[:2] for part in parts]
        return cls(
            np.concatenate([part.indices for part in parts]),
            np.concatenate([part.weights for part in parts]),
            parts[0].n_anchors,
            None if whole else np.concatenate(list(map(np.broadcast_to, masks, shapes))),
        )

    def side_by_side(self) -> Any:
        """Return [S_1 … S_V] as one sparse n × Vm matrix."""
        n, V, k = self.indices.shape
        columns = self.indices.astype(np.int32)
        columns += (np.arange(V, dtype=np.int32) * self.n_anchors)[:, None]
        S = sparse.csr_array((n, V * self.n_anchors), dtype=self.weights.dtype)
        # The constructor would copy weights that are a small part of a larger array.
        S.data, S.indices = self.weights.reshape(-1), columns.reshape(-1)
        S.indptr = np.arange(0, n * V * k + 1, V * k, dtype=np.int32)
        return S


def anchor_graphs(
    views: Views,
    scalings: list[Scaling],
    anchors: list[Array],
    k: int,
    rows: slice = slice(None),
    *,
    compiled: bool = False,
    distances: Iterable[RelativeDistances] | None = None,
) -> AnchorGraphs:
    """Build the graphs of all views; `anchors` are in the scaled space.

    Each view is read once, in blocks of rows; the distances of a block stay in the cache. If a
    sample is absent from a view, its row in the graph of another view replaces the missing row.
    `distances` may be the result of `folded_anchors`.
    """
    with one_blas_thread():
        if distances is None:
            distances = folded_anchors(views, scalings, anchors, compiled=compiled)
        (graphs,) = _graphs(views, distances, [anchors], None, k, rows, compiled)
    return graphs


def folded_anchors(
    views: Views, scalings: list[Scaling], anchors: list[Array], *, compiled: bool
) -> Iterator[RelativeDistances]:
    """Yield the distances to the anchors of each view, for views of these types."""
    for of_view in zip(views, scalings, anchors, strict=True):
        yield RelativeDistances(*of_view, compiled=compiled)


def graphs_in_span(
    views: Views,
    scalings: list[Scaling],
    span: Span,
    coordinates: Sequence[list[Array]],
    k: int,
    rows: slice = slice(None),
    *,
    compiled: bool = False,
) -> list[AnchorGraphs]:
    """Return the `anchor_graphs` of several runs, for anchors by coordinates in a span.

    As x·Σ z_i e_i = Σ z_i x·e_i, the rows are multiplied by the directions of the span once,
    whatever the number of runs.
    """
    given = zip(views, scalings, span.directions, span.origin, strict=True)
    distances = (RelativeDistances(v, s, o + E, o, compiled=compiled) for v, s, E, o in given)
    with one_blas_thread():
        anchors = [span.points(Z) for Z in coordinates]
        return _graphs(views, distances, anchors, coordinates, k, rows, compiled)


def _graphs(
    views: Views,
    distances: Iterable[RelativeDistances],
    anchors: Sequence[list[Array]],
    coordinates: Sequence[list[Array]] | None,
    k: int,
    rows: slice,
    compiled: bool,
) -> list[AnchorGraphs]:
    """Return the graphs of each run."""
    m = len(anchors[0][0])
    start, stop, _ = rows.indices(views.n)
    shape, index = (stop - start, len(views), k), np.min_scalar_type(m - 1)
    present = None if views.present is None else views.present[rows]
    graphs = [
        AnchorGraphs(np.empty(shape, index), np.empty(shape, views.dtype), m, present)
        for _ in anchors
    ]
    steps: list[Callable[[], None]] = []
    for v, (view, of_view) in enumerate(zip(views, distances, strict=True)):
        means: list[tuple[ThinProduct | None, Array]] = [(None, of_view.bias)]
        if coordinates is not None:
            both = zip(coordinates, anchors, strict=True)
            means = [of_view.to_points(Z[v], A[v]) for Z, A in both]
        ties = [(made.indices[:, v], made.weights[:, v]) for made in graphs]
        steps += _steps(view, of_view, start, means, ties, compiled=compiled)
    # Threads divide the blocks of all views at once, so they wait for one another only at the end.
    # Waking a thread takes longer than a few rows, and much longer on a busy machine.
    few = shape[0] * sum(view.width + m for view in views) <= _FEW_ENTRIES
    together = max(1, len(steps)) if few else 1
    map_blocks(lambda some: [step() for step in steps[some]], len(steps), together)
    if present is not None:
        for A, made in zip(anchors, graphs, strict=True):
            stand_in(made.indices, made.weights, present, stand_ins(A))
    return graphs


def _steps(
    view: View,
    distances: RelativeDistances,
    start: int,
    means: Sequence[tuple[ThinProduct | None, Array]],
    ties: Sequence[tuple[Array, Array]],
    *,
    compiled: bool,
) -> list[Callable[[], None]]:
    """Return the tasks that build the graphs of a view, one per block of rows from `start` on.

    They write to (indices, weights) of each run. A run has a product with its coordinates (None:
    the distances are used directly) and a bias.
    """
    tie = _tie_limit(view.dtype)
    m, (n, k) = len(means[0][1]), ties[0][0].shape
    simd_topk = compiled and k <= _IN_REGISTERS
    nearest = nearest_kernel(k, registers(), view.dtype) if simd_topk else _nearest
    sound = all(np.isfinite(bias).all() for _, bias in means)

    def work(block: slice) -> bool:
        rows = view.rows(slice(start + block.start, start + block.stop))
        shared = distances.products(rows, any_order=simd_topk)
        for (to_points, bias), (indices, weights) in zip(means, ties, strict=True):
            products = shared
            if to_points is not None:
                products = to_points(shared[:, : len(to_points.W)], any_order=simd_topk)
            if not nearest(products, bias, tie, indices[block], weights[block]):
                return False
        return True

    def checked(block: slice) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            if sound and work(block):
                return
        check_finite(view)
        raise ValueError(
            f"view {view.name!r} holds values too large for products in {view.dtype}; "
            "rescale it, or pass float64."
        )

    # Limit both the distances of a block and the copy of its rows, if there is one.
    in_a_row = view.array.nnz // max(view.array.shape[0], 1) if view.sparse else view.width
    size = min(_BLOCK_ENTRIES // max(m, 64), _COPY_ENTRIES // max(in_a_row, 1))
    return [partial(checked, block) for block in row_blocks(n, max(1, size))]


class RelativeDistances:
    """Squared distances to the anchors minus that to their mean, or to another point.

    A row's common shift drops out of Eq. 2 and of every comparison, so the norm of x is never
    needed: with a_j = 2 (c̄ − c_j) the value is x·a_j − (c_j + c̄)·a_j / 2, one product with the
    scaling folded into it. The view is not copied, unless its features are so far from zero that
    rounding errors dominate the products: then `origin` is first subtracted from its rows.
    """

    def __init__(
        self,
        view: View,
        scaling: Scaling,
        anchors: Array,
        mean: Array | None = None,
        *,
        compiled: bool = False,
    ) -> None:
        self._scaling = scaling
        self._mean = anchors.mean(axis=0, dtype=np.float64) if mean is None else mean
        self._compiled = compiled
        shape = len(self._mean), len(anchors)
        self._product: ThinProduct | None = None
        if view.sparse:
            self._W = np.zeros(shape, view.dtype)
        else:
            self._product = ThinProduct(shape, view.dtype, compiled=compiled)
            self._W = self._product.W
            # Nothing is subtracted from sparse rows.
            origin = scaling.undo(self._mean).astype(view.dtype)

        def work(some: slice) -> Floats:
            """Fill some rows of W, and return their contributions to the sums."""
            centres, middle = anchors[:, some].astype(np.float64, copy=False), self._mean[some]
            twice = 2.0 * (middle - centres)
            W, shift = scaling.fold(twice.T, some)
            self._W[some] = W
            half = 0.5 * np.einsum("jd,jd->j", centres + middle, twice)
            if view.sparse:
                return np.stack([shift, half])
            there = origin[some] @ W, np.abs(origin[some]) @ np.abs(W)
            return np.stack([shift, half, *there, np.einsum("jd,jd->j", twice, twice)])

        size = max(1, _FOLDED_ENTRIES // len(anchors))
        self._shift, half, *dense = sum_blocks(work, len(self._mean), size)
        self.origin: Array | None = None
        if dense:
            there, sizes, squares = dense
            rounding = np.finfo(view.dtype).eps * sizes.max()
            if rounding > 0.25 * MOST_ROUNDING * squares.mean():
                self.origin = origin
                self._shift = self._shift + there
        self.bias: Array = (self._shift - half).astype(view.dtype)

    def to_points(self, Z: Array, points: Array) -> tuple[ThinProduct, Array]:
        """Return the product with Zᵀ and the bias for distances to c̄ + Σ z_i (c_i − c̄).

        These points are given as well.
        """
        bias = Z @ self._shift + np.einsum("jd,jd->j", points + self._mean, points - self._mean)
        product = ThinProduct(Z.T.shape, self._W.dtype, compiled=self._compiled)
        product.W[:] = Z.T
        return product, bias.astype(self._W.dtype)

    def products(self, block: Matrix, any_order: bool = False) -> Array:
        """Return the (rows × m) distances without the bias, in C order.

        With `any_order` the memory order is arbitrary, and further columns may follow.
        """
        block = self._scaling.prepare(block)
        if self.origin is not None:
            block = block - self.origin
        if self._product is None:
            return sparse_product(block, self._W)
        return self._product(block, any_order=any_order)


def _tie_limit(dtype: np.dtype) -> Any:
    """Return the relative size up to which a sum of weights is rounding error."""
    return dtype.type(16 * np.finfo(dtype).eps)


def _nearest(products: Array, bias: Array, tie: Any, indices: Array, weights: Array) -> bool:
    """Write Eq. 2 for a block of rows; return False where a product is not finite."""
    largest, of_bias = max(products.max(), -products.min()), np.abs(bias).max()
    # No difference of two distances overflows.
    if not np.isfinite(4 * (float(largest) + float(of_bias))):
        return False
    count = indices.shape[1] + 1
    if 3 * count <= len(bias) <= _SHORT_ROW:
        nearest, d = _nearest_in_short_rows(products, bias, count)
    else:
        nearest, d = nearest_columns(products + bias, count)
    limit = tie * max(largest, of_bias)
    if not (d[:, -1] - d[:, 0] > limit).all():  # maxima of short rows take long, ties are rare
        limit = tie * np.maximum(np.abs(products).max(axis=1), of_bias)
    indices[:] = nearest[:, :-1]
    weights[:] = anchor_weights(d, limit)
    return True


def _nearest_in_short_rows(products: Array, bias: Array, count: int) -> tuple[Array, Array]:
    """Return the `nearest_columns` of products + bias, with entries less the smallest of the row.

    The column takes the place of the last bits of an entry, so that a minimum finds both. Without
    it fits take 1 to 3 % more CPU time (benchmarks/ablations.py), batches of a stream more.
    """
    d = np.add(products.T, bias.astype(np.float64)[:, None], order="C")
    d -= d.min(axis=0)
    (m, n), codes = d.shape, d.view(np.int64)
    last = (1 << (m - 1).bit_length()) - 1
    codes &= ~last
    codes |= np.arange(m)[:, None]
    columns, found = np.empty((count, n), np.int64), np.empty((count, n))
    for column, smallest in zip(columns, found, strict=True):
        d.min(axis=0, out=smallest)
        np.bitwise_and(smallest.view(np.int64), last, out=column)
        d.reshape(-1)[column * n + np.arange(n)] = np.inf
    codes = found.view(np.int64)
    codes &= ~last
    return columns.T, found.T


def nearest_columns(d: Array, count: int) -> tuple[Array, Array]:
    """Return the columns of the `count` smallest entries of each row, ascending, and the entries.

    Equal entries are taken in the order of their columns.
    """
    if 3 * count <= d.shape[1] and count <= _FEW_NEIGHBOURS:
        nearest, found = _one_by_one(d, count)
        if np.isfinite(found[:, -1]).all():
            return nearest, found
    nearest = np.argsort(d, axis=1, kind="stable")[:, :count]
    return nearest, np.take_along_axis(d, nearest, axis=1)


def _one_by_one(d: Array, count: int) -> tuple[Array, Array]:
    """Find the smallest entry of each row, the next, and so on, as long as they are finite."""
    n, m = d.shape
    left = np.array(d, order="C")
    first = np.arange(0, d.size, m)
    places, found = np.empty((count, n), np.intp), np.empty((count, n), left.dtype)
    for place, smallest in zip(places, found, strict=True):
        np.add(left.argmin(axis=1), first, out=place)
        left.take(place, out=smallest, mode="clip")  # with "raise", `out` would be buffered
        left.reshape(-1)[place] = np.inf
    return (places - first).T, found.T


def anchor_weights(d: Array, rounding: Array | float = 0.0) -> Array:
    """Return the weights of Eq. 2 from k + 1 ascending squared distances, up to a common shift.

    Rows whose weights sum to no more than `rounding` before normalisation are ties.
    """
    k = d.shape[1] - 1
    weights = d[:, -1:] - d[:, :-1]
    total = weights.sum(axis=1, keepdims=True)
    # Equal distances (duplicate points, all-zero rows): share the weight evenly.
    tied = total <= np.reshape(rounding, (-1, 1))
    np.divide(weights, total, out=weights, where=~tied)
    weights[tied[:, 0]] = 1.0 / k
    return weights
