"""Anchors of several runs in one span, on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.torch import Tensor, torch_dtype
from omcal.method import kmeans, span
from omcal.method.anchors import draw_rows
from omcal.method.scaling import Scaling
from omcal.places.gpu.anchors import _lloyd, _nearest, _sums
from omcal.places.gpu.devices import wide_type
from omcal.places.gpu.scaling import scale_rows
from omcal.places.gpu.views import DeviceViews


def anchors_in_span(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    random_states: Sequence[np.random.RandomState],
    rows: Array | None,
) -> list[tuple[list[Array], span.InSpan | None]]:
    """`omcal.method.span.anchors_in_span` of dense views, from the same random numbers."""
    shared = slice(None) if rows is None else rows
    blocks = [
        scale_rows(view.take(shared), scaling)
        for view, scaling in zip(views, scalings, strict=True)
    ]
    X = torch.cat(blocks, dim=1).to(torch_dtype(views.dtype))
    del blocks
    mean, E = _main_directions(X, n_anchors, random_states[0])
    X -= mean
    coordinates = X @ E
    means = [_means(X, coordinates, E, n_anchors, state) for state in random_states]
    anchors = (torch.cat(means).to("cpu", torch.float64) + mean.to("cpu", torch.float64)).numpy()

    def powers(away: Array, start: Array, size: float) -> Array:
        there = (torch.from_numpy(a).to(X.device, wide_type(X.device)) for a in (away, start))
        found: Array = _powers(next(there), next(there), size).cpu().numpy().astype(np.float64)
        return found

    return span.anchors_of_means(anchors, views.host.widths, len(means), random_states[0], powers)


def _main_directions(
    X: Tensor, n_anchors: int, random_state: np.random.RandomState
) -> tuple[Tensor, Tensor]:
    """Mean of some of the rows, and directions in which they vary most."""
    size = min(kmeans.PART_PER_ANCHOR * n_anchors, len(X))
    part = _rows(X, draw_rows(len(X), size, random_state))
    mean = part.mean(dim=0, dtype=wide_type(X.device)).to(X.dtype)
    part = part - mean
    start = random_state.normal(size=(part.shape[1], min(n_anchors, *part.shape)))
    E = torch.from_numpy(start).to(X)
    largest = torch.linalg.vector_norm(part, dim=1).max()
    return mean, _powers(part, E, torch.where(largest > 0, largest, 1))


def _powers(X: Tensor, E: Tensor, size: Tensor | float) -> Tensor:
    """Orthonormal columns that span XᵀX…XᵀX E."""
    for _ in range(span.POWERS):
        E, _ = torch.linalg.qr(X.T @ ((X @ E) / size))
    return E


def _means(
    X: Tensor, coordinates: Tensor, E: Tensor, n_anchors: int, random_state: np.random.RandomState
) -> Tensor:
    """Means of the clusters that a run finds among its rows; empty ones are where they were."""
    own = span.own_rows(len(X), n_anchors, random_state)
    points = _rows(coordinates, own)
    n_trials = kmeans.trials(len(points), n_anchors, thorough=False)
    centres = _lloyd(points, n_anchors, True, n_trials, random_state)
    labels, _ = _nearest(points, centres)
    sums, counts = _sums(_rows(X, own), labels, n_anchors)
    return torch.where(counts[:, None] > 0, sums / counts[:, None], centres @ E.T)


def _rows(X: Tensor, rows: Array) -> Tensor:
    return X.index_select(0, torch.from_numpy(rows.astype(np.int64)).to(X.device))
