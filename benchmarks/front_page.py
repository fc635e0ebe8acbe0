"""Write the tables of the documents anew from those in results/, and the picture of the front page.

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
    "README.md": ("defaults", "cost"),
    "docs/defaults.md": ("choices",),
    "docs/performance.md": ("cost", "speed"),
    "docs/results.md": ("missing_views",),
}
# What the front page says of the speed: its words, and what is in the name of the measurement.
COST = {
    "a fit to 60000 samples of 1430 features in three views, ten clusters": "whole fit, ",
    "… divided by MiniBatchKMeans(10) on the same features": "iterations; / MiniBatchKMeans(10)",
    "… divided by KMeans(10)": "… / KMeans(10)",
    "time of a fit to a million samples, divided by that to 100000": "time, n: 100000 → 1000000",
    "memory beyond the input for a million samples in three views (GB)": "peak memory beyond",
}


def printed(name: str) -> str:
    """What a benchmark printed; "cost" is a choice of what "speed" did."""
    if name == "cost":
        measured = re.findall(r"^\| (.+) \| (.+) \|$", printed("speed"), re.MULTILINE)
        rows = ["| cost on two cores | median (least to most) |", "|---|---|"]
        for words, part in COST.items():
            (value,) = (value for what, value in measured if part in what)
            rows.append(f"| {words} | {value} |")
        return "\n".join(rows) + "\n"
    return (ROOT / "benchmarks" / "results" / f"{name}.md").read_text(encoding="utf-8")


def with_tables(page: str, results: str) -> str:
    """The page with its tables replaced by those of the same heading in the results."""
    found = {table.splitlines()[0]: table for table in TABLE.findall(results)}
    shown = [table for table in TABLE.findall(page) if table.splitlines()[0] in found]
    if not shown:
        raise SystemExit(f"no table of the page has the heading {' or '.join(found)}")
    for table in shown:
        page = page.replace(table, found[table.splitlines()[0]])
    return page


def draw(path: Path) -> None:
    """The picture of the front page: digits in clusters, the weights of the views, the classes."""
    from matplotlib.figure import Figure

    from omcal import OMCAL, Consensus, plots
    from omcal.datasets import load_digits_views
    from omcal.report import model_layout

    data = load_digits_views()
    model = Consensus(OMCAL(n_clusters=10), random_state=0).fit(data.views)
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, middle, right = figure.subplots(1, 3, width_ratios=[1.2, 0.8, 1.2])
    plots.sample_map(model_layout(model.as_one_run()), model.labels_, left)
    left.set_title(f"{len(model.labels_)} digits, {model.n_clusters} clusters")
    plots.view_weights(model.view_weights_, model.view_names_, middle)
    middle.set_title("Weights of the views")
    plots.confusion(data.labels, model.labels_, right)
    right.set_title("Known digits in each cluster")
    figure.savefig(path, dpi=120)


def main() -> None:
    for name, results in PAGES.items():
        page = ROOT / name
        text = page.read_text(encoding="utf-8")
        for result in results:
            text = with_tables(text, printed(result))
        page.write_text(text, encoding="utf-8")
    draw(ROOT / "docs" / "images" / "front.png")


if __name__ == "__main__":
    main()
