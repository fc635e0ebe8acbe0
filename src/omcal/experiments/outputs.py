"""Tables, figures, document and web page made from the records."""

from __future__ import annotations

import re
import shutil
from collections.abc import Iterable
from pathlib import Path

from omcal import __version__
from omcal.datasets import PAPER_DATASETS
from omcal.experiments.contents import all_tables
from omcal.experiments.document import Figure, markdown, page_sections, table_sections
from omcal.experiments.figures import all_figures
from omcal.experiments.plan import Plan
from omcal.experiments.records import is_current, read_records
from omcal.experiments.summary import Summary
from omcal.experiments.tables import Table
from omcal.experiments.webpage import webpage
from omcal.machine.files import replacing, write_whole
from omcal.plots.figures import require_matplotlib


def write_outputs(plan: Plan, records: Path, out: Path, data: Path | None) -> list[Path]:
    """Write tables, figures, document and page to `out`; return the paths to open first."""
    found = read_records(records)
    current = [record for record in found if is_current(record)]
    if found and not current:
        raise ValueError(
            f"all {len(found)} records in {records} are of another version than omcal "
            f"{__version__}; run the command without --from-records."
        )
    summary = Summary(current, status_in(data))
    tables = list(all_tables(plan, summary))
    write_tables(tables, out / "tables")
    figures = write_figures(plan, summary, out / "figures")
    text, html = out / "reproduction.md", out / "report.html"
    sections = page_sections(plan, summary, tables, figures)
    write_whole(text, markdown(sections))
    write_whole(html, webpage([*sections, *table_sections(tables)]))
    return [html, text, out / "tables", out / "figures"]


def status_in(data: Path | None) -> dict[str, str]:
    """Return the kind of each data set in a folder, such as exact, rebuilt or absent."""
    if data is None:
        return {}
    return {name: dataset.status(data) for name, dataset in PAPER_DATASETS.items()}


def write_tables(tables: Iterable[Table], folder: Path) -> None:
    """Write each table as .md, .tex and .csv."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending in (".md", ".tex", ".csv"):
            table.write(folder / f"{table.name}{ending}")


def write_figures(plan: Plan, summary: Summary, folder: Path) -> list[Figure]:
    """Write each figure as .svg and .png; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    # Text as text, and the same file for the same records.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "omcal"}
    written = []
    with require_matplotlib().rc_context(settings):
        for name, title, figure in all_figures(plan, summary):
            path = folder / f"{name}.svg"
            with replacing(path) as temporary:
                figure.savefig(temporary, format="svg", metadata={"Date": None})
            with replacing(folder / f"{name}.png") as temporary:
                figure.savefig(temporary, format="png", dpi=100)
            written.append(Figure(title, path))
    return written


def copy_document(out: Path, target: Path) -> None:
    """Copy the document of `out` to `target`, with its figures in images/ beside it."""
    text = (out / "reproduction.md").read_text(encoding="utf-8")
    folder = target.parent / "images" / target.stem
    folder.mkdir(parents=True, exist_ok=True)
    for name in re.findall(r"\]\(figures/(.+?)\)", text):
        with replacing(folder / name) as temporary:
            shutil.copyfile(out / "figures" / name, temporary)
    write_whole(target, text.replace("](figures/", f"](images/{target.stem}/"))
