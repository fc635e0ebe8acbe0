"""k-means of several runs at once on a device, with few messages to the host.

Points are (groups, n, d): each run has its own group, or all runs share one. Centres are
(runs, m, d). Runs of one group are one product with the centres of all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.method import kmeans
from omcal.places.gpu import cuda_kmeans
from omcal.places.gpu.devices import Repeated, block_entries, wide_type

_CHECK_EVERY = 5  # Lloyd iterations between checks, each of which waits for the device

Improved = tuple[Tensor, Tensor]  # centres, and per run whether a cluster was empty at some time


def lloyd(
    X: Tensor,
    n_clusters: int,
    sampled: bool,
    n_trials: int,
    random_states: Sequence[np.random.RandomState],
    start_rows: int | None = None,
) -> Tensor:
    """Do `omcal.method.kmeans.lloyd` for several runs, from the same random numbers.

    Empty clusters are checked once, at the end. Runs with empty ones start again and fill them.
    """
    few = X[:, : kmeans.SEED_PER_ANCHOR * n_clusters] if sampled else X
    if start_rows is not None:
        drawn = [np.sort(kmeans.drawn(X.shape[1], start_rows, state)) for state in random_states]
        few = _pick(X, torch.from_numpy(np.stack(drawn)).to(X.device))
    starts = _pick(few, _seed(few, n_clusters, n_trials, random_states))
    improve = partial(_stages, sampled=sampled)
    centres, empty = improve(starts, X, filling=False)
    for run in np.flatnonzero(empty.tolist()).tolist():
        one = slice(run, run + 1)
        centres[one] = improve(starts[one], X[one] if len(X) > 1 else X, filling=True)[0]
    return centres


def _stages(starts: Tensor, X: Tensor, *, sampled: bool, filling: bool) -> Improved:
    """Improve centres on a part of a sample and then on all of it, or on all rows."""
    if not sampled:
        return _improved(starts, X, kmeans.MAX_ITER, filling=filling)
    part = X[:, : kmeans.PART_PER_ANCHOR * int(starts.shape[1])]
    centres, empty = _improved(starts, part, kmeans.MAX_ITER_PART, filling=filling)
    centres, some = _improved(centres, X, kmeans.MAX_ITER_SAMPLED, filling=filling)
    return centres, empty | some


def span_basis(K: Tensor, dtype: object) -> Tensor:
    """Return B, per matrix, with K B the coordinates of points in their span.

    K holds their inner products in the wide type. B is an inverse Cholesky factor; the addition to
    the diagonal hides the rounding, in `dtype`, of products with centres that are nearly dependent.
    """
    eps = max(torch.finfo(dtype).eps, K.shape[1] * torch.finfo(K.dtype).eps)
    largest = K.diagonal(dim1=1, dim2=2).amax(dim=1).clamp(min=torch.finfo(K.dtype).tiny)
    unit = torch.eye(K.shape[1], dtype=K.dtype, device=K.device)
    factor = torch.linalg.cholesky_ex(K + (4 * eps * largest)[:, None, None] * unit).L
    return torch.linalg.solve_triangular(factor, unit.expand_as(K), upper=False).mT


def _improved(starts: Tensor, X: Tensor, max_iter: int, *, filling: bool) -> Improved:
    """Improve the centres of each run until they hardly move, in at most `max_iter` iterations."""
    if not filling and cuda_kmeans.iterates(X, int(starts.shape[1])):
        centres = starts.clone()
        runs = len(centres)
        limits = _limits(X).expand(runs).contiguous()
        iterate = cuda_kmeans.Lloyd(X.expand(runs, -1, -1), centres, limits)
        for _ in range(max_iter):
            iterate()
        return centres, iterate.empty > 0
    return _improved_by_steps(starts, X, max_iter, filling=filling)


def _improved_by_steps(starts: Tensor, X: Tensor, max_iter: int, *, filling: bool) -> Improved:
    """Do `_improved` by PyTorch's own operations.

    Centres of a run that moved little are frozen, so that the host has to check only sometimes.
    With `filling`, for one run, empty clusters take the rows farthest from their centres.
    """
    m, limits, centres = int(starts.shape[1]), _limits(X), starts
    empty = torch.zeros(len(starts), dtype=torch.bool, device=X.device)
    moves = ~empty
    for iteration in range(1, max_iter + 1):
        labels, distances = _nearest(X, centres)
        if filling:
            distances = distances[0, :, 0] + X[0].square().sum(dim=1)
            labels = _filled(labels[0, :, 0], distances, m)[None, :, None]
        sums, counts = _sums(X, labels, m)
        empty = empty | (moves & (counts == 0).any(dim=1))
        known = ((counts > 0) & moves[:, None])[:, :, None]
        last, centres = centres, torch.where(known, sums / counts[:, :, None], centres)
        moves = moves & ((centres - last).square().sum(dim=(1, 2)) > limits)
        looks = filling or (iteration % _CHECK_EVERY == 0 and iteration < max_iter)
        if looks and not bool(moves.any()):
            break
    return centres, empty


def _limits(X: Tensor) -> Tensor:
    """Return the largest total move of the centres of a run that counts as converged."""
    return kmeans.TOLERANCE * X.var(dim=1, correction=0).mean(dim=1)


def _pick(X: Tensor, rows: Tensor) -> Tensor:
    """Return rows of each run, by their numbers (runs, size)."""
    shift = torch.arange(len(rows), device=X.device)[:, None] * (X.shape[1] if len(X) > 1 else 0)
    return X.flatten(0, 1).index_select(0, (rows + shift).flatten()).unflatten(0, rows.shape)


def _nearest(X: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Return number and distance of the nearest centre, (groups, n, runs of a group).

    The distances are squared and lack the squared length of the point.
    """
    (runs, m, d), groups = centres.shape, len(X)
    flat = centres.reshape(groups, -1, d)
    norms = flat.square().sum(dim=2)[:, None]
    parts = []
    for rows in row_blocks(X.shape[1], max(1, block_entries(X.device) // (runs * m))):
        found = torch.baddbmm(norms, X[:, rows], flat.mT, alpha=-2)
        parts.append(found.unflatten(2, (-1, m)).min(dim=3))
    distances, labels = (torch.cat(some, dim=1) for some in zip(*parts, strict=True))
    return labels, distances


def _sums(X: Tensor, labels: Tensor, m: int) -> tuple[Tensor, Tensor]:
    """Return sums (runs, m, d) and numbers (runs, m) of the points of each cluster.

    They are computed by products, which are reproducible.
    """
    (_, n, d), runs = X.shape, labels.shape[0] * labels.shape[2]
    parts = []
    for rows in row_blocks(n, max(1, block_entries(X.device) // (runs * m))):
        some = labels[:, rows, :, None]
        member = X.new_zeros((*some.shape[:3], m)).scatter_(3, some, 1).flatten(2)
        parts.append((member.mT @ X[:, rows], member.sum(dim=1)))
    sums, counts = parts[0]
    if len(parts) > 1:
        wide = wide_type(X.device)
        sums, counts = (
            sum(part.to(wide) for part in some).to(X.dtype) for some in zip(*parts, strict=True)
        )
    return sums.reshape(runs, m, d), counts.reshape(runs, m)


def _filled(labels: Tensor, distances: Tensor, n_clusters: int) -> Tensor:
    """Give each empty cluster the row farthest from its own centre."""
    empty = (torch.bincount(labels, minlength=n_clusters) == 0).nonzero()[:, 0]
    # Of rows with equal distances, up to rounding, take the first.
    tiny = torch.finfo(distances.dtype).tiny
    farness = (distances * (kmeans.STEPS / distances.max().clamp(min=tiny))).round()
    farthest = farness.sort(descending=True, stable=True).indices[: len(empty)]
    return labels.index_copy(0, farthest, empty)


def _seed(
    X: Tensor, n_clusters: int, n_trials: int, random_states: Sequence[np.random.RandomState]
) -> Tensor:
    """Choose rows by greedy k-means++, (runs, m): of some drawn by squared distance, the best.

    All random numbers are drawn beforehand, so that nothing here waits for the device.
    """
    numbers = [
        (state.uniform(), state.uniform(size=(n_clusters - 1, n_trials))) for state in random_states
    ]
    first, drawn = map(np.stack, zip(*numbers, strict=True))
    firsts = torch.from_numpy((first * X.shape[1]).astype(np.int64)).to(X.device)
    draws = torch.from_numpy(drawn).to(device=X.device, dtype=wide_type(X.device))
    if cuda_kmeans.seeds(X, n_trials):
        return cuda_kmeans.seed(X, n_clusters, firsts, draws)
    return _seed_by_steps(X, n_clusters, firsts, draws)


def _seed_by_steps(X: Tensor, n_clusters: int, firsts: Tensor, draws: Tensor) -> Tensor:
    """Do `_seed` by PyTorch's own operations."""
    runs, n = len(firsts), int(X.shape[1])
    chosen = firsts[:, None].repeat(1, n_clusters)
    distances_to = _distances_to(X, runs)
    closest = distances_to(chosen[:, :1])[:, 0]
    number = torch.zeros(1, dtype=torch.int64, device=X.device)  # of the last one chosen

    def step() -> None:
        cumulative = closest.cumsum(1, dtype=draws.dtype)
        drawn = draws.index_select(1, number)[:, 0] * cumulative[:, -1:]
        trials = torch.searchsorted(cumulative, drawn).clamp_(max=n - 1)
        candidates = torch.minimum(distances_to(trials), closest[:, None])
        left = candidates.sum(dim=2, dtype=draws.dtype)
        same = left <= left.amin(dim=1, keepdim=True) * (1 + kmeans.SAME_SUM)
        best = same.byte().argmax(dim=1, keepdim=True)  # the first
        closest.copy_(candidates.take_along_dim(best[:, :, None], dim=1)[:, 0])
        number.add_(1)
        chosen.index_copy_(1, number, trials.take_along_dim(best, dim=1))

    step_on_device = Repeated(step, X.device)
    for _ in range(n_clusters - 1):
        step_on_device()
    return chosen


def _distances_to(X: Tensor, runs: int) -> Callable[[Tensor], Tensor]:
    """Return a function of rows (runs, size): their squared distances to all, (runs, size, n)."""
    norms = X.square().sum(dim=2).expand(runs, -1)

    def distances_to(rows: Tensor) -> Tensor:
        points = _pick(X, rows)
        found = torch.baddbmm(norms[:, None], points, X.expand(runs, -1, -1).mT, alpha=-2)
        found += norms.take_along_dim(rows, dim=1)[:, :, None]
        # A chosen row is at distance 0 from itself, in spite of rounding.
        return found.scatter_(2, rows[:, :, None], 0).clamp_(min=0)

    return distances_to
