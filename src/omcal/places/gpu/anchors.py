"""Anchors on the device: the joint k-means of `method.anchors`, with hardly a word to the host."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.method import anchors as host_anchors
from omcal.method import kmeans
from omcal.method.points import span_basis, span_pays
from omcal.method.scaling import Scaling
from omcal.places.gpu import cuda_kmeans
from omcal.places.gpu.devices import Repeated, block_entries, wide_type
from omcal.places.gpu.scaling import scaled_rows
from omcal.places.gpu.views import DeviceViews

_RECORDED = 6  # iterations that are worth a recording
_CHECK_EVERY = 5  # Lloyd iterations between looks at the device, each of which waits for it


def choose_for_runs(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    method: Any,
    random_states: Sequence[np.random.RandomState],
) -> list[list[Array]]:
    """`omcal.method.anchors.choose_for_runs` on the device, from the same random numbers.

    Sparse views go to the host's function, as their sample is never made dense, and so do views
    that samples are absent from, and anchors that are given.
    """
    given = (scalings, n_anchors, method)
    if views.sparse or views.host.present is not None or not isinstance(method, str):
        return host_anchors.choose_for_runs(views.host, *given, random_states)
    return [_choose_there(views, *given, state) for state in random_states]


def _choose_there(
    views: DeviceViews,
    scalings: list[Scaling],
    n_anchors: int,
    method: str,
    random_state: np.random.RandomState,
) -> list[Array]:
    """The anchors of one run, of dense views."""
    rows = host_anchors.sample_rows(views.n, n_anchors, method, random_state)
    if rows is not None and method != "random":
        rows = rows[kmeans.looked_at_in_order(len(rows), n_anchors, random_state)]
    centres = scaled_rows(views, scalings, rows)
    mean = 0.0
    if method != "random":
        n_trials = kmeans.trials(len(centres), n_anchors, thorough=method == "kmeans-full")
        if not host_anchors.at_mean(views.host, scalings):
            # Distances far from the origin would drown in rounding.
            mean = centres.mean(dim=0, dtype=wide_type(views.device)).to(centres.dtype)
        X, sampled = (centres - mean)[None], rows is not None
        size, thorough = (X.shape[1], X.shape[2]), method == "kmeans-full"
        few = None if sampled else kmeans.start_rows(*size, n_anchors, thorough)
        centres = lloyd(X, n_anchors, sampled, n_trials, [random_state], few)[0]
    edges = np.cumsum(views.host.widths)[:-1]
    points, mean = (
        torch.as_tensor(part).cpu().numpy().astype(np.float64) for part in (centres, mean)
    )
    return np.split(points + mean, edges, axis=1)


def lloyd(
    X: Tensor,
    n_clusters: int,
    sampled: bool,
    n_trials: int,
    random_states: Sequence[np.random.RandomState],
    start_rows: int | None = None,
) -> Tensor:
    """`omcal.method.kmeans.lloyd` of several runs, each on its own rows of X, (runs, n, d).

    Whether clusters were empty is asked once, at the end: each look waits for the device. Such runs
    begin again, and fill these clusters.
    """
    few = X[:, : kmeans.SEED_PER_ANCHOR * n_clusters] if sampled else X
    if start_rows is not None:
        drawn = [np.sort(kmeans.drawn(X.shape[1], start_rows, state)) for state in random_states]
        few = torch.stack([X[b, torch.as_tensor(some)] for b, some in enumerate(drawn)])
    starts = _pick(few, _seed(few, n_clusters, n_trials, random_states))
    how = partial(_from, sampled=sampled, in_rounds=start_rows is not None)
    centres, empty = how(starts, X, filling=False)
    for run, some_empty in enumerate(empty.tolist()):
        if some_empty:
            one = slice(run, run + 1)
            centres[one] = how(starts[one], X[one], filling=True)[0]
    return centres


def _from(
    starts: Tensor, X: Tensor, *, sampled: bool, in_rounds: bool, filling: bool
) -> tuple[Tensor, Tensor]:
    """The centres of each run from these starts, and where they are wrong, as some was empty."""
    m = int(starts.shape[1])
    spanned = span_pays(X.shape[2], m)
    if in_rounds and spanned:
        return _in_rounds(starts, X, filling=filling)
    if not sampled:
        return _improved(starts, X, kmeans.MAX_ITER, filling=filling)
    part, half = X[:, : kmeans.PART_PER_ANCHOR * m], X[:, : kmeans.HALF_PER_ANCHOR * m]
    stages = [(_improved, part, kmeans.MAX_ITER_PART), (_improved, X, kmeans.MAX_ITER_SAMPLED)]
    if spanned:
        stages = [
            (_improved, part, kmeans.MAX_ITER_COARSE),
            (_improved_inside, half, kmeans.MAX_ITER_HALF_INSIDE),
            (_improved_inside, X, kmeans.MAX_ITER_INSIDE),
        ]
    centres, found = starts, []
    for stage, rows, max_iter in stages:
        centres, empty = stage(centres, rows, max_iter, filling=filling)
        found.append(empty)
    return centres, torch.stack(found).amax(dim=0)


def _in_rounds(starts: Tensor, X: Tensor, *, filling: bool) -> tuple[Tensor, Tensor]:
    """`omcal.method.kmeans._in_rounds` of all runs, until the last of them stands still."""
    limits = kmeans.TOLERANCE * X.var(dim=1, correction=0).mean(dim=1)
    last, empty = _improved(starts, X, kmeans.MAX_ITER_COARSE, filling=filling)
    centres, some = _improved(last, X, 1, filling=filling)
    for _ in range(kmeans.ROUNDS_INSIDE):
        empty = torch.maximum(empty, some)
        if bool(((centres - last).square().sum(dim=(1, 2)) <= limits).all()):
            return centres, empty
        last = centres
        centres, some = _improved_inside(last, X, kmeans.MAX_ITER_INSIDE, filling=filling)
    found, more = _improved(centres, X, kmeans.MAX_ITER_LAST, filling=filling)
    return found, torch.maximum(torch.maximum(empty, some), more)


def _improved_inside(
    starts: Tensor, X: Tensor, max_iter: int, *, filling: bool
) -> tuple[Tensor, Tensor]:
    """`_improved` in the span of the starts of each run; the last means are of all features."""
    products = starts @ starts.mT
    basis = _bases(products)
    inside, within = (X @ starts.mT) @ basis, products @ basis
    within, empty = _improved(within, inside, max_iter, filling=filling)
    return torch.stack(list(map(_means, X, inside, within, starts))), empty


def _bases(products: Tensor) -> Tensor:
    """`span_basis` of the products of each run; columns beyond its basis are zero."""
    if cuda_kmeans.finds_bases(products.device, products.shape[1]):
        return cuda_kmeans.bases(products)
    bases = torch.zeros_like(products)
    for basis, of_run in zip(bases, products.cpu().numpy(), strict=True):
        found = span_basis(of_run)
        basis[:, : found.shape[1]] = torch.from_numpy(found)
    return bases


def _means(X: Tensor, points: Tensor, centres: Tensor, starts: Tensor) -> Tensor:
    """Means of the rows of X whose points have the same nearest centre; starts where none has."""
    labels, _ = _nearest(points, centres)
    sums, counts = _sums(X, labels, len(centres))
    return torch.where(counts[:, None] > 0, sums / counts[:, None], starts)


def _pick(X: Tensor, rows: Tensor) -> Tensor:
    """Rows of each run."""
    if len(X) == 1:
        return X[0].index_select(0, rows[0])[None]
    shift = torch.arange(len(X), device=X.device)[:, None] * X.shape[1]
    return X.flatten(0, 1).index_select(0, (rows + shift).flatten()).unflatten(0, rows.shape)


def _improved(starts: Tensor, X: Tensor, max_iter: int, *, filling: bool) -> tuple[Tensor, Tensor]:
    """The centres of each run after so many iterations, or as many as change something.

    And what is not 0 where that is not right, as a cluster was empty.
    """
    limits = kmeans.TOLERANCE * X.var(dim=1, correction=0).mean(dim=1)
    m = int(starts.shape[1])
    centres, narrow = starts.clone(), cuda_kmeans.iterates(X, m)
    wide = max_iter <= _CHECK_EVERY and cuda_kmeans.iterates_wide(X, m)
    if filling or not (narrow or wide):
        by_steps = partial(_improved_by_steps, max_iter=max_iter, filling=filling)
        found = torch.stack(list(map(by_steps, starts, X, limits)))
        return found, torch.zeros_like(limits, dtype=wide_type(X.device))
    iterate = (cuda_kmeans.Lloyd if narrow else cuda_kmeans.WideLloyd)(X, centres, limits)
    for _ in range(max_iter):
        iterate()
    return centres, iterate.empty


def _improved_by_steps(
    start: Tensor, X: Tensor, limit: Tensor, max_iter: int, *, filling: bool = False
) -> Tensor:
    """`_improved` of one run.

    Its centres stand still by themselves in the end, so that the host has to look now and then
    only. Where it then learns that a cluster was empty, it begins again and fills such clusters.
    """
    n_clusters, centres, size = len(start), start.clone(), limit.sqrt()
    moves = torch.ones((), dtype=torch.bool, device=X.device)
    fewest = torch.full((), len(X), dtype=X.dtype, device=X.device)  # rows of a cluster

    def iterate() -> None:
        labels, distances = _nearest(X, centres)
        if filling:
            labels = _filled(labels, distances + X.square().sum(dim=1), n_clusters)
        sums, counts = _sums(X, labels, n_clusters)
        known = ((counts > 0) & moves)[:, None]
        moved = torch.where(known, sums / counts[:, None], centres)
        torch.gt(torch.linalg.vector_norm(moved - centres), size, out=moves)
        torch.minimum(fewest, counts.amin(), out=fewest)
        centres.copy_(moved)

    pays = max_iter >= _RECORDED and not filling
    iterate_on_device = Repeated(iterate, X.device) if pays else iterate
    for iteration in range(1, max_iter + 1):
        iterate_on_device()
        if iteration % _CHECK_EVERY and iteration < max_iter and not filling:
            continue
        some_moved, least = torch.stack([moves.to(fewest), fewest]).tolist()
        if not filling and least == 0:
            return _improved_by_steps(start, X, limit, max_iter, filling=True)
        if not some_moved:
            break
    return centres


def _filled(labels: Tensor, distances: Tensor, n_clusters: int) -> Tensor:
    """Each empty cluster takes the row farthest from its own centre."""
    empty = (torch.bincount(labels, minlength=n_clusters) == 0).nonzero()[:, 0]
    farthest = distances.sort(descending=True, stable=True).indices[: len(empty)]
    return labels.index_copy(0, farthest, empty)


def _seed(
    X: Tensor, n_clusters: int, n_trials: int, random_states: Sequence[np.random.RandomState]
) -> Tensor:
    """Rows chosen by greedy k-means++: of some drawn by squared distance, the one that helps most.

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
    given = zip(X, firsts, draws, strict=True)
    return torch.stack([_seed_by_steps(x, n_clusters, *of_run) for x, *of_run in given])


