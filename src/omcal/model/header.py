"""Values from the header of a model file, none of them trusted; a ValueError says what is wrong.

Each function returns the value that it was given.
"""

from __future__ import annotations

import math
from typing import Any


class ModelError(ValueError):
    """A file that is no usable model, or a model that cannot be written.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> import omcal
    >>> from omcal.model.files import ModelError
    >>> path = Path(tempfile.mkdtemp(), "model.omcal")
    >>> _ = path.write_bytes(b"something else")
    >>> try:
    ...     omcal.load(path)
    ... except ModelError:
    ...     print("no model")
    no model
    """


def text(value: Any) -> str:
    """A name, or words."""
    if not isinstance(value, str):
        raise ValueError(f"{value!r:.80} is not a name")
    return value


def names(value: Any, width: int) -> list[str] | None:
    """Those of so many columns, or none."""
    if value is None:
        return None
    if not isinstance(value, list) or len(value) != width:
        raise ValueError(f"it does not name all {width} columns")
    return [text(name) for name in value]


def flag(value: Any) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ValueError(f"{value!r:.80} is neither true nor false")
    return value


def integer(value: Any, least: int = 0) -> int:
    """A whole number, which true is to Python, too."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ValueError(f"{value!r:.80} is not a whole number from {least} on")
    return value


def optional_integer(value: Any) -> int | None:
    """A whole number of any sign, or none."""
    return None if value is None else integer(value, least=-(2**63))


def number(value: Any, name: str, least: float = -math.inf) -> float:
    """A finite number."""
    if not isinstance(value, float) or not math.isfinite(value) or value < least:
        raise ValueError(f"{name}={value!r:.80} is not a finite number from {least} on")
    return value
