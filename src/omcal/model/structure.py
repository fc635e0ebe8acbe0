"""Whether the views hold clusters at all: a test of the labels against data without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from omcal.machine.arrays import Array, on_host
from omcal.method.new_samples import ConsensusPredictor, Predictor
from omcal.places.base import Place
from omcal.places.data_scan import MOST_SAMPLED, complete_sample
from omcal.views.view import Matrix, Views

# A quarter of the samples are tested, within these bounds; more where a cluster would have fewer
# than four of them.
_FEW, _MANY = 192, 256
_FEWEST = 50  # distinct samples: of fewer nothing is said
_DIRECTIONS = 40  # of a wide view, those of largest variance
_NEIGHBOURS = 8
_DRAWS, _RUNS, _ITERATIONS = 2, 4, 6  # draws of the null; k-means of each
# Separation beyond that of the null: below it are 95 of 100 sets of noise (benchmarks/structure.py)
MARGIN = 0.05
_CLEAR = 0.25  # separation beyond that of the null that needs no further samples
_ATOMS = 12  # distinct values up to which a feature is discrete

Points = NDArray[np.float32]


class Structure(NamedTuple):
    """How well labels separate the samples, and how well k-means separates data without clusters.

    Attributes
    ----------
    separation : float
        Assortativity of the labels over the nearest neighbours in each view: 1 where all
        neighbours share a cluster, 0 where they do so as often as by chance.
    null : float
        Mean separation of k-means on draws from one Gaussian with the covariance of the views, in
        which discrete features keep their values.
    n_samples : int
        Number of samples that were compared.
    """

    separation: float
    null: float
    n_samples: int

    @property
    def found(self) -> bool:
        """Whether the labels separate the samples better than noise is separated."""
        return self.separation > self.null + MARGIN


def sample_size(n: int, n_clusters: int) -> int:
    """Return the number of samples to test, given n samples in `n_clusters` clusters."""
    return min(max(_FEW, min(n // 4, _MANY), 4 * n_clusters), MOST_SAMPLED)


def find_structure(scaled: Sequence[Matrix], labels: Array, seed: int = 0) -> Structure | None:
    """Compare labels of samples with k-means on draws from one Gaussian.

    Parameters
    ----------
    scaled : sequence of arrays of shape (n, d_v)
        The scaled views of a sample, dense or sparse.
    labels : array of shape (n,)
        Clusters of the same samples.
    seed : int, default=0
        Seed of the draws.

    Returns
    -------
    Structure or None
        None where there are fewer than 50 distinct samples, or fewer than two clusters.

    Examples
    --------
    >>> rng = np.random.RandomState(0)
    >>> noise, labels = rng.normal(size=(200, 5)), np.repeat([0, 1], 100)
    >>> find_structure([noise + 6 * labels[:, None]], labels).found
    True
    >>> find_structure([noise], (noise[:, 0] > 0).astype(int)).found
    False
    """
    # A clear answer from every second sample is enough: it takes a third of the time.
    n, c = len(labels), len(np.unique(labels))
    if n >= max(2 * _FEWEST, 8 * c):
        found = _compared([X[::2] for X in scaled], labels[::2], seed)
        if found is not None and found.separation > found.null + _CLEAR:
            return found
    return _compared(scaled, labels, seed)


def _compared(scaled: Sequence[Matrix], labels: Array, seed: int) -> Structure | None:
    """Do `find_structure` with all of the samples."""
    if len(labels) < _FEWEST:
        return None
    with np.errstate(all="ignore"):
        size = max((float(np.abs(X).max()) for X in scaled if X.shape[1]), default=0.0)
        points = [few_directions(X / max(size, 1e-300)) for X in scaled] if size else []
    points = [X for X in points if X.shape[1]]
    rng = np.random.default_rng(seed)
    kept = _distinct(points, rng)
    points, codes = [X[kept] for X in points], np.unique(labels[kept], return_inverse=True)[1]
    n, c = len(codes), int(codes.max(initial=0)) + 1
    if n < _FEWEST or not 2 <= c <= n // 2:
        return None
    together = np.hstack(points)
    drawn = with_atoms(gaussian_like(together, rng, _DRAWS), together)
    cuts = np.cumsum([X.shape[1] for X in points])[:-1]
    null = max_separation(_tied(drawn, cuts), k_means(drawn, c, rng))
    of_labels = max_separation(_tied(together[None], cuts), codes[None, None])
    return Structure(float(of_labels[0]), float(null.mean()), n)


def structure_at(
    place: Place, predictor: Predictor | ConsensusPredictor, labels: Any
) -> Structure | None:
    """Test the labels of a fit on a sample of its rows; None where the place keeps no sample."""

    def work() -> Structure | None:
        found = _sampled_views(place, sample_size(place.n, predictor.n_clusters))
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

    The numbers are None where the samples are those that a scan has kept. The result is None where
    no samples are in the memory of this process, and on devices: the test on the host would take
    several times as long as the fit there.
    """
    if place.scanned is not None:
        return None, place.scanned.load(slice(count))
    views = place.views
    if views.home != "memory" or place.asked.device != "cpu":
        return None
    rows = np.sort(complete_sample(views.n, views.present, count))
    return rows, Views([view.part(view.array[rows], rows) for view in views])


