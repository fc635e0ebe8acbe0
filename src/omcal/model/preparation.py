"""Preparation of a fit: read the views, choose their place, estimate the cost."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, ClassVar, Self

import numpy as np
from sklearn.utils.validation import check_is_fitted

from omcal.machine.memory import parse_bytes
from omcal.machine.versions import versions
from omcal.method.scaling import check_scale
from omcal.method.settings import GraphSettings, resolve_n_anchors
from omcal.method.starts import check_init
from omcal.model.checkpoint import describe_value
from omcal.model.clusterer import Clusterer
from omcal.model.cost import Estimate, ViewSize
from omcal.model.parameters import SharedParameters
from omcal.places.base import Place
from omcal.places.choose import PlaceRequest, place_for
from omcal.places.team import facts_of, team_of
from omcal.views.like import PresentLike, ViewsLike
from omcal.views.missing import count_missing, fill_missing
from omcal.views.present import check_present, require_enough
from omcal.views.reading import read_views
from omcal.views.view import MissingValuesError, Views


class PlacedEstimator(Clusterer, SharedParameters):
    """The part of OMCAL and OCAL that prepares a fit."""

    _single_view: ClassVar[bool] = False
    _n_grown: int = 0  # clusters that partial_fit has added

    def _new_run(self) -> Self:
        return self

    def _require_as_fitted(self) -> None:
        """Refuse parameters set after the fit that an update or a file would contradict."""
        values = {"n_clusters": (self._wanted, self.n_clusters_)}
        values["n_neighbors"] = self.n_neighbors, self._rule.learned.n_neighbors
        for name, (now, then) in values.items():
            if now != then:
                raise ValueError(f"{name}={now} was set after a fit with {then}; set it back.")

    def _telling(self) -> AbstractContextManager[None]:
        """Report an error in the block to the other ranks of a group, which have not met yet."""
        return team_of(self.group).reporting_failures()

    def _at_place(
        self,
        work: Callable[[Place], bool],
        X: ViewsLike,
        present: PresentLike | None,
        **more: Any,
    ) -> bool:
        """Call `work` with the place of the views; again with filled cells if some are missing.

        Ranks must agree on this, so they count missing cells before the work.
        """
        try:
            return work(self._place(X, present, fill=self.group is not None, **more))
        except MissingValuesError:
            return work(self._place(X, present, fill=True, **more))

    def _place(
        self, X: ViewsLike, present: PresentLike | None, *, fill: bool = False, **more: Any
    ) -> Place:
        """Return the place of the views; refuse processes with other parameters or `more`."""
        team = team_of(self.group)
        with team.reporting_failures():
            views = self._read(X, present)
            counted = count_missing(views) if fill else None
            if fill and self.group is None:
                views = fill_missing(self, views, True, team.total, counted)
            place = place_for(views, self._asked(), team)
        local = {"device", "memory_limit", "scratch_dir", "group", "verbose"}
        given = {k: v for k, v in self.get_params().items() if k not in local} | more
        given |= {f"the version of {name}": version for name, version in versions().items()}
        given["the columns of X"] = ", ".join(map(str, getattr(self, "feature_names_in_", [])))
        facts = {name: describe_value(value) for name, value in given.items()}
        place.n = n = team.check_same(facts_of(place.views) | facts, place.views.n)
        if fill and self.group is not None:
            # Sums over all ranks; by now they are known to have the same features.
            of_all = team.first_row, n
            views = fill_missing(self, views, True, team.total, counted, of_all)
            place = place_for(views, self._asked(), team)
            place.n = n
        return place

    def _read(self, X: ViewsLike, present: PresentLike | None) -> Views:
        views = read_views(self, X, min_samples=2 if self.group is None else 0, present=present)
        self._check_views(views)
        check_present(views.present)
        return views

    def _check_views(self, views: Views) -> None:
        """Refuse several views for OCAL, and a scale for an unknown view."""
        if self._single_view and len(views) > 1:
            raise ValueError(
                f"{type(self).__name__} takes one view and X holds {len(views)}; use OMCAL, or "
                "pass one of them."
            )
        check_scale(self.scale, views.names)

    def _place_of_new(self, X: ViewsLike, present: PresentLike | None, fill: bool = False) -> Place:
        """Return the place of new samples; `memory_limit` and `client` are for `fit` alone."""
        check_is_fitted(self)
        total = np.asarray if fill else None
        views = read_views(self, X, reset=False, present=present, fill=total)
        check_present(views.present)
        return place_for(views, PlaceRequest("cpu" if views.home == "cluster" else self.device))

    def _resolve_n_anchors(self, n: int) -> int:
        return resolve_n_anchors(n, self._wanted, self.n_neighbors, self.n_anchors, self.anchors)

    def _graph_settings(self, place: Place) -> GraphSettings:
        m = self._resolve_n_anchors(place.n)
        views, c, k = place.views, self.n_clusters_, int(self.n_neighbors)
        here = np.full(len(views), views.n) if views.present is None else views.present.sum(axis=0)
        require_enough(views.names, place.team.total(here), m)
        check_init(self.init, m, c)
        return GraphSettings(c, m, k, self.scale, self.anchors, bool(self.accelerate))

    def _asked(self) -> PlaceRequest:
        limit = self.memory_limit
        try:
            n_bytes = None if limit is None else parse_bytes(limit)
        except ValueError as error:
            raise ValueError(f"memory_limit: {error}") from error
        return PlaceRequest(self.device, n_bytes, self.scratch_dir, self.client, self.group)

    def _require_room(
        self, place: Place, settings: GraphSettings, title: str, n_runs: int = 1
    ) -> None:
        """Refuse a fit that needs more memory than is available."""
        n, sizes = place.views.n, tuple(map(ViewSize.of, place.views))
        expected = self._estimate(n, sizes, n_runs, settings.n_anchors)
        place.require_room(expected.bytes, f"{title} on {n} samples")

    def _estimate(
        self, n: int, sizes: tuple[ViewSize, ...], n_runs: int, n_anchors: int | None = None
    ) -> Estimate:
        c, k, m = self._wanted, int(self.n_neighbors), n_anchors or self._resolve_n_anchors(n)
        how = self.anchors if isinstance(self.anchors, str) else "given"
        asked = self._asked()
        return Estimate(
            *(n, sizes, m, c, k, how, self._n_starts, int(self.max_iter)),
            memory_limit=asked.memory_limit,
            on_cluster=asked.client is not None,
            device=self.device,
            n_runs=n_runs,
        )

    @property
    def _wanted(self) -> int:
        """Return the given number of clusters, or with "auto" the number that `fit` chose."""
        if self.n_clusters != "auto":
            return int(self.n_clusters) + self._n_grown
        if not hasattr(self, "n_clusters_"):
            raise ValueError('n_clusters="auto" is chosen by fit; give a number for an estimate.')
        return self.n_clusters_

    @property
    def _n_starts(self) -> int:
        return int(self.n_init) if isinstance(self.init, str) else 1
