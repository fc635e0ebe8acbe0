"""Anchors of several runs in one span, on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import map_blocks, row_blocks
from omcal.machine.torch import Tensor, torch_dtype
from omcal.method import kmeans, span
from omcal.method.anchors import draw_rows
from omcal.method.scaling import Scaling
from omcal.places.gpu.anchors import lloyd
from omcal.places.gpu.devices import block_entries, wide_type
from omcal.places.gpu.distances import Found
from omcal.places.gpu.scaling import scale_rows
from omcal.places.gpu.views import DeviceViews


def anchors_in_span(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    random_states: Sequence[np.random.RandomState],
    rows: Array | None,
) -> list[tuple[list[Array], Found]]:
    """`omcal.method.span.anchors_in_span` of dense views, from the same random numbers.

    Of each run the anchors, on the host and here: the host is needed for draws only.
    """
    shared = slice(None) if rows is None else rows
    blocks = [
        scale_rows(view.take(shared), scaling)
        for view, scaling in zip(views, scalings, strict=True)
    ]
    X = torch.cat(blocks, dim=1).to(torch_dtype(views.dtype))
    del blocks
    mean, E = _main_directions(X, n_anchors, random_states[0])
    X -= mean
    drawn = map_blocks(
        lambda one: span.own_rows(len(X), n_anchors, random_states[one.start]),
        *(len(random_states), 1),
    )
    own = _numbers(np.stack(drawn), X)
    points = (X @ E)[own]
    n_trials = kmeans.trials(points.shape[1], n_anchors, thorough=False)
    centres = lloyd(points, n_anchors, True, n_trials, random_states)
    wide = wide_type(X.device)
    anchors = _means(X, own, points, centres, centres @ E.T).to(wide) + mean.to(wide)
    by_view = [
        part.unflatten(0, (len(own), n_anchors))
        for part in _near_one_span(anchors, views.host.widths, n_anchors, random_states[0])
    ]
    on_host = [part.cpu().numpy().astype(np.float64, copy=False) for part in by_view]
    return [
        ([part[b] for part in on_host], Found([part[b] for part in by_view]))
        for b in range(len(own))
    ]


def _main_directions(
    X: Tensor, n_anchors: int, random_state: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Mean of some of the rows, and directions in which they vary most."""
    size = min(kmeans.PART_PER_ANCHOR * n_anchors, len(X))
    part = X.index_select(0, _numbers(draw_rows(len(X), size, random_state), X))
    mean = part.mean(dim=0, dtype=wide_type(X.device)).to(X.dtype)
    part = part - mean
    size = torch.linalg.vector_norm(part, dim=1).max()
    return mean, _powers(part, min(n_anchors, *part.shape), size, random_state)


def _means(X: Tensor, own: Tensor, points: Tensor, centres: Tensor, starts: Tensor) -> Tensor:
    """Means of the clusters of each run, one run below the other; empty ones are at their start.

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
    """`omcal.method.span.anchors_of_means`: the points of each view."""
    by_view, inside, lost = means.split(list(widths), dim=1), [], []
    for points in by_view:
        origin = points.mean(dim=0)
        away, near = points - origin, points
        if n_anchors < points.shape[1]:
            size = away.square().sum(dim=1).mean().sqrt()
            E = _powers(away, n_anchors, size, random_state)
            Z = away @ E
            lost.append(1 - (Z / size).square().sum() / (away / size).square().sum())
            near = origin + Z @ E.T
        inside.append(near)
    far = bool(lost) and bool((torch.stack(lost) > span.MOST_LOST).any())
    return [part.contiguous() for part in (by_view if far else inside)]


def _powers(X: Tensor, n: int, size: Tensor, random_state: np.random.RandomState) -> Tensor:
    """Orthonormal columns that span XᵀX…XᵀX and random ones; rows of X are about of this size."""
    E = torch.from_numpy(span.random_directions(X.shape[1], n, random_state)).to(X)
    for _ in range(span.POWERS):
        E, _ = torch.linalg.qr(X.T @ ((X @ E) / torch.where(size > 0, size, 1)))
    return E


def _numbers(rows: Array, X: Tensor) -> Tensor:
    """Numbers of rows, beside them."""
    return torch.from_numpy(rows.astype(np.int64)).to(X.device)
