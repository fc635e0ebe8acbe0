"""What joined runs cost, and how little they depend on the seed.

    python benchmarks/consensus.py cost
    python benchmarks/consensus.py seeds FOLDER

"cost": ten joined runs over one, on 60000 × (342, 1024, 64) float32 in ten clusters, in turns in
one process; the peak of memory of each in a process of its own. "seeds": the mean adjusted Rand
index between fits with different seeds, of single runs and of joined ones, on the 17 sets of the
yardstick in FOLDER. Tables go to results/consensus_cost.md and results/consensus_seeds.md.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time
import warnings
from itertools import combinations
from pathlib import Path
from typing import Any

import labelled_sets as sets
import numpy as np

from omcal import OMCAL, Consensus
from omcal.metrics import ari

RESULTS = Path(__file__).parent / "results"
SHAPE = (60_000, (342, 1024, 64))
MEMORY = """
import resource, sys
sys.path.insert(0, {folder!r})
import consensus
views = consensus.digits()
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
consensus.models()[{name!r}].fit(views)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""


def digits() -> list[np.ndarray]:
    """Ten clusters that overlap, in the shape of the features of MNIST."""
    rng = np.random.default_rng(0)
    n, widths = SHAPE
    member = rng.integers(10, size=n)
    return [
        (rng.normal(size=(10, d)) * 0.7)[member].astype(np.float32)
        + rng.standard_normal((n, d), dtype=np.float32)
        for d in widths
    ]


def models() -> dict[str, Any]:
    """One run, and ten joined."""
    return {
        "one run": OMCAL(10, random_state=0),
        "ten runs": Consensus(OMCAL(10), random_state=0),
    }


def cost(repeats: int) -> str:
    """Seconds and memory, as a table."""
    views = digits()
    OMCAL(10, random_state=0).fit(views)  # compiles what is not compiled yet
    seconds: dict[str, list[float]] = {name: [] for name in models()}
    for _ in range(repeats):
        for name, model in models().items():
            began = time.perf_counter()
            model.fit(views)
            seconds[name].append(time.perf_counter() - began)
    ratios = np.divide(seconds["ten runs"], seconds["one run"])
    peaks = {name: _peak(name) for name in models()}
    more = (peaks["ten runs"] - peaks["one run"]) * 1024 / SHAPE[0]
    return "\n".join(
        [
            "| what | value |",
            "|---|---|",
            f"| one run (s) | {np.median(seconds['one run']):.2f} |",
            f"| ten runs joined / one run | {np.median(ratios):.2f} ({ratios.min():.2f} to "
            f"{ratios.max():.2f}) |",
            f"| memory beyond that of one run, bytes a sample | {more:.0f} |",
            "",
        ]
    )


def _peak(name: str) -> int:
    """Kilobytes that a fit adds to the peak of a fresh process."""
    code = MEMORY.format(folder=str(Path(__file__).parent), name=name)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return int(done.stdout)


def seeds(folder: str, names: list[str], singles: int, joined: int) -> str:
    """Mean ARI between fits, a line a set."""
    lines = ["| set | single runs | ten runs joined |", "|---|---|---|"]
    means = []
    for name in names:
        views, y = sets.load(folder, name)
        c = len(np.unique(y))
        one = [OMCAL(c, random_state=s).fit(views).labels_ for s in range(singles)]
        ten = [Consensus(OMCAL(c), random_state=s).fit(views).labels_ for s in range(joined)]
        means.append([np.mean([ari(a, b) for a, b in combinations(f, 2)]) for f in (one, ten)])
        lines.append(f"| {name} | {means[-1][0]:.3f} | {means[-1][1]:.3f} |")
        print(lines[-1], flush=True)
    single, both = np.mean(means, axis=0)
    lines.append(f"| mean | {single:.3f} | {both:.3f} |")
    left = (1 - both) / (1 - single)
    return "\n".join([*lines, "", f"Of the distance to 1, {left:.2f} is left.", ""])


def main() -> None:
    """Measure one of both."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["cost", "seeds"])
    parser.add_argument("folder", nargs="?", help="where the data files are")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", nargs="+", default=list(sets.YARDSTICK))
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "seeds":
        text = seeds(options.folder, options.sets, singles=6, joined=5)
    else:
        text = cost(options.repeats)
    (RESULTS / f"consensus_{options.what}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
