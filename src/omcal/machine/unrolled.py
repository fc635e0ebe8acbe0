"""Inner loops as source texts; Numba compiles one loop per number of columns or neighbours."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.jit import jit_text, repeated
from omcal.machine.process import once
from omcal.machine.simd import vector_steps

_SUMS = {
    "tile_rows": 256,  # rows whose FᵀF and FoldᵀF are summed in the type of the rows
    "terms": 4,  # times V m rows per part of SᵀF: 4 V k terms per entry on average
}
_TOGETHER = 64  # rows whose fixed points are computed together
_SPARE = 4  # registers that hold no sums

# The pass if a row of F fits into a few vectors. A line with a J stands for one line per vector, K
# per column of F, E and O per even and odd column, and H per column that is multiplied together
# with others. As separate variables they stay in registers, which a loop does not achieve. BLAS
# copies rows to another layout before it multiplies them, which takes as long as products with few
# columns, so all products are written out. Sums over few rows have the type of the rows, which is
# as exact as the terms and twice as fast in float32; they are then added in float64. Each view has
# its own sum zJ, because an addition must wait for the previous one. Without it (the loops of
# `compiled.wide_sweep_kernel` instead), fits take 2 to 13 % more time.
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
            for j in range({c}):
                F[np.uint64(start + row), np.uint64(j)] = tile[np.uint64(row * {width} + j)]
        rows_in_part += {tile_rows}
        if rows_in_part >= {terms} * part.size // {width} or start + {tile_rows} >= n:
            rows_in_part = 0
            for q in range(part.size):
                sums[q] += part[q]
                part[q] = 0.0
    return sums
"""


# U at the fixed point of Eq. 13. B is computed row by row, in vectors as above. Then many rows are
# updated together, cluster by cluster, until none changes by more than `small` times the largest B.
_SETTLE = """
def {name}(indices, weights, stacked, R, small, max_sweeps, U):
    n, V, k = indices.shape
    c = np.uint64(len(R))
    line, of_view = np.intp({line}), stacked.nbytes // V
    u = np.zeros({width}, stacked.dtype)
    at_stacked, at_u = stacked.ctypes.data, u.ctypes.data
    B = np.zeros((c, {together}))
    F = np.zeros((c, {together}))
    f = np.empty({together})
    change = np.empty({together})
    for start in range(0, n, {together}):
        rows = np.uint64(min({together}, n - start))
        for t in range(rows):
            i = np.uint64(start) + t
            uJ = zeros()
            for v in range(np.uint64(V)):
                for a in range(np.uint64(k)):
                    weight = everywhere(weights[i, v, a])
                    q = at_stacked + np.intp(v) * of_view + np.intp(indices[i, v, a]) * line
                    uJ = add_product(weight, load(q + J * {register}), uJ)
            store(at_u + J * {register}, uJ)
            for j in range(c):
                B[j, t] = u[j]
        change[:] = 0.0
        for j in range(c):
            scale = 1.0 / (1.0 - R[j, j])
            for t in range({together}):
                b = B[j, t]
                size, most = abs(b), change[t]
                F[j, t] = b * scale if b > 0.0 else 0.0
                change[t] = size if size > most else most
        limit = small * change[:rows].max()
        for _ in range(max_sweeps):
            change[:] = 0.0
            for j in range(c):
                for t in range({together}):
                    f[t] = B[j, t]
                for i in range(c):
                    r = 0.0 if i == j else R[i, j]
                    for t in range({together}):
                        f[t] += r * F[i, t]
                scale = 1.0 / (1.0 - R[j, j])
                for t in range({together}):
                    new = f[t] * scale
                    new = new if new > 0.0 else 0.0
                    moved, most = abs(new - F[j, t]), change[t]
                    change[t] = moved if moved > most else most
                    F[j, t] = new
            if change[:rows].max() <= limit:
                break
        for column in range(c):
            for t in range({together}):
                f[t] = B[column, t]
            for i in range(c):
                r = R[i, column]
                for t in range({together}):
                    f[t] += r * F[i, t]
            for t in range(rows):
                U[start + t, column] = f[t]
"""


# Eq. 2 from relative distances, products + bias, for as many rows as a vector has lanes. Each
# distance d is inserted into the list of the k + 1 nearest, which stays in registers. Here K stands
# for each position in the list, J for each but the first, from the last one on, and I for the one
# before J. Without it, with a scalar search instead, fits of 60000 samples and more take 23 to 61 %
# more time.
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
def nearest_kernel(k: int, registers: tuple[int, int], real: DTypeLike) -> Callable[..., bool]:
    """Return the search for the k nearest anchors and their weights.

    Products may have any memory order; columns beyond the last bias are ignored. The function
    returns whether all products are finite.
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
def settle_kernel(c: int, registers: tuple[int, int], real: DTypeLike) -> Callable[..., None]:
    """Return the search for the fixed point of rows with c columns."""
    register, real = registers[1], np.dtype(real)
    lanes = register // real.itemsize
    vectors = -(-c // lanes)
    sizes = {"line": vectors * register, "register": register, "width": vectors * lanes}
    name = f"settle_by_{vectors}_vectors_of_{lanes}"
    text = _SETTLE.format(name=name, together=_TOGETHER, **sizes)
    text = repeated(text, {"J": range(vectors)})
    return _compiled(name, text, vector_steps(lanes, real.name))


@once
def vector_sweep_kernel(
    c: int, k: int | None, registers: tuple[int, int], real: DTypeLike
) -> Callable[..., Any]:
    """Return the pass over c columns of F, whose rows fit into a few registers; None: any k."""
    (number, register), real = registers, np.dtype(real)
    lanes = register // real.itemsize
    vectors = -(-c // lanes)
    # Two kinds of sums must leave registers free for the factors.
    most = max(1, (number - _SPARE - vectors) // (2 * vectors))
    together = max(few for few in range(1, most + 1) if c % few == 0)
    sizes = {"lanes": lanes, "register": register, "line": vectors * register}
    sizes |= {"c": c, "together": together, "width": vectors * lanes}
    name = f"sweep_of_{c}_columns_by_{lanes}_{k or 'any'}_neighbours"
    text = _SWEEP_OF_VECTORS.format(name=name, neighbours=k or "k", **sizes, **_SUMS)
    columns = {"K": range(c), "E": range(0, c, 2), "O": range(1, c, 2), "H": range(together)}
    text = repeated(text, columns | {"J": range(vectors)})
    return _compiled(name, text, vector_steps(lanes, real.name))


def _compiled(name: str, text: str, steps: Mapping[str, Any]) -> Callable[..., Any]:
    """Return the function of this name, compiled when it is first called."""
    return jit_text(name, text, {**globals(), **steps}, fastmath={"contract", "nsz"})