def few_directions(X: Matrix) -> Points:
    """Return the centred rows in their directions of largest variance; empty for constant rows.

    Narrow dense views keep their features. Wide and sparse ones go through inner products, of
    which a random projection finds the leading eigenvectors.
    """
    n, d = X.shape
    if not sparse.issparse(X) and d <= _DIRECTIONS:
        rows = np.asarray(X - X.mean(axis=0), dtype=np.float32)
        return rows if np.ptp(rows, axis=0).max(initial=0.0) > 0 else rows[:, :0]
    products = X @ X.T
    K = np.asarray(products.toarray() if sparse.issparse(X) else products, dtype=np.float32)
    mean = K.mean(axis=0)
    K = K + mean.mean() - mean - mean[:, None]
    start = np.random.default_rng(0).standard_normal((n, min(n, _DIRECTIONS + 8)), dtype=K.dtype)
    Q = np.linalg.qr(K @ (K @ start))[0]
    values, vectors = np.linalg.eigh(Q.T @ K @ Q)
    kept = values > 1e-6 * max(float(values[-1]), 0.0)
    kept[:-_DIRECTIONS] = False
    return np.asarray(Q @ vectors[:, kept] * np.sqrt(values[kept]), dtype=np.float32)


def _distinct(points: Sequence[Points], rng: np.random.Generator) -> Array:
    """Return one row of each group of equal ones: counts repeat, draws of a Gaussian do not."""
    if not points:
        return np.empty(0, dtype=np.intp)
    keys = sum(X @ rng.standard_normal(X.shape[1], dtype=np.float32) for X in points)
    size = float(np.abs(keys).max())
    return np.sort(np.unique(np.round(keys / max(size, 1e-30), 5), return_index=True)[1])


def gaussian_like(X: Points, rng: np.random.Generator, draws: int = 1) -> Points:
    """Draw tables like X, (draws, n, d): Gaussian, with the covariance of its centred rows."""
    R = np.linalg.qr(X, mode="r") / np.sqrt(np.float32(len(X)))
    return np.asarray(rng.standard_normal((draws, len(X), len(R)), dtype=np.float32) @ R)


def with_atoms(drawn: Points, X: Points) -> Points:
    """Map discrete columns of draws to the values of X, in the same order (a Gaussian copula).

    Equal rows of counts or categories are nearest neighbours of one another, also in noise.

    Examples
    --------
    >>> X = np.repeat([[0, 1], [1, 2]], 10, axis=0).astype(np.float32)
    >>> drawn = with_atoms(np.random.default_rng(0).normal(size=(3, 20, 2)), X)
    >>> np.unique(drawn[2, :, 1], return_counts=True)
    (array([1., 2.]), array([10, 10]))
    """
    ordered = np.sort(X, axis=0)
    few = np.count_nonzero(np.diff(ordered, axis=0), axis=0) < _ATOMS
    ranks = drawn[..., few].argsort(axis=1).argsort(axis=1)
    drawn[..., few] = np.take_along_axis(ordered[None][..., few], ranks, axis=1)
    return drawn


