"""What the anchor methods share: samples scaled one by one, and an embedding of their codes."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from omcal.baselines._linalg import standardize_features, standardize_samples


def standardized(X: NDArray) -> NDArray[np.float64]:
    """z-score of each sample; of each feature where there are at most two features.

    Of one feature the z-score of a sample keeps nothing, of two only which is the larger.
    """
    return standardize_samples(X) if X.shape[1] > 2 else standardize_features(X)


def left_singular_vectors(Z: NDArray, count: int) -> NDArray[np.float64]:
    """The leading left singular vectors, at most `count`; 0 where the singular value is."""
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    # The vectors of a zero singular value are arbitrary; what depends on them is noise.
    present = s > max(Z.shape) * np.finfo(np.float64).eps * s[0]
    return (U * present)[:, :count]
