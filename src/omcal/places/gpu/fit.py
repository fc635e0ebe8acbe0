"""Placement of rows on PyTorch devices, and prediction there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Device, Tensor
from omcal.method.new_samples import Indicator, write_blocks
from omcal.places.gpu.anchors import choose_anchors
from omcal.places.gpu.devices import (
    block_entries,
    explaining_out_of_memory,
    resolve_devices,
    wide_type,
    working_on,
)
from omcal.places.gpu.graph import anchor_graphs
from omcal.places.gpu.new_samples import decide, settle, silence
from omcal.places.gpu.rows import TorchRows
from omcal.places.gpu.scaling import check_finite, fit_scaling
from omcal.places.gpu.views import DeviceViews
from omcal.places.parts import ChunkedRows
from omcal.places.placement import GraphSettings, Placed, check_anchors
from omcal.views.tensors import device_of
from omcal.views.view import Views


def find_devices(device: Any, views: Views) -> list[Device]:
    """The devices to work on: the one that the tensors are on, else those asked for.

    Tensors in the memory of the host are sent to the device that was asked for, like arrays.
    """
    wanted, given = resolve_devices(device), device_of(views)
    if given is None:
        return wanted
    if len(wanted) == 1 and (given == wanted[0] or given.type == "cpu"):
        return wanted
    if len(wanted) == 1 and wanted[0].type == "cpu":  # the default, which tensors overrule
        return [given]
    raise ValueError(
        f"device={device!r} but the views are on {given}; leave device= out to work where they "
        "are, or move them. Several devices take arrays, which are sent to them by blocks."
    )


def place_on_device(
    views: Views, settings: GraphSettings, random_state: np.random.RandomState, device: Any
) -> Placed:
    """Rows on a device, made there, or shared out to several; labels of tensors stay there too.

    Views in the memory of the host, or stored, are sent by blocks: they need not fit.
    """
    found = find_devices(device, views)
    first = DeviceViews(views, found[0])
    n_bytes = bytes_per_row(views, settings)
    with working_on(first.device), explaining_out_of_memory(first.device, views.n, n_bytes):
        scalings = [fit_scaling(view, settings.scale) for view in first]
        m, how = settings.n_anchors, settings.anchors
        if isinstance(how, str):
            anchors = choose_anchors(first, scalings, m, how, random_state)
        else:
            anchors = check_anchors(how, m, views.widths)

    def part(there: Device, rows: slice) -> TorchRows:
        n, on_host = rows.stop - rows.start, len(found) > 1 or device_of(views) is None
        with working_on(there), explaining_out_of_memory(there, n, n_bytes):
            on_device = DeviceViews(views, there)
            graphs = anchor_graphs(on_device, scalings, anchors, settings.n_neighbors, rows)
            return TorchRows(graphs, settings.n_clusters, labels_on_host=on_host)

    shares = row_blocks(views.n, -(-views.n // len(found)))
    parts = [part(there, rows) for there, rows in zip(found, shares, strict=False)]
    rows = parts[0] if len(parts) == 1 else ChunkedRows(parts, at_once=True)
    return Placed(rows, scalings, anchors)


def bytes_per_row(views: Views, settings: GraphSettings) -> int:
    """Bytes on the device that a sample takes beside its features: graphs, row of F, label."""
    edges = len(views) * settings.n_neighbors
    index = np.min_scalar_type(-settings.n_anchors).itemsize if settings.n_anchors > 256 else 1
    floats = edges + settings.n_clusters
    return edges * index + floats * views.dtype.itemsize + np.dtype(np.int32).itemsize


def predict_on_device(indicator: Indicator, views: Views, device: Any, out: Any = None) -> Any:
    """Cluster of each sample: in `out`, or a tensor where the views are tensors, else an array."""
    blocks = (labels for _, labels in _blocks(indicator, views, device))
    if out is None:
        return _collect(blocks, views)
    if torch.is_tensor(out):
        return write_blocks(blocks, out)
    return write_blocks((block.cpu().numpy() for block in blocks), out)


def transform_on_device(indicator: Indicator, views: Views, device: Any) -> Any:
    """F of each sample: a tensor where the views are tensors, else an array."""
    return _collect((U.clamp(min=0) for U, _ in _blocks(indicator, views, device)), views)


def _collect(blocks: Iterator[Tensor], views: Views) -> Any:
    given = device_of(views)
    if given is None:
        return np.concatenate([block.cpu().numpy() for block in blocks])
    return torch.cat([block.to(given) for block in blocks])


def _blocks(indicator: Indicator, views: Views, device: Any) -> Iterator[tuple[Tensor, Tensor]]:
    """`Indicator.blocks` on the device."""
    found = find_devices(device, views)[0]
    on_device = DeviceViews(views, found)
    Z = indicator.consensus
    P, R = Z.f_step()
    with working_on(found):
        for view in on_device:
            check_finite(view)
        wide = wide_type(found)
        to_P, to_G, R_there = (
            torch.from_numpy(M).to(found, wide)
            for M in (
                np.concatenate([w * P for w in Z.alpha]),
                np.concatenate([w * Z.G for w in Z.alpha]),
                R,
            )
        )
        size = max(1, block_entries(found) // len(to_P))
        for rows in row_blocks(views.n, size):
            graphs = anchor_graphs(
                on_device, indicator.scalings, indicator.anchors, indicator.n_neighbors, rows
            )
            S = graphs.dense(slice(None), wide)
            U = settle(S @ to_P, R_there).to(graphs.weights.dtype)
            yield U, decide(U, S @ to_G, silence(P, U.dtype))[0]
