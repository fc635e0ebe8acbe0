"""The section of a report on samples that were compared with those of a fit."""

from __future__ import annotations

from omcal.model.drift import Drift
from omcal.report.html import Section, join, paragraph, table


def drift_section(drift: Drift) -> Section:
    """Return the comparisons that are not chance, and whether to fit again."""
    header, *rows = drift._table()
    listed = [table(header, rows, "Differences that are not chance", file="drift")] if rows else []
    body = join(*map(paragraph, drift.remarks()), *listed)
    return Section("drift", "Whether the samples have moved", "Drift", body)
