"""Several runs joined into one result, which depends less on the draw of the anchors."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from numbers import Integral
from typing import Any

import numpy as np
from scipy.optimize import linear_sum_assignment
from sklearn.base import MetaEstimatorMixin, clone
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from omcal.machine.arrays import Array, Floats, Seed, on_host
from omcal.machine.declaring import Declares, Methods, Range, parameter
from omcal.machine.threads import small_blas
from omcal.method.new_samples import ConsensusPredictor, Predictor
from omcal.method.rows import Assignment
from omcal.method.settings import GraphSettings
from omcal.method.solver import Problem, Solution
from omcal.metrics import ari_of_table
from omcal.model.certainty import JOINT_SHARPNESS
from omcal.model.clusterer import Clusterer
from omcal.model.doubts import Diagnostics, cluster_sizes, doubts, of_few_runs, of_runs
from omcal.model.estimators import OMCAL, AnchorClusterer
from omcal.model.numbering import names_like, numbers_of, old_labels, renumbered
from omcal.model.progress import FitMonitor, all_or_nothing
from omcal.model.runs import (
    Finished,
    Run,
    RunsAtWork,
    certainty,
    run_table,
    run_tables,
    solve_joint,
)
from omcal.model.stream import StreamSums
from omcal.model.structure import structure_at
from omcal.model.updating import joint_batches
from omcal.places.base import Place, SampledGraphs
from omcal.places.team import Team, team_of
from omcal.views.kinds import Kind
from omcal.views.like import PresentLike, ViewsLike

_AFTER_CTRL_C = 20  # iterations of the joint fit; most converge earlier
# Attributes about the views, copied from a run to the joint result.
_OF_VIEWS = (
    *("n_features_in_", "n_features_per_view_", "view_names_", "feature_names_in_", "n_missing_"),
)


class Consensus(MetaEstimatorMixin, Clusterer, Declares):
    """Join several runs with other anchors into one clustering.

    Each of B runs puts every sample into one of c clusters. All B·c clusters serve as anchors:
    a sample is tied to its cluster and the runner-up of each run, which share the weight 1/B, and
    the same solver clusters this graph into c groups. The views are checked and scaled once.

    Parameters
    ----------
    {parameters}

    Attributes
    ----------
    labels_ : array of shape (n,)
        Cluster of each sample, 0 to `n_clusters_` − 1, the largest first, or with the numbers of
        `like`.
    n_clusters_, selection_, matched_, cluster_names_, outlier_threshold_
        As in `OMCAL`.
    certainty_ : array of shape (n,)
        For each sample the share of runs that agree with its label. A cluster of a run stands for
        the cluster of the result that contains most of its samples.
    stability_ : float
        Mean adjusted Rand index between the runs and the result; 1 if all are equal.
    view_weights_, view_weights_spread_ : arrays of shape (n_views,)
        Mean and standard deviation of the weights of the runs.
    runs_ : list of Run
        Labels, weights of the views and objective of each run.
    estimator_ : OMCAL or OCAL
        The run that is most similar to the result, as a fitted model.
    objective_, n_iter_, converged_, n_undecided_
        Of the joint fit, as in `OMCAL`.
    doubts_, structure_, view_scales_, view_names_, n_features_in_, n_features_per_view_, n_missing_
        As in `OMCAL`.

    Examples
    --------
    >>> from omcal import OMCAL, Consensus
    >>> from omcal.datasets import make_multiview
    >>> data = make_multiview(300, n_clusters=3, noise=0.6, random_state=0)
    >>> model = Consensus(OMCAL(n_clusters=3), n_runs=5, random_state=0).fit(data.views)
    >>> model.labels_.shape, bool(model.stability_ > 0.8)
    ((300,), True)
    >>> bool((model.predict(data.views) == model.labels_).mean() > 0.99)
    True
    """

    estimator: AnchorClusterer | None = parameter(
        default=None,
        constraint=(Methods(("fit", "predict")), None),
        kind="OMCAL or OCAL",
        help="""The estimator to run, with its parameters; by default ``OMCAL()``. Its
        `random_state` is not used.""",
        kw_only=False,
    )
    n_runs: int = parameter(
        default=10, constraint=(Range(Integral, 2),), kind="int", help="Number B of runs."
    )
    n_jobs: int | None = parameter(
        default=None,
        constraint=(Integral, None),
        kind="int",
        help="""Number of runs to solve at once, each with its graphs in memory. By default one per
        core with at least 100 anchors and at most 50 000 samples, else one on all cores.""",
    )
    random_state: Seed = parameter(
        default=None,
        constraint=("random_state",),
        kind="int, RandomState or None, default=None",
        help="Seed of the anchors and starts of all runs.",
    )

    _sharpness: float = JOINT_SHARPNESS

    @property
    def n_clusters(self) -> Any:
        """Number of clusters, or "auto", of the estimator."""
        return self._given().n_clusters

    def _check_parameters(self, run: AnchorClusterer) -> None:
        self._validate_params()
        run._validate_params()
        for name in ("warm_start", "grow"):
            if getattr(run, name):
                raise ValueError(f"{name}=True is for OMCAL and OCAL alone; leave it out.")
        if not run._random:
            raise ValueError(
                f"n_runs={self.n_runs} runs would all be the same: anchors are given and "
                "nothing else is random; use OMCAL alone, init='random', or anchors='kmeans'."
            )

    @all_or_nothing
    def _fit(
        self, inner: AnchorClusterer, X: ViewsLike, y: Any, present: PresentLike | None, like: Any
    ) -> bool:
        """Set the fitted state; return whether Ctrl-C interrupted the iterations."""
        self._choose_number(inner, X, present)
        watch = FitMonitor(inner, X, None)

        def work(place: Place) -> bool:
            with inner._telling():
                self._old = None if like is None else old_labels(like, X, present, place.views.n)
            settings = inner._graph_settings(place)
            inner._require_room(place, settings, "Consensus", self.n_runs)
            with small_blas(settings.n_anchors):
                return self._fit_at(inner, place, settings, watch)

        interrupted = inner._at_place(work, X, present, n_runs=self.n_runs)
        self._cluster_names = names_like(like, self.matched_)
        del self._old
        return interrupted

    def _fit_at(
        self,
        inner: AnchorClusterer,
        place: Place,
        settings: GraphSettings,
        watch: FitMonitor,
    ) -> bool:
        """Fit to views that were read and fit into memory."""
        random_state = place.team.on_leader(lambda: check_random_state(self.random_state))
        seeds = random_state.randint(2**31 - 1, size=self.n_runs + 1)
        runs = RunsAtWork(inner, place, settings, seeds[:-1], self.random_state, watch)
        finished = runs.finish(self.n_jobs)
        interrupted = watch.interrupted
        watch.interrupted = False  # an earlier Ctrl-C does not end the joint fit
        max_iter = min(inner.max_iter, _AFTER_CTRL_C) if interrupted else inner.max_iter
        self._join(inner, place, finished, np.random.RandomState(seeds[-1]), watch, max_iter)
        interrupted |= watch.interrupted
        best = self._keep_most_similar(inner)
        inner._sums = StreamSums.of_fit(finished[best][1], place.n, np.arange(settings.n_clusters))
        sampled = place.sample_graphs(best)
        self._reference = inner._summarise(sampled, place.n, self.labels_)
        self.outlier_threshold_ = inner.outlier_threshold_
        run_sizes, joint_sizes = self._tables[best].sum(axis=1), self._tables[best].sum(axis=0)
        self.structure_ = inner.structure_ = structure_at(place, self._rule, self.labels_)
        inner.doubts_ = inner._doubts(sampled, run_sizes, place.team)
        self.doubts_: Diagnostics = Diagnostics()
        self.doubts_ = self._doubts(sampled, joint_sizes, place.team)
        if not interrupted:
            runs.remove_checkpoints()
        return interrupted

    def _join(
        self,
        inner: AnchorClusterer,
        place: Place,
        finished: Sequence[Finished],
        random_state: np.random.RandomState,
        watch: FitMonitor,
        max_iter: int,
    ) -> None:
        """Fit the graph between the samples and the clusters of the runs."""
        c = inner.n_clusters_
        label_type = np.min_scalar_type(c - 1)
        run_labels = [assignment.labels for _, _, assignment in finished]  # or on a device
        runs = [
            Run(on_host(labels).astype(label_type, copy=False), replace(solution, sums=None))
            for labels, (_, solution, _) in zip(run_labels, finished, strict=True)
        ]
        n_found = 0
        for labels in run_labels:
            if n_found < c:  # usually the first run has all of them
                n_found += int(np.count_nonzero(place.team.total(cluster_sizes(labels, c))))
        if n_found < c:
            raise ValueError(
                f"the runs have only {n_found} clusters in all, but n_clusters={c}; lower "
                "n_clusters."
            )
        rows = place.join([assignment for _, _, assignment in finished], c)
        options = (int(max_iter), inner.tol, inner.accelerate)
        problem = Problem(inner.beta, inner.gamma, "fixed", np.ones(1), *options)
        solution, assignment = solve_joint(place, rows, problem, c, random_state, watch)
        labels = assignment.labels  # on the device, if those of the runs are there
        labels = labels if hasattr(labels, "cpu") else on_host(labels).astype(np.int32, copy=False)
        tables = [place.team.total(table) for table in run_tables(run_labels, labels, c)]
        # If runs agree, rounding would decide the order of clusters of equal size; instead they are
        # in the order of the first run.
        order = linear_sum_assignment(tables[0], maximize=True)[1]
        sizes = tables[0].sum(axis=0)
        order, self.matched_ = numbers_of(place.team, sizes, labels, self._old, order)
        labels = renumbered(labels, order)
        tables = [table[:, order] for table in tables]
        Z = replace(solution.consensus, G=solution.consensus.G[:, order])
        self._sums = StreamSums.of_fit(solution, place.n, order)
        solution, rules = replace(solution, consensus=Z), [rule for rule, _, _ in finished]
        agreed = certainty(run_labels, labels, tables)
        labels = on_host(labels).astype(np.int32, copy=False)
        assignment = Assignment(labels, assignment.n_undecided)
        self._publish(rules, runs, tables, solution, assignment, agreed)

    def _publish(
        self,
        rules: list[Predictor],
        runs: list[Run],
        tables: list[Array],
        solution: Solution,
        assignment: Assignment,
        agreed: Floats,
    ) -> None:
        """Set the attributes of a fitted model.

        `tables` count all samples by cluster of run and result; `assignment` may have fewer.
        """
        self._rule = ConsensusPredictor(rules, solution.consensus)
        self._tables = tables
        self.labels_: Array = assignment.labels
        self.n_undecided_: int = assignment.n_undecided
        self.runs_ = runs
        self.objective_: Floats = np.array(solution.history)
        self.n_iter_: int = solution.n_iter
        self.converged_: bool = solution.converged
        weights = np.stack([run.view_weights for run in runs])
        self.view_weights_: Floats = weights.mean(axis=0)
        self.view_weights_spread_: Floats = weights.std(axis=0)
        self.view_scales_: list[Kind] = [scaling.kind for scaling in rules[0].learned.scalings]
        self.certainty_: Floats = agreed
        self._similar = [ari_of_table(table) for table in tables]
        self.stability_: float = float(np.mean(self._similar))

    def _keep_most_similar(self, inner: AnchorClusterer) -> int:
        """Keep the run most similar to the result as a model; return its number."""
        best = int(np.argmax(self._similar))
        run = self.runs_[best]
        inner._publish(
            self._rule.runs[best], run.solution, Assignment(run.labels.astype(np.int32), 0)
        )
        inner.matched_ = []
        self.estimator_ = inner
        self.__dict__.pop("feature_names_in_", None)  # of an earlier fit to a table with names
        for name in _OF_VIEWS:
            if hasattr(inner, name):
                setattr(self, name, getattr(inner, name))
        return best

    def _doubts(self, sampled: SampledGraphs | None, sizes: Array, team: Team) -> Diagnostics:
        converged = [run.solution.converged for run in self.runs_]
        first, *others = [rule.learned.anchors for rule in self._rule.runs]
        same = all(all(map(np.array_equal, first, anchors)) for anchors in others)
        found = doubts(self.as_one_run(), sampled, sizes, team)
        found += of_runs(converged, self.estimator_.max_iter, self.stability_)
        found += of_few_runs(len(self.runs_), self.n_runs, same_anchors=same)
        return found

    def as_one_run(self) -> AnchorClusterer:
        """Return the run most similar to the result, with labels and certainty of the result.

        A report draws its graphs; the columns of its F are the clusters of the run.

        Returns
        -------
        OMCAL or OCAL
            With `joined_by`, this model.
        """
        check_is_fitted(self)
        model = copy(self.estimator_)
        model.__dict__["_graphs"] = self.estimator_._graphs
        names = ("labels_", "certainty_", "stability_", "runs_", "doubts_", "view_weights_")
        for name in names:
            setattr(model, name, getattr(self, name))
        model._cluster_names, model.joined_by = self._cluster_names, self
        return model

    @all_or_nothing
    def _partial_fit(self, X: ViewsLike, present: PresentLike | None) -> None:
        """Add a batch to the sums of the joint fit; the runs do not change."""
        if not hasattr(self, "_rule"):
            self.fit(X, present=present)
            return
        self.estimator_.half_life = self._given().half_life
        batches = list(joint_batches(self, X, present))
        labels = np.concatenate([own for own, _ in batches])
        few = np.min_scalar_type(self.n_clusters_ - 1)
        of_runs = zip(*(runs for _, runs in batches), strict=True)
        runs = [
            replace(run, labels=np.concatenate(parts).astype(few))
            for run, parts in zip(self.runs_, of_runs, strict=True)
        ]
        team = team_of(self.estimator_.group)
        tables = [team.total(run_table(run.labels, labels, self.n_clusters_)) for run in runs]
        history = self.objective_.tolist()
        solution = Solution(np.ones(1), self._rule.consensus, history, self.converged_)
        agreed = certainty([run.labels for run in runs], labels, tables)
        self._publish(self._rule.runs, runs, tables, solution, Assignment(labels, 0), agreed)
        self._keep_most_similar(self.estimator_)
        self.estimator_._graphs = None

    @property
    def _described(self) -> AnchorClusterer:
        return self.as_one_run()

    def _place_of_new(self, X: ViewsLike, present: PresentLike | None, fill: bool = False) -> Place:
        check_is_fitted(self)
        return self.estimator_._place_of_new(X, present, fill)

    def _given(self) -> AnchorClusterer:
        given = OMCAL() if self.estimator is None else self.estimator
        if not isinstance(given, AnchorClusterer):
            raise ValueError(f"estimator={given!r} cannot be joined; give OMCAL(...) or OCAL(...).")
        return given

    def _new_run(self) -> AnchorClusterer:
        """Return a copy of the estimator for the runs; with a group, solve one run at a time."""
        run: AnchorClusterer = clone(self._given())
        if run.group is not None and self.n_jobs not in (None, 1):
            raise ValueError(
                f"n_jobs={self.n_jobs} cannot be combined with group, whose ranks must work on the "
                "same run at a time; leave one of them out."
            )
        return run

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = []
        return tags
