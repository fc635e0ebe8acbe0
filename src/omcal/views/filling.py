"""Values for missing cells: a low-rank model of a view, applied to the known cells of each row.

A row is approximately mean + deviation · V p, where V has a few orthonormal columns. Power
iterations on sampled rows learn V; between them missing cells take their expected values. Each
direction is weighted by the share of its variance above the noise, so that uncorrelated features
get their means.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from omcal.machine.arrays import Array, Floats
from omcal.machine.threads import row_blocks
from omcal.views.view import Matrix

ROUNDS = 5  # projections per row, starting from the means
_DIRECTIONS, _LEARNING_ROUNDS = 20, 10
_ENTRIES = 1 << 20  # per block of rows to fill
_CELLS = 1 << 18


class Holes(NamedTuple):
    """The missing cells of a block, and the positions of these cells among its stored values."""

    rows: Array
    columns: Array
    positions: Array

    @classmethod
    def of(cls, block: Matrix) -> Holes:
        """Find the missing cells, except for dense rows without any value."""
        if sparse.issparse(block):
            at = np.flatnonzero(np.isnan(block.data))
            return cls(np.searchsorted(block.indptr, at, "right") - 1, block.indices[at], at)
        missing = np.isnan(block) if block.dtype.kind == "f" else np.zeros(block.shape, bool)
        missing &= ~missing.all(axis=1, keepdims=True)
        at = np.flatnonzero(missing)
        return cls(*np.divmod(at, block.shape[1]), at)

    def expected(self, P: Floats, V: Floats) -> Floats:
        """Return the entries of P Vᵀ at the missing cells."""
        found = np.empty(len(self.rows))
        for part in row_blocks(len(found), _CELLS):
            found[part] = np.einsum("ij,ij->i", P[self.rows[part]], V[self.columns[part]])
        return found


class Fill(NamedTuple):
    """Expected values of missing cells, given the known cells of their row.

    Attributes
    ----------
    mean, deviation : arrays of shape (n_features,)
        The mean, and the standard deviation, or 1 if features share a unit.
    directions : array of shape (n_features, n_directions)
        V, with each column multiplied by the square root of its share of signal.
    least : float
        The smallest possible value: 0 if no known value is negative.
    """

    mean: Floats
    deviation: Floats
    directions: Floats
    least: float = -np.inf

    @classmethod
    def of_means(cls, mean: Floats) -> Fill:
        """Return the model that fills each cell with the mean of its feature."""
        return cls(mean, np.ones(len(mean)), np.empty((len(mean), 0)))

    @classmethod
    def learn(
        cls,
        blocks: Sequence[Matrix],
        mean: Floats,
        standardised: bool,
        total: Callable[[Array], Array] = np.asarray,
    ) -> Fill:
        """Learn the model from sampled rows; `total` sums an array over all processes."""
        holes = [Holes.of(block) for block in blocks]
        known = [_filled(block, found, mean) for block, found in zip(blocks, holes, strict=True)]
        n_negative, n = total(
            np.array([sum((_values(X) < 0).sum() for X in known), sum(X.shape[0] for X in known)])
        )
        deviation = np.ones(len(mean))
        if standardised:
            squares = total(sum((_centred_squares(X, mean) for X in known), np.zeros(len(mean))))
            deviation = np.sqrt(squares / max(n, 1))
            # Because of rounding, a constant feature x has a deviation of about eps·x.
            deviation[deviation <= 1e-14 * np.abs(mean)] = 0
        rank = max(min(_DIRECTIONS, int(n) - 1, len(mean) - 1), 0)
        fill = cls(mean, deviation, np.empty((len(mean), 0)), -np.inf if n_negative else 0.0)
        if not rank:
            return fill
        scaled = [fill._scaled(X) for X in known]
        return fill._replace(directions=fill._learned(scaled, holes, rank, int(n), total))

    def _learned(
        self,
        scaled: list[Matrix],
        holes: list[Holes],
        rank: int,
        n: int,
        total: Callable[[Array], Array],
    ) -> Floats:
        """Return V from scaled rows, and replace their missing cells by expected values."""
        centre = self._centre
        V = np.linalg.qr(np.random.default_rng(0).normal(size=(len(centre), rank)))[0]
        both = list(zip(scaled, holes, strict=True))
        for _ in range(_LEARNING_ROUNDS):
            power, product = np.zeros(len(centre)), np.zeros(V.shape)
            for X in scaled:
                P = X @ V - centre @ V
                product += X.T @ P - np.outer(centre, P.sum(axis=0))
                power += _centred_squares(X, centre)
            U, variances, _ = np.linalg.svd(total(product), full_matrices=False)
            powers = total(power)
            rest = max(float(powers.sum() - variances.sum()), 0.0)
            noise = rest / max(min(n, len(centre)) - rank, 1)
            # Directions with hardly any variance would be rounding error.
            eps = np.finfo(float).eps
            least = np.sqrt(eps) * powers.sum() + eps * n * (centre @ centre)
            n_directions = np.count_nonzero(variances > least)
            V, variances = U[:, :n_directions], variances[:n_directions]
            signal = np.sqrt(np.maximum(1 - noise / variances, 0))
            for X, found in both:
                y = found.expected((X @ V - centre @ V) * signal**2, V)
                _values(X)[found.positions] = centre[found.columns] + y
        return np.asarray(V * signal)

    @property
    def _weight(self) -> Floats:
        there = self.deviation > 0
        return np.divide(1.0, self.deviation, out=np.zeros(len(there)), where=there)

    @property
    def _centre(self) -> Floats:
        return self.mean * self._weight

    def _scaled(self, X: Matrix) -> Matrix:
        """Return float64 rows in units of the deviations."""
        if sparse.issparse(X):
            return sparse.csr_array(
                (X.data * self._weight[X.indices], X.indices, X.indptr), X.shape
            )
        return X * self._weight

    def values(self, block: Matrix, holes: Holes) -> Floats:
        """Return the values of the missing cells of a block."""
        some, rows = np.unique(holes.rows, return_inverse=True)
        known, V = _filled(block, holes, self.mean)[some], self.directions
        holes = holes._replace(rows=rows)
        P = first = self._scaled(known) @ V - self._centre @ V
        y = np.zeros(len(rows))
        for _ in range(ROUNDS if V.shape[1] else 0):
            y = holes.expected(P, V)
            P = first + sparse.csr_array((y, (rows, holes.columns)), known.shape) @ V
        return np.maximum(self.mean[holes.columns] + self.deviation[holes.columns] * y, self.least)

    def apply(self, array: Matrix) -> Matrix:
        """Return rows in memory with missing cells filled; the same array if there are none."""
        n, width = array.shape
        whole = None
        for rows in row_blocks(n, max(1, _ENTRIES // width)):
            block = array[rows]
            holes = Holes.of(block)
            if len(holes.rows):
                whole = array.copy() if whole is None else whole
                start = whole.indptr[rows.start] if sparse.issparse(whole) else rows.start * width
                _values(whole)[start + holes.positions] = self.values(block, holes)
        return array if whole is None else whole


def _values(X: Matrix) -> Array:
    """Return the stored values of a matrix as one array, a view that can be changed."""
    return np.asarray(X.data if sparse.issparse(X) else X.reshape(-1))


def _filled(block: Matrix, holes: Holes, mean: Floats) -> Matrix:
    """Return a float64 copy with the means of the features in missing cells."""
    dense = not sparse.issparse(block)
    whole = np.array(block, np.float64, order="C") if dense else block.astype(np.float64)
    _values(whole)[holes.positions] = mean[holes.columns]
    return whole


def _centred_squares(X: Matrix, centre: Floats) -> Floats:
    """Return the sums of (x − centre)² of each feature."""
    if not sparse.issparse(X):
        return np.asarray(((X - centre) ** 2).sum(axis=0))
    sums = [np.bincount(X.indices, v, X.shape[1]) for v in (X.data**2, X.data)]
    return np.asarray(sums[0] - 2 * centre * sums[1] + X.shape[0] * centre**2)
