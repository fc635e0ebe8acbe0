"""Inner loops as texts from which Numba compiles one for each number of columns, or neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.jit import jit_text, repeated
from omcal.machine.process import ProcessSetting, once
from omcal.machine.simd import vector_steps

_SUMS = {
    "tile_rows": 256,  # whose sums of products are taken in the type of the rows
    "terms": 4,  # times V m rows to a part of SᵀF: 4 V k terms to an entry on average
}
_SPARE = 4  # registers that are not for sums
_LANES = 64  # rows whose neighbours are found together, and that settle together

# Copies are loops. For an assignment of a slice to a slice Numba also compiles the formatting of an
# error message, which doubles the time to compile a first kernel.
#
# A line that holds a J stands for one such line for each of the columns of a slice. As variables of
# their own they stay in registers, which a loop does not achieve. A tile of rows stays in the cache
# from its first use to its last, without a word of Python in between. The sums of rows enough for a
# few dozen terms in each are taken in the type of the rows, which is as exact as the terms are and
# twice as fast in float32, and those sums are added up in float64. Each view has a sum of its own,
# zJ, as an addition has to wait for the one before.
_SWEEP = """
def {name}(indices, weights, F, stacked, R):
    n, V, k = indices.shape
    columns, c = np.uint64(len(R)), np.uint64(F.shape[1])
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
        for row in range(rows):
            for j in range(c):
                old[row, j] = F[np.uint64(start) + row, j]
        np.dot(old, R, new)
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
        np.dot(new.T, new, FtF_of_tile)
        np.dot(old.T, new, FoldtF_of_tile)
        FtF += FtF_of_tile
        FoldtF += FoldtF_of_tile
        for row in range(rows):
            for j in range(c):
                F[np.uint64(start) + row, j] = new[row, j]
        rows_in_part += {tile_rows}
        if rows_in_part >= {terms} * entries // {width} or start + {tile_rows} >= n:
            rows_in_part = 0
            for q in range(stacked.size):
                total[q] += part[q]
                part[q] = zero
    return sums