def ties(views: Sequence[Points]) -> Points:
    """Count in how many views each row is among the nearest of another, (b, n, n), for b tables."""
    b, n, _ = views[0].shape
    k, found = min(_NEIGHBOURS, n // 4), np.zeros((b, n, n), dtype=np.float32)
    for X in views:
        D = np.square(X).sum(axis=2)[:, None] - 2 * X @ X.transpose(0, 2, 1)
        D[:, np.arange(n), np.arange(n)] = np.inf
        found += np.sort(D, axis=2)[:, :, k - 1 : k] >= D  # sooner than a partition with indices
    return found


def _tied(X: Points, cuts: Array) -> Points:
    """Count ties in each view, which end at `cuts`, and in all of them side by side."""
    return ties([*np.split(X, cuts, axis=2), *([X] if len(cuts) else [])])


def max_separation(tied: Points, labels: Array) -> NDArray[np.float32]:
    """Return the largest separation of several labellings, (b, runs, n), of each of b tables.

    It is the modularity of the labels over the ties, as a share of the largest it could be.

    Examples
    --------
    >>> two_pairs = np.array([[[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0.0]]])
    >>> max_separation(two_pairs, np.array([[[0, 0, 1, 1], [0, 1, 0, 1]]])).tolist()
    [1.0]
    """
    members = (labels[:, :, None] == np.arange(labels.max() + 1)[:, None]).astype(tied.dtype)
    total = tied.sum(axis=(1, 2))[:, None]
    inside = ((members @ tied[:, None]) * members).sum(axis=(2, 3)) / total
    ends = tied.sum(axis=1) + tied.sum(axis=2)
    by_chance = np.square(members @ ends[:, None, :, None] / (2 * total[..., None, None]))
    chance = by_chance.sum(axis=(2, 3))
    return np.asarray(((inside - chance) / np.maximum(1 - chance, 1e-12)).max(axis=1))


def k_means(X: Points, c: int, rng: np.random.Generator) -> Array:
    """Return labels of several k-means runs, (b, runs, n), for a batch of b tables."""
    b, n, d = X.shape
    Xt = X.transpose(0, 2, 1)
    C = _seeds(X, Xt, c, rng)
    labels = np.zeros((b, _RUNS, n), dtype=np.intp)
    for _ in range(_ITERATIONS):
        D = np.square(C).sum(axis=3)[..., None]
        D = D - 2 * (C.reshape(b, -1, d) @ Xt).reshape(b, _RUNS, c, n)
        labels = D.argmin(axis=2)
        members = (labels[:, :, None] == np.arange(c)[:, None]).astype(X.dtype)
        sizes = members.sum(axis=3)[..., None]
        means = (members.reshape(b, -1, n) @ X).reshape(b, _RUNS, c, d) / np.maximum(sizes, 1)
        C = np.where(sizes > 0, means, C)
    return labels


def _seeds(X: Points, Xt: Points, c: int, rng: np.random.Generator) -> Points:
    """Draw the first centres, (b, runs, c, d), by k-means++."""
    b, n, d = X.shape
    table, squares = np.arange(b)[:, None], np.square(X).sum(axis=2)[:, None]
    C = np.empty((b, _RUNS, c, d), dtype=X.dtype)
    C[:, :, 0] = X[table, rng.integers(n, size=(b, _RUNS))]
    nearest = np.full((b, _RUNS, n), np.inf, dtype=X.dtype)
    for j in range(1, c):
        last = C[:, :, j - 1]
        away = squares + np.square(last).sum(axis=2)[..., None] - 2 * last @ Xt
        nearest = np.minimum(nearest, np.maximum(away, 0))
        up_to = nearest.cumsum(axis=2)
        drawn = rng.random((b, _RUNS, 1)) * up_to[..., -1:]
        C[:, :, j] = X[table, np.minimum((up_to < drawn).sum(axis=2), n - 1)]
    return C
