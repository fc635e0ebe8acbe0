"""How the scores of a clustering are shown."""

from __future__ import annotations

from numpy.typing import NDArray

from omcal.datasets import MultiViewData
from omcal.metrics import Average, evaluate

NMI_AVERAGE: Average = "max"

TITLES = {
    "accuracy": "accuracy",
    "nmi": f"NMI ({NMI_AVERAGE})",
    "purity": "purity",
    "ari": "ARI",
    "f_score": "F-score",
    "precision": "precision",
    "recall": "recall",
}
"""Every score in the order it is shown; the mutual information says how it is normalised."""

PAPER_SCORES = tuple(name for name in TITLES if name != "recall")
"""Those the paper reports."""


def agreement(data: MultiViewData, clusters: NDArray) -> dict[str, float] | None:
    """The scores over the samples whose class is known; None where there are none.

    Examples
    --------
    >>> import numpy as np
    >>> data = MultiViewData({"a": np.eye(3)}, labels=np.array(["x", "y", ""]))
    >>> agreement(data, np.array([1, 0, 0]))["accuracy"]
    1.0
    """
    known = data.is_labelled
    if data.labels is None or not known.any():
        return None
    return evaluate(data.labels[known], clusters[known], average=NMI_AVERAGE)
