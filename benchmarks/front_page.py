"""Write the tables of README.md anew from those in results/.

    python benchmarks/front_page.py

A table of the page is the one that has the heading of the table in the file; the benchmarks
write the files (python benchmarks/speed.py --out benchmarks/results/speed.md).
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)


def with_tables(page: str, results: list[str]) -> str:
    """The page with each table replaced by the one of the same heading."""
    for text in results:
        table = TABLE.search(text)[0]
        heading = table.splitlines()[0]
        shown = [old for old in TABLE.findall(page) if old.splitlines()[0] == heading]
        if len(shown) != 1:
            raise SystemExit(f"README.md has {len(shown)} tables with the heading {heading}")
        page = page.replace(shown[0], table)
    return page


def main() -> None:
    results = [
        (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")
        for name in ("paper_numbers", "speed", "missing_views")
    ]
    page = ROOT / "README.md"
    page.write_text(with_tables(page.read_text(encoding="utf-8"), results), encoding="utf-8")


if __name__ == "__main__":
    main()
