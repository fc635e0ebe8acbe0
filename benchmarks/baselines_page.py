"""Write the tables of docs/baselines.md anew from the registry and the records in results/.

    python benchmarks/baselines_page.py

In the page each table stands between <!-- table NAME --> and <!-- end -->; the text around them is
written by hand.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import baselines_multiview
import baselines_singleview
import numpy as np
import transfer

from omcal.baselines import METHODS
from omcal.experiments.records import made_with

FOLDER = Path(__file__).parent
PAGE = FOLDER.parent / "docs" / "baselines.md"
SCORES = baselines_singleview.SCORES
# Method, what other implementations reach on the same file, which notes of the page explain it.
SEVERAL_VIEWS = {
    "coil": [
        ("ConcatKMeans", "", ""),
        ("BestSingleView", "", ""),
        ("ConcatSpectral", "", ""),
        ("AMGL", "code, three seeds: .804, .860, .936 / .907, .945, .977 (max)", "1, 5"),
        ("MLAN", "copy of the code: 1.000 / 1.000", ""),
        ("MCGC", "code: 1.000 / 1.000", ""),
        ("MCGC mean", "own: .949 / .988", "7"),
        ("SMC", "code’s steps, two seeds: .747 / .924", "1"),
        ("FSMSC", "code: .826 / .955, best of 20 .867 / .966", "1, 2"),
        ("SLMVGC", "code, every second sample: 1.000 / 1.000", "3"),
        ("UOMvSC", "code: 1.000 / 1.000", ""),
        ("MVSC-HFD", "code: 1.000 / 1.000; depth 2 .868 / .964, depth 3 .899 / .975", "4"),
        ("OMCAL", "", ""),
        ("OMCAL, defaults", "", ""),
    ],
    "wiki": [
        ("ConcatKMeans", "", ""),
        ("BestSingleView", "", ""),
        ("ConcatSpectral", "", ""),
        ("AMGL", "own: .524(.019) / .484 (max)", "1, 5"),
        ("MLAN", "own: .412 / .365 (max)", "6"),
        ("MLAN compound", "copy of the code: .459 / .459 (max)", "6"),
        ("MLAN z-score", "own: .154 / .025 (max)", "6"),
        ("MCGC", "", "7"),
        ("MCGC beta=5.6", "", "7"),
        ("SMC", "code’s steps, two seeds, m = 40: .525 / .479", "1, 5"),
        ("FSMSC", "code: .234 / .088, best of 20 .235 / .089", "1, 2"),
        ("SLMVGC", "", "3"),
        ("UOMvSC", "own: .383 / .305", "8"),
        ("UOMvSC unaligned", "code, λ = 0 and .25: .512 / .436 and .362 / .281", "8"),
        ("MVSC-HFD", "code: .518 / .494, best of 20 .542 / .525", "1, 2"),
        ("OMCAL", "", ""),
        ("OMCAL, defaults", "", ""),
    ],
}


def records(name: str, **keys: str) -> list[dict[str, Any]]:
    """The saved records of a benchmark that have these values."""
    stored = json.loads((FOLDER / "results" / f"{name}.json").read_text())
    return [r for r in stored if all(r[key] == value for key, value in keys.items())]


def cell(rows: list[dict[str, Any]], key: str) -> str:
    """mean(sd), as in the paper; the mean alone of one value."""
    values = [row[key] for row in rows]
    spread = f"({np.std(values, ddof=1):.3f})" if len(values) > 1 else ""
    return f"{np.mean(values):.3f}{spread}"


def seconds(rows: list[dict[str, Any]]) -> str:
    """Mean processor time."""
    return f"{np.mean([row['cpu'] for row in rows]):.1f}"


def registry() -> Iterator[list[str]]:
    """All methods."""
    yield ["name", "class", "title", "paper", "time", "n²", "views"]
    for name, method in METHODS.items():
        yield [
            f"`{name}`",
            f"`{method.cls.__name__}`",
            method.title,
            method.paper,
            method.complexity,
            "yes" if method.quadratic else "no",
            "several" if method.multi_view else "one",
        ]


def several_views(data: str) -> Iterator[list[str]]:
    """Ours, others', the paper's."""
    others = "other implementations, ACC / NMI"
    yield ["method", "ACC", "NMI", "s", "seeds", others, "paper ACC / NMI", "notes"]
    paper = baselines_multiview.PAPER[data]
    for method, other, notes in SEVERAL_VIEWS[data]:
        published = " / ".join(paper.get(method, ()))
        rows = records("baselines_multiview", data=data, method=method)
        ours = ["not run", "", "", ""]
        if rows:
            ours = [cell(rows, "accuracy"), cell(rows, "nmi"), seconds(rows), str(len(rows))]
        yield [method, *ours, other, published, notes]


def one_view(data: str) -> Iterator[list[str]]:
    """Six scores, time and memory, and the paper's."""
    yield ["method", *SCORES.values(), "s", "GB", "seeds", "paper ACC / NMI", "paper s"]
    for method in baselines_singleview.METHODS:
        rows = records(f"baselines_{data}", method=method)
        done = [row for row in rows if "failed" not in row]
        if done:
            ours = [cell(done, score) for score in SCORES]
            ours += [seconds(done), f"{max(r['peak_gb'] for r in done):.2f}", str(len(done))]
        else:
            ours = [rows[0]["failed"] if rows else "not run", *[""] * (len(SCORES) + 2)]
        published = baselines_singleview.PAPER[data][method.split("-")[0]]
        acc, nmi, time = published or ("", "", "")
        yield [method, *ours, f"{acc} / {nmi}" if published else "---", time]


def transferred(data: str) -> Iterator[list[str]]:
    """SMC and its variants."""
    yield ["method", *SCORES.values(), "s", "seeds"]
    for method in transfer.METHODS:
        rows = records("transfer", data=data, method=method)
        yield [method, *(cell(rows, score) for score in SCORES), seconds(rows), str(len(rows))]


def conditions() -> str:
    """Return a list of the record files with the machines and versions of their records."""
    lines = []
    for name in RECORDS:
        made = sorted({made_with(record) for record in records(name)})
        lines += [f"- {name}.json: {line}" for line in made]
    return "\n".join(lines)


RECORDS = (
    *("baselines_multiview", "baselines_tdt2", "baselines_scotus", "baselines_caltech101"),
    "transfer",
)
TABLES = {
    "registry": registry,
    "coil": partial(several_views, "coil"),
    "wiki": partial(several_views, "wiki"),
    "tdt2": partial(one_view, "tdt2"),
    "scotus": partial(one_view, "scotus"),
    "caltech101": partial(one_view, "caltech101"),
    "transfer-wiki": partial(transferred, "Wiki"),
    "transfer-usps": partial(transferred, "USPS"),
}


def markdown(name: str) -> str:
    """The table of this name, or the conditions, between its marks."""
    if name == "conditions":
        return f"<!-- table conditions -->\n{conditions()}\n<!-- end -->"
    header, *rows = TABLES[name]()
    lines = [header, ["---"] * len(header), *rows]
    table = "\n".join(f"| {' | '.join(line)} |" for line in lines)
    return f"<!-- table {name} -->\n{table}\n<!-- end -->"


def filled(text: str) -> str:
    """Return the text of the page with the tables of the records."""
    pattern = re.compile(r"<!-- table (\S+) -->\n.*?<!-- end -->", re.DOTALL)
    return pattern.sub(lambda mark: markdown(mark[1]), text)


def main() -> None:
    PAGE.write_text(filled(PAGE.read_text(encoding="utf-8")), encoding="utf-8")


if __name__ == "__main__":
    main()
