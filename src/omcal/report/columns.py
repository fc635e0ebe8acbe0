"""Columns that a map can be coloured by: numbers as shades, everything else as categories."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.machine.arrays import Array

MISSING = 255  # of the 256 shades of a number
_FEW = 12  # different integers up to which they are categories
_MOST = 200  # categories; the rarest are put together


Scale = dict[str, Any]  # what the script of the page needs to name the values


def read_columns(columns: Mapping[str, Any], n: int) -> list[tuple[Scale, Array]]:
    """Check the columns that a user has given and turn them into shades and codes, as bytes."""
    found = []
    for k, (name, values) in enumerate(columns.items()):
        array = one_per_sample(f"columns[{name!r}]", values, n)
        continuous = array.dtype.kind == "f" or (
            array.dtype.kind in "iu" and len(np.unique(array)) > _FEW
        )
        scale, codes = _shades(array) if continuous else _codes(array)
        found.append(({"title": str(name), "array": f"column{k}"} | scale, codes))
    return found


def one_per_sample(what: str, values: Any, n: int) -> Array:
    """Return an array of n values; raise for any other shape."""
    array = np.asarray(values)
    if array.shape != (n,):
        raise ValueError(f"{what} has shape {array.shape}; give one value for each of {n} samples.")
    return array


def _shades(array: Array) -> tuple[Scale, Array]:
    x = array.astype(np.float64)
    finite = np.isfinite(x)
    low, high = (float(x[finite].min()), float(x[finite].max())) if finite.any() else (0.0, 1.0)
    scale = {"low": low, "high": high, "plain": True}
    return scale, to_shades(np.where(finite, x, np.nan), low, high)


def to_shades(x: Array, low: float, high: float) -> NDArray[np.uint8]:
    """Return shades, 0 to 254 between low and high, and 255 where there is no value."""
    # Halved first: the span of the largest numbers is no number.
    part = (x / 2 - low / 2) / max(high / 2 - low / 2, 1e-300)
    shades = np.floor(np.clip(np.nan_to_num(part), 0, 1) * (MISSING - 1) + 0.5)
    return np.where(np.isnan(x), MISSING, shades).astype(np.uint8)


def _codes(array: Array) -> tuple[Scale, Array]:
    texts = np.array([str(value) for value in array.tolist()])
    names, codes, counts = np.unique(texts, return_inverse=True, return_counts=True)
    categories = names.tolist()
    if len(names) > _MOST:
        kept = np.sort(np.argsort(-counts, kind="stable")[: _MOST - 1])
        place = np.full(len(names), _MOST - 1)
        place[kept] = np.arange(len(kept))
        codes, categories = place[codes], [*names[kept].tolist(), "other"]
    return {"names": categories}, codes.astype(np.uint8)
