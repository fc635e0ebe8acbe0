"""Tables of clusters and scores, the same in all commands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import omcal
from omcal.cli.console import print_table

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData
    from omcal.machine.arrays import Array
    from omcal.metrics import Average

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
"""The scores that the paper reports."""


_LISTED_CLUSTERS = 30


def print_clusters(sizes: Sequence[int]) -> None:
    """Print the sizes of the clusters; of many only the largest."""
    n = sum(sizes)
    listed = sorted(sorted(range(len(sizes)), key=lambda c: -sizes[c])[:_LISTED_CLUSTERS])
    title = "Clusters" if len(listed) == len(sizes) else f"The {len(listed)} largest clusters"
    rows = [(str(c), str(sizes[c]), f"{sizes[c] / n:.1%}") for c in listed]
    print_table(title, ("cluster", "samples", "share"), rows)


def print_scores(scores: dict[str, float]) -> None:
    """Print the scores that the paper reports."""
    rows = [(TITLES[name], f"{scores[name]:.3f}") for name in PAPER_SCORES]
    print_table("Agreement with the classes", ("score", "value"), rows)


def agreement(data: MultiViewData, clusters: Array) -> dict[str, float] | None:
    """Return the scores over the samples whose class is known; None if there are none.

    Examples
    --------
    >>> import numpy as np
    >>> from omcal.datasets import MultiViewData
    >>> data = MultiViewData({"a": np.eye(3)}, labels=np.array(["x", "y", ""]))
    >>> agreement(data, np.array([1, 0, 0]))["accuracy"]
    1.0
    """
    known = data.is_labelled
    if data.labels is None or not known.any():
        return None
    return omcal.metrics.evaluate(data.labels[known], clusters[known], average=NMI_AVERAGE)
