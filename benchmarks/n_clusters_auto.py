"""ARI with the number of clusters known and with the suggested one, on labelled sets; Markdown.

    python benchmarks/n_clusters_auto.py FOLDER [--sets Coil,Wiki] [--jobs 2]

At most 2000 samples of each set; ten runs combined (`Consensus`) with each of the two numbers.
"""

from __future__ import annotations

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

import numpy as np
from labelled_sets import FURTHER, YARDSTICK, load, score

from omcal import OMCAL, Consensus
from omcal.select import n_clusters


def joined(number: int, classes: int, seed: int) -> Consensus:
    """Return the model to score; the number of classes is not used."""
    return Consensus(OMCAL(number), random_state=seed)


def compare(folder: str, name: str) -> str:
    """Return one row of the table."""
    views, y = load(folder, name)
    rows = np.sort(np.random.RandomState(0).permutation(len(y))[:2000])
    views, y = [view[rows] for view in views], y[rows]
    began = time.process_time()
    found = n_clusters(views)
    seconds, classes = time.process_time() - began, len(np.unique(y))
    known, suggested = (
        score(views, y, partial(joined, number), 0) for number in (classes, found.suggestion)
    )
    return (
        f"| {name} | {len(y)} | {classes} | {found.suggestion} | {found.confidence:.2f} "
        f"| {known['ari']:.3f} | {suggested['ari']:.3f} | {seconds / known['cpu']:.1f} |"
    )


def main() -> None:
    """Print a row per set as it is finished."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the data files are")
    parser.add_argument("--sets", default=",".join((*YARDSTICK, *FURTHER)))
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    print("| set | samples | classes | suggested | confidence | known | auto | joined fits |")
    print("|---" * 8 + "|")
    with ProcessPoolExecutor(options.jobs) as pool:
        for row in pool.map(partial(compare, options.folder), options.sets.split(",")):
            print(row, flush=True)


if __name__ == "__main__":
    main()
