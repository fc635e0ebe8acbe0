"""The probability simplex: projection onto it, and convex quadratic programs over it."""

from __future__ import annotations

from math import isfinite

import numpy as np
from scipy.linalg import helmert
from scipy.linalg.lapack import dgecon, dgesv

from omcal.machine.arrays import Array, Floats

_TOLERANCE = 1e-12
_ROUNDING = 1e-15
_WELL_CONDITIONED = 1e-10  # one over the norm of an inverse


def project_simplex(v: Array) -> Array:
    """Return the Euclidean projection of each row of `v` onto {x >= 0, sum x = 1}.

    Parameters
    ----------
    v : array of shape (..., d)
        The projection runs along the last axis.

    Returns
    -------
    array of the shape of `v`

    Examples
    --------
    >>> import numpy as np
    >>> project_simplex(np.array([0.5, 0.7, -1.0]))
    array([0.4, 0.6, 0. ])
    """
    # The projection ignores a common shift; removing it first keeps digits of huge values.
    v = v - v.max(axis=-1, keepdims=True)
    descending = -np.sort(-v, axis=-1)
    excess = np.cumsum(descending, axis=-1) - 1
    size = np.arange(1, v.shape[-1] + 1)
    support = np.count_nonzero(descending * size > excess, axis=-1, keepdims=True)
    threshold = np.take_along_axis(excess, support - 1, axis=-1) / support
    return np.maximum(v - threshold, 0)


def minimize_on_simplex(M: Array, m: Array, start: Array | None = None) -> Floats:
    """Minimise a'Ma - m'a over the simplex, exactly, by Wolfe's finite active-set method.

    Parameters
    ----------
    M : array of shape (V, V)
        Symmetric positive semi-definite; may be singular.
    m : array of shape (V,)
    start : array of shape (V,), optional
        The solution of a similar problem: with the same zeros one step is enough. Default: the best
        vertex.

    Returns
    -------
    array of shape (V,)
        Non-negative, sum 1. If several solutions exist, a sparse one, always the same.

    Examples
    --------
    >>> import numpy as np
    >>> minimize_on_simplex(np.eye(2), np.array([1.0, 0.0]))
    array([0.75, 0.25])
    """
    M = np.asarray(M, dtype=np.float64)
    m = np.asarray(m, dtype=np.float64)
    V = len(m)
    scale = float(np.abs(M).max() + np.abs(m).max())
    if not isfinite(scale):
        raise ValueError("M and m must be finite; they contain NaN or infinity.")
    a = np.zeros(V)
    if scale == 0:
        a[0] = 1.0
        return a
    N = (M + M.T) / (2 * scale)
    q = m / scale

    if start is None:
        support = [int((N.diagonal() - q).argmin())]
        a[support] = 1.0
    else:
        a[:] = start
        support = a.nonzero()[0].tolist()
        _shrink_to_interior(N, q, a, support)
    for _ in range(50 * V):
        gradient = 2 * (N @ a) - q
        above = gradient - a @ gradient
        above[support] = 0.0
        entering = int(above.argmin())
        if above[entering] >= -_TOLERANCE:
            return a
        support.append(entering)
        _shrink_to_interior(N, q, a, support)
    raise RuntimeError(f"no optimum after {50 * V} supports; is M positive semi-definite?")


def _shrink_to_interior(N: Array, q: Array, a: Array, support: list[int]) -> None:
    """Minimise over the affine hull of the support, dropping vertices until that point is inside.

    Changes `a` and `support` in place. Terminates because each round drops a vertex.
    """
    while len(support) > 1:
        here = a[support]
        y = _affine_minimum(N.take(support, 0).take(support, 1), q.take(support), here)
        if y.min() > 0:
            a[support] = y / y.sum()
            return
        blocked = y <= 0
        step = np.min(here[blocked] / (here[blocked] - y[blocked]))
        here = here + step * (y - here)
        # The entering vertex grows from 0, so another vertex blocks, in spite of rounding.
        gone = blocked & (here <= _TOLERANCE * here.max())
        a[support] = np.where(gone, 0.0, here)
        support[:] = [v for v, dropped in zip(support, gone, strict=True) if not dropped]
    a[:] = 0.0
    a[support] = 1.0


def _affine_minimum(N: Array, q: Array, here: Array) -> Array:
    """Return the minimiser of y'Ny - q'y subject to sum y = 1 only.

    If N is flat, rounding in the data can make the objective fall along an infinite line. Then
    return a point on this line so far from `here` that an entry is negative.
    """
    size = len(q)
    bordered = np.zeros((size + 1, size + 1))
    bordered[:size, :size] = N
    bordered[:size, size] = -0.5
    bordered[size, :size] = 1.0
    right = np.ones(size + 1)
    right[:size] = q
    right[:size] *= 0.5
    # For few unknowns the checks of numpy.linalg take longer than the solution.
    factors, _, y, singular = dgesv(bordered, right)
    if not singular and dgecon(factors, 1.0)[0] > _WELL_CONDITIONED:
        return np.asarray(y[:size])
    gradient = 2 * (N @ here) - q
    keeps_sum = helmert(size)  # a basis of the directions that do
    curvature, directions = np.linalg.eigh(keeps_sum @ N @ keeps_sum.T)
    directions = directions.T @ keeps_sum
    slopes = directions @ gradient
    flat = curvature <= 10 * _ROUNDING
    falling = -slopes[flat] @ directions[flat]
    steepest = np.abs(falling).max()
    if steepest > _ROUNDING:
        return np.asarray(here + falling * (2 * size / steepest))
    return np.asarray(here - (slopes[~flat] / (2 * curvature[~flat])) @ directions[~flat])
