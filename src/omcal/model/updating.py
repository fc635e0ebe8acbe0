"""`partial_fit`: update a fitted model by batches, or fit a stream from its first batch."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import one_blas_thread, small_blas
from omcal.method.graph import AnchorGraphs, anchor_graphs, folded_anchors
from omcal.method.new_samples import Predictor, indicate, joined_graph
from omcal.method.rows import Assignment
from omcal.method.settings import default_n_anchors
from omcal.model.certainty import typicality
from omcal.model.cost import ViewSize
from omcal.model.doubts import Diagnostics, about_missing, warn
from omcal.model.drift import Reference, compare_views
from omcal.model.preparation import PlacedEstimator
from omcal.model.progress import FitMonitor, all_or_nothing, tell
from omcal.model.stream import Reservoir, Strangers, StreamSums, grow, stable_group, taken
from omcal.model.subset_fits import views_in_memory
from omcal.places.choose import PlaceRequest, place_for
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.missing import fill_missing
from omcal.views.present import check_present
from omcal.views.reading import read_views
from omcal.views.view import MissingValuesError, Views

_REFIT_RATE = 0.001  # rate of unnecessary refits, per comparison and view


def add_batch(
    model: Any, graphs: AnchorGraphs, beta: float, gamma: float, half_life: float | None
) -> tuple[Any, Array, Array]:
    """Add samples to the sums of a model; return its next consensus graph, their F and labels."""
    if model._sums is None:
        raise ValueError(
            "partial_fit continues the sums of a fit, which this model does not have: it was "
            "fitted on a device or by ranks, or saved by an earlier version. Fit it again on the "
            "CPU, or begin with partial_fit."
        )
    Z = model._rule.consensus
    U, labels = indicate(Z, graphs, compiled=compiled_pays(graphs.n))
    F = np.maximum(U, 0)
    new = StreamSums.of(Z, graphs, F)
    model._sums = model._sums.decayed(graphs.n, half_life) + new
    with small_blas(graphs.n_anchors):
        return model._sums.step(Z, beta, gamma), F, labels


def batch_views(
    model: Any, X: ViewsLike, present: PresentLike | None, *, reset: bool, fill: bool = True
) -> Views:
    """Read a batch of a stream; fill missing cells, unless values in memory are trusted."""
    views = read_views(model, X, reset=reset, present=present, home="host" if fill else "any")
    if views.home == "device":
        views = read_views(model, X, reset=reset, present=present, home="host")
    if views.home == "cluster":
        raise ValueError(
            "partial_fit takes batches in the memory or in files of this machine, and X is in "
            "Dask; pass computed blocks of rows, or use fit."
        )
    if views.stored:  # values in memory were already checked
        views = fill_missing(model, views, reset, np.asarray)
    check_present(views.present)
    return views


def joint_batches(
    model: Any, X: ViewsLike, present: PresentLike | None
) -> Iterator[tuple[Array, list[Assignment]]]:
    """Add a batch to the joint sums of a Consensus; yield its labels and those of the runs."""
    inner = model.estimator_
    for views in views_in_memory(batch_views(inner, X, present, reset=False)):
        runs = model._rule.assignments(views)
        graphs = joined_graph(runs, model.n_clusters_)
        Z, _, labels = add_batch(model, graphs, inner.beta, inner.gamma, inner.half_life)
        model._rule = replace(model._rule, consensus=Z)
        yield labels, runs


class UpdatedEstimator(PlacedEstimator):
    """The part of OMCAL and OCAL for streams."""

    _recent: Reference | None = None  # samples since the last comparison
    _next_look: float = 0.0  # length of the stream at the next comparison with the last fit
    _n_fitted: int = 0  # rows of the reservoir at the last fit
    _strangers: Strangers | None = None
    _folded: Any = None  # anchors folded into a product, by types of the views; copies lack them

    _fit_at: ClassVar[Callable[..., bool]]
    _set_rule: ClassVar[Callable[..., None]]

    def _require_host(self) -> None:
        """Refuse options of places that do not support streams."""
        given = {"client": self.client, "group": self.group, "checkpoint": self.checkpoint}
        given["device"] = None if self.device == "cpu" else self.device
        listed = [f"{name}={value!r:.50}" for name, value in given.items() if value is not None]
        if listed:
            raise ValueError(
                f"partial_fit works in the memory of this process; leave out {', '.join(listed)}, "
                "or use fit."
            )

    @all_or_nothing
    def _partial_fit(self, X: ViewsLike, present: PresentLike | None) -> None:
        first = not hasattr(self, "_rule")
        if first:
            self._choose_number(self, X, present)
        views = batch_views(self, X, present, reset=first, fill=first)
        if first:
            self._check_views(views)
        try:
            labels = [self._add_batch(block) for block in views_in_memory(views)]
        except MissingValuesError:  # found in the graphs, before any change
            views = batch_views(self, X, present, reset=False)
            labels = [self._add_batch(block) for block in views_in_memory(views)]
        self.labels_: Array = np.concatenate(labels)
        self._graphs = None
        if first:
            self.doubts_ = Diagnostics(about_missing(self))
            warn(self)

    def _add_batch(self, views: Views) -> Array:
        """Add a batch in memory; return its labels."""
        if not hasattr(self, "_rule"):
            self._reservoir: Reservoir = self._new_reservoir(views).added(views)
            self._refit(None)
            n = len(self._reservoir)  # the sample contains all rows of the batch, unless it is full
            return self.labels_ if n == views.n else np.asarray(self._rule.labels(views))
        kept: Reservoir | None = getattr(self, "_reservoir", None)
        # Compiled code saves little per batch, so it is loaded for long streams only.
        compiled = compiled_pays(views.n if kept is None else max(views.n, kept.n_seen // 8))
        graphs = self._batch_graphs(views, compiled)
        Z, F, labels = add_batch(self, graphs, self.beta, self.gamma, self.half_life)
        self._set_rule(Predictor(self._rule.learned, Z))
        if self._look_at_strangers(views, F):
            self._recent, graphs = None, self._batch_graphs(views, compiled)
            labels = np.asarray(self._rule.labels(views))
        if kept is not None:
            kept = self._reservoir = kept.added(views)
            recent = Reference.of(graphs, labels, self._rule.consensus.G)
            recent = self._recent = recent if self._recent is None else self._recent + recent
            if kept.n_seen >= self._next_look:
                self._recent, self._next_look = None, kept.next_comparison(self.half_life)
                filling = not kept.full or 2 * self._n_fitted < len(kept)
                if filling or self._moved(recent):
                    self._refit(self._rule.labels(kept.views))
                    return np.asarray(self._rule.labels(views))
        return labels

    def _look_at_strangers(self, views: Views, F: Array) -> bool:
        """Keep the strangers of a batch; return whether a group of them became a cluster.

        While the sample of a stream is not full, fits to the sample find new clusters.
        """
        kept: Any = getattr(self, "_reservoir", None)
        if self.outlier_threshold_ is None or (kept is not None and not kept.full):
            return False
        strange = typicality(F) < self.outlier_threshold_
        if views.present is not None:
            strange &= views.present.all(axis=1)
        if strange.any():
            known = Strangers(seed=0) if self._strangers is None else self._strangers
            self._strangers = known.added(taken(views, np.flatnonzero(strange)))
        if self._strangers is None or not self._strangers.due():
            return False
        assert self._strangers.views is not None
        others = (lambda: views) if kept is None else (lambda: kept.views)
        group = stable_group(self, self._strangers.views, others)
        if group is None:
            return False
        text = f"{group.n} samples that belong to no cluster form a stable group"
        if not self.grow:
            warnings.warn(
                f"{text}; partial_fit makes it cluster {self.n_clusters_} with grow=True.",
                UserWarning,
                stacklevel=2,
            )
            return False
        grow(self, group)
        self._strangers = None
        tell("%s, now cluster %d", text, self.n_clusters_ - 1, shown=self.verbose > 0)
        return True

    def _batch_graphs(self, views: Views, compiled: bool) -> AnchorGraphs:
        """Return the graphs of a batch; anchors are folded into products once per data type."""
        learned, kinds = self._rule.learned, (compiled, *((v.dtype, v.sparse) for v in views))
        how: Any = learned.scalings, learned.anchors
        if self._folded is None or self._folded[0] is not learned or self._folded[1] != kinds:
            with one_blas_thread():
                found = list(folded_anchors(views, *how, compiled=compiled))
            self._folded = learned, kinds, found
        how += (learned.n_neighbors,)
        return anchor_graphs(views, *how, compiled=compiled, distances=self._folded[2])

    def _new_reservoir(self, views: Views) -> Reservoir:
        """Return an empty reservoir for a stream that begins with the given views."""
        m = self.n_anchors or default_n_anchors(10**9, self.n_clusters_)
        seed = self.random_state if isinstance(self.random_state, int) else 0
        # Numbers of any type count as float64, so that the sample does not depend on the type.
        sizes = (replace(ViewSize.of(view), dtype=np.dtype("f8")).row_bytes for view in views)
        how = (self.half_life, seed, float(sum(sizes)))
        return Reservoir(max(m, self._resolve_n_anchors(views.n)), *how)

    def _moved(self, recent: Reference) -> bool:
        """Whether recent samples are tied to other anchors than those of the last fit."""
        old = self._reference
        return old is None or bool((compare_views(old, recent)[1] <= _REFIT_RATE).any())

    def _refit(self, old: Array | None) -> None:
        """Fit to the sample of the stream; clusters keep the numbers of earlier labels."""
        kept, names = self._reservoir, self._cluster_names
        assert kept.views is not None
        n = kept.n_seen if self._sums is None else self._sums.n
        place = place_for(kept.views, PlaceRequest())
        settings = self._graph_settings(place)
        with small_blas(settings.n_anchors):
            self._fit_at(place, settings, FitMonitor(self, None, None), old, described=False)
        if self._sums is not None:
            self._sums = self._sums * (n / self._sums.n)
        self._cluster_names = names
        self._recent, self._next_look = None, kept.next_comparison(self.half_life)
        self._n_fitted = len(kept)
