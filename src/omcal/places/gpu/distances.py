"""What distances to anchors are made of, on the device, for several runs at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor, torch_dtype
from omcal.method.graph import MOST_ROUNDING
from omcal.method.new_samples import GraphModel
from omcal.method.scaling import Scaling
from omcal.places.gpu import nvrtc
from omcal.places.gpu.devices import send, wide_type
from omcal.places.gpu.views import DeviceView, DeviceViews

_THREADS = 128
_N_SUMS = 4  # of an anchor, that the kernel keeps

_Steps = tuple[Tensor | None, Tensor | None]  # factor and centre
_Parts = tuple[Tensor, Tensor, Tensor]


@dataclass(frozen=True)
class DeviceAnchors:
    """Anchors of a run that were found on a device, and are still there."""

    points: list[Tensor]  # (m, d_v) a view


@dataclass(frozen=True)
class Distances:
    """`omcal.method.graph.RelativeDistances` of a view for each run: rows @ W + bias."""

    W: Tensor  # (runs, d, m)
    bias: Tensor  # (runs, m)
    largest_bias: list[float]  # of each run
    origin: list[Tensor | None]  # of each run: what is taken off the rows before


def relative_distances(views: DeviceViews, learned: Sequence[GraphModel]) -> list[Distances]:
    """Those of each view; the host waits for the device once."""
    scalings, anchors = learned[0].scalings, _anchors(learned, views.device)
    looks = anchors[0].new_zeros((len(views), 2, len(learned)))
    steps = _steps(scalings, anchors)
    way = _folded_by_kernel if nvrtc.available(views.device) else _folded
    given = zip(views, steps, anchors, looks, strict=True)
    parts = [way(*of_view) for of_view in given]
    found = []
    for (W, origin, bias), (far, largest) in zip(parts, looks.tolist(), strict=True):
        taken_off = [part if is_far else None for part, is_far in zip(origin, far, strict=True)]
        found.append(Distances(W, bias, largest, taken_off))
    return found


def _steps(scalings: Sequence[Scaling], anchors: Sequence[Tensor]) -> list[_Steps]:
    """Factor and centre of each view beside its anchors."""
    wide = _wide(anchors[0].device)
    given = [part for one in scalings for part in (one.factor, one.center) if part is not None]
    sent = iter(send([part.astype(wide, copy=False) for part in given], anchors[0].device))
    return [
        (
            None if one.factor is None else next(sent),
            None if one.center is None else next(sent),
        )
        for one in scalings
    ]


def _wide(device: Device) -> Any:
    return np.float32 if wide_type(device) == torch.float32 else np.float64


def _anchors(learned: Sequence[GraphModel], device: Device) -> list[Tensor]:
    """(runs, m, d) of each view."""
    there = [
        one.shared_span.points for one in learned if isinstance(one.shared_span, DeviceAnchors)
    ]
    if len(there) == len(learned) and there[0][0].device == device:
        return [torch.stack(points) for points in zip(*there, strict=True)]
    given = zip(*(one.anchors for one in learned), strict=True)
    return send([np.stack(points).astype(_wide(device), copy=False) for points in given], device)


def _folded(view: DeviceView, steps: _Steps, anchors: Tensor, looks: Tensor) -> _Parts:
    """W, the origin and the bias.

    Looks become whether the origin is so far away that it must be taken off, and the largest bias.
    """
    dtype, (factor, center) = torch_dtype(view.dtype), steps
    mean = anchors.mean(dim=1, keepdim=True)
    twice = 2.0 * (mean - anchors)
    half = 0.5 * ((anchors + mean) * twice).sum(dim=2)
    folded, origin, shift = twice, mean, torch.zeros_like(half)
    if factor is not None:
        folded = twice * factor
        origin = torch.where(factor > 0, mean / factor, 0)
    if center is not None:
        shift, origin = -(folded @ center), origin + center
    origin = origin.to(dtype)
    if not view.sparse:
        sizes = (folded.abs() * origin.abs()).sum(dim=2).amax(dim=1)
        looks[0] = _rounding(view) * sizes > twice.square().sum(dim=2).mean(dim=1)
        shift = shift + looks[0][:, None] * (folded * origin).sum(dim=2)
    bias = (shift - half).to(dtype)
    looks[1] = bias.abs().amax(dim=1)
    return folded.mT.to(dtype).contiguous(), origin[:, 0], bias


def _folded_by_kernel(view: DeviceView, steps: _Steps, anchors: Tensor, looks: Tensor) -> _Parts:
    """`_folded` in three launches."""
    (runs, m, d), dtype, device = anchors.shape, torch_dtype(view.dtype), anchors.device
    W = torch.empty((runs, d, m), dtype=dtype, device=device)
    origin, bias = W.new_empty((runs, d)), W.new_empty((runs, m))
    mean, sums = anchors.new_empty((runs, d)), anchors.new_empty((runs, _N_SUMS, m))
    kernel = nvrtc.compiled("fold", device, REAL=nvrtc.TYPES[str(dtype)], THREADS=_THREADS)
    given = (anchors, *steps, mean, origin, W, sums, bias, *looks, _rounding(view), d, m)
    for stage, blocks in enumerate((-(-d // _THREADS), m, 1)):
        kernel((blocks, runs), _THREADS, 8 * _THREADS // 32, *given, stage)
    return W, origin, bias


def _rounding(view: DeviceView) -> float:
    """Of products, over what it may be; sparse rows cannot be moved."""
    eps = float(np.finfo(view.dtype).eps)
    return 0.0 if view.sparse else eps / (0.25 * MOST_ROUNDING)
