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
from omcal.places.gpu import cuda, cuda_graphs, cuda_kmeans, iteration
from omcal.places.gpu.batched_steps import BatchedSteps
from omcal.places.gpu.kernel_steps import KernelSteps, in_one_block

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


def without_root(tensors: Any, *given: Any, **more: Any) -> Any:
    """Return the small steps by batched products where `root.cu` would be needed."""
    few = in_one_block(tensors.G.shape[1], tensors.G.device)
    return (KernelSteps if few else BatchedSteps)(tensors, *given, **more)


SWITCHES: dict[str, Callable[[], Any]] = {
    "nothing": off(),
    "seed": off((cuda_kmeans, "seeds", never)),
    "lloyd": off((cuda_kmeans, "iterates", never)),
    "root": off((iteration, "KernelSteps", without_root)),
    "small, root": off((iteration, "KernelSteps", BatchedSteps)),
    "nearest": off((cuda_graphs, "serves", never)),
    "nearest, closest": off((cuda_graphs, "serves", never), (cuda_graphs, "selects", never)),
    "sweep, small, root": off((cuda, "in_shared_memory", never)),
    "sweep, small, root, spread": off((cuda, "serves", never)),
}
FIXED = {"tol": 0.0, "max_iter": 30, "random_state": 0}


def cases(tiny: bool) -> Iterator[tuple[str, Any, Any, int]]:
    """Yield name, model, tensors and turns of each case."""
    device = torch.device("cpu" if tiny else "cuda", None if tiny else 0)
    few = 100 if tiny else 1

    def data(n: int, widths: tuple[int, ...], dtype: Any = torch.float32) -> Any:
        return clustered(max(n // few, 600), widths, dtype, device)

    ten = partial(Consensus, random_state=0)
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
    yield "1600 × 192, c = 100, ten runs", ten(OMCAL(100)), leaves, 2
    del few_X
    X = data(10**7, THREE)
    yield "10⁷ × 448, 30 iterations", OMCAL(10, n_anchors=100, **FIXED), X, 7


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
    """Print one line a case and switch."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tiny", action="store_true", help="small data, for a trial run")
    options = parser.parse_args()
    warnings.simplefilter("ignore", ConvergenceWarning)
    warnings.simplefilter("ignore", UserWarning)
    for name, model, X, turns in cases(options.tiny):
        fit = partial(model.fit, X)
        for switch in SWITCHES.values():  # compiles kernels
            with switch():
                fit()
        base: list[float] = []
        times: dict[str, list[float]] = {key: [] for key in SWITCHES}
        for _ in range(1 if options.tiny else turns):
            base.append(once(fit))
            for key, switch in SWITCHES.items():
                with switch():
                    times[key].append(once(fit))
        print(f"{name}: {statistics.median(base):.2f} ms ({min(base):.2f} to {max(base):.2f})")
        for key, some in times.items():
            ratio = statistics.median(a / b for a, b in zip(some, base, strict=True))
            print(f"  without {key}: {ratio:.3f} ({statistics.median(some):.2f} ms)", flush=True)


if __name__ == "__main__":
    main()
