"""Inverse square roots of matrices that never leave the device, and a check of each.

An eigen-decomposition there takes longer than many a pass over the rows, and waits for the host.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from omcal.machine import torch
from omcal.machine.torch import Tensor
from omcal.places.gpu import nvrtc

LEAST = 1e-8  # the smallest eigenvalue over the largest that surely converges
CLOSE = 1e-6  # to 1, where all eigenvalues have to be in the end
_SIDE, _DEPTH = (
    16,
    64,
)  # of the tile of a product that a block works on, and what it reads at a time


class TiledRoot:
    """A^(−½) by the steps of `omcal.method.roots`, for matrices too large for one block of threads.

    Parameters
    ----------
    right : Tensor
        An entry a matrix, which becomes 0 where its root is not right.
    m : int
    steps : list of pairs of float

    Attributes
    ----------
    begun : Tensor
        Where the matrices A are to be, no eigenvalue above 1, and the first steps a I − b A behind
        them.
    inverse : Tensor
        The roots.
    power : Tensor
        Their 16th powers.
    """

    def __init__(self, right: Tensor, m: int, steps: list[tuple[float, float]]) -> None:
        self._m, self._apart, self._launches = m, right.stride(0), list[Callable[[], None]]()
        device = right.device
        tiles = -(-m // _SIDE)
        self._kernel = nvrtc.compiled("root", device, SIDE=_SIDE, DEPTH=_DEPTH)
        self._size = (tiles**2, len(right), _SIDE**2, 8 * (_SIDE * (_DEPTH + 1) + _SIDE * _DEPTH))
        matrices = torch.empty((8, len(right), m, m), dtype=torch.float64, device=device)
        self.begun, room = matrices.split([2, 6])
        Y, X = self.begun
        self.power, H, *spare = room
        Xs, Ys = spare[:2], spare[2:]
        self._multiply(Y, X, Ys[0])
        Y = Ys[0]
        for number, (linear, cubic) in enumerate(steps[1:]):
            last = number + 2 == len(steps)
            to_X, to_Y = Xs[number % 2], Ys[(number + 1) % 2]
            self._multiply(X, Y, H, linear, -cubic, right=right if last else None)
            self._multiply(H, X, to_X, also=None if last else (Y, H, to_Y))
            X, Y = to_X, to_Y
        self.inverse = X
        for source, target in ((X, H), (H, Y), (Y, H), (H, self.power)):
            self._multiply(source, source, target)

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
        right: Tensor | None = None,
    ) -> None:
        blocks, runs, *rest = self._size
        blocks *= 1 if also is None else 2
        given = (left, right_one, target, *(also or (None, None, None)), right)
        launch = self._kernel.bound(
            (blocks, runs), *rest, *given, linear, factor, CLOSE, self._m, self._apart
        )
        self._launches.append(launch)