def _seed_by_steps(X: Tensor, n_clusters: int, first: Tensor, draws: Tensor) -> Tensor:
    n, device, wide = len(X), X.device, draws.dtype
    x_norms = X.square().sum(dim=1)
    chosen = first.repeat(n_clusters)
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


def _nearest(X: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Label of the nearest centre of each row, and its distance without the row's own length."""
    c_norms = centres.square().sum(dim=1)
    size = max(1, block_entries(X.device) // len(centres))
    parts = [
        torch.addmm(c_norms, X[rows], centres.T, alpha=-2).min(dim=1)
        for rows in row_blocks(len(X), size)
    ]
    if len(parts) == 1:
        return parts[0].indices, parts[0].values
    return torch.cat([part.indices for part in parts]), torch.cat([part.values for part in parts])


def _sums(X: Tensor, labels: Tensor, n_clusters: int) -> tuple[Tensor, Tensor]:
    """Sum and number of the rows of each cluster, by products that come out the same each time."""
    parts = []
    for rows in row_blocks(len(X), max(1, block_entries(X.device) // n_clusters)):
        block = X[rows]
        member = block.new_zeros((len(block), n_clusters)).scatter_(1, labels[rows, None], 1)
        parts.append((member.T @ block, member.sum(dim=0)))
    if len(parts) == 1:
        return parts[0]
    wide = wide_type(X.device)
    sums, counts = (sum(part.to(wide) for part in some) for some in zip(*parts, strict=True))
    return sums.to(X.dtype), counts.to(X.dtype)