"""

# The same where a row of F fits into a few vectors. A line that holds a J stands for one for each
# of them, K for each column of F, E and O for its even and its odd ones, and H for columns that are
# multiplied together. Nothing is left to BLAS, which rearranges rows before it multiplies them:
# that takes as long as products with few columns do.
_SWEEP_OF_VECTORS = """
def {name}(indices, weights, F, stacked, R):
    n, V, k = indices.shape
    line, of_view = np.intp({line}), stacked.nbytes // V
    room = np.zeros(stacked.size + 2 * R.size + {tile_rows} * {width} + {lanes}, F.dtype)
    room = room[-room.ctypes.data % {register} // F.itemsize :]
    part, squares = room[: stacked.size], room[stacked.size : stacked.size + 2 * R.size]
    tile = room[part.size + squares.size :]
    sums = np.zeros(part.size + squares.size)
    at_stacked, at_part, at_tile = stacked.ctypes.data, part.ctypes.data, tile.ctypes.data
    at_FtF, at_FoldtF = squares.ctypes.data, squares.ctypes.data + R.nbytes
    rK_J = load(R.ctypes.data + K * line + J * {register})
    rows_in_part = 0
    for start in range(0, n, {tile_rows}):
        rows = min({tile_rows}, n - start)
        for row in range(rows):
            i = np.uint64(start + row)
            xJ = zeros()
            yJ = zeros()
            uJ = zeros()
            oldK = everywhere(F[i, np.uint64(K)])
            xJ = add_product(oldE, rE_J, xJ)
            yJ = add_product(oldO, rO_J, yJ)
            for v in range(np.uint64(V)):
                zJ = zeros()
                for a in range(np.uint64({neighbours})):
                    weight = everywhere(weights[i, v, a])
                    q = at_stacked + np.intp(v) * of_view + np.intp(indices[i, v, a]) * line
                    zJ = add_product(weight, load(q + J * {register}), zJ)
                uJ = plus(uJ, zJ)
            uJ = positive(plus(plus(xJ, yJ), uJ))
            store(at_tile + row * line + J * {register}, uJ)
            for v in range(np.uint64(V)):
                for a in range(np.uint64({neighbours})):
                    weight = everywhere(weights[i, v, a])
                    q = at_part + np.intp(v) * of_view + np.intp(indices[i, v, a]) * line
                    store(q + J * {register}, add_product(weight, uJ, load(q + J * {register})))
        for b in range(0, {c}, {together}):
            fH_J = zeros()
            gH_J = zeros()
            for row in range(rows):
                uJ = load(at_tile + row * line + J * {register})
                oldH = everywhere(F[np.uint64(start + row), np.uint64(b + H)])
                newH = everywhere(tile[np.uint64(row * {width} + b + H)])
                fH_J = add_product(oldH, uJ, fH_J)
                gH_J = add_product(newH, uJ, gH_J)
            store(at_FoldtF + (b + H) * line + J * {register}, fH_J)
            store(at_FtF + (b + H) * line + J * {register}, gH_J)
        for q in range(squares.size):
            sums[part.size + q] += squares[q]
        for row in range(rows):
            uK = tile[np.uint64(row * {width} + K)]
            F[np.uint64(start + row), np.uint64(K)] = uK
        rows_in_part += {tile_rows}
        if rows_in_part >= {terms} * part.size // {width} or start + {tile_rows} >= n:
            rows_in_part = 0
            for q in range(part.size):
                sums[q] += part[q]
                part[q] = 0.0
    return sums
"""


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
                for t in range({lanes}):
                    f[t] = B[j, t]
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
            for t in range({lanes}):
                f[t] = B[column, t]
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
        for t in range(rows):
            largest[start + t] = best[t]
            labels[start + t] = where[t]
"""


# Eq. 2 from relative distances, products + bias, of as many rows as a vector holds. Each distance d
# finds its place in the list of the k + 1 nearest, which stays in registers, and what is farther
# moves on by one. Here a K stands for each place in the list, a J for each but the first, from the
# last one on, and an I for the one before.
_NEAREST = """
def {name}(products, bias, tolerance, indices, weights):
    n, m = len(products), len(bias)
    real = products.dtype
    turned = np.zeros(m * {lanes}, real)
    best = np.empty(({k} + 1) * {lanes}, real)
    where = np.empty(({k} + 1) * {lanes}, np.int32)
    scale = np.empty({lanes}, real)
    nothing = np.empty({lanes}, real)
    zero = real.type(0)
    unsound = zero
    farthest = everywhere(real.type(np.inf))
    largest_bias = everywhere(real.type(np.abs(bias).max()))
    for start in range(0, n, {lanes}):
        width = np.uint64(min({lanes}, n - start))
        for j in range(np.uint64(m)):
            column = products[start : start + width, j]
            for t in range(width):
                turned[j * np.uint64({lanes}) + t] = column[t]
        eK = farthest
        aK = whole(np.int32(0))  # so that no index can leave the graph, whatever the distances are
        largest = largest_bias
        absent = zeros()
        for j in range(m):
            d = load(turned.ctypes.data + j * {register})
            largest = more(largest, more(d, minus(zeros(), d)))
            absent = add_product(d, zeros(), absent)
            d = plus(d, everywhere(real.type(bias[j])))
            i = whole(np.int32(j))
            aJ = where_less(d, eJ, where_less(d, eI, aI, i), aJ)
            a0 = where_less(d, e0, i, a0)
            eJ = less(more(d, eI), eJ)
            e0 = less(d, e0)
        store(best.ctypes.data + K * {register}, eK)
        store_whole(where.ctypes.data + K * {lanes} * 4, aK)
        store(scale.ctypes.data, largest)
        store(nothing.ctypes.data, absent)
        for t in range(width):
            unsound += nothing[t]
            last = best[np.uint64({k} * {lanes}) + t]
            total = zero
            for a in range({k}):
                total += last - best[np.uint64(a * {lanes}) + t]
            tied = total <= tolerance * scale[t]
            for a in range({k}):
                p = np.uint64(a * {lanes}) + t
                indices[start + t, a] = where[p]
                weights[start + t, a] = 1.0 / {k} if tied else (last - best[p]) / total
    return unsound == zero
"""


@once
def nearest_abreast_kernel(
    k: int, registers: tuple[int, int], real: DTypeLike
) -> Callable[..., bool]:
    """The k nearest anchors and their weights, from products in any order in memory.

    Those beyond the last bias do not count.
    It returns whether all of the products are finite.
    """
    real, register = np.dtype(real), registers[1]
    lanes = register // real.itemsize
    name = f"nearest_{k}_of_{real.name}_by_{lanes}"
    text = _NEAREST.format(name=name, k=k, lanes=lanes, register=register)
    lines = [
        line.replace("J", str(j)).replace("I", str(j - 1))
        for line in repeated(text, {"K": range(k + 1)}).splitlines()
        for j in (range(k, 0, -1) if "J" in line else [0])
    ]
    return _compiled(name, "\n".join(lines), vector_steps(lanes, real.name))


@once
def settle_kernel(width: int, index: DTypeLike, real: DTypeLike) -> Callable[..., None]:
    """What rows settle at, `width` columns of what they start from at a time."""
    name = f"settle_by_{width}"
    text = _SETTLE.format(name=name, width=width, lanes=_LANES)
    compiled = _compiled(name, repeated(text, {"J": range(width)}))
    graphs = np.empty((0, 1, 5), index), np.empty((0, 1, 5), real), np.empty(width, real)
    rows = np.empty((0, width), real), np.empty(0, real), np.empty(0, np.int32)
    with _JOINED.held():
        compiled(*graphs, np.zeros((width, width)), 0.0, 0, *rows)
    return compiled


@once
def sweep_kernel(
    width: int, k: int | None, index: DTypeLike, real: DTypeLike
) -> Callable[..., Any]:
    """The pass over any number of columns of F, `width` of them at a time; None: any k."""
    name = f"sweep_by_{width}_{k or 'any'}_neighbours"
    text = _SWEEP.format(name=name, width=width, neighbours=k or "k", **_SUMS)
    return _sweep(name, repeated(text, {"J": range(width)}), {}, (width, width, index, real))


@once
def vector_sweep_kernel(
    c: int, k: int | None, registers: tuple[int, int], index: DTypeLike, real: DTypeLike
) -> Callable[..., Any]:
    """The pass over c columns of F, whose rows fit into a few registers; None: any k."""
    (number, register), real = registers, np.dtype(real)
    lanes = register // real.itemsize
    vectors = -(-c // lanes)
    # So many that their sums, of two kinds, leave registers for what is multiplied.
    most = max(1, (number - _SPARE - vectors) // (2 * vectors))
    together = max(few for few in range(1, most + 1) if c % few == 0)
    sizes = {"lanes": lanes, "register": register, "line": vectors * register}
    sizes |= {"c": c, "together": together, "width": vectors * lanes}
    name = f"sweep_of_{c}_columns_by_{lanes}_{k or 'any'}_neighbours"
    text = _SWEEP_OF_VECTORS.format(name=name, neighbours=k or "k", **sizes, **_SUMS)
    columns = {"K": range(c), "E": range(0, c, 2), "O": range(1, c, 2), "H": range(together)}
    text = repeated(text, columns | {"J": range(vectors)})
    return _sweep(name, text, vector_steps(lanes, real.name), (c, vectors * lanes, index, real))


def _sweep(
    name: str, text: str, steps: Mapping[str, Any], sizes: tuple[int, int, DTypeLike, DTypeLike]
) -> Callable[..., Any]:
    """Compiled for arguments of these types."""
    c, width, index, real = sizes
    compiled = _compiled(name, text, steps)
    graphs = np.empty((0, 1, 5), index), np.empty((0, 1, 5), real)
    with _JOINED.held():
        compiled(*graphs, np.empty((0, c), real), np.empty(width, real), np.empty((c, width), real))
    return compiled


def _compiled(name: str, text: str, steps: Mapping[str, Any] = {}) -> Callable[..., Any]:
    """The function of this name, compiled when it is first called."""
    return jit_text(name, text, {**globals(), **steps}, fastmath={"contract", "nsz"})


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
