"""The size of a view: width, density and float type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from omcal.views.view import View

_INDEX = 4  # bytes of a sparse index

_SPARSE = 15.0  # a product with a sparse row takes this many times longer per entry


@dataclass(frozen=True)
class ViewSize:
    """Width, fraction of stored entries (None: dense) and float type of a view."""

    width: int
    density: float | None
    dtype: np.dtype

    @classmethod
    def of(cls, view: View) -> ViewSize:
        n, width = view.array.shape
        return cls(width, view.array.nnz / max(n * width, 1) if view.sparse else None, view.dtype)

    @property
    def row_entries(self) -> float:
        """Numbers stored in a row."""
        return self.width * (1.0 if self.density is None else self.density)

    @property
    def row_bytes(self) -> float:
        """Bytes of a row in a copy."""
        index = 0 if self.density is None else _INDEX
        return self.row_entries * (self.dtype.itemsize + index)

    @property
    def row_operations(self) -> float:
        """Operations of the product of a row with one column."""
        if self.density is not None:
            return 2 * self.row_entries * _SPARSE
        return self.row_entries * self.dtype.itemsize / 4


def view_sizes(
    dims: int | Sequence[int], dtype: DTypeLike, density: float | Sequence[float | None] | None
) -> tuple[ViewSize, ...]:
    """Return the sizes of views by their description."""
    widths = [_width(width) for width in (dims if isinstance(dims, Sequence) else [dims])]
    shares = list(density) if isinstance(density, Sequence) else [density] * len(widths)
    if not widths or len(shares) != len(widths):
        raise ValueError(
            f"dims={dims!r} and density={density!r}: give at least one width, and one density or "
            "one per view."
        )
    if any(share is not None and not 0 <= share <= 1 for share in shares):
        raise ValueError(f"density={density!r} must be the share of stored entries, 0 to 1.")
    used = View("", np.empty((0, 1), np.dtype(dtype))).dtype
    return tuple(ViewSize(*size, used) for size in zip(widths, shares, strict=True))


def _width(width: Any) -> int:
    if isinstance(width, bool) or not isinstance(width, int | np.integer) or width < 1:
        raise ValueError(f"dims has the entry {width!r}; give the number of features of each view.")
    return int(width)
