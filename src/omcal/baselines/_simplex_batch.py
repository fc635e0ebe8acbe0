"""Solve many small quadratic programs on the simplex at once."""

from __future__ import annotations

import numpy as np

from omcal.machine.arrays import Array, Floats
from omcal.method.simplex import minimize_on_simplex, project_simplex

_MAX_EXCHANGES = 20
_TOLERANCE = 1e-13


def minimize_batch(A: Array, b: Array) -> Floats:
    """Minimise zᵀA_i z - b_iᵀz over the simplex for every i, exactly.

    The unknowns that violate optimality move to or from zero, all at once, until none does. That
    can cycle: problems open after some rounds are solved one by one. A (N, s, s) is symmetric
    positive definite, b and the result are (N, s).
    """
    z = np.empty_like(b)
    free = np.ones(b.shape, dtype=bool)
    rows = np.arange(len(b))
    scale = _TOLERANCE * np.maximum(np.abs(A).max(axis=(1, 2)), np.abs(b).max(axis=1))[:, None]
    for _ in range(_MAX_EXCHANGES):
        z[rows], level = _minimum_over_free(A[rows], b[rows], free[rows])
        slope = 2 * np.einsum("ijk,ik->ij", A[rows], z[rows]) - b[rows]
        stays = np.where(free[rows], z[rows] >= -_TOLERANCE, slope < level - scale[rows])
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


def augmented_lagrangian_batch(
    A: Array, b: Array, *, n_steps: int, penalty: float, growth: float
) -> Floats:
    """Solve the same problems roughly, by a fixed number of augmented-Lagrangian steps."""
    x = np.full_like(b, 1 / b.shape[1])
    multiplier = np.ones_like(b)
    for _ in range(n_steps):
        v = x + (multiplier - np.einsum("ijk,ij->ik", A, x)) / penalty
        x = project_simplex(v - (multiplier + np.einsum("ijk,ik->ij", A, v) - b) / penalty)
        multiplier += penalty * (x - v)
        penalty *= growth
    return x
