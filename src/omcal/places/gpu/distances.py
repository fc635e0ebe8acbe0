"""The linear maps behind distances to anchors, on the device, for several runs at once."""

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
from omcal.places.gpu.devices import send, wide_type
from omcal.places.gpu.views import DeviceView, DeviceViews


@dataclass(frozen=True)
class DeviceAnchors:
    """Anchors of a run in device memory, where they were found."""

    points: list[Tensor]  # (m, d_v) per view


@dataclass(frozen=True)
class Distances:
    """`omcal.method.graph.RelativeDistances` of a view for each run: rows @ W + bias."""

    W: Tensor  # (runs, d, m)
    bias: Tensor  # (runs, m)
    largest_bias: list[float]  # of each run
    origin: list[Tensor | None]  # per run: subtracted from the rows first


def relative_distances(views: DeviceViews, learned: Sequence[GraphModel]) -> list[Distances]:
    """Return the distances of each view; the host waits for the device once.

    A row x is scaled to (x − centre) · factor. Twice its product with the mean of the anchors less
    an anchor, and a bias, tell its distances to the anchors apart. Where rows are far from the
    origin, the row that is scaled to the mean is subtracted from them first.
    """
    anchors = torch.cat(_anchors(learned, views.device), dim=2)
    factor, centre = _steps(learned[0].scalings, views.host.widths, anchors.device)
    mean = anchors.mean(dim=1, keepdim=True)
    twice = 2.0 * (mean - anchors)
    W = twice * factor
    dtypes, widths = [torch_dtype(view.dtype) for view in views], list(views.host.widths)
    origin = torch.where(factor > 0, mean / factor, 0) + centre
    parts = zip(origin.split(widths, dim=2), dtypes, strict=True)
    origins = [part.to(dtype) for part, dtype in parts]
    at_origin = W * torch.cat(origins, dim=2)
    terms = [
        -0.5 * (anchors + mean) * twice - W * centre,
        at_origin,
        at_origin.abs(),
        twice.square(),
    ]
    by_view = [part.sum(dim=3) for part in torch.stack(terms).split(widths, dim=3)]
    shift, moved, size, spread = torch.stack(by_view, dim=1)  # (views, runs, anchors)
    rounding = torch.tensor([_rounding(view) for view in views], dtype=size.dtype)
    far = rounding.to(size.device)[:, None] * size.amax(dim=2) > spread.mean(dim=2)
    biases = shift + far[:, :, None] * moved
    looks = torch.stack([far.to(biases), biases.abs().amax(dim=2)], dim=1).tolist()
    found = []
    given = zip(W.split(widths, dim=2), origins, biases, looks, strict=True)
    for of_view, at, bias, (is_far, largest) in given:
        taken_off = [row[0] if off else None for row, off in zip(at, is_far, strict=True)]
        of_runs = of_view.mT.to(at.dtype).contiguous()
        found.append(Distances(of_runs, bias.to(at.dtype), largest, taken_off))
    return found


def _steps(
    scalings: Sequence[Scaling], widths: Sequence[int], device: Device
) -> tuple[Tensor, Tensor]:
    """Return factor and centre of all features, 1 and 0 where a view is not scaled."""
    both = list(zip(scalings, widths, strict=True))
    factor = [np.ones(d) if one.factor is None else one.factor for one, d in both]
    centre = [np.zeros(d) if one.center is None else one.center for one, d in both]
    given = [np.concatenate(parts).astype(_wide(device)) for parts in (factor, centre)]
    found, at = send(given, device)
    return found, at


def _wide(device: Device) -> Any:
    return np.float32 if wide_type(device) == torch.float32 else np.float64


def _anchors(learned: Sequence[GraphModel], device: Device) -> list[Tensor]:
    """Return the anchors of each view, (runs, m, d)."""
    there = [
        one.shared_span.points for one in learned if isinstance(one.shared_span, DeviceAnchors)
    ]
    if len(there) == len(learned) and there[0][0].device == device:
        return [torch.stack(points) for points in zip(*there, strict=True)]
    given = zip(*(one.anchors for one in learned), strict=True)
    return send([np.stack(points).astype(_wide(device), copy=False) for points in given], device)


def _rounding(view: DeviceView) -> float:
    """Return the rounding of products relative to its limit; 0 for sparse rows, which stay."""
    eps = float(np.finfo(view.dtype).eps)
    return 0.0 if view.sparse else eps / (0.25 * MOST_ROUNDING)
