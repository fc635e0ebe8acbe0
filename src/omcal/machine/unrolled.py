"""Inner loops as texts from which Numba compiles one for each number of columns, or neighbours."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.jit import jit
from omcal.machine.process import ProcessSetting, once

_TILE_ROWS = 512  # rows whose sums of products are taken in the type of the rows
_PARTS_OF_ROWS = 4  # times V m rows to a part of SᵀF: 4 V k terms to an entry on average
_LANES = 64  # rows whose neighbours are found together

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


# Eq. 2 from relative distances, products + bias. Each distance d finds its place in the list of the
# k + 1 nearest, and what is farther moves on by one: steps without branches, for many rows at once.
# Here a J stands for each place in the list but the first, and an I for the one before.
_NEAREST = """
def {name}(products, bias, tolerance, indices, weights):
    n, m = products.shape
    k = indices.shape[1]
    best = np.empty((k + 1) * {lanes}, products.dtype)
    where = np.empty((k + 1) * {lanes}, np.int32)
    scale = np.empty({lanes}, products.dtype)
    distance = np.empty({lanes}, products.dtype)
    nothing = np.empty({lanes}, products.dtype)
    zero = products.dtype.type(0)
    unsound = zero
    largest_bias = np.abs(bias).max()
    for start in range(0, n, {lanes}):
        width = np.uint64(min({lanes}, n - start))
        best[:] = np.inf
        where[:] = 0  # so that no index can leave the graph, whatever the distances are
        scale[:] = largest_bias
        nothing[:] = zero
        for anchor in range(m):
            j = np.int32(anchor)
            b = bias[anchor]
            column = products[start : start + width, anchor]
            for t in range(width):  # a loop of its own, as the numbers may lie apart
                distance[t] = column[t]
            for t in range(width):
                d = distance[t]
                size, s = abs(d), scale[t]
                scale[t] = size if size > s else s
                nothing[t] += zero * d
                d += b
                e0, a0 = best[t], where[t]
                eJ = best[np.uint64(J * {lanes}) + t]
                aJ = where[np.uint64(J * {lanes}) + t]
                c0 = d < e0
                cJ = d < eJ
                best[t] = d if c0 else e0
                where[t] = j if c0 else a0
                xJ = eI if cI else d
                yJ = aI if cI else j
                best[np.uint64(J * {lanes}) + t] = xJ if cJ else eJ
                where[np.uint64(J * {lanes}) + t] = yJ if cJ else aJ
        for t in range(width):
            unsound += nothing[t]
            last = best[np.uint64(k * {lanes}) + t]
            total = zero
            for a in range(k):
                total += last - best[np.uint64(a * {lanes}) + t]
            tied = total <= tolerance * scale[t]
            for a in range(k):
                p = np.uint64(a * {lanes}) + t
                indices[start + t, a] = where[p]
                weights[start + t, a] = 1.0 / k if tied else (last - best[p]) / total
    return unsound == zero
"""


@once
def nearest_abreast_kernel(k: int) -> Callable[..., bool]:
    """The k nearest anchors and their weights, from products in any order in memory.

    It returns whether all of the products are finite.
    """
    name = f"nearest_{k}_abreast"
    source = [
        line.replace("J", str(j)).replace("I", str(j - 1))
        for line in _NEAREST.format(name=name, lanes=_LANES).splitlines()
        for j in range(1, k + 1 if "J" in line else 2)
    ]
    return _compiled(name, source, {"contract", "nsz"})


@once
def sweep_kernel(
    width: int, k: int | None, index: DTypeLike, real: DTypeLike
) -> Callable[..., Any]:
    """The pass, `width` columns of F at a time; None: any k."""
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
    compiled = _compiled(name, source, {"contract", "reassoc", "nsz"})
    with _JOINED.held():
        compiled(
            *(np.empty((0, 1, 5), index), np.empty((0, 1, 5), real), np.empty((0, width), real)),
            *(np.empty(width, real), np.empty((width, width), real)),
        )
    return compiled


def _compiled(name: str, source: list[str], fast: set[str]) -> Callable[..., Any]:
    """The function of this name, compiled when it is first called."""
    names: dict[str, Any] = {"np": np, "__name__": __name__}
    # Under the name of this file, so that Numba finds a place for its cache.
    exec(compile("\n".join(source), __file__, "exec"), names)
    return jit(fastmath=fast)(names[name])


def _config() -> Any:
    from numba import config

    return config


# Numba then compiles statements on neighbouring columns to vector instructions, which is a quarter
# faster. It has this as a setting of the process only.
_JOINED = ProcessSetting(
    lambda: _config().SLP_VECTORIZE,
    lambda: setattr(_config(), "SLP_VECTORIZE", 1),
    lambda before: setattr(_config(), "SLP_VECTORIZE", before),
)
