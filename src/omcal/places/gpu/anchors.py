"""Anchors on the device: the joint k-means of `method.anchors` and `method.span`, for all runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.method import anchors as host_anchors
from omcal.method import kmeans, span
from omcal.method.scaling import Scaling
from omcal.places.gpu.devices import block_entries, wide_type
from omcal.places.gpu.kmeans import lloyd, span_basis
from omcal.places.gpu.scaling import scaled_rows
from omcal.places.gpu.views import DeviceViews

_ENTRIES_TOGETHER = 1 << 28  # in the samples of runs whose anchors are computed together

# Anchors of a run, (m, d_v) per view: on the host, and also on the device if computed there.
Chosen = tuple[list[Array], list[Tensor] | None]


def choose_for_runs(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    method: Any,
    random_states: Sequence[np.random.RandomState],
) -> list[Chosen]:
    """Do `omcal.method.anchors.choose_for_runs` on the device, from the same random numbers.

    The function of the host is used for sparse views (their sample is never made dense), for views
    with absent samples, and for given anchors.
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
    """Return the anchors of runs with separate rows, (runs, size), or all with all rows."""
    X = scaled_rows(views, scalings, None if rows is None else rows.ravel())
    X = X.unflatten(0, (1 if rows is None else len(rows), -1))
    wide, mean = wide_type(views.device), None
    if not host_anchors.at_mean(views.host, scalings):
        # Far from the origin, distances would be rounding error.
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
    """Use the distinct rows as anchors if there are no more of them; see `method.anchors`."""
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
        ([part[run] for part in on_host], [part[run] for part in there])
        for run in range(len(points))
    ]


def first_draws(
    views: DeviceViews, n_anchors: int, random_states: Sequence[np.random.RandomState]
) -> tuple[Array | None, Array, Array]:
    """Draw what `anchors_in_span` needs first, whatever the values of the views.

    These are the rows that all runs share (None: all), numbers of some of them, and a random
    direction for each of the latter.
    """
    rows, state = span.shared_rows(views.n, n_anchors, random_states), random_states[0]
    n = views.n if rows is None else len(rows)
    size = min(kmeans.PART_PER_ANCHOR * n_anchors, n)
    part = host_anchors.draw_rows(n, size, state)
    number = min(n_anchors, size, sum(views.host.widths))
    return rows, part, span.random_directions(size, number, state)


def anchors_in_span(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    random_states: Sequence[np.random.RandomState],
    rows: Array | None,
    part: Array,
    start: Array,
) -> list[Chosen]:
    """Do `omcal.method.span.anchors_in_span` for dense views, after `first_draws`.

    Returns the anchors of each run, on the host and on the device; the host only draws numbers.
    """
    X = scaled_rows(views, scalings, rows)
    mean, E = _main_directions(X, part, start)
    X -= mean
    drawn = [span.own_rows(len(X), n_anchors, random_state) for random_state in random_states]
    own = torch.from_numpy(np.stack(drawn)).to(X.device)
    points = (X @ E)[own]
    n_trials = kmeans.trials(points.shape[1], n_anchors, thorough=False)
    centres = lloyd(points, n_anchors, True, n_trials, random_states)
    wide = wide_type(X.device)
    anchors = _means(X, own, points, centres, centres @ E.T).to(wide) + mean.to(wide)
    by_view = _near_one_span(anchors, views.host.widths, n_anchors, random_states[0])
    points = torch.cat(by_view, dim=1).unflatten(0, (len(own), n_anchors))
    if len(own) == 1:
        _take_distinct(points, (X + mean)[None], None)
    return by_run(points, views.host.widths)


def _main_directions(X: Tensor, some: Array, start: Array) -> tuple[Tensor, Tensor]:
    """Return the mean of some rows, and the directions of their largest variance."""
    part = X.index_select(0, torch.from_numpy(some).to(X.device))
    mean = part.mean(dim=0, dtype=wide_type(X.device)).to(X.dtype)
    part = part - mean
    size = torch.linalg.vector_norm(part, dim=1).max()
    (E,) = _powers([part], [start], [size])
    return mean, E


def _means(X: Tensor, own: Tensor, points: Tensor, centres: Tensor, starts: Tensor) -> Tensor:
    """Return the cluster means of all runs, stacked; empty clusters stay at their start.

    A run has its own rows of X, by their numbers and as points that are next to some centre.
    """
    n, (runs, m, _) = len(X), centres.shape
    found = []
    for some in row_blocks(runs, max(1, block_entries(X.device) // (n * m))):
        lengths = centres[some].square().sum(dim=2)[:, None]
        nearest = torch.baddbmm(lengths, points[some], centres[some].mT, alpha=-2).argmin(dim=2)
        first = m * torch.arange(len(nearest), device=X.device)[:, None]
        member = X.new_zeros((len(nearest) * m, n))
        member[(nearest + first).flatten(), own[some].flatten()] = 1
        counts = member.sum(dim=1, keepdim=True)
        found.append(torch.where(counts > 0, member @ X / counts, starts[some].flatten(0, 1)))
    return torch.cat(found)


def _near_one_span(
    means: Tensor, widths: Sequence[int], n_anchors: int, random_state: np.random.RandomState
) -> list[Tensor]:
    """Do `omcal.method.span.anchors_of_means`: return the points of each view."""
    by_view = means.split(list(widths), dim=1)
    # With fewer features than anchors, the means of a run span the whole space.
    wide = [points for points in by_view if n_anchors < points.shape[1]]
    origins = [points.mean(dim=0) for points in wide]
    away = [points - origin for points, origin in zip(wide, origins, strict=True)]
    sizes = [part.square().sum(dim=1).mean().sqrt() for part in away]
    inside, lost = [], []
    starts = [span.random_directions(len(part), n_anchors, random_state) for part in away]
    directions = _powers(away, starts, sizes)
    for origin, part, size, E in zip(origins, away, sizes, directions, strict=True):
        Z = part @ E
        lost.append(1 - (Z / size).square().sum() / (part / size).square().sum())
        inside.append(origin + Z @ E.T)
    if lost and bool((torch.stack(lost) > span.MOST_LOST).any()):
        return [points.contiguous() for points in by_view]
    near = iter(inside)
    return [
        next(near) if n_anchors < points.shape[1] else points.contiguous() for points in by_view
    ]


def _powers(
    parts: Sequence[Tensor], starts: Sequence[Array], sizes: Sequence[Tensor]
) -> list[Tensor]:
    """Do `omcal.method.span._powers` for each X, from random directions.

    `sizes` are typical lengths of the rows, which keep the powers in range.
    """
    if not parts:
        return []
    first, *steps = span.row_steps(len(parts[0]), starts[0].shape[1])  # all have as many rows
    some = [X[::first] for X in parts]
    shares = [torch.where(size > 0, size, 1) for size in sizes]
    given = zip(some, starts, shares, strict=True)
    found = [X.T @ (torch.from_numpy(R).to(X) / size) for X, R, size in given]
    for step in steps:
        given = zip([X[::step] for X in parts], found, shares, strict=True)
        found = _orthonormal([X.T @ ((X @ E) / size) for X, E, size in given])
    return found


def _orthonormal(parts: Sequence[Tensor]) -> list[Tensor]:
    """Return orthonormal columns with the same span, by a Cholesky factor for all parts at once."""
    wide = [P.to(wide_type(P.device)) for P in parts]
    bases = span_basis(torch.stack([P.T @ P for P in wide]), wide[0].dtype)
    return [(P @ B).to(part) for part, P, B in zip(parts, wide, bases, strict=True)]
