"""The reproduction as one HTML page: figures, tables and data."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

from omcal import __version__
from omcal.experiments.contents import beside_table
from omcal.experiments.document import failures, how_it_ran
from omcal.experiments.plan import Plan
from omcal.experiments.summary import Summary
from omcal.experiments.tables import Entry, Table
from omcal.report.html import Cell, Html, Section, TableRow, facts, join, page, paragraph
from omcal.report.html import table as html_table

_KINDS = {0: "", 1: "best", 2: "second"}
_FEW_COLUMNS = 8
_LARGEST_FIGURE = 900_000  # bytes of SVG; larger ones are named, not shown


def webpage(
    plan: Plan, summary: Summary, tables: list[Table], figures: list[tuple[str, Path]]
) -> str:
    """Return the whole page."""
    named = {table.name: table for table in tables}
    results = [table for table in tables if table.name.startswith(("results_", "times"))]
    single = [table for table in tables if table.name.startswith("single_")]
    sections = [
        Section("short", "OMCAL and OCAL in short", "In short", _tables([named["headline"]])),
        Section("data", "Data sets", "Data", _tables([named["datasets"]])),
        Section(
            "beside", "Beside the paper", "Beside the paper", _beside(plan, summary), long=True
        ),
        Section("results", "Clustering results", "Results", _tables(results), long=True),
        Section("single", "Single-view results", "Single view", _tables(single), long=True),
        Section("figures", "Figures", "Figures", _figures(figures), long=True),
        Section("reasons", "Why our values differ", "Reasons", _reasons(plan), long=True),
        Section(
            "settings",
            "Parameters, complexity, grid by labels",
            "Settings",
            _tables([named["parameters"], named["complexity"], named["grid_by_labels"]]),
            long=True,
        ),
        Section("comparison", "Every published number", "All numbers", _folded(named), long=True),
        Section("failures", "What did not run", "Not run", _lines(failures(summary))),
    ]
    good = sum(record["status"] == "ok" for record in summary.records)
    numbers = {"cells run": str(len(list(summary.records))), "with a result": str(good)}
    return page(
        title="Reproduction of the OMCAL paper",
        kind="Reproduction",
        lead=join(
            paragraph(
                "Our numbers beside those published in arXiv 2509.14724. Nothing was tuned here; "
                "what the data are, and why values differ, is said below.",
                "lead",
            ),
            facts(numbers),
            _lines(how_it_ran(summary)),
        ),
        sections=sections,
        footer=f"Made with omcal {__version__}; this file needs no network.",
        data={},
    )


def table_page(table: Table) -> str:
    """Return a page of one table."""
    bare = replace(table, title="", notes=())
    notes = join(*(paragraph(line.removeprefix("- "), "quiet") for line in _noted(table)))
    return page(
        title=table.title,
        kind="Comparison",
        lead=Html(""),
        sections=[Section("table", "Methods", "Methods", join(_table(bare), notes))],
        footer=f"Made with omcal {__version__}; this file needs no network.",
        data={},
    )


def _noted(table: Table) -> list[str]:
    return [line for note in table.notes for line in note.splitlines() if line.strip()]


def _tables(tables: list[Table]) -> Html:
    return join(*(_table(table) for table in tables))


def _table(table: Table) -> Html:
    columns = [_column(entries) for entries in zip(*table.rows, strict=True)]
    rows: list[TableRow] = list(zip(*columns, strict=True))
    notes = [paragraph(note, "quiet") for note in table.notes]
    kind = "dense" if len(table.header) > _FEW_COLUMNS else ""
    return join(html_table(table.header, rows, table.title, kind), *notes)


def _column(entries: Sequence[str | Entry]) -> list[Cell]:
    """Return the class of a cell: words stand at the left, numbers at the right."""
    kind = "text" if _are_words([entry for entry in entries if isinstance(entry, str)]) else ""
    return [
        Cell(_spaced(entry.text), _KINDS[entry.rank])
        if isinstance(entry, Entry)
        else Cell(_content(entry), kind)
        for entry in entries
    ]


def _are_words(texts: list[str]) -> bool:
    has_number = any(re.search(r"^\W*\d", text, re.MULTILINE) for text in texts)
    return not has_number and any(re.match(r"[\w$]", text) for text in texts)


def _content(text: str) -> Html:
    if text.startswith("$"):
        return _plain_mathematics(text)
    return Html("<br>".join(escape(_spaced(line)) for line in text.split("\n")))


def _spaced(text: str) -> str:
    """Insert a space before the spread, where a narrow column may break the line."""
    return re.sub(r"^(-?\d\.\d{3})\(", r"\1 (", text)


def _plain_mathematics(text: str) -> Html:
    """Return the LaTeX commands of the complexities as HTML."""
    body = text.strip("$").replace("\\sum", "Σ").replace("\\delta", "δ")
    body = re.sub(r"\^\{([^}]*)\}", r"<sup>\1</sup>", body)
    return Html(re.sub(r"_\{([^}]*)\}", r"<sub>\1</sub>", body).replace("+", " + "))


def _beside(plan: Plan, summary: Summary) -> Html:
    names = [*plan.paper.datasets, *plan.paper.single_datasets]
    present = [name for name in names if summary.is_present(name)]
    legend = paragraph(
        "Each entry: ours, mean (standard deviation); the paper's; and the difference, of times "
        "the ratio. OM: out of memory; ---: over the time limit; -: the spread of a single run."
    )
    return join(legend, _tables([beside_table(plan, summary, name) for name in present]))


def _figures(figures: list[tuple[str, Path]]) -> Html:
    parts = []
    for title, path in figures:
        if path.stat().st_size > _LARGEST_FIGURE:
            parts.append(paragraph(f"{title}: see figures/{path.name}"))
            continue
        # As an image: the policy of the page forbids the styles that are inside.
        data = b64encode(path.read_bytes()).decode()
        parts.append(
            Html(
                f'<figure class="figure"><img src="data:image/svg+xml;base64,{data}" '
                f'alt="{escape(title)}"><figcaption>{escape(title)}</figcaption></figure>'
            )
        )
    return join(*parts) if parts else paragraph("There are no records to draw yet.")


def _reasons(plan: Plan) -> Html:
    reasons = plan.paper.reasons
    general = [paragraph(reason) for reason in reasons["general"]]
    rows: list[TableRow] = [
        [name, Cell(text, "text")]
        for name, text in {**reasons["dataset"], **reasons["method"]}.items()
    ]
    return join(*general, html_table(("", "reason"), rows, "By data set and method"))


def _folded(named: dict[str, Table]) -> Html:
    return join(
        Html("<details><summary>Show all</summary>"),
        _table(named["comparison"]),
        Html("</details>"),
    )


def _lines(text: str) -> Html:
    lines = [line.removeprefix("- ") for line in text.splitlines() if line.strip()]
    return join(*(paragraph(line, "quiet") for line in lines))
