"""How many clusters there are: curves without labels from one set of anchor graphs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances
from sklearn.utils import check_random_state

from omcal.machine.arrays import Array, Floats, Seed
from omcal.machine.threads import one_blas_thread
from omcal.method.anchors import choose_anchors
from omcal.method.graph import AnchorGraphs, anchor_weights, nearest_columns
from omcal.method.scaling import Scale, Scaling
from omcal.method.solver import Problem
from omcal.method.updates import mix, stacked
from omcal.metrics import ari
from omcal.model.estimators import OMCAL
from omcal.model.small_fits import GraphFit, fit_graphs, sampled_rows
from omcal.places.memory import MemoryRows
from omcal.views.like import ColumnsLike, PresentLike, ViewsLike
from omcal.views.reading import validate_views
from omcal.views.view import View, Views

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# With fewer anchors to a cluster than neighbours to a sample, graphs would tie clusters together:
# even one of half the mean size is to have three.
ANCHORS_A_CLUSTER = 6  # of the largest number
_LEAST_ANCHORS, _MOST_ANCHORS = 40, 250  # with more, the fits take long
_SAMPLES_AN_ANCHOR = 3  # with fewer, anchors are little more than samples, and hang together less
_ROUNDING = 16 * np.finfo(np.float64).eps  # of distances that are equal
_SOFT = 0.05  # differences between eigenvalues this near to 1 mean little
_MAX_ITER = 5  # from a spectral start; the curves hardly change later
_TOL = 1e-4
_VOTES = 10  # halves of the samples that are asked for a number


@dataclass(frozen=True)
class ClusterNumber:
    """Curves over the number of clusters, and a suggestion; `print` it, or `plot` it.

    Attributes
    ----------
    suggestion : int
        The candidate with the largest `score`.
    confidence : float
        0 to 1: the share of the resamples whose own gaps give the same suggestion, times the
        stability of its clusters.
    candidates : tuple of int
        The numbers that were tried.
    gap : tuple of float
        log((1 − λ_{c+1} + ε) / (1 − λ_c + ε)), where λ_1 = 1 ≥ λ_2 … are the eigenvalues of the
        normalised mean graph and ε = 0.05: large where c groups hang together and c + 1 do not.
    stability : tuple of float
        Mean adjusted Rand index of the clusterings that halves of the samples give.
    objective : tuple of float or None
        Eq. 10 after a short fit; it falls with c, and an elbow is a hint. None where there is
        none, because beta leaves nothing of the graphs.
    score : tuple of float
        gap × stability.
    eigenvalues : tuple of float
        λ_1 to one more than the largest candidate.
    n_samples, n_anchors, n_resamples : int
        What this rests on.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import n_clusters
    >>> data = make_multiview(200, n_clusters=4, noise=0.3, random_state=0)
    >>> found = n_clusters(data.views, range(2, 8))
    >>> found.suggestion, found.candidates[0], len(found.gap)
    (4, 2, 6)
    >>> print(found.sentence())
    4 clusters, confidence 1.00: halves of the samples agree on it.
    """

    suggestion: int
    confidence: float
    candidates: tuple[int, ...]
    gap: tuple[float, ...]
    stability: tuple[float, ...]
    objective: tuple[float | None, ...]
    score: tuple[float, ...]
    eigenvalues: tuple[float, ...]
    n_samples: int
    n_anchors: int
    n_resamples: int

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
        order = np.argsort(self.score)[::-1][:5]
        lines = [self.sentence(), "", "clusters  gap    stability  objective"]
        lines += [
            f"{self.candidates[i]:<8}  {self.gap[i]:.3f}  {self.stability[i]:<9.3f}  "
            + ("none" if (value := self.objective[i]) is None else f"{value:.6g}")
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
        if self.confidence >= 0.8:
            trust = "halves of the samples agree on it"
        elif self.confidence >= 0.4:
            trust = "not all halves of the samples agree on it; look at the next best"
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
    n_neighbors: int = 3,
    n_resamples: int = 4,
    max_samples: int = 1500,
    random_state: Seed = 0,
) -> ClusterNumber:
    """Suggest a number of clusters, without labels.

    One set of anchor graphs, with anchors enough for the largest candidate, gives all curves:
    the gaps between the eigenvalues of the mean graph, how well clusterings of halves of the
    samples agree, and the objective. Clusters that lie apart are counted right; where classes
    overlap, or fall into parts, their number is not in the data, and the confidence is low.

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
    scale : as in `OMCAL`, default="auto"
        How the views are scaled.
    n_neighbors : int, default=3
        Anchors a sample is tied to: fewer than in a fit, so that clusters of few anchors count.
    n_resamples : int, default=4
        Halves of the samples that are clustered, at least 2.
    max_samples : int, default=1500
        Of more samples a random choice is used.
    random_state : int, RandomState or None, default=0
        Seed of the choice of samples, the anchors and the halves.

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
    if not isinstance(n_resamples, int | np.integer) or n_resamples < 2:
        raise ValueError(f"n_resamples={n_resamples!r} must be an integer of at least 2.")
    rng = check_random_state(random_state)
    everything = validate_views(
        OMCAL(), X, views=views, min_samples=2, lazy=True, absent=True, present=present
    )
    if numbers is None:
        numbers = list(range(2, max(2, min(30, int(everything.n**0.5))) + 1))
    sample = sampled_rows(everything, max_samples, rng, "n_clusters")
    if sample.n <= 2 * max(numbers[-1], n_neighbors):
        raise ValueError(
            f"candidates go up to {numbers[-1]}, and n_neighbors={n_neighbors}, which is too many "
            f"for {sample.n} samples; try numbers below {sample.n // 2}."
        )
    graphs = _graphs(sample, numbers[-1], scale, n_neighbors, rng)
    halves = [
        _Half(graphs[np.sort(rng.permutation(graphs.n)[: graphs.n // 2])])
        for _ in range(max(n_resamples, _VOTES))
    ]
    with one_blas_thread():
        return _curves(graphs, halves, numbers, n_resamples, rng)


def _checked(candidates: Iterable[int]) -> list[int]:
    numbers = sorted(set(candidates))
    if not numbers or not all(isinstance(c, int | np.integer) and c >= 2 for c in numbers):
        raise ValueError(f"candidates={candidates!r} must be integers of at least 2.")
    return [int(c) for c in numbers]


def _graphs(
    sample: Views, most: int, scale: Any, k: int, random_state: np.random.RandomState
) -> AnchorGraphs:
    wanted = min(max(ANCHORS_A_CLUSTER * most, _LEAST_ANCHORS), _MOST_ANCHORS)
    m = max(min(wanted, sample.n // _SAMPLES_AN_ANCHOR), most + 1, k + 1)
    scalings = [Scaling.fit(view, scale) for view in sample]
    anchors = choose_anchors(sample, scalings, m, "kmeans", random_state)
    distances = list(map(_distances, sample, scalings, anchors))
    leave_out(distances)
    nearest = [nearest_columns(d, k + 1) for d in distances]
    return AnchorGraphs(
        np.stack([columns[:, :-1] for columns, _ in nearest], axis=1),
        np.stack([anchor_weights(d, _ROUNDING * d[:, -1]) for _, d in nearest], axis=1),
        m,
    )


def _distances(view: View, scaling: Scaling, anchors: Array) -> Floats:
    """Squared distances of all samples to the anchors, in the scaled space."""
    X = scaling.apply(view.rows(slice(None)))
    if not sparse.issparse(X):
        # Distances far from the origin would drown in rounding.
        mean = anchors.mean(axis=0)
        X, anchors = X - mean, anchors - mean
    return np.asarray(euclidean_distances(X, anchors, squared=True))


def leave_out(distances: list[Floats]) -> None:
    """Measure each sample from its own anchor as if the sample had no part in it, in place.

    An anchor is the mean of its samples, which makes it near to them in every view, the more so
    the fewer they are: clusters would seem to fall apart into the samples of each anchor. Without
    x, the mean of s samples is s / (s - 1) times as far from x. What a single sample leaves behind
    is as far as the farthest anchor.
    """
    own = np.sum(distances, axis=0).argmin(axis=1)
    rows = np.arange(len(own))
    size = np.bincount(own)[own]
    stretch = np.square(size / np.maximum(size - 1, 1))
    for d in distances:
        d[rows, own] = np.where(size > 1, stretch * d[rows, own], d.max(axis=1))


class _Half:
    """Graphs, what the solver needs of them, and the spectrum of their mean."""

    def __init__(self, graphs: AnchorGraphs) -> None:
        self.graphs = graphs
        self.StS = MemoryRows(graphs, 1).gram()
        self.alpha = mutual_agreement(self.StS)
        AtA = mix(self.alpha, mix(self.alpha, self.StS))
        degree = AtA.sum(axis=1)
        # An anchor that no sample is tied to has no part in it.
        scale = np.divide(1.0, np.sqrt(degree), out=np.zeros_like(degree), where=degree > 0)
        values, vectors = np.linalg.eigh(scale[:, None] * AtA * scale)
        self.eigenvalues, self.vectors = np.clip(values[::-1], 0, 1), vectors[:, ::-1]

    def gaps(self, numbers: list[int]) -> Floats:
        c = np.array(numbers)
        left = 1 - self.eigenvalues + _SOFT
        return np.asarray(np.log(left[c] / left[c - 1]))

    def fit(self, c: int, random_state: np.random.RandomState) -> GraphFit | None:
        problem = Problem(OMCAL().beta, OMCAL().gamma, "fixed", self.alpha, _MAX_ITER, _TOL)
        return fit_graphs(self.graphs, self._start(c, random_state), problem, self.StS)

    def _start(self, c: int, random_state: np.random.RandomState) -> Floats:
        """Groups of anchors that hang together, as an orthonormal basis."""
        places = self.vectors[:, :c]
        length = np.linalg.norm(places, axis=1, keepdims=True)
        places = places / np.maximum(length, np.finfo(np.float64).tiny)
        with warnings.catch_warnings():  # of fewer places than groups
            warnings.simplefilter("ignore", ConvergenceWarning)
            groups = KMeans(c, n_init=1, random_state=random_state).fit(places).labels_
        members = np.equal.outer(groups, np.arange(c)).astype(np.float64)
        return np.asarray(members / np.sqrt(np.maximum(members.sum(axis=0), 1)))


def mutual_agreement(StS: Floats) -> Floats:
    """Weights of the views by how well their graphs agree with those of the others.

    They are in proportion to the sum of the cosines with the other graphs, less their mean rows: a
    view of noise, which agrees with none, counts little. Rows of S_v sum to 1, so that S_vᵀ1 is
    the row sums of S_vᵀS_v.
    """
    sums = np.einsum("vvij->vi", StS)
    H = np.einsum("uvii->uv", StS) - sums @ sums.T / sums[0].sum()
    size = np.sqrt(np.maximum(np.diag(H), 0))
    norm = np.outer(size, size)
    cosines = np.divide(H, norm, out=np.zeros_like(H), where=norm > 0)
    np.fill_diagonal(cosines, 0)
    agreement = np.maximum(cosines.sum(axis=1), 0)
    total = agreement.sum()
    return agreement / total if total > 0 else np.full(len(StS), 1.0 / len(StS))


def _curves(
    graphs: AnchorGraphs,
    halves: list[_Half],
    numbers: list[int],
    n_resamples: int,
    random_state: np.random.RandomState,
) -> ClusterNumber:
    whole = _Half(graphs)
    S = graphs.side_by_side()
    stability: list[float] = []
    objective: list[float | None] = []
    for c in numbers:
        fit = whole.fit(c, random_state)
        objective.append(None if fit is None else fit.solution.history[-1])
        fits = [half.fit(c, random_state) for half in halves[:n_resamples]]
        labels = [_labels(fit, S) for fit in fits if fit is not None]
        pairs = [ari(a, b) for a, b in combinations(labels, 2)]
        stability.append(float(np.mean(pairs)) if pairs else 0.0)
    gap = whole.gaps(numbers)
    firm = np.maximum(stability, 0)
    best = int(np.argmax(gap * firm))
    votes = [int(np.argmax(half.gaps(numbers) * firm)) == best for half in halves]
    return ClusterNumber(
        suggestion=numbers[best],
        confidence=float(np.mean(votes) * firm[best]),
        candidates=tuple(numbers),
        gap=tuple(gap.tolist()),
        stability=tuple(stability),
        objective=tuple(objective),
        score=tuple((gap * firm).tolist()),
        eigenvalues=tuple(whole.eigenvalues[: numbers[-1] + 1].tolist()),
        n_samples=graphs.n,
        n_anchors=graphs.n_anchors,
        n_resamples=n_resamples,
    )


def _labels(fit: GraphFit, S: Any) -> Array:
    """Labels of all samples by what a half of them gave."""
    Z = fit.solution.consensus
    P, _ = Z.f_step()
    return np.asarray((S @ stacked(Z.alpha, P)).argmax(axis=1))
