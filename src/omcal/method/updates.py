"""The updates of Algorithm 1 on small float64 matrices, in the paper's order; and Eq. 10.

No matrix here has n rows: the rows enter through the sums of one pass over them.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from omcal.machine.arrays import Array, Floats

_LEAST_SQUARE = (
    1e-8  # smallest singular value, relative to the largest, for an accurate polar factor
)
MAX_SWEEPS = 10_000  # of `fixed_point`; with R of norm .999 it takes thousands
_CONTRACTING = 0.2  # row sums up to which plain iteration is faster: half the time at γ = 0.1


@dataclass(frozen=True)
class ConsensusGraph:
    """The consensus graph Z = s (A(alpha) + γ F Gᵀ) T without its n rows, s = 1/(1+γ).

    T is m×m and carries the singular value threshold. The start Z = A(alpha) has T = I, s = 1 and
    γ = 0.
    """

    alpha: Floats
    G: Floats
    T: Floats
    gamma: float

    @property
    def sound(self) -> bool:
        """Whether the invariants of every solution hold; False for a damaged file."""
        return bool(
            (self.alpha >= 0).all()
            and abs(self.alpha.sum() - 1) < 1e-6
            and np.allclose(self.G.T @ self.G, np.eye(self.G.shape[1]), atol=1e-6)
            and np.allclose(self.T, self.T.T, atol=1e-6)
            and np.abs(self.T).max() <= 1 + 1e-6
        )

    @property
    def s(self) -> float:
        return 1.0 / (1.0 + self.gamma)

    @cached_property
    def projection(self) -> Floats:
        """Return T·G, so that Z G = s (A(alpha) + γ F Gᵀ) T G."""
        return self.T @ self.G

    def f_step(self, basis: Floats | None = None) -> tuple[Floats, Floats]:
        """Return (P, R) of Eq. 13: F⁺ = max(A(alpha) P + F R, 0) = max(Z basis, 0).

        The basis is G, or an extrapolation of G.
        """
        if basis is None or basis is self.G:
            P = self.s * self.projection
        else:
            P = self.s * (self.T @ basis)
        return P, self.gamma * (self.G.T @ P)

    def transposed_times_f(self, StF: Floats, FoldtF: Floats) -> Floats:
        """Return ZᵀF⁺ from the sums of a sweep."""
        AtF = weighted_sum(self.alpha, StF)
        return self.s * (self.T @ (AtF + self.gamma * (self.G @ FoldtF)))


def weighted_sum(alpha: Floats, matrices: Floats) -> Floats:
    """Return Σ_v alpha_v matrices[v]."""
    if len(alpha) == 1:  # BLAS is slow for products with one row
        only: Floats = matrices[0] * alpha[0]
        return only
    return (alpha @ matrices.reshape(len(alpha), -1)).reshape(matrices.shape[1:])


def stack_by_view(alpha: Floats, P: Floats) -> Floats:
    """Return the (Vm, c) matrix Q with [S_1 … S_V] Q = A(alpha) P."""
    return (alpha[:, None, None] * P).reshape(-1, P.shape[1])


def orthogonal_factor(ZtF: Floats) -> Floats:
    """Update G, Eq. 20: the orthogonal polar factor of ZᵀF."""
    squares, Q = np.linalg.eigh(ZtF.T @ ZtF)
    if not squares[0] > _LEAST_SQUARE * squares[-1]:
        U, _, Vt = np.linalg.svd(ZtF, full_matrices=False)
        return np.asarray(U @ Vt)
    half = Q / squares**0.25
    G = ZtF @ (half @ half.T)
    # One Newton-Schulz step removes the rounding of the squares. Together this takes half of the
    # time of an SVD: 4 % of ten joined runs with 100 clusters.
    return np.asarray(1.5 * G - 0.5 * (G @ (G.T @ G)))


def fused_gram(
    alpha: Floats, StS: Floats, AtF: Floats, FtF: Floats, G: Floats, gamma: float
) -> Floats:
    """Return MᵀM for M = (A(alpha) + γ F Gᵀ) / (1+γ); Z is M with reduced singular values."""
    MtM = weighted_sum(
        np.outer(alpha, alpha).ravel(), StS.reshape(-1, *StS.shape[2:])
    )  # AᵀA so far
    # γ AᵀF Gᵀ + γ G FᵀA + γ² G FᵀF Gᵀ is the sum of this and its transpose.
    half = (gamma * AtF + 0.5 * gamma**2 * (G @ FtF)) @ G.T
    MtM += half
    MtM += half.T
    MtM /= (1.0 + gamma) ** 2
    return MtM


class Shrunk(NamedTuple):
    """Z = M T of Eq. 23, and the sums over its singular values ρ that Eq. 10 needs."""

    T: Floats
    total: float  # Σρ; unknown, and not needed, where β = 0
    squares: float  # Σρ²


def soft_threshold(MtM: Floats, tau: float) -> Shrunk:
    """Update Z, Eq. 23, from MᵀM; with τ = 0 no eigenvalue is needed."""
    if tau == 0:
        return Shrunk(np.eye(len(MtM)), 0.0, float(np.trace(MtM)))
    squares, Q = np.linalg.eigh(MtM)
    sigma = np.sqrt(np.maximum(squares, 0))
    rho = np.maximum(sigma - tau, 0)
    half = Q * np.sqrt(rho / np.maximum(sigma, tau))  # a product with its own transpose is cheaper
    return Shrunk(half @ half.T, float(rho.sum()), float(rho @ rho))


def graph_products(consensus: ConsensusGraph, StS: Floats, StF: Floats) -> Floats:
    """Return ⟨S_v, Z⟩ for every view, with the F that went into Z."""
    c = consensus
    # ⟨Σ_u alpha_u StS[v, u] + γ StF[v] Gᵀ, T⟩ without the m×m products; T is symmetric.
    V = len(StF)
    from_graphs = (StS.reshape(V, V, -1) @ c.T.ravel()) @ c.alpha
    from_factor = StF.reshape(V, -1) @ c.projection.ravel()
    return c.s * (from_graphs + c.gamma * from_factor)


def objective(
    consensus: ConsensusGraph,
    alpha: Floats,
    shrunk: Shrunk,
    H: Floats,
    SZ: Floats,
    AtF: Floats,
    FtF: Floats,
    beta: float,
) -> Any:
    """Return Eq. 10 at (Z, alpha, F, G); Z is given by its consensus form and singular values.

    A is the mixture of graphs that went into Z, `alpha` may be newer.
    """
    c = consensus
    MtF = c.s * (AtF + c.gamma * (c.G @ FtF))
    fusion = shrunk.squares - 2.0 * alpha @ SZ + alpha @ H @ alpha
    factor = shrunk.squares - 2.0 * (MtF * c.projection).sum() + FtF.trace()
    return fusion + beta * shrunk.total + c.gamma * factor


def fixed_point_tol(dtype: np.dtype) -> float:
    """Return the relative change at which the fixed-point iteration stops."""
    return max(1e-10, float(np.finfo(dtype).eps))


def fixed_point(B: Array, R: Floats, max_sweeps: int = MAX_SWEEPS) -> Array:
    """Return U = B + F R at the fixed point F = max(B + F R, 0) of Eq. 13, for A P = B.

    The fixed point is the minimiser of a strictly convex quadratic over F ≥ 0 (R is positive
    semi-definite with norm below 1), found by coordinate descent on all rows at once: unlike
    plain iteration it does not slow down as γ grows. Where R is small, plain iteration is used.
    """
    Bt = np.ascontiguousarray(B.T, dtype=np.float64)  # the entries of a cluster are contiguous
    own = 1.0 - np.diag(R)[:, None]
    # Each entry of F for given other entries of its row; the first F is exact if R is diagonal.
    given, rest = Bt / own, (R - np.diag(np.diag(R))).T / own
    Ft = np.maximum(given, 0)
    limit = fixed_point_tol(B.dtype) * float(np.abs(Bt).max(initial=0.0))
    plain = np.abs(rest).sum(axis=1).max() <= _CONTRACTING
    for _ in range(max_sweeps):
        change = 0.0
        if plain:
            Ft, last = np.maximum(given + rest @ Ft, 0), Ft
            change = float(np.abs(Ft - last).max(initial=0.0))
        for j in range(0 if plain else len(R)):
            f = np.maximum(given[j] + rest[j] @ Ft, 0)
            change = max(change, float(np.abs(f - Ft[j]).max(initial=0.0)))
            Ft[j] = f
        if change <= limit:
            break
    return np.asarray((Bt + R.T @ Ft).T.astype(B.dtype, order="C"))
