"""HTML as text: the elements of reports, and the page around them."""

from __future__ import annotations

import json
import zlib
from base64 import b64encode
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from html import escape
from importlib.resources import files
from string import Template
from typing import Any

import numpy as np

from omcal import __version__
from omcal.machine.arrays import Array
from omcal.plots.palette import DARK, LIGHT, SHAPES, colour_of, shape_of

SCRIPTS = ("page.js", "take.js", "marks.js", "map.js", "panel.js", "tree.js", "start.js")


class Html(str):
    """Text that is already HTML; plain strings are escaped when they are inserted."""


def put(content: str) -> str:
    """Return the HTML of a piece of content."""
    return content if isinstance(content, Html) else escape(content)


def join(*parts: Html) -> Html:
    """Return the parts one after another."""
    return Html("\n".join(parts))


def paragraph(content: str, kind: str = "") -> Html:
    """Return a paragraph; `kind` is its class."""
    return Html(f'<p class="{kind}">{put(content)}</p>' if kind else f"<p>{put(content)}</p>")


def percent(share: float) -> str:
    """Return a share as text, such as 12.3%."""
    return f"{share:.1%}"


def shortened(text: str, limit: int = 80) -> str:
    """Return a text of at most `limit` characters."""
    return text if len(text) <= limit else text[: limit - 1] + "…"


def facts(pairs: Mapping[str, str]) -> Html:
    """Return short facts side by side."""
    listed = "".join(
        f"<div><dt>{escape(k)}</dt><dd>{escape(v)}</dd></div>" for k, v in pairs.items()
    )
    return Html(f'<dl class="facts">{listed}</dl>')


def mark(cluster: int) -> Html:
    """Return the symbol of a cluster, as on the map."""
    return Html(
        f'<svg class="mark k{colour_of(cluster)}" viewBox="-1.5 -1.5 3 3" aria-hidden="true">'
        f'<use href="#s{shape_of(cluster)}"/></svg>'
    )


def sample_link(sample: int, name: str, more: str = "") -> Html:
    """Return the name of a sample as a button that opens it on the map."""
    return Html(
        f'<button type="button" class="link" data-sample="{sample}">{escape(name)}</button>'
        + escape(more)
    )


@dataclass(frozen=True)
class Cell:
    """A table cell with a CSS class; `share` from 0 to 1 is the length of a bar or a shade."""

    content: str
    kind: str = ""
    share: float | None = None


TableRow = Sequence[str | Cell]


def bar(share: float) -> Cell:
    """Return a bar; the next cell should hold its number."""
    return Cell(Html("<span></span>"), "bar", min(max(share, 0.0), 1.0))


def table(
    header: Sequence[str],
    rows: Sequence[TableRow],
    caption: str = "",
    kind: str = "",
    file: str = "",
) -> Html:
    """Return a table whose rows begin with their name.

    On a narrow screen it scrolls or, with the kind "stack", puts the cells of a row below each
    other. The kind "full" takes the whole width. With `file` a button saves it as CSV.
    """
    head = "".join(
        f'<th scope="col"{_text_class(rows, column)}>{escape(name)}</th>'
        for column, name in enumerate(header)
    )
    body = "".join(f"<tr>{_row(row, header)}</tr>" for row in rows)
    title = f"<caption>{escape(caption)}</caption>" if caption else ""
    kind = f' class="{kind}"' if kind else ""
    name = escape(caption or header[0])
    take = _save_buttons(file, "table", "csv") if file else ""
    return Html(
        f'<div class="scroll" tabindex="0" role="region" aria-label="{name}">'
        f"<table{kind}>{title}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{take}"
    )


def figure(drawing: Html, file: str) -> Html:
    """Return a drawing with buttons that save it."""
    return Html(f"<figure>{drawing}{_save_buttons(file, 'figure', 'svg', 'png')}</figure>")


def _save_buttons(file: str, what: str, *formats: str) -> str:
    """Return a button per format that saves a table or a figure."""
    listed = "".join(
        f'<button type="button" data-save="{f}" data-file="{escape(file)}">{f.upper()}'
        f'<span class="hidden"> of this {what}</span></button>'
        for f in formats
    )
    return f'<div class="take screen">{listed}</div>'


def _text_class(rows: Sequence[TableRow], column: int) -> str:
    """Return the CSS class that aligns the title of a text column with its text."""
    first = rows[0][column] if rows else ""
    return ' class="text"' if isinstance(first, Cell) and first.kind == "text" else ""


