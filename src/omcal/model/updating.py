"""`partial_fit`: update a fitted model by batches, or fit a stream from its first batch."""

from __future__ import annotations

import warnings
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import one_blas_thread, small_blas
from omcal.method.graph import AnchorGraphs, anchor_graphs, folded_anchors
from omcal.method.new_samples import ConsensusPredictor, Predictor, indicate
from omcal.method.settings import default_n_anchors
from omcal.model.certainty import typicality
from omcal.model.cost import ViewSize
from omcal.model.doubts import Diagnostics, about_missing, warn
from omcal.model.drift import Reference, compare_views
from omcal.model.preparation import PlacedEstimator
from omcal.model.progress import FitMonitor, all_or_nothing, tell
from omcal.model.stream import (
    BLOCK,
    Reservoir,
    Strangers,
    StreamSums,
    grow,
    stable_group,
    taken,
    weighted_graph,
)
from omcal.model.subset_fits import views_in_memory
from omcal.places.choose import PlaceRequest, place_for
from omcal.places.team import SOLO, Team, facts_of, team_of
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.missing import fill_missing
from omcal.views.present import check_present
from omcal.views.reading import read_views
from omcal.views.view import MissingValuesError, Views

_REFIT_RATE = 0.001  # rate of unnecessary refits, per comparison and view


def add_batch(
    model: Any,
    graphs: AnchorGraphs,
    beta: float,
    gamma: float,
    half_life: float | None,
    team: Team = SOLO,
    least: float = 0.0,
) -> tuple[Any, Array, Array]:
    """Add samples to the sums; return the graph, after a step for `least` samples, F and labels."""
    if model._sums is None:
        raise ValueError(
            "partial_fit continues the sums of a fit, which this model does not have: it is a run "
            "of a Consensus on a device, or saved by an earlier version. Fit it again, or begin "
            "with partial_fit."
        )
    Z = model._rule.consensus
    A = weighted_graph(graphs, Z.alpha) if graphs.n <= BLOCK else None
    U, labels = indicate(Z, graphs, compiled=compiled_pays(graphs.n), A=A)
    F = np.maximum(U, 0)

    def sums() -> StreamSums:
        return StreamSums.of(Z, graphs, F) if A is None else StreamSums.of_rows(A, F)

    new = team.added(sums)
    model._sums = model._sums.decayed(round(new.n), half_life) + new
    with small_blas(graphs.n_anchors):
        return Z if new.n < least else model._sums.step(Z, beta, gamma), F, labels


def read_batch(
    model: Any, X: ViewsLike, present: PresentLike | None, *, first: bool, fill: bool
) -> tuple[Views, Team]:
    """Read a batch of a stream; return its views and the processes that hold parts of it.

    Missing cells are filled, unless values in memory are trusted. Processes agree on the batch and
    on the model before they add it.
    """
    shared = model.group is not None
    if first and shared:
        place = model._place(X, present, fill=True)
        _require_read(place.views, shared)
        return place.views, place.team
    team = team_of(model.group)
    with team.reporting_failures():
        how: Any = {"min_samples": 0 if shared else 1, "home": "host" if fill or shared else "any"}
        views = read_views(model, X, reset=first, present=present, **how)
        _require_read(views, shared)
        if views.stored:  # values in memory were looked at already
            views = fill_missing(model, views, first, np.asarray)
        check_present(views.present)
        if first:
            model._check_views(views)
    if shared:
        basis = f"{zlib.crc32(model._rule.consensus.G.tobytes()):08x}"
        facts = {"half_life": repr(model.half_life), "the checksum of the model": basis}
        team.check_same(facts_of(views) | facts, views.n, 1)
    return views, team


def _require_read(views: Views, shared: bool) -> None:
    """Refuse views that a batch cannot be read from."""
    if views.home == "cluster":
        raise ValueError(
            "partial_fit takes batches in the memory or in files of this machine, and X is in "
            "Dask; pass computed blocks of rows, or use fit."
        )
    if shared and views.stored:
        raise ValueError(
            "partial_fit with group= takes batches in memory, and X is in files; read the rows of "
            "each batch, or use fit."
        )


