"""Load data that comes with scikit-learn, in several views."""

from __future__ import annotations

import numpy as np
from sklearn.datasets import load_digits

from omcal.datasets._data import MultiViewData
from omcal.machine.arrays import Array

_N_DIRECTIONS = 8  # of gradients
_INK = 4.0  # a darker pixel is part of the digit


def load_digits_views() -> MultiViewData:
    """Load the 1797 handwritten digits of scikit-learn in four views.

    Every view is computed from the 8×8 pixels of one image at a time; the labels are not used.

    * ``pixels`` (64): the grey values, 0 to 16.
    * ``fourier`` (34): magnitudes of the two-dimensional Fourier transform, each conjugate pair
      once; invariant to the position of the digit.
    * ``gradients`` (32): for each quarter of the image, edge strength in each of eight
      directions.
    * ``profiles`` (48): ink in every row and column, and the distance of the first ink from each
      of the four sides.

    Returns
    -------
    MultiViewData
        With labels 0 to 9.

    Examples
    --------
    >>> data = load_digits_views()
    >>> data.n_samples, data.widths
    (1797, (64, 34, 32, 48))
    """
    digits = load_digits()
    images = digits.images
    views = {
        "pixels": images.reshape(len(images), -1),
        "fourier": _fourier_magnitudes(images),
        "gradients": _gradient_histograms(images),
        "profiles": _profiles(images),
    }
    return MultiViewData(
        views,
        labels=digits.target,
        name="digits",
        source="scikit-learn's load_digits (UCI optical recognition of handwritten digits)",
        label_name="digit",
    )


def _fourier_magnitudes(images: Array) -> Array:
    magnitudes = np.abs(np.fft.rfft2(images))
    side = images.shape[1]
    # The transform of a real image repeats itself in the first and last columns: rows r and -r.
    once = np.ones(magnitudes.shape[1:], dtype=bool)
    once[side // 2 + 1 :, [0, -1]] = False
    return magnitudes[:, once]


def _gradient_histograms(images: Array) -> Array:
    down, right = np.gradient(images, axis=(1, 2))
    strength = np.hypot(down, right)
    turn = np.arctan2(down, right) / (2 * np.pi)  # in turns, -1/2 to 1/2
    direction = np.round(turn * _N_DIRECTIONS).astype(int) % _N_DIRECTIONS
    edges = np.stack([strength * (direction == d) for d in range(_N_DIRECTIONS)], axis=-1)
    n, side = images.shape[:2]
    quarters = edges.reshape(n, 2, side // 2, 2, side // 2, _N_DIRECTIONS)
    return np.asarray(quarters.sum(axis=(2, 4))).reshape(n, -1)


def _profiles(images: Array) -> Array:
    ink = images > _INK
    sides = [ink, ink[:, :, ::-1], ink.transpose(0, 2, 1), ink[:, ::-1].transpose(0, 2, 1)]
    first = [np.where(side.any(axis=2), side.argmax(axis=2), side.shape[2]) for side in sides]
    return np.hstack([images.sum(axis=2), images.sum(axis=1), *first])
