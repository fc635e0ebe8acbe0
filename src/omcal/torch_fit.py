"""Placement of rows on a PyTorch device, and prediction there."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from omcal.indicator import Indicator
from omcal.placement import GraphSettings, Placed, check_anchors
from omcal.rows.torch import TorchRows
from omcal.torchbackend import _torch as torch
from omcal.torchbackend._torch import Device, Tensor
from omcal.torchbackend.anchors import choose_anchors
from omcal.torchbackend.devices import (
    block_entries,
    explaining_out_of_memory,
    resolve_device,
    wide_type,
    working_on,
)
from omcal.torchbackend.graph import anchor_graphs
from omcal.torchbackend.indicator import decide, settle, silence
from omcal.torchbackend.scaling import check_finite, fit_scaling
from omcal.torchbackend.tensors import device_of
from omcal.torchbackend.views import DeviceViews
from omcal.views import Views, row_blocks


def find_device(device: Any, views: Views) -> Device:
    """The device to work on: the one that the tensors are on, else the one asked for.

    Tensors in the memory of the host are sent to the device that was asked for, like arrays.
    """
    wanted, given = resolve_device(device), device_of(views)
    if given is None or given == wanted or given.type == "cpu":
        return wanted
    if wanted.type == "cpu":  # the default, which tensors elsewhere overrule
        return given
    raise ValueError(
        f"device={device!r} but the views are on {given}; leave device= out to work where they "
        "are, or move them."
    )


def place_on_device(
    views: Views, settings: GraphSettings, random_state: np.random.RandomState, device: Any
) -> Placed:
    """Rows on one device, made there; labels of views in tensors stay there too.

    Views in the memory of the host, or stored, are sent by blocks: they need not fit.
    """
    found = find_device(device, views)
    on_device = DeviceViews(views, found)
    n_bytes = bytes_per_row(views, settings)
    with working_on(found), explaining_out_of_memory(found, views.n, n_bytes):
        scalings = [fit_scaling(view, settings.scale) for view in on_device]
        m, how = settings.n_anchors, settings.anchors
        if isinstance(how, str):
            anchors = choose_anchors(on_device, scalings, m, how, random_state)
        else:
            anchors = check_anchors(how, m, views.widths)
        graphs = anchor_graphs(on_device, scalings, anchors, settings.n_neighbors)
        on_host = device_of(views) is None
        rows = TorchRows(graphs, settings.n_clusters, labels_on_host=on_host)
    return Placed(rows, scalings, anchors)


def bytes_per_row(views: Views, settings: GraphSettings) -> int:
    """Bytes on the device that a sample takes beside its features: graphs, row of F, label."""
    edges = len(views) * settings.n_neighbors
    index = np.min_scalar_type(-settings.n_anchors).itemsize if settings.n_anchors > 256 else 1
    floats = edges + settings.n_clusters
    return edges * index + floats * views.dtype.itemsize + np.dtype(np.int32).itemsize


def predict_on_device(indicator: Indicator, views: Views, device: Any) -> Any:
    """Cluster of each sample: a tensor where the views are tensors, else an array."""
    return _collect((labels for _, labels in _blocks(indicator, views, device)), views)


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
    found = find_device(device, views)
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
