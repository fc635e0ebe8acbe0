"""The small steps of an iteration by `small.cu`; with many anchors roots are batched products.

Without it (`batched_steps` instead), 60000 × 1430 takes 2.57 times as long, ten joined runs 3.14,
10⁷ × 448 1.39 (benchmarks/ablations_gpu.py).
"""

from __future__ import annotations

from collections.abc import Callable

from omcal.machine.torch import Device
from omcal.method.solver import MOST_MOMENTUM
from omcal.places.gpu import nvrtc
from omcal.places.gpu.batched_roots import ProductRoot
from omcal.places.gpu.batched_steps import StepInputs
from omcal.places.gpu.devices import Repeated

_MOST_ANCHORS = 64  # with more anchors, many blocks compute a root faster than one block
_THREADS = 512
_TURNS, _SHRINKS, _MULTIPLIES, _DECOMPOSES, _ENDS = 1, 2, 4, 8, 16  # parts of `small.cu`


def in_one_block(m: int, device: Device, *, cuts: bool = False) -> bool:
    """Whether one block of threads takes the roots of matrices of m anchors, and projectors."""
    return m <= _MOST_ANCHORS and 8 * _block_numbers(m, cuts=cuts) <= nvrtc.room(device)


def _block_numbers(*sizes: int, cuts: bool) -> int:
    """Return the numbers of a block in shared memory: one per warp, three or four matrices, a row.

    Matrices are padded to tiles of the tensor cores, with a few more numbers per row.
    """
    side = -(-max(sizes) // 8) * 8
    return _THREADS // 32 + (4 if cuts else 3) * side * (side + 4) + side


class KernelSteps:
    """The updates of `Iteration.finish` for all active runs, after a pass."""

    def __init__(self, given: StepInputs) -> None:
        tensors, problem, rule, cuts, least = given
        device, self._problem = tensors.G.device, problem
        (runs, m, c), V, n_faces = tensors.G.shape, tensors.H.shape[1], tensors.faces.shape[1]
        few, self._t = in_one_block(m, device, cuts=cuts), tensors
        n_work = 2 * m * m + 1 + 5 * m * c + c * c + 3 * V + 3 + max(n_faces, V)
        self._work = tensors.sums.new_zeros((runs, n_work))
        self._n_faces = n_faces
        self._kernel = nvrtc.compiled(
            "small",
            device,
            REAL=nvrtc.TYPES[str(tensors.packed.dtype)],
            VIEWS=V,
            C=c,
            WIDTH=tensors.packed.shape[2],
            RULE=rule,
            MOMENTUM=int(problem.accelerate),
            MOST_MOMENTUM=MOST_MOMENTUM,
            ANCHORS=-(-m // 8) * 8 if few else 0,
            CUTS=int(cuts),
            THREADS=_THREADS,
        )
        self._bytes = 8 * _block_numbers(c, m if few else 0, cuts=cuts)
        # Matrices that only one launch uses are faster in shared memory.
        self._shares = self._bytes + 8 * n_work <= nvrtc.room(device)
        self._root = None if few else ProductRoot(self._work[:, m * m], m, cuts=cuts, least=least)
        self._launches = self._small()

    def __call__(self) -> None:
        for launch in self._launches:
            launch()

    def _small(self) -> list[Callable[[], None]]:
        """Return the launches of an iteration."""
        times = self._problem.small_steps
        if self._root is None:
            parts = [_MULTIPLIES | _DECOMPOSES] * times
            parts[0] |= _TURNS
            parts[-1] |= _ENDS
            return [self._bound(some) for some in parts]
        recorded = Repeated(self._root, self._t.G.device)
        root: list[Callable[[], None]] = [recorded] if self._problem.tau > 0 else []
        again = [*root, self._bound(_SHRINKS | _MULTIPLIES)] * (times - 1)
        return [self._bound(_TURNS | _MULTIPLIES), *again, *root, self._bound(_SHRINKS | _ENDS)]

    def _bound(self, parts: int) -> Callable[[], None]:
        """Return a function that launches some parts of the kernel."""
        t, p, root, n_work = self._t, self._problem, self._root, self._work.stride(0)
        whole = self._shares and parts == _TURNS | _MULTIPLIES | _DECOMPOSES | _ENDS
        apart = (t.scalars.stride(0), n_work, t.packed.stride(0))
        # The parts of a slot are consecutive; the kernel knows their lengths.
        return self._kernel.bound(
            *((1, len(t.G)), _THREADS, self._bytes + (8 * n_work if whole else 0)),
            *(t.sums, t.StS, t.H, t.faces, t.given, t.alpha_of_Z),
            None if whole else self._work,
            *((root.begun, root.projector, root.inverse, root.squared) if root else [None] * 4),
            *(t.packed, t.answers, p.beta, p.gamma, p.tau, p.tol),
            *(t.G.shape[1], self._n_faces, t.answers.shape[1], *apart, self._bytes // 8, parts),
        )
