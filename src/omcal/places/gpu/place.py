"""Rows on PyTorch devices, and prediction there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Device, Tensor
from omcal.method.new_samples import Learned, Rule
from omcal.method.rows import AbstractRows
from omcal.method.settings import GraphSettings
from omcal.method.updates import stacked
from omcal.places.base import Place, Wanted, write_blocks
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
from omcal.views.tensors import device_of
from omcal.views.view import Views


class OnDevices(Place):
    """Rows on a device, made there, or shared out to several; labels of tensors stay there too.

    Views in the memory of the host, or stored, are sent by blocks: they need not fit.
    """

    honours = frozenset({"device"})

    @cached_property
    def _devices(self) -> list[Device]:
        return find_devices(self.asked.device, self.views)

    @property
    def compiled(self) -> bool:
        """The graphs have one form only, as with compiled loops."""
        return True

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[Learned]:
        views = DeviceViews(self.views, self._devices[0])
        n_bytes = self.bytes_per_row(settings)
        with working_on(views.device), explaining_out_of_memory(views.device, views.n, n_bytes):
            scalings = [fit_scaling(view, settings.scale) for view in views]
            how = (settings.n_anchors, settings.anchors)
            return [
                Learned(
                    scalings, choose_anchors(views, scalings, *how, state), settings.n_neighbors
                )
                for state in random_states
            ]

    def build(self, learned: Sequence[Learned], settings: GraphSettings) -> Iterator[AbstractRows]:
        shares = list(row_blocks(self.views.n, -(-self.views.n // len(self._devices))))
        for one in learned:
            parts = [
                self._part(there, rows, one, settings)
                for there, rows in zip(self._devices, shares, strict=False)
            ]
            yield parts.pop() if len(parts) == 1 else ChunkedRows(parts, at_once=True)
            del parts

    def _part(
        self, there: Device, rows: slice, learned: Learned, settings: GraphSettings
    ) -> TorchRows:
        n, n_bytes = rows.stop - rows.start, self.bytes_per_row(settings)
        on_host = len(self._devices) > 1 or device_of(self.views) is None
        with working_on(there), explaining_out_of_memory(there, n, n_bytes):
            graphs = anchor_graphs(DeviceViews(self.views, there), learned, rows)
            return TorchRows(graphs, settings.n_clusters, labels_on_host=on_host)

    def apply(self, rule: Rule, wanted: Wanted, out: Any = None) -> Any:
        blocks = _blocks(rule, DeviceViews(self.views, self._devices[0]))
        if wanted == "indicator":
            return self._collected(U.clamp(min=0) for U, _ in blocks)
        labels = (labels for _, labels in blocks)
        if out is None:
            return self._collected(labels)
        if torch.is_tensor(out):
            return write_blocks(labels, out)
        return write_blocks((block.cpu().numpy() for block in labels), out)

    def _collected(self, blocks: Iterator[Tensor]) -> Any:
        """A tensor where the views are tensors, else an array."""
        given = device_of(self.views)
        if given is None:
            return np.concatenate([block.cpu().numpy() for block in blocks])
        return torch.cat([block.to(given) for block in blocks])


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


def _blocks(rule: Rule, views: DeviceViews) -> Iterator[tuple[Tensor, Tensor]]:
    """`Rule.blocks` on the device."""
    found, Z = views.device, rule.consensus
    P, R = Z.f_step()
    with working_on(found):
        for view in views:
            check_finite(view)
        wide = wide_type(found)
        to_P, to_G, R_there = (
            torch.from_numpy(M).to(found, wide)
            for M in (stacked(Z.alpha, P), stacked(Z.alpha, Z.G), R)
        )
        size = max(1, block_entries(found) // len(to_P))
        for rows in row_blocks(views.n, size):
            graphs = anchor_graphs(views, rule.learned, rows)
            S = graphs.dense(slice(None), wide)
            U = settle(S @ to_P, R_there).to(graphs.weights.dtype)
            yield U, decide(U, S @ to_G, silence(P, U.dtype))[0]
