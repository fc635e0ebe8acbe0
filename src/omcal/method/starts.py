"""Where Algorithm 1 starts: an orthonormal basis G."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.linalg import qr

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import one_blas_thread
from omcal.method.updates import orthogonal_factor


def starts(
    init: Any, n_init: int, AtA: Floats, n_clusters: int, random_state: np.random.RandomState
) -> Iterator[Floats]:
    """The bases to start from; those after a spectral one are random."""
    if not isinstance(init, str):
        yield np.array(init, dtype=np.float64)
        return
    for i in range(n_init):
        if init == "spectral" and i == 0:
            yield spectral_basis(AtA, n_clusters)
        else:
            yield np.linalg.qr(random_state.standard_normal((len(AtA), n_clusters)))[0]


def spectral_basis(AtA: Array, n_clusters: int) -> Floats:
    """The leading eigenvectors of AᵀA, turned so that each column stands for some anchors.

    Any rotation of them spans the same space, but only one near an indicator survives the clipping
    of Eq. 13. It takes c anchors whose rows are as perpendicular as a QR factorisation with
    pivoting finds them, and brings these rows as near to unit vectors as a rotation can (Damle,
    Minden, Ying: Simple, direct and efficient multi-way spectral clustering, 2019).
    """
    with one_blas_thread():  # the same start, whatever their number
        vectors = np.linalg.eigh(AtA)[1][:, -n_clusters:]
        chosen = qr(vectors.T, mode="r", pivoting=True)[1][:n_clusters]
        G = vectors @ orthogonal_factor(vectors[chosen].T)
    # By the mean position of their anchors, so that rounding does not number the clusters.
    return np.asarray(G[:, np.argsort(np.arange(len(G)) @ np.square(G))])


def check_init(init: Any, n_anchors: int, n_clusters: int) -> None:
    """Raise where a given basis has the wrong shape, or columns that are not orthonormal."""
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
