"""Ways to hold the rows that tests try, each (graphs, n_clusters) -> rows."""

from contextlib import contextmanager
from functools import partial

import numpy as np

from omcal.machine.scratch import Scratch
from omcal.machine.threads import row_blocks
from omcal.method.graph import AnchorGraphs
from omcal.places.collective import RankRows
from omcal.places.gpu.rows import TorchRows
from omcal.places.memory import MemoryRows
from omcal.places.parts import ChunkedRows
from omcal.places.ranks import Ranks


class Chunked(ChunkedRows):
    """Rows in parts, with the F of all of them."""

    @property
    def F(self):
        return np.concatenate(list(self._each(lambda part: part.F)))


class Scratched(ChunkedRows):
    """Rows in three parts, kept in scratch files between their uses."""

    def __init__(self, graphs, n_clusters):
        scratch = Scratch()
        arrays = {
            "indices": graphs.indices,
            "weights": graphs.weights,
            "F": np.zeros((graphs.n, n_clusters), graphs.weights.dtype),
        }
        stored = {name: scratch.array(a.shape, a.dtype) for name, a in arrays.items()}
        for name, array in arrays.items():
            stored[name][:] = array
        self.F = stored["F"]
        graphs = AnchorGraphs(stored["indices"], stored["weights"], graphs.n_anchors)

        @contextmanager
        def part(rows):
            yield MemoryRows(graphs[rows], n_clusters, F=self.F[rows])
            scratch.release()

        super().__init__([partial(part, rows) for rows in row_blocks(graphs.n, -(-graphs.n // 3))])


class OnGPU:
    """Rows on the first GPU, with their F on the host."""

    def __init__(self, graphs, n_clusters):
        self._rows = TorchRows.from_graphs(graphs, n_clusters, "cuda")

    def __getattr__(self, name):
        return getattr(self._rows, name)

    @property
    def F(self):
        return self._rows.F.cpu().numpy()


class OnOneRank(RankRows):
    """Rows of a group that has this process alone."""

    def __init__(self, graphs, n_clusters):
        import torch.distributed as dist

        if not dist.is_initialized():
            dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
        shape = (graphs.n_views, graphs.n_anchors, n_clusters)
        super().__init__(Ranks("world"), MemoryRows(graphs, n_clusters), shape)

    @property
    def F(self):
        return self._rows.F


def chunked(n_parts):
    """Rows in this many parts; None: as many parts as rows."""

    def make(graphs, n_clusters):
        size = 1 if n_parts is None else -(-graphs.n // n_parts)
        parts = [MemoryRows(graphs[rows], n_clusters) for rows in row_blocks(graphs.n, size)]
        return Chunked(parts)

    return make


compiled = partial(MemoryRows, compiled=True)
one_chunk, three_chunks, n_chunks = chunked(1), chunked(3), chunked(None)
on_torch = TorchRows.from_graphs
