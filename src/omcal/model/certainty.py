"""How sure samples are of their cluster, from their rows of F."""

from __future__ import annotations

import numpy as np

from omcal.machine.arrays import Array


def margins(F: Array, labels: Array) -> tuple[Array, Array, Array]:
    """Tie to the own cluster less the best other, as a share of all; which that is; the tie.

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
