"""Tables as Markdown, LaTeX and CSV."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from omcal.machine.files import write_whole

_LATEX = str.maketrans(
    {letter: "\\" + letter for letter in "&%#_{}$"}
    | {
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "<": r"\textless{}",
        ">": r"\textgreater{}",
        "\n": " / ",
        "β": r"$\beta$",
        "γ": r"$\gamma$",
        "×": r"$\times$",
        "≥": r"$\geq$",
        "ᵀ": r"$^\top$",
        "·": r"$\cdot$",
        "−": "--",
        "²": r"$^2$",
        "Δ": r"$\Delta$",
        "…": r"\dots{}",
    }
)
_MATHEMATICS = re.compile(r"\$[^$]+\$")


@dataclass(frozen=True)
class Entry:
    """A cell of a table; `rank` 1 is the best of its column, 2 the second."""

    text: str
    rank: int = 0


@dataclass(frozen=True)
class Table:
    """A titled table; the first column names the rows.

    Examples
    --------
    >>> table = Table("t", "Scores", ["method", "ACC"], [["OMCAL", Entry("0.9", 1)]])
    >>> print(table.markdown())
    | method | ACC |
    |---|---|
    | OMCAL | **0.9** |
    """

    name: str
    title: str
    header: Sequence[str]
    rows: Sequence[Sequence[str | Entry]]
    notes: Sequence[str] = field(default_factory=tuple)

    def markdown(self) -> str:
        """Return the table without its title and notes, as Markdown."""
        lines = [_line(self.header), "|" + "---|" * len(self.header)]
        lines += [_line([_markdown(cell) for cell in row]) for row in self.rows]
        return "\n".join(lines)

    def body(self) -> str:
        """Return the table with its notes, as Markdown."""
        return "\n\n".join([self.markdown(), *self.notes])

    def document(self) -> str:
        """Return the table with its title and notes, as Markdown."""
        return f"# {self.title}\n\n{self.body()}\n"

    def latex(self) -> str:
        """Return a `table*` of LaTeX that needs the package booktabs."""
        columns = "l" * 2 + "c" * (len(self.header) - 2)
        body = [" & ".join(_latex(cell) for cell in row) + r" \\" for row in self.rows]
        return "\n".join(
            [
                r"\begin{table*}",
                rf"\caption{{{_escape(self.title)}}}",
                r"\centering",
                rf"\begin{{tabular}}{{{columns}}}",
                r"\toprule",
                " & ".join(_escape(name) for name in self.header) + r" \\",
                r"\midrule",
                *body,
                r"\bottomrule",
                r"\end{tabular}",
                *(rf"\par\footnotesize {_escape(note)}" for note in self.notes),
                r"\end{table*}",
                "",
            ]
        )

    def csv(self) -> str:
        """Return the values as CSV, without ranks."""
        stream = io.StringIO()
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(self.header)
        writer.writerows([cell_text(cell) for cell in row] for row in self.rows)
        return stream.getvalue()

    def write(self, path: Path) -> None:
        """Write the table; the ending sets the format: .md (with title and notes), .tex or .csv."""
        texts = {".md": self.document, ".tex": self.latex, ".csv": self.csv}
        write_whole(path, texts[path.suffix.lower()]())


def ranked(texts: Sequence[str], values: Sequence[float | None], largest: bool) -> list[Entry]:
    """Return entries in which the best value has rank 1 and the next different value rank 2.

    Values are compared as printed, so that equal texts have equal ranks.

    Examples
    --------
    >>> [entry.rank for entry in ranked(["1.0", "0.5", "OM", "1.0"], [1, 0.5, None, 1], True)]
    [1, 2, 0, 1]
    """
    levels = sorted({value for value in values if value is not None}, reverse=largest)[:2]
    ranks = {value: place for place, value in enumerate(levels, start=1)}
    return [
        Entry(text, 0 if value is None else ranks.get(value, 0))
        for text, value in zip(texts, values, strict=True)
    ]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def cell_text(cell: str | Entry) -> str:
    """Return the text of a cell, without its rank."""
    return cell.text if isinstance(cell, Entry) else cell


def _markdown(cell: str | Entry) -> str:
    text = cell_text(cell).replace("|", "\\|").replace("\n", "<br>")
    return (text, f"**{text}**", f"<u>{text}</u>")[getattr(cell, "rank", 0)]


def _latex(cell: str | Entry) -> str:
    text = _escape(cell_text(cell))
    return (text, rf"\textbf{{{text}}}", rf"\underline{{{text}}}")[getattr(cell, "rank", 0)]


def _escape(text: str) -> str:
    return text if _MATHEMATICS.fullmatch(text) else text.translate(_LATEX)
