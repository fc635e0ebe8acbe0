"""k-means in CUDA C++: the whole k-means++ start, and iterations where there are few features."""

from __future__ import annotations

from omcal.machine import torch
from omcal.machine.torch import Device, Tensor
from omcal.places.gpu import nvrtc
from omcal.places.gpu.devices import block_entries

_MOST_ROWS = 4096  # whose products with each other are kept
_MOST_TRIALS = 16  # sums of a thread, in its registers
_THREADS = 1024  # of a start
_LLOYD_THREADS = 256
_BASIS_THREADS = 512
_MOST_IN_BASIS = 64  # of more centres the host finds one sooner
_WIDE_THREADS = 128
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
    """Numbers of the rows that each run chooses among its own, the first of which is given.

    X has the rows of a run after those of another, `draws` a row for each further choice of a run.
    """
    (n_runs, n, _), n_trials = X.shape, int(draws.shape[2])
    chosen = torch.empty((n_runs, n_clusters), dtype=torch.int32, device=X.device)
    kernel = nvrtc.compiled(
        "seed",
        X.device,
        REAL=nvrtc.TYPES[str(X.dtype)],
        TRIALS=n_trials,
        THREADS=_THREADS,
    )
    kernel(
        *(n_runs, _THREADS, _seed_bytes(X, n_trials)),
        *(X @ X.mT, draws, firsts.int(), chosen, n, n_clusters),
    )
    return chosen


def _seed_bytes(X: Tensor, n_trials: int) -> int:
    """Sums in double, distances and lengths, the rows that are tried."""
    n = int(X.shape[1])
    sums = n + _THREADS // 32 * n_trials
    return 8 * sums + 2 * n * int(X.element_size()) + 4 * (n_trials + 1)


def finds_bases(device: Device, m: int) -> bool:
    """Whether `bases` does this, for matrices of m rows."""
    return nvrtc.available(device) and m <= _MOST_IN_BASIS


def bases(products: Tensor) -> Tensor:
    """`omcal.method.points.span_basis` of each matrix of products; zeros beyond a basis."""
    n_runs, m, _ = products.shape
    found, kind = torch.empty_like(products), nvrtc.TYPES[str(products.dtype)]
    kernel = nvrtc.compiled("basis", products.device, REAL=kind, THREADS=_BASIS_THREADS)
    rounding = 4 * m * torch.finfo(products.dtype).eps
    kernel(n_runs, _BASIS_THREADS, _basis_bytes(products), products, found, rounding, m)
    return found


def _basis_bytes(products: Tensor) -> int:
    """The products, eigenvectors, rotations and sizes of rows, in double."""
    side = int(products.shape[1]) + int(products.shape[1]) % 2
    return 8 * (2 * side * side + 2 * side)


def iterates(X: Tensor, n_clusters: int) -> bool:
    """Whether `Lloyd` does this."""
    return nvrtc.available(X.device) and _lloyd_bytes(X, n_clusters) <= nvrtc.room(X.device)


class Lloyd:
    """Iterations of runs, each on its own rows of X, (runs, n, d).

    They change the centres of a run until they move no more than its `limit`, and never wait for
    the device. Nor do they fill clusters that are empty; `empty` says in which runs there are some.
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
    """Centres and their lengths, sums and numbers, some rows, least distances and labels."""
    d, turned = int(X.shape[2]), -(-m // 8) * 8
    numbers = (d + 1) * (turned + m + _LLOYD_ROWS) + _LLOYD_THREADS
    return numbers * int(X.element_size()) + 4 * _LLOYD_THREADS


def iterates_wide(X: Tensor, n_clusters: int) -> bool:
    """Whether `WideLloyd` does this: what it keeps for each row and cluster is not too much."""
    entries = X.shape[1] * n_clusters
    return nvrtc.available(X.device) and entries <= block_entries(X.device)


class WideLloyd:
    """`Lloyd` for rows of any number of columns, around the products of a library."""

    def __init__(self, X: Tensor, centres: Tensor, limits: Tensor) -> None:
        (runs, n, d), m, device = X.shape, int(centres.shape[1]), X.device
        self._X, self._centres, self._number = X, centres, 0
        self._products, self._member = X.new_empty((2, runs, n, m))
        self._sums, norms = torch.empty_like(centres), X.new_empty((runs, m))
        counts = torch.zeros((runs, m), dtype=torch.int32, device=device)
        moves = torch.empty((runs, 2, m), dtype=torch.float64, device=device)
        self.empty = torch.zeros(runs, dtype=torch.float64, device=device)
        kind = nvrtc.TYPES[str(X.dtype)]
        self._kernel = nvrtc.compiled("wide", device, REAL=kind, THREADS=_WIDE_THREADS)
        self._given = (
            *(self._products, self._member, self._sums, centres, norms, counts, moves),
            *(self.empty, limits.double(), n, d, m),
        )
        self._rows = ((-(-n // _WIDE_THREADS), runs), _WIDE_THREADS, 4 * m)
        self._move = ((m, runs), _WIDE_THREADS, 8 * _WIDE_THREADS // 32)
        self._kernel(*self._move, *self._given, 0, 1)

    def __call__(self) -> None:
        self._number += 1
        torch.bmm(self._X, self._centres.mT, out=self._products)
        self._kernel(*self._rows, *self._given, self._number, 0)
        torch.bmm(self._member.mT, self._X, out=self._sums)
        self._kernel(*self._move, *self._given, self._number, 1)
