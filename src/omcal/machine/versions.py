"""Versions of omcal and its libraries."""

from __future__ import annotations

import platform
from importlib.metadata import version


def versions() -> dict[str, str]:
    """Return the versions of omcal, Python and the required libraries."""
    from omcal import __version__

    libraries = {name: version(name) for name in ("numpy", "scipy", "scikit-learn")}
    return {"omcal": __version__, "python": platform.python_version(), **libraries}
