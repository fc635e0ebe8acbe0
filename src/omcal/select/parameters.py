"""Choose parameters without labels, by the stability and separation of the clusters."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Mapping, Sequence, Sized
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.stats import rankdata
from sklearn.metrics import silhouette_score
from sklearn.utils import check_random_state

from omcal.machine.arrays import Array, Mask, Seed
from omcal.machine.declaring import require_integer
from omcal.method.scaling import Scaling
from omcal.metrics import ari
from omcal.model.estimators import OMCAL
from omcal.model.subset_fits import explained_shares, require_two
from omcal.views.adapt import NamedViews
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.present import check_present
from omcal.views.reading import read_views
from omcal.views.view import Views

_SILHOUETTE_SAMPLES = 2000
_Fit = tuple[Array, int]  # a part of the samples, and a seed


@dataclass(frozen=True)
class Trial:
    """One setting and its scores, computed without labels.

    Attributes
    ----------
    parameters : dict
        Parameters that were tried, by name.
    stability : float
        Mean adjusted Rand index of fits with different seeds to different parts of the samples,
        compared on the samples they share.
    silhouette : float
        Mean silhouette of the clusters in the scaled features, of samples that are in every view.
    clusters_found : float
        Mean number of clusters that are not empty.
    explained : dict
        View -> share of the variance of its graph that lies between the clusters, of samples that
        are in every view.
    error : str
        Reason why the setting could not be fitted; empty if it was.
    rank : int
        1 is the best of a search.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> from omcal.select import tune_without_labels
    >>> data = make_multiview(150, n_clusters=3, random_state=0)
    >>> best = tune_without_labels(data.views, 3, {"scale": ["auto", None]}, n_fits=2)[0]
    >>> best.rank, list(best.parameters), list(best.explained) == list(data.views)
    (1, ['scale'], True)
    """

    parameters: dict[str, Any]
    stability: float
    silhouette: float
    clusters_found: float
    explained: dict[str, float] = field(default_factory=dict)
    error: str = ""
    rank: int = 0

    @property
    def in_views(self) -> float:
        """Return the mean of `explained`; NaN if it is empty."""
        return float(np.mean(list(self.explained.values()))) if self.explained else float("nan")


def tune_without_labels(
    X: ViewsLike,
    n_clusters: int,
    grid: Mapping[str, Sequence[object]],
    *,
    present: PresentLike | None = None,
    n_fits: int = 4,
    fraction: float = 0.8,
    max_samples: int = 5000,
    random_state: Seed = 0,
    progress: Callable[[Trial], None] = lambda trial: None,
    **fixed: Any,
) -> list[Trial]:
    """Try every combination in `grid` and rank them without labels.

    Each setting is fitted `n_fits` times, each time with another seed to another random part of the
    samples. Settings are ordered by the mean of three ranks: stability of the clusters over these
    fits, share of the graphs of the views that the clusters explain, and silhouette. Settings with
    empty clusters come last. `omcal.plots.settings` draws the result.

    The paper chose its parameters with the labels; this function has no labels. No score is a
    guarantee: a stable clustering may still not be the one you want.

    Parameters
    ----------
    X : as in `OMCAL.fit`
        The views.
    n_clusters : int
        Number of clusters.
    grid : mapping
        Parameter of OMCAL -> values to try.
    present : as in `OMCAL.fit`, optional
        Samples that are absent from a view are fitted as in `OMCAL`; the share of the graphs and
        the silhouette use the samples that are in every view.
    n_fits : int, default=4
        At least 2.
    fraction : float, default=0.8
        Part of the samples in each fit.
    max_samples : int, default=5000
        Of more samples a random choice is used.
    random_state : int, RandomState or None, default=0
        Seed of the parts of the samples and of the fits.
    progress : callable, optional
        Called with each finished trial, which has no rank yet.
    **fixed
        Other parameters of OMCAL.

    Returns
    -------
    list of Trial
        The best first.

    Examples
    --------
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(150, n_clusters=3, random_state=0)
    >>> trials = tune_without_labels(data.views, 3, {"gamma": [0.1, 1e5]}, n_fits=2)
    >>> [trial.rank for trial in trials]
    [1, 2]
    """
    require_integer("n_fits", n_fits, 2)  # stability compares fits
    if not 0 < fraction <= 1:
        raise ValueError(f"fraction={fraction} must be above 0 and at most 1.")
    require_integer("n_clusters", n_clusters, 1)
    require_integer("max_samples", 2 if max_samples is None else max_samples, 2)
    for name, tried in grid.items():
        if isinstance(tried, str) or not (isinstance(tried, Sized) and len(tried)):
            raise ValueError(f"grid[{name!r}]={tried!r} must be a list of values to try.")
    rng = check_random_state(random_state)
    probe = OMCAL(n_clusters, **fixed)
    views = read_views(probe, X, min_samples=2, present=present, home="memory")
    fixed.pop("views", None)
    check_present(views.present)
    kept = np.sort(rng.permutation(views.n)[:max_samples])
    sample = _Sample(views, kept)
    size = max(2, round(fraction * len(kept)))
    parts = [np.sort(rng.permutation(len(kept))[:size]) for _ in range(n_fits)]
    fits = list(zip(parts, rng.randint(2**31, size=n_fits).tolist(), strict=True))
    trials = []
    for values in itertools.product(*grid.values()):
        parameters = dict(zip(grid, values, strict=True))
        model = OMCAL(n_clusters, **{**fixed, **parameters})
        trials.append(_trial(model, parameters, sample, fits))
        progress(trials[-1])
    return _ranked(trials, n_clusters)


class _Sample:
    """Samples that all settings are fitted to."""

    def __init__(self, views: Views, rows: Array) -> None:
        masks = {view.name: view.present for view in views if view.present is not None}
        self.views = NamedViews({view.name: view.array for view in views}, present=masks)[rows]
        everyone = np.ones(views.n, dtype=bool)
        self.complete: Mask = np.logical_and.reduce([everyone, *masks.values()])[rows]
        require_two(int(self.complete.sum()), "tune_without_labels")
        # All views side by side, each of total variance 1: the same space for every setting.
        blocks = [Scaling.fit(view, "auto").apply(view.rows(rows)) for view in views]
        sparsely = any(sparse.issparse(block) for block in blocks)
        self.space = sparse.hstack(blocks, format="csr") if sparsely else np.hstack(blocks)


def _trial(model: OMCAL, parameters: dict[str, Any], sample: _Sample, fits: list[_Fit]) -> Trial:
    """Return the scores of a model that is fitted to each part of the samples."""
    labels, shares = [], []
    for part, seed in fits:
        model.set_params(random_state=seed)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                model.fit(sample.views[part])
        except ValueError as error:
            return Trial(parameters, float("nan"), float("nan"), 0.0, error=str(error))
        whole = np.full(len(sample.complete), -1)
        whole[part] = model.labels_
        labels.append(whole)
        some = np.flatnonzero(sample.complete[part])
        if model._graphs is not None and len(some):
            shares.append(explained_shares(model._graphs[some], model.labels_[some]))
    return Trial(
        parameters,
        float(np.mean([_agreement(a, b) for a, b in itertools.combinations(labels, 2)])),
        float(np.mean([_silhouette(sample, whole) for whole in labels])),
        float(np.mean([len(np.unique(whole[whole >= 0])) for whole in labels])),
        dict(zip(sample.views, np.mean(shares, axis=0).tolist(), strict=True)) if shares else {},
    )


def _agreement(a: Array, b: Array) -> float:
    """Return the adjusted Rand index over the samples that have both labels."""
    shared = (a >= 0) & (b >= 0)
    return ari(a[shared], b[shared])


def _silhouette(sample: _Sample, labels: Array) -> float:
    """Return the mean silhouette of some labelled samples; −1 where it is not defined."""
    some = np.flatnonzero((labels >= 0) & sample.complete)
    some = some[:: max(1, -(-len(some) // _SILHOUETTE_SAMPLES))]
    if not 1 < len(np.unique(labels[some])) < len(some):
        return -1.0
    return float(silhouette_score(sample.space[some], labels[some]))


def _ranked(trials: list[Trial], n_clusters: int) -> list[Trial]:
    """Return the trials in order; those that failed or left clusters empty come last."""
    scores = np.array([[t.stability, t.in_views, t.silhouette] for t in trials])
    failed = np.isnan(scores[:, 0])
    ranks = rankdata(-np.where(np.isnan(scores), -2, scores), axis=0).sum(axis=1)
    empty = np.array([trial.clusters_found < n_clusters for trial in trials])
    order = np.lexsort((ranks, empty, failed))
    return [replace(trials[i], rank=place) for place, i in enumerate(order, start=1)]
