"""Algorithm 1 in full matrices, as the paper writes it: slow, plain, the oracle of every fast path.

Nothing of omcal is used here except the quadratic program over the simplex, which has an oracle
of its own (tests/test_simplex.py).
"""

from dataclasses import dataclass, field

import numpy as np

from omcal.method.simplex import minimize_on_simplex


def anchor_graph(X, anchors, k):
    """Eq. 2, sample by sample, as a dense n×m matrix."""
    S = np.zeros((len(X), len(anchors)))
    for i, x in enumerate(X):
        d = np.square(x - anchors).sum(axis=1)
        order = np.argsort(d, kind="stable")
        nearest, limit = order[:k], d[order[k]]
        total = (limit - d[nearest]).sum()
        S[i, nearest] = (limit - d[nearest]) / total if total > 1e-12 * limit else 1 / k
    return S


def complete(S, present, anchors):
    """Graphs of which row i of S_v means nothing where present[i, v] is false, completed.

    The row of the view stands in whose anchors lie most like those of v, by the correlation of
    their distances from each other.
    """
    filled = np.array(S, dtype=np.float64)
    pairs = [(i, j) for i in range(len(anchors[0])) for j in range(i)]
    apart = np.array([[np.sum((A[i] - A[j]) ** 2) for i, j in pairs] for A in anchors])
    alike = np.corrcoef(apart)
    for i, v in zip(*np.nonzero(~present), strict=True):
        there = np.flatnonzero(present[i])
        filled[v, i] = S[there[np.argmax(alike[v, there])]][i]
    return filled


def objective(S, Z, alpha, F, G, beta, gamma):
    """Eq. 10."""
    A = np.tensordot(alpha, S, axes=1)
    return (
        np.square(Z - A).sum()
        + beta * np.linalg.norm(Z, "nuc")
        + gamma * np.square(Z - F @ G.T).sum()
    )


@dataclass
class Result:
    """State after the loop, and F with the final Z and G."""

    Z: np.ndarray
    alpha: np.ndarray
    F: np.ndarray
    G: np.ndarray
    history: list = field(default_factory=list)
    conditioning: float = 1.0
    """Smallest over largest singular value of any ZᵀF, or norm of F over that of Z: near 0 rounding
    chooses the polar factor G, Eq. 20, or all of F."""

    @property
    def unclipped(self):
        return self.Z @ self.G


def algorithm1(S, G, beta, gamma, n_iter, weighting="adaptive", alpha=None):
    """The four updates in the paper's order, `n_iter` times; S has shape (V, n, m)."""
    S = np.asarray(S, dtype=np.float64)
    V = len(S)
    alpha = np.full(V, 1 / V) if alpha is None else np.asarray(alpha)
    Z = np.tensordot(alpha, S, axes=1)
    result = Result(Z, alpha, None, G)
    for _ in range(n_iter):
        F = np.maximum(Z @ G, 0)  # Eq. 13
        U, size, Vt = np.linalg.svd(Z.T @ F, full_matrices=False)  # Eq. 20
        G = U @ Vt
        unique = size[-1] / size[0] if size[0] else 0.0
        there = np.linalg.norm(F) / np.linalg.norm(Z) if Z.any() else 0.0
        result.conditioning = min(result.conditioning, unique, there)
        M = (np.tensordot(alpha, S, axes=1) + gamma * F @ G.T) / (1 + gamma)  # Eq. 23
        P, sigma, Qt = np.linalg.svd(M, full_matrices=False)
        Z = P @ np.diag(np.maximum(sigma - beta / (2 * (1 + gamma)), 0)) @ Qt
        if weighting == "adaptive":  # Eq. 27
            H = np.einsum("uij,vij->uv", S, S)
            alpha = minimize_on_simplex(H, 2 * np.einsum("vij,ij->v", S, Z))
        elif weighting == "agreement":
            size = np.sqrt(np.square(S).sum(axis=(1, 2)) * np.square(F).sum())
            cosine = np.maximum(np.einsum("vij,ij->v", S, F @ G.T), 0) / np.maximum(size, 1e-300)
            alpha = cosine / cosine.sum() if cosine.any() else np.full(V, 1 / V)
        result.history.append(objective(S, Z, alpha, F, G, beta, gamma))
    result.Z, result.alpha, result.G = Z, alpha, G
    result.F = np.maximum(Z @ G, 0)
    return result


def by_size(labels, n_clusters):
    """Return the clusters from the largest to the smallest, and the labels in these numbers."""
    order = np.argsort(-np.bincount(labels, minlength=n_clusters), kind="stable")
    return order, np.argsort(order)[labels]
