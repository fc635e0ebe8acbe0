"""Lines and branches that the tests reach, by folder, from out/coverage.json of `make coverage`.

Written to benchmarks/results/coverage.md. Fails where the folders that a fit goes through have less
than 95 % of their lines reached.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "benchmarks" / "results" / "coverage.md"
HELD = ("method/", "model/", "places/", "views/")


def by_folder(files: dict[str, Counter]) -> dict[str, Counter]:
    """The counts of all files of a folder."""
    folders = defaultdict(Counter)
    for path, counts in files.items():
        folder, _, inside = path.partition("/")
        folders[f"{folder}/" if inside else "files beside them"] += counts
    return folders


def page(files: dict[str, Counter]) -> Iterator[str]:
    """A table of the folders, and the files below 95 %."""
    folders = by_folder(files)
    yield "# What the tests reach"
    yield ""
    yield "Lines and branches that the tests reach, by `make coverage`. What needs an NVIDIA GPU is"
    yield "left out, as `pyproject.toml` says; `benchmarks/gpu_checks.py` runs it on one."
    yield ""
    yield "| folder | statements | of them reached | branches | of them reached | both |"
    yield "|---|---|---|---|---|---|"
    for name, counts in [*sorted(folders.items()), ("all", sum(folders.values(), Counter()))]:
        yield (
            f"| {name} | {counts['num_statements']} | {_share(counts, 'lines'):.1%} | "
            f"{counts['num_branches']} | {_share(counts, 'branches'):.1%} | "
            f"{_share(counts, 'lines', 'branches'):.1%} |"
        )
    shares = {path: _share(counts, "lines", "branches") for path, counts in files.items()}
    low = [f"- `{path}`: {share:.1%}" for path, share in shares.items() if share < 0.95]
    if low:
        yield from ("", "Files below 95 %:", "", *low)


def _share(counts: Counter, *what: str) -> float:
    names = {"lines": "num_statements", "branches": "num_branches"}
    total = sum(counts[names[kind]] for kind in what)
    return sum(counts[f"covered_{kind}"] for kind in what) / total if total else 1.0


def main() -> None:
    found = json.loads((ROOT / "out" / "coverage.json").read_text(encoding="utf-8"))["files"]
    files = {
        path.replace("\\", "/").rpartition("omcal/")[2]: Counter(
            {key: n for key, n in found[path]["summary"].items() if isinstance(n, int)}
        )
        for path in sorted(found)
    }
    PAGE.write_text("\n".join(page(files)) + "\n", encoding="utf-8")
    print(PAGE.read_text(encoding="utf-8"))
    folders = by_folder(files)
    low = [name for name in HELD if _share(folders[name], "lines") < 0.95]
    if low:
        raise SystemExit(f"less than 95 % of the lines are reached in {', '.join(low)}")


if __name__ == "__main__":
    main()
