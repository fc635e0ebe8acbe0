"""Drive graphs to exactly c connected components."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from scipy.sparse.csgraph import connected_components

from omcal.baselines._graphs import laplacian
from omcal.baselines._spectral import smallest_eigenvectors
from omcal.machine.arrays import Array, Floats


def component_labels(S: Any) -> NDArray[np.intp]:
    """Return the label of the connected component of each vertex of a graph, dense or sparse."""
    edges = sparse.csr_array(S) != 0  # a stored zero is no edge
    return np.asarray(connected_components(edges, directed=False)[1], dtype=np.intp)


def component_surplus(values: Array, c: int, tol: float) -> int:
    """Return -1, 0 or 1 for fewer than, exactly or more than c components, by eigenvalues.

    `values` holds the c + 1 smallest eigenvalues of the Laplacian, ascending, or all n if n <= c.
    """
    if values[:c].sum() > tol:
        return -1
    return 1 if len(values) > c and values[: c + 1].sum() < tol else 0


class RankPenalty:
    """The term λ tr(FᵀL_S F) that drives a symmetric graph S to exactly c components.

    `weight` is λ, at first the given one; F (n × c) brings neighbours close together, and `surplus`
    is the `component_surplus` of the last graph. `tol` is the sum of the c smallest eigenvalues of
    L_S that counts as zero.
    """

    def __init__(self, S: Any, c: int, *, weight: float, tol: float) -> None:
        self.c, self.weight, self.tol = c, weight, tol
        self.F = self._decompose(S)

    def _decompose(self, S: Any) -> Floats:
        wanted = min(self.c + 1, S.shape[0])
        values, vectors = smallest_eigenvectors(laplacian(S), wanted)
        self.surplus = component_surplus(values, self.c, self.tol)
        return vectors[:, : self.c]

    def update(self, S: Any) -> bool:
        """Take the next graph: adapt λ and F, or return True where it has c components."""
        F = self._decompose(S)
        if self.surplus == 0:
            self.F = F
            return True
        if self.surplus < 0:
            self.F, self.weight = F, self.weight * 2
        else:  # too many components: restore the previous F and halve the weight
            self.weight /= 2
        return False

    def squared_distances(self, rows: Any, columns: Any) -> Floats:
        """Return |f_i - f_j|² for index arrays that broadcast."""
        difference = self.F[rows] - self.F[columns]
        return np.asarray(np.einsum("...k,...k->...", difference, difference))
