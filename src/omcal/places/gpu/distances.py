"""What distances to anchors are made of, on the device, for several runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor, torch_dtype
from omcal.method.graph import MOST_ROUNDING
from omcal.method.new_samples import Learned
from omcal.method.scaling import Scaling
from omcal.places.gpu.devices import send, wide_type
from omcal.places.gpu.views import DeviceView, DeviceViews


@dataclass(frozen=True)
class Found:
    """Anchors of a run that were found on a device, and are still there."""

    points: list[Tensor]  # (m, d_v) a view


@dataclass(frozen=True)
class Distances:
    """`omcal.method.graph.RelativeDistances` of a view for each run: rows @ W + bias."""

    W: Tensor  # (runs, d, m)
    bias: Tensor  # (runs, m)
    largest_bias: list[float]  # of each run
    origin: list[Tensor | None]  # of each run: what is taken off the rows before


def relative_distances(views: DeviceViews, learned: Sequence[Learned]) -> list[Distances]:
    """Those of each view; the host waits for the device once."""
    parts = [
        _folded(view, scaling, anchors)
        for view, scaling, anchors in zip(
            views, learned[0].scalings, _anchors(learned, views.device), strict=True
        )
    ]
    looks = torch.stack([torch.stack([far, bias.abs().amax(dim=1)]) for *_, far, bias in parts])
    found = []
    for (W, origin, _, bias), (far, largest) in zip(parts, looks.tolist(), strict=True):
        taken_off = [part if is_far else None for part, is_far in zip(origin, far, strict=True)]
        found.append(Distances(W, bias, largest, taken_off))
    return found


def _anchors(learned: Sequence[Learned], device: Device) -> list[Tensor]:
    """(runs, m, d) of each view."""
    there = [one.inside.points for one in learned if isinstance(one.inside, Found)]
    if len(there) == len(learned) and there[0][0].device == device:
        return [torch.stack(points) for points in zip(*there, strict=True)]
    wide = np.float32 if wide_type(device) == torch.float32 else np.float64
    given = zip(*(one.anchors for one in learned), strict=True)
    return send([np.stack(points).astype(wide, copy=False) for points in given], device)


def _folded(view: DeviceView, scaling: Scaling, anchors: Tensor) -> tuple[Tensor, ...]:
    """W, the origin, whether it is so far away that it must be taken off, and the bias."""
    dtype, wide = torch_dtype(view.dtype), anchors.dtype
    mean = anchors.mean(dim=1, keepdim=True)
    twice = 2.0 * (mean - anchors)
    half = 0.5 * ((anchors + mean) * twice).sum(dim=2)
    folded, origin, shift = twice, mean, torch.zeros_like(half)
    if scaling.factor is not None:
        factor = torch.from_numpy(scaling.factor).to(anchors)
        folded = twice * factor
        origin = torch.where(factor > 0, mean / factor, 0)
    if scaling.center is not None:
        center = torch.from_numpy(scaling.center).to(anchors)
        shift, origin = -(folded @ center), origin + center
    origin = origin.to(dtype)
    far = torch.zeros_like(half[:, 0])
    if not view.sparse:
        sizes = (folded.abs() * origin.abs()).sum(dim=2).amax(dim=1)
        spread = twice.square().sum(dim=2).mean(dim=1)
        far = (torch.finfo(dtype).eps * sizes > 0.25 * MOST_ROUNDING * spread).to(wide)
        shift = shift + far[:, None] * (folded * origin).sum(dim=2)
    W = folded.mT.to(dtype).contiguous()
    return W, origin[:, 0], far, (shift - half).to(dtype)
