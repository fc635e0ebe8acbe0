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
    "n_init": "Number of k-means runs; the one with the smallest inertia is kept.",
    "n_neighbors": "Neighbours per sample in every graph, at most n - 2. A sample is excluded from "
    "its own neighbours by its index. Published programs drop the smallest distance instead, which "
    "may belong to another sample if samples are equal.",
    "tol": "Stop where the objective changes by at most this fraction; 0 runs all iterations.",
}
# Attribute, the parameter that methods with this attribute have, type, text.
_FIRST = (
    ("labels_", "", "array of shape (n,)", "Cluster of each sample, 0 to n_clusters − 1."),
    ("anchor_indices_", "n_anchors", "array of shape (m,)", "The samples that serve as anchors."),
)
_LAST = (
    ("objective_", "max_iter", "array of shape (n_iter,)", "The objective after each iteration."),
    ("n_iter_", "max_iter", "int", "Number of iterations."),
    ("n_features_in_", "", "int", "Number of features of all views together."),
    ("n_features_per_view_", "", "list of int", "Number of features of each view."),
    (
        "n_missing_",
        "",
        "list of int",
        "Number of missing cells of each view, filled with estimates from their rows.",
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
    # For the estimate of memory: copies of the features, dense or not, and n×n arrays, once and per
    # view.
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
            warnings.warn(f"{n_missing} missing cells are estimated from their rows.", stacklevel=2)
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
        n_found = len(np.unique(self.labels_))
        if n_found != self.n_clusters:
            self._warn(f"found {n_found} clusters, not n_clusters={self.n_clusters}", 3)
        return self

    def _warn(self, problem: str, stacklevel: int = 4) -> None:
        """Warn that the result is not what the method aims at."""
        text = f"{type(self).__name__} {problem}."
        warnings.warn(text, ConvergenceWarning, stacklevel=stacklevel)

    def _iterate(self, step: Callable[[], float], *, least: int = 2, warn: bool = True) -> None:
        """Call `step` until the objective it returns converges, at least `least` times.

        Sets `objective_` and `n_iter_`; warns where `max_iter` is reached first.
        """
        objective: list[float] = []
        while len(objective) < self.max_iter:
            objective.append(step())
            if len(objective) >= least and has_converged(objective, self.tol):
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


def has_converged(objective: Sequence[float], tol: float) -> bool:
    """Whether the last two values differ by at most the fraction `tol`; False for tol=0."""
    before, now = objective[-2:]
    return tol > 0 and abs(before - now) <= tol * abs(before)


def completed(text: str, cls: type[Baseline]) -> str:
    """Return the class docstring completed with all parameters, attributes and an example."""
    parameters = declared(cls)
    head, *parts = re.split(r"^([A-Z]\w+)\n-+\n", inspect.cleandoc(text), flags=re.M)
    sections = dict(zip(parts[::2], parts[1::2], strict=True))
    written = _entries(sections.pop("Parameters", ""))
    listed = {}
    for key, declaration in parameters.items():
        entry = replace(declaration, help=declaration.help or _PARAMETERS.get(key, "")).entry
        listed[key] = written.get(key) or f"{key} : {entry}"
    own_attributes = _entries(sections.pop("Attributes", ""))
    first, last = (
        {
            key: f"{key} : {kind}\n    {content}"
            for key, needed, kind, content in table
            if not needed or needed in parameters
        }
        for table in (_FIRST, _LAST)
    )
    attributes = first | own_attributes | {key: own_attributes.get(key, last[key]) for key in last}
    example = _EXAMPLE.format(name=cls.__name__, key='["view1"]' if cls._single_view else "")
    made = {"Parameters": "\n".join(listed.values()), "Attributes": "\n".join(attributes.values())}
    made |= {**sections, "Examples": sections.get("Examples", example)}
    body = (f"{key}\n{'-' * len(key)}\n{content.strip()}\n" for key, content in made.items())
    return head + "\n".join(body)


def _entries(section: str) -> dict[str, str]:
    """Return the entries of a section by the names that they begin with."""
    texts = re.split(r"^(?=\S)", section, flags=re.M)[1:]
    return {text.split(" : ")[0]: text.rstrip() for text in texts}
