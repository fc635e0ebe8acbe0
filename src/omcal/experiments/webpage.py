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
from omcal.experiments.tables import Entry, Table
from omcal.report.html import Cell, Html, Section, TableRow, join, page, paragraph
from omcal.report.html import table as html_table

_KINDS = {0: "", 1: "best", 2: "second"}
_FEW_COLUMNS = 8
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
    """Return a page of one table."""
    bare = replace(table, title="", notes=())
    body = join(_table(bare), *map(_paragraphs, table.notes))
    return _page(
        table.title, "Comparison", Html(""), [Section("table", "Methods", "Methods", body)]
    )


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


def _table(table: Table) -> Html:
    columns = [_column(entries) for entries in zip(*table.rows, strict=True)]
    rows: list[TableRow] = list(zip(*columns, strict=True))
    kind = "dense" if len(table.header) > _FEW_COLUMNS else ""
    return join(html_table(table.header, rows, table.title, kind), *map(_paragraphs, table.notes))


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
