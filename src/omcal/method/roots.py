"""Inverse square roots by products alone, for devices without LAPACK: the steps to take.

The coupled iteration of Newton and Schulz starts from Y = B, X = I; each step takes H = a I - b X Y
and goes on with H X, which becomes B^(−½), and Y H. It takes as many steps as the bounds of the
eigenvalues ask for, whatever B is. LAPACK's eigenvalues take as long as six products of 300 × 300
on a CPU, and this takes some twenty.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

_NEARLY_ONE = 1e-8  # the step from here is off by its square


def steps(smallest: float) -> Iterator[tuple[float, float]]:
    """(a, b) of each step x ↦ x (a − b x²), that brings [smallest, 1] nearer to 1.

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
