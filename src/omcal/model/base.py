"""Methods of every fitted model: predictions, drift, report, explanations, file."""

from __future__ import annotations

import os
import warnings
from abc import ABC, abstractmethod
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from numbers import Integral
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import (
    BaseEstimator,
    ClassNamePrefixFeaturesOutMixin,
    ClusterMixin,
    TransformerMixin,
)
from sklearn.utils.validation import check_is_fitted

from omcal.machine.arrays import Seed, on_host
from omcal.model.certainty import SHARPNESS, probabilities, typicality
from omcal.places.base import OutputKind, Place, require_room
from omcal.views.like import PresentLike, Slices, ViewsLike
from omcal.views.missing import count_missing
from omcal.views.view import MissingValuesError

if TYPE_CHECKING:
    from omcal.method.graph import AnchorGraphs
    from omcal.model.drift import Drift, Reference
    from omcal.model.feature_effects import ClusterDescription
    from omcal.model.stream import StreamSums
    from omcal.model.structure import Structure
    from omcal.model.view_effects import ViewExplanation
    from omcal.report.findings import ReportOptions
    from omcal.select import ClusterNumber


class FittedModel(
    ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, BaseEstimator, ABC
):
    """The methods of fitted models: OMCAL, OCAL and Consensus."""

    _rule: Any  # a Predictor or a ConsensusPredictor
    _graphs: AnchorGraphs | None = None
    structure_: Structure | None = None
    n_clusters: Any
    n_clusters_: int
    random_state: Seed
    selection_: ClusterNumber | None = None
    _cluster_names: list[str] | None = None
    _sharpness: float = SHARPNESS
    outlier_threshold_: float | None = None
    _sums: StreamSums | None = None
    _reference: Reference | None = None

    @classmethod
    @cache
    def _get_param_names(cls) -> list[str]:
        # Cached: reading the signature takes as long as checking the values, per fit and batch.
        names: list[str] = super()._get_param_names()
        return names

    @property
    def cluster_names_(self) -> tuple[str, ...]:
        """Names of the clusters, which can be set; by default their numbers.

        Model files store them; with `like`, clusters that continue named ones keep the names.
        """
        check_is_fitted(self)
        return tuple(self._cluster_names or map(str, range(self.n_clusters_)))

    @cluster_names_.setter
    def cluster_names_(self, names: Sequence[str]) -> None:
        check_is_fitted(self)
        listed, c = [names] if isinstance(names, str) else list(names), self.n_clusters_
        if len({name for name in listed if isinstance(name, str)}) != c or len(listed) != c:
            raise ValueError(f"cluster_names_ must be {c} different texts, not {listed!r:.99}.")
        self._cluster_names = listed

    @abstractmethod
    def _place_of_new(self, X: ViewsLike, present: PresentLike | None, fill: bool = False) -> Place:
        """Return the place of new samples; with `fill` missing cells are filled."""

    def _apply(
        self,
        X: ViewsLike,
        present: PresentLike | None,
        wanted: OutputKind,
        out: Any = None,
        outliers: int = 0,
    ) -> Any:
        """Return labels or indicators of new samples; missing cells are filled if there are any."""

        def place_of_new(fill: bool = False) -> Place:
            place = self._place_of_new(X, present, fill)
            if out is not None:
                require_room(out, place.views.n, (0, self.n_clusters_ - 1, outliers))
            return place

        try:
            place = place_of_new()
            if place.views.home != "cluster":  # on a cluster nothing is read yet
                return place.apply(self._rule, wanted, out)
        except MissingValuesError:
            pass
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # the first reading has raised them
                place = place_of_new(fill=True)
            return place.apply(self._rule, wanted, out)
        except MissingValuesError:  # infinity, since missing cells are filled now
            count_missing(place_of_new().views)
            raise

    @property
    @abstractmethod
    def _described(self) -> Any:
        """The fitted OMCAL or OCAL that descriptions are about; an error if it is not fitted."""

    def predict(
        self,
        X: ViewsLike,
        out: Slices | None = None,
        present: PresentLike | None = None,
        outliers: int | None = None,
    ) -> Any:
        """Return the cluster of each sample of X, which has the views of the fit.

        Parameters
        ----------
        X : as in `fit`
            A view that none of the samples has may be None.
        out : array of shape (n,), optional
            Array to write the labels to, block by block: anything that supports assignment to
            slices, such as a memory-mapped file.
        present : as in `fit`
            Which samples are in which view.
        outliers : int, optional
            Label, such as −1, of outliers. An outlier has a `score_samples` below
            `outlier_threshold_`. The share `contamination` of the samples of the fit is below it;
            this is also the rate of false alarms among new samples of the same kind. By default
            every sample gets a cluster.

        Returns
        -------
        labels : array of shape (n,)
            `out` where it is given; a Dask array, not yet computed, where X is in Dask.
        """
        if outliers is None:
            return self._apply(X, present, "labels", out)
        check_is_fitted(self)
        limit = self.outlier_threshold_
        if limit is None:
            raise ValueError(
                "outliers needs the scores of the fit, which this model lacks; fit again."
            )
        if not isinstance(outliers, Integral) or 0 <= outliers < self.n_clusters_:
            raise ValueError(
                f"outliers={outliers!r} must be a whole number that is not the label of a cluster, "
                "such as -1."
            )
        labels = self._apply(X, present, "labels", out, outliers)
        strange = on_host(self.score_samples(X, present)) < limit
        found = on_host(labels) if out is None else labels
        found[np.flatnonzero(strange)] = outliers
        return found

    def predict_proba(self, X: ViewsLike, present: PresentLike | None = None) -> Any:
        """Return the probability of each cluster: rows of a power of F, divided by their sum.

        The exponent (1.5, for joined runs 1.1) calibrates them: of the samples with a largest
        probability near p, a share near p is in the majority class of its cluster. With the
        exponent chosen on other sets the mean difference is .035, and .060 for joined runs (17
        labelled sets, benchmarks/living.py).

        Parameters
        ----------
        X, present
            As in `predict`.

        Returns
        -------
        P : array of shape (n, n_clusters)
            Rows sum to 1; all entries are equal if a sample is tied to no cluster. The largest
            entry belongs to the label of `predict`, if F has a positive entry.
        """
        return probabilities(self.transform(X, present), self._sharpness)

    def score_samples(self, X: ViewsLike, present: PresentLike | None = None) -> Any:
        """Return how typical each sample of X is: its largest entry in F, times its probability.

        It separates shuffled digits from new digits with an AUC of .956 (benchmarks/living.py).

        Parameters
        ----------
        X, present
            As in `predict`.

        Returns
        -------
        scores : array of shape (n,)
            Small for samples that belong to no cluster.
        """
        return typicality(self._described.transform(X, present))

    def transform(self, X: ViewsLike, present: PresentLike | None = None) -> Any:
        """Return the soft indicator F of each sample of X: how strongly it belongs to each cluster.

        Parameters
        ----------
        X, present
            As in `predict`.

        Returns
        -------
        F : array of shape (n, n_clusters)
            Non-negative; rows do not sum to 1. A Dask array, not yet computed, where X is in Dask.
        """
        return self._apply(X, present, "indicator")

    def report(
        self,
        path: str | os.PathLike[str],
        X: ViewsLike | None = None,
        y: ArrayLike | None = None,
        **options: Unpack[ReportOptions],
    ) -> Path:
        """Describe the fit in one HTML file that needs no network.

        Parameters
        ----------
        path : str or path-like
            The file to write.
        X : as in `fit`, optional
            The data that the model was fitted to. It is not needed after a fit on the CPU to data
            in memory: the model then keeps the anchor graphs, if they take at most 256 MiB. Files
            and copies of the model do not contain them.
        y : array-like of shape (n,), optional
            Known classes, to compare the clusters with.
        **options
            As in `omcal.report.write_report`: names of the samples, a title, a source ...

        Returns
        -------
        pathlib.Path
            The file.
        """
        from omcal.report import write_report

        return write_report(self, path, X, y, **options)

    def explain_views(
        self,
        X: ViewsLike | None = None,
        *,
        present: PresentLike | None = None,
        n_resamples: int = 5,
        max_samples: int | None = None,
        random_state: Seed = 0,
    ) -> ViewExplanation:
        """Explain the effect of each view: weight, agreement, and the result without it.

        Parameters
        ----------
        X : as in `fit`, optional
            The data that the model was fitted to; not needed where `report` does not need it.
        present : as in `fit`
            For X. Samples that are absent from a view are not used.
        n_resamples : int, default=5
            Number of bootstrap samples for the ranges; 0: no ranges.
        max_samples : int, optional
            Number of samples, drawn at random; by default 5000, or 2000 with more than 200 anchors.
        random_state : int, RandomState or None, default=0
            Seed of the random choices.

        Returns
        -------
        omcal.model.view_effects.ViewExplanation
            `views` has one entry per view, `warnings` sentences; `print` it.

        Examples
        --------
        >>> from omcal import OMCAL
        >>> from omcal.datasets import make_multiview
        >>> data = make_multiview(200, n_clusters=3, n_views=2, noise=[0.5, 1.5], random_state=0)
        >>> model = OMCAL(n_clusters=3, random_state=0).fit(data.views)
        >>> explanation = model.explain_views(n_resamples=2)
        >>> max(explanation.views, key=lambda view: view.agreement).name
        'view1'
        """
        from omcal.model.explain import explain_views

        asked = (present, n_resamples, max_samples, random_state)
        return explain_views(self._described, X, *asked)

    def describe_clusters(
        self,
        X: ViewsLike,
        *,
        feature_names: Mapping[str, Collection[object]] | None = None,
        top: int = 5,
        present: PresentLike | None = None,
    ) -> ClusterDescription:
        """Describe each cluster by the features that distinguish it, view by view.

        Parameters
        ----------
        X : as in `fit`
            The data that the model was fitted to. It is read twice, by blocks of rows.
        feature_names : mapping, optional
            View -> the names of its features; those of data frames are known.
        top : int, default=5
            Number of features per cluster and view.
        present : as in `fit`
            For X. A sample that is absent from a view does not count there.

        Returns
        -------
        omcal.model.feature_effects.ClusterDescription
            `print` it, or take it as a data frame with `to_frame()`.

        Examples
        --------
        >>> import numpy as np
        >>> from omcal import OMCAL
        >>> rng = np.random.RandomState(0)
        >>> y = np.repeat([0, 1], 50)
        >>> views = {"body": rng.normal(size=(100, 3)) + 4 * np.outer(y, [1, 0, 0])}
        >>> model = OMCAL(2, random_state=0).fit(views)
        >>> names = {"body": ["height", "age", "luck"]}
        >>> found = model.describe_clusters(views, feature_names=names)
        >>> {feature.feature for feature in found.features if abs(feature.effect) > 1}
        {'height'}
        """
        from omcal.model.feature_effects import describe_clusters

        return describe_clusters(self._described, X, feature_names, top, present)

    def drift(self, X: ViewsLike, present: PresentLike | None = None) -> Drift:
        """Compare new samples with those of the fit: which views, features and clusters moved.

        Parameters
        ----------
        X : as in `fit`
            New samples, with every view of the fit.
        present : as in `fit`
            Which samples are in which view.

        Returns
        -------
        omcal.model.drift.Drift
            `print` it, or take it as a data frame with `to_frame()`; `refit` says whether to fit
            again. If nothing has moved, the probability of any alarm is at most 1 %.
        """
        from omcal.model.drift import find_drift

        return find_drift(self, X, present)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted model to a file that `omcal.load` reads; it holds no data.

        The file contains parameters, scalings, anchors, weights, basis, threshold matrix, names and
        labels, but neither data nor graphs. The parameters for the place of a fit (`device`,
        `memory_limit`, `scratch_dir`, `checkpoint`, `client`) are not stored. The file appears
        under its name only when it is complete. A `random_state` must be an integer or None.

        Parameters
        ----------
        path : str or path-like
            The file; it is replaced where it exists.
        """
        from omcal.model.files import save

        save(self, path)
