"""Inner loops compiled by Numba (extra "fast"); NumPy does the same work where it is absent.

Indices are unsigned: for signed ones Numba tests whether each is negative, and inner loops with
this test are not vectorised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np

from omcal.machine.jit import jit_when_called
from omcal.machine.simd import aligned, registers
from omcal.machine.unrolled import settle_kernel, vector_sweep_kernel

MIN_ROWS = 50_000  # below this, loading the compiled code takes longer than it saves
_MOST_PRODUCTS = 256  # columns × vectors of a row of F in registers; more take minutes to compile
_TILE_ROWS = 256
_UNROLLED = 5  # number of neighbours (the default) with code of its own


def compiled_pays(n: int) -> bool:
    """Whether to use the compiled loops for n rows: Numba is installed, and n is large."""
    return n >= MIN_ROWS and _numba_works()


@cache
def _numba_works() -> bool:
    if find_spec("numba") is None:
        return False
    try:
        import numba  # noqa: F401
    except ImportError as error:  # Numba often refuses newer versions of NumPy
        warnings.warn(
            f"Numba is installed but does not load ({error}); large fits run at about half speed.",
            RuntimeWarning,
            stacklevel=3,
        )
        return False
    return True


class Sweep:
    """The pass over blocks of rows, F ← max([S_1 … S_V] stacked + F R, 0)."""

    def __init__(self, stacked: Any, R: Any) -> None:
        self._c, self._rows = len(R), len(stacked)
        vectors = -(-self._c * R.dtype.itemsize // registers()[1])
        self._few = self._c * vectors <= _MOST_PRODUCTS
        self._stacked, self._R = (padded(M) if self._few else M for M in (stacked, R))
        self._width = self._R.shape[1]

    def __call__(self, indices: Any, weights: Any, F: Any) -> Any:
        """Update F, and return the float64 sums over its rows; the sums of blocks are added."""
        if not self._few:
            return wide_sweep_kernel(indices, weights, F, self._stacked, self._R)
        k = _UNROLLED if indices.shape[2] == _UNROLLED else None
        kernel = vector_sweep_kernel(self._c, k, registers(), F.dtype)
        return kernel(indices, weights, F, self._stacked, self._R)

    def parts(self, sums: Any) -> tuple[Any, Any, Any]:
        """Return [S_1 … S_V]ᵀF, FᵀF and FoldᵀF from the sums."""
        lines = sums.reshape(-1, self._width)[:, : self._c]
        StF, FtF, FoldtF = np.split(lines, [self._rows, self._rows + self._c])
        return StF, FtF, FoldtF


@jit_when_called(fastmath={"contract", "nsz"})
def wide_sweep_kernel(indices, weights, F, stacked, R):  # type: ignore[no-untyped-def]
    """Do the pass for any number of columns of F.

    With SciPy's products instead, 60000 × 60 with 100 clusters takes about 10 % more time.
    """
    n, V, k = indices.shape
    lines, c = stacked.shape
    of_view = np.uint64(lines // V)
    zero = F.dtype.type(0)
    tile = np.empty((_TILE_ROWS, c), F.dtype)
    squares = np.empty((c, c), F.dtype)
    sums = np.zeros((lines + 2 * c, c))
    part = np.zeros_like(stacked)  # of SᵀF, in the type of the rows
    rows_in_part = 0
    for start in range(0, n, _TILE_ROWS):
        old = F[start : start + _TILE_ROWS]
        new = tile[: len(old)]
        np.dot(old, R, new)
        for row in range(len(old)):
            i, u = np.uint64(start + row), new[row]
            for v in range(np.uint64(V)):
                for a in range(np.uint64(k)):
                    weight = weights[i, v, a]
                    line = stacked[v * of_view + np.uint64(indices[i, v, a])]
                    for j in range(c):
                        u[j] += weight * line[j]
            for j in range(c):
                u[j] = max(u[j], zero)
            for v in range(np.uint64(V)):
                for a in range(np.uint64(k)):
                    weight = weights[i, v, a]
                    line = part[v * of_view + np.uint64(indices[i, v, a])]
                    for j in range(c):
                        line[j] += weight * u[j]
        np.dot(new.T, new, squares)
        sums[lines : lines + c] += squares
        np.dot(old.T, new, squares)
        sums[lines + c :] += squares
        old[:] = new
        rows_in_part += _TILE_ROWS
        if rows_in_part >= 4 * lines or start + _TILE_ROWS >= n:
            rows_in_part = 0
            sums[:lines] += part
            part[:] = zero
    return sums


def fixed_point(stacked: Any, R: Any, small: float, max_sweeps: int) -> Callable[..., Any]:
    """Return `updates.fixed_point` for B = [S_1 … S_V] stacked as a function of the graphs.

    The function takes indices and weights, and returns U. Without it, the part of `predict` after
    the graphs takes three times as long.
    """
    columns, kernel = padded(stacked), settle_kernel(len(R), registers(), stacked.dtype)

    def work(indices: Any, weights: Any) -> Any:
        U = np.empty((len(indices), len(R)), stacked.dtype)
        kernel(indices, weights, columns, R, small, max_sweeps, U)
        return U

    return work


def padded(M: Any) -> Any:
    """Return the matrix with columns of zeros up to a whole number of vectors."""
    lanes = registers()[1] // M.dtype.itemsize
    found = aligned((len(M), -(-M.shape[1] // lanes) * lanes), M.dtype)
    found[:, : M.shape[1]] = M
    return found


@jit_when_called(fastmath={"contract", "nsz"})
def moments_kernel(block, origin, total, squares):  # type: ignore[no-untyped-def]
    """Add x − origin and its square to the sums, for the rows x of a block.

    Without it, 60000 × 1430 takes 55 % more CPU time (benchmarks/ablations.py).
    """
    n, d = block.shape
    whole = n - n % 4
    for i in range(0, whole, 4):  # so that sums are loaded and stored once for all of them
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


@jit_when_called()
def scaled_rows_kernel(X, rows, center, rest, factor, out, first):  # type: ignore[no-untyped-def]
    """Write out[:, first:] = (X[rows] − center − rest) · factor.

    The center has two parts. `out` is the whole array, because for columns of a slice the compiled
    code takes twice the time. Without it, 60000 × 1430 takes 6 % more.
    """
    for i in range(len(rows)):
        x = X[np.uint64(rows[i])]
        row = out[i, first : first + len(center)]
        for j in range(len(center)):
            row[j] = ((x[j] - center[j]) - rest[j]) * factor[j]


@jit_when_called()
def two_nearest_kernel(products, norms, slack, labels, first, second):  # type: ignore[no-untyped-def]
    """Find the nearest centre of each point and the two smallest distances.

    A later centre must be nearer by more than the slack of the point. Distances lack the squared
    length of the point. `products` has a row per centre, so that vectors hold many points. Without
    it and `member_sums_kernel`, fits take 10 to 28 % more CPU time.
    """
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


@jit_when_called()
def member_sums_kernel(X, order, starts, sums):  # type: ignore[no-untyped-def]
    """Add the rows X[order[starts[j] : starts[j + 1]]] to sums[j]."""
    for j in range(len(sums)):
        total, first, last = sums[j], starts[j], starts[j + 1]
        whole = last - (last - first) % 4
        for i in range(first, whole, 4):  # so that sums are loaded and stored once for all of them
            r, s = X[np.uint64(order[i])], X[np.uint64(order[i + 1])]
            t, u = X[np.uint64(order[i + 2])], X[np.uint64(order[i + 3])]
            for q in range(X.shape[1]):
                total[q] = (((total[q] + r[q]) + s[q]) + t[q]) + u[q]
        for i in range(whole, last):
            r = X[np.uint64(order[i])]
            for q in range(X.shape[1]):
                total[q] += r[q]


@jit_when_called()
def gram_kernel(indices, weights, StS):  # type: ignore[no-untyped-def]
    """Add S_uᵀ S_v to StS[u, v] for the pairs of views u <= v.

    Without it, 60000 × 1430 takes 16 % more time (benchmarks/results/ablations.md).
    """
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
