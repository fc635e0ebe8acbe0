"""The k-means++ start in CUDA C++: all of its steps in one kernel."""

from __future__ import annotations

from omcal.machine import torch
from omcal.machine.torch import Tensor
from omcal.places.gpu import nvrtc

_MOST_ROWS = 4096  # whose products with each other are kept
_MOST_TRIALS = 16  # sums of a thread, in its registers
_THREADS = 1024


def serves(X: Tensor, n_trials: int) -> bool:
    """Whether `seed` does this."""
    return (
        len(X) <= _MOST_ROWS
        and n_trials <= _MOST_TRIALS
        and nvrtc.available(X.device)
        and _bytes(X, n_trials) <= nvrtc.room(X.device)
    )


def seed(X: Tensor, n_clusters: int, first: int, draws: Tensor) -> Tensor:
    """Numbers of the rows that are chosen, the first of which is given; a row of draws a step."""
    products, n_trials = X @ X.T, int(draws.shape[1])
    chosen = torch.empty(n_clusters, dtype=torch.int32, device=X.device)
    kernel = nvrtc.compiled(
        "seed",
        X.device,
        REAL=nvrtc.TYPES[str(X.dtype)],
        TRIALS=n_trials,
        THREADS=_THREADS,
    )
    kernel(
        *(1, _THREADS, _bytes(X, n_trials)),
        *(products, draws, chosen, len(X), n_clusters, first),
    )
    return chosen


def _bytes(X: Tensor, n_trials: int) -> int:
    """Sums in double, distances and lengths, the rows that are tried."""
    sums = len(X) + _THREADS // 32 * n_trials
    return 8 * sums + 2 * len(X) * int(X.element_size()) + 4 * (n_trials + 1)
