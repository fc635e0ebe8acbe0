"""The indicator F of new samples and the labels that follow from it, on the device."""

from __future__ import annotations

from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor, numpy_dtype
from omcal.method.new_samples import ConsensusPredictor, Predictor
from omcal.method.rows import zero_tolerance
from omcal.method.updates import MAX_SWEEPS, fixed_point_tol, stack_by_view
from omcal.places.base import OutputKind
from omcal.places.gpu import cuda
from omcal.places.gpu.devices import block_entries, wide_type
from omcal.places.gpu.graph import TorchGraphs, index_type
from omcal.places.gpu.plain_pass import decide, second


class DeviceRule:
    """Compute labels or rows of F of new samples from their graphs, by a fitted predictor."""

    def __init__(self, rule: Predictor | ConsensusPredictor, device: Device, dtype: Any) -> None:
        Z = rule.consensus
        P, R = Z.f_step()
        self._c = rule.n_clusters
        self._dtype = dtype
        self._fused = cuda.decides(device, self._c)
        self._limit = zero_tolerance(float(np.abs(P).max()))
        wide = wide_type(device)
        self._P, self._G = (
            torch.from_numpy(stack_by_view(Z.alpha, M)).to(device, dtype if self._fused else wide)
            for M in (P, Z.G)
        )
        self._R = torch.from_numpy(np.ascontiguousarray(R)).to(device, wide)

    def rows_at_once(self, n_entries: int) -> int:
        """Return the rows per block, given the entries of a row in all graphs."""
        return max(1, block_entries(self._P.device) // (n_entries if self._fused else len(self._P)))

    def __call__(self, graphs: TorchGraphs, wanted: OutputKind) -> Tensor:
        if wanted == "labels":
            return self.labels(graphs)[0]
        if not self._fused:
            return self._settled(graphs.dense(slice(None), self._P.dtype)).clamp_(min=0)
        F = torch.empty((graphs.n, self._c), dtype=self._dtype, device=graphs.device)
        self._decision()(graphs, F=F)
        return F

    def labels(self, graphs: TorchGraphs, *, runner_up: bool = False) -> list[Tensor]:
        """Return the labels; if asked, with runners-up and shares as in `second`."""
        if self._fused:
            return self._decision().labels(graphs, runner_up)
        S = graphs.dense(slice(None), self._P.dtype)
        U = self._settled(S)
        labels = decide(U, S @ self._G, self._limit)[0]
        return [labels, *(second(U.clamp_(min=0), labels) if runner_up else ())]

    def _settled(self, S: Tensor) -> Tensor:
        return fixed_point(S @ self._P, self._R).to(self._dtype)

    def _decision(self) -> cuda.Decision:
        return cuda.Decision(*(self._P, self._R, self._G, self._limit, self._c), settles=True)


def fixed_point(B: Tensor, R: Tensor) -> Tensor:
    """Do `omcal.method.updates.fixed_point`: U = B + F R at the fixed point F = max(B + F R, 0).

    B and R are of the wide type.
    """
    F = B.clamp(min=0)
    own = R.diagonal()
    limit = fixed_point_tol(numpy_dtype(B.dtype)) * B.abs().max()
    for _ in range(MAX_SWEEPS):
        before = F.clone()
        for j in range(len(R)):
            column = torch.addmv(B[:, j], F, R[:, j]) - own[j] * F[:, j]
            F[:, j] = (column / (1.0 - own[j])).clamp_(min=0)
        if bool((F - before).abs().max() <= limit):
            break
    return torch.addmm(B, F, R)


def joined_graph(
    labels: Tensor, runners_up: Tensor, shares: Tensor, n_clusters: int
) -> TorchGraphs:
    """Do `omcal.method.new_samples.joined_graph` on the device; inputs have a row per run."""
    B = len(labels)
    clusters, parts = [labels, runners_up], [shares, 255 - shares]
    if n_clusters == 1:  # there are no runners-up, and the anchors of a row have to differ
        clusters, parts = [labels], [shares]
    first = torch.arange(B, dtype=torch.int32, device=labels.device)[:, None, None] * n_clusters
    indices = (torch.stack(clusters, dim=1) + first).to(index_type(B * n_clusters))
    weights = torch.stack(parts, dim=1).to(torch.float32) / (255 * B)
    return TorchGraphs(indices.flatten(0, 1)[None], weights.flatten(0, 1)[None], B * n_clusters)