def _row(row: TableRow, header: Sequence[str]) -> str:
    first, *rest = [cell if isinstance(cell, Cell) else Cell(cell) for cell in row]
    cells = [f'<th scope="row">{put(first.content)}</th>']
    for cell, label in zip(rest, header[1:], strict=True):
        # The policy of the page forbids style attributes, so each share is a class.
        share = "" if cell.share is None else f"v{round(100 * min(max(cell.share, 0), 1))}"
        kind = f"{cell.kind} {share}".strip()
        kind = f' class="{kind}"' if kind else ""
        cells.append(f'<td data-label="{escape(label)}"{kind}>{put(cell.content)}</td>')
    return "".join(cells)


@dataclass(frozen=True)
class Section:
    """A section of a page, with an entry in the table of contents."""

    name: str
    title: str
    link: str
    body: Html
    long: bool = False  # whether printed pages may break inside it

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
    data: Mapping[str, Any],
) -> str:
    """Return a self-contained page: style, script and data are inside.

    Its policy allows the browser only this script and this style: names cannot inject code.
    """
    folder = files("omcal.report")
    links = "\n".join(f'<a href="#{s.name}">{escape(s.link)}</a>' for s in sections)
    style = _style() + folder.joinpath("style.css").read_text(encoding="utf-8")
    parts = (folder.joinpath(name).read_text(encoding="utf-8") for name in SCRIPTS)
    script = '(function () {\n"use strict";\n' + "\n".join(parts) + "})();\n"
    text = template(
        "page.html",
        policy=_policy(script, style),
        title=escape(title),
        kind=escape(kind),
        lead=lead,
        links=links,
        sections="\n".join(section.html() for section in sections),
        version=escape(__version__),
        shapes="".join(f'<path id="s{k}" d="{path}"/>' for k, path in enumerate(SHAPES.values())),
        data=embedded(data),
        style=style,
        script=script,
    )
    return text.replace("\0", "\N{REPLACEMENT CHARACTER}")  # a name may hold it, HTML must not


def template(name: str, **parts: str) -> Html:
    """Return a file of this folder with its $names replaced; the values must be HTML."""
    text = files("omcal.report").joinpath(name).read_text(encoding="utf-8")
    return Html(Template(text).substitute(parts))


def embedded(data: Mapping[str, Any]) -> str:
    """Return JSON for a page; no text in it can end the script element or open another one."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text  # json.dumps has escaped all non-ASCII characters, including U+2028 and U+2029


def _policy(script: str, style: str) -> str:
    def hashed(text: str) -> str:
        return f"'sha256-{b64encode(sha256(text.encode()).digest()).decode()}'"

    return (
        f"default-src 'none'; style-src {hashed(style)}; script-src {hashed(script)}; "
        "img-src data:; base-uri 'none'; form-action 'none'"
    )


def _style() -> str:
    """Return the colours of the clusters in both themes, and the classes of shares."""
    light, dark = (
        "".join(f"--c{k}:{colour};" for k, colour in enumerate(colours))
        for colours in (LIGHT, DARK)
    )
    shares = "".join(f".v{k}{{--v:{k / 100:g}}}" for k in range(101))
    marks = "".join(f".k{k}{{fill:var(--c{k})}}" for k in range(len(LIGHT)))
    return (
        f':root{{{light}}}:root[data-theme="dark"]{{{dark}}}'
        f'@media(prefers-color-scheme:dark){{:root:not([data-theme="light"]){{{dark}}}}}'
        f"{shares}{marks}\n"
    )


class Packed:
    """Concatenated little-endian arrays, each aligned to four bytes."""

    def __init__(self) -> None:
        self.layout: dict[str, list[Any]] = {}
        self._packed = bytearray()

    def add(self, name: str, array: Array) -> None:
        """Add an array under a name."""
        array = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
        self._put(name, array.dtype.str[1:], array.tobytes(), array.size)

    def add_texts(self, name: str, texts: list[str]) -> None:
        """Add texts as JSON."""
        data = json.dumps(texts, separators=(",", ":")).encode()
        self._put(name, "text", data, len(data))

    def _put(self, name: str, kind: str, data: bytes, length: int) -> None:
        self.layout[name] = [kind, len(self._packed), length]
        self._packed += data + bytes(-len(data) % 4)

    def text(self) -> str:
        """Return everything, compressed, as base64."""
        return b64encode(zlib.compress(self._packed)).decode()
