"""Which of the places the work on the rows is done in; each is loaded only where it is used."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.method.new_samples import Indicator, write_blocks
from omcal.places.placement import GraphSettings, Placed, Room, place_in_memory
from omcal.views.reading import validate_views
from omcal.views.view import Views

_BLOCK = 8192  # new samples at a time


def check_device(device: str) -> None:
    """Refuse what cannot be the name of a device, whether PyTorch is there or not."""
    if not re.fullmatch(r"cpu|mps|cuda|cuda:\d+(,cuda:\d+)*", device):
        raise ValueError(
            f"device={device!r} is not known; use 'cpu', 'cuda', 'cuda:1' (the second GPU), "
            "'cuda:0,cuda:1' (both) or 'mps'."
        )


def read_views(
    estimator: Any, X: Any, *, reset: bool = True, min_samples: int = 1, present: Any = None
) -> Views:
    """`validate_views` with gaps, also for tensors, which stay on their device."""
    columns = getattr(estimator, "views", None)
    if "torch" in sys.modules:  # else there is no tensor
        from omcal.views.tensors import holds_tensors, validate_tensors

        if holds_tensors(X):
            return validate_tensors(
                estimator,
                X,
                views=columns,
                reset=reset,
                min_samples=min_samples,
                present=present,
            )
    return validate_views(
        estimator,
        X,
        views=columns,
        reset=reset,
        min_samples=min_samples,
        lazy=True,
        gaps=True,
        present=present,
    )


def on_device(views: Views, device: str) -> bool:
    """Whether PyTorch is to do the work: a device was asked for, or the views are tensors."""
    if device != "cpu":
        return True
    if "torch" not in sys.modules:
        return False
    from omcal.views.tensors import device_of

    return device_of(views) is not None


def place(
    views: Views,
    settings: GraphSettings,
    random_state: np.random.RandomState,
    room: Room,
    device: str,
) -> Placed:
    """Rows where the views are, or where they are wanted."""
    if on_device(views, device):
        from omcal.places.gpu.fit import place_on_device

        return place_on_device(views, settings, random_state, device)
    if room.holds_all(views):
        return place_in_memory(views, settings, random_state)
    if views.distributed or room.client is not None:
        from omcal.places.cluster import place_on_dask

        return place_on_dask(views, settings, random_state, room)
    from omcal.places.disk import place_out_of_core

    return place_out_of_core(views, settings, random_state, room)


def predict(indicator: Indicator, views: Views, device: str, out: Any = None) -> Any:
    """Cluster of each sample, where the views are, or where it is wanted; in `out` if given."""
    if out is not None and tuple(out.shape) != (views.n,):
        raise ValueError(f"out has shape {tuple(out.shape)}; X has {views.n} samples.")
    if views.distributed:
        from omcal.places.cluster import map_rows

        if out is not None:
            raise ValueError("out= is not for X in Dask; use dask.array.store on the result.")
        return map_rows(views, partial(indicator.labels, size=_BLOCK), 0, np.int32)
    if on_device(views, device):
        from omcal.places.gpu.fit import predict_on_device

        return predict_on_device(indicator, views, device, out)
    labels = np.empty(views.n, dtype=np.int32) if out is None else out
    return write_blocks((block for _, block in _blocks(indicator, views)), labels)


def transform(indicator: Indicator, views: Views, device: str) -> Any:
    """F of each sample, where the views are, or where it is wanted."""
    if views.distributed:
        from omcal.places.cluster import map_rows

        n_clusters = indicator.consensus.G.shape[1]
        return map_rows(views, partial(indicator.transform, size=_BLOCK), n_clusters, views.dtype)
    if on_device(views, device):
        from omcal.places.gpu.fit import transform_on_device

        return transform_on_device(indicator, views, device)
    return np.concatenate([np.maximum(U, 0) for U, _ in _blocks(indicator, views)])


def _blocks(indicator: Indicator, views: Views) -> Iterator[tuple[NDArray, NDArray]]:
    """Unclipped indicator and labels of consecutive blocks, of views in memory or in files."""
    if not views.stored:
        yield from indicator.blocks(views, _BLOCK)
        return
    from omcal.places.disk import loaded

    for block in loaded(views):
        yield from indicator.blocks(block, _BLOCK)
