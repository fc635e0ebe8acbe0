"""Import optional libraries."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def require(module: str, needed_for: str) -> Any:
    """Import an optional library, or raise with the command that installs it.

    Examples
    --------
    >>> require("no_such_library", "files of this kind")
    Traceback (most recent call last):
    ImportError: files of this kind need no_such_library: pip install no_such_library.
    """
    try:
        return import_module(module)
    except ImportError as error:
        library = module.partition(".")[0]
        raise ImportError(f"{needed_for} need {library}: pip install {library}.") from error
