"""The start of Algorithm 1: an orthonormal basis G."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Any

import numpy as np
from scipy.linalg import qr

from omcal.machine.arrays import Floats
from omcal.machine.threads import map_blocks, one_blas_thread
from omcal.method.updates import orthogonal_factor

# Leading eigenvectors (runs, m, c) of matrices (runs, m, m); None if the host is as fast.
Leading = Callable[[Floats, int], Floats | None]

_SAME = 1e-5  # positions and shares of anchors with a smaller difference count as equal
_OPERATIONS = 1 << 19  # of the decompositions of a task


def starts(
    init: Any,
    n_init: int,
    AtA: Floats,
    n_clusters: int,
    random_states: Sequence[np.random.RandomState],
    leading: Leading | None = None,
) -> list[list[Floats]]:
    """Return the start bases of runs with the given AᵀA; all after a spectral one are random.

    `leading` computes eigenvectors, if a device is faster than the host.
    """
    if not isinstance(init, str):
        return [[np.array(init, dtype=np.float64)] for _ in random_states]
    found = [[G] for G in spectral_bases(AtA, n_clusters, leading)] if init == "spectral" else []
    found = found or [[] for _ in random_states]
    shape = (AtA.shape[-1], n_clusters)
    for bases, random_state in zip(found, random_states, strict=True):
        while len(bases) < n_init:
            bases.append(np.linalg.qr(random_state.standard_normal(shape))[0])
    return found


def spectral_bases(AtA: Floats, n_clusters: int, leading: Leading | None = None) -> list[Floats]:
    """Return leading eigenvectors of each AᵀA, rotated so that each column marks some anchors.

    Any rotation of them spans the same space, but only one near an indicator survives the clipping
    of Eq. 13. QR factorisation with pivoting selects c anchors with nearly perpendicular rows, and
    the rotation brings these rows as close to unit vectors as possible (Damle, Minden, Ying:
    Simple, direct and efficient multi-way spectral clustering, 2019). Small matrices share a
    thread.
    """
    m = AtA.shape[-1]
    given = None if leading is None else leading(AtA, n_clusters)

    def work(some: slice) -> list[Floats]:
        vectors = np.linalg.eigh(AtA[some])[1][:, :, -n_clusters:] if given is None else given[some]
        return [rotated_basis(one) for one in vectors]

    with one_blas_thread():  # the same start, whatever their number
        return list(chain.from_iterable(map_blocks(work, len(AtA), max(1, _OPERATIONS // m**3))))


def rotated_basis(vectors: Floats) -> Floats:
    """Return c orthonormal columns, rotated as in `spectral_bases`."""
    c = vectors.shape[1]
    chosen = qr(vectors.T, mode="r", pivoting=True)[1][:c]
    G = vectors @ orthogonal_factor(vectors[chosen].T)
    # Order columns by the mean position of their anchors, then by the first of the largest entries,
    # so that rounding does not decide the order.
    shares = np.square(G)
    first = (shares >= shares.max(axis=0) - _SAME).argmax(axis=0)
    mean = np.arange(len(G)) @ shares
    return np.asarray(G[:, np.lexsort((first, np.round(mean / _SAME)))])


def check_init(init: Any, n_anchors: int, n_clusters: int) -> None:
    """Raise an error if a given basis has the wrong shape, or is not orthonormal."""
    if isinstance(init, str):
        return
    G, needed = np.asarray(init, dtype=np.float64), (n_anchors, n_clusters)
    if G.shape != needed:
        raise ValueError(
            f"init has shape {G.shape} but (n_anchors, n_clusters) = {needed} is needed."
        )
    if not np.allclose(G.T @ G, np.eye(n_clusters), atol=1e-6):
        raise ValueError(
            "init is not orthonormal: its columns must have length 1 and be perpendicular; "
            "pass numpy.linalg.qr(init)[0]."
        )
