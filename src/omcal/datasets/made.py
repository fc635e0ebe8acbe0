"""Built-in and artificial data: digits in four views, and drawn clusters."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.utils import check_random_state

from omcal.datasets._data import MultiViewData
from omcal.machine.arrays import Array, Mask, Seed
from omcal.machine.declaring import require_integer

_N_DIRECTIONS = 8  # bins of the direction of gradients
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
      side.

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


def make_multiview(
    n_samples: int = 500,
    n_clusters: int = 4,
    n_views: int = 3,
    n_features: int | Sequence[int] = 10,
    *,
    noise: float | Sequence[float] = 1.0,
    n_noise_views: int = 0,
    redundancy: float = 1.0,
    missing: float = 0.0,
    random_state: Seed = None,
) -> MultiViewData:
    """Draw Gaussian clusters, and views in which some or all of the clusters differ.

    If a view sees a cluster, the cluster has a centre of its own there, with standard normal
    coordinates. All clusters that the view does not see share one more centre, so that the view
    cannot tell them apart. A sample is the centre of its cluster plus normal noise, which is
    independent between views.

    Parameters
    ----------
    n_samples : int, default=500
        Number of samples.
    n_clusters : int, default=4
        Their sizes differ by at most one.
    n_views : int, default=3
        Views that carry information, named ``view1``, ``view2`` ...
    n_features : int or sequence of int, default=10
        Width of every view, or of each: first the informative, then the noise views.
    noise : float or sequence of float, default=1.0
        Standard deviation around the centres, in every view or in each. The centres of two
        clusters are about ``sqrt(2 * n_features)`` apart.
    n_noise_views : int, default=0
        Further views, named ``noise1`` ..., of normal noise with the same overall scale; they have
        no information about the clusters.
    redundancy : float in [0, 1], default=1.0
        How much information the views share. Each cluster is seen by
        ``1 + round(redundancy * (n_views - 1))`` of the informative views: 1: every view tells all
        clusters apart. 0: each cluster is seen by a single view, and only all views together tell
        the clusters apart (with fewer clusters than views, some views see none).
    missing : float in [0, 1), default=0.0
        Fraction of the (sample, view) pairs to remove: ``round(missing * n_samples * total
        number of views)`` rows become NaN. Every sample keeps at least one informative view.
    random_state : int, RandomState instance or None, default=None
        Seed of everything that is drawn.

    Returns
    -------
    MultiViewData
        With labels 0 to n_clusters - 1 in random order, and `present` where something is missing.

    Examples
    --------
    >>> data = make_multiview(90, n_clusters=3, n_views=2, n_features=(4, 6), random_state=0)
    >>> data.n_samples, data.widths, data.n_classes
    (90, (4, 6), 3)
    """
    counts = {"n_samples": n_samples, "n_clusters": n_clusters, "n_views": n_views}
    for name, value in counts.items():
        require_integer(name, value, 1)
    if n_clusters > n_samples:
        raise ValueError(f"n_clusters={n_clusters} must be at most n_samples={n_samples}.")
    require_integer("n_noise_views", n_noise_views, 0)
    if not 0 <= redundancy <= 1:
        raise ValueError(f"redundancy={redundancy!r} must lie between 0 and 1.")
    total = n_views + n_noise_views
    widths = _one_per_view("n_features", n_features, total, Integral, 1)
    deviations = _one_per_view("noise", noise, total, Real, 0)
    rng: np.random.RandomState = check_random_state(random_state)

    labels = rng.permutation(np.arange(n_samples) % n_clusters)
    # View i sees cluster j, consecutive views in turn.
    distance = (np.arange(n_views)[:, None] - np.arange(n_clusters)) % n_views
    seen = distance < 1 + round(redundancy * (n_views - 1))
    views = {}
    for v in range(total):
        size = (n_samples, widths[v])
        if v < n_views:
            centres = rng.normal(size=(n_clusters + 1, widths[v]))
            place = np.where(seen[v], np.arange(n_clusters), n_clusters)
            views[f"view{v + 1}"] = centres[place[labels]] + rng.normal(
                scale=deviations[v], size=size
            )
        else:
            scale = np.sqrt(1 + deviations[v] ** 2)
            views[f"noise{v - n_views + 1}"] = rng.normal(scale=scale, size=size)

    present = _draw_present(n_samples, n_views, total, missing, rng)
    for view, mask in zip(views.values(), present.T, strict=True):
        view[~mask] = np.nan
    return MultiViewData(
        views,
        labels=labels,
        name="make_multiview",
        source="synthetic Gaussian clusters",
        present=None if present.all() else dict(zip(views, present.T.copy(), strict=True)),
        label_name="cluster",
    )


def _one_per_view(name: str, value: Any, total: int, kind: type, least: int) -> list[Any]:
    values: list[Any] = [value] * total if isinstance(value, kind) else list(value)
    if len(values) != total:
        raise ValueError(
            f"{name}={value!r} has {len(values)} entries for {total} views, noise views included; "
            "give one number, or one per view."
        )
    fitting = [entry for entry in values if isinstance(entry, kind)]
    if len(fitting) < total or min(values) < least:
        raise ValueError(f"{name}={value!r} must be at least {least} in every view.")
    return values


def _draw_present(
    n_samples: int,
    n_views: int,
    total: int,
    missing: float,
    random_state: np.random.RandomState,
) -> Mask:
    present = np.ones((n_samples, total), dtype=bool)
    n_missing = round(missing * n_samples * total) if 0 <= missing < 1 else -1
    if not 0 <= n_missing <= n_samples * (total - 1):
        raise ValueError(
            f"missing={missing!r} must lie between 0 and {1 - 1 / total:.3g}, so that each sample "
            f"keeps one of its {total} views."
        )
    removable = present.copy()
    removable[np.arange(n_samples), random_state.randint(n_views, size=n_samples)] = False
    gone = random_state.choice(np.flatnonzero(removable), size=n_missing, replace=False)
    present.flat[gone] = False
    return present
