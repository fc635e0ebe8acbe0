"""Anchors on the device: the joint k-means of `method.anchors`, with hardly a word to the host."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.utils.random import sample_without_replacement

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor, torch_dtype
from omcal.method import anchors as on_host
from omcal.method import kmeans
from omcal.method.scaling import Scaling
from omcal.places.gpu.devices import Repeated, block_entries, wide_type
from omcal.places.gpu.scaling import scale_rows
from omcal.places.gpu.views import DeviceViews

_RECORDED = 6  # iterations that are worth a recording
_CHECK_EVERY = 5  # Lloyd iterations between looks at the device, each of which waits for it


def choose_anchors(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    method: Any,
    random_state: np.random.RandomState,
) -> list[Array]:
    """`omcal.method.anchors.choose_anchors` on the device, from the same random numbers.

    Sparse views go to the host's function, as their sample is never made dense, and so do views
    that samples are absent from, and anchors that are given.
    """
    if views.sparse or views.host.present is not None or not isinstance(method, str):
        return on_host.choose_anchors(views.host, scalings, n_anchors, method, random_state)
    rows = on_host.sample_rows(views.n, n_anchors, method, random_state)
    blocks = [
        scale_rows(view.take(slice(None) if rows is None else rows), scaling)
        for view, scaling in zip(views, scalings, strict=True)
    ]
    centres = torch.cat(blocks, dim=1).to(torch_dtype(views.dtype))
    mean = 0.0
    if method != "random":
        n_trials = kmeans.trials(len(centres), n_anchors, thorough=method == "kmeans-full")
        # Distances far from the origin would drown in rounding.
        mean = centres.mean(dim=0, dtype=wide_type(views.device)).to(centres.dtype)
        centres = _lloyd(centres - mean, n_anchors, rows is not None, n_trials, random_state)
    edges = np.cumsum(views.host.widths)[:-1]
    points, mean = (
        torch.as_tensor(part).cpu().numpy().astype(np.float64) for part in (centres, mean)
    )
    return np.split(points + mean, edges, axis=1)


def _lloyd(
    X: Tensor,
    n_clusters: int,
    sampled: bool,
    n_trials: int,
    random_state: np.random.RandomState,
) -> Tensor:
    """`omcal.method.kmeans.lloyd` on the device."""
    few = part = X
    if sampled:
        part = _some(X, kmeans.PART_PER_ANCHOR * n_clusters, random_state)
        few = _some(part, kmeans.SEED_PER_ANCHOR * n_clusters, random_state)
    chosen = _seed(few, few.square().sum(dim=1), n_clusters, n_trials, random_state)
    if not sampled:
        return _improved(few[chosen], X, kmeans.MAX_ITER)
    centres = _improved(few[chosen], part, kmeans.MAX_ITER_PART)
    return _improved(centres, X, kmeans.MAX_ITER_SAMPLED)


def _some(X: Tensor, size: int, random_state: np.random.RandomState) -> Tensor:
    rows = sample_without_replacement(len(X), min(size, len(X)), random_state=random_state)
    return X.index_select(0, torch.from_numpy(rows.astype(np.int64)).to(X.device))


def _improved(centres: Tensor, X: Tensor, max_iter: int) -> Tensor:
    """The centres after so many iterations, or as many as change something."""
    n_clusters, x_norms = len(centres), X.square().sum(dim=1)
    limit = kmeans.TOLERANCE * X.var(dim=0, correction=0).mean()
    distances = torch.empty_like(x_norms)
    empty = torch.empty(n_clusters, dtype=torch.bool, device=X.device)
    state = torch.empty(3, dtype=X.dtype, device=X.device)

    def iterate() -> None:
        labels, found = _nearest(X, x_norms, centres)
        sums, counts = _sums(X, labels, n_clusters)
        means = (sums / counts.clamp(min=1)[:, None]).to(X.dtype)
        moved = torch.where((counts == 0)[:, None], centres, means)
        shift = (moved - centres).square().sum()
        state.copy_(torch.stack([(counts == 0).sum().to(shift), found.max(), shift - limit]))
        for kept, new in ((centres, moved), (distances, found), (empty, counts == 0)):
            kept.copy_(new)

    iterate_on_device = Repeated(iterate, X.device) if max_iter >= _RECORDED else iterate
    for iteration in range(1, max_iter + 1):
        iterate_on_device()
        if iteration % _CHECK_EVERY and iteration < max_iter:
            continue
        n_empty, farthest, excess = state.tolist()
        if n_empty and farthest > 0:
            # An empty cluster takes the row farthest from its own centre.
            centres[empty] = X[distances.topk(int(n_empty)).indices]
        elif excess <= 0:
            break
    return centres


def _seed(
    X: Tensor,
    x_norms: Tensor,
    n_clusters: int,
    n_trials: int,
    random_state: np.random.RandomState,
) -> Tensor:
    """Rows chosen by greedy k-means++: of some drawn by squared distance, the one that helps most.

    All random numbers are drawn beforehand, so that nothing here waits for the device.
    """
    n, device = len(X), X.device
    wide = wide_type(device)
    first = int(random_state.uniform() * n)
    draws = torch.from_numpy(random_state.uniform(size=(n_clusters - 1, n_trials)))
    draws = draws.to(device=device, dtype=wide)
    chosen = torch.full((n_clusters,), first, device=device)
    closest = _distances_to(X, x_norms, chosen[:1])[:, 0]
    last = torch.zeros(1, dtype=torch.int64, device=device)  # where in `chosen`

    def step() -> None:
        cumulative = closest.cumsum(0, dtype=wide)
        drawn = draws.index_select(0, last)[0] * cumulative[-1]
        trials = torch.searchsorted(cumulative, drawn).clamp_(max=n - 1)
        candidates = torch.minimum(_distances_to(X, x_norms, trials), closest[:, None])
        best = candidates.sum(dim=0, dtype=wide).argmin(dim=0, keepdim=True)
        closest.copy_(candidates.index_select(1, best)[:, 0])
        last.add_(1)
        chosen.index_copy_(0, last, trials.index_select(0, best))

    step_on_device = Repeated(step, device)
    for _ in range(n_clusters - 1):
        step_on_device()
    return chosen


def _distances_to(X: Tensor, x_norms: Tensor, chosen: Tensor) -> Tensor:
    """Squared distances of all rows to the chosen ones."""
    rows = X.index_select(0, chosen)
    d = torch.addmm(x_norms.index_select(0, chosen), X, rows.T, alpha=-2)
    d += x_norms[:, None]
    # A chosen row is at distance 0 from itself, which rounding must not hide.
    return d.scatter_(0, chosen[None, :], 0).clamp_(min=0)


def _nearest(X: Tensor, x_norms: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Label and squared distance of the nearest centre of each row."""
    c_norms = centres.square().sum(dim=1)
    size = max(1, block_entries(X.device) // len(centres))
    parts = [
        torch.addmm(c_norms, X[rows], centres.T, alpha=-2).min(dim=1)
        for rows in row_blocks(len(X), size)
    ]
    distances = torch.cat([part.values for part in parts])
    return torch.cat([part.indices for part in parts]), (distances + x_norms).clamp_(min=0)


def _sums(X: Tensor, labels: Tensor, n_clusters: int) -> tuple[Tensor, Tensor]:
    """Sum and number of the rows of each cluster, by products that come out the same each time."""
    sums: Tensor = 0
    counts: Tensor = 0
    for rows in row_blocks(len(X), max(1, block_entries(X.device) // n_clusters)):
        block = X[rows]
        member = block.new_zeros((len(block), n_clusters)).scatter_(1, labels[rows, None], 1)
        sums = sums + (member.T @ block).to(wide_type(X.device))
        counts = counts + member.sum(dim=0)
    return sums, counts
