"""How the runs differ that were joined."""

from __future__ import annotations

from omcal.report.findings import Findings
from omcal.report.html import Section, TableRow, join, paragraph, percent, table


def runs(f: Findings) -> Section | None:
    """Each run's agreement with the result, its objective and its weights; None for one run."""
    joined = getattr(f.model, "joined_by", None)
    if joined is None:
        return None
    similar = joined._similar
    words = (
        f"{len(similar)} runs with other anchors were joined. They agree with the result by an ARI "
        f"of {min(similar):.2f} to {max(similar):.2f}, {joined.stability_:.2f} in the mean: 1 "
        "means the same clusters, 0 no more than chance."
    )
    header = ("run", "ARI", "objective", "iterations", *(f"weight of {v.name}" for v in f.views))
    rows: list[TableRow] = [
        [
            str(number),
            f"{agreement:.3f}",
            f"{run.objective:.6g}",
            str(run.solution.n_iter),
            *map(percent, run.view_weights.tolist()),
        ]
        for number, (run, agreement) in enumerate(zip(joined.runs_, similar, strict=True), start=1)
    ]
    body = join(paragraph(words), table(header, rows, "Each run beside the result", file="runs"))
    return Section("runs", "How the runs differ", "Runs", body)
