"""How many clusters there are: fits of every number, judged without labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from omcal.machine.arrays import Array, Floats, Seed
from omcal.machine.threads import one_blas_thread, thread_count
from omcal.method.scaling import Scale, Scaling
from omcal.model.consensus import Consensus
from omcal.model.estimators import OMCAL
from omcal.model.structure import Structure, find_structure, sample_size
from omcal.model.subset_fits import sampled_rows
from omcal.places.data_scan import complete_sample
from omcal.views.like import ColumnsLike, PresentLike, ViewsLike
from omcal.views.reading import read_views
from omcal.views.view import Matrix

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from omcal.model.parameters import Weighting

_AGREED = 0.99  # stability of clusters that are found whatever the anchors are
# Such clusters may be those of a coarser division, unless hardly a tie is between them, or their
# modularity is so large a share of the largest.
_CROSSING, _RIVAL = 0.025, 0.8
# Neighbours, in roots of n; as many times more for a number with a smaller square than this.
_FEW, _SQUARE = 0.6, 50
_SAME = 0.001  # stabilities that differ by less are the same
_FEWEST = 6  # samples: of fewer, none has as many neighbours among the anchors as a fit asks for
_TURNED = 1500  # samples: of more, the eigenvectors would take longer than they save
_SCATTERED = 8  # as many dense entries take as long as one of a sparse view


@dataclass(frozen=True)
class ClusterNumber:
    """Curves over the number of clusters, and a suggestion; `print` it, or `plot` it.

    Attributes
    ----------
    suggestion : int
        1 where no cluster structure was found and no candidates were given. Else the candidate
        with the largest `modularity`. Where the runs agree on the clusters of some,
        with a stability of 0.99 or more, and these have four fifths of the largest modularity over
        as many neighbours, or at most 2.5 % of the ties between them: of those on which the runs
        agree best.
    confidence : float
        0 to 1: the stability of its clusters, times the share of the runs whose own modularity
        gives the same suggestion, unless the runs agree as above.
    ranking : tuple of int
        The candidates, the suggestion first, the others by the mean modularity of the runs and of
        their joint result.
    candidates : tuple of int
        The numbers that were tried.
    modularity : tuple of float
        How many more neighbours share a cluster than by chance: the share of the ties between
        neighbours that lie inside clusters, less what is expected of ties at random. It falls with
        too few clusters, and with too many. Two candidates next to one another are compared over
        the same neighbours: 0.6 roots of n in each view; 50 / cc' times as many, where the product
        cc' of the two is less than 50, since few clusters are large; and at most as many as half a
        cluster has in the mean, where that is less than 0.6 roots of n.
    stability : tuple of float
        Mean adjusted Rand index of the runs, which have other anchors, with their joint result.
    n_samples, n_runs : int
        What this rests on.
    structure : omcal.model.structure.Structure or None
        How well the best number separates a sample of the data, and how well data without clusters
        is separated; None where there are fewer than 50 samples.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import n_clusters
    >>> data = make_multiview(200, n_clusters=4, noise=0.3, random_state=0)
    >>> found = n_clusters(data.views, range(2, 8))
    >>> found.suggestion, found.candidates[0], len(found.modularity)
    (4, 2, 6)
    >>> print(found.sentence())
    4 clusters, confidence 1.00: runs with other anchors agree on it.
    """

    suggestion: int
    confidence: float
    ranking: tuple[int, ...]
    candidates: tuple[int, ...]
    modularity: tuple[float, ...]
    stability: tuple[float, ...]
    n_samples: int
    n_runs: int
    structure: Structure | None = None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, as for JSON.

        Returns
        -------
        dict
            The attributes by name.
        """
        return asdict(self)

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw the curves, as `omcal.plots.number_of_clusters` does.

        Parameters
        ----------
        ax : matplotlib Axes, optional
            Where to draw; a new figure by default.

        Returns
        -------
        matplotlib Axes
            What it was drawn into.
        """
        from omcal.plots.studies import number_of_clusters

        return number_of_clusters(self, ax)

    def __str__(self) -> str:
        order = [self.candidates.index(c) for c in self.ranking if c in self.candidates][:5]
        lines = [self.sentence(), "", "clusters  modularity  stability"]
        lines += [
            f"{self.candidates[i]:<8}  {self.modularity[i]:<10.3f}  {self.stability[i]:.3f}"
            for i in order
        ]
        return "\n".join(lines)

    def sentence(self) -> str:
        """The suggestion and how far to trust it, in words.

        Returns
        -------
        str
            One or two sentences.
        """
        if self.structure is not None and not self.structure.found:
            numbers = "1 cluster" if self.suggestion == 1 else f"{self.suggestion} clusters"
            return (
                f"{numbers}: no cluster structure found. The best number separates neighbours with "
                f"a score of {self.structure.separation:.2f}, and data without clusters reach "
                f"{self.structure.null:.2f}."
            )
        if self.confidence >= 0.8:
            trust = "runs with other anchors agree on it"
        elif self.confidence >= 0.4:
            trust = "not all runs with other anchors agree on it; look at the next best"
        else:
            trust = "little more than a guess: these data have no clear number of clusters"
        text = f"{self.suggestion} clusters, confidence {self.confidence:.2f}: {trust}."
        if self.suggestion == max(self.candidates):
            text += " It is the largest number tried; try larger ones."
        return text


def n_clusters(
    X: ViewsLike,
    candidates: Iterable[int] | None = None,
    *,
    views: ColumnsLike | None = None,
    present: PresentLike | None = None,
    scale: Scale = "auto",
    weighting: Weighting = "distinct",
    n_runs: int = 5,
    max_samples: int = 3000,
    random_state: Seed = 0,
) -> ClusterNumber:
    """Suggest a number of clusters, without labels.

    Several runs with other anchors are joined for every candidate, as by `Consensus`. A good
    number puts neighbours into the same cluster far more often than chance would (modularity), and
    does so whatever the anchors are (stability). Clusters that lie apart are counted right; where
    classes overlap, or fall into parts, their number is not in the data, and the confidence is low.

    Parameters
    ----------
    X : as in `OMCAL.fit`
        The views.
    candidates : iterable of int, optional
        Numbers to try, from 2 on. By default 2 to 30, but none above the root of the number of
        samples.
    views : as in `OMCAL`
        Which columns of one table form which view.
    present : as in `OMCAL.fit`
        Samples that are absent from a view are not looked at.
    scale, weighting : as in `OMCAL`
        How the views are scaled, and how they count.
    n_runs : int, default=5
        Runs of each candidate, at least 2.
    max_samples : int, default=3000
        Of more samples a random choice is used.
    random_state : int, RandomState or None, default=0
        Seed of the choice of samples, and of the fits.

    Returns
    -------
    ClusterNumber
        The suggestion, how far to trust it, and the curves that it rests on.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(200, n_clusters=4, noise=0.3, random_state=0)
    >>> n_clusters(data.views, range(2, 8)).suggestion
    4
    """
    numbers = None if candidates is None else _checked(candidates)
    if not isinstance(n_runs, int | np.integer) or n_runs < 2:
        raise ValueError(f"n_runs={n_runs!r} must be an integer of at least 2.")
    rng = check_random_state(random_state)
    everything = read_views(OMCAL(views=views), X, min_samples=2, present=present, home="host")
    if numbers is None:
        numbers = list(range(2, max(2, min(30, int(everything.n**0.5))) + 1))
    sample = sampled_rows(everything, max_samples, rng, "n_clusters")
    if sample.n < _FEWEST:
        raise ValueError(f"{sample.n} samples are in every view; it takes at least {_FEWEST}.")
    if sample.n <= 2 * numbers[-1]:
        raise ValueError(
            f"candidates go up to {numbers[-1]}, which is too many for {sample.n} samples; try "
            f"numbers below {sample.n // 2}."
        )
    seed = int(rng.randint(2**31 - 1))
    with one_blas_thread(), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what a fit would warn of, the curves show
        scaled = [turned(Scaling.fit(view, scale).apply(view.rows(slice(None)))) for view in sample]
        work = Parallel(n_jobs=thread_count(), prefer="threads")
        # The largest numbers take longest, and are not to be waited for at the end.
        models = work(
            delayed(_joined)(scaled, c, weighting, n_runs, seed) for c in reversed(numbers)
        )[::-1]
        near = nearest(scaled, numbers[0])
    found = _suggestion(numbers, models, near)
    return _tested(found, scaled, models, one_is_possible=candidates is None)


def _tested(
    found: ClusterNumber, scaled: list[Matrix], models: list[Consensus], *, one_is_possible: bool
) -> ClusterNumber:
    """Test the labels of the suggested number against data without clusters."""
    labels = models[found.candidates.index(found.suggestion)].labels_
    count = sample_size(len(labels), found.suggestion)
    some = complete_sample(len(labels), None, count)
    structure = find_structure([X[some] for X in scaled], labels[some])
    if structure is None or structure.found or not one_is_possible:
        return replace(found, structure=structure)
    ranking = (1, *found.ranking)
    return replace(found, structure=structure, suggestion=1, confidence=0.0, ranking=ranking)


def _checked(candidates: Iterable[int]) -> list[int]:
    numbers = sorted(set(candidates))
    if not numbers or not all(isinstance(c, int | np.integer) and c >= 2 for c in numbers):
        raise ValueError(f"candidates={candidates!r} must be integers of at least 2.")
    return [int(c) for c in numbers]


def turned(X: Matrix) -> Matrix:
    """Long sparse rows with fewer features, all distances kept, where fits then take less time.

    Anchors are means of samples, so that every fit to these is the fit to X. Fits to wide dense
    views work with inner products as they are.

    Examples
    --------
    >>> X = sparse.csr_array([[3.0, 0, 0, 0], [0, 0, 0, 4.0]])
    >>> turned(X).shape, round(float(np.linalg.norm(np.subtract(*turned(X)))), 6)
    ((2, 2), 5.0)
    """
    n = X.shape[0]
    if not sparse.issparse(X) or _SCATTERED * X.nnz <= n * n or n > _TURNED:
        return X
    wide = X.astype(np.float64, copy=False)
    values, vectors = np.linalg.eigh((wide @ wide.T).toarray())
    told = values > values[-1] * n * np.finfo(np.float64).eps
    told[-1] = True  # also of a view that is 0 everywhere
    return np.asarray(vectors[:, told] * np.sqrt(np.maximum(values[told], 0)))


def _joined(scaled: list[Matrix], c: int, weighting: Any, n_runs: int, seed: int) -> Consensus:
    inner = OMCAL(c, scale=None, weighting=weighting)
    model = Consensus(inner, n_runs=n_runs, random_state=seed)
    if model._fit(inner, scaled, None, described=False):
        raise KeyboardInterrupt
    return model


def _suggestion(numbers: list[int], models: list[Consensus], near: Array) -> ClusterNumber:
    """What the joined runs of each number say, by the nearest of each sample in each view."""
    joint = [model.labels_ for model in models]
    modularity = curve_of(near, numbers, joint)
    stability = np.maximum([model.stability_ for model in models], 0)
    shares = [
        shares_of(first(near, few(near, c)), some) for c, some in zip(numbers, joint, strict=True)
    ]
    best, agreed = best_of(modularity, stability, *np.transpose(shares))
    runs = zip(*([run.labels for run in model.runs_] for model in models), strict=True)
    of_runs = np.array([curve_of(near, numbers, list(labels)) for labels in runs])
    sure = 1.0 if agreed else np.mean(of_runs.argmax(axis=1) == best)
    others = np.argsort(-modularity - of_runs.mean(axis=0), kind="stable")
    return ClusterNumber(
        suggestion=numbers[best],
        confidence=float(sure * stability[best]),
        ranking=tuple(numbers[i] for i in (best, *others[others != best])),
        candidates=tuple(numbers),
        modularity=tuple(modularity.tolist()),
        stability=tuple(stability.tolist()),
        n_samples=near.shape[0],
        n_runs=len(of_runs),
    )


def best_of(
    modularity: Floats, stability: Floats, inside: Floats, by_chance: Floats
) -> tuple[int, bool]:
    """Which number is suggested, and whether that is because the runs agree on its clusters."""
    plain = inside - by_chance
    agreed = (plain >= _RIVAL * plain.max()) | (inside >= 1 - _CROSSING)
    agreed &= stability >= _AGREED
    if not agreed.any():
        return int(modularity.argmax()), False
    agreed &= stability >= stability[agreed].max() - _SAME
    return int(np.where(agreed, modularity, -np.inf).argmax()), True


def nearest(scaled: list[Matrix], smallest: int) -> Array:
    """The neighbours of each sample in each view, nearest first, as many as are ever looked at."""
    n = scaled[0].shape[0]
    most = _FEW * n**0.5 * max(1, _SQUARE / (smallest * (smallest + 1)))
    found = NearestNeighbors(n_neighbors=min(max(1, round(most)), n // 2))
    return np.stack([found.fit(X).kneighbors(return_distance=False) for X in scaled], axis=1)


def first(near: Array, k: float) -> Array:
    """The first k neighbours of each sample, of all views in a row."""
    return near[:, :, : max(1, round(k))].reshape(len(near), -1)


def few(near: Array, c: int) -> float:
    """Neighbours to look at: most would be strangers if they were more than a cluster has."""
    n = len(near)
    return float(min(_FEW * n**0.5, n / (2 * c)))


def curve_of(near: Array, numbers: list[int], labels: list[Array]) -> Floats:
    """Modularity of the largest number, and what is lost by each step to a smaller one.

    Each step is taken over as many neighbours as suit both numbers.
    """
    curve = [modularity_of(first(near, few(near, numbers[-1])), labels[-1])]
    for i in reversed(range(len(numbers) - 1)):
        pair = numbers[i : i + 2]
        more = max(1, _SQUARE / (pair[0] * pair[1]))
        lower, upper = (
            modularity_of(first(near, more * few(near, c)), labels[j])
            for j, c in enumerate(pair, start=i)
        )
        curve.append(curve[-1] + lower - upper)
    return np.array(curve[::-1])


def modularity_of(near: Array, labels: Array) -> float:
    """The share of the ties to neighbours inside clusters, less what ties at random have there.

    Examples
    --------
    >>> two_pairs = np.array([[1], [0], [3], [2]])
    >>> modularity_of(two_pairs, np.array([0, 0, 1, 1]))
    0.5
    >>> modularity_of(two_pairs, np.array([0, 1, 0, 1]))
    -0.5
    """
    inside, by_chance = shares_of(near, labels)
    return inside - by_chance


def shares_of(near: Array, labels: Array) -> tuple[float, float]:
    """The share of the ties to neighbours inside clusters, and what ties at random have there."""
    others = labels[near]
    ends = near.shape[1] * np.bincount(labels)
    ends += np.bincount(others.ravel(), minlength=len(ends))
    by_chance = np.square(ends / (2 * near.size)).sum()
    return float(np.mean(others == labels[:, None])), float(by_chance)
