"""Tables, figures and document made from the records; the page of a comparison.

The document, `reproduction.md`, has our numbers beside the paper's and says why they differ.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from omcal import __version__
from omcal.datasets import PAPER_DATASETS
from omcal.experiments.contents import all_tables, beside_table
from omcal.experiments.figures import all_figures
from omcal.experiments.plan import NOT_RUN, Plan
from omcal.experiments.records import Record, Summary, is_current, made_with, read_records
from omcal.experiments.tables import Entry, Table
from omcal.machine.files import replacing, write_whole
from omcal.machine.optional import require
from omcal.report.html import Cell, Html, Section, TableRow, join, page, paragraph
from omcal.report.html import table as html_table

TITLE = "Reproduction of the paper's results"
_KINDS = {0: "", 1: "best", 2: "second"}
_FEW_COLUMNS = 8
_INTRODUCTION = (
    "This page is written by `omcal reproduce`; change nothing here by hand. Each entry has "
    "three lines: our mean(standard deviation), the paper's, and the difference; of times the "
    "ratio. `OM` is out of memory and `---` over the time limit, as listed at the end; `-` is "
    "the spread of a single run (MLAN and MCGC use no random numbers and run once), "
    f"`{NOT_RUN}` not run."
)


def document(plan: Plan, summary: Summary, tables: list[Table], figures: list[str]) -> str:
    """Return the document in Markdown; `figures` are links."""
    named = {table.name: table.body() for table in tables}
    reasons = plan.paper.reasons
    by_method = Table("", "", ["method", "reason"], list(reasons["method"].items()))
    general = "\n".join(f"- {reason}" for reason in reasons["general"])
    how_it_ran = "Conditions:\n\n" + "\n".join(f"- {line}" for line in conditions(summary))
    sections = {
        "OMCAL and OCAL in short": [named["headline"], how_it_ran],
        "Data": [named["datasets"]],
        "Reasons for differences": [general, by_method.body()],
        "Parameters of OMCAL": [named["parameters"]],
    }
    for dataset in filter(summary.is_present, (*plan.paper.datasets, *plan.paper.single_datasets)):
        table = beside_table(plan, summary, dataset)
        reason = reasons["dataset"].get(dataset)
        sections[table.title] = [reason, table.body()] if reason else [table.body()]
    sections |= {
        "Best point of the grid, chosen by labels": [named["grid_by_labels"]],
        "Figures": figures,
        "What did not run": [failures(summary)],
    }
    parts = [f"# {TITLE}", _INTRODUCTION]
    for title, contents in sections.items():
        parts += [f"## {title}", *contents]
    return "\n\n".join(parts) + "\n"


def conditions(summary: Summary) -> list[str]:
    """Return the machines, versions and limits of the records, each once."""
    if not summary.records:
        return ["There are no records yet."]
    lines = sorted({_conditions(record) for record in summary.records})
    loads = [record["load"] for record in summary.records if "load" in record]
    if loads:
        lines.append(
            f"Load of the machine while it ran: {min(loads):g} to {max(loads):g} processes; where "
            "that is above its number of cores, times are longer than they would be alone"
        )
    return lines


def _conditions(record: Record) -> str:
    limits = record["limits"]
    return (
        f"{made_with(record)}; {record['jobs']} at a time, threads of each: {record['threads']}; "
        f"at most {limits['seconds']:g} s and {limits['gigabytes']:g} GB per cell"
    )


def failures(summary: Summary) -> str:
    """Return the list of cells without a result, with the reason."""
    lines = [
        f"- {record['method']} on {record['dataset']}: {record['status']} ({record['error']})"
        for record in summary.errors()
    ]
    return "\n".join(lines) if lines else "Everything that was started gave a result."


def write_outputs(plan: Plan, records: Path, out: Path, data: Path | None) -> list[Path]:
    """Write tables, figures and document to `out`; return the paths to open first."""
    found = read_records(records)
    current = [record for record in found if is_current(record)]
    if found and not current:
        raise ValueError(
            f"all {len(found)} records in {records} are of another version than omcal "
            f"{__version__}; run the command without --from-records."
        )
    known = {} if data is None else {k: one.status(data) for k, one in PAPER_DATASETS.items()}
    summary = Summary(current, known)
    tables = list(all_tables(plan, summary))
    write_tables(tables, out / "tables")
    figures = write_figures(plan, summary, out / "figures")
    text = out / "reproduction.md"
    write_whole(text, document(plan, summary, tables, figures))
    return [text, out / "tables", out / "figures"]


def write_tables(tables: Iterable[Table], folder: Path) -> None:
    """Write each table as .md, .tex and .csv."""
    folder.mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending in (".md", ".tex", ".csv"):
            table.write(folder / f"{table.name}{ending}")


def write_figures(plan: Plan, summary: Summary, folder: Path) -> list[str]:
    """Write each figure as .svg and .png; return links to them in Markdown."""
    folder.mkdir(parents=True, exist_ok=True)
    # Text as text, and the same file for the same records.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "omcal"}
    links = []
    with require("matplotlib", "figures").rc_context(settings):
        for name, title, figure in all_figures(plan, summary):
            with replacing(folder / f"{name}.svg") as temporary:
                figure.savefig(temporary, format="svg", metadata={"Date": None})
            with replacing(folder / f"{name}.png") as temporary:
                figure.savefig(temporary, format="png", dpi=100)
            links.append(f"![{title}]({folder.name}/{name}.png)")
    return links


def table_page(table: Table) -> str:
    """Return a page of one table."""
    rows: list[TableRow] = [[_cell(entry) for entry in row] for row in table.rows]
    kind = "dense" if len(table.header) > _FEW_COLUMNS else ""
    drawn = html_table(table.header, rows, "", kind, "comparison")
    body = join(drawn, *map(_paragraphs, table.notes))
    sections = [Section("table", "Methods", "Methods", body)]
    return page(title=table.title, kind="Comparison", lead=Html(""), sections=sections, data={})


def _paragraphs(text: str) -> Html:
    """Return a paragraph per line of a text in Markdown."""
    lines = [line.removeprefix("- ").replace("`", "") for line in text.splitlines()]
    return join(*(paragraph(line, "quiet") for line in lines if line.strip()))


def _cell(entry: str | Entry) -> str | Cell:
    if isinstance(entry, Entry):  # a narrow column may break the line before the spread
        return Cell(entry.text.replace("(", " ("), _KINDS[entry.rank])
    return entry
