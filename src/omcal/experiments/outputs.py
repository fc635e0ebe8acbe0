"""Everything that is made from the records: tables, figures, the document, the page."""

from __future__ import annotations

from pathlib import Path

from omcal.datasets import PAPER_DATASETS
from omcal.experiments.contents import all_tables, write_tables
from omcal.experiments.document import document
from omcal.experiments.figures import write_figures
from omcal.experiments.plan import Plan
from omcal.experiments.records import read_records
from omcal.experiments.summary import Summary
from omcal.experiments.webpage import webpage


def write_outputs(plan: Plan, records: Path, out: Path, data: Path | None) -> list[Path]:
    """Write all of it into `out`; returns the paths a reader would open first."""
    summary = Summary(read_records(records), status_in(data))
    tables = list(all_tables(plan, summary))
    write_tables(tables, out / "tables")
    figures = write_figures(plan, summary, out / "figures")
    text, html = out / "reproduction.md", out / "report.html"
    text.write_text(document(plan, summary, tables), encoding="utf-8")
    html.write_text(webpage(plan, summary, tables, figures), encoding="utf-8")
    return [html, text, out / "tables", out / "figures"]


def status_in(data: Path | None) -> dict[str, str]:
    """Whether each data set in a folder is the paper's file, a rebuilt one, a subset, or absent."""
    if data is None:
        return {}
    return {name: dataset.status(data) for name, dataset in PAPER_DATASETS.items()}
