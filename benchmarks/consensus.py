"""What joined runs cost, and how little they depend on the seed.

    python benchmarks/consensus.py cost
    python benchmarks/consensus.py seeds FOLDER
    python benchmarks/consensus.py span FOLDER

"cost": ten joined runs over one, on 60000 × (342, 1024, 64) float32 in ten clusters, in turns in
one process; the peak of memory of each in a process of its own. "seeds": the mean adjusted Rand
index between fits with different seeds, of single runs and of joined ones, on the 17 sets of the
yardstick in FOLDER. "span": what it does to the result that the runs find their anchors in one
span, which they do where there are more than 256 samples an anchor and 4 features: on such sets,
and on those of the yardstick that have the features, although they are smaller. Tables go to
results/consensus_{cost,seeds,span}.md.
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
from unittest import mock

import labelled_sets as sets
import numpy as np

from omcal import OMCAL, Consensus
from omcal.machine.threads import thread_count
from omcal.method.settings import default_n_anchors
from omcal.method.span import span_pays
from omcal.metrics import ari, clustering_accuracy
from omcal.places import memory

RESULTS = Path(__file__).parent / "results"
SHAPE = (60_000, (342, 1024, 64))
LARGE = "Where there are samples enough for it"
SMALL = "Where there are not, and it is forced"
MEMORY = """
import sys
from pathlib import Path
sys.path.insert(0, {folder!r})
import consensus
def resident(what):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(what))
views = consensus.digits()
Path("/proc/self/clear_refs").write_text("5")  # the peak so far is forgotten
before = resident("VmRSS")
consensus.models()[{name!r}].fit(views)
print(resident("VmHWM") - before)
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
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in models()}
    for model in models().values():
        model.fit(views)  # compiles what is not compiled yet
    for _ in range(repeats):
        for name, model in models().items():
            began = time.perf_counter(), time.process_time()
            model.fit(views)
            took = time.perf_counter() - began[0], time.process_time() - began[1]
            seconds[name].append(took)
    ratios, of_cores = np.divide(seconds["ten runs"], seconds["one run"]).T
    # The peak depends on which thread is where: one of ten runs varies by 10 MB.
    peaks = {name: np.median([_peak(name) for _ in range(repeats)]) for name in models()}
    more = (peaks["ten runs"] - peaks["one run"]) * 1024 / SHAPE[0]
    return "\n".join(
        [
            "| what | value |",
            "|---|---|",
            f"| threads | {thread_count()} |",
            f"| one run (s) | {np.median(seconds['one run'], axis=0)[0]:.2f} |",
            f"| ten runs joined / one run | {np.median(ratios):.2f} ({ratios.min():.2f} to "
            f"{ratios.max():.2f}) |",
            f"| … in seconds of all cores | {np.median(of_cores):.2f} ({of_cores.min():.2f} to "
            f"{of_cores.max():.2f}) |",
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


def span(folder: str, names: list[str], n_seeds: int) -> str:
    """Anchors in one span beside anchors that each run finds in all features, a line a set."""
    kinds = [f"{what}, {way}" for what in ("a run", "ten", "ARI") for way in ("all", "span")]
    lines = [f"| set | samples | {' | '.join(kinds)} |", "|---" * (len(kinds) + 2) + "|"]
    gains: dict[str, dict[str, np.ndarray]] = {LARGE: {}, SMALL: {}}
    for name in names:
        views, y = _views(folder, name)
        n, widths = len(y), [view.shape[1] for view in views]
        m = default_n_anchors(n, len(np.unique(y)))
        if not span_pays(sys.maxsize, widths, m, "kmeans", 2):
            continue
        large = span_pays(n, widths, m, "kmeans", 2)
        scores = np.array([_scores(views, y, way, n_seeds) for way in (False, True)])
        gains[LARGE if large else SMALL][name] = scores[1, :2].mean(axis=1) - scores[0, :2].mean(
            axis=1
        )
        cells = [_mean(column) for what in range(2) for column in scores[:, what]]
        cells += [f"{score:.3f}" for score in scores[:, 2, 0]]
        lines.append(f"| {name} | {n} | {' | '.join(cells)} |")
        print(lines[-1], flush=True)
    for size, found in gains.items():
        if len(found) > 1:
            one, ten = np.array(list(found.values())).T
            lines.append(f"\n{size}: a run gains {_mean(one)}, ten joined {_mean(ten)}.")
    return "\n".join([*lines, ""])


def _views(folder: str, name: str) -> tuple[list[Any], np.ndarray]:
    """A set by its name; of NoisyMNIST all rows."""
    if name != "NoisyMNIST":
        return sets.load(folder, name)
    stored = np.load(Path(folder) / "NoisyMNIST_derived_30000_0.npz")
    return [stored[v].astype(np.float32) for v in ("v1", "v2")], stored["y"]


def _scores(views: list[Any], y: np.ndarray, in_span: bool, n_seeds: int) -> list[list[float]]:
    """For each seed accuracy of the runs and of their result; mean ARI of results."""
    with mock.patch.object(memory, "span_pays", return_value=in_span):
        fits = [
            Consensus(OMCAL(len(np.unique(y))), random_state=s).fit(views) for s in range(n_seeds)
        ]
    pairs = combinations([fit.labels_ for fit in fits], 2)
    return [
        [np.mean([clustering_accuracy(y, run.labels) for run in fit.runs_]) for fit in fits],
        [clustering_accuracy(y, fit.labels_) for fit in fits],
        [np.mean([ari(a, b) for a, b in pairs])] * n_seeds,
    ]


def _mean(values: np.ndarray) -> str:
    return f"{values.mean():.3f} ± {values.std(ddof=1) / np.sqrt(len(values)):.3f}"


def main() -> None:
    """Measure one of them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=["cost", "seeds", "span"])
    parser.add_argument("folder", nargs="?", help="where the data files are")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--sets", nargs="+")
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.what == "seeds":
        text = seeds(options.folder, options.sets or list(sets.YARDSTICK), singles=6, joined=5)
    elif options.what == "span":
        images = ("MNIST_halves", "NoisyMNIST", "USPS_halves")
        text = span(options.folder, options.sets or [*images, *sets.YARDSTICK], options.seeds)
    else:
        text = cost(options.repeats)
    (RESULTS / f"consensus_{options.what}.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
