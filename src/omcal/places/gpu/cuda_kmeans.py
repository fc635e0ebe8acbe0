"""k-means in CUDA C++: the whole k-means++ start, and iterations where there are few features."""

from __future__ import annotations

from omcal.machine import torch
from omcal.machine.torch import Tensor
from omcal.method import kmeans
from omcal.places.gpu import nvrtc

_MOST_ROWS = 4096  # for keeping the products of all pairs
_MOST_TRIALS = 16  # sums per thread, in its registers
_THREADS = 1024  # of a start
_LLOYD_THREADS = 256
_LLOYD_ROWS = 64  # at a time
_BLOCKS_AT_ONCE = 4  # of all runs, on a processor


def seeds(X: Tensor, n_trials: int) -> bool:
    """Whether `seed` does this."""
    return (
        X.shape[1] <= _MOST_ROWS
        and n_trials <= _MOST_TRIALS
        and nvrtc.available(X.device)
        and _seed_bytes(X, n_trials) <= nvrtc.room(X.device)
    )


def seed(X: Tensor, n_clusters: int, firsts: Tensor, draws: Tensor) -> Tensor:
    """Return the numbers of the rows that each run chooses, (runs, m), the first of which is given.

    X is (runs, n, d), or (1, n, d) where all runs choose among the same rows; `draws` holds random
    numbers for each further choice, (runs, m − 1, trials).
    """
    (groups, n, _), (n_runs, _, n_trials) = X.shape, draws.shape
    chosen = torch.empty((n_runs, n_clusters), dtype=torch.int32, device=X.device)
    kernel = nvrtc.compiled(
        "seed",
        X.device,
        REAL=nvrtc.TYPES[str(X.dtype)],
        TRIALS=n_trials,
        SAME=kmeans.SAME_SUM,
        THREADS=_THREADS,
    )
    kernel(
        *((n_runs, 1), _THREADS, _seed_bytes(X, n_trials)),
        *(X @ X.mT, draws, firsts.int(), chosen, n, n_clusters, n * n if groups > 1 else 0),
    )
    return chosen


def _seed_bytes(X: Tensor, n_trials: int) -> int:
    """Return the shared bytes: sums in double, distances, lengths, candidate rows."""
    n = int(X.shape[1])
    sums = n + _THREADS // 32 * n_trials
    return 8 * sums + 2 * n * int(X.element_size()) + 4 * (n_trials + 1)


def iterates(X: Tensor, n_clusters: int) -> bool:
    """Whether `Lloyd` does this."""
    return nvrtc.available(X.device) and _lloyd_bytes(X, n_clusters) <= nvrtc.room(X.device)


class Lloyd:
    """Lloyd iterations of several runs, each on its own rows of X, (runs, n, d).

    They update the centres of a run until their move is at most its `limit`, without waiting for
    the device. Empty clusters are not filled; `empty` marks the runs that have some.
    """

    def __init__(self, X: Tensor, centres: Tensor, limit: Tensor) -> None:
        (n_runs, n, d), m = X.shape, int(centres.shape[1])
        processors = nvrtc.processors(X.device)
        most = min(processors, -(-_BLOCKS_AT_ONCE * processors // n_runs))
        blocks = min(most, -(-n // _LLOYD_ROWS))
        movers = -(-m * d // _LLOYD_THREADS)
        sums = X.new_empty((n_runs, blocks, m, d + 1))
        moves = torch.full((n_runs, movers + 2), torch.inf, dtype=torch.float64, device=X.device)
        self.empty = moves[:, -1].zero_()
        kernel = nvrtc.compiled(
            "lloyd",
            X.device,
            REAL=nvrtc.TYPES[str(X.dtype)],
            THREADS=_LLOYD_THREADS,
            ROWS=_LLOYD_ROWS,
        )
        given = (X.contiguous(), centres, sums, moves, limit.double(), n, d, m, blocks, movers)
        n_bytes = _lloyd_bytes(X, m)
        self._add_up = kernel.bound((blocks, n_runs), _LLOYD_THREADS, n_bytes, *given, 1)
        self._move = kernel.bound((movers, n_runs), _LLOYD_THREADS, 8 * _LLOYD_THREADS, *given, 0)

    def __call__(self) -> None:
        self._add_up()
        self._move()


def _lloyd_bytes(X: Tensor, m: int) -> int:
    """Return the shared bytes: centres, lengths, sums, counts, rows, distances, labels."""
    d, turned = int(X.shape[2]), -(-m // 8) * 8
    numbers = (d + 1) * (turned + m + _LLOYD_ROWS) + _LLOYD_THREADS
    return numbers * int(X.element_size()) + 4 * _LLOYD_THREADS
