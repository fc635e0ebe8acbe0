"""The number of clusters: several runs per candidate, scored without labels."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.neighbors import NearestNeighbors
from sklearn.utils import check_random_state

from omcal.machine.arrays import Array, Floats, Mask, Seed
from omcal.machine.declaring import require_integer
from omcal.machine.threads import one_blas_thread
from omcal.method.scaling import Scale, Scaling
from omcal.model.estimators import OMCAL
from omcal.model.structure import few_directions, find_structure, gaussian_like, sample_size
from omcal.model.subset_fits import numbered_sample
from omcal.places.data_scan import complete_sample
from omcal.select.levels import Level, Progress, Runs, agreements, bands, fit_levels
from omcal.select.suggestion import ClusterNumber
from omcal.views.like import ColumnsLike, PresentLike, ViewsLike
from omcal.views.missing import fill_missing
from omcal.views.reading import read_views
from omcal.views.view import Matrix, View, Views

if TYPE_CHECKING:
    from omcal.model.parameters import Weighting

_FEWEST = 6  # samples; with fewer there are too few anchors for the neighbours of a fit
_NULL_DRAWS, _NULL_RUNS = 2, 2
_TEST_RUNS, _TEST_DRAWS = 6, 10  # at the best number, where neighbours are not separated
_NEIGHBOURS = 10  # per view
_SMALL = 12  # all numbers up to it are tried
_STEP = 1.2  # from one candidate to the next
# After this many far numbers with a score this far below the largest, no further one is tried.
_FALLEN = 3, 0.3
_FINE, _ROUNDS = 6, 2  # further candidates around the best per round, and rounds
_LEAST_ROOM = 0.05  # for stability above chance
# Far numbers (above the first limit and above √n) are suggested only if single runs suggest the
# same number, within this share.
_FAR, _FAR_SHARE = 30, 0.25
# Odds that the number is right within one: this factor × its lead over other numbers / its
# instability. Fitted to synthetic problems (docs/n_clusters_study.md).
_ODDS, _LEAST_INSTABILITY = 2.5, 0.01


def n_clusters(
    X: ViewsLike,
    candidates: Iterable[int] | None = None,
    *,
    views: ColumnsLike | None = None,
    present: PresentLike | None = None,
    scale: Scale = "auto",
    weighting: Weighting = "distinct",
    n_runs: int = 4,
    max_samples: int = 2000,
    random_state: Seed = 0,
    progress: Progress = lambda text: None,
) -> ClusterNumber:
    """Suggest a number of clusters, without labels.

    With a good number, neighbours share a cluster far more often than by chance (modularity), and
    runs with other anchors agree (stability), more than on data without clusters. Separated
    clusters are counted correctly. If classes overlap or consist of several groups, their number is
    not in the data, and the confidence is low.

    Parameters
    ----------
    X : as in `OMCAL.fit`
        The views.
    candidates : iterable of int, optional
        Numbers to try, from 2 on. By default 1 to a quarter of the samples: coarse steps first,
        then finer steps around the best number.
    views : as in `OMCAL`
        Which columns of one table form which view.
    present : as in `OMCAL.fit`
        Samples that are absent from a view are not used.
    scale, weighting : as in `OMCAL`
        How the views are scaled, and how they are weighted.
    n_runs : int, default=4
        Number of runs per candidate, at least 2.
    max_samples : int, default=2000
        Of more samples a random choice is used.
    random_state : int, RandomState or None, default=0
        Seed of the choice of samples, and of the runs.
    progress : callable, optional
        Called with a line of text after each step, which estimates the time left.

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
    numbers = None if candidates is None else check_numbers("candidates", candidates)
    require_integer("n_runs", n_runs, 2)
    rng = check_random_state(random_state)
    _, _, sample = whole_sample(X, views, present, max_samples, rng, "n_clusters")
    n = sample.n
    if n < _FEWEST:
        raise ValueError(f"{n} samples are in every view; at least {_FEWEST} are needed.")
    if numbers is not None and n <= 2 * numbers[-1]:
        raise ValueError(
            f"candidates go up to {numbers[-1]}, which is too many for {n} samples; try "
            f"numbers below {n // 2}."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the curves show what a fit would warn of
        scaled = [Scaling.fit(view, scale).apply(view.rows(slice(None))) for view in sample]
        points = [few_directions(A) for A in scaled]
        search = _Search(points, weighting, n_runs, rng, progress, categories(sample, points))
        search.add(coarse_numbers(n) if numbers is None else numbers, may_stop=numbers is None)
        for _ in range(_ROUNDS if numbers is None else 0):
            search.add(finer_numbers(search.numbers, search.best))
        return _tested(search, scaled, one_is_possible=numbers is None)


def check_numbers(name: str, given: Iterable[int]) -> list[int]:
    """Return numbers of clusters in ascending order; raise if one is below 2."""
    numbers = sorted(set(given)) if isinstance(given, Iterable) else []
    if not numbers or not all(isinstance(c, int | np.integer) and c >= 2 for c in numbers):
        raise ValueError(f"{name}={given!r} must be a list of integers of at least 2.")
    return [int(c) for c in numbers]


def whole_sample(
    X: ViewsLike,
    views: ColumnsLike | None,
    present: PresentLike | None,
    most: int,
    rng: np.random.RandomState,
    asked_by: str,
) -> tuple[int, Array, Views]:
    """Return the number of samples, and up to `most` that are in every view with their numbers."""
    estimator = OMCAL(views=views)
    everything = read_views(estimator, X, min_samples=2, present=present, home="host")
    rows, sample = numbered_sample(everything, most, rng, asked_by)
    return everything.n, rows, fill_missing(estimator, sample, reset=True, total=np.asarray)


def coarse_numbers(n: int) -> list[int]:
    """Return the first candidates: all small numbers, then steps of a fifth, to n / 4."""
    most = max(2, n // 4)
    steps = np.arange(1, 1 + np.log(max(most / _SMALL, 1)) / np.log(_STEP))
    larger = [round(_SMALL * _STEP**step) for step in steps]
    return sorted({c for c in (*range(2, _SMALL + 1), *larger, most) if c <= most})


def finer_numbers(numbers: list[int], best: int) -> list[int]:
    """Return further candidates between the neighbours of the best one, given by its position."""
    ends = numbers[max(best - 1, 0)], numbers[min(best + 1, len(numbers) - 1)]
    between = np.linspace(*ends, min(ends[1] - ends[0] + 1, _FINE + 3)).round().astype(int)
    return sorted(set(between.tolist()) - set(numbers))


def categories(views: Iterable[View], points: Sequence[Array]) -> list[Array]:
    """Return the columns of each category in the views side by side; wide views have none."""
    found, end = [], 0
    for view, X in zip(views, points, strict=True):
        start, end = end, end + X.shape[1]
        if view.levels_from is not None and view.columns is not None and X.shape[1] == view.width:
            titles = np.array([title.split(" = ")[0] for title in view.columns])
            titles[: view.levels_from] = ""
            found += [start + np.flatnonzero(titles == one) for one in sorted(set(titles) - {""})]
    return found


class _Search:
    """The candidates that were tried, and their scores."""

    def __init__(
        self,
        points: list[Array],
        weighting: Any,
        n_runs: int,
        rng: np.random.RandomState,
        progress: Progress,
        categories: Sequence[Array] = (),
    ) -> None:
        self._categories = categories
        self._progress, self.n_runs = progress, n_runs
        self.levels: dict[int, Level] = {}
        self._modularity: dict[int, Floats] = {}  # of all runs combined, then of each
        self._chance: dict[int, float] = {}
        self._points, self._weighting, self._rng = points, weighting, rng
        self._runs = self._runs_on(points, n_runs)
        self._null = self._without_clusters(_NULL_DRAWS)
        self._near = nearest(points)

    def _runs_on(self, points: list[Array], count: int) -> Runs:
        return Runs(points, self._rng.randint(2**31 - 1, size=count).tolist(), self._weighting)

    def _without_clusters(self, count: int) -> list[Runs]:
        """Return runs on sets that are drawn from the null."""
        draws = np.random.default_rng(self._rng.randint(2**31 - 1))
        drawn = (null_like(self._points, draws, self._categories) for _ in range(count))
        return [self._runs_on(points, _NULL_RUNS) for points in drawn]

    def add(self, numbers: list[int], *, may_stop: bool = False) -> None:
        """Fit further candidates in ascending order; stop when the score has fallen far."""
        null = [] if self._chance else self._null
        for levels, chance in fit_levels(self._runs, numbers, self._progress, null):
            self.levels |= levels
            self._chance |= chance
            for c, level in levels.items():
                listed = (level.labels, *level.runs)
                self._modularity[c] = np.array([modularity(self._near, one) for one in listed])
            self._draw_curves()
            score, last = self.score, slice(-_FALLEN[0], None)
            fallen = self.far[last] & (score[last] < score.max() - _FALLEN[1])
            if may_stop and fallen.all():
                break

    def _draw_curves(self) -> None:
        """Set the curves over all numbers that were tried, in ascending order."""
        self.numbers = sorted(self.levels)
        self.modularity: Floats = np.array([self._modularity[c][0] for c in self.numbers])
        self.stability: Floats = np.array([self.levels[c].stability for c in self.numbers])
        known, values = zip(*sorted(self._chance.items()), strict=True)
        self.chance: Floats = np.interp(np.log(self.numbers), np.log(known), values)
        self.score = scores(self.modularity, self.stability, self.chance)
        # Unusually large for the number of samples.
        self.far: Mask = np.array(self.numbers) > max(_FAR, self._runs.n**0.5)

    @property
    def best(self) -> int:
        """Return the position of the best candidate; single runs must agree on a far one."""
        score, far, numbers = self.score, self.far, self.numbers
        best = int(score.argmax())
        if far[best] and not far.all():
            of_runs = np.array([self._modularity[c][1:].mean() for c in numbers])
            single = numbers[int(scores(of_runs, self.stability, self.chance).argmax())]
            if abs(single - numbers[best]) > _FAR_SHARE * numbers[best]:
                best = int(np.where(far, -np.inf, score).argmax())
        return best

    def exceeds_chance(self, number: int) -> bool:
        """Whether further runs agree more on the data than on any of several sets of the null.

        The runs that led to the number would be biased.
        """
        tested = [self._runs_on(self._points, _TEST_RUNS), *self._without_clusters(_TEST_DRAWS)]
        band = next(band for band in bands(self.numbers) if number in band)
        with one_blas_thread():
            labels = [
                [one.fit(band, seed, [number])[0].labels for seed in one.seeds] for one in tested
            ]
        own, *drawn = (float(np.mean(agreements(runs))) for runs in labels)
        return own > max(drawn)

    def confidence(self, best: int) -> float:
        """Return the estimated probability that the number is right within one.

        The odds grow with the lead of its score over those of other numbers, and with its
        stability beyond chance.
        """
        numbers, score = np.array(self.numbers), self.score
        others = np.abs(numbers - numbers[best]) > 1
        lead = score[best] - score[others].max(initial=0.0)
        instability = 1 - beyond_chance(self.stability, self.chance)[best]
        odds = _ODDS * max(0.0, lead) / max(instability, _LEAST_INSTABILITY)
        return float(odds / (1 + odds))


def beyond_chance(stability: Floats, chance: Floats) -> Floats:
    """Return the share of the room above chance that the stability fills."""
    return np.asarray((stability - chance) / np.maximum(1 - chance, _LEAST_ROOM))


def scores(modularity: Floats, stability: Floats, chance: Floats) -> Floats:
    """Return relative modularity plus the stability beyond chance."""
    relative = modularity / max(float(modularity.max()), 1e-12)
    return np.asarray(relative + beyond_chance(stability, chance))


def null_like(
    points: Sequence[Array], rng: np.random.Generator, categories: Sequence[Array] = ()
) -> list[Array]:
    """Draw views without clusters: one Gaussian with the covariance of all views together.

    Samples keep the levels of categories, each category in a random order: equal levels of several
    categories form clusters even in data without groups.
    """
    table = np.hstack(points)
    drawn = gaussian_like(table, rng)
    for columns in categories:
        drawn[:, columns] = table[rng.permutation(len(table))][:, columns]
    ends = np.cumsum([X.shape[1] for X in points])[:-1]
    return [np.ascontiguousarray(X) for X in np.split(drawn, ends, axis=1)]


def nearest(points: Sequence[Array]) -> Array:
    """Return the nearest neighbours of each sample in each view, all views in a row."""
    n = len(points[0])
    found = NearestNeighbors(n_neighbors=min(_NEIGHBOURS, n // 2))
    return np.hstack([found.fit(X).kneighbors(return_distance=False) for X in points])


def modularity(near: Array, labels: Array) -> float:
    """Return the share of ties to neighbours inside clusters, less that of random ties."""
    others = labels[near]
    ends = near.shape[1] * np.bincount(labels)
    ends = ends + np.bincount(others.ravel(), minlength=len(ends))
    by_chance = np.square(ends / (2 * near.size)).sum()
    return float(np.mean(others == labels[:, None]) - by_chance)


def _tested(search: _Search, scaled: list[Matrix], *, one_is_possible: bool) -> ClusterNumber:
    """Return the result, its best number tested against data without clusters."""
    numbers, score, best = search.numbers, search.score, search.best
    labels = search.levels[numbers[best]].labels
    some = complete_sample(len(labels), None, sample_size(numbers[best]))
    structure = find_structure([X[some] for X in scaled], labels[some])
    separated = structure is None or structure.found
    has_structure = separated or search.exceeds_chance(numbers[best])
    ranking = [numbers[best], *(numbers[i] for i in np.argsort(-score, kind="stable") if i != best)]
    if one_is_possible and not has_structure:
        ranking.insert(0, 1)
    return ClusterNumber(
        suggestion=ranking[0],
        confidence=0.0 if ranking[0] == 1 else search.confidence(best),
        ranking=tuple(ranking),
        candidates=tuple(numbers),
        modularity=tuple(search.modularity.tolist()),
        stability=tuple(search.stability.tolist()),
        chance=tuple(search.chance.tolist()),
        score=tuple(score.tolist()),
        n_samples=len(labels),
        n_runs=search.n_runs,
        structure=structure,
        has_structure=has_structure,
    )
