"""Multi-view input in tensors, which stay on the device they are on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from omcal.machine import torch
from omcal.machine.arrays import Mask
from omcal.machine.torch import Device, Tensor
from omcal.views.columns import split_columns
from omcal.views.present import read_masks
from omcal.views.reading import (
    compare_columns,
    in_fitted_order,
    named_arrays,
    require_equal_lengths,
)
from omcal.views.tensor_array import TensorArray
from omcal.views.view import View, Views


def validate_tensors(
    estimator: Any,
    X: Any,
    *,
    views: Any = None,
    reset: bool = True,
    min_samples: int = 1,
    present: Any = None,
) -> Views:
    """`omcal.views.view.validate_views` for tensors, which stay where they are.

    Parameters and result are the same; each view holds a `TensorArray`. NaN and infinity are
    found later, by the first sums over the data.
    """
    named = named_arrays(X, views)
    table = named is None
    members = {"X": X} if named is None else named
    for name, member in members.items():
        _check_tensor(name, member)
    if table:
        _check_table_width(estimator, X, reset)
        members = _columns_of(X, views)
    checked = Views([View(name, TensorArray(t.detach())) for name, t in members.items()])
    _check_together(checked, min_samples)
    checked = _mark_absent(checked, present)
    if reset:
        vars(estimator).pop("feature_names_in_", None)
        estimator.n_features_in_ = int(X.shape[1]) if table else sum(checked.widths)
        estimator.view_names_ = list(checked.names)
        estimator.n_features_per_view_ = list(checked.widths)
        estimator._view_columns = [None] * len(checked)
        return checked
    if not table:
        checked = in_fitted_order(estimator, checked, by_name=isinstance(X, Mapping))
    compare_columns(estimator, checked)
    return checked


def _mark_absent(views: Views, given: Any) -> Views:
    """`omcal.views.view.mark_absent` for tensors."""
    masks = read_masks(given, views.names, views.n)
    marked = []
    for view, doubtful in zip(views, _doubtful(views), strict=True):
        here = _rows_present(view.array.tensor) if doubtful else None
        known = masks.get(view.name)
        both = here if known is None else known if here is None else known & here
        marked.append(replace(view, present=None if both is None or both.all() else both))
    return Views(marked)


def _doubtful(views: Views) -> list[bool]:
    """Whether there are NaN in the first column of each view; one answer for all."""
    found: list[bool] = torch.stack([v.array.tensor[:, 0].isnan().any() for v in views]).tolist()
    return found


def _rows_present(tensor: Tensor) -> Mask | None:
    """False for the rows that are NaN throughout; None where there is no such row."""
    # A number in its first column proves most rows to be there.
    doubtful = tensor[:, 0].isnan().nonzero()[:, 0]
    absent = doubtful[tensor[doubtful].isnan().all(dim=1)].cpu().numpy()
    if not absent.size:
        return None
    present = np.ones(len(tensor), dtype=bool)
    present[absent] = False
    return present


def device_of(views: Views) -> Device | None:
    """The device that views in tensors are on; None for other views."""
    array = views[0].array
    return array.device if isinstance(array, TensorArray) else None


def _check_tensor(name: str, member: Any) -> None:
    if not torch.is_tensor(member):
        raise ValueError(
            f"view {name!r} is a {type(member).__name__} while others are tensors; "
            "give all views as tensors or none."
        )
    if member.ndim != 2 or member.shape[1] == 0:
        raise ValueError(
            f"view {name!r} has shape {tuple(member.shape)}; each view must be 2-D "
            "(samples × features) with at least one feature."
        )
    if member.layout != torch.strided or member.is_complex():
        raise ValueError(
            f"view {name!r} is a {member.layout} tensor of {member.dtype}; give a dense tensor "
            "of real numbers."
        )


def _check_table_width(estimator: Any, X: Tensor, reset: bool) -> None:
    if not reset and X.shape[1] != estimator.n_features_in_:
        raise ValueError(
            f"X has {X.shape[1]} features, but {type(estimator).__name__} is expecting "
            f"{estimator.n_features_in_} features as input."
        )


def _columns_of(X: Tensor, views: Any) -> dict[str, Tensor]:
    if views is None:
        return {"X": X}
    return {name: X[:, part] for name, part in split_columns(views, X.shape[1]).items()}


def _check_together(views: Views, min_samples: int) -> None:
    require_equal_lengths(views)
    devices = {view.name: str(view.array.device) for view in views}
    if len(set(devices.values())) > 1:
        listed = ", ".join(f"{name!r}: {device}" for name, device in devices.items())
        raise ValueError(
            f"the views are on different devices ({listed}); all must be on one device."
        )
    if views.n < min_samples:
        raise ValueError(f"Found {views.n} sample(s) while a minimum of {min_samples} is required.")
