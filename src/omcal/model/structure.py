"""Test of the labels against data without clusters: whether the views contain clusters at all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from omcal.machine.arrays import Array, as_dense, on_host
from omcal.method.new_samples import ConsensusPredictor, Predictor
from omcal.method.span import stored_columns
from omcal.places.base import Place
from omcal.places.data_scan import MOST_SAMPLED, complete_sample
from omcal.views.view import Matrix, Views

# Samples to test; at least four times the clusters. With up to 256, 592 of 600 sets of noise are
# recognised, and 593 with 192; of 21 labelled sets the same ones (benchmarks/structure.py).
_TESTED = 192
_FEWEST = 50  # distinct samples; fewer are not tested
_NARROW = 40  # largest number of features for drawing a dense view by columns
_NEIGHBOURS = 8
_DRAWS, _RUNS, _ITERATIONS = 2, 4, 6  # most draws of the null; least k-means runs per draw
# Share of the remaining separation that the labels must exceed; 95 of 100 sets of noise do not
# (benchmarks/structure.py).
MARGIN = 0.1
_ONE_DRAW = 0.06  # at this distance from the margin one draw is enough: two draws differ by less
_ATOMS = 12  # largest number of distinct values of a discrete feature

Points = NDArray[np.float32]


class Structure(NamedTuple):
    """How well labels separate the samples, compared with k-means on data without clusters.

    Attributes
    ----------
    separation : float
        Assortativity of the labels over the nearest neighbours in each view: 1 if all neighbours
        share a cluster, 0 if as many do as by chance.
    null : float
        Separation of the best of several k-means clusterings (all views, or one) on draws from a
        Gaussian with the covariance of the views, in which discrete features keep their values.
    n_samples : int
        Number of samples that were compared.
    """

    separation: float
    null: float
    n_samples: int

    @property
    def found(self) -> bool:
        """Whether the labels separate the samples better than k-means separates noise."""
        return self.separation > _needed(self.null)


def _needed(null: float) -> float:
    """Return the largest separation that noise may have."""
    return null + MARGIN * (1 - null)


def sample_size(n_clusters: int) -> int:
    """Return the number of samples to test in `n_clusters` clusters."""
    return min(max(_TESTED, 4 * n_clusters), MOST_SAMPLED)


def find_structure(scaled: Sequence[Matrix], labels: Array) -> Structure | None:
    """Compare labels of samples with k-means on draws from one Gaussian.

    Parameters
    ----------
    scaled : sequence of arrays of shape (n, d_v)
        The scaled views of a sample, dense or sparse.
    labels : array of shape (n,)
        Clusters of the same samples.

    Returns
    -------
    Structure or None
        None if there are fewer than 50 distinct samples, or fewer than two clusters.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> noise, labels = rng.normal(size=(200, 5)), np.repeat([0, 1], 100)
    >>> find_structure([noise + 6 * labels[:, None]], labels).found
    True
    >>> find_structure([noise], (noise[:, 0] > 0).astype(int)).found
    False
    """
    if len(labels) < _FEWEST:
        return None
    with np.errstate(all="ignore"):
        size = max([1e-300, *(float(max(X.max(), -X.min())) for X in scaled)])
        points = [_centred(X, size) for X in scaled]
    rng = np.random.default_rng(0)
    distinct = _distinct(points, rng)
    codes = np.unique(labels[distinct], return_inverse=True)[1]
    views = [_InnerProducts.of(X if len(distinct) == len(labels) else X[distinct]) for X in points]
    views = [view for view in views if view.vary]
    n, c = len(codes), int(codes.max(initial=0)) + 1
    if n < _FEWEST or not 2 <= c <= n // 2 or not views:
        return None
    separation = max_separation(ties(_with_sum([view.products for view in views])), codes[None])
    null: list[float] = []
    for _ in range(_DRAWS):
        drawn = np.stack(_with_sum(_like(views, rng)))
        null.append(max_separation(ties(drawn), k_means(drawn, c, rng)))
        if abs(separation - _needed(null[0])) > _ONE_DRAW:
            break
    return Structure(separation, float(np.mean(null)), n)


def structure_at(
    place: Place, predictor: Predictor | ConsensusPredictor, labels: Any
) -> Structure | None:
    """Test the labels of a fit on a sample of its rows; None if the place keeps no sample."""

    def work() -> Structure | None:
        found = _sampled_views(place, sample_size(predictor.n_clusters))
        if found is None:
            return None
        rows, views = found
        first = predictor if isinstance(predictor, Predictor) else predictor.runs[0]
        scalings = first.learned.scalings
        scaled = [
            scaling.apply(view.array.astype(view.dtype, copy=False))
            for scaling, view in zip(scalings, views, strict=True)
        ]
        own = predictor.labels(views) if rows is None else on_host(labels[rows])
        return find_structure(scaled, own)

    return place.team.on_leader(work)


def _sampled_views(place: Place, count: int) -> tuple[Array | None, Views] | None:
    """Return up to `count` random samples that are in every view, and their row numbers.

    The row numbers are None if a scan has kept the samples. The result is None if no samples are in
    the memory of this process, and on devices, where the test on the host would take several times
    as long as the fit.
    """
    if place.scanned is not None:
        return None, place.scanned.load(slice(count))
    views = place.views
    if views.home != "memory" or place.asked.device != "cpu":
        return None
    rows = np.sort(complete_sample(views.n, views.present, count))
    return rows, Views([view.part(view.array[rows], rows) for view in views])


def few_directions(X: Matrix, most: int = 200) -> Points:
    """Return the centred rows in their directions of largest variance, as float32.

    Dense rows with at most `most` features keep their features.
    """
    if sparse.issparse(X):
        X = X[:, stored_columns(X)]  # the others would be most of the time
    n, d = X.shape
    if sparse.issparse(X) or d > most:
        U, S, _ = randomized_svd(X.astype(np.float32), min(most, n, d), n_iter=2, random_state=0)
        X = U * S
    return np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)


def _centred(X: Matrix, size: float) -> Matrix:
    """Return X / size as float32; dense rows are centred."""
    if sparse.issparse(X):
        return (X / size).astype(np.float32)
    points = np.divide(X, size, out=np.empty(X.shape, np.float32), casting="same_kind")
    points -= points.mean(axis=0)
    return points


def _distinct(points: Sequence[Matrix], rng: np.random.Generator) -> Array:
    """Return one row per group of equal rows: rows of counts repeat, draws of a Gaussian do not."""
    keys = sum(X @ rng.standard_normal(X.shape[1], dtype=np.float32) for X in points)
    size = float(np.abs(keys).max())
    return np.sort(np.unique(np.round(keys / max(size, 1e-30), 5), return_index=True)[1])


class _InnerProducts(NamedTuple):
    """The inner products of the centred rows of a view, from which distances and draws follow."""

    products: Points  # (n, n)
    columns: Points | None  # of a dense view with fewer features than rows
    vary: bool  # whether the rows differ by more than rounding

    @classmethod
    def of(cls, X: Matrix) -> _InnerProducts:
        products = as_dense(X @ X.T)
        before = np.trace(products)
        means = products.mean(axis=0)
        products -= means
        products -= means[:, None] - means.mean()
        columns = None if sparse.issparse(X) or X.shape[1] > len(products) else X - X.mean(axis=0)
        return cls(products, columns, bool(np.trace(products) > 1e-6 * before))


def _like(views: Sequence[_InnerProducts], rng: np.random.Generator) -> list[Points]:
    """Return inner products of one draw of all views, from a Gaussian with their covariance.

    Random combinations Z X of the centred rows have it, and inner products Z X Xᵀ Zᵀ.
    """
    n = len(views[0].products)
    Z = rng.standard_normal((n, n), dtype=np.float32) / np.sqrt(np.float32(n))
    found = []
    for products, columns, _ in views:
        if columns is None:
            found.append(Z @ products @ Z.T)
            continue
        drawn = Z @ columns
        if columns.shape[1] <= _NARROW:
            drawn = with_atoms(drawn, columns)
        found.append(drawn @ drawn.T)
    return found


def _with_sum(products: list[Points]) -> list[Points]:
    """Return the inner products of each view and, for several views, also their sum: 1 or V + 1."""
    return [*products, sum(products[1:], products[0])] if len(products) > 1 else products


def gaussian_like(X: Points, rng: np.random.Generator) -> Points:
    """Draw a table like X: Gaussian, with the covariance of its centred rows."""
    R = np.linalg.qr(X, mode="r") / np.sqrt(np.float32(len(X)))
    return np.asarray(rng.standard_normal((len(X), len(R)), dtype=np.float32) @ R)


def with_atoms(drawn: Points, X: Points) -> Points:
    """Map discrete columns of a draw to the values of X, in the same order (a Gaussian copula).

    Equal rows of counts or categories are nearest neighbours of one another, even in noise.

    Examples
    --------
    >>> X = np.repeat([[0, 1], [1, 2]], 10, axis=0).astype(np.float32)
    >>> drawn = with_atoms(np.random.default_rng(0).normal(size=(20, 2)), X)
    >>> np.unique(drawn[:, 1], return_counts=True)
    (array([1., 2.]), array([10, 10]))
    """
    ordered = np.sort(X, axis=0)
    few = np.count_nonzero(np.diff(ordered, axis=0), axis=0) < _ATOMS
    ranks = drawn[:, few].argsort(axis=0).argsort(axis=0)
    drawn[:, few] = np.take_along_axis(ordered[:, few], ranks, axis=0)
    return drawn


def ties(products: Sequence[Points] | Points) -> Points:
    """Count in how many views each row is among the nearest of another, (n, n).

    Views are given by the inner products of their rows, (n, n).
    """
    n = len(products[0])
    k, found = min(_NEIGHBOURS, n // 4), np.zeros((n, n), dtype=np.float32)
    for view in products:
        nearness = view - view.diagonal() / 2
        np.fill_diagonal(nearness, -np.inf)
        # Sorting is faster than a partition with indices.
        found += nearness >= np.sort(nearness, axis=1)[:, n - k, None]
    return found


def max_separation(tied: Points, labels: Array) -> float:
    """Return the largest separation of several labellings, (runs, n).

    The separation is the modularity of the labels over the ties, divided by its maximum.

    Examples
    --------
    >>> two_pairs = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0.0]])
    >>> max_separation(two_pairs, np.array([[0, 0, 1, 1], [0, 1, 0, 1]]))
    1.0
    """
    members = _members(labels, int(labels.max()) + 1)
    total = tied.sum()
    inside = np.einsum("rcn,rcn->r", members @ tied, members) / total
    ends = tied.sum(axis=0) + tied.sum(axis=1)
    chance = np.square(members @ ends / (2 * total)).sum(axis=1)
    return float(((inside - chance) / np.maximum(1 - chance, 1e-12)).max())


def _members(labels: Array, c: int) -> Points:
    """Return ones for the samples of each cluster, (..., c, n)."""
    return np.asarray(labels[..., None, :] == np.arange(c)[:, None], dtype=np.float32)


def k_means(products: Points, c: int, rng: np.random.Generator) -> Array:
    """Return labels of k-means runs in each view, (runs, n), from inner products, (V, n, n)."""
    V, n, _ = products.shape
    labels = _nearest_seeds(products, c, rng)
    for _ in range(_ITERATIONS):
        members = _members(labels, c)
        sizes = members.sum(axis=3, keepdims=True)
        nearer = (members.reshape(V, -1, n) @ products).reshape(members.shape)
        nearer /= np.maximum(sizes, 1)
        # Squared lengths of the centres; infinite for centres without samples.
        lengths = np.einsum("vrcn,vrcn->vrc", nearer, members)[..., None]
        nearer -= np.where(sizes > 0, lengths / np.maximum(2 * sizes, 1), np.inf)
        labels = nearer.argmax(axis=2)
    return labels.reshape(-1, n)


def _nearest_seeds(products: Points, c: int, rng: np.random.Generator) -> Array:
    """Draw samples by k-means++ in each view; return the nearest to each, (V, runs, n)."""
    V, n, _ = products.shape
    runs, view = -(-_RUNS // V), np.arange(V)[:, None]
    squares = np.diagonal(products, axis1=1, axis2=2)
    labels = np.zeros((V, runs, n), dtype=np.intp)
    drawn, nearest = rng.integers(n, size=(V, runs)), np.full((V, runs, n), np.inf, np.float32)
    for j in range(c):
        if j:
            up_to = nearest.cumsum(axis=2)
            share = rng.random((V, runs, 1)) * up_to[..., -1:]
            drawn = np.minimum((up_to < share).sum(axis=2), n - 1)
        away = squares[:, None] + squares[view, drawn][..., None] - 2 * products[view, drawn]
        closer = away < nearest
        labels[closer] = j
        nearest = np.maximum(np.where(closer, away, nearest), 0)
    return labels
