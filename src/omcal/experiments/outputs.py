"""Tables, figures and document made from the records; the page of a comparison.

The document (`reproduction.md`, `report.html`) has our numbers and the paper's, and explains
differences.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import NamedTuple

from omcal import __version__
from omcal.datasets import PAPER_DATASETS
from omcal.experiments.contents import all_figures, all_tables, beside_table
from omcal.experiments.plan import NOT_RUN, Plan
from omcal.experiments.records import Record, Summary, is_current, made_with, read_records
from omcal.experiments.tables import Entry, Table, cell_text
from omcal.machine.files import replacing, write_whole
from omcal.machine.optional import require
from omcal.report.html import Cell, Html, Section, TableRow, bar, join, page, paragraph
from omcal.report.html import table as html_table

TITLE = "Reproduction of the paper's results"
_KINDS = {0: "", 1: "best", 2: "second"}
_FEW_COLUMNS = 8
_DRAWN = ("ACC", "NMI", "ARI", "stability", "agreement", "seconds")  # columns with bars
_INTRODUCTION = (
    "This page is written by `omcal reproduce`; change nothing here by hand. Each entry has "
    "three lines: our mean(standard deviation), the paper's, and the difference; of times the "
    "ratio. `OM` is out of memory and `---` over the time limit, as listed at the end; `-` is "
    "the spread of a single run (MLAN and MCGC use no random numbers and run once), "
    f"`{NOT_RUN}` not run."
)


class Figure(NamedTuple):
    """A drawn figure; beside the .svg there is a .png."""

    title: str
    path: Path


# Parts of the document by the title of their section; texts are Markdown.
Sections = Mapping[str, Sequence[str | Table | Figure]]


def page_sections(
    plan: Plan, summary: Summary, tables: list[Table], figures: list[Figure]
) -> Sections:
    """Return the contents of the document after its introduction."""
    named = {table.name: table for table in tables}
    reasons = plan.paper.reasons
    by_method = Table("", "", ["method", "reason"], list(reasons["method"].items()))
    general = "\n".join(f"- {reason}" for reason in reasons["general"])
    how_it_ran = "Conditions:\n\n" + "\n".join(f"- {line}" for line in conditions(summary))
    sections: dict[str, Sequence[str | Table | Figure]] = {
        "OMCAL and OCAL in short": [named["headline"], how_it_ran],
        "Data": [named["datasets"]],
        "Reasons for differences": [general, by_method],
        "Parameters of OMCAL": [named["parameters"]],
    }
    for dataset in filter(summary.is_present, (*plan.paper.datasets, *plan.paper.single_datasets)):
        table = beside_table(plan, summary, dataset)
        reason = reasons["dataset"].get(dataset)
        sections[table.title] = [reason, table] if reason else [table]
    return sections | {
        "Best point of the grid, chosen by labels": [named["grid_by_labels"]],
        "Figures": figures,
        "What did not run": [failures(summary)],
    }


def markdown(sections: Sections) -> str:
    """Return the document in Markdown, with links to the figures beside it."""
    parts = [f"# {TITLE}", _INTRODUCTION]
    for title, contents in sections.items():
        parts.append(f"## {title}")
        for part in contents:
            if isinstance(part, Figure):
                parts.append(f"![{part.title}]({part.path.parent.name}/{part.path.stem}.png)")
            else:
                parts.append(part.body() if isinstance(part, Table) else part)
    return "\n\n".join(parts) + "\n"


def webpage(sections: Sections) -> str:
    """Return the document as a page that needs no other file."""
    parts = [
        Section(f"part{k}", title, title, join(*map(_html, contents)), long=True)
        for k, (title, contents) in enumerate(sections.items(), start=1)
    ]
    lead = _paragraphs(_INTRODUCTION)
    return page(title=TITLE, kind="Reproduction", lead=lead, sections=parts, data={})


def conditions(summary: Summary) -> list[str]:
    """Return the machines, versions and limits of the records, without repetitions."""
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
    return "\n".join(lines) if lines else "All cells that were started have a result."


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
    (out / "tables").mkdir(parents=True, exist_ok=True)
    for table in tables:
        for ending in (".md", ".tex", ".csv"):
            table.write(out / "tables" / f"{table.name}{ending}")
    figures = write_figures(plan, summary, out / "figures")
    text, html = out / "reproduction.md", out / "report.html"
    sections = page_sections(plan, summary, tables, figures)
    write_whole(text, markdown(sections))
    of_the_paper = [one for one in tables if one.name.startswith(("results_", "times", "single_"))]
    write_whole(html, webpage({**sections, "Clustering results": of_the_paper}))
    return [html, text, out / "tables", out / "figures"]


def write_figures(plan: Plan, summary: Summary, folder: Path) -> list[Figure]:
    """Write each figure as .svg and .png; return them."""
    folder.mkdir(parents=True, exist_ok=True)
    # Text stays text, and the same records give the same file.
    settings = {"svg.fonttype": "none", "svg.hashsalt": "omcal"}
    written = []
    with require("matplotlib", "figures").rc_context(settings):
        for name, title, figure in all_figures(plan, summary):
            path = folder / f"{name}.svg"
            with replacing(path) as temporary:
                figure.savefig(temporary, format="svg", metadata={"Date": None})
            with replacing(folder / f"{name}.png") as temporary:
                figure.savefig(temporary, format="png", dpi=100)
            written.append(Figure(title, path))
    return written


def table_page(table: Table) -> str:
    """Return a page of one table, with bars of its main columns."""
    charts = [f"<div>{_bars(table, name)}</div>" for name in _DRAWN if name in table.header]
    side_by_side = Html(f'<div class="cards">{"".join(charts)}</div>')
    sections = [
        Section("table", "Methods", "Methods", _table(table, "comparison")),
        Section("charts", "Scores and times", "Charts", side_by_side, long=True),
    ]
    return page(title=table.title, kind="Comparison", lead=Html(""), sections=sections, data={})


def _bars(table: Table, name: str) -> Html:
    """Return a column as bars: scores relative to 1, times relative to the longest."""
    column = table.header.index(name)
    texts = [cell_text(row[column]) for row in table.rows]
    values = [_number(text) for text in texts]
    largest = max(*values, 1e-12) if name == "seconds" else 1.0
    rows: list[TableRow] = [
        [cell_text(row[0]), text.replace("(", " ("), bar(value / largest)]
        for row, text, value in zip(table.rows, texts, values, strict=True)
    ]
    return html_table(("method", name, ""), rows, name, "full", f"comparison-{name.lower()}")


def _number(text: str) -> float:
    """Return the mean at the beginning of a cell; 0 if there is none."""
    try:
        return float(text.partition("(")[0])
    except ValueError:
        return 0.0


def _html(part: str | Table | Figure) -> Html:
    if isinstance(part, str):
        return _paragraphs(part)
    if isinstance(part, Table):
        return _table(part, title=part.title)
    # As an image, because the policy of the page forbids the styles inside.
    data, title = b64encode(part.path.read_bytes()).decode(), escape(part.title)
    return Html(
        f'<figure class="figure"><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{title}"><figcaption>{title}</figcaption></figure>'
    )


def _table(table: Table, file: str = "", title: str = "") -> Html:
    rows: list[TableRow] = [[_cell(entry) for entry in row] for row in table.rows]
    kind = "dense" if len(table.header) > _FEW_COLUMNS else ""
    drawn = html_table(table.header, rows, title, kind, file)
    return join(drawn, *map(_paragraphs, table.notes))


def _paragraphs(text: str) -> Html:
    """Return a paragraph per line of a text in Markdown."""
    lines = [line.removeprefix("- ").replace("`", "") for line in text.splitlines()]
    return join(*(paragraph(line, "quiet") for line in lines if line.strip()))


def _cell(entry: str | Entry) -> Cell:
    # A narrow column may break the line before the spread; words are aligned left.
    lines = "<br>".join(escape(cell_text(entry)).replace("(", " (").split("\n"))
    if isinstance(entry, Entry):
        return Cell(Html(lines), _KINDS[entry.rank])
    return Cell(Html(lines), "text" if entry[:1].isalpha() else "")
