"""Numba's compiler, which keeps what it has compiled where it finds a place for that."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any


def jit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function: it is compiled when it is first called, and does not hold the GIL."""
    import numba

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        kept: Callable[..., Any]
        try:
            kept = numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            # Neither the package's folder nor the user's can be written to.
            kept = numba.njit(nogil=True, **options)(function)
        return kept

    return compiled
