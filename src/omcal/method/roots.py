"""Eq. 23 by products alone, on whatever holds the matrix: a host, or a device without LAPACK."""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt
from typing import Any

_NEARLY_ONE = 1e-8  # the step from here is off by its square


def shrunk_uncut(MtM: Any, tau: float, identity: Any, inverse: Any) -> tuple[Any, Any, Any]:
    """Eq. 23 where τ > 0 cuts nothing: T = I − τ (MᵀM)^(−½), Σρ and Σρ².

    `inverse` is (MᵀM)^(−½), none of its eigenvalues above 1/τ.
    """
    sigma = (MtM * inverse).sum()
    m = len(MtM)
    squares = MtM.trace() - 2.0 * tau * sigma + m * tau**2
    return identity - tau * inverse, sigma - m * tau, squares


def inverse_root(B: Any, identity: Any, least: float, most: float) -> Any:
    """B^(−½) of a symmetric B whose eigenvalues lie between `least` > 0 and `most`.

    Newton and Schulz's coupled iteration: nothing but products, so that arrays of NumPy and tensors
    on a device serve alike, and as many of them as the two bounds ask for, whatever B is. LAPACK's
    eigenvalues take as long as six products of 300 × 300 on a CPU, and this takes some twenty.
    """
    root = B * (1.0 / most)
    inverse = identity
    product = root
    plan = list(steps(sqrt(least / most)))
    for number, (linear, cubic) in enumerate(plan):
        if number:
            product = inverse @ root
        step = linear * identity - cubic * product
        inverse = step @ inverse if number else step
        if number + 1 < len(plan):
            root = root @ step
    return inverse * (1.0 / sqrt(most))


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
