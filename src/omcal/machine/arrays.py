"""The words of this package for NumPy's arrays, and for seeds, in signatures; the way to them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]  # of any type; what is said of it is said beside it
Floats: TypeAlias = NDArray[np.float64]
Mask: TypeAlias = NDArray[np.bool_]
Seed: TypeAlias = int | np.random.RandomState | None


def on_host(part: Any) -> Array:
    """An array from a device, or from a cluster, in the memory of this process."""
    if hasattr(part, "cpu"):
        return np.asarray(part.cpu())
    return np.asarray(part.compute() if hasattr(part, "compute") else part)
