"""Base class of the baselines: input, checks before fitting, warnings after it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable
from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state

from omcal.machine.memory import require_memory
from omcal.machine.scikit import Interval
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.reading import read_views, refuse_second_view
from omcal.views.view import Views

N_CLUSTERS = [Interval(Integral, 1, None, closed="left")]


class Baseline(ClusterMixin, BaseEstimator, ABC):
    """A clustering method with `fit` and `fit_predict`; subclasses are final.

    A subclass has parameters `n_clusters` and `random_state` (and `views` where it takes several
    views), a `_parameter_constraints` table, and `_cluster`, which returns the labels and sets
    the other fitted attributes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _takes_sparse: ClassVar[bool] = True
    _takes_absent: ClassVar[bool] = False
    _single_view: ClassVar[bool] = False

    labels_: np.ndarray
    n_missing_: list[int]
    objective_: Any  # its values per iteration, or its last value; not of every method

    def fit(
        self, X: ViewsLike, y: ArrayLike | None = None, present: PresentLike | None = None
    ) -> Self:
        """Cluster the samples of X; y is ignored.

        Parameters
        ----------
        X : list or mapping of 2-D arrays, or one 2-D array
            The views; row i is the same sample in each.
        y : None
            Ignored; clustering uses no classes.
        present : as in `OMCAL.fit`, optional
            Which samples are in which view; refused by methods that need all samples in every view.

        Returns
        -------
        self
            Fitted.
        """
        self._validate_params()
        refuse_second_view(y)
        name = type(self).__name__
        absent = self._takes_absent
        if present is not None and not absent:
            raise ValueError(f"{name} needs all samples in every view; leave present= out.")
        views = read_views(self, X, min_samples=2, present=present, home="memory", absent=absent)
        if n_missing := sum(self.n_missing_):  # refused by methods that need every sample
            warnings.warn(
                f"{n_missing} missing cells count as the middle of their feature.", stacklevel=2
            )
        if self._single_view and len(views) > 1:
            raise ValueError(
                f"{name} takes one view and X holds {len(views)}; pass one of them, or their "
                "concatenation."
            )
        if not self._takes_sparse and any(view.sparse for view in views):
            raise TypeError(f"{name} needs dense views; sparse input is not supported: toarray().")
        if self.n_clusters > views.n:
            raise ValueError(
                f"n_clusters={self.n_clusters} must be at most the number of samples, {views.n}."
            )
        require_memory(
            self._memory_needed(views),
            f"{name} on {views.n} samples",
            "Use fewer samples, or a method that is linear in them, such as OMCAL.",
        )
        self.labels_ = self._cluster(views, check_random_state(self.random_state))
        found = len(np.unique(self.labels_))
        if found != self.n_clusters:
            warnings.warn(
                f"{name} found {found} clusters, not n_clusters={self.n_clusters}.",
                ConvergenceWarning,
                stacklevel=2,
            )
        return self

    def _iterate(
        self,
        step: Callable[[], float],
        settled: Callable[[list[float], float], bool],
        *,
        warn: bool = True,
    ) -> None:
        """Repeat `step`, which returns the objective, until `settled(objective, tol)`.

        Sets `objective_` and `n_iter_`; warns where `max_iter` is reached first.
        """
        objective: list[float] = []
        while len(objective) < self.max_iter:
            objective.append(step())
            if settled(objective, self.tol):
                break
        else:
            if warn:
                warnings.warn(
                    f"{type(self).__name__} did not converge to tol={self.tol} in "
                    f"max_iter={self.max_iter} rounds; raise one of them.",
                    ConvergenceWarning,
                    stacklevel=4,
                )
        self.objective_ = np.array(objective)
        self.n_iter_: int = len(objective)

    @abstractmethod
    def _cluster(self, views: Views, random_state: np.random.RandomState) -> np.ndarray:
        """Return the labels of the samples, counted from 0."""

    @abstractmethod
    def _memory_needed(self, views: Views) -> float:
        """Return the approximate number of bytes that `_cluster` needs beyond the input."""

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = self._takes_sparse
        tags.input_tags.allow_nan = self._takes_absent  # cells that lack a value are filled
        return tags


def copy_bytes(views: Views) -> int:
    """Return the bytes of a float64 copy of all views; 16 per entry of sparse ones."""
    return sum(16 * v.array.nnz if v.sparse else 8 * v.array.size for v in views)
