"""Compilation by Numba, with its cache if there is a writable folder for it."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from typing import Any

import numpy as np

from omcal.machine.process import once


def jit(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function so that its first call compiles it; it releases the GIL."""
    import numba

    def compiled(function: Callable[..., Any]) -> Callable[..., Any]:
        # Both are compiled at their first call only.
        plain: Callable[..., Any] = numba.njit(nogil=True, **options)(function)
        try:
            kept: Callable[..., Any] = numba.njit(nogil=True, cache=True, **options)(function)
        except RuntimeError as error:
            if "cannot cache" not in str(error):
                raise
            # Neither the folder of the package nor that of the user is writable.
            return plain

        def call(*given: Any) -> Any:
            nonlocal kept
            try:
                return kept(*given)
            except OSError as error:  # before the call: an error of the cache files
                warnings.warn(
                    f"compiled code cannot be kept for other processes ({error}), which compile it "
                    "again; make room there, or set NUMBA_CACHE_DIR to another folder.",
                    RuntimeWarning,
                    stacklevel=2,
                )
                kept = plain
                return kept(*given)

        return call

    return compiled


def jit_when_called(**options: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Decorate a function as `jit` does, at its first call, because `jit` loads Numba."""

    def decorated(function: Callable[..., Any]) -> Callable[..., Any]:
        @once
        def compiled() -> Callable[..., Any]:
            return jit(**options)(function)

        @wraps(function)
        def call(*given: Any) -> Any:
            return compiled()(*given)

        return call

    return decorated


def jit_text(name: str, text: str, module: Mapping[str, Any], **options: Any) -> Callable[..., Any]:
    """Compile the function `name` of a source text, as `jit` does.

    `module` is the `globals()` of a module: the names that the text uses, and the file beside
    which Numba caches the code.
    """
    names = {**module, "np": np}
    exec(compile(text, module["__file__"], "exec"), names)
    return jit(**options)(names[name])


def repeated(text: str, numbers: Mapping[str, Iterable[int]]) -> str:
    """Repeat each line that contains a letter, once per number of that letter."""
    lines = text.splitlines()
    for letter, values in numbers.items():
        lines = [
            line.replace(letter, str(number))
            for line in lines
            for number in (values if letter in line else [0])
        ]
    return "\n".join(lines)
