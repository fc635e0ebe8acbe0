"""Versions of omcal and its libraries."""

from __future__ import annotations

import platform
from functools import cache
from importlib.metadata import version

_version = cache(version)  # cached: parsing the metadata of a library takes 1 ms


def versions() -> dict[str, str]:
    """Return the versions of omcal, Python and the required libraries."""
    from omcal import __version__

    libraries = {name: _version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"omcal": __version__, "python": platform.python_version(), **libraries}
