"""OMCAL, and OCAL for one view, as scikit-learn estimators: their fits and fitted attributes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from omcal.machine.arrays import Array, Floats, Seed, on_host
from omcal.machine.scikit import CallbackSupportMixin, with_callbacks
from omcal.machine.threads import map_blocks, one_blas_thread, small_blas
from omcal.method.new_samples import GraphModel, Predictor, indicate
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.settings import GraphSettings, start_weights
from omcal.method.solver import Problem, Solution
from omcal.method.starts import starts
from omcal.method.updates import weighted_sum
from omcal.model.certainty import typicality
from omcal.model.checkpoint import Checkpoint
from omcal.model.doubts import Diagnostics, cluster_sizes, doubts, unconverged
from omcal.model.drift import Reference
from omcal.model.numbering import moved_anchors, names_like, numbers_of, old_labels, renumbered
from omcal.model.parameters import ATTRIBUTES, MultiViewParameters
from omcal.model.progress import RESUMED, FitMonitor, Optimised, all_or_nothing, best_of_starts
from omcal.model.stream import StreamSums
from omcal.model.structure import structure_at
from omcal.model.updating import UpdatedEstimator
from omcal.places.base import Place, SampledGraphs, sample_rows
from omcal.places.team import Team
from omcal.views.kinds import Kind
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.view import Views


class AnchorClusterer(CallbackSupportMixin, UpdatedEstimator):
    """Base class of OMCAL and OCAL: everything except the parameters for several views."""

    _published: ClassVar[dict[str, Any]]  # settings of the paper

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if cls.__doc__:
            cls.__doc__ = cls.__doc__.replace("{attributes}", ATTRIBUTES)

    @classmethod
    def paper(cls, n_clusters: int = 8, **changes: Any) -> Self:
        """Return an estimator with the published settings, as far as the paper states them.

        These are c + 10 anchors, a random start, the plain iteration and, with several views, the
        weights of Eq. 27. The paper does not state the scaling. Here OMCAL standardises each sample
        (on Coil and Wiki ``scale=None`` is as accurate, within the spread of the seeds), and OCAL
        does not scale the data.

        Parameters
        ----------
        n_clusters : int, default=8
            Number of clusters c.
        **changes
            Other parameters of the class; they replace the published settings.

        Returns
        -------
        estimator
            Not fitted.

        Examples
        --------
        >>> from omcal import OMCAL
        >>> OMCAL.paper(20, beta=0.1).n_anchors
        30
        """
        plain = {"n_anchors": n_clusters + 10, "init": "random", "tol": 1e-6, "accelerate": False}
        return cls(n_clusters, **{**plain, **cls._published, **changes})

    @all_or_nothing
    @with_callbacks  # type: ignore[untyped-decorator]
    def _fit(self, run: Any, X: ViewsLike, y: Any, present: PresentLike | None, like: Any) -> bool:
        """Set the fitted state; return whether Ctrl-C interrupted the iterations."""
        if not (self.n_clusters == "auto" and self.warm_start and hasattr(self, "_rule")):
            self._choose_number(self, X, present)
        watch = FitMonitor(self, X, y)
        known = [getattr(self, name, None) for name in ("view_names_", "_view_columns")]

        def work(place: Place) -> bool:
            with self._telling():
                old = None if like is None else old_labels(like, X, present, place.views.n)
                before = self._last_model(place.views, *known) if self.warm_start else None
            settings = self._graph_settings(place)
            if before is not None:
                settings = replace(settings, n_anchors=len(self.basis_), anchors=before.anchors)
            self._require_room(place, settings, type(self).__name__)
            with small_blas(settings.n_anchors):
                interrupted = self._fit_at(place, settings, watch, old, before)
            if before is None:
                self._cluster_names = names_like(like, self.matched_)
            if hasattr(self, "_reservoir"):
                del self._reservoir
            return interrupted

        return self._at_place(work, X, present)

    def _last_model(self, views: Views, names: Any, columns: Any) -> GraphModel | None:
        """Return the scalings and anchors of the last fit, to the same views; None without one."""
        if not hasattr(self, "_rule"):
            return None
        before: GraphModel = self._rule.learned
        same = list(views.names) == names and all(
            view.width == A.shape[1] and (not titles or view.columns in (titles, None))
            for view, A, titles in zip(views, before.anchors, columns, strict=True)
        )
        if not same or self.basis_.shape[1] != self.n_clusters_:
            raise ValueError(
                f"warm_start=True continues from {self.basis_.shape[1]} clusters of the views "
                f"{names} with the same features in the same order; X has {list(views.names)}, and "
                f"n_clusters={self.n_clusters_}. Set warm_start=False."
            )
        return before

    def _fit_at(
        self,
        place: Place,
        settings: GraphSettings,
        watch: FitMonitor,
        old: Array | None,
        before: GraphModel | None = None,
        *,
        described: bool = True,
    ) -> bool:
        """Fit to views that were read and fit into memory.

        `old` has earlier labels whose numbers are kept, `before` is the model to start from.
        Without `described` there are no diagnostics.
        """
        team = place.team
        random_state = team.on_leader(lambda: check_random_state(self.random_state))
        (checkpoint,) = self._checkpoints(place, settings.n_anchors, watch, self.random_state)
        if checkpoint and checkpoint.resumes:
            settings = replace(settings, anchors=checkpoint.anchors)

        (graph_model,) = place.learn(settings, [random_state])
        if before is not None and not (checkpoint and checkpoint.resumes):
            graph_model = replace(graph_model.alone, anchors=moved_anchors(before, graph_model))
        init = self.init if before is None else self.basis_
        (rows,) = place.build([graph_model], settings)
        if checkpoint:
            rows = checkpoint.follow(rows, graph_model.anchors, random_state)
        watch.begin(place.n, place.views.names, graph_model.scalings, settings.n_anchors)
        runs = [(rows, graph_model, random_state)]
        ((best, assignment),) = self._optimise(place, runs, watch, init)

        sizes = team.total(cluster_sizes(assignment.labels, settings.n_clusters))
        order, self.matched_ = numbers_of(team, sizes, assignment.labels, old)
        if before is not None and old is None:
            order = np.arange(settings.n_clusters)  # the columns of the basis keep their order
        Z = replace(best.consensus, G=best.consensus.G[:, order])
        assignment = replace(assignment, labels=renumbered(assignment.labels, order))
        self._publish(Predictor(graph_model, Z), best, assignment)
        self._sums = StreamSums.of_fit(best, place.n, order)
        sampled = place.sample_graphs(0)
        self._summarise(sampled, place.n)
        self.structure_ = structure_at(place, self._rule, self.labels_) if described else None
        self.doubts_: Diagnostics = Diagnostics()
        if described:
            self.doubts_ = self._doubts(sampled, sizes[order], team)
        if checkpoint and not watch.interrupted:
            checkpoint.remove()
        watch.end()
        return watch.interrupted

    def _summarise(
        self, sampled: SampledGraphs | None, n: int, labels: Array | None = None
    ) -> Reference | None:
        """Keep the graphs, and the sums and the score that later samples are compared with.

        Return the sums by cluster, of `labels` if given.
        """
        self._graphs = self._reference = self.outlier_threshold_ = None
        if sampled is None or not sampled.graphs.n:
            return None
        self._graphs = sampled.graphs if sampled.rows is None else None
        some = sample_rows(sampled.graphs.n)
        graphs, Z = sampled.graphs[some], self._rule.consensus
        U, run_labels = indicate(Z, graphs)
        typical = typicality(np.maximum(U, 0))
        self.outlier_threshold_ = float(np.quantile(typical, self.contamination))
        self._reference = Reference.of(graphs, run_labels, Z.G, n)
        if labels is None:
            return self._reference
        rows = some if sampled.rows is None else sampled.rows[some]
        return Reference.of(graphs, on_host(labels)[rows], Z.G, n)

    def _optimise(
        self,
        place: Place,
        runs: Sequence[tuple[AbstractRows, GraphModel, np.random.RandomState]],
        watch: FitMonitor,
        init: Any = None,
        *,
        runner_up: bool = False,
    ) -> list[Optimised]:
        """Solve each run of a batch from each start; return its best solution and labels."""
        rows, models, states = zip(*runs, strict=True)
        problems = [self._problem(len(one.anchors)).without(one.uninformative) for one in models]
        grams = [one.gram() for one in rows]

        def mixed(some: slice) -> list[Floats]:
            pairs = zip(problems[some], grams[some], strict=True)
            return [weighted_sum(p.alpha, weighted_sum(p.alpha, StS)) for p, StS in pairs]

        with one_blas_thread():
            AtA = list(chain.from_iterable(map_blocks(mixed, len(grams), 1)))
        init = self.init if init is None else init
        leading = rows[0].leading_eigenvectors
        bases = starts(init, self.n_init, np.stack(AtA), self.n_clusters_, states, leading)
        return best_of_starts(place, bases, rows, grams, problems, watch, runner_up=runner_up)

    def _publish(self, rule: Predictor, best: Solution, assignment: Assignment) -> None:
        """Set the attributes of a fitted model."""
        self._set_rule(rule)
        self.labels_: Array = assignment.labels
        self.n_undecided_: int = assignment.n_undecided
        self.view_weights_: Floats = best.alpha
        self.objective_: Floats = np.array(best.history)
        self.n_iter_: int = best.n_iter
        self.converged_: bool = best.converged

    def _doubts(self, sampled: SampledGraphs | None, sizes: Array, team: Team) -> Diagnostics:
        found = doubts(self, sampled, sizes, team)
        # If a callback stopped the fit earlier, its user knows.
        if not self.converged_ and self.n_iter_ == self.max_iter:
            found.append(unconverged(self.max_iter, self.tol))
        return found

    @property
    def _weighting(self) -> Any:
        """The name of the weighting rule, or the given weights."""
        return getattr(self, "weighting", "uniform")

    def _set_rule(self, rule: Predictor) -> None:
        """Set the predictor of new samples, and the public attributes with its parts."""
        self._rule = rule
        self.anchors_: list[Array] = rule.learned.anchors
        self.basis_: Floats = rule.consensus.G
        self.view_scales_: list[Kind] = [scaling.kind for scaling in rule.learned.scalings]

    def _rule_middles(self) -> list[Floats]:
        """Return middles of the features, for missing cells of new samples if the fit had none."""
        learned = self._rule.learned
        return [s.middle(A) for s, A in zip(learned.scalings, learned.anchors, strict=True)]

    @property
    def _described(self) -> Self:
        check_is_fitted(self)
        return self

    @property
    def _random(self) -> bool:
        """Whether `random_state` has an influence on the fit."""
        random_start = isinstance(self.init, str) and (self.init == "random" or self.n_init > 1)
        return isinstance(self.anchors, str) or random_start

    def _checkpoints(
        self, place: Place, n_anchors: int, watch: FitMonitor, random_state: Seed, n_runs: int = 0
    ) -> list[Checkpoint] | list[None]:
        """Return the checkpoint of the fit, or of each run to join; None without checkpoints."""
        if self.checkpoint is None:
            return [None] * max(n_runs, 1)
        data = {
            "n_samples": place.n,
            "n_features": place.views.widths,
            "n_anchors": n_anchors,
            "dtype": str(place.views.dtype),
        }
        data |= {"n_runs": n_runs} if n_runs else {}
        parameters = self.get_params()
        parameters |= {"n_clusters": self.n_clusters_, "random_state": random_state}
        path, team = os.fspath(self.checkpoint), place.team
        paths = [f"{path}.{number}" for number in range(n_runs)] or [path]
        found = team.on_leader(lambda: [Checkpoint(one, data, parameters) for one in paths])
        for one in found:
            one.writes = team.is_leader
            if one.resumes:
                watch.say(RESUMED, len(one.sweeps), one.path)
        return found

    def _problem(self, n_views: int) -> Problem:
        weighting, alpha = start_weights(self._weighting, n_views)
        return Problem(
            self.beta, self.gamma, weighting, alpha, int(self.max_iter), self.tol, self.accelerate
        )

    def __getstate__(self) -> dict[str, Any]:
        # Clients and groups are connections of this process, folded anchors depend on it, and
        # graphs are as large as data: they are neither copied nor stored.
        state = {**super().__getstate__(), "client": None, "group": None}
        for name in ("_graphs", "_folded"):
            state.pop(name, None)
        return state

    def __sklearn_clone__(self) -> Self:
        twin: Self = super(AnchorClusterer, copy(self)).__sklearn_clone__()
        twin.set_params(client=self.client, group=self.group)
        return twin

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


class OMCAL(MultiViewParameters, AnchorClusterer):
    """One-step multi-view clustering with adaptive low-rank anchor-graph learning.

    Minimises, over the consensus graph Z, the view weights α, the indicator F and the basis G, ::

        ‖Z − Σ_v α_v S_v‖² + β ‖Z‖_* + γ ‖Z − F Gᵀ‖²
        subject to F ≥ 0, GᵀG = I, α ≥ 0, Σ_v α_v = 1

    where S_v is the graph of view v between the samples and m anchors. The cluster of a sample is
    the largest entry of its row of F. Time and memory are linear in the number of samples.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    References
    ----------
    Xue, Yang, Zhang, Wang, Lin: One-step Multi-view Clustering With Adaptive Low-rank
    Anchor-graph Learning, arXiv 2509.14724.

    Examples
    --------
    >>> from omcal import OMCAL
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(300, n_clusters=3, random_state=0)
    >>> model = OMCAL(n_clusters=3, random_state=0).fit(data.views)
    >>> model.labels_.shape, model.view_weights_.shape
    ((300,), (3,))
    >>> bool((model.predict(data.views) == model.labels_).mean() > 0.99)
    True
    """

    _published: ClassVar[dict[str, Any]] = {"scale": "sample", "weighting": "adaptive"}


class OCAL(AnchorClusterer):
    """OMCAL for data with one view: one-step clustering by low-rank anchor-graph learning.

    With one view α = 1, and the objective of :class:`OMCAL` is Eq. 28 of the paper.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    {attributes}

    Examples
    --------
    >>> from sklearn.datasets import make_blobs
    >>> from omcal import OCAL
    >>> X, y = make_blobs(200, centers=3, random_state=0)
    >>> OCAL(n_clusters=3, random_state=0).fit_predict(X).shape
    (200,)
    """

    _single_view = True
    _published: ClassVar[dict[str, Any]] = {"scale": None}
