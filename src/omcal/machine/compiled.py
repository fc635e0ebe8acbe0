"""Inner loops compiled by Numba (extra "fast"); NumPy does the same work where it is absent.

Unsigned indices keep Numba from testing each one for a negative value, which would also keep the
inner loops from being vectorised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from omcal.machine.jit import jit
from omcal.machine.process import once
from omcal.machine.simd import aligned, registers
from omcal.machine.unrolled import settle_kernel, sweep_kernel, vector_sweep_kernel

MIN_ROWS = 50_000  # below this, loading the compiled code takes longer than it saves
_IN_REGISTERS = 20  # columns of a row at once
_FEW_VECTORS = 4  # to a row of F: for more columns products are left to BLAS
_VECTOR = 16  # bytes: what is no whole vector takes longer than one
_MOST_ABREAST = 256  # anchors: with more, most distances are no candidates and not worth a step
_MOST_PLACES = 16  # neighbours that are worth code of their own
_UNROLLED = 5  # neighbours: the default number is worth code of its own


def compiled_pays(n: int) -> bool:
    """Whether to use the compiled loops for n rows: they are installed, and n is large."""
    return n >= MIN_ROWS and _numba_works()


@cache
def _numba_works() -> bool:
    if find_spec("numba") is None:
        return False
    try:
        import numba  # noqa: F401
    except ImportError as error:  # it often refuses a NumPy newer than itself
        warnings.warn(
            f"Numba is installed but does not load ({error}); large fits run at about half speed.",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True


class Sweep:
    """The pass over blocks of rows, F ← max([S_1 … S_V] stacked + F R, 0)."""

    def __init__(self, stack_by_view: Any, R: Any) -> None:
        self._c, self._rows = len(R), len(stack_by_view)
        lanes: int = registers()[1] // R.dtype.itemsize
        vectors = -(-self._c // lanes)
        self._few = vectors <= _FEW_VECTORS
        if self._few:
            self._width, self._slices = vectors * lanes, 1
        else:
            self._width, self._slices = _slices(self._c, R.dtype)
        self._stacked = _in_slices(stack_by_view, self._width, self._slices)
        columns = self._slices * self._width
        self._R = aligned((self._c if self._few else columns, columns), R.dtype)
        self._R[: self._c, : self._c] = R

    def __call__(self, indices: Any, weights: Any, F: Any) -> Any:
        """Change F, and return all sums over its rows, in float64: those of blocks just add."""
        k = _UNROLLED if indices.shape[2] == _UNROLLED else None
        if self._few:
            kernel = vector_sweep_kernel(self._c, k, registers(), indices.dtype, F.dtype)
        else:
            kernel = sweep_kernel(self._width, k, indices.dtype, F.dtype)
        return kernel(indices, weights, F, self._stacked, self._R)

    def parts(self, sums: Any) -> tuple[Any, Any, Any]:
        """Of these sums [S_1 … S_V]ᵀF, FᵀF and FoldᵀF."""
        StF, *squares = np.split(sums, [self._stacked.size, self._stacked.size + self._R.size])
        StF = StF.reshape(self._slices, -1, self._width).swapaxes(0, 1).reshape(self._rows, -1)
        FtF, FoldtF = (square.reshape(self._R.shape)[: self._c, : self._c] for square in squares)
        return StF[:, : self._c], FtF, FoldtF


def fixed_point(
    stack_by_view: Any, R: Any, small: float, max_sweeps: int
) -> Callable[..., tuple[Any, ...]]:
    """What rows of [S_1 … S_V] stacked settle at, as `updates.fixed_point` finds it, as a function.

    It takes the indices and weights of the graphs, and returns U, its largest entry in each row
    and the column of that. The rows are done when none of 64 that are together changes by more than
    `small` times the largest entry of what they start from.
    """
    width, slices = _slices(len(R), stack_by_view.dtype)
    in_slices = _in_slices(stack_by_view, width, slices)

    def work(indices: Any, weights: Any) -> tuple[Any, Any, Any]:
        U = np.empty((len(indices), len(R)), stack_by_view.dtype)
        largest, labels = np.empty(len(U), U.dtype), np.empty(len(U), np.int32)
        kernel = settle_kernel(width, indices.dtype, U.dtype)
        kernel(indices, weights, in_slices, R, small, max_sweeps, U, largest, labels)
        return U, largest, labels

    return work


def _slices(c: int, dtype: np.dtype) -> tuple[int, int]:
    """Columns to a slice, and slices: so many columns are at once in registers."""
    lanes, least = _VECTOR // dtype.itemsize, -(-c // _IN_REGISTERS)
    # Columns of zeros, as few as can be, make all slices equally many whole vectors.
    widths = [-(-c // (slices * lanes)) * lanes for slices in (least, least + 1)]
    width = min(widths, key=lambda width: -(-c // width) * width)
    return width, -(-c // width)


def _in_slices(stack_by_view: Any, width: int, slices: int) -> Any:
    """The columns, and columns of zeros, slice after slice."""
    found = aligned((slices * len(stack_by_view), width), stack_by_view.dtype)
    for s, part in enumerate(found.reshape(slices, -1, width)):
        some = stack_by_view[:, s * width : (s + 1) * width]
        part[:, : some.shape[1]] = some
    return found.ravel()


@once
def moments_kernel() -> Callable[..., None]:
    """Sums of x − origin and of their squares over the rows x of a block."""

    @jit(fastmath={"contract", "nsz"})
    def moments(block, origin, total, squares):  # type: ignore[no-untyped-def]
        n, d = block.shape
        whole = n - n % 4
        for i in range(0, whole, 4):  # together they load and store the sums once
            r, s, t, u = block[i], block[i + 1], block[i + 2], block[i + 3]
            for j in range(d):
                x = np.float64(r[j]) - origin[j]
                y = np.float64(s[j]) - origin[j]
                z = np.float64(t[j]) - origin[j]
                w = np.float64(u[j]) - origin[j]
                total[j] += (x + y) + (z + w)
                squares[j] += (x * x + y * y) + (z * z + w * w)
        for i in range(whole, n):
            for j in range(d):
                x = np.float64(block[i, j]) - origin[j]
                total[j] += x
                squares[j] += x * x

    kernel: Callable[..., None] = moments
    return kernel


@once
def scaled_rows_kernel() -> Callable[..., None]:
    """(X[rows] − center − rest) · factor, in the columns of `out` from `first` on.

    The center is in two parts. Columns of their own would not lie side by side, as far as the
    compiler knows, and take twice the time.
    """

    @jit()
    def scaled_rows(X, rows, center, rest, factor, out, first):  # type: ignore[no-untyped-def]
        for i in range(len(rows)):
            x = X[np.uint64(rows[i])]
            row = out[i, first : first + len(center)]
            for j in range(len(center)):
                row[j] = ((x[j] - center[j]) - rest[j]) * factor[j]

    kernel: Callable[..., None] = scaled_rows
    return kernel


@once
def two_nearest_kernel() -> Callable[..., None]:
    """Return a kernel that finds the nearest centre of each point and the two smallest distances.

    A later centre is nearer only by more than the slack of the point. The squared length of the
    point is left out. The products have a row for each centre, so that many points are looked at
    abreast, without a branch.
    """

    @jit()
    def two_nearest(products, norms, slack, labels, first, second):  # type: ignore[no-untyped-def]
        m, n = products.shape
        twice = products.dtype.type(2)
        for t in range(n):
            first[t] = norms[0] - twice * products[0, t]
            second[t] = np.inf
            labels[t] = 0
        for centre in range(1, m):
            j, norm, line = np.int32(centre), norms[centre], products[centre]
            for t in range(n):
                d, a, b = norm - twice * line[t], first[t], second[t]
                nearer = d < a - slack[t]
                second[t] = a if nearer else (d if d < b else b)
                first[t] = d if nearer else a
                labels[t] = j if nearer else labels[t]

    kernel: Callable[..., None] = two_nearest
    return kernel


@once
def cluster_sums_kernel() -> Callable[..., None]:
    """sums[label] += x for the rows x of X, one after another."""

    @jit()
    def cluster_sums(X, labels, sums):  # type: ignore[no-untyped-def]
        for i in range(len(X)):
            label = np.uint64(labels[i])
            for j in range(X.shape[1]):
                sums[label, j] += X[i, j]

    kernel: Callable[..., None] = cluster_sums
    return kernel


@once
def member_sums_kernel() -> Callable[..., None]:
    """sums[j] += x for the rows x of X that order[starts[j] : starts[j + 1]] names, in turn."""

    @jit()
    def member_sums(X, order, starts, sums):  # type: ignore[no-untyped-def]
        for j in range(len(sums)):
            total, first, last = sums[j], starts[j], starts[j + 1]
            whole = last - (last - first) % 4
            for i in range(first, whole, 4):  # together they load and store the sums once
                r, s = X[np.uint64(order[i])], X[np.uint64(order[i + 1])]
                t, u = X[np.uint64(order[i + 2])], X[np.uint64(order[i + 3])]
                for q in range(X.shape[1]):
                    total[q] = (((total[q] + r[q]) + s[q]) + t[q]) + u[q]
            for i in range(whole, last):
                r = X[np.uint64(order[i])]
                for q in range(X.shape[1]):
                    total[q] += r[q]

    kernel: Callable[..., None] = member_sums
    return kernel


@once
def gram_kernel() -> Callable[..., None]:
    """StS[u, v] += S_uᵀ S_v for the pairs of views u <= v."""

    @jit()
    def gram(indices, weights, StS):  # type: ignore[no-untyped-def]
        n, V, k = indices.shape
        for i in range(n):
            for u in range(V):
                for v in range(u, V):
                    for a in range(k):
                        weight = np.float64(weights[i, u, a])
                        row = np.uint64(indices[i, u, a])
                        for b in range(k):
                            column = np.uint64(indices[i, v, b])
                            StS[u, v, row, column] += weight * weights[i, v, b]

    kernel: Callable[..., None] = gram
    return kernel


@once
def decide_kernel() -> Callable[..., None]:
    """`method.rows.decide` for the rows of F that have an entry above the limit; −1 for others."""

    @jit()
    def decide(F, limit, labels, seconds, shares):  # type: ignore[no-untyped-def]
        n, c = F.shape
        zero = F.dtype.type(0)
        for i in range(n):
            row, label = F[i], 0
            for j in range(1, c):
                if row[j] > row[label]:
                    label = j
            if row[label] <= limit:
                labels[i] = -1
                continue
            second, other = 0, zero if label == 0 else row[0]
            for j in range(1, c):
                if j != label and row[j] > other:
                    second, other = j, row[j]
            largest = row[label] * row[label]
            both = largest + other * other
            share = largest / both if both > zero else F.dtype.type(1)
            labels[i], seconds[i] = label, second
            shares[i] = np.uint8(np.rint(F.dtype.type(255) * share))

    kernel: Callable[..., None] = decide
    return kernel


def abreast_pays(m: int, k: int) -> bool:
    """Whether to find the neighbours of many rows at once."""
    return m <= _MOST_ABREAST and k <= _MOST_PLACES


@once
def nearest_kernel() -> Callable[..., bool]:
    """Eq. 2 from relative distances (products + bias): the k nearest columns and their weights.

    It returns whether all of the products are finite.
    """

    @jit()
    def nearest(products, bias, tolerance, indices, weights):  # type: ignore[no-untyped-def]
        n, m = products.shape
        k = indices.shape[1]
        best = np.empty(k + 1, dtype=products.dtype)
        where = np.empty(k + 1, dtype=np.int64)
        largest_bias = np.abs(bias).max()
        zero = products.dtype.type(0)
        unsound = zero
        for i in range(n):
            best[:] = np.inf
            where[:] = 0  # so that no index can leave the graph, whatever the distances are
            scale = largest_bias
            for j in range(m):
                scale = max(scale, abs(products[i, j]))
                unsound += zero * products[i, j]
                d = products[i, j] + bias[j]
                if d < best[k]:
                    # Insertion keeps the list ascending and equal entries in column order.
                    p = k
                    while p > 0 and d < best[p - 1]:
                        best[p] = best[p - 1]
                        where[p] = where[p - 1]
                        p -= 1
                    best[p] = d
                    where[p] = j
            total = zero
            for a in range(k):
                total += best[k] - best[a]
            tied = total <= tolerance * scale
            for a in range(k):
                indices[i, a] = where[a]
                weights[i, a] = 1.0 / k if tied else (best[k] - best[a]) / total
        return unsound == zero

    kernel: Callable[..., bool] = nearest
    return kernel


@once
def inverses_kernel() -> Callable[..., None]:
    """Σ_p weights[p] (K + shifts[p] I)⁻¹ of a tridiagonal K that is positive definite, to `out`.

    Below the diagonal an entry of an inverse is the one above it times a ratio, which elimination
    from the last row upwards yields; that and elimination downwards yield the diagonal.
    """

    @jit(fastmath={"contract"})
    def inverses(diagonal, beside, shifts, weights, out):  # type: ignore[no-untyped-def]
        m, terms = len(diagonal), len(shifts)
        ratio = np.empty((m, terms))
        entry = np.empty((m, terms))
        for p in range(terms):
            pivot = diagonal[m - 1] + shifts[p]
            entry[m - 1, p] = pivot
            for i in range(m - 1, 0, -1):
                ratio[i, p] = -beside[i - 1] / pivot
                pivot = diagonal[i - 1] + shifts[p] - beside[i - 1] ** 2 / pivot
                entry[i - 1, p] = pivot
            pivot = diagonal[0] + shifts[p]
            for i in range(m):
                if i > 0:
                    pivot = diagonal[i] + shifts[p] - beside[i - 1] ** 2 / pivot
                entry[i, p] = weights[p] / (entry[i, p] + pivot - diagonal[i] - shifts[p])
        row = np.empty((terms, m))
        for i in range(m):
            total = out[i]
            total[: i + 1] = 0.0
            for p in range(terms):
                part, times = row[p], ratio[i, p]
                for j in range(i):
                    part[j] *= times
                    total[j] += part[j]
                part[i] = entry[i, p]
                total[i] += part[i]
        for i in range(m):
            for j in range(i):
                out[j, i] = out[i, j]

    kernel: Callable[..., None] = inverses
    return kernel
