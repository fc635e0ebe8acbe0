"""Certainty of the cluster of a sample, from its row of F."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine.arrays import Array

# Exponents of F for calibrated probabilities, of one run and of several
# (benchmarks/living.py).
SHARPNESS, JOINT_SHARPNESS = 1.5, 1.1


def probabilities(F: Any, sharpness: float = SHARPNESS) -> Any:
    """Return each row of the power of F divided by its sum, on any device; equal for zero rows.

    Examples
    --------
    >>> probabilities(np.array([[4.0, 0.0, 1.0], [0.0, 0.0, 0.0]])).round(2).tolist()
    [[0.89, 0.0, 0.11], [0.33, 0.33, 0.33]]
    """
    P = F**sharpness
    P = P + (P.sum(axis=1, keepdims=True) == 0)
    return P / P.sum(axis=1, keepdims=True)


def typicality(F: Any) -> Any:
    """Return the largest entry of each row of F times its squared share of the row, on any device.

    On seven of eight labelled sets this separates shuffled samples from real ones better than the
    entry alone, or the entry times its probability (benchmarks/living.py).

    Examples
    --------
    >>> typicality(np.array([[4.0, 0.0, 1.0], [0.0, 0.0, 0.0]])).round(2).tolist()
    [2.56, 0.0]
    """
    largest = F.amax(dim=1) if hasattr(F, "cpu") else F.max(axis=1)
    total = F.sum(axis=1)
    return largest * (largest / (total + (total == 0))) ** 2


def margins(F: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Return the margin of each sample, its second cluster, and its entry for its own cluster.

    The margin is (own − other) / (own + other): the entries of F for the sample's own cluster and
    for its largest other cluster.

    Examples
    --------
    >>> margins(np.array([[3.0, 1.0], [0.0, 2.0]]), np.array([0, 0]))[0].tolist()
    [0.5, -1.0]
    """
    F = np.maximum(F, 0)
    at, total = np.arange(len(F)), F.sum(axis=1)
    mine = F[at, labels].copy()
    F[at, labels] = -1.0
    second = F.argmax(axis=1)
    rival = np.maximum(F[at, second], 0)
    margin = np.divide(mine - rival, total, out=np.zeros(len(F)), where=total > 0)
    return margin, second, mine
