"""Write the tables of the documents anew from those in results/.

    python benchmarks/front_page.py

A table of a page is the one that has the heading of the table in the file; the benchmarks write
the files (python benchmarks/speed.py --out benchmarks/results/speed.md).
"""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
TABLE = re.compile(r"(?:^\|.*\n)+", re.MULTILINE)
PAGES = {
    "README.md": ("defaults",),
    "docs/defaults.md": ("choices",),
    "docs/performance.md": ("speed",),
    "docs/results.md": ("paper_numbers", "missing_views"),
}


def with_tables(page: str, results: str) -> str:
    """The page with its tables replaced by those of the same heading in the results."""
    found = {table.splitlines()[0]: table for table in TABLE.findall(results)}
    shown = [table for table in TABLE.findall(page) if table.splitlines()[0] in found]
    if not shown:
        raise SystemExit(f"no table of the page has the heading {' or '.join(found)}")
    for table in shown:
        page = page.replace(table, found[table.splitlines()[0]])
    return page


def main() -> None:
    for name, results in PAGES.items():
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        for result in results:
            stored = ROOT / "benchmarks" / "results" / f"{result}.md"
            text = with_tables(text, stored.read_text(encoding="utf-8"))
        page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
