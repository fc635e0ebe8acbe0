"""Versions of omcal and its libraries."""

from __future__ import annotations

import platform

import numpy as np
import scipy
import sklearn


def versions() -> dict[str, str]:
    """Return the versions of omcal, Python and the required libraries."""
    from omcal import __version__

    return {
        "omcal": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
