"""Products of blocks of rows with few columns, which take most of the time of graphs and anchors.

BLAS rearranges rows before it multiplies them, which takes as long as the products with few
columns do. Code of our own reads the rows where they are and keeps the sums of a tile of them in
registers. It is written in the language of LLVM, whose own choice is registers of half the size.
"""

from __future__ import annotations

import platform
from collections.abc import Callable
from functools import cache
from itertools import chain
from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.jit import jit_text
from omcal.machine.process import once

_ARM = platform.machine().lower() in ("aarch64", "arm64")
_REGISTER = 64  # bytes
_REGISTERS = 32
_MOST_ROWS = 8  # of a tile: more, a page apart, would displace one another in the cache
_FEWEST, _MOST = 2, 6  # registers of sums to a row
_FULL = 0.75  # of these registers


class ThinProduct:
    """X W for a W of few columns, which is zero until it is filled.

    Columns that are equal have equal products, to the last bit.
    """

    def __init__(self, shape: tuple[int, ...], dtype: np.dtype, *, compiled: bool) -> None:
        (width, m), lanes = shape, _REGISTER // dtype.itemsize
        registers = -(-m // lanes)
        pays = _FEWEST <= registers <= _MOST and m >= _FULL * registers * lanes
        self._tiles: Callable[..., None] | None = None
        if compiled and pays and _wide_registers():
            self._tiles = tile_kernel(registers, dtype.name)
        # On x86 OpenBLAS takes 5 to 15 % less time with 32 columns than with 30.
        step = lanes if self._tiles else 1 if _ARM else 4
        self._with_zeros = _on_line((width, -(-m // step) * step), dtype)
        self._place = self._with_zeros.ctypes.data
        self.W = self._with_zeros[:, :m]

    def __call__(self, X: Array, *, any_order: bool = True) -> Array:
        """The products; where any order will do, there may be columns of zeros beyond them."""
        if not any_order:
            return np.asarray(X @ self.W)
        W = self._with_zeros
        side_by_side = X.dtype == W.dtype and X.strides[1] == X.itemsize
        if self._tiles is None or not side_by_side or len(X) < _MOST_ROWS:
            # With 24 to 50 columns OpenBLAS takes 3 to 16 % less time so on ARM, more on x86.
            return np.asarray((W.T @ X.T).T if _ARM else X @ W)
        products = np.empty((len(X), W.shape[1]), W.dtype)
        rows = X.ctypes.data, X.strides[0], *X.shape
        self._tiles(*rows, self._place, products.ctypes.data)
        return products


def _on_line(shape: tuple[int, int], dtype: np.dtype) -> Array:
    """Zeros that begin where a line of the cache does, so that no register is read from two."""
    size = shape[0] * shape[1] * dtype.itemsize
    room = np.zeros(size + _REGISTER, np.uint8)
    start = -room.ctypes.data % _REGISTER
    return room[start : start + size].view(dtype).reshape(shape)


@cache
def _wide_registers() -> bool:
    """Whether the processor has 32 registers of 64 bytes."""
    from llvmlite import binding

    return bool(binding.get_host_cpu_features().get("avx512f", False))


# The last rows are multiplied once more where they are no whole tile.
_PRODUCT = """
def {name}(X, stride, n, width, W, out):
    for i in range(0, n, {rows}):
        i = min(i, n - {rows})
        tile(X + i * stride, stride, width, W, out + i * {line})
"""


@once
def tile_kernel(registers: int, dtype: str) -> Callable[..., None]:
    """The product of rows with columns that fill so many registers.

    It takes the address of X, the bytes from a row to the next, their number, at least 8, and
    width, and the addresses of W and of the products.
    """
    rows = min(_MOST_ROWS, (_REGISTERS - 1) // registers - 1)
    name = f"product_with_{registers}_registers_of_{dtype}"
    source = _PRODUCT.format(name=name, rows=rows, line=registers * _REGISTER)
    return jit_text(name, source, {**globals(), "tile": _tile(rows, registers, dtype)})


def _tile(rows: int, registers: int, dtype: str) -> Any:
    """X W for a tile of rows, as a function for compiled code."""
    from llvmlite import ir
    from numba.core import cgutils, types
    from numba.extending import intrinsic

    size = np.dtype(dtype).itemsize
    lanes, line = _REGISTER // size, registers * _REGISTER
    number = {4: ir.FloatType(), 8: ir.DoubleType()}[size]
    register, integer, place = ir.VectorType(number, lanes), ir.IntType(64), ir.IntType(32)

    def write(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        X, stride, width, W, out = given
        kind = ir.FunctionType(register, 3 * [register])
        name = f"llvm.fma.v{lanes}f{8 * size}"
        add_product = cgutils.get_or_insert_function(builder.module, kind, name)

        def times(factor: int, value: Any) -> Any:
            return builder.mul(integer(factor), value)

        def at(kind: Any, address: Any, *further: Any) -> Any:
            for distance in further:
                address = builder.add(address, distance)
            return builder.inttoptr(address, kind.as_pointer())

        def everywhere(x: Any) -> Any:
            nothing = register(ir.Undefined)
            first = builder.insert_element(nothing, x, place(0))
            return builder.shuffle_vector(first, nothing, ir.VectorType(place, lanes)(None))

        def variable() -> Any:
            """That LLVM keeps in a register."""
            return cgutils.alloca_once(builder, register)

        sums = [[variable() for _ in range(registers)] for _ in range(rows)]
        for total in chain(*sums):
            builder.store(register(None), total)
        with cgutils.for_range(builder, width) as loop:
            ws = [
                builder.load(at(register, W, times(line, loop.index), integer(p * _REGISTER)))
                for p in range(registers)
            ]
            for r in range(rows):
                x = builder.load(at(number, X, times(r, stride), times(size, loop.index)))
                x = everywhere(x)
                for total, w in zip(sums[r], ws, strict=True):
                    builder.store(builder.call(add_product, [x, w, builder.load(total)]), total)
        for r in range(rows):
            for p, total in enumerate(sums[r]):
                where = at(register, out, integer(r * line + p * _REGISTER))
                builder.store(builder.load(total), where, align=size)
        return context.get_dummy_value()

    @intrinsic
    def tile(typing, X, stride, width, W, out):  # type: ignore[no-untyped-def]
        return types.void(*5 * [types.intp]), write

    return tile
