"""Samples that are absent from a view: detection, masks, and substitute graphs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.metrics import euclidean_distances

from omcal.machine.arrays import Array, Mask
from omcal.machine.threads import map_blocks

_FIRST_ROWS = 1 << 18  # rows whose first numbers a thread reads at a time


def rows_present(array: Any) -> Mask | None:
    """Return a mask that is False for rows of NaN; None if there is no such row."""
    if sparse.issparse(array) or array.dtype.kind != "f":
        return None
    if len(array) <= _FIRST_ROWS and not np.isnan(array[:, 0]).any():
        return None
    # For most rows a number in the first column proves that they are present. The check waits for
    # memory, one cache line per row, so threads help.
    first = map_blocks(lambda rows: ~np.isnan(np.asarray(array[rows, 0])), len(array), _FIRST_ROWS)
    present: Mask = np.concatenate([*first, np.ones(0, dtype=bool)])
    doubtful = np.flatnonzero(~present)
    present[doubtful] = ~np.isnan(array[doubtful]).all(axis=1)
    return None if present.all() else present


def read_masks(given: Any, names: Sequence[str], n: int) -> dict[str, Mask]:
    """Return the masks given by a user by view name, without the views that have none."""
    if given is None:
        return {}
    if hasattr(given, "columns"):  # a data frame
        given = {name: given[name] for name in given.columns}
    if isinstance(given, Mapping):
        masks = {str(name): mask for name, mask in given.items()}
        unknown = sorted(set(masks) - set(names))
        if unknown:
            raise ValueError(f"present has masks for {unknown}, but the views are {list(names)}.")
    else:
        table = isinstance(given, np.ndarray) and given.ndim == 2
        members = list(given.T if table else given)
        if len(members) != len(names):
            raise ValueError(
                f"present has {len(members)} masks for {len(names)} views; give one for each, or "
                "None where all samples are in the view."
            )
        masks = dict(zip(names, members, strict=True))
    return {name: _mask(mask, name, n) for name, mask in masks.items() if mask is not None}


def _mask(mask: Any, name: str, n: int) -> Mask:
    array = np.asarray(mask)
    if array.dtype != bool or array.shape != (n,):
        raise ValueError(
            f"present: the mask of view {name!r} has shape {array.shape} and type {array.dtype}; "
            f"give {n} booleans, False where the sample is absent."
        )
    return array


def check_present(present: Mask | None, start: int = 0) -> None:
    """Refuse samples without any view."""
    if present is None:
        return
    nowhere = np.flatnonzero(~present.any(axis=1))
    if nowhere.size:
        raise ValueError(
            f"{nowhere.size} sample(s) are absent from every view, the first is number "
            f"{start + nowhere[0]}; remove them: nothing is known about them."
        )


def require_enough(names: Sequence[str], counts: Sequence[int] | Array, n_anchors: int) -> None:
    """Refuse views in which anchors would have to coincide."""
    for name, count in zip(names, counts, strict=True):
        if count < n_anchors:
            raise ValueError(
                f"view {name!r} has {count} samples, fewer than n_anchors={n_anchors}; lower "
                "n_anchors, or leave the view out."
            )


def stand_ins(anchors: Sequence[Array]) -> list[list[int]]:
    """Return for each view the other views, most similar first.

    The similarity is the correlation of the distances between the anchors in both views.
    """
    above = np.triu_indices(len(anchors[0]), 1)
    # Far from the origin, squared distances would be rounding error.
    centred = [A - A.mean(axis=0) for A in anchors]
    D = np.array([euclidean_distances(A, squared=True)[above] for A in centred])
    D = D - D.mean(axis=1, keepdims=True)
    D /= np.maximum(np.linalg.norm(D, axis=1, keepdims=True), np.finfo(D.dtype).tiny)
    alike = D @ D.T
    order = np.argsort(-alike, axis=1, kind="stable")
    return [[int(u) for u in row if u != v] for v, row in enumerate(order)]


def stand_in(indices: Any, weights: Any, present: Any, order: list[list[int]]) -> None:
    """Copy the graph rows of absent samples from the most similar view, in place.

    Works on NumPy arrays and on tensors, (n, V, k).
    """
    for v, others in enumerate(order):
        absent = ~present[:, v]
        for u in others:
            rows = absent & present[:, u]
            indices[rows, v] = indices[rows, u]
            weights[rows, v] = weights[rows, u]
            absent = absent & ~present[:, u]
