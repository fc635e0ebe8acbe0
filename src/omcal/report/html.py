"""HTML as text: the few elements that reports are made of, and the page around them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from string import Template
from typing import Any


@dataclass(frozen=True)
class Html:
    """Text that is already HTML; plain strings are escaped wherever they are put."""

    text: str

    def __str__(self) -> str:
        return self.text


Content = str | Html


def put(content: Content) -> str:
    """HTML of a piece of content.

    Examples
    --------
    >>> put("a < b"), put(Html("<b>a</b>"))
    ('a &lt; b', '<b>a</b>')
    """
    return content.text if isinstance(content, Html) else escape(content)


def join(*parts: Html) -> Html:
    """The parts one after another."""
    return Html("\n".join(part.text for part in parts))


def paragraph(content: Content, kind: str = "") -> Html:
    """A paragraph; `kind` is its class."""
    return Html(f'<p class="{kind}">{put(content)}</p>' if kind else f"<p>{put(content)}</p>")


def facts(pairs: Mapping[str, str]) -> Html:
    """Short facts side by side."""
    listed = "".join(
        f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs.items()
    )
    return Html(f'<dl class="facts">{listed}</dl>')


@dataclass(frozen=True)
class Cell:
    """A cell of a table with a class; `share` from 0 to 1 is the length of a bar or a shade."""

    content: Content
    kind: str = ""
    share: float | None = None


TableRow = Sequence[Content | Cell]


def bar(share: float) -> Cell:
    """A bar; its number belongs into the next cell."""
    return Cell(Html("<span></span>"), "bar", min(max(share, 0.0), 1.0))


def table(
    header: Sequence[str],
    rows: Sequence[TableRow],
    caption: str = "",
    kind: str = "",
) -> Html:
    """A table whose rows begin with their name.

    Where the screen is narrow it scrolls by itself, or, with the kind "stack", puts the cells of
    a row below each other. The kind "full" takes the whole width.
    """
    head = "".join(
        f'<th scope="col"{_side(rows, column)}>{escape(name)}</th>'
        for column, name in enumerate(header)
    )
    body = "".join(f"<tr>{_row(row, header)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    kind = f' class="{kind}"' if kind else ""
    name = escape(caption or header[0])
    return Html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">'
        f"<table{kind}>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _side(rows: Sequence[TableRow], column: int) -> str:
    """The title of a column of text stands where its text does."""
    first = rows[0][column] if rows else ""
    return ' class="text"' if isinstance(first, Cell) and first.kind == "text" else ""


def _row(row: TableRow, header: Sequence[str]) -> str:
    first, *rest = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
    cells = [f'<th scope="row">{put(first.content)}</th>']
    for cell, label in zip(rest, header[1:], strict=True):
        kind = f' class="{cell.kind}"' if cell.kind else ""
        share = "" if cell.share is None else f' style="--v:{cell.share:.3f}"'
        cells.append(f'<td data-label="{escape(label)}"{kind}{share}>{put(cell.content)}</td>')
    return "".join(cells)


@dataclass(frozen=True)
class Section:
    """A part of a page that the list of contents leads to."""

    name: str
    title: str
    link: str
    body: Html
    long: bool = False  # may be broken over printed pages

    def html(self) -> str:
        kind = ' class="long"' if self.long else ""
        return (
            f'<section id="{self.name}"{kind} aria-labelledby="{self.name}-title">'
            f'<h2 id="{self.name}-title">{escape(self.title)}</h2>\n{self.body}\n</section>'
        )


def page(
    *,
    title: str,
    kind: str,
    lead: Html,
    sections: Sequence[Section],
    footer: Content,
    data: Mapping[str, Any],
) -> str:
    """One file that needs no other: style, script and data are inside."""
    folder = files("omcal.report")
    links = "\n".join(f'<a href="#{s.name}">{escape(s.link)}</a>' for s in sections)
    # "</" would end the script element that holds the data.
    payload = json.dumps(data, allow_nan=False, separators=(",", ":")).replace("<", "\\u003c")
    return Template(folder.joinpath("page.html").read_text(encoding="utf-8")).substitute(
        title=escape(title),
        kind=escape(kind),
        lead=lead.text,
        links=links,
        sections="\n".join(section.html() for section in sections),
        footer=put(footer),
        data=payload,
        style=folder.joinpath("style.css").read_text(encoding="utf-8"),
        script=folder.joinpath("script.js").read_text(encoding="utf-8"),
    )
