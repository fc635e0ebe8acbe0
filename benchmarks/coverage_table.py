"""Lines and branches that the tests reach, by folder, from out/coverage.json of `make coverage`.

Written to benchmarks/results/coverage.md.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "results" / "coverage.md"


def page(files: dict[str, dict]) -> Iterator[str]:
    """A table of the folders, and the files below 95 %."""
    folders = defaultdict(Counter)
    low = []
    for path, file in sorted(files.items()):
        inside = Path(path).parts[Path(path).parts.index("omcal") + 1 :]
        counts = Counter({key: n for key, n in file["summary"].items() if isinstance(n, int)})
        folders[f"{inside[0]}/" if len(inside) > 1 else "files beside them"] += counts
        if _share(counts, "lines", "branches") < 0.95:
            low.append(f"- `{'/'.join(inside)}`: {_share(counts, 'lines', 'branches'):.1%}")
    yield "# What the tests reach"
    yield ""
    yield "Lines and branches that the tests reach, by `make coverage`. What needs an NVIDIA GPU is"
    yield "left out (`omit` in `pyproject.toml`); `benchmarks/gpu_checks.py` runs it on one."
    yield ""
    yield "| folder | statements | of them reached | branches | of them reached | both |"
    yield "|---|---|---|---|---|---|"
    for name, counts in [*sorted(folders.items()), ("all", sum(folders.values(), Counter()))]:
        yield (
            f"| {name} | {counts['num_statements']} | {_share(counts, 'lines'):.1%} | "
            f"{counts['num_branches']} | {_share(counts, 'branches'):.1%} | "
            f"{_share(counts, 'lines', 'branches'):.1%} |"
        )
    if low:
        yield from ("", "Files below 95 %:", "", *low)


def _share(counts: Counter, *what: str) -> float:
    names = {"lines": "num_statements", "branches": "num_branches"}
    total = sum(counts[names[kind]] for kind in what)
    return sum(counts[f"covered_{kind}"] for kind in what) / total if total else 1.0


if __name__ == "__main__":
    found = json.loads((ROOT / "out" / "coverage.json").read_text(encoding="utf-8"))
    PAGE.write_text("\n".join(page(found["files"])) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
