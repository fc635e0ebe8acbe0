"""Rows on PyTorch devices, and prediction there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Device, Tensor, torch_dtype
from omcal.method.graph import AnchorGraphs
from omcal.method.new_samples import ConsensusPredictor, GraphModel, Predictor, learned_in_span
from omcal.method.rows import AbstractRows, Assignment
from omcal.method.scaling import Scaling
from omcal.method.settings import GraphSettings
from omcal.method.solver import Solution
from omcal.method.span import shared_rows, span_pays
from omcal.places.base import OutputKind, Place, Start, bytes_per_row
from omcal.places.data_scan import BlockStats, DataScan
from omcal.places.gpu.anchors import Chosen, anchors_in_span, choose_for_runs, first_draws
from omcal.places.gpu.devices import explaining_out_of_memory, resolve_device, working_on
from omcal.places.gpu.graph import GraphMaker, TorchGraphs, anchor_graphs
from omcal.places.gpu.iteration import solve_in_lockstep
from omcal.places.gpu.new_samples import DeviceRule, joined_graph
from omcal.places.gpu.rows import TorchRows
from omcal.places.gpu.scaling import fit_scalings, scan
from omcal.places.gpu.views import DeviceViews
from omcal.places.parts import ChunkedRows
from omcal.views.tensors import device_of
from omcal.views.view import Views

_TOGETHER = 1 << 31  # most bytes of runs that iterate at the same time


class OnDevices(Place):
    """Rows on one device or several; the labels of tensors stay on their device.

    Views in host memory or files are sent in blocks and need not fit.
    """

    supported_options = frozenset({"device"})

    @cached_property
    def _devices(self) -> list[Device]:
        return find_devices(self.asked.device, self.views)

    @cached_property
    def _views(self) -> DeviceViews:
        """Return the views on the first device; a fit reads all rows twice."""
        return DeviceViews(self.views, self._devices[0], keeps=len(self._devices) == 1)

    def _row_bytes(self, settings: GraphSettings) -> int:
        # The graphs have a single format, as with compiled loops.
        return bytes_per_row(self.views, settings, compiled=True)

    def learn(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        views, n_bytes = self._views, self._row_bytes(settings)
        with working_on(views.device), explaining_out_of_memory(views.device, views.n, n_bytes):
            if span_pays(views.n, self.views.widths, settings, len(random_states)):
                return self._learn_in_span(settings, random_states)
            scalings = fit_scalings(views, settings.scale)
            how = (settings.n_anchors, settings.anchors)
            return _models(
                scalings, settings, choose_for_runs(views, scalings, *how, random_states)
            )

    def _learn_in_span(
        self, settings: GraphSettings, random_states: Sequence[np.random.RandomState]
    ) -> list[GraphModel]:
        """Return graph models whose anchors lie in one span of few directions."""
        views, m = self._views, settings.n_anchors
        if views.sparse or self.views.present is not None:
            scalings = fit_scalings(views, settings.scale)
            rows = shared_rows(views.n, m, random_states)
            return learned_in_span(self.views, scalings, settings, random_states, rows)
        before, drawn = random_states[0].get_state(), list[Any]()
        try:
            draw = partial(first_draws, views, m, random_states)
            scalings = fit_scalings(views, settings.scale, lambda: drawn.extend(draw()))
        except BaseException:  # a second attempt with filled cells draws the same
            random_states[0].set_state(before)
            raise
        found = anchors_in_span(views, scalings, m, random_states, *drawn)
        # On a device, sharing a product of the rows would save less time than it takes.
        return _models(scalings, settings, found)

    def scan_rows(self, data_scan: DataScan, first: int = 0) -> BlockStats:
        views, n = self._views, self.views.n
        sampled = data_scan.sampled(slice(first, first + n))
        with working_on(views.device):
            found = tuple(scan(views, data_scan.shared))
            sample = tuple(
                view.take(sampled).cpu().numpy() if view.host.stored else view.host.rows(sampled)
                for view in views
            )
        present = self.views.present
        here = np.ones((n, len(views)), bool) if present is None else present
        return BlockStats(found, (sample,), (here[sampled],), n - here.sum(axis=0))

    def batch(self, settings: GraphSettings) -> int:
        """Return the number of runs that leave most of a GPU's memory free."""
        if len(self._devices) > 1:
            return 1
        return max(1, _TOGETHER // (self.views.n * self._row_bytes(settings)))

    def solve(self, starts: Sequence[Start]) -> list[Solution]:
        return solve_in_lockstep(starts)

    def build(
        self, learned: Sequence[GraphModel], settings: GraphSettings
    ) -> Iterator[AbstractRows]:
        if len(self._devices) == 1:
            for some in row_blocks(len(learned), self.batch(settings)):
                yield from self._runs(self._devices[0], slice(None), learned[some], settings)
            return
        shares = list(row_blocks(self.views.n, -(-self.views.n // len(self._devices))))
        for one in learned:
            parts = [
                self._runs(there, rows, [one], settings)[0]
                for there, rows in zip(self._devices, shares, strict=False)
            ]
            yield ChunkedRows(parts, at_once=True)
            del parts

    def _runs(
        self, there: Device, rows: slice, learned: Sequence[GraphModel], settings: GraphSettings
    ) -> list[TorchRows]:
        """Return some rows of each run."""
        start, stop, _ = rows.indices(self.views.n)
        n, n_bytes = stop - start, len(learned) * self._row_bytes(settings)
        on_host = len(self._devices) > 1 or device_of(self.views) is None
        with working_on(there), explaining_out_of_memory(there, n, n_bytes):
            views = self._views if there == self._devices[0] else DeviceViews(self.views, there)
            joins, c = len(self._devices) == 1, settings.n_clusters
            of_runs = partial(
                TorchRows.of_runs, n_clusters=c, labels_on_host=on_host, joins_there=joins
            )
            found: list[TorchRows] = anchor_graphs(views, learned, rows, of_runs)
            return found

    def apply(
        self, rule: Predictor | ConsensusPredictor, wanted: OutputKind, out: Any = None
    ) -> Any:
        views, given, at = DeviceViews(self.views, self._devices[0]), device_of(self.views), 0

        def deliver(block: Tensor) -> Any:
            """Return a tensor for tensors, else an array; write to `out` if given."""
            nonlocal at
            if out is None:
                return block.cpu().numpy() if given is None else block.to(given)
            out[at : at + len(block)] = block if torch.is_tensor(out) else block.cpu().numpy()
            at += len(block)

        with working_on(views.device):
            if wanted == "graphs":
                return _graphs_on_host(views, rule)
            if isinstance(rule, ConsensusPredictor):
                blocks = _joined(views, rule, wanted)
            else:
                blocks = _decided(views, rule, wanted)
            parts = [deliver(block) for block in blocks]
        if out is not None:
            return out
        return np.concatenate(parts) if given is None else torch.cat(parts)

    def join(self, runs: Sequence[Assignment], n_clusters: int) -> AbstractRows:
        there = self._devices[0]
        with working_on(there):
            labels, runners_up, shares = (
                torch.stack([torch.as_tensor(getattr(run, name)).to(there) for run in runs])
                for name in ("labels", "second", "share")
            )
            graphs = joined_graph(labels, runners_up, shares, n_clusters)
            # Those of the runs are there, unless they were on several devices.
            return TorchRows(graphs, n_clusters, labels_on_host=len(self._devices) > 1)


def _models(
    scalings: list[Scaling], settings: GraphSettings, found: Sequence[Chosen]
) -> list[GraphModel]:
    """Return the models of chosen anchors; that of a single run must not keep device memory."""
    several, k = len(found) > 1, settings.n_neighbors
    return [GraphModel(scalings, host, k, there if several else None) for host, there in found]


def _decided(views: DeviceViews, rule: Predictor, wanted: OutputKind) -> Iterator[Tensor]:
    """Yield labels or F of blocks of new samples."""
    for graphs, (decide,) in _graphs(views, [rule]):
        yield decide(graphs.of_run(0), wanted)


def _joined(views: DeviceViews, rule: ConsensusPredictor, wanted: OutputKind) -> Iterator[Tensor]:
    """Yield labels or F of blocks of new samples, from their clusters in several runs."""
    decide = DeviceRule(rule, views.device, torch.float32)
    for graphs in _joint_graphs(views, rule):
        yield decide(graphs, wanted)


def _joint_graphs(views: DeviceViews, rule: ConsensusPredictor) -> Iterator[TorchGraphs]:
    """Yield the graphs between blocks of new samples and the clusters of the runs."""
    for graphs, by_run in _graphs(views, rule.runs):
        found = [one.labels(graphs.of_run(b), runner_up=True) for b, one in enumerate(by_run)]
        labels, runners_up, shares = map(torch.stack, zip(*found, strict=True))
        yield joined_graph(labels, runners_up, shares, rule.n_clusters)


def _graphs_on_host(views: DeviceViews, rule: Predictor | ConsensusPredictor) -> AnchorGraphs:
    """Return the graphs of new samples, built on the device, in the memory of the host."""
    if isinstance(rule, ConsensusPredictor):
        return AnchorGraphs.joined([part.on_host() for part in _joint_graphs(views, rule)])
    parts = [graphs.of_run(0).on_host() for graphs, _ in _graphs(views, [rule])]
    return replace(AnchorGraphs.joined(parts), present=views.host.present)


def _graphs(
    views: DeviceViews, rules: Sequence[Predictor]
) -> Iterator[tuple[TorchGraphs, list[DeviceRule]]]:
    """Yield the graphs of blocks of new samples, and the predictor of each run."""
    make = GraphMaker(views, [rule.learned for rule in rules])
    decide = [DeviceRule(rule, views.device, torch_dtype(views.dtype)) for rule in rules]
    entries = len(rules) * len(views) * rules[0].learned.n_neighbors
    for rows in row_blocks(views.n, decide[0].rows_at_once(entries)):
        yield make(rows), decide
    make.check()


def find_devices(device: str, views: Views) -> list[Device]:
    """Return the device of the tensors, else the requested devices, as in "cuda:0,cuda:1".

    Tensors in host memory are sent to the requested device, like arrays.
    """
    wanted, given = list(map(resolve_device, device.split(","))), device_of(views)
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
