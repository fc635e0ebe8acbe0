"""A problem with one view and many anchors, in a subspace of its graph.

An orthogonal transformation of the anchors does not change Eq. 10. Z has no directions of the graph
that are far below the threshold of the singular values, so the small steps can leave them out.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from omcal.machine.arrays import Floats
from omcal.machine.threads import one_blas_thread
from omcal.method.rows import AbstractRows, Assignment, Sums
from omcal.method.solver import Problem, Solution
from omcal.method.starts import rotated_basis

_MANY_ANCHORS = 300  # with fewer anchors an eigendecomposition per iteration is fast
_NEGLIGIBLE = 0.25  # relative to the threshold


class ProjectedRows(AbstractRows):
    """Rows of one view in the coordinates of W, the leading eigenvectors of AᵀA (m, m).

    `start` is the spectral start in these coordinates.
    """

    def __init__(self, rows: AbstractRows, AtA: Floats, problem: Problem, n_clusters: int) -> None:
        with one_blas_thread():  # the same start, whatever the number of threads
            squares, vectors = np.linalg.eigh(AtA)
        least = (_NEGLIGIBLE * problem.tau * (1.0 + problem.gamma)) ** 2
        first = min(int(np.searchsorted(squares, least)), len(AtA) - n_clusters)
        self._rows, self.W, self._squares = rows, vectors[:, first:], squares[first:]
        self._rest, self._AtA = float(squares[:first].sum()), AtA
        self.start: Floats = self.W.T @ rotated_basis(vectors[:, -n_clusters:])

    def gram(self) -> Floats:
        return np.diag(self._squares)[None, None]

    def sweep(self, alpha: Floats, P: Floats, R: Floats) -> Sums:
        sums = self._rows.sweep(alpha, self.W @ P, R)
        return replace(sums, StF=self.W.T @ sums.StF)

    def assign(
        self, alpha: Floats, P: Floats, R: Floats, G: Floats, *, runner_up: bool = False
    ) -> Assignment:
        return self._rows.assign(alpha, self.W @ P, R, self.W @ G, runner_up=runner_up)

    def lifted(self, solution: Solution) -> Solution:
        """Return the solution in the coordinates of all anchors."""
        Z, W = solution.consensus, self.W
        consensus = replace(Z, G=W @ Z.G, T=W @ Z.T @ W.T)
        history = [value + self._rest for value in solution.history]
        assert solution.sums is not None
        sums = self._AtA, W @ solution.sums[1], solution.sums[2]
        return replace(solution, consensus=consensus, history=history, sums=sums)


def subspace_pays(n_anchors: int, problem: Problem) -> bool:
    """Whether to solve in a subspace: eigenvalues are needed, of a large matrix."""
    return n_anchors > _MANY_ANCHORS and problem.tau > 0
