"""Roots, projectors and polar factors of batches of matrices, by products alone.

An eigendecomposition on a device takes longer than many passes over the rows, and waits for the
host. Each function does as many steps as the bounds of the eigenvalues require, and returns for
each matrix whether it has converged. No step needs a value on the host.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import sqrt

from omcal.machine import torch
from omcal.machine.torch import Tensor

_NEARLY_ONE = 1e-8  # at this distance from 1, the error after the next step is its square
LEAST = 1e-8  # smallest eigenvalue of a root, relative to the largest
_LEAST_OF_POLAR = 1e-5  # smallest singular value, relative to the largest
_GAP = 1e-8  # smallest distance of eigenvalues from the limit that `projector` resolves
_CLOSE = 1e-6  # at this distance to the identity the last step is exact up to rounding


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


def polar_factor(B: Tensor) -> tuple[Tensor, Tensor]:
    """Return the orthogonal polar factor of each (m, c) matrix, and whether it has converged.

    Singular values may differ by a factor of 10⁵.
    """
    unit = torch.eye(B.shape[2], dtype=B.dtype, device=B.device)
    scale = _row_sum_norm(B.mT @ B).rsqrt()[:, None, None]
    X = B * scale
    plan = list(steps(_LEAST_OF_POLAR))
    for linear, cubic in plan:
        H = torch.baddbmm(unit, X.mT, X, beta=linear, alpha=-cubic)
        X = X @ H
    return X, _near(H, *plan[-1])


def inverse_root(A: Tensor, least: float) -> tuple[Tensor, Tensor]:
    """Return A^(−½) of symmetric matrices with eigenvalues up to 1, and whether it has converged.

    By the coupled iteration of Newton and Schulz; eigenvalues down to `least` are allowed for.
    """
    unit = torch.eye(A.shape[2], dtype=A.dtype, device=A.device)
    (linear, cubic), *plan = steps(least**0.5)
    X = linear * unit - cubic * A
    Y = A @ X
    for linear, cubic in plan:
        H = torch.baddbmm(unit, X, Y, beta=linear, alpha=-cubic)
        X, Y = H @ X, Y @ H
    return X, _near(H, linear, cubic)


def projector(A: Tensor) -> tuple[Tensor, Tensor]:
    """Return the projector on the eigenvectors of eigenvalues above 0, and whether it converged.

    Eigenvalues lie between −1 and 1. The sign of a matrix is +1 or −1 for each eigenvector.
    """
    unit = torch.eye(A.shape[2], dtype=A.dtype, device=A.device)
    X = A
    for linear, cubic in steps(_GAP):
        H = torch.baddbmm(unit, X, X, beta=linear, alpha=-cubic)
        X = H @ X
    return 0.5 * (unit + X), _near(H, linear, cubic)


class ProductRoot:
    """The projector and the inverse root of a batch in fixed tensors, as `small.cu` takes them.

    For matrices too large for the shared memory of a block. The calls are recorded.

    Parameters
    ----------
    right : Tensor
        An entry per matrix, which becomes 0 where a root has not converged.
    m : int
    cuts : bool
        False keeps all eigenvalues; the kernel checks with `squared` that all are above the limit.
    least : float
        Smallest eigenvalue to allow for.

    Attributes
    ----------
    begun : Tensor
        Input matrices A less the limit, and A − I, with eigenvalues of A up to 1.
    projector : Tensor or None
        Projector on the eigenvectors that are kept; None: all are kept.
    inverse : Tensor
        A^(−½) on these eigenvectors, and 0 on the others.
    squared : Tensor or None
        The inverse of A, if nothing is cut.
    """

    def __init__(self, right: Tensor, m: int, *, cuts: bool, least: float) -> None:
        self._right, self._least = right, least
        shape = (4, len(right), m, m)
        matrices = torch.empty(shape, dtype=torch.float64, device=right.device)
        self.begun, (self.inverse, other) = matrices[:2], matrices[2:]
        self.projector: Tensor | None = other if cuts else None
        self.squared: Tensor | None = None if cuts else other
        self._unit = torch.eye(m, dtype=torch.float64, device=right.device)

    def __call__(self) -> None:
        above, less_one = self.begun
        if self.projector is None:
            root, right = inverse_root(less_one + self._unit, self._least)
            self.inverse.copy_(root)
            torch.bmm(root, root, out=self.squared)
        else:
            kept, sure = projector(above)
            # Directions that are cut are given the eigenvalue 1, so that a root exists.
            root, right = inverse_root(less_one @ kept + self._unit, self._least)
            self.projector.copy_(kept)
            torch.bmm(root, kept, out=self.inverse)
            right = right & sure
        self._right.mul_(right)


def soft_threshold(
    A: Tensor, tau: float, *, cuts: bool, least: float
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Do `omcal.method.updates.soft_threshold` for A = MᵀM: T, Σρ, Σρ², and whether all is right.

    `least` bounds the eigenvalues of A that are kept from below, relative to its row sums. Where
    nothing `cuts`, T = I − τ A^(−½); this is right only if all singular values are above τ,
    which Σ (τ/σ)⁴ < 1 proves. Else the projector on the kept vectors takes the place of I.
    """
    unit = torch.eye(A.shape[2], dtype=A.dtype, device=A.device)
    if tau == 0:
        squares = _inner(A, unit)
        return unit.expand_as(A), torch.zeros_like(squares), squares, squares > 0
    size = _row_sum_norm(A)[:, None, None]
    if cuts:
        kept, sure = projector((A - tau**2 * unit) / size)
        # Directions that are cut are given the eigenvalue 1, so that a root exists.
        root, right = inverse_root((A / size - unit) @ kept + unit, least)
        root, right = (root @ kept) / size.sqrt(), right & sure
    else:
        root, right = inverse_root(A / size, least)
        kept, root = unit.expand_as(A), root / size.sqrt()
        right = right & (tau**4 * (root @ root).square().sum(dim=(1, 2)) < 1)
    sigma, number = _inner(A, root), _inner(kept, unit)
    squares = _inner(A, kept) - 2 * tau * sigma + tau**2 * number
    return kept - tau * root, sigma - tau * number, squares, right & (squares > 0)


def _row_sum_norm(A: Tensor) -> Tensor:
    """Return the largest sum of absolute values of a row: no eigenvalue is larger."""
    return A.abs().sum(dim=2).amax(dim=1)


def _near(H: Tensor, linear: float, cubic: float) -> Tensor:
    """Whether the product in H = linear I − cubic · product, of the last step, is nearly I."""
    off = H - (linear - cubic) * torch.eye(H.shape[2], dtype=H.dtype, device=H.device)
    return off.abs().amax(dim=(1, 2)) <= cubic * _CLOSE


def _inner(A: Tensor, B: Tensor) -> Tensor:
    """Return the sum of the products of entries, per matrix."""
    return (A * B).sum(dim=(1, 2))
