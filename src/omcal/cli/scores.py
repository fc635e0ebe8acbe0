"""How the scores of a clustering are shown."""

from __future__ import annotations

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
"""Those the paper reports."""
