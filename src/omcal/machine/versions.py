"""The versions of what computes here."""

from __future__ import annotations

import platform

import numpy as np
import scipy
import sklearn


def versions() -> dict[str, str]:
    """Those of omcal, of Python, and of the libraries that it cannot do without."""
    from omcal import __version__

    return {
        "omcal": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "scikit-learn": sklearn.__version__,
    }
