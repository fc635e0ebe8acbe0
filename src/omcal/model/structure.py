"""Whether the views hold clusters at all: a test of the labels against data without clusters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.extmath import randomized_svd

from omcal.machine.arrays import Array, on_host
from omcal.method.new_samples import ConsensusPredictor, Predictor
from omcal.method.span import stored_columns
from omcal.places.base import Place
from omcal.places.data_scan import MOST_SAMPLED, complete_sample
from omcal.views.view import Matrix, Views

# A quarter of the samples are tested, within these bounds; more where a cluster would have fewer
# than four of them.
_FEW, _MANY = 192, 256
_FEWEST = 50  # distinct samples: of fewer nothing is said
_DIRECTIONS = 40  # of a wide view, those of largest variance
_NEIGHBOURS = 8
_DRAWS, _RUNS, _ITERATIONS = 2, 4, 6  # draws of the null, at most; k-means of each
# Separation beyond that of the null: below it are 95 of 100 sets of noise (benchmarks/structure.py)
MARGIN = 0.05
_CLEAR = 0.25  # separation beyond that of the null that needs no further samples
_ONE_DRAW = 0.1  # distance from the margin that needs no further draw: two draws differ by less
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
        size = max([1e-300, *(float(np.abs(X).max()) for X in scaled if X.shape[1])])
        points = [few_directions(X / size, _DIRECTIONS) for X in scaled if X.shape[1]]
    points = [X for X in points if np.ptp(X, axis=0).max(initial=0.0) > 0]
    rng = np.random.default_rng(seed)
    kept = _distinct(points, rng)
    points, codes = [X[kept] for X in points], np.unique(labels[kept], return_inverse=True)[1]
    n, c = len(codes), int(codes.max(initial=0)) + 1
    if n < _FEWEST or not 2 <= c <= n // 2:
        return None
    together = np.hstack(points)
    cuts = np.cumsum([X.shape[1] for X in points])[:-1]
    own = max_separation(ties(together, cuts), codes[None])
    null: list[float] = []
    for _ in range(_DRAWS):
        drawn = with_atoms(gaussian_like(together, rng), together)
        null.append(max_separation(ties(drawn, cuts), k_means(drawn, c, rng)))
        if abs(own - null[0] - MARGIN) > _ONE_DRAW:
            break
    return Structure(own, float(np.mean(null)), n)


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


def few_directions(X: Matrix, most: int = 200) -> Points:
    """Return the centred rows in their directions of largest variance, as float32.

    Dense rows that have no more features than `most` keep them.
    """
    if sparse.issparse(X):
        X = X[:, stored_columns(X)]  # the others would be most of the time
    n, d = X.shape
    if sparse.issparse(X) or d > most:
        U, S, _ = randomized_svd(X.astype(np.float32), min(most, n, d), n_iter=2, random_state=0)
        X = U * S
    return np.ascontiguousarray(X - X.mean(axis=0), dtype=np.float32)


def _distinct(points: Sequence[Points], rng: np.random.Generator) -> Array:
    """Return one row of each group of equal ones: counts repeat, draws of a Gaussian do not."""
    if not points:
        return np.empty(0, dtype=np.intp)
    keys = sum(X @ rng.standard_normal(X.shape[1], dtype=np.float32) for X in points)
    size = float(np.abs(keys).max())
    return np.sort(np.unique(np.round(keys / max(size, 1e-30), 5), return_index=True)[1])


def gaussian_like(X: Points, rng: np.random.Generator) -> Points:
    """Draw a table like X: Gaussian, with the covariance of its centred rows."""
    R = np.linalg.qr(X, mode="r") / np.sqrt(np.float32(len(X)))
    return np.asarray(rng.standard_normal((len(X), len(R)), dtype=np.float32) @ R)


def with_atoms(drawn: Points, X: Points) -> Points:
    """Map discrete columns of a draw to the values of X, in the same order (a Gaussian copula).

    Equal rows of counts or categories are nearest neighbours of one another, also in noise.

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


def ties(X: Points, cuts: Array) -> Points:
    """Count in how many views each row is among the nearest of another, (n, n).

    The views end at `cuts`; all of them side by side count as a further one.
    """
    n = len(X)
    k, found = min(_NEIGHBOURS, n // 4), np.zeros((n, n), dtype=np.float32)
    for view in [*np.split(X, cuts, axis=1), *([X] if len(cuts) else [])]:
        D = np.square(view).sum(axis=1) - 2 * view @ view.T
        np.fill_diagonal(D, np.inf)
        found += np.sort(D, axis=1)[:, k - 1 : k] >= D  # sooner than a partition with indices
    return found


def max_separation(tied: Points, labels: Array) -> float:
    """Return the largest separation of several labellings, (runs, n).

    It is the modularity of the labels over the ties, as a share of the largest it could be.

    Examples
    --------
    >>> two_pairs = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 1], [0, 0, 1, 0.0]])
    >>> max_separation(two_pairs, np.array([[0, 0, 1, 1], [0, 1, 0, 1]]))
    1.0
    """
    members = _members(labels, int(labels.max()) + 1)
    total = tied.sum()
    inside = ((members @ tied) * members).sum(axis=(1, 2)) / total
    ends = tied.sum(axis=0) + tied.sum(axis=1)
    chance = np.square(members @ ends / (2 * total)).sum(axis=1)
    return float(((inside - chance) / np.maximum(1 - chance, 1e-12)).max())


def _members(labels: Array, c: int) -> Points:
    """Return ones for the samples of each cluster, (runs, c, n)."""
    return np.asarray(labels[:, None] == np.arange(c)[:, None], dtype=np.float32)


def k_means(X: Points, c: int, rng: np.random.Generator) -> Array:
    """Return labels of several k-means runs, (runs, n)."""
    C = _seeds(X, c, rng)
    labels = np.zeros((_RUNS, len(X)), dtype=np.intp)
    for _ in range(_ITERATIONS):
        labels = (np.square(C).sum(axis=2)[..., None] - 2 * C @ X.T).argmin(axis=1)
        members = _members(labels, c)
        sizes = members.sum(axis=2)[..., None]
        C = np.where(sizes > 0, members @ X / np.maximum(sizes, 1), C)
    return labels


def _seeds(X: Points, c: int, rng: np.random.Generator) -> Points:
    """Draw the first centres, (runs, c, d), by k-means++."""
    n, d = X.shape
    squares = np.square(X).sum(axis=1)
    C = np.empty((_RUNS, c, d), dtype=X.dtype)
    C[:, 0] = X[rng.integers(n, size=_RUNS)]
    nearest = np.full((_RUNS, n), np.inf, dtype=X.dtype)
    for j in range(1, c):
        last = C[:, j - 1]
        away = squares + np.square(last).sum(axis=1)[:, None] - 2 * last @ X.T
        nearest = np.minimum(nearest, np.maximum(away, 0))
        up_to = nearest.cumsum(axis=1)
        drawn = rng.random((_RUNS, 1)) * up_to[:, -1:]
        C[:, j] = X[np.minimum((up_to < drawn).sum(axis=1), n - 1)]
    return C
