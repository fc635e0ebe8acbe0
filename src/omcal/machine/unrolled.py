"""The pass over the rows as a text from which Numba compiles a loop for each number of columns."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.process import ProcessSetting, once

_TILE_ROWS = 512  # rows whose sums of products are taken in the type of the rows
_PARTS_OF_ROWS = 4  # times V m rows to a part of SᵀF: 4 V k terms to an entry on average

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


@once
def sweep_kernel(
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
    compiled: Callable[..., Any] = numba.njit(nogil=True, cache=True, fastmath=fast)(names[name])
    with _JOINED.held():
        compiled(
            *(np.empty((0, 1, 5), index), np.empty((0, 1, 5), real), np.empty((0, width), real)),
            *(np.empty(width, real), np.empty((width, width), real)),
        )
    return compiled


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
