"""Time whole fits on a GPU with one mechanism switched off at a time, in turns.

    python benchmarks/ablations_gpu.py                 # a CUDA GPU, about three minutes
    python benchmarks/ablations_gpu.py --tiny          # a trial run anywhere

A switch replaces a kernel by PyTorch's own operations. The figure is the median, over turns, of
the time without the mechanism over the time with it in the same turn; 1.03 is what a mechanism has
to earn in some case to stay. `nothing` switches nothing off: its distance from 1 is the noise.
"""

from __future__ import annotations

import argparse
import statistics
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

import torch
from gpu_checks import clustered, setting
from sklearn.exceptions import ConvergenceWarning

from omcal import OMCAL, Consensus
from omcal.places.gpu import (
    cuda,
    cuda_graphs,
    cuda_kmeans,
    cuda_views,
    devices,
    iteration,
    place,
    scaling,
)
from omcal.places.gpu.batched_steps import BatchedSteps
from omcal.places.gpu.plain_pass import PlainPass

WIDE = (342, 1024, 64)
THREE = (128, 256, 64)


def off(*changes: tuple[Any, str, Any]) -> Callable[[], Any]:
    """Return a context manager in which attributes of modules have other values."""

    @contextmanager
    def switched() -> Iterator[None]:
        with ExitStack() as stack:
            for change in changes:
                stack.enter_context(setting(*change))
            yield

    return switched


def never(*given: Any, **more: Any) -> bool:
    """Stand in for a function that tells whether a kernel serves."""
    return False


class PlainSweep(PlainPass):
    """The pass of `SpreadSweep`, by PyTorch's operations."""

    def _sums(self, small: Any, on: Any = None) -> Any:
        return super()._sums(small.to(self.dtype), on)


def plain_gram(self: Any) -> Any:
    """Return SᵀS by PyTorch's operations."""
    return PlainPass(self._graphs, self._F).gram()


def plain_assign(self: Any, small: Any, limit: float, *, runner_up: bool = False) -> Any:
    """Return labels by PyTorch's operations."""
    plain = PlainPass(self._graphs, self._F)
    width = self._graphs.n_views * self._graphs.n_anchors
    P, R, G = small[:, : plain.columns].split([width, self.columns, width])
    small = torch.cat([P, R[: plain.columns], G]).to(plain.dtype)
    return plain.assign(small, limit, runner_up=runner_up)


SWITCHES: dict[str, Callable[[], Any]] = {
    "nothing": off(),
    "seed": off((cuda_kmeans, "seeds", never)),
    "lloyd": off((cuda_kmeans, "iterates", never)),
    "seed,lloyd": off((cuda_kmeans, "seeds", never), (cuda_kmeans, "iterates", never)),
    "small": off((iteration, "KernelSteps", BatchedSteps)),
    "batched": off((iteration, "serves", lambda rows, problem: rows.together.work.in_cuda)),
    "nearest": off((cuda_graphs, "serves", never)),
    "sweep,small": off((cuda, "in_shared_memory", never)),
    "spread": off((cuda, "SpreadSweep", PlainSweep)),
    "gram": off((cuda.CudaPass, "gram", plain_gram)),
    "decide": off((cuda.CudaPass, "assign", plain_assign)),
    "moments": off((cuda_views, "serves", never)),
    "span": off((place, "span_pays", never)),
    "kinds": off((scaling, "_kinds", lambda views: {})),
    "recordings": off((devices.Repeated, "__call__", lambda self: self._work())),
    "lockstep": off((place.OnDevices, "batch", lambda self, settings: 1)),
}
FIXED = {"tol": 0.0, "max_iter": 30, "random_state": 0}


def cases(tiny: bool) -> Iterator[tuple[str, Any, Any, int]]:
    """Yield name, model, tensors and turns of each case."""
    device = torch.device("cpu" if tiny else "cuda", None if tiny else 0)
    few = 100 if tiny else 1

    def data(n: int, widths: tuple[int, ...], dtype: Any = torch.float32) -> Any:
        return clustered(max(n // few, 600), widths, dtype, device)

    ten = partial(Consensus, random_state=0)
    X = data(10**7, THREE)
    yield "10⁷ × 448, 30 iterations", OMCAL(10, n_anchors=100, **FIXED), X, 7
    X = data(60_000, WIDE)
    yield "60000 × 1430, m = 30, 30 iterations", OMCAL(10, n_anchors=30, **FIXED), X, 15
    yield "60000 × 1430, ten runs", ten(OMCAL(10)), X, 7
    yield "10000 × 1430, ten runs", ten(OMCAL(10)), [x[:10_000] for x in X], 7
    yield "1000 × 1430, ten runs", ten(OMCAL(10)), [x[:1000] for x in X], 7
    X = data(10**6, THREE)
    yield "10⁶ × 448", OMCAL(10, random_state=0), X, 9
    yield "10⁶ × 448, ten runs", ten(OMCAL(10)), X, 5
    yield "10⁶ × 448, c = 40", OMCAL(40, random_state=0), X, 5
    few_X = [x[:200_000] for x in X]
    yield "2·10⁵ × 448, c = 60", OMCAL(60, random_state=0), few_X, 5
    yield "2·10⁵ × 448, float64", OMCAL(10, random_state=0), [x.double() for x in few_X], 5
    leaves = data(1600 * few, (64, 64, 64), torch.float64)
    yield "1600 × 192, c = 100", OMCAL(100, random_state=0), leaves, 5
    yield "1600 × 192, c = 100, ten runs", ten(OMCAL(100)), leaves, 1


def once(fit: Callable[[], Any]) -> float:
    """Milliseconds of a fit, the work of the device included."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    start = time.perf_counter()
    fit()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return 1e3 * (time.perf_counter() - start)


def main() -> None:
    """Print the time of each case, and the ratios without each mechanism."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small data, for a trial run")
    parser.add_argument("--cases", nargs="+", default=[""], help="parts of the names of cases")
    parser.add_argument("--only", nargs="+", choices=SWITCHES, default=list(SWITCHES))
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    for name, model, X, turns in cases(options.tiny):
        if not any(part in name for part in options.cases):
            continue
        fit = partial(model.fit, X)
        base: list[float] = []
        times: dict[str, list[float]] = {}
        for key in options.only:  # compiles kernels
            try:
                with SWITCHES[key]():
                    fit()
                times[key] = []
            except Exception as error:
                print(f"{name}, {key}: {type(error).__name__} {error!s:.200}", flush=True)
        for _ in range(1 if options.tiny else turns):
            base.append(once(fit))
            for key in times:
                with SWITCHES[key]():
                    times[key].append(once(fit))
        ratios = {
            key: statistics.median(a / b for a, b in zip(some, base, strict=True))
            for key, some in times.items()
        }
        print(f"{name}: {statistics.median(base):.2f} ms ({min(base):.2f} to {max(base):.2f})")
        print("  without", " ".join(f"{key} {x:.3f}" for key, x in ratios.items()), flush=True)


if __name__ == "__main__":
    main()