def joint_batches(
    model: Any, X: ViewsLike, present: PresentLike | None
) -> Iterator[tuple[Array, Array]]:
    """Add a batch to the joint sums of a Consensus; yield its labels, and those of each run."""
    inner, c, n_runs = model.estimator_, model.n_clusters_, len(model._rule.runs)
    whole, team = read_batch(inner, X, present, first=False, fill=True)
    for views in views_in_memory(whole):
        graphs = graphs_by_device(model._rule, views, inner.device)
        graphs = model._rule.graphs(views) if graphs is None else graphs
        Z, _, labels = add_batch(model, graphs, inner.beta, inner.gamma, inner.half_life, team)
        model._rule = replace(model._rule, consensus=Z)
        # The first entry of each run is its label, see `joined_graph`.
        firsts = graphs.indices[:, 0, :: graphs.indices.shape[2] // n_runs].astype(np.intp)
        yield labels, (firsts - c * np.arange(n_runs)).T


def graphs_by_device(
    rule: Predictor | ConsensusPredictor, views: Views, device: str
) -> AnchorGraphs | None:
    """Return the graphs that a device builds; None for work on the host."""
    if device == "cpu" and views.home != "device":
        return None
    graphs: AnchorGraphs = place_for(views, PlaceRequest(device)).apply(rule, "graphs")
    return graphs


class UpdatedEstimator(PlacedEstimator):
    """The part of OMCAL and OCAL for streams."""

    _recent: Reference | None = None  # samples since the last comparison
    _next_look: float = 0.0  # length of the stream at the next comparison with the last fit
    _n_fitted: int = 0  # rows of the reservoir at the last fit
    _strangers: Strangers | None = None
    _folded: Any = None  # anchors folded into a product, by types of the views; copies lack them

    _fit_at: ClassVar[Callable[..., bool]]
    _set_rule: ClassVar[Callable[..., None]]

    def _require_updatable(self) -> None:
        """Refuse options that have no meaning for a stream."""
        given = {"client": self.client, "checkpoint": self.checkpoint}
        listed = [f"{name}={value!r:.50}" for name, value in given.items() if value is not None]
        if listed:
            raise ValueError(
                f"partial_fit does not support {' and '.join(listed)}; leave that out, or use fit."
            )

    @all_or_nothing
    def _partial_fit(self, X: ViewsLike, present: PresentLike | None) -> None:
        first = not hasattr(self, "_rule")
        if first:
            self._choose_number(self, X, present)
        views, team = read_batch(self, X, present, first=first, fill=first)
        try:
            labels = [self._add_batch(block, team) for block in views_in_memory(views)]
        except MissingValuesError:  # found in the graphs, before any change
            views, team = read_batch(self, X, present, first=False, fill=True)
            labels = [self._add_batch(block, team) for block in views_in_memory(views)]
        self.labels_: Array = np.concatenate(labels)
        self._graphs = None
        if first:
            self.doubts_ = Diagnostics(about_missing(self, team))
            warn(self)

    def _add_batch(self, views: Views, team: Team) -> Array:
        """Add a batch in memory; return its labels."""
        if not hasattr(self, "_rule"):
            n = int(team.total(np.array(views.n)))
            empty = team.on_leader(lambda: self._new_reservoir(views, n))
            self._reservoir: Reservoir = empty.added(views, team)
            self._refit(None, team)
            if self.device != "cpu" or len(self._reservoir) < n:
                return self._labels(views, compiled_pays(views.n))
            return self.labels_[team.first_row : team.first_row + views.n]  # those of the batch
        kept: Reservoir | None = getattr(self, "_reservoir", None)
        # Compiled code saves little per batch, so it is loaded for long streams only.
        compiled = compiled_pays(views.n if kept is None else max(views.n, kept.n_seen // 8))
        graphs = self._batch_graphs(views, compiled)
        # A step takes 7 % of the time of 1000 samples, and less than a tenth of the sums is new.
        least = 0.0 if kept is None else self._next_look - kept.n_seen
        Z, F, labels = add_batch(self, graphs, self.beta, self.gamma, self.half_life, team, least)
        self._set_rule(Predictor(self._rule.learned, Z))
        if self._look_at_strangers(views, F, team):
            self._recent, graphs = None, self._batch_graphs(views, compiled)
            labels = indicate(self._rule.consensus, graphs)[1]
        if kept is not None:
            kept = self._reservoir = kept.added(views, team)
            basis = self._rule.consensus.G
            recent = team.added(lambda: Reference.of(graphs, None, basis))
            recent = self._recent = recent if self._recent is None else self._recent + recent
            if kept.n_seen >= self._next_look:
                self._recent, self._next_look = None, kept.next_comparison(self.half_life)
                filling = not kept.full or 2 * self._n_fitted < len(kept)
                if filling or self._moved(recent):
                    self._refit(self._rule.labels(kept.views), team)
                    return self._labels(views, compiled)
        return labels

    def _on_leader(self, team: Team, change: Callable[[], object]) -> None:
        """Change this model on the leader; the other processes get the attributes that changed."""

        def work() -> dict[str, Any]:
            before = dict(vars(self))
            change()
            self._graphs = None
            return {k: v for k, v in vars(self).items() if before.get(k, self) is not v}

        self.__dict__.update(team.on_leader(work))

    def _look_at_strangers(self, views: Views, F: Array, team: Team) -> bool:
        """Keep the strangers of a batch; return whether a group of them became a cluster.

        While the sample of a stream is not full, fits to the sample find new clusters.
        """
        kept: Any = getattr(self, "_reservoir", None)
        if self.outlier_threshold_ is None or (kept is not None and not kept.full):
            return False
        # NumPy is slow along short rows.
        strange = typicality(np.asfortranarray(F)) < self.outlier_threshold_
        if views.present is not None:
            strange &= views.present.all(axis=1)
        if team.total(np.count_nonzero(strange, keepdims=True)).any():
            known = self._strangers or Strangers()
            self._strangers = known.added(taken(views, np.flatnonzero(strange)), team)
        if self._strangers is None or not self._strangers.due():
            return False
        assert self._strangers.views is not None
        others = (lambda: views) if kept is None else (lambda: kept.views)
        strangers = self._strangers.views
        group = team.on_leader(lambda: stable_group(self, strangers, others))
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
        self._on_leader(team, lambda: grow(self, group))
        self._strangers = None
        tell("%s, now cluster %d", text, self.n_clusters_ - 1, shown=self.verbose > 0)
        return True

    def _batch_graphs(self, views: Views, compiled: bool) -> AnchorGraphs:
        """Return the graphs of a batch; anchors are folded into products once per data type."""
        graphs = graphs_by_device(self._rule, views, self.device)
        if graphs is not None:
            return graphs
        learned, kinds = self._rule.learned, (compiled, *((v.dtype, v.sparse) for v in views))
        how: Any = learned.scalings, learned.anchors
        if self._folded is None or self._folded[0] is not learned or self._folded[1] != kinds:
            with one_blas_thread():
                found = list(folded_anchors(views, *how, compiled=compiled))
            self._folded = learned, kinds, found
        how += (learned.n_neighbors,)
        return anchor_graphs(views, *how, compiled=compiled, distances=self._folded[2])

    def _labels(self, views: Views, compiled: bool) -> Array:
        return indicate(self._rule.consensus, self._batch_graphs(views, compiled))[1]

    def _new_reservoir(self, views: Views, n: int) -> Reservoir:
        """Return an empty reservoir for a stream that begins with n samples, some in `views`."""
        m = self.n_anchors or default_n_anchors(10**9, self.n_clusters_)
        seed = self.random_state if isinstance(self.random_state, int) else 0
        # Numbers of any type count as float64, so that the sample does not depend on the type.
        sizes = (replace(ViewSize.of(view), dtype=np.dtype("f8")).row_bytes for view in views)
        how = (self.half_life, seed, float(sum(sizes)))
        return Reservoir(max(m, self._resolve_n_anchors(n)), *how)

    def _moved(self, recent: Reference) -> bool:
        """Whether recent samples are tied to other anchors than those of the last fit."""
        old = self._reference
        return old is None or bool((compare_views(old, recent)[1] <= _REFIT_RATE).any())

    def _refit(self, old: Array | None, team: Team) -> None:
        """Fit to the sample of the stream; clusters keep the numbers of earlier labels."""
        self._on_leader(team, lambda: self._fit_to_reservoir(old))

    def _fit_to_reservoir(self, old: Array | None) -> None:
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
