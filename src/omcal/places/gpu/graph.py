"""Anchor graphs, Eq. 2, and the linear maps behind distances to anchors, on the device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor, numpy_dtype, torch_dtype
from omcal.method.graph import MOST_ROUNDING, AnchorGraphs
from omcal.method.new_samples import GraphModel
from omcal.method.scaling import Scaling
from omcal.places.gpu import cuda_graphs
from omcal.places.gpu.devices import send, wide_type
from omcal.places.gpu.scaling import check_finite
from omcal.places.gpu.views import DeviceView, DeviceViews
from omcal.views.present import stand_in, stand_ins


@dataclass(frozen=True)
class TorchGraphs:
    """`omcal.method.graph.AnchorGraphs` on a device, with the rows last.

    So neighbouring threads, which process neighbouring rows, read neighbouring numbers. Graphs of
    several runs have one more axis, the first.
    """

    indices: Tensor  # (V, k, n), the smallest integers that hold m
    weights: Tensor  # (V, k, n), of each row and view sum to 1
    n_anchors: int

    @classmethod
    def empty(
        cls, n_runs: int, n: int, n_views: int, k: int, n_anchors: int, dtype: Any, device: Device
    ) -> TorchGraphs:
        shape = (n_runs, n_views, k, n)
        indices = torch.empty(shape, dtype=index_type(n_anchors), device=device)
        return cls(indices, torch.empty(shape, dtype=torch_dtype(dtype), device=device), n_anchors)

    @classmethod
    def from_host(cls, graphs: AnchorGraphs, device: Device) -> TorchGraphs:
        indices = np.ascontiguousarray(graphs.indices.transpose(1, 2, 0)).astype(np.int32)
        weights = np.ascontiguousarray(graphs.weights.transpose(1, 2, 0))
        return cls(
            torch.from_numpy(indices).to(index_type(graphs.n_anchors)).to(device),
            torch.from_numpy(weights).to(device),
            graphs.n_anchors,
        )

    def on_host(self) -> AnchorGraphs:
        """Return the graphs of one run in the memory of the host."""
        both = self.indices, self.weights
        indices, weights = (part.permute(2, 0, 1).contiguous().cpu().numpy() for part in both)
        few = np.min_scalar_type(self.n_anchors - 1)
        return AnchorGraphs(indices.astype(few, copy=False), weights, self.n_anchors)

    @property
    def n(self) -> int:
        return int(self.indices.shape[-1])

    @property
    def n_views(self) -> int:
        return int(self.indices.shape[-3])

    @property
    def k(self) -> int:
        return int(self.indices.shape[-2])

    @property
    def device(self) -> Device:
        return self.indices.device

    @property
    def n_runs(self) -> int:
        return len(self.indices) if self.indices.ndim == 4 else 1

    def of_run(self, number: int) -> TorchGraphs:
        """Return the graphs of one run, in the same memory."""
        return TorchGraphs(self.indices[number], self.weights[number], self.n_anchors)

    def columns(self, rows: slice) -> Tensor:
        """Return (…, rows, V·k): the columns of the entries of the rows in [S_1 … S_V]."""
        shift = torch.arange(self.n_views, device=self.device)[:, None, None] * self.n_anchors
        return (self.indices[..., rows].long() + shift).flatten(-3, -2).mT

    def dense(self, rows: slice, dtype: Any) -> Tensor:
        """Return rows of [S_1 … S_V] as dense matrices; use it for a block of rows only."""
        columns = self.columns(rows)
        shape = (*columns.shape[:-1], self.n_views * self.n_anchors)
        weights = self.weights[..., rows].flatten(-3, -2).mT.to(dtype)
        return torch.zeros(shape, dtype=dtype, device=self.device).scatter_(-1, columns, weights)


class GraphMaker:
    """`omcal.method.graph.anchor_graphs` of several runs on the device, for any rows of the views.

    Each view is read once; only the distances of one block exist at a time.
    """

    def __init__(self, views: DeviceViews, learned: Sequence[GraphModel]) -> None:
        self._views = views
        self._learned = learned
        k = learned[0].n_neighbors
        # Per view: all runs or one, their search, and what it subtracts from the rows.
        self._nearest: list[list[tuple[Any, Any, Tensor | None]]] = []
        for view, of_view in zip(views, relative_distances(views, learned), strict=True):
            m, tie = int(of_view.bias.shape[1]), 16 * float(np.finfo(view.dtype).eps)
            on_cores = not view.sparse and cuda_graphs.serves(views.device, view.dtype, m, k)
            way = cuda_graphs.NearestAnchors if on_cores else _ByProducts
            alike = not view.sparse and all(origin is None for origin in of_view.origin)
            parts = [(slice(None), None)] if alike else list(enumerate(of_view.origin))
            W, b, largest = of_view.W, of_view.bias, of_view.largest_bias
            searches = [(i, way(W[i], b[i], tie, largest[i]), origin) for i, origin in parts]
            self._nearest.append(searches)
        self._weight = torch.zeros(len(views), dtype=wide_type(views.device), device=views.device)

    def __call__(self, rows: slice) -> TorchGraphs:
        """Return the graphs of the rows; the first axis is the run."""
        views, first = self._views, self._learned[0]
        start, stop, _ = rows.indices(views.n)
        size = (stop - start, len(views), first.n_neighbors, len(first.anchors[0]))
        graphs = TorchGraphs.empty(len(self._learned), *size, views.dtype, views.device)
        for v, (view, scaling) in enumerate(zip(views, first.scalings, strict=True)):
            resident = view.resident
            blocks = view.blocks(scaling, len(self._learned) * size[-1], rows)
            whole = (o is None and nearest.takes(resident) for _, nearest, o in self._nearest[v])
            if not scaling.prepares and all(whole):
                blocks = iter([(slice(start, stop), resident[rows])])  # type: ignore[index]
            for place, block in blocks:
                here = slice(place.start - start, place.stop - start)
                for some, nearest, origin in self._nearest[v]:
                    moved, at = block if origin is None else block - origin, (some, v, ..., here)
                    nearest(moved, graphs.indices[at], graphs.weights[at])
        if views.host.present is not None:
            present = torch.from_numpy(views.host.present[rows]).to(views.device)
            for b, one in enumerate(self._learned):
                of_run = graphs.of_run(b)
                by_row = (of_run.indices.permute(2, 0, 1), of_run.weights.permute(2, 0, 1))
                stand_in(*by_row, present, stand_ins(one.anchors))
        self._weight += graphs.weights.sum(dim=(0, 2, 3), dtype=self._weight.dtype)
        return graphs

    def check(self) -> None:
        """Raise for views whose distances were not finite: their weights are NaN.

        Called when all rows are done, because the check waits for the device.
        """
        for view, finite in zip(self._views, self._weight.isfinite().tolist(), strict=True):
            if not finite:
                check_finite(view)
                raise ValueError(
                    f"view {view.name!r} holds values too large for products in {view.dtype}; "
                    "rescale it, or pass float64."
                )


def anchor_graphs(
    views: DeviceViews,
    learned: Sequence[GraphModel],
    rows: slice = slice(None),
    use: Callable[[TorchGraphs], Any] = lambda graphs: graphs,
) -> Any:
    """Return what `use` makes of the graphs of the rows in each run, which are then checked."""
    make = GraphMaker(views, learned)
    found = use(make(rows))
    make.check()
    return found


class _ByProducts:
    """`cuda_graphs.NearestAnchors` with PyTorch's products, on any device."""

    def __init__(self, W: Tensor, bias: Tensor, tie: float, largest_bias: Any) -> None:
        self._W, self._bias, self._tie = W, bias[..., None, :], tie

    def takes(self, X: Tensor | None) -> bool:
        """Return False: the products take memory, so rows come in blocks."""
        return False

    def __call__(self, X: Tensor, indices: Tensor, weights: Tensor) -> None:
        """Write indices and weights, (…, k, rows), which are NaN where a distance is not finite."""
        k, products = indices.shape[-2], X @ self._W
        finite = products.abs().sum(dim=-1).isfinite()
        scale = torch.maximum(products.abs().amax(dim=-1), self._bias.abs().amax(dim=-1))
        nearest, d = _nearest_columns(products + self._bias, k + 1)
        indices.copy_(nearest[..., :-1, :])
        gap = d[..., -1:, :] - d[..., :-1, :]
        total = gap.sum(dim=-2, keepdim=True)
        # Equal distances (duplicate points, all-zero rows): share the weight evenly.
        tied = total <= self._tie * scale[..., None, :]
        shares = torch.where(tied, 1.0 / k, gap / torch.where(tied, 1.0, total))
        weights.copy_(torch.where(finite[..., None, :], shares, torch.nan))


