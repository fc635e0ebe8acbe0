"""How often views that contradict one another are named, and views that agree are not.

    python benchmarks/doubts.py FOLDER

100 draws of views with groups that have nothing to do with one another, 100 draws of views that
show the same groups, clear and dim ones, and the labelled sets of FOLDER: how many of each have a
doubt about a view. The table goes to results/doubts.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import labelled_sets as sets
import numpy as np

from omcal import OMCAL
from omcal.datasets import make_multiview

DRAWS = 100
SETS = (*sets.YARDSTICK, "htad", "USPS_views_derived", "USPS_halves", "NoisyMNIST")
OTHER_GROUPS, CONTRADICTS = "shows other groups", "contradicts the others"


def contradicting(seed: int) -> tuple[int, Any]:
    """Two or three views, each with groups of its own, 5 to 12 standard deviations apart."""
    rng = np.random.default_rng(seed)
    c, n_views = int(rng.integers(2, 9)), int(rng.integers(2, 4))
    n, distance = int(rng.choice([200, 500, 1000])), rng.choice([5, 8, 12])
    views = []
    for _ in range(n_views):
        width, member = int(rng.integers(4, 40)), rng.integers(c, size=n)
        centres = distance / np.sqrt(2 * width) * rng.normal(size=(c, width))
        views.append(centres[member] + rng.normal(size=(n, width)))
    return c, views


def agreeing(seed: int) -> tuple[int, Any]:
    """Two to four views of the same groups, each with its own noise."""
    rng = np.random.default_rng(seed)
    c, n_views = int(rng.integers(2, 9)), int(rng.integers(2, 5))
    noise = rng.choice([0.3, 0.6, 1.0, 1.5, 2.5], size=n_views).tolist()
    n = int(rng.choice([200, 500, 1000]))
    return c, make_multiview(n, c, n_views=n_views, noise=noise, random_state=seed).views


def labelled(folder: str) -> Iterator[tuple[int, Any]]:
    for name in SETS:
        views, y = sets.load(folder, name)
        yield len(np.unique(y)), views


def count(cases: Iterator[tuple[int, Any]]) -> tuple[int, int, int]:
    """Cases, those with either doubt, and those with a contradiction alone."""
    total = either = alone = 0
    for c, views in cases:
        texts = " ".join(doubt.what for doubt in OMCAL(c, random_state=0).fit(views).doubts_)
        total += 1
        either += OTHER_GROUPS in texts or CONTRADICTS in texts
        alone += CONTRADICTS in texts and OTHER_GROUPS not in texts
    return total, either, alone


def main() -> None:
    """Count, and write the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the data files are")
    folder = parser.parse_args().folder
    warnings.simplefilter("ignore")
    lines = [
        f"| cases | of them with a doubt about a view | only “{CONTRADICTS}” |",
        "|---|---|---|",
    ]
    for what, cases in (
        ("views with groups of their own", map(contradicting, range(DRAWS))),
        ("views of the same groups", map(agreeing, range(DRAWS))),
        ("labelled sets", labelled(folder)),
    ):
        total, either, alone = count(iter(cases))
        lines.append(f"| {total} × {what} | {either} | {alone} |")
    text = "\n".join(lines) + "\n"
    (Path(__file__).parent / "results" / "doubts.md").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
