"""The pass over the rows as a Triton kernel.

A pass reads indices, weights and F once and writes F once. Where the sums of a pass fit in the
shared memory of the GPU, `places.gpu.cuda` does it; else it adds to a few copies of the sums in
device memory, in the order in which the programs come by: in fixed point, which does not show it.
"""

from __future__ import annotations

from collections.abc import Callable

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import cuda as _cuda
from omcal.places.gpu import nvrtc
from omcal.places.gpu.graph import TorchGraphs
from omcal.places.gpu.plain_pass import PlainPass
from omcal.places.gpu.triton_graphs import AVAILABLE, usable

MAX_CLUSTERS = 64  # above this a block of F no longer fits in registers
_PROGRAMS = 1024  # programs of a pass; each adds up its share of the rows
_SUMS_BYTES = 1 << 26  # of all their sums together

if AVAILABLE:
    import triton
    import triton.language as tl

    @triton.jit
    def _f_step(  # type: ignore[no-untyped-def]
        U, indices, weights, table, rows, in_n, columns, n, m, V, k, C: tl.constexpr
    ):
        # U + [S_1 … S_V] table, for a table with rows of C entries.
        index = indices + rows
        weight = weights + rows
        for _ in range(V):
            for _ in range(k):
                anchor = tl.load(index, mask=in_n, other=0).to(tl.int32)
                w = tl.load(weight, mask=in_n, other=0.0)
                U += w[:, None] * tl.load(table + (anchor[:, None] * C + columns[None, :]))
                index += n
                weight += n
            table += m * C
        return U

    @triton.jit
    def _sweep(  # type: ignore[no-untyped-def]
        indices, weights, F, small, sums, products, scale, n, m, V, k, copies,
        c: tl.constexpr, C: tl.constexpr, ROWS: tl.constexpr,
    ):  # fmt: skip
        program = tl.program_id(0)
        unit = tl.load(scale)
        columns = tl.arange(0, C)
        in_c = columns < c
        R = tl.load(small + V * m * C + columns[:, None] * C + columns[None, :])
        mine = sums + (program % copies).to(tl.int64) * V * m * c
        FtF = tl.zeros((C, C), tl.float64)
        FoldtF = tl.zeros((C, C), tl.float64)
        for start in range(program * ROWS, n, tl.num_programs(0) * ROWS):
            rows = (start + tl.arange(0, ROWS)).to(tl.int64)
            in_n = rows < n
            here = rows[:, None] * c + columns[None, :]
            mask = in_n[:, None] & in_c[None, :]
            old = tl.load(F + here, mask=mask, other=0.0)
            U = tl.dot(old, R, input_precision="ieee", out_dtype=old.dtype)
            U = _f_step(U, indices, weights, small, rows, in_n, columns, n, m, V, k, C)
            new = tl.maximum(U, 0.0)
            tl.store(F + here, new, mask=mask)
            # Only these few rows are added up in F's own type.
            FtF += tl.dot(tl.trans(new), new, input_precision="ieee", out_dtype=new.dtype).to(
                tl.float64
            )
            FoldtF += tl.dot(tl.trans(old), new, input_precision="ieee", out_dtype=new.dtype).to(
                tl.float64
            )
            wide = new.to(tl.float64) * unit
            positive = mask & (new > 0)
            index = indices + rows
            weight = weights + rows
            target = mine
            for _ in range(V):
                for _ in range(k):
                    anchor = tl.load(index, mask=in_n, other=0).to(tl.int32)
                    w = tl.load(weight, mask=in_n, other=0.0).to(tl.float64)
                    tl.atomic_add(
                        target + (anchor[:, None] * c + columns[None, :]),
                        (w[:, None] * wide).to(tl.int64), mask=positive, sem="relaxed",
                    )  # fmt: skip
                    index += n
                    weight += n
                target += m * c
        tail = products + program * 2 * c * c + columns[:, None] * c + columns[None, :]
        inside = in_c[:, None] & in_c[None, :]
        tl.store(tail, FtF, mask=inside)
        tl.store(tail + c * c, FoldtF, mask=inside)