def _nearest_columns(d: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """Return the columns of the smallest entries of each row, and the entries, (…, count, rows).

    Entries are found one after another, the first of equal ones, and removed from `d`: `topk` does
    not define which of equal entries it returns.
    """
    found = []
    for _ in range(count):
        least = d.min(dim=-1, keepdim=True)
        d.scatter_(-1, least.indices, torch.inf)
        found.append((least.indices[..., 0], least.values[..., 0]))
    columns, values = zip(*found, strict=True)
    return torch.stack(columns, dim=-2), torch.stack(values, dim=-2)


def index_type(n_anchors: int) -> Any:
    """Return the smallest integer type that holds the numbers of this many anchors."""
    if n_anchors <= 1 << 8:
        return torch.uint8
    return torch.int16 if n_anchors <= 1 << 15 else torch.int32


@dataclass(frozen=True)
class Distances:
    """`omcal.method.graph.RelativeDistances` of a view for each run: rows @ W + bias."""

    W: Tensor  # (runs, d, m)
    bias: Tensor  # (runs, m)
    largest_bias: list[float]  # of each run
    origin: list[Tensor | None]  # per run: subtracted from the rows first


def relative_distances(views: DeviceViews, learned: Sequence[GraphModel]) -> list[Distances]:
    """Return the distances of each view; the host waits for the device once.

    A row x is scaled to (x − centre) · factor. Twice its product with (mean of the anchors −
    anchor), plus a bias, is its distance to the anchor up to a common shift. If rows are far from
    the origin, the row that is scaled to the mean is subtracted from them first.
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
    """Return factor and centre of all features; 1 and 0 for a view that is not scaled."""
    both = list(zip(scalings, widths, strict=True))
    factor = [np.ones(d) if one.factor is None else one.factor for one, d in both]
    centre = [np.zeros(d) if one.center is None else one.center for one, d in both]
    wide = numpy_dtype(wide_type(device))
    given = [np.concatenate(parts).astype(wide) for parts in (factor, centre)]
    found, at = send(given, device)
    return found, at


def _anchors(learned: Sequence[GraphModel], device: Device) -> list[Tensor]:
    """Return the anchors of each view, (runs, m, d)."""
    # Anchors that were computed on a device are still there, as a list.
    there = [one.shared_span for one in learned if isinstance(one.shared_span, list)]
    if len(there) == len(learned) and there[0][0].device == device:
        return [torch.stack(points) for points in zip(*there, strict=True)]
    wide = numpy_dtype(wide_type(device))
    given = zip(*(one.anchors for one in learned), strict=True)
    return send([np.stack(points).astype(wide, copy=False) for points in given], device)


def _rounding(view: DeviceView) -> float:
    """Return the rounding error of products relative to its limit; 0 for sparse rows."""
    eps = float(np.finfo(view.dtype).eps)
    return 0.0 if view.sparse else eps / (0.25 * MOST_ROUNDING)
