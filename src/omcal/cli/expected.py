"""Estimated time and memory of a fit, for `omcal cluster --dry-run` and `inspect`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import clone

from omcal import OMCAL
from omcal.machine.memory import available_memory
from omcal.model.cost import Estimate


def expected_fit(
    model: OMCAL, views: Sequence[dict[str, Any]], *, mapped: bool, n_runs: int
) -> Estimate:
    """Return the estimate of `n_runs` runs for views that `omcal.datasets.describe` described.

    Memory-mapped views stay in their files, and the rows join them there where they are many.
    """
    if mapped and model.memory_limit is None:
        model = clone(model).set_params(memory_limit=available_memory() // 2)
    one = model.estimate(
        views[0]["shape"][0],
        [view["shape"][1] for view in views],
        dtype=np.result_type(*(np.dtype(view["dtype"]) for view in views)),
        density=[view["density"] for view in views],
    )
    return replace(one, n_runs=n_runs)


def estimate_record(expected: Estimate) -> dict[str, Any]:
    """Return the estimate as plain numbers."""
    return {
        "n_anchors": expected.n_anchors,
        "n_runs": expected.n_runs,
        "rows_in": expected.rows_in,
        "bytes": round(expected.bytes),
        "bytes_available": available_memory(),
        "memory": {
            stage: {part: round(size) for part, size in parts.items()}
            for stage, parts in expected.memory.items()
        },
        "seconds_at_most": expected.seconds,
        "time": expected.time,
    }
