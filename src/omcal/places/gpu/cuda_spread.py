"""The pass for any number of clusters: a kernel that adds up in device memory, and products."""

from __future__ import annotations

from omcal.machine import torch
from omcal.machine.threads import row_blocks
from omcal.machine.torch import Tensor
from omcal.places.gpu import nvrtc
from omcal.places.gpu.devices import block_entries
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.plain_pass import PlainPass

_THREADS = 256
_BLOCKS = 16  # per multiprocessor, of all runs
_SUMS_BYTES = 1 << 25  # of all copies of the sums
_BITS = 61  # of a sum


class SpreadSweep(PlainPass):
    """The pass for given graphs and F, of one run or several, where `CudaSweep` has no room."""

    def __init__(self, graphs: TorchGraphs, F: Tensor) -> None:
        super().__init__(graphs, F)
        c = self.columns
        self._size = graphs.n_views * graphs.n_anchors * c
        runs, most = graphs.n_runs, _BLOCKS * nvrtc.processors(F.device)
        self._blocks = max(1, min(most // runs, -(-graphs.n * c // _THREADS)))
        self._copies = max(1, min(self._blocks, _SUMS_BYTES // (8 * self._size * runs)))
        self._kernel = nvrtc.compiled(
            "spread",
            F.device,
            REAL=nvrtc.TYPES[str(F.dtype)],
            INDEX=nvrtc.TYPES[str(graphs.indices.dtype)],
            VIEWS=graphs.n_views,
            K=graphs.k,
            C=c,
            THREADS=_THREADS,
        )

    def _sums(self, small: Tensor, on: Tensor | None = None) -> Tensor:
        g, F, c = self._graphs, self._F, int(self._F.shape[2])
        P, R = small.split([g.n_views * g.n_anchors, c], dim=1)
        P = P.contiguous()
        new, unit = torch.empty_like(F), self._unit(P, R)
        shape = (g.n_runs, self._copies, self._size)
        StF = torch.zeros(shape, dtype=torch.int64, device=F.device)
        self._kernel(
            *((self._blocks, g.n_runs), _THREADS, 0),
            *(g.indices, g.weights, F @ R, P, new, StF, unit, g.n, g.n_anchors, self._copies),
        )
        if on is not None:
            new = torch.where(on, new, F)
        products = new.new_zeros((2, g.n_runs, c, c), dtype=torch.float64)
        for rows in row_blocks(g.n, max(1, block_entries(F.device) // (g.n_runs * c))):
            now = new[:, rows].double()
            products[0].baddbmm_(now.mT, now)
            products[1].baddbmm_(F[:, rows].double().mT, now)
        F.copy_(new)
        return torch.cat([StF.sum(dim=1) / unit[:, None], *products.flatten(2)], dim=1)

    def _unit(self, P: Tensor, R: Tensor) -> Tensor:
        """Return the power of 2 by which no sum of n entries of the next F leaves its bits."""
        # Each view has weights that sum to 1 in a row.
        by_view = P.abs().unflatten(1, (self._graphs.n_views, -1)).amax(dim=(2, 3)).double()
        row_sums = R.abs().sum(dim=1).amax(dim=1).double()
        largest = by_view.sum(dim=1) + self._F.amax(dim=(1, 2)).double() * row_sums
        most = (self._graphs.n * largest).clamp(min=1e-300)
        return torch.exp2(torch.floor(_BITS - torch.log2(most)))
