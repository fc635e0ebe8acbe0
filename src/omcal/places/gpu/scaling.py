"""Fit `method.scaling.Scaling` to views on a device, and apply it there."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from operator import add
from typing import TYPE_CHECKING, Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Array
from omcal.machine.torch import Tensor, torch_dtype
from omcal.method.moments import Moments
from omcal.method.scaling import Scale, Scaling, ScalingPlan, moments, needs_sample, scale_of
from omcal.places.gpu import cuda_views
from omcal.places.gpu.devices import send, wide_type
from omcal.places.gpu.kinds import facts_of
from omcal.views.kinds import Kind, kind_of, sample_of, sample_rows
from omcal.views.view import check_finite as check_on_host
from omcal.views.view import count_nonfinite

if TYPE_CHECKING:
    from omcal.places.gpu.views import DeviceView, DeviceViews


def fit_scalings(
    views: Sequence[DeviceView], scale: Scale, meanwhile: Callable[[], Any] = lambda: None
) -> list[Scaling]:
    """Fit the scaling of each view in one read, which also finds NaN and infinity.

    The host calls `meanwhile` once, while the device reads.
    """
    kinds = _kinds([view for view in views if scale_of(scale, view.name) == "auto"])
    drafts = [_draft(view, scale, kinds.get(view.name)) for view in views]
    found = scan(views, drafts, meanwhile)
    return [draft.finish(seen) for draft, seen in zip(drafts, found, strict=True)]


def _kinds(views: Sequence[DeviceView]) -> dict[str, Kind]:
    """Return the kinds of the views that are resident on the device, by name."""
    here = [view for view in views if view.resident is not None]
    if not here:
        return {}
    facts = facts_of([view.resident for view in here], sample_rows(here[0].host))
    return {view.name: kind_of(of_view) for view, of_view in zip(here, facts, strict=True)}


def _draft(view: DeviceView, scale: Scale, kind: Kind | None) -> ScalingPlan:
    """Return the scaling plan of a view; sampled rows are sent to the host only if needed."""
    sample = None
    if needs_sample(scale, view.name) if kind is None else kind.name in ("tfidf", "log"):
        sample = sample_of(view.host)
        if any(count_nonfinite(sample)):
            check_finite(view)
    return ScalingPlan.of(view.host, scale, sample, kind)


def scan(
    views: Sequence[DeviceView],
    drafts: Sequence[ScalingPlan],
    meanwhile: Callable[[], Any] = lambda: None,
) -> list[Moments | None]:
    """Return the moments that each plan asks for; raise for NaN and infinity."""
    found: list[Moments | None] = [None] * len(views)
    there = []  # in device memory, to be fetched together
    for v, (view, draft) in enumerate(zip(views, drafts, strict=True)):
        if view.sparse:
            check_finite(view)
            found[v] = moments(view.host, draft) if draft.looks else None
        elif draft.looks and cuda_views.serves(view.device) and _count(view):
            there.append((v, cuda_views.moments(_blocks_seen(view, draft))))
        elif draft.looks:
            parts = (_block_moments(block) for block in _blocks_seen(view, draft))
            found[v] = reduce(add, parts, Moments.none(view.width))
    meanwhile()
    if there:
        numbers = torch.cat([part for _, part in there]).cpu().numpy()
        both = np.split(numbers, np.cumsum([len(part) for _, part in there])[:-1])
        for (v, _), (mean, squares) in zip(there, (np.split(b, 2) for b in both), strict=True):
            found[v] = Moments(_count(views[v]), mean, squares)
    for view, seen in zip(views, found, strict=True):
        if not view.sparse and (seen is None or not np.isfinite(seen.mean).all()):
            check_finite(view)
    return found


def _count(view: DeviceView) -> int:
    """Return the number of samples that have the view."""
    return view.n if view.host.present is None else int(view.host.present.sum())


def check_finite(view: DeviceView) -> None:
    """Raise for NaN and infinity."""
    if not view.sparse:
        # A finite sum proves that values are finite; otherwise do the slow check.
        total = sum(block.sum(dtype=wide_type(view.device)) for _, block in view.blocks(Scaling()))
        if bool(torch.isfinite(total)):
            return
    check_on_host(view.host)


def _blocks_seen(view: DeviceView, draft: ScalingPlan) -> Iterator[Tensor]:
    """Yield the values that the plan needs, in blocks of the samples that have the view."""
    if view.resident is not None and not draft.steps.prepares:
        yield view.resident
        return
    words = draft.steps.kind.name == "tfidf"  # where they occur
    for place, block in view.blocks(Scaling() if words else draft.steps):
        block = (block != 0).to(block.dtype) if words else block
        present = None if view.host.present is None else view.host.present[place]
        if present is None:
            yield block
        elif present.any():
            yield block[torch.from_numpy(present).to(block.device)]


def _block_moments(block: Tensor) -> Moments:
    wide = block.to(wide_type(block.device))
    variance, mean = torch.var_mean(wide, dim=0, correction=0)
    both = torch.stack([mean, variance * len(block)]).cpu().numpy().astype(np.float64)
    return Moments(len(block), *both)


def standardise_rows(block: Tensor) -> Tensor:
    """Return the z-score of each row (ddof 1); constant rows become 0."""
    wide = wide_type(block.device)
    centred = block - block.mean(dim=1, keepdim=True, dtype=wide).to(block.dtype)
    # Twice, because the first mean of a wide row has many rounding errors.
    centred -= centred.mean(dim=1, keepdim=True, dtype=wide).to(block.dtype)
    squares = centred.square().sum(dim=1, keepdim=True, dtype=wide)
    variance = squares / max(block.shape[1] - 1, 1)
    # What remains of a constant row is rounding error, not a direction.
    size = block.abs().amax(dim=1, keepdim=True).to(wide)
    constant = variance <= (4 * torch.finfo(block.dtype).eps * size) ** 2
    factor = torch.where(constant, 0.0, torch.where(constant, 1.0, variance).rsqrt())
    return centred.mul_(factor.to(block.dtype))


def prepare(block: Tensor, scaling: Scaling) -> Tensor:
    """Do `Scaling.prepare` for a dense block."""
    if scaling.unit is not None:
        values = block / torch.as_tensor(scaling.unit).to(block)
        block = values.abs().log1p_().copysign_(values)
    if scaling.weight is not None:
        block = block * torch.as_tensor(scaling.weight).to(block)
    if scaling.row == "unit":
        squares = block.square().sum(dim=1, keepdim=True, dtype=wide_type(block.device))
        zero = squares == 0
        return block * torch.where(zero, 0.0, torch.where(zero, 1.0, squares).rsqrt()).to(block)
    return block if scaling.row is None else standardise_rows(block)


def scaled_rows(views: DeviceViews, scalings: list[Scaling], rows: Array | None) -> Tensor:
    """Return rows of dense views side by side, scaled as by `Scaling.apply`; None: all."""
    dtype = np.dtype(views.dtype)
    steps = [
        _steps(view.width, scaling, dtype) for view, scaling in zip(views, scalings, strict=True)
    ]
    given = [np.concatenate(parts) for parts in zip(*steps, strict=True)]
    if rows is not None:
        given.append(rows.astype(np.int64))
    near, rest, factor, *where = send(given, views.device)
    blocks = []
    for view, scaling in zip(views, scalings, strict=True):
        some = slice(None) if rows is None else rows
        block = view.take(some if view.resident is None else next(iter(where), some))
        blocks.append(prepare(block, scaling))
    X = torch.cat(blocks, dim=1).to(torch_dtype(dtype))
    # In two steps: one number of this type cannot represent a centre far from zero.
    return X.sub_(near).sub_(rest).mul_(factor)


def _steps(width: int, scaling: Scaling, dtype: np.dtype) -> tuple[Array, Array, Array]:
    """Return the centre of each feature in two parts, and its factor."""
    near, rest = scaling.center_in(dtype) if scaling.center is not None else np.zeros((2, width))
    factor = np.ones(width) if scaling.factor is None else scaling.factor
    return near.astype(dtype), rest.astype(dtype), factor.astype(dtype)
