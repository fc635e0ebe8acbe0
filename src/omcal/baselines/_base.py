"""Base class of the baselines: input, checks before fitting, warnings after it."""

from __future__ import annotations

import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state

from omcal.baselines._distances import as_floats, squared_norms
from omcal.baselines._documentation import completed
from omcal.machine.arrays import Seed
from omcal.machine.declaring import Declares, Words, declared, parameter
from omcal.machine.memory import require_memory
from omcal.machine.scikit import scikit_constraints
from omcal.method.scaling import Scale, Scaling
from omcal.views.like import ColumnsLike, PresentLike, ViewsLike
from omcal.views.reading import read_views, refuse_second_view
from omcal.views.view import Matrix, View, Views


class _Fitted(ClusterMixin, BaseEstimator):
    """The attributes that `fit` sets."""

    labels_: np.ndarray
    n_missing_: list[int]
    objective_: Any  # its values per iteration, or its last value; not of every method
    n_iter_: int


class Baseline(_Fitted, Declares, ABC):
    """A clustering method with `fit` and `fit_predict`; subclasses are final.

    A subclass declares its parameters as fields and has `_cluster`, which returns the labels and
    sets the other fitted attributes. Its docstring has only entries of its own: `completed` adds
    those that it shares with others.
    """

    n_clusters: int = parameter(default=8, help="Number of clusters c.", kw_only=False)
    random_state: Seed = parameter(
        default=None,
        constraint=("random_state",),
        kind="int, RandomState or None, default=None",
        help="Seed of all random draws.",
        late=True,
    )

    _parameter_constraints: ClassVar[dict[str, list[Any]]]
    _takes_sparse: ClassVar[bool] = True
    _takes_absent: ClassVar[bool] = False
    _single_view: ClassVar[bool] = True

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._parameter_constraints = scikit_constraints(declared(cls))
        if "_cluster" in vars(cls) and cls.__doc__:
            cls.__doc__ = completed(
                cls.__doc__, cls.__name__, declared(cls), single_view=cls._single_view
            )

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
            self._warn(f"found {found} clusters, not n_clusters={self.n_clusters}", 3)
        return self

    def _warn(self, found: str, stacklevel: int = 4) -> None:
        """Warn of a result that the method does not aim at."""
        text = f"{type(self).__name__} {found}."
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)

    def _iterate(self, step: Callable[[], float], *, least: int = 2, warn: bool = True) -> None:
        """Repeat `step`, which returns the objective, until it is settled; `least` times or more.

        Sets `objective_` and `n_iter_`; warns where `max_iter` is reached first.
        """
        objective: list[float] = []
        while len(objective) < self.max_iter:
            objective.append(step())
            if len(objective) >= least and is_settled(objective, self.tol):
                break
        else:
            if warn:
                self._warn(
                    f"did not converge to tol={self.tol:g} in max_iter={self.max_iter} rounds; "
                    "raise one of them",
                    5,
                )
        self.objective_ = np.array(objective)
        self.n_iter_ = len(objective)

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


class MultiViewBaseline(Baseline):
    """A method that takes several views."""

    _single_view = False
    views: ColumnsLike | None = parameter(
        default=None,
        constraint=(None, str, dict, list, tuple),
        kind="str, mapping or list",
        help="How the columns of one table form views.",
        late=True,
    )


class ScaledViews(MultiViewBaseline):
    """Base class of methods that scale the features and end with k-means."""

    scale: Scale = parameter(
        default="feature",
        constraint=(Words(("feature", "sample", "view")), None),
        kind='{"feature", "sample", "view"} or None, default="feature"',
        help=""""feature": z-score of each feature, constant ones to 0. "sample": z-score of each
        sample in each view. "view": one factor that gives each view the same total variance.
        None: the views as they are. Sparse views are divided but not centred, so that they stay
        sparse.""",
    )
    n_init: int = 10

    def _scaled(self, X: Matrix) -> Matrix:
        """Return the features of one view in float64, scaled."""
        X = as_floats(X)
        squared_norms(X)  # raises on overflow
        scaled = Scaling.fit(View("X", X), self.scale).apply(X)
        return as_floats(scaled) if sparse.issparse(scaled) else scaled

    def _memory_needed(self, views: Views) -> float:
        return 2.0 * copy_bytes(views)


def is_settled(objective: Sequence[float], tol: float) -> bool:
    """Whether the last two values differ by at most the fraction `tol`; never where it is 0."""
    before, now = objective[-2:]
    return tol > 0 and abs(before - now) <= tol * abs(before)


def copy_bytes(views: Views) -> int:
    """Return the bytes of a float64 copy of all views; 16 per entry of sparse ones."""
    return sum(16 * v.array.nnz if v.sparse else 8 * v.array.size for v in views)
