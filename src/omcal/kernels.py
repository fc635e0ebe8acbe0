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

MIN_ROWS = 50_000  # below this, loading the compiled code takes longer than it saves
MAX_CLUSTERS = 32  # above this, BLAS does most of the work and a row no longer fits in registers


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


@cache
def sweep_kernel(n_clusters: int) -> Callable[..., None]:
    """The sparse half of a pass, for one number of clusters.

    A constant number of columns lets the compiler keep a row of F in registers: half the time of
    a loop of unknown length.
    """
    import numba
    import numpy as np
    from numba.cpython.unsafe.tuple import tuple_setitem

    @numba.njit(nogil=True, cache=True, fastmath={"contract", "reassoc", "nsz"})
    def sweep(indices, weights, U, stacked, StF, zeros):  # type: ignore[no-untyped-def]
        # U ← max(U + [S_1 … S_V] stacked, 0) and StF += [S_1 … S_V]ᵀ U, row by row.
        n, V, k = indices.shape
        m = np.uint64(stacked.shape[0] // V)
        for i in range(n):
            row = zeros
            for j in range(n_clusters):
                row = tuple_setitem(row, j, U[i, j])
            for v in range(V):
                for a in range(k):
                    weight = weights[i, v, a]
                    column = np.uint64(v) * m + np.uint64(indices[i, v, a])
                    for j in range(n_clusters):
                        row = tuple_setitem(row, j, row[j] + weight * stacked[column, j])
            for j in range(n_clusters):
                row = tuple_setitem(row, j, max(row[j], zeros[j]))
                U[i, j] = row[j]
            for v in range(V):
                for a in range(k):
                    wide = np.float64(weights[i, v, a])
                    column = np.uint64(v) * m + np.uint64(indices[i, v, a])
                    for j in range(n_clusters):
                        StF[column, j] += wide * row[j]

    def run(indices: Any, weights: Any, U: Any, stacked: Any, StF: Any) -> None:
        sweep(indices, weights, U, stacked, StF, (U.dtype.type(0),) * n_clusters)

    return run


@cache
def gram_kernel() -> Callable[..., None]:
    """StS[u, v] += S_uᵀ S_v for the pairs of views u <= v."""
    import numba
    import numpy as np

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
    import numpy as np

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
