"""Inverse square roots without eigenvectors: for devices without LAPACK, and for many anchors.

By products alone: the coupled iteration of Newton and Schulz starts from Y = B, X = I; each step
takes H = a I - b X Y and goes on with H X, which becomes B^(−½), and Y H. It takes as many steps as
the bounds of the eigenvalues ask for, whatever B is. LAPACK's eigenvalues take as long as six to
eleven products of 300 × 300 on a CPU, and this takes some twenty.

From the tridiagonal form with which LAPACK begins to look for eigenvalues: between two bounds of
them x^(−½) is a sum of few terms weight / (x + shift), whose error falls by the same factor with
each (Hale, Higham and Trefethen: Computing A^α, log(A) and related matrix functions by contour
integrals, 2008).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil, log, pi, sqrt

import numpy as np
from scipy.linalg import lapack
from scipy.special import ellipj, ellipk

from omcal.machine.arrays import Floats

_NEARLY_ONE = 1e-8  # the step from here is off by its square
_ERROR = 1e-15  # of a sum of terms, relative


def steps(smallest: float) -> Iterator[tuple[float, float]]:
    """Yield (a, b) of each step x ↦ x (a − b x²), which maps [smallest, 1] nearer to 1.

    Each maps the ends of the interval to the same value, its new lower end (Chen and Chow: A stable
    scaling of Newton-Schulz for improving the sign function computation, 2014).
    """
    while True:
        last = 1.0 - smallest <= _NEARLY_ONE
        scale = 1.0 if last else sqrt(3.0 / (1.0 + smallest + smallest**2))
        yield 1.5 * scale, 0.5 * scale**3
        if last:
            return
        smallest = 0.5 * scale * smallest * (3.0 - (scale * smallest) ** 2)


def inverse_root(B: Floats, least: float, inverses: Callable[..., None]) -> Floats | None:
    """Return B^(−½) of a symmetric matrix, or None where an eigenvalue is below `least` > 0.

    `inverses` is the compiled sum of `compiled.inverses_kernel`.
    """
    m = len(B)
    room = int(lapack.dsytrd_lwork(m, lower=1)[0])
    reflections, diagonal, beside, scales, _ = lapack.dsytrd(B.T, lower=1, lwork=room)
    bounds = _bounds(diagonal, beside, least)
    if bounds is None:
        return None
    root = np.empty_like(B)
    inverses(diagonal, beside, *terms(*bounds), root)
    Q = np.zeros((m, m), order="F")
    Q[0, 0] = 1.0
    Q[1:, 1:] = lapack.dorgqr(reflections[1:, : m - 1], scales, lwork=room)[0]
    return np.asarray((Q @ root) @ Q.T)


def terms(least: float, most: float) -> tuple[Floats, Floats]:
    """Return (shifts, weights) with x^(−½) = Σ weight / (x + shift) for least ≤ x ≤ most.

    The error, relative, is rounding times the root of most / least.
    """
    number = ceil(-log(_ERROR) * (log(most / least) + 3.0) / (2.0 * pi**2))
    period = ellipk(1.0 - least / most)
    at = (np.arange(number) + 0.5) * (period / number)
    sn, cn, dn, _ = ellipj(at, 1.0 - least / most)
    return least * (sn / cn) ** 2, (2.0 * sqrt(least) * period / (pi * number)) * dn / cn**2


def _bounds(diagonal: Floats, beside: Floats, least: float) -> tuple[float, float] | None:
    """Return bounds of the eigenvalues of a tridiagonal matrix; None if one is below `least`."""
    sides = np.zeros_like(diagonal)
    sides[1:] += np.abs(beside)
    sides[:-1] += np.abs(beside)
    most = float((diagonal + sides).max())
    low = least
    if not (low < most and _all_above(low, diagonal, beside)):
        return None
    while 2.0 * low < most and _all_above(2.0 * low, diagonal, beside):
        low *= 2.0
    return low, most


def _all_above(bound: float, diagonal: Floats, beside: Floats) -> bool:
    """Whether the matrix minus `bound` times the identity is positive definite."""
    return bool(lapack.dpttrf(diagonal - bound, beside)[2] == 0)
