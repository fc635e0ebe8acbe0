"""What the tests of fits on a Dask cluster share."""

from functools import partial

import numpy as np
import pytest

pytest.importorskip("distributed", reason="the extra dask is not installed")

import dask.array as da

from omcal.machine.threads import row_blocks
from omcal.places.cluster_rows import ClusterRows
from omcal.places.memory import MemoryRows

SETTINGS = {"n_clusters": 4, "n_anchors": 9, "max_iter": 12, "tol": 0.0, "random_state": 0}


def cut(views, rows=1700):
    """The views as Dask arrays in chunks of rows."""
    return [da.from_array(X, chunks=(rows, -1)) for X in views]


class Distributed(ClusterRows):
    """Rows on a cluster, with the F of all of them."""

    def __init__(self, client, graphs, n_clusters, n_parts=3):
        rows = list(row_blocks(graphs.n, -(-graphs.n // n_parts)))
        parts = client.scatter([graphs[part] for part in rows], hash=False)
        sizes = [len(range(graphs.n)[r]) for r in rows]
        super().__init__(client, parts, sizes, partial(MemoryRows, n_clusters=n_clusters))
        self._last = None

    def assign(self, alpha, P, R, G, *, runner_up=False):
        self._last = (alpha, P, R)
        return super().assign(alpha, P, R, G, runner_up=runner_up)

    @property
    def F(self):
        self.sweep(*self._last)
        return np.concatenate([F for F, _ in self._client.gather(self._states)])
