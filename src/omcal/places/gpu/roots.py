"""The projector on eigenvalues above a limit, and the inverse root there, in one launch.

Off, `batched_roots` does it: ten joined runs of 60000 × 1430 take 1.45 of their time, 10⁷ × 448
with 100 anchors 1.38 (benchmarks/ablations_gpu.py).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.torch import Tensor
from omcal.method.roots import steps
from omcal.places.gpu import nvrtc
from omcal.places.gpu.devices import send

LEAST = 1e-8  # of eigenvalues up to 1: the smallest whose root surely converges
_GAP = 1e-8  # between an eigenvalue and the limit, for which it surely tells them apart
CLOSE = 1e-6  # to 1, where all eigenvalues have to be in the end
# Of the tile of a product that a block works on, and what it reads at a time.
_SIDE, _DEPTH = 16, 128


class TiledRoot:
    """Compute the projector on eigenvalues of A above a limit, and the inverse root of A there.

    For matrices too large for one block of threads. The sign of A less the limit is +1 or −1 for
    each eigenvector, and so tells the projector on those that are kept; the others are given the
    eigenvalue 1 before the root is taken. Both by the steps of `omcal.method.roots`. Where nothing
    is cut, the root alone takes two fifths of the products.

    Parameters
    ----------
    right : Tensor
        An entry a matrix, which becomes 0 where an eigenvalue is too near to the limit.
    m : int
    cuts : bool
        False keeps all eigenvalues; that all are above the limit is then to be told from `squared`.

    Attributes
    ----------
    begun : Tensor
        Where the matrices are to be, no eigenvalue of A above 1: A less the limit, and A − I.
    projector : Tensor or None
        On the eigenvectors that are kept; None: all are.
    inverse : Tensor
        A^(−½) there, and 0 elsewhere.
    squared : Tensor or None
        The inverse of A, where nothing is cut.
    """

    def __init__(self, right: Tensor, m: int, *, cuts: bool) -> None:
        self._m, self._right = m, right
        # Of each product what `root.cu` is given.
        self._plan: list[tuple[tuple[Tensor | None, ...], tuple[float, float]]] = []
        shape = (10, len(right), m, m)
        matrices = torch.empty(shape, dtype=torch.float64, device=right.device)
        self.begun, self._room = matrices[:2], list(matrices[2:8])
        projector, self._unit = matrices[8:]
        self._unit[:] = torch.eye(m)
        self._make_plan(projector, cuts=cuts)
        self._launches = self._bound()

    @property
    def at_once(self) -> bool:
        """Whether all products are one launch."""
        return len(self._launches) == 1

    def _make_plan(self, projector: Tensor, *, cuts: bool) -> None:
        above, less_one = self.begun
        self.projector: Tensor | None = None
        self.squared: Tensor | None = None
        kept = self._room[0]
        if not cuts:
            self._multiply(less_one, self._unit, kept, 1.0)
            self.inverse = self._inverse_root(kept)
            self.squared = kept
            self._multiply(self.inverse, self.inverse, self.squared)
            return
        # The projector is (I + sign) / 2.
        self._multiply(self._sign(above), self._unit, projector, 0.5, 0.5)
        self._multiply(less_one, projector, kept, 1.0)
        root = self._inverse_root(kept)
        self.projector, self.inverse = projector, self._room[0]
        self._multiply(root, projector, self.inverse)

    def _sign(self, X: Tensor) -> Tensor:
        H, *others = self._room[:3]
        plan = list(steps(_GAP))
        for number, (linear, cubic) in enumerate(plan):
            self._multiply(X, X, H, linear, -cubic, checked=number + 1 == len(plan))
            self._multiply(H, X, others[number % 2])
            X = others[number % 2]
        return X

    def _inverse_root(self, Y: Tensor) -> Tensor:
        _, H, *spare = self._room
        Xs, Ys = spare[:2], spare[2:]
        (linear, cubic), *plan = steps(LEAST**0.5)
        X = Xs[0]
        self._multiply(Y, self._unit, X, linear, -cubic)
        self._multiply(Y, X, Ys[0])
        Y = Ys[0]
        for number, (linear, cubic) in enumerate(plan, start=1):
            last = number == len(plan)
            to_X, to_Y = Xs[number % 2], Ys[number % 2]
            self._multiply(X, Y, H, linear, -cubic, checked=last)
            self._multiply(H, X, to_X, also=None if last else (Y, H, to_Y))
            X, Y = to_X, to_Y
        return X

    def __call__(self) -> None:
        for launch in self._launches:
            launch()

    def _multiply(
        self,
        left: Tensor,
        right_one: Tensor,
        target: Tensor,
        linear: float = 0.0,
        factor: float = 1.0,
        *,
        also: Any = None,
        checked: bool = False,
    ) -> None:
        """Plan linear I + factor · left · right_one; `checked`: test the product against I."""
        right = self._right if checked else None
        given = (left, right_one, target, *(also or (None, None, None)), right)
        self._plan.append((given, (linear, factor)))

    def _bound(self) -> list[Callable[[], None]]:
        """Return the launches: one, where all blocks of threads can be resident at once."""
        device, runs, tiles = self._right.device, len(self._right), -(-self._m // _SIDE)
        kernel = nvrtc.compiled("root", device, SIDE=_SIDE, DEPTH=_DEPTH)
        n_bytes = 8 * (_SIDE * (2 * _DEPTH + 1) + 4 * _SIDE**2)
        size = ((tiles**2, runs), _SIDE**2, n_bytes)
        plan = np.empty((len(self._plan), 9), dtype=np.int64)
        plan[:, :7] = [
            [0 if tensor is None else tensor.data_ptr() for tensor in tensors]
            for tensors, _ in self._plan
        ]
        plan[:, 7:] = np.array([factors for _, factors in self._plan]).view(np.int64)
        there, arrived = send([plan, np.zeros(runs, dtype=np.int32)], device)
        at_once = tiles**2 * runs <= kernel.most_blocks(*size[1:])
        parts = [(0, len(plan))] if at_once else [(i, i + 1) for i in range(len(plan))]
        more = (CLOSE, self._m, self._right.stride(0))
        return [
            kernel.bound(*size, there, arrived, *part, *more, at_once=at_once) for part in parts
        ]
