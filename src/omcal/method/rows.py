"""The seam between the solver and whatever holds the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Sums:
    """What one pass over the rows returns, in float64; sums of two sets of rows just add."""

    StF: Array  # (V, m, c): S_vᵀ F⁺
    FtF: Array  # (c, c): F⁺ᵀ F⁺
    FoldtF: Array  # (c, c): Fᵀ F⁺

    def __add__(self, other: Sums) -> Sums:
        return Sums(self.StF + other.StF, self.FtF + other.FtF, self.FoldtF + other.FoldtF)


@dataclass(frozen=True)
class Assignment:
    """Labels of the rows, and how many of them had no positive entry in F."""

    labels: NDArray
    n_undecided: int

    @classmethod
    def joined(cls, parts: Sequence[Assignment]) -> Assignment:
        """Those of consecutive rows as one."""
        labels = np.concatenate([part.labels for part in parts])
        return cls(labels, sum(part.n_undecided for part in parts))


class AbstractRows(ABC):
    """Anchor graphs S_v and indicator F of a set of samples.

    F starts at zero and changes with each sweep; nothing else does.
    """

    @abstractmethod
    def gram(self) -> Array:
        """(V, V, m, m): S_uᵀ S_v of all pairs of views."""

    @abstractmethod
    def sweep(self, alpha: Array, P: Array, R: Array) -> Sums:
        """F ← max(A(alpha) P + F R, 0), Eq. 13, and the sums over the new F."""

    @abstractmethod
    def assign(self, alpha: Array, P: Array, R: Array, G: Array) -> Assignment:
        """One more F step, and the largest entry of each row as its label."""


def decide(U: NDArray, AG: NDArray, scale: float) -> Assignment:
    """Labels from the unclipped indicator U = A P + F R.

    Where U has a positive entry its arg max is that of F = max(U, 0). Where it has none, F is zero
    and the least negative entry of U decides; where U is zero to rounding (`scale` is the size
    of P), Z has no row there and A G decides.
    """
    labels = U.argmax(axis=1)
    largest = np.take_along_axis(U, labels[:, None], axis=1)[:, 0]
    undecided = largest <= 0
    silent = np.abs(U).max(axis=1) <= 16 * np.finfo(U.dtype).eps * scale
    labels[silent] = AG[silent].argmax(axis=1)
    return Assignment(labels.astype(np.int32), int(np.count_nonzero(undecided | silent)))


def row_bytes(
    n_views: int,
    n_neighbors: int,
    n_clusters: int,
    n_anchors: int,
    dtype: np.dtype,
    *,
    compiled: bool = True,
) -> dict[str, int]:
    """Bytes that a sample takes during the fit, beside its features.

    Examples
    --------
    >>> row_bytes(2, 5, 10, 160, np.dtype("float32"))
    {'graphs': 50, 'indicator': 40, 'label': 4}
    """
    edges = n_views * n_neighbors
    parts = {
        "graphs": edges * (np.min_scalar_type(n_anchors - 1).itemsize + dtype.itemsize),
        "indicator": n_clusters * dtype.itemsize,
        "label": np.dtype(np.int32).itemsize,
    }
    if not compiled:  # SciPy's form of the graphs as well, which shares their weights
        parts["sparse form"] = (edges + 1) * np.dtype(np.int32).itemsize
    return parts
