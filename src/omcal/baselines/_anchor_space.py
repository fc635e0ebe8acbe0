"""Standardise samples and embed their codes, for the anchor methods."""

from __future__ import annotations

import numpy as np

from omcal.baselines._linalg import standardize_features, standardize_samples
from omcal.machine.arrays import Array, Floats


def standardized(X: Array) -> Floats:
    """Return the z-score of each sample; of each feature where there are at most two features.

    With one feature the z-score of a sample is constant, with two it keeps only their order.
    """
    scaled: Floats = standardize_samples(X) if X.shape[1] > 2 else standardize_features(X)
    return scaled


def left_singular_vectors(Z: Array, count: int) -> Floats:
    """Return the leading left singular vectors, at most `count`; 0 for singular value 0."""
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    # The vectors of a zero singular value are arbitrary.
    present = s > max(Z.shape) * np.finfo(np.float64).eps * s[0]
    return np.asarray((U * present)[:, :count])
