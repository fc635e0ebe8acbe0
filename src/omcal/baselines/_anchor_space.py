"""What the anchor methods share: samples scaled one by one, and an embedding of their codes."""

from __future__ import annotations

import numpy as np

from omcal.baselines._linalg import standardize_features, standardize_samples
from omcal.machine.arrays import Array, Floats


def standardized(X: Array) -> Floats:
    """z-score of each sample; of each feature where there are at most two features.

    Of one feature the z-score of a sample keeps nothing, of two only which is the larger.
    """
    scaled: Floats = standardize_samples(X) if X.shape[1] > 2 else standardize_features(X)
    return scaled


def left_singular_vectors(Z: Array, count: int) -> Floats:
    """The leading left singular vectors, at most `count`; 0 where the singular value is."""
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    # The vectors of a zero singular value are arbitrary; what depends on them is noise.
    present = s > max(Z.shape) * np.finfo(np.float64).eps * s[0]
    return np.asarray((U * present)[:, :count])
