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
from itertools import pairwise
from typing import Any

from numpy.typing import DTypeLike

MIN_ROWS = 50_000  # below this, loading the compiled code takes longer than it saves
_IN_REGISTERS = 20  # columns of a row that the registers hold at once
_UNROLLED = 5  # neighbours: the default number is worth code of its own
_PARTS_OF_ROWS = 4  # times V m rows to a part of the sums: 4 V k terms to an entry on average


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


def sweep(indices: Any, weights: Any, U: Any, stacked: Any, StF: Any) -> None:
    """U ← max(U + [S_1 … S_V] stacked, 0) and StF += [S_1 … S_V]ᵀ U: the sparse half of a pass."""
    n_columns = U.shape[1]
    slices = -(-n_columns // _IN_REGISTERS)
    cuts = [i * n_columns // slices for i in range(slices + 1)]
    for first, end in pairwise(cuts):
        k = _UNROLLED if indices.shape[2] == _UNROLLED else None
        kernel = _sweep_columns(end - first, k, indices.dtype, U.dtype)
        columns = slice(first, end)
        StF[:, columns] += kernel(indices, weights, U, stacked[:, columns].ravel(), first)


# A line that holds a J stands for one such line for each of the columns: as variables of their
# own they stay in registers, which a loop over columns does not achieve. The sums of rows enough
# for a few dozen terms in each are taken in the type of the rows, which is as exact as the terms
# are and twice as fast in float32, and those sums are added up in float64.
_SWEEP_COLUMNS = """
def {name}(indices, weights, U, stacked, first):
    n, V, k = indices.shape
    m = np.uint64(stacked.size // (V * {width}))
    j = np.uint64(first)
    zero = U.dtype.type(0)
    total = np.zeros(stacked.size)
    part = np.zeros_like(stacked)
    rows_of_a_part = {terms} * V * m
    for start in range(0, n, rows_of_a_part):
        for i in range(start, min(start + rows_of_a_part, n)):
            uJ = U[i, j + np.uint64(J)]
            for v in range(V):
                for a in range({neighbours}):
                    weight = weights[i, v, a]
                    q = (np.uint64(v) * m + np.uint64(indices[i, v, a])) * np.uint64({width})
                    uJ += weight * stacked[q + np.uint64(J)]
            uJ = max(uJ, zero)
            U[i, j + np.uint64(J)] = uJ
            for v in range(V):
                for a in range({neighbours}):
                    weight = weights[i, v, a]
                    q = (np.uint64(v) * m + np.uint64(indices[i, v, a])) * np.uint64({width})
                    part[q + np.uint64(J)] += weight * uJ
        for q in range(stacked.size):
            total[q] += part[q]
            part[q] = zero
    return total.reshape(-1, {width})
"""


@cache
def _sweep_columns(
    width: int, k: int | None, index: DTypeLike, real: DTypeLike
) -> Callable[..., Any]:
    """The pass over `width` consecutive columns of U from a given one on; None: any k."""
    import numba
    import numpy as np

    name = f"sweep_{width}_columns_{k or 'any'}_neighbours"
    lines = _SWEEP_COLUMNS.format(
        name=name, width=width, neighbours=k or "k", terms=_PARTS_OF_ROWS
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
            *(np.empty(width, real), 0),
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
    import numpy as np

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
