"""Draw docs/images/architecture.svg from the import contract and the steps of a fit.

    python docs/draw_architecture.py

The folders and their floors are those that `make check` enforces, and what each is for is its own
first sentence; so the picture cannot tell of another house than the one that stands.
"""

from __future__ import annotations

import ast
import tomllib
from html import escape
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TARGET = ROOT / "docs" / "images" / "architecture.svg"

# The way of the data from fit(X) to labels_: what happens, and in which file.
STEPS = (
    ("fit(X)", "model/estimators.py"),
    ("views: checked once", "views/reading.py"),
    ("a place is chosen", "places/choose.py"),
    ("learn: scalings, anchors", "method/scaling.py, anchors.py"),
    ("build: graphs, rows", "method/graph.py, places/"),
    ("Algorithm 1: one sweep an iteration", "method/solver.py, updates.py"),
    ("labels_, and the rule for new samples", "method/new_samples.py"),
)
WIDTH, LINE, GAP, FLOOR = 760, 20, 12, 64


def layers() -> list[list[str]]:
    """The floors of the contract, the highest first."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (found,) = [
        contract["layers"]
        for contract in contracts["tool"]["importlinter"]["contracts"]
        if contract["type"] == "layers"
    ]
    floors = [[name.strip() for name in floor.replace(":", "|").split("|")] for floor in found]
    return [floor for floor in floors if floor != ["__main__"]]


def purpose(name: str) -> str:
    """The first sentence of a folder or module."""
    path = ROOT / "src" / "omcal" / name
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return text.split("\n\n")[0].replace("\n", " ").rstrip(".")


def text(x: float, y: float, words: str, kind: str) -> str:
    """Words at a place."""
    return f'<text x="{x}" y="{y}" class="{kind}">{escape(words)}</text>'


def box(x: float, y: float, width: float, height: float) -> str:
    """A frame."""
    return f'<rect x="{x}" y="{y}" width="{width}" height="{height}" rx="6"/>'


def wrapped(words: str, most: int) -> list[str]:
    """Lines of at most so many letters."""
    lines = [""]
    for word in words.split():
        if len(lines[-1]) + len(word) >= most:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    return lines


def house(y: float) -> tuple[list[str], float]:
    """The folders, floor by floor."""
    parts = [text(0, y, "Folders: each layer may import those below it", "title")]
    y += GAP
    for floor in layers():
        width = (WIDTH - GAP * (len(floor) - 1)) / len(floor)
        said = [wrapped(purpose(name), int(width / 6.4)) for name in floor]
        height = FLOOR - 2 * LINE + 16 * max(map(len, said))
        for i, (name, lines) in enumerate(zip(floor, said, strict=True)):
            x = i * (width + GAP)
            parts += [box(x, y, width, height), text(x + 10, y + 18, f"{name}", "name")]
            parts += [text(x + 10, y + 34 + 15 * j, line, "small") for j, line in enumerate(lines)]
        y += height + GAP
    return parts, y


def way(y: float) -> tuple[list[str], float]:
    """The steps of a fit."""
    parts = [text(0, y, "The way from fit(X) to labels_", "title")]
    y += GAP
    for number, (what, where) in enumerate(STEPS, start=1):
        parts += [text(10, y + 16, f"{number}", "name"), text(34, y + 16, what, "plain")]
        parts.append(text(WIDTH / 2, y + 16, where, "small"))
        y += LINE
    return parts, y


def drawing() -> str:
    """The picture as SVG."""
    wings, y = house(18)
    steps, y = way(y + 2 * GAP)
    style = (
        "text{font-family:system-ui,sans-serif;fill:#1c1c1c}.title{font-size:15px;font-weight:600}"
        ".name{font-size:14px;font-weight:600;fill:#0b5394}.plain{font-size:13px}"
        ".small{font-size:11.5px;fill:#555}rect{fill:#f4f7fb;stroke:#9db8d6}"
    )
    size = f'width="{WIDTH}" height="{y + GAP:.0f}" viewBox="-4 -4 {WIDTH + 8} {y + GAP:.0f}"'
    return "\n".join(
        [f'<svg xmlns="http://www.w3.org/2000/svg" {size}>', f"<style>{style}</style>"]
        + ['<rect x="-4" y="-4" width="100%" height="100%" style="fill:#fff;stroke:none"/>']
        + wings
        + steps
        + ["</svg>\n"]
    )


if __name__ == "__main__":
    TARGET.write_text(drawing(), encoding="utf-8")