def serves(device: Device, n_clusters: int) -> bool:
    """Whether the kernels can do the pass for so many clusters on this device."""
    return n_clusters <= MAX_CLUSTERS and usable(device)


class FusedPass:
    """The pass by Triton kernels; matrices come with `columns` columns, zeros where c ends."""

    def __init__(self, graphs: TorchGraphs, F: Tensor) -> None:
        self._graphs = graphs
        self._F = F
        self._c = int(F.shape[-1])
        self.columns = max(16, triton.next_power_of_2(self._c))
        self.dtype = F.dtype
        # A tile of F of so many bytes, by the compiler's counts of registers and instructions.
        self._rows = max(16, 4096 // (self.columns * F.element_size()))
        self._in_cuda = (
            _cuda.CudaSweep(graphs, F, self.columns) if _cuda.serves(graphs, F) else None
        )
        if self._in_cuda:
            return
        size = graphs.n_views * graphs.n_anchors * self._c
        self._programs = min(_PROGRAMS, triton.cdiv(graphs.n, self._rows))
        copies = min(self._programs, max(1, _SUMS_BYTES // (8 * size)))
        self._sums = F.new_empty((copies, size), dtype=torch.int64)
        self._products = F.new_empty((self._programs, 2 * self._c**2), dtype=torch.float64)

    def gram(self) -> Tensor:
        """[S_1 … S_V]ᵀ[S_1 … S_V] of each run."""
        if nvrtc.available(self._F.device):
            return _cuda.gram(self._graphs)
        return PlainPass(self._graphs, self._F).gram()[None]

    @property
    def skips_finished(self) -> bool:
        """Whether a pass may be told to do nothing."""
        return self._in_cuda is not None

    def bound(self, small: Tensor, sums: Tensor, goes_on: Tensor) -> Callable[[], None]:
        """What does `sweep` into `sums` each time it is called, where it `skips_finished`.

        All have a row a run. Where `goes_on` is 0, nothing changes, and its sums are as before.
        """
        assert self._in_cuda is not None
        return self._in_cuda.bound(small, sums, goes_on)

    def sweep(self, small: Tensor) -> Tensor:
        """All sums in one row: SᵀF, FᵀF, FoldᵀF; `small` holds the stacked P and R."""
        if self._in_cuda:
            return self._in_cuda(small)
        g, scale = self._graphs, self._scale(small)
        self._sums.zero_()
        _sweep[(self._programs,)](
            g.indices, g.weights, self._F, small, self._sums, self._products, scale,
            g.n, g.n_anchors, g.n_views, g.k, len(self._sums),
            c=self._c, C=self.columns, ROWS=self._rows, num_warps=4, num_stages=1,
        )  # fmt: skip
        return torch.cat([self._sums.sum(dim=0) / scale, self._products.sum(dim=0)])

    def _scale(self, small: Tensor) -> Tensor:
        """The power of 2 by which sums of n entries of the next F are nearly 64-bit integers."""
        stack_by_view = self._graphs.n_views * self._graphs.n_anchors
        P, R = small[:stack_by_view].double(), small[stack_by_view:].double()
        # Each view has weights that sum to 1 in a row.
        largest = P.abs().unflatten(0, (self._graphs.n_views, -1)).amax(dim=(1, 2)).sum()
        largest += self._F.amax() * R.abs().sum(dim=0).max()
        return torch.exp2(torch.floor(61 - torch.log2(self._graphs.n * largest.clamp(min=1e-300))))

    def assign(
        self, small: Tensor, limit: float, *, runner_up: bool = False
    ) -> tuple[list[Tensor], Tensor]:
        """`PlainPass.assign`."""
        g = self._graphs
        width = g.n_views * g.n_anchors
        P, R, G = small.split([width, self.columns, width])
        if not nvrtc.available(self._F.device):
            plain = PlainPass(g, self._F)
            narrow = torch.cat([P, R[: self._c], G])[:, : self._c].to(plain.dtype)
            return plain.assign(narrow, limit, runner_up=runner_up)
        undecided = torch.zeros((), dtype=torch.int32, device=g.device)
        decide = _cuda.Decision(P, R, G, limit, self._c, settles=False)
        return decide.labels(g, runner_up, F=self._F, undecided=undecided), undecided
