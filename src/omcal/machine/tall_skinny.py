"""Products of blocks of rows with few columns, which take most of the time of graphs and anchors.

BLAS first copies rows to another layout, which takes as long as products with few columns. Here the
rows are read in place and the sums of a tile of rows stay in registers. Without it, wide views
take 8 to 12 % more CPU time (benchmarks/ablations.py).
"""

from __future__ import annotations

import platform
from collections.abc import Callable

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.jit import jit_text, repeated
from omcal.machine.process import once
from omcal.machine.simd import aligned, registers, vector_steps

_ARM = platform.machine().lower() in ("aarch64", "arm64")
_WIDE = 64  # bytes per register; with smaller ones BLAS multiplies
_MOST_ROWS = 8  # rows per tile; more rows, a page apart, would evict each other from the cache
_FEWEST, _MOST = 2, 6  # registers of sums per row
_FULL = 0.75  # smallest fraction of the registers that columns fill


class ThinProduct:
    """The function X ↦ X W for a W of few columns, which is zero until it is filled.

    Equal columns have bitwise equal products, unless BLAS multiplies.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, *, compiled: bool) -> None:
        (width, m), lanes = shape, _WIDE // dtype.itemsize
        vectors = -(-m // lanes)
        pays = _FEWEST <= vectors <= _MOST and m >= _FULL * vectors * lanes
        self._tiles: Callable[..., None] | None = None
        if compiled and pays and registers()[1] == _WIDE:
            self._tiles = tile_kernel(vectors, dtype.name)
        # On x86 OpenBLAS takes 5 to 15 % less time with 32 columns than with 30.
        step = lanes if self._tiles else 1 if _ARM else 4
        self._with_zeros = aligned((width, -(-m // step) * step), dtype)
        self._place = self._with_zeros.ctypes.data
        self.W = self._with_zeros[:, :m]

    def __call__(self, X: Array, *, any_order: bool = True) -> Array:
        """Return the products; with `any_order` columns of zeros may follow."""
        if not any_order:
            # For 1000 rows of float64 OpenBLAS takes 5 to 25 % less time so on x86.
            if X.dtype == np.float64:
                return np.asarray((self.W.T @ X.T).T)
            return np.asarray((X @ self._with_zeros)[:, : self.W.shape[1]])
        W = self._with_zeros
        side_by_side = X.dtype == W.dtype and X.strides[1] == X.itemsize
        if self._tiles is None or not side_by_side or len(X) < _MOST_ROWS:
            # With 24 to 50 columns OpenBLAS takes 3 to 16 % less time so on ARM, more on x86.
            return np.asarray((W.T @ X.T).T if _ARM else X @ W)
        products = np.empty((len(X), W.shape[1]), W.dtype)
        rows = X.ctypes.data, X.strides[0], *X.shape
        self._tiles(*rows, self._place, products.ctypes.data)
        return products


# A line with an I stands for one line per row of a tile, a line with a J for one per vector of a
# row. If the last rows are not a whole tile, some rows are multiplied twice.
_PRODUCT = """
def {name}(X, stride, n, width, W, out):
    for i in range(0, n, {rows}):
        i = min(i, n - {rows})
        xI = X + (i + I) * stride
        sI_J = zeros()
        for b in range(width):
            wJ = load(W + b * {line} + J * {register})
            yI = everywhere(number(xI + b * {size}))
            sI_J = add_product(yI, wJ, sI_J)
        store(out + (i + I) * {line} + J * {register}, sI_J)
"""


@once
def tile_kernel(vectors: int, dtype: str) -> Callable[..., None]:
    """Return the product of rows with columns that fill `vectors` registers.

    The function takes the address of X, the bytes from a row to the next, the number of rows (at
    least 8) and of features, and the addresses of W and of the products.
    """
    size = np.dtype(dtype).itemsize
    rows = min(_MOST_ROWS, (registers()[0] - 1) // vectors - 1)
    name = f"product_with_{vectors}_registers_of_{dtype}"
    sizes = {"rows": rows, "line": vectors * _WIDE, "register": _WIDE, "size": size}
    text = _PRODUCT.format(name=name, **sizes)
    text = repeated(text, {"I": range(rows), "J": range(vectors)})
    return jit_text(name, text, {**globals(), **vector_steps(_WIDE // size, dtype)})
