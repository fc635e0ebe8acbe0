"""Anchors on the device: the joint k-means of `method.anchors`, of all runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.method import anchors as host_anchors
from omcal.method import kmeans
from omcal.method.scaling import Scaling
from omcal.places.gpu.devices import wide_type
from omcal.places.gpu.distances import DeviceAnchors
from omcal.places.gpu.kmeans import lloyd
from omcal.places.gpu.scaling import scaled_rows
from omcal.places.gpu.views import DeviceViews

_ENTRIES_TOGETHER = 1 << 28  # of the samples of runs whose anchors are found at the same time

Chosen = tuple[list[Array], DeviceAnchors | None]  # anchors of a run: on the host and the device


def choose_for_runs(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    method: Any,
    random_states: Sequence[np.random.RandomState],
) -> list[Chosen]:
    """Do `omcal.method.anchors.choose_for_runs` on the device, from the same random numbers.

    Sparse views go to the host's function, as their sample is never made dense, and so do views
    that samples are absent from, and anchors that are given.
    """
    given = (scalings, n_anchors, method)
    if views.sparse or views.host.present is not None or not isinstance(method, str):
        found = host_anchors.choose_for_runs(views.host, *given, random_states)
        return [(anchors, None) for anchors in found]
    n, d = views.n, sum(views.host.widths)
    samples = [host_anchors.sample_rows(n, n_anchors, method, state) for state in random_states]
    if method == "random":
        points = [scaled_rows(views, scalings, rows) for rows in samples]
        return by_run(torch.stack(points).to(wide_type(views.device)), views.host.widths)
    if samples[0] is None:
        return _choose_together(views, *given, random_states, None)
    size = len(samples[0])
    orders = [kmeans.looked_at_in_order(size, n_anchors, state) for state in random_states]
    chosen: list[Chosen] = []
    for some in row_blocks(len(samples), max(1, _ENTRIES_TOGETHER // (size * d))):
        both = zip(samples[some], orders[some], strict=True)
        rows = np.stack([sample[order] for sample, order in both])  # type: ignore[index]
        chosen += _choose_together(views, *given, random_states[some], rows)
    return chosen


def _choose_together(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    method: str,
    random_states: Sequence[np.random.RandomState],
    rows: Array | None,
) -> list[Chosen]:
    """Return the anchors of runs that each see their own rows, (runs, size), or all see all."""
    X = scaled_rows(views, scalings, None if rows is None else rows.ravel())
    X = X.unflatten(0, (1 if rows is None else len(rows), -1))
    wide, mean = wide_type(views.device), None
    if not host_anchors.at_mean(views.host, scalings):
        # Distances far from the origin would drown in rounding.
        mean = X.mean(dim=1, keepdim=True, dtype=wide).to(X.dtype)
        X = X - mean
    thorough, (n, d) = method == "kmeans-full", X.shape[1:]
    n_trials = kmeans.trials(n, n_anchors, thorough=thorough)
    few = kmeans.start_rows(n, d, n_anchors, thorough) if rows is None else None
    points = lloyd(X, n_anchors, rows is not None, n_trials, random_states, few)
    _take_distinct(points, X, rows)
    points = points.to(wide)
    return by_run(points if mean is None else points + mean.to(wide), views.host.widths)


def _take_distinct(points: Tensor, X: Tensor, rows: Array | None) -> None:
    """Make the distinct rows the anchors where there are no more; see `method.anchors`."""
    m = int(points.shape[1])
    generator = torch.Generator(X.device).manual_seed(0)
    direction = torch.rand(X.shape[2], generator=generator, dtype=X.dtype, device=X.device)
    keys = (X[:, : 4 * m] @ direction).sort(dim=1).values
    numbers = (keys.diff(dim=1) != 0).sum(dim=1).tolist()
    for group, number in enumerate(numbers):
        if number < m:
            given = None if rows is None else rows[group]
            few = host_anchors.distinct_rows(X[group].cpu().numpy(), m, given)
            if few is not None:
                some = X[group, torch.from_numpy(np.resize(few, m)).to(X.device)]
                points[group if len(X) > 1 else slice(None)] = some


def by_run(points: Tensor, widths: Sequence[int]) -> list[Chosen]:
    """Return the anchors of each run, one array per view, from points (runs, m, features)."""
    whole = points.cpu().numpy().astype(np.float64, copy=False)
    on_host = np.split(whole, np.cumsum(widths)[:-1], axis=2)
    there = points.split(list(widths), dim=2)
    return [
        ([part[run] for part in on_host], DeviceAnchors([part[run] for part in there]))
        for run in range(len(points))
    ]
