"""Inner loops compiled by Numba (extra "fast"); NumPy does the same work where it is absent.

Unsigned indices keep Numba from testing each one for a negative value, which would also keep the
inner loops from being vectorised.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

MIN_ROWS = 50_000  # below this, loading the compiled code takes longer than it saves
_IN_REGISTERS = 20  # columns of a row that the registers hold at once
_UNROLLED = 5  # neighbours: the default number is worth code of its own
_TILE_ROWS = 512  # rows whose sums of products are taken in the type of the rows
_PARTS_OF_ROWS = 4  # times V m rows to a part of SᵀF: 4 V k terms to an entry on average


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


def sweep(stacked: Any, R: Any) -> Callable[[Any, Any, Any], tuple[Any, Any, Any]]:
    """The pass over a block of rows, F ← max([S_1 … S_V] stacked + F R, 0), as a function.

    It takes the indices and weights of the graphs and F, changes F in place, and returns the sums
    [S_1 … S_V]ᵀF, FᵀF and FoldᵀF in float64.
    """
    c = len(R)
    slices = -(-c // _IN_REGISTERS)
    width = -(-c // slices)
    # Columns of zeros make all slices equally wide.
    wide = [np.zeros((len(M), slices * width), R.dtype) for M in (stacked, R)]
    wide[0][:, :c], wide[1][:, :c] = stacked, R
    in_slices = wide[0].reshape(-1, slices, width).swapaxes(0, 1).ravel()

    def work(indices: Any, weights: Any, F: Any) -> tuple[Any, Any, Any]:
        k = _UNROLLED if indices.shape[2] == _UNROLLED else None
        kernel = _sweep_kernel(width, k, indices.dtype, F.dtype)
        StF, FtF, FoldtF = kernel(indices, weights, F, in_slices, wide[1])
        StF = StF.reshape(slices, -1, width).swapaxes(0, 1).reshape(len(stacked), -1)
        return StF[:, :c], FtF[:c, :c], FoldtF[:, :c]

    return work


# A line that holds a J stands for one such line for each of the columns of a slice: as variables of
# their own they stay in registers, which a loop over columns does not achieve. A tile of rows stays
# in the cache from its first use to its last, without a word of Python in between. The sums of rows
# enough for a few dozen terms in each are taken in the type of the rows, which is as exact as the
# terms are and twice as fast in float32, and those sums are added up in float64.
_SWEEP = """
def {name}(indices, weights, F, stacked, R):
    n, V, k = indices.shape
    c, columns = R.shape
    slices = columns // {width}
    entries = stacked.size // slices
    m = np.uint64(entries // (V * {width}))
    zero = F.dtype.type(0)
    tile = np.empty(({tile_rows}, columns), F.dtype)
    FtF_of_tile = np.empty((columns, columns), F.dtype)
    FoldtF_of_tile = np.empty((c, columns), F.dtype)
    FtF = np.zeros((columns, columns))
    FoldtF = np.zeros((c, columns))
    total = np.zeros(stacked.size)
    part = np.zeros_like(stacked)
    rows_in_part = 0
    for start in range(0, n, {tile_rows}):
        stop = min(start + {tile_rows}, n)
        old = F[start:stop]
        new = tile[: stop - start]
        np.dot(old, R, new)
        for s in range(slices):
            j = np.uint64(s * {width})
            first = np.uint64(s * entries)
            for i in range(start, stop):
                row = np.uint64(i - start)
                uJ = tile[row, j + np.uint64(J)]
                for v in range(V):
                    for a in range({neighbours}):
                        weight = weights[i, v, a]
                        anchor = np.uint64(v) * m + np.uint64(indices[i, v, a])
                        q = first + anchor * np.uint64({width})
                        uJ += weight * stacked[q + np.uint64(J)]
                uJ = max(uJ, zero)
                tile[row, j + np.uint64(J)] = uJ
                for v in range(V):
                    for a in range({neighbours}):
                        weight = weights[i, v, a]
                        anchor = np.uint64(v) * m + np.uint64(indices[i, v, a])
                        q = first + anchor * np.uint64({width})
                        part[q + np.uint64(J)] += weight * uJ
        np.dot(new.T, new, FtF_of_tile)
        FtF += FtF_of_tile
        np.dot(old.T, new, FoldtF_of_tile)
        FoldtF += FoldtF_of_tile
        old[:] = new[:, :c]
        rows_in_part += stop - start
        if rows_in_part >= {terms} * V * m or stop == n:
            rows_in_part = 0
            for q in range(stacked.size):
                total[q] += part[q]
                part[q] = zero
    return total, FtF, FoldtF
"""


@cache
def _sweep_kernel(
    width: int, k: int | None, index: DTypeLike, real: DTypeLike
) -> Callable[..., Any]:
    """The pass, `width` columns of F at a time; None: any k."""
    import numba

    name = f"sweep_{width}_columns_{k or 'any'}_neighbours"
    lines = _SWEEP.format(
        name=name,
        width=width,
        neighbours=k or "k",
        terms=_PARTS_OF_ROWS,
        tile_rows=_TILE_ROWS,
    ).splitlines()
    source = [
        line.replace("J", str(j)) for line in lines for j in range(width if "J" in line else 1)
    ]
    names: dict[str, Any] = {"np": np, "__name__": __name__}
    # Under the name of this file, so that Numba finds a place for its cache.
    exec(compile("\n".join(source), __file__, "exec"), names)
    fast = {"contract", "reassoc", "nsz"}
    compiled = numba.njit(nogil=True, cache=True, fastmath=fast)(names[name])
    with _statements_joined():
        compiled(
            *(np.empty((0, 1, 5), index), np.empty((0, 1, 5), real), np.empty((0, width), real)),
            *(np.empty(width, real), np.empty((width, width), real)),
        )
    return compiled


@contextmanager
def _statements_joined() -> Iterator[None]:
    """Numba compiles statements on neighbouring columns to vector instructions; a quarter faster.

    It has this as a setting of the process only, so it is given back at once.
    """
    from numba import config

    before = config.SLP_VECTORIZE
    config.SLP_VECTORIZE = 1
    try:
        yield
    finally:
        config.SLP_VECTORIZE = before


@cache
def moments_kernel() -> Callable[..., None]:
    """Sums of x − origin and of their squares over the rows x of a block."""
    import numba

    @numba.njit(nogil=True, cache=True, fastmath={"contract", "nsz"})
    def moments(block, origin, total, squares):  # type: ignore[no-untyped-def]
        n, d = block.shape
        for i in range(n):
            for j in range(d):
                x = np.float64(block[i, j]) - origin[j]
                total[j] += x
                squares[j] += x * x

    return moments


@cache
def gram_kernel() -> Callable[..., None]:
    """StS[u, v] += S_uᵀ S_v for the pairs of views u <= v."""
    import numba

    @numba.njit(nogil=True, cache=True)
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

    return gram


@cache
def nearest_kernel() -> Callable[..., None]:
    """Eq. 2 from relative distances (products + bias): the k nearest columns and their weights."""
    import numba

    @numba.njit(nogil=True, cache=True)
    def nearest(products, bias, tolerance, indices, weights):  # type: ignore[no-untyped-def]
        n, m = products.shape
        k = indices.shape[1]
        best = np.empty(k + 1, dtype=products.dtype)
        where = np.empty(k + 1, dtype=np.int64)
        largest_bias = np.abs(bias).max()
        for i in range(n):
            best[:] = np.inf
            where[:] = 0  # so that no index can leave the graph, whatever the distances are
            scale = largest_bias
            for j in range(m):
                scale = max(scale, abs(products[i, j]))
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
            total = products.dtype.type(0)
            for a in range(k):
                total += best[k] - best[a]
            tied = total <= tolerance * scale
            for a in range(k):
                indices[i, a] = where[a]
                weights[i, a] = 1.0 / k if tied else (best[k] - best[a]) / total

    return nearest
