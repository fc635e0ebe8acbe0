"""Inner loops as texts from which Numba compiles one for each number of columns, or neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.jit import jit_text
from omcal.machine.process import ProcessSetting, once

_TILE_ROWS = 256  # rows whose sums of products are taken in the type of the rows
_PARTS_OF_ROWS = 4  # times V m rows to a part of SᵀF: 4 V k terms to an entry on average
_LANES = 64  # rows whose neighbours are found together, and that settle together

# A line that holds a J stands for one such line for each of the columns of a slice, and one that
# holds a K for each column of F; H and I are for two columns and four rows that are multiplied
# together. As variables of their own they stay in registers, which a loop does not achieve. A tile
# of rows stays in the cache from its first use to its last, without a word of Python in between.
# The sums of rows enough for a few dozen terms in each are taken in the type of the rows, which is
# as exact as the terms are and twice as fast in float32, and those sums are added up in float64.
# Each view has a sum of its own, zJ, as an addition has to wait for the one before.
_SWEEP = """
def {name}(indices, weights, F, stacked, R):
    n, V, k = indices.shape
    columns = np.uint64(len(R))
    slices = len(R) // {width}
    entries = stacked.size // slices
    of_view = np.uint64(entries // V)
    zero = F.dtype.type(0)
    old_tile = np.zeros(({tile_rows}, columns), F.dtype)
    new_tile = np.zeros(({tile_rows}, columns), F.dtype)
    FtF_of_tile = np.zeros((columns, columns), F.dtype)
    FoldtF_of_tile = np.zeros((columns, columns), F.dtype)
    sums = np.zeros(stacked.size + 2 * R.size)
    total = sums[: stacked.size]
    FtF = sums[stacked.size : stacked.size + R.size].reshape(R.shape)
    FoldtF = sums[stacked.size + R.size :].reshape(R.shape)
    part = np.zeros_like(stacked)
    rows_in_part = 0
    for start in range(0, n, {tile_rows}):
        rows = np.uint64(min({tile_rows}, n - start))
        old, new = old_tile[:rows], new_tile[:rows]
{product}
        for s in range(slices):
            j = np.uint64(s * {width})
            first = np.uint64(s * entries)
            for row in range(rows):
                i = np.uint64(start) + row
                uJ = new[row, j + np.uint64(J)]
                for v in range(np.uint64(V)):
                    zJ = zero
                    for a in range(np.uint64({neighbours})):
                        weight = weights[i, v, a]
                        q = first + v * of_view + np.uint64(indices[i, v, a]) * np.uint64({width})
                        zJ += weight * stacked[q + np.uint64(J)]
                    uJ += zJ
                uJ = max(uJ, zero)
                new[row, j + np.uint64(J)] = uJ
                for v in range(np.uint64(V)):
                    for a in range(np.uint64({neighbours})):
                        weight = weights[i, v, a]
                        q = first + v * of_view + np.uint64(indices[i, v, a]) * np.uint64({width})
                        part[q + np.uint64(J)] += weight * uJ
{moments}
        FtF += FtF_of_tile
        FoldtF += FoldtF_of_tile
{back}
        rows_in_part += {tile_rows}
        if rows_in_part >= {terms} * entries // {width} or start + {tile_rows} >= n:
            rows_in_part = 0
            for q in range(stacked.size):
                total[q] += part[q]
                part[q] = zero
    return sums
"""

# BLAS rearranges rows before it multiplies them, which takes as long as products with few columns.
# For these it is worth compiling code for each number of them.
_BY_BLAS = {
    "product": """
        old[:, : F.shape[1]] = F[start : start + rows]
        np.dot(old, R, new)
""",
    "moments": """
        np.dot(new.T, new, FtF_of_tile)
        np.dot(old.T, new, FoldtF_of_tile)
""",
    "back": """
        F[start : start + rows] = new[:, : F.shape[1]]
""",
}
_BY_LOOPS = {
    "product": """
        for row in range(rows):
            i = np.uint64(start) + row
            xK = F[i, np.uint64(K)]
            old_tile[row, np.uint64(K)] = xK
        old_tile[rows:] = zero
        for row in range(np.uint64(0), rows, np.uint64(4)):
            uI_J = zero
            for b in range(np.uint64({c})):
                xI = old_tile[row + np.uint64(I), b]
                rJ = R[b, np.uint64(J)]
                uI_J += xI * rJ
            new_tile[row + np.uint64(I), np.uint64(J)] = uI_J
""",
    "moments": """
        for b in range(np.uint64(0), np.uint64({c}), np.uint64(2)):
            fH_J = zero
            gH_J = zero
            for row in range(rows):
                uJ = new[row, np.uint64(J)]
                xH = old[row, b + np.uint64(H)]
                yH = new[row, b + np.uint64(H)]
                fH_J += xH * uJ
                gH_J += yH * uJ
            FoldtF_of_tile[b + np.uint64(H), np.uint64(J)] = fH_J
            FtF_of_tile[b + np.uint64(H), np.uint64(J)] = gH_J
""",
    "back": """
        for row in range(rows):
            i = np.uint64(start) + row
            xK = new[row, np.uint64(K)]
            F[i, np.uint64(K)] = xK
""",
}


# U at the fixed point of Eq. 13. Where a row starts from is found row by row, a slice of columns in
# registers as above; then many rows settle at once, cluster by cluster.
_SETTLE = """
def {name}(indices, weights, stacked, R, small, max_sweeps, U, largest, labels):
    n, V, k = indices.shape
    c = np.uint64(len(R))
    slices = (len(R) + {width} - 1) // {width}
    entries = stacked.size // slices
    of_view = np.uint64(entries // V)
    zero = stacked.dtype.type(0)
    B = np.zeros((slices * {width}, {lanes}))
    F = np.zeros((c, {lanes}))
    f = np.empty({lanes})
    change = np.empty({lanes})
    best = np.empty({lanes}, U.dtype)
    where = np.empty({lanes}, np.int32)
    for start in range(0, n, {lanes}):
        rows = np.uint64(min({lanes}, n - start))
        for s in range(slices):
            j = np.uint64(s * {width})
            first = np.uint64(s * entries)
            for t in range(rows):
                i = np.uint64(start) + t
                uJ = zero
                for v in range(np.uint64(V)):
                    zJ = zero
                    for a in range(np.uint64(k)):
                        weight = weights[i, v, a]
                        q = first + v * of_view + np.uint64(indices[i, v, a]) * np.uint64({width})
                        zJ += weight * stacked[q + np.uint64(J)]
                    uJ += zJ
                B[j + np.uint64(J), t] = uJ
        change[:] = 0.0
        for j in range(c):
            scale = 1.0 / (1.0 - R[j, j])
            for t in range({lanes}):
                b = B[j, t]
                size, most = abs(b), change[t]
                F[j, t] = b * scale if b > 0.0 else 0.0
                change[t] = size if size > most else most
        limit = small * change[:rows].max()
        for _ in range(max_sweeps):
            change[:] = 0.0
            for j in range(c):
                f[:] = B[j]
                for i in range(c):
                    r = 0.0 if i == j else R[i, j]
                    for t in range({lanes}):
                        f[t] += r * F[i, t]
                scale = 1.0 / (1.0 - R[j, j])
                for t in range({lanes}):
                    new = f[t] * scale
                    new = new if new > 0.0 else 0.0
                    moved, most = abs(new - F[j, t]), change[t]
                    change[t] = moved if moved > most else most
                    F[j, t] = new
            if change[:rows].max() <= limit:
                break
        best[:] = -np.inf
        where[:] = 0
        for column in range(c):
            j = np.int32(column)
            f[:] = B[column]
            for i in range(c):
                r = R[i, column]
                for t in range({lanes}):
                    f[t] += r * F[i, t]
            for t in range({lanes}):
                u, most = U.dtype.type(f[t]), best[t]
                best[t] = u if u > most else most
                where[t] = j if u > most else where[t]
            for t in range(rows):
                U[start + t, column] = f[t]
        largest[start : start + rows] = best[:rows]
        labels[start : start + rows] = where[:rows]
"""


# Eq. 2 from relative distances, products + bias. Each distance d finds its place in the list of the
# k + 1 nearest, and what is farther moves on by one: steps without branches, for many rows at once.
# Here a J stands for each place in the list but the first, and an I for the one before.
_NEAREST = """
def {name}(products, bias, tolerance, indices, weights):
    n, m = len(products), len(bias)
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

    Those beyond the last bias do not count.
    It returns whether all of the products are finite.
    """
    name = f"nearest_{k}_abreast"
    source = [
        line.replace("J", str(j)).replace("I", str(j - 1))
        for line in _NEAREST.format(name=name, lanes=_LANES).splitlines()
        for j in range(1, k + 1 if "J" in line else 2)
    ]
    return _compiled(name, "\n".join(source))


@once
def settle_kernel(width: int, index: DTypeLike, real: DTypeLike) -> Callable[..., None]:
    """What rows settle at, `width` columns of what they start from at a time."""
    name = f"settle_by_{width}"
    text = _SETTLE.format(name=name, width=width, lanes=_LANES)
    compiled = _compiled(name, _repeated(text, {"J": width}))
    graphs = np.empty((0, 1, 5), index), np.empty((0, 1, 5), real), np.empty(width, real)
    rows = np.empty((0, width), real), np.empty(0, real), np.empty(0, np.int32)
    with _JOINED.held():
        compiled(*graphs, np.zeros((width, width)), 0.0, 0, *rows)
    return compiled


@once
def sweep_kernel(
    c: int | None, width: int, k: int | None, index: DTypeLike, real: DTypeLike
) -> Callable[..., Any]:
    """The pass over c columns of F, `width` of them at a time; None: any c, or k."""
    name = f"sweep_{c or 'any'}_columns_by_{width}_{k or 'any'}_neighbours"
    sizes = {
        "name": name,
        "c": c,
        "width": width,
        "neighbours": k or "k",
        "terms": _PARTS_OF_ROWS,
        "tile_rows": _TILE_ROWS,
    }
    products = {at: text.format(**sizes) for at, text in (_BY_LOOPS if c else _BY_BLAS).items()}
    text = _SWEEP.format(**sizes, **products)
    compiled = _compiled(name, _repeated(text, {"H": 2, "I": 4, "J": width, "K": c or 0}))
    with _JOINED.held():
        compiled(
            *(
                np.empty((0, 1, 5), index),
                np.empty((0, 1, 5), real),
                np.empty((0, c or width), real),
            ),
            *(np.empty(width, real), np.empty((width, width), real)),
        )
    return compiled


def _repeated(text: str, counts: Mapping[str, int]) -> str:
    """The text with as many lines for each that holds a letter, with numbers in its place."""
    lines = text.splitlines()
    for letter, count in counts.items():
        lines = [
            line.replace(letter, str(number))
            for line in lines
            for number in range(count if letter in line else 1)
        ]
    return "\n".join(lines)


def _compiled(name: str, text: str) -> Callable[..., Any]:
    """The function of this name, compiled when it is first called."""
    return jit_text(name, text, globals(), fastmath={"contract", "nsz"})


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
