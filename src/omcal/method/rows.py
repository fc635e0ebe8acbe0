"""The interface between the solver and the holder of the rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from omcal.machine.arrays import Additive, Array, Floats


@dataclass(frozen=True)
class Sums(Additive):
    """The float64 sums of one sweep."""

    StF: Floats  # (V, m, c): S_vᵀ F⁺
    FtF: Floats  # (c, c): F⁺ᵀ F⁺
    FoldtF: Floats  # (c, c): Fᵀ F⁺


@dataclass(frozen=True)
class Assignment:
    """Labels of the rows, and the number of rows without a positive entry in F.

    If requested, also the second cluster, and the share of the label in both squares, in 255ths.
    """

    labels: Array
    n_undecided: int
    second: Array | None = None
    share: Array | None = None

    @classmethod
    def joined(cls, parts: Sequence[Assignment]) -> Assignment:
        """Concatenate the assignments of consecutive rows."""
        labels = np.concatenate([part.labels for part in parts])
        more = [[part.second, part.share] for part in parts if part.second is not None]
        second, share = map(np.concatenate, zip(*more, strict=True)) if more else (None, None)
        return cls(labels, sum(part.n_undecided for part in parts), second, share)


class AbstractRows(ABC):
    """Anchor graphs S_v and indicator F of a set of samples.

    F starts at zero and changes with each sweep; nothing else does.
    """

    @abstractmethod
    def gram(self) -> Floats:
        """Return the (V, V, m, m) products S_uᵀ S_v of all pairs of views."""

    @abstractmethod
    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        """Set F ← max(A(alpha) P + F R, 0), Eq. 13, and return the sums over the new F."""

    @abstractmethod
    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        """Take one more F step and return the largest entry of each row as its label."""

    def leading_eigenvectors(self, A: Floats, number: int) -> Floats | None:
        """Return the leading eigenvectors of matrices (…, m, m); None if the host is as fast."""
        return None


def zero_tolerance(scale: float) -> float:
    """Return the largest number that counts as zero among numbers of this size.

    It is the rounding error of float32 for every type, so that labels do not depend on the type.
    """
    return 16 * float(np.finfo(np.float32).eps) * scale


def decide(
    U: Array, AG: Callable[[Array], Array], scale: float, *, runner_up: bool = False
) -> Assignment:
    """Return the labels from the unclipped indicator U = A P + F R.

    If a row of U has a positive entry, its arg max is that of F = max(U, 0). If it has none, F is
    zero, and the least negative entry of U decides. If U is zero up to rounding (`scale` is the
    size of P), the row of Z is zero, and A G decides, which is computed for such rows only. Of
    entries that are equal up to rounding the first one decides.
    """
    limit = zero_tolerance(scale)
    largest, labels = _first_largest(U, limit)
    undecided = largest <= 0
    uninformative = np.flatnonzero(largest <= limit)
    uninformative = uninformative[np.abs(U[uninformative]).max(axis=1) <= limit]
    if uninformative.size:
        _, labels[uninformative] = _first_largest(AG(uninformative), zero_tolerance(1.0))
        undecided[uninformative] = True
    runners_up = second(U, labels) if runner_up else ()
    return Assignment(labels.astype(np.int32), int(np.count_nonzero(undecided)), *runners_up)


def _first_largest(U: Array, slack: float) -> tuple[Array, Array]:
    """Return the largest entry of each row, and the first column at most `slack` below it."""
    turned = np.ascontiguousarray(U.T)  # NumPy is slow along short rows
    largest = turned.max(axis=0)
    return largest, (turned >= largest - U.dtype.type(slack)).argmax(axis=0)


def second(U: Array, labels: Array) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Return the largest entry but that of the label, and the label's share in both squares.

    As G is orthonormal, the squares of a row of F = Z G divide the length of the row of Z between
    the clusters. The label has the largest entry, up to rounding. If F has no second positive
    entry, its share is 1.

    Examples
    --------
    >>> second(np.array([[0.3, 0.1, 0.2], [-1.0, 0.5, -2.0]]), np.array([0, 1]))
    (array([2, 0], dtype=uint16), array([177, 255], dtype=uint8))
    """
    F = np.maximum(U, 0)
    rows, largest = np.arange(len(F)), np.square(F.max(axis=1))
    F[rows, labels] = -1
    runner_up = F.argmax(axis=1)
    both = largest + np.square(np.maximum(F[rows, runner_up], 0))
    share = np.divide(largest, both, out=np.ones_like(both), where=both > 0)
    return runner_up.astype(np.uint16), np.rint(255 * share).astype(np.uint8)


def row_bytes(
    n_views: int,
    n_neighbors: int,
    n_clusters: int,
    n_anchors: int,
    dtype: np.dtype,
    *,
    compiled: bool = True,
) -> dict[str, int]:
    """Return the bytes per sample of a fit, without its features.

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
    if not compiled:  # SciPy's form of the graphs, which shares the weights
        parts["sparse form"] = (edges + 1) * np.dtype(np.int32).itemsize
    return parts
