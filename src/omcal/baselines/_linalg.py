"""Compute norms, distances and factors, scale or join views, and represent partitions as matrices.

Distances do not overflow and are 0 for equal samples. Wide data are reduced to at most n columns
without changing distances. Many small quadratic programs are solved at once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import linalg, optimize, sparse
from sklearn.metrics import euclidean_distances
from sklearn.preprocessing import maxabs_scale, minmax_scale
from sklearn.utils.extmath import row_norms, safe_sparse_dot

from omcal.machine.arrays import Array, Floats
from omcal.method.scaling import Scale, Scaling
from omcal.method.simplex import minimize_on_simplex, project_simplex
from omcal.views.view import Matrix, View, Views

_MAX_BOX_EXCHANGES, _MAX_SIMPLEX_EXCHANGES = 10, 20
_MAX_CHANGES = 20  # changes of the bounds, per unknown
_LEAST = 1e-16  # relative decrease of the objective that justifies another change of bounds
_ROUNDING = 1e-13
_GROUP = 128


def as_floats(X: Matrix) -> Matrix:
    """Return X in float64; sparse X with 32-bit indices where possible, for scikit-learn."""
    X = X.astype(np.float64, copy=False)
    if sparse.issparse(X) and max(X.nnz, *X.shape) <= np.iinfo(np.int32).max:
        indices, starts = X.indices.astype(np.int32), X.indptr.astype(np.int32)
        return sparse.csr_array((X.data, indices, starts), shape=X.shape)
    return X


def centred(X: Matrix) -> Matrix:
    """Return X in float64, dense input less its median; no distance changes.

    A common offset costs digits in |x|² + |y|² − 2xy. Unlike the mean, the median keeps integers
    exact, so that their tied distances stay tied.
    """
    X = as_floats(X)
    return X if sparse.issparse(X) else X - np.median(X, axis=0)


def squared_norms(X: Matrix) -> Floats:
    """Return |x|² of each row; raise where their sum overflows."""
    norms: Floats = row_norms(X, squared=True)
    with np.errstate(over="ignore"):
        total = norms.sum()
    if not np.isfinite(total):
        raise ValueError("the squares of X exceed the range of float64; scale X first.")
    return norms


def squared_distances(X: Matrix, Y: Matrix) -> Floats:
    """Return the squared Euclidean distances between the rows of X and of Y; 0 below rounding."""
    x_norms, y_norms = squared_norms(X), squared_norms(Y)
    squared: Floats = euclidean_distances(
        X, Y, X_norm_squared=x_norms, Y_norm_squared=y_norms, squared=True
    )
    for row, norm in zip(squared, x_norms, strict=True):  # per row, without a second n×m array
        row[row < 64 * np.finfo(np.float64).eps * (norm + y_norms)] = 0
    return squared


def copy_bytes(views: Views) -> int:
    """Return the bytes of a float64 copy of all views; 16 per entry of sparse ones."""
    return sum(16 * v.array.nnz if v.sparse else 8 * v.array.size for v in views)


def narrow_bytes(views: Views) -> float:
    """Return the bytes that `narrow` needs: a centred copy, and for wide data three n×n arrays."""
    n, d = views.n, views.widths[0]
    return copy_bytes(views) + (8 * 3.0 * n**2 if d > n else 0.0)


def narrow(X: Matrix) -> Matrix:
    """Return X, or if it has more columns than rows an image of it with at most n columns.

    Both have the pairwise distances of X, to rounding. The image is E diag(√w), dense, from the
    Gram matrix X Xᵀ = E diag(w) Eᵀ. Use it for methods that depend on distances and means only.
    """
    n, d = X.shape
    X = centred(X)
    squared_norms(X)  # raises on overflow
    if d <= n:
        return X
    values, vectors = linalg.eigh(safe_sparse_dot(X, X.T, dense_output=True))
    # Eigenvalues up to this are rounding. The last and largest one stays, even if all are 0.
    rounding = n * np.finfo(np.float64).eps * values[-1]
    first = min(int(np.searchsorted(values, rounding, side="right")), n - 1)
    return vectors[:, first:] * np.sqrt(np.maximum(values[first:], 0))


def sum_of_squares(M: Any) -> float:
    """Return |M|², the squared Frobenius norm of an array."""
    return float(np.vdot(M, M))


def scaled(X: Matrix, scale: Scale) -> Matrix:
    """Return the features of one view in float64, scaled; raise where their squares overflow."""
    X = as_floats(X)
    squared_norms(X)
    found = Scaling.fit(View("X", X), scale).apply(X)
    return as_floats(found) if sparse.issparse(found) else found


def minmax_features(X: Matrix) -> Matrix:
    """Scale each column to [0, 1], constant ones to 0; CSR only where all minima are 0."""
    X = X.astype(np.float64)
    if sparse.issparse(X):
        if X.min(axis=0).nnz == 0:
            return maxabs_scale(X)
        X = X.toarray()
    return minmax_scale(X)


def side_by_side(arrays: list[Matrix]) -> Matrix:
    """Concatenate the columns; CSR where one of the arrays is sparse."""
    if any(sparse.issparse(array) for array in arrays):
        return sparse.csr_array(sparse.hstack(arrays, format="csr"))
    return np.hstack(arrays)


def standardized(X: Array) -> Floats:
    """Return the z-score of each sample, or of each feature if there are one or two features.

    With one feature the z-score of a sample is constant; with two it keeps only which is larger.
    """
    return np.asarray(scaled(X, "sample" if X.shape[1] > 2 else "feature"))


def left_singular_vectors(Z: Array, count: int) -> Floats:
    """Return at most `count` leading left singular vectors; those of singular value 0 are 0."""
    U, s, _ = np.linalg.svd(Z, full_matrices=False)
    # The vectors of a zero singular value are arbitrary.
    present = s > max(Z.shape) * np.finfo(np.float64).eps * s[0]
    return np.asarray((U * present)[:, :count])


def one_hot(labels: Array, n_clusters: int) -> sparse.csr_array:
    """Return the n×c matrix with a 1 at the label, or at the several labels, of each row."""
    columns = labels.reshape(len(labels), -1)
    return sparse_rows(columns, np.ones(columns.shape), n_clusters)


def sparse_rows(columns: Array, weights: Array, width: int) -> sparse.csr_array:
    """Return the matrix of this width with weights[i, j] in row i and column columns[i, j]."""
    n, k = columns.shape
    starts = np.arange(0, n * k + 1, k)
    return sparse.csr_array((weights.ravel(), columns.ravel(), starts), shape=(n, width))


def row_sums(X: Matrix, labels: Array, n_clusters: int) -> Floats:
    """Return the sum of the rows of X in each cluster: c×d, dense."""
    return np.asarray(safe_sparse_dot(one_hot(labels, n_clusters).T, X, dense_output=True))


def column_sums(X: Matrix, labels: Array, n_clusters: int) -> Floats:
    """Return the sum of the columns of X in each cluster: n×c, dense."""
    return np.asarray(safe_sparse_dot(X, one_hot(labels, n_clusters), dense_output=True))


def refill_empty(labels: Array, errors: Array, n_clusters: int) -> Array:
    """Give each empty cluster the row of largest error among clusters with several rows.

    Rows without error stay, since splitting them off gains nothing.
    """
    counts = np.bincount(labels, minlength=n_clusters)
    worst = np.argsort(-errors, kind="stable")
    candidates = iter(worst[errors[worst] > 0])
    labels = labels.copy()
    for empty in np.flatnonzero(counts == 0):
        row = next((i for i in candidates if counts[labels[i]] > 1), None)
        if row is None:
            break
        counts[labels[row]] -= 1
        counts[empty] += 1
        labels[row] = empty
    return labels


def box_least_squares(R: Array, targets: Array) -> Floats:
    """Return the rows z of minimal |r - Rz|² with 0 <= z <= 1, one for each row r of `targets`.

    The method is an active-set method on all rows at once, exact up to rounding. In each of a few
    rounds all weights of a row that violate optimality move to or from their bound. Most rows then
    have their solution; the others are solved one by one. R is (m, m), upper triangular and not
    singular; `targets` and the result are (n, m).
    """
    gram = R.T @ R
    lengths = np.sqrt(np.diag(gram))
    z: Floats = linalg.solve_triangular(R, targets.T).T
    low, high = z < 0, z > 1
    rows = np.flatnonzero((low | high).any(axis=1))
    for _ in range(_MAX_BOX_EXCHANGES):
        if not rows.size:
            break
        fixed = low[rows] | high[rows]
        y = high[rows].astype(np.float64)
        for _ in range(2):  # the minimum over the free weights, refined once against rounding
            y = y + _newton_steps(gram, (y @ R.T - targets[rows]) @ R, ~fixed)
        residual = y @ R.T - targets[rows]
        slope = residual @ R
        noise = _ROUNDING * np.linalg.norm(residual, axis=1)[:, None] * lengths
        slope = np.where(np.abs(slope) > noise, slope, 0.0)  # 0 where rounding decides
        low_next = np.where(fixed, low[rows] & (slope >= 0), y < 0)
        high_next = np.where(fixed, high[rows] & (slope <= 0), y > 1)
        changed = ((low_next != low[rows]) | (high_next != high[rows])).any(axis=1)
        z[rows], low[rows], high[rows] = np.clip(y, 0, 1), low_next, high_next
        rows = rows[changed]
    most = _MAX_CHANGES * z.shape[1]
    for row in rows:
        x = optimize.lsq_linear(R, targets[row], (0, 1), "bvls", tol=_LEAST, max_iter=most).x
        z[row] = np.where(np.minimum(x, 1 - x) < _ROUNDING, np.round(x), x)
    return z


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

    All unknowns that violate optimality move to or from zero at once, until none violates it. That
    can cycle, so problems that are open after some rounds are solved one by one. A (N, s, s) is
    symmetric positive definite, b and the result are (N, s).
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
