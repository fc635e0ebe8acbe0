"""Solve many small quadratic programs at once: in the box [0, 1]^m, or on the simplex."""

from __future__ import annotations

import numpy as np
from scipy import linalg, optimize

from omcal.machine.arrays import Array, Floats
from omcal.method.simplex import minimize_on_simplex, project_simplex

_MAX_BOX_EXCHANGES, _MAX_SIMPLEX_EXCHANGES = 10, 20
_MAX_CHANGES = 20  # times the number of unknowns
_LEAST = 1e-16  # part of the objective by which a further change of bounds lowers it
_ROUNDING = 1e-13
_GROUP = 128


class BoxLeastSquares:
    """Rows z of minimal |r - Rz|² with 0 <= z <= 1, one for each row r of `targets`.

    An active-set method, exact up to rounding, that treats all rows at once; the few where it does
    not end are solved one by one. R is (m, m), upper triangular and not singular; `targets` is
    (n, m).
    """

    def __init__(self, R: Array, targets: Array) -> None:
        self.R, self.gram, self.targets = R, R.T @ R, targets
        self.lengths = np.sqrt(np.diag(self.gram))

    def solve(self) -> Floats:
        """Return the solutions, one per row."""
        z: Floats = linalg.solve_triangular(self.R, self.targets.T).T
        rows = np.flatnonzero(((z < 0) | (z > 1)).any(axis=1))
        most = _MAX_CHANGES * z.shape[1]
        for row in self._exchange(z, rows):
            problem = self.R, self.targets[row], (0, 1), "bvls"
            x = optimize.lsq_linear(*problem, tol=_LEAST, max_iter=most).x
            z[row] = np.where(np.minimum(x, 1 - x) < _ROUNDING, np.round(x), x)
        return z

    def _exchange(self, z: Array, rows: Array) -> Array:
        """Move all weights that violate optimality to or from their bound, a few times.

        Mostly this ends at the solution; the rows where it does not are returned.
        """
        low, high = z < 0, z > 1
        for _ in range(_MAX_BOX_EXCHANGES):
            if not rows.size:
                break
            fixed = low[rows] | high[rows]
            y = self._minimized(high[rows].astype(np.float64), rows, ~fixed)
            pull = self._pull(y, rows)
            low_next = np.where(fixed, low[rows] & (pull <= 0), y < 0)
            high_next = np.where(fixed, high[rows] & (pull >= 0), y > 1)
            changed = ((low_next != low[rows]) | (high_next != high[rows])).any(axis=1)
            z[rows], low[rows], high[rows] = np.clip(y, 0, 1), low_next, high_next
            rows = rows[changed]
        return rows

    def _minimized(self, z: Array, rows: Array, free: Array) -> Array:
        """Return the minimum over the free weights, refined once against rounding."""
        for _ in range(2):
            z = z + _newton_steps(self.gram, self._slope(z, rows), free)
        return z

    def _slope(self, z: Array, rows: Array) -> Array:
        return (z @ self.R.T - self.targets[rows]) @ self.R

    def _pull(self, z: Array, rows: Array) -> Array:
        """Return the negative slope of each weight; 0 where rounding decides."""
        residual = z @ self.R.T - self.targets[rows]
        slope = residual @ self.R
        noise = _ROUNDING * np.linalg.norm(residual, axis=1)[:, None] * self.lengths
        return np.where(np.abs(slope) > noise, -slope, 0.0)


def _newton_steps(gram: Array, slope: Array, free: Array) -> Array:
    """Return the steps to the minimum over the free weights, by groups of similar rows."""
    steps = np.zeros_like(slope)
    by_size = np.argsort(free.sum(axis=1), kind="stable")
    for group in np.array_split(by_size, len(slope) // _GROUP + 1):
        size = free[group].sum(axis=1).max()
        columns = np.argsort(~free[group], axis=1, kind="stable")[:, :size]
        used = np.take_along_axis(free[group], columns, axis=1)
        system = np.where(
            used[:, :, None] & used[:, None, :],
            gram[columns[:, :, None], columns[:, None, :]],
            np.eye(size),
        )
        right = np.where(used, slope[group[:, None], columns], 0.0)
        steps[group[:, None], columns] = -np.linalg.solve(system, right[:, :, None])[:, :, 0]
    return steps


def minimize_batch(A: Array, b: Array) -> Floats:
    """Minimise zᵀA_i z - b_iᵀz over the simplex for every i, exactly.

    The unknowns that violate optimality move to or from zero, all at once, until none does. That
    can cycle: problems open after some rounds are solved one by one. A (N, s, s) is symmetric
    positive definite, b and the result are (N, s).
    """
    z = np.empty_like(b)
    free = np.ones(b.shape, dtype=bool)
    rows = np.arange(len(b))
    scale = _ROUNDING * np.maximum(np.abs(A).max(axis=(1, 2)), np.abs(b).max(axis=1))[:, None]
    for _ in range(_MAX_SIMPLEX_EXCHANGES):
        z[rows], level = _minimum_over_free(A[rows], b[rows], free[rows])
        slope = 2 * np.einsum("ijk,ik->ij", A[rows], z[rows]) - b[rows]
        stays = np.where(free[rows], z[rows] >= -_ROUNDING, slope < level - scale[rows])
        changed = (stays != free[rows]).any(axis=1)
        free[rows] = stays
        rows = rows[changed]
        if not rows.size:
            break
    for i in rows:
        z[i] = minimize_on_simplex(A[i], b[i])
    return np.maximum(z, 0)


def _minimum_over_free(A: Array, b: Array, free: Array) -> tuple[Array, Array]:
    """Return the minimum with sum 1 and zeros outside `free`, and the multiplier."""
    s = b.shape[1]
    system = np.where(free[:, :, None] & free[:, None, :], A, np.eye(s))
    right = np.stack([np.where(free, b, 0.0), free], axis=2)
    u, v = np.moveaxis(np.linalg.solve(system, right), 2, 0)  # A u = b, A v = 1
    level = (2 - u.sum(axis=1, keepdims=True)) / v.sum(axis=1, keepdims=True)
    return (u + level * v) / 2, level


def ten_lagrangian_steps(A: Array, b: Array) -> Floats:
    """Solve the same problems roughly, by ten augmented-Lagrangian steps."""
    penalty = 30.0
    x = np.full_like(b, 1 / b.shape[1])
    multiplier = np.ones_like(b)
    for _ in range(10):
        v = x + (multiplier - np.einsum("ijk,ij->ik", A, x)) / penalty
        x = project_simplex(v - (multiplier + np.einsum("ijk,ik->ij", A, v) - b) / penalty)
        multiplier += penalty * (x - v)
        penalty *= 1.5
    return x
