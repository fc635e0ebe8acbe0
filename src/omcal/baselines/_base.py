"""Base class of the baselines: input, checks before fitting, warnings after it, documentation.

The docstring of a class has its own parameters and attributes. Parameters and attributes that are
common to several methods, missing headings and a plain example are added here.
"""

from __future__ import annotations

import inspect
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state

from omcal.baselines._graphs import graph_bytes
from omcal.baselines._linalg import copy_bytes
from omcal.machine.arrays import Seed
from omcal.machine.declaring import Declares, Words, declared, parameter
from omcal.machine.memory import require_memory
from omcal.machine.scikit import scikit_constraints
from omcal.method.scaling import Scale
from omcal.views.like import ColumnsLike, PresentLike, ViewsLike
from omcal.views.reading import read_views, refuse_second_view
from omcal.views.view import Views

_PARAMETERS = {
    "max_iter": "Most iterations.",
    "n_init": "k-means runs, of which the one with the least inertia is kept.",
    "n_neighbors": "Neighbours per sample in every graph; reduced to n - 2 where there are fewer. "
    "A sample is kept out of its own neighbours by its index; public codes drop the first of the "
    "sorted distances, which where samples are equal may be that of another.",
    "tol": "Stop where the objective changes by at most this fraction; 0 runs all iterations.",
}
# Name, parameter that a method with this attribute has, type, text.
_FIRST = (
    ("labels_", "", "array of shape (n,)", "Cluster of each sample, 0 to n_clusters − 1."),
    ("anchor_indices_", "n_anchors", "array of shape (m,)", "The samples that serve as anchors."),
)
_LAST = (
    ("objective_", "max_iter", "array of shape (n_iter,)", "The objective after each iteration."),
    ("n_iter_", "max_iter", "int", "Number of iterations."),
    ("n_features_in_", "", "int", "Number of features of all views."),
    ("n_features_per_view_", "", "list of int", "Number of features of each view."),
    (
        "n_missing_",
        "",
        "list of int",
        "Missing cells of each view, which were filled as their rows suggest.",
    ),
    (
        "view_names_",
        "",
        "list of str",
        "Names of the views, in the order of all attributes with one entry per view.",
    ),
)
_EXAMPLE = """\
>>> from omcal.baselines import {name}
>>> from omcal.datasets import make_multiview
>>> from omcal.metrics import clustering_accuracy
>>> data = make_multiview(60, n_clusters=3, n_features=20, random_state=0)
>>> labels = {name}(n_clusters=3, random_state=0).fit_predict(data.views{key})
>>> clustering_accuracy(data.labels, labels)
1.0
"""


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
    _takes_absent: ClassVar[bool] = False
    _single_view: ClassVar[bool] = True
    # What takes memory: copies of the features, made dense or not, and numbers for every two
    # samples, in all and for each view.
    _copies: ClassVar[float] = 2.0
    _copies_are_dense: ClassVar[bool] = False
    _pairs: ClassVar[float] = 0.0
    _pairs_per_view: ClassVar[float] = 0.0

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        cls._parameter_constraints = scikit_constraints(declared(cls))
        if "_cluster" in vars(cls) and cls.__doc__:
            cls.__doc__ = completed(cls.__doc__, cls)

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
                f"{n_missing} missing cells are filled as their rows suggest.", stacklevel=2
            )
        if self._single_view and len(views) > 1:
            raise ValueError(
                f"{name} takes one view and X holds {len(views)}; pass one of them, or their "
                "concatenation."
            )
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

    def _memory_needed(self, views: Views) -> float:
        """Return the approximate number of bytes that `_cluster` needs beyond the input."""
        n, d = views.n, sum(views.widths)
        features = 8.0 * n * d if self._copies_are_dense else copy_bytes(views)
        pairs = self._pairs + self._pairs_per_view * len(views)
        graphs = 3.0 * len(views) * graph_bytes(n, getattr(self, "n_neighbors", None) or 0)
        most = max(self.n_clusters, getattr(self, "n_feature_clusters", None) or 0)
        factors = 10.0 * (n + d) * most
        return self._copies * features + graphs + 8.0 * (pairs * n**2 + factors)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
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


def is_settled(objective: Sequence[float], tol: float) -> bool:
    """Whether the last two values differ by at most the fraction `tol`; never where it is 0."""
    before, now = objective[-2:]
    return tol > 0 and abs(before - now) <= tol * abs(before)


def completed(text: str, cls: type[Baseline]) -> str:
    """Return the docstring of the class with all parameters, all attributes, an example."""
    parameters = declared(cls)
    head, *parts = re.split(r"^([A-Z]\w+)\n-+\n", inspect.cleandoc(text), flags=re.M)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    own = _entries(sections.pop("Parameters", ""))
    listed = {}
    for key, one in parameters.items():
        entry = replace(one, help=one.help or _PARAMETERS.get(key, "")).entry
        listed[key] = own.get(key) or f"{key} : {entry}"
    shown = _entries(sections.pop("Attributes", ""))
    first, last = (
        {
            key: f"{key} : {kind}\n    {told}"
            for key, needed, kind, told in table
            if not needed or needed in parameters
        }
        for table in (_FIRST, _LAST)
    )
    attributes = first | shown | {key: shown.get(key, last[key]) for key in last}
    example = _EXAMPLE.format(name=cls.__name__, key='["view1"]' if cls._single_view else "")
    made = {"Parameters": "\n".join(listed.values()), "Attributes": "\n".join(attributes.values())}
    made |= {**sections, "Examples": sections.get("Examples", example)}
    body = (f"{key}\n{'-' * len(key)}\n{told.strip()}\n" for key, told in made.items())
    return head + "\n".join(body)


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the names that they begin with."""
    texts = re.split(r"^(?=\S)", section, flags=re.M)[1:]
    return {text.split(" : ")[0]: text.rstrip() for text in texts}
