"""Processes that cluster together, each with its own part of the samples.

    torchrun --nproc-per-node 2 examples/collective.py

Every process makes, or reads, the rows of its own rank alone, and passes them to `fit`. All of them
end with the same model; `labels_` are those of its own rows. With --checkpoint, processes that
torchrun starts again (--max-restarts) go on where they were.
"""

import argparse

import numpy as np
import torch.distributed as dist

from omcal import OMCAL
from omcal.places.ranks import start_group


def own_rows(rank, size, n):
    """This rank's rows of n samples in four groups, which overlap in each of two views."""
    rows = range(rank * n // size, (rank + 1) * n // size)
    centres = np.random.default_rng(0)
    by_view = [1.5 * centres.normal(size=(4, width)) for width in (12, 8)]
    noise = np.random.default_rng([1, rank])
    groups = np.arange(rows.start, rows.stop) % 4
    views = {
        name: middles[groups] + noise.normal(size=(len(groups), middles.shape[1]))
        for name, middles in zip(("audio", "video"), by_view, strict=True)
    }
    return views, groups


def main():
    """Fit, and let the first rank say what came about."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=20_000)
    parser.add_argument("--checkpoint")
    given = parser.parse_args()

    start_group()  # init_process_group, also of ranks that are started again
    rank, size = dist.get_rank(), dist.get_world_size()
    views, groups = own_rows(rank, size, given.samples)
    model = OMCAL(n_clusters=4, random_state=0, group="world", checkpoint=given.checkpoint)
    model.fit(views)

    # Numbers of samples by group and cluster, added up over the ranks.
    tables = [None] * size
    own = np.zeros((4, 4), dtype=int)
    np.add.at(own, (groups, model.labels_), 1)
    dist.all_gather_object(tables, own)
    if rank == 0:
        table = sum(tables)
        print(f"{table.sum()} samples on {size} ranks, {model.n_iter_} iterations")
        print(f"weights of the views: {model.view_weights_.round(3).tolist()}")
        print(f"in the largest cluster of their group: {table.max(axis=1).sum() / table.sum():.3f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
