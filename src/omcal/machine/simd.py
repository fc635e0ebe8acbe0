"""Vectors of numbers, one per register of the processor, as variables of compiled code.

Numba has no such type; it leaves vectorisation to LLVM, which uses half of the largest registers.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.process import once

Step = Callable[..., Any]

_LINE = 64  # bytes


@cache
def registers() -> tuple[int, int]:
    """Return the number of vector registers of the processor, and the bytes of each."""
    from llvmlite import binding

    has = binding.get_host_cpu_features().get
    return (32, 64) if has("avx512f") else (16, 32) if has("avx2") else (32, 16)


def aligned(shape: tuple[int, int], dtype: np.dtype) -> Array:
    """Return zeros aligned to cache lines, so that no vector spans two lines."""
    size = shape[0] * shape[1] * dtype.itemsize
    room = np.zeros(size + _LINE, np.uint8)
    start = -room.ctypes.data % _LINE
    return room[start : start + size].view(dtype).reshape(shape)


@once
def vector_steps(length: int, dtype: str) -> dict[str, Step]:
    """Return the operations on vectors of `length` float32 or float64 numbers, by name.

    ``zeros()``; ``everywhere(x)``, one number in all lanes; ``load(address)``, a vector, and
    ``number(address)``, a number; ``store(address, x)``; ``plus(x, y)``, ``minus(x, y)``;
    ``positive(x)``, with zero for negative numbers; ``add_product(x, y, total)``, total + x y,
    rounded once where the processor can; ``less(x, y)`` and ``more(x, y)``, the smaller and
    the larger of two numbers. Vectors of int32 are ``whole(i)``, one number in all lanes;
    ``where_less(x, y, i, j)``, i where x < y, else j; and ``store_whole(address, i)``.
    """
    from llvmlite import ir
    from numba.core import types
    from numba.extending import intrinsic, models, register_model

    size = np.dtype(dtype).itemsize
    kind = ir.VectorType({4: ir.FloatType(), 8: ir.DoubleType()}[size], length)
    integer, zero, fused = ir.IntType(32), kind(None), ("contract",)
    integers = ir.VectorType(integer, length)

    class Vector(types.Type):
        def __init__(self, of: str, kind: Any) -> None:
            super().__init__(f"{length} of {of}")
            self.kind = kind

    @register_model(Vector)
    class InRegister(models.PrimitiveModel):
        def __init__(self, manager: Any, vector: Any) -> None:
            super().__init__(manager, vector, vector.kind)

    vector, whole = Vector(dtype, kind), Vector("int32", integers)
    real, address = getattr(types, dtype), types.intp

    def at(code: Any, where: Any, what: Any = kind) -> Any:
        return code.inttoptr(where, what.as_pointer())

    def everywhere(code: Any, x: Any) -> Any:
        nothing = ir.VectorType(x.type, length)(None)
        first = code.insert_element(nothing, x, integer(0))
        return code.shuffle_vector(first, nothing, integers(None))

    def where_less(code: Any, x: Any, y: Any, yes: Any, no: Any) -> Any:
        return code.select(code.fcmp_ordered("<", x, y), yes, no)

    def positive(code: Any, x: Any) -> Any:
        return where_less(code, x, zero, zero, x)

    def add_product(code: Any, x: Any, y: Any, total: Any) -> Any:
        return code.fadd(total, code.fmul(x, y, flags=fused), flags=fused)

    written: dict[str, tuple[Any, Step]] = {
        "zeros": (vector(), lambda code: zero),
        "everywhere": (vector(real), everywhere),
        "load": (vector(address), lambda code, a: code.load(at(code, a), align=size)),
        "number": (real(address), lambda code, a: code.load(at(code, a, kind.element))),
        "store": (types.void(address, vector), lambda code, a, x: code.store(x, at(code, a), size)),
        "plus": (vector(vector, vector), lambda code, x, y: code.fadd(x, y)),
        "minus": (vector(vector, vector), lambda code, x, y: code.fsub(x, y)),
        "positive": (vector(vector), positive),
        "add_product": (vector(vector, vector, vector), add_product),
        "less": (vector(vector, vector), lambda code, x, y: where_less(code, x, y, x, y)),
        "more": (vector(vector, vector), lambda code, x, y: where_less(code, x, y, y, x)),
        "whole": (whole(types.int32), everywhere),
        "where_less": (whole(vector, vector, whole, whole), where_less),
        "store_whole": (
            types.void(address, whole),
            lambda code, a, i: code.store(i, at(code, a, integers), 4),
        ),
    }

    def step(signature: Any, write: Step) -> Step:
        def lowered(context: Any, code: Any, _: Any, given: Any) -> Any:
            result = write(code, *given)
            return context.get_dummy_value() if signature.return_type is types.void else result

        # Numba requires the exact number of parameters.
        of: list[Step] = [
            lambda typing: (signature, lowered),
            lambda typing, x: (signature, lowered),
            lambda typing, x, y: (signature, lowered),
            lambda typing, x, y, z: (signature, lowered),
            lambda typing, x, y, z, u: (signature, lowered),
        ]
        return intrinsic(of[len(signature.args)])  # type: ignore[no-any-return]

    return {name: step(*parts) for name, parts in written.items()}
