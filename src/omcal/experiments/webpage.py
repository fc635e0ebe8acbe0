"""Tables and figures of experiments as one HTML page."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from omcal import __version__
from omcal.experiments import document
from omcal.experiments.document import TITLE, Figure
from omcal.experiments.tables import Entry, Table, cell_text
from omcal.report.html import Cell, Html, Section, TableRow, bar, join, page, paragraph
from omcal.report.html import table as html_table

_KINDS = {0: "", 1: "best", 2: "second"}
_FEW_COLUMNS = 8
_DRAWN = ("ACC", "NMI", "ARI", "stability", "agreement", "seconds")  # as bars, where there
_LARGEST_FIGURE = 900_000  # bytes of SVG; larger ones are named, not shown


def webpage(sections: list[document.Section]) -> str:
    """Return the page of a reproduction; sections without a title stand before the others."""
    bodies = [join(*map(_html, section.parts)) for section in sections]
    named = [
        Section(f"part{k}", section.title, section.title, body, long=True)
        for k, (section, body) in enumerate(zip(sections, bodies, strict=True))
        if section.title
    ]
    lead = [body for section, body in zip(sections, bodies, strict=True) if not section.title]
    return _page(TITLE, "Reproduction", join(*lead), named)


def table_page(table: Table) -> str:
    """Return a page of one table, with bars of its main columns."""
    bare = replace(table, title="", notes=())
    body = join(_table(bare, file="comparison"), *map(_paragraphs, table.notes))
    charts = [_bars(table, name) for name in _DRAWN if name in table.header]
    sections = [
        Section("table", "Methods", "Methods", body),
        Section("charts", "Scores and times", "Charts", _side_by_side(charts), long=True),
    ]
    return _page(table.title, "Comparison", Html(""), sections)


def _bars(table: Table, name: str) -> Html:
    """Return a column as bars: scores on a scale to 1, times on one to the longest."""
    column = table.header.index(name)
    texts = [cell_text(row[column]) for row in table.rows]
    found = [re.match(r"-?[\d.]+", text) for text in texts]
    values = [float(one.group()) if one else 0.0 for one in found]
    largest = max(*values, 1e-12) if name == "seconds" else 1.0
    rows: list[TableRow] = [
        [cell_text(row[0]), _spaced(text), bar(value / largest)]
        for row, text, value in zip(table.rows, texts, values, strict=True)
    ]
    return html_table(("method", name, ""), rows, name, "full", f"comparison-{name.lower()}")


def _side_by_side(parts: list[Html]) -> Html:
    return Html(f'<div class="cards">{"".join(f"<div>{part}</div>" for part in parts)}</div>')


def _page(title: str, kind: str, lead: Html, sections: list[Section]) -> str:
    footer = f"Made with omcal {__version__}; this file needs no network."
    return page(title=title, kind=kind, lead=lead, sections=sections, footer=footer, data={})


def _html(part: str | Table | Figure) -> Html:
    if isinstance(part, Table):
        return _table(part)
    return _figure(part) if isinstance(part, Figure) else _paragraphs(part)


def _paragraphs(text: str) -> Html:
    """Return a paragraph per line of a text in Markdown."""
    lines = [line.removeprefix("- ").replace("`", "") for line in text.splitlines()]
    return join(*(paragraph(line, "quiet") for line in lines if line.strip()))


def _table(table: Table, file: str = "") -> Html:
    columns = [_column(entries) for entries in zip(*table.rows, strict=True)]
    rows: list[TableRow] = list(zip(*columns, strict=True))
    kind = "dense" if len(table.header) > _FEW_COLUMNS else ""
    drawn = html_table(table.header, rows, table.title, kind, file)
    return join(drawn, *map(_paragraphs, table.notes))


def _column(entries: Sequence[str | Entry]) -> list[Cell]:
    """Return the cells of a column: words stand at the left, numbers at the right."""
    kind = "text" if _are_words([entry for entry in entries if isinstance(entry, str)]) else ""
    return [
        Cell(_spaced(entry.text), _KINDS[entry.rank])
        if isinstance(entry, Entry)
        else Cell(Html("<br>".join(escape(_spaced(line)) for line in entry.split("\n"))), kind)
        for entry in entries
    ]


def _are_words(texts: list[str]) -> bool:
    has_number = any(re.search(r"^\W*\d", text, re.MULTILINE) for text in texts)
    return not has_number and any(re.match(r"[\w$]", text) for text in texts)


def _spaced(text: str) -> str:
    """Insert a space before the spread, where a narrow column may break the line."""
    return re.sub(r"^(-?\d\.\d{3})\(", r"\1 (", text)


def _figure(figure: Figure) -> Html:
    title, path = figure
    if path.stat().st_size > _LARGEST_FIGURE:
        return paragraph(f"{title}: see figures/{path.name}")
    # As an image: the policy of the page forbids the styles that are inside.
    data = b64encode(path.read_bytes()).decode()
    return Html(
        f'<figure class="figure"><img src="data:image/svg+xml;base64,{data}" '
        f'alt="{escape(title)}"><figcaption>{escape(title)}</figcaption></figure>'
    )
