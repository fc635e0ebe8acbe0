"""How often fits to noise, and to labelled sets, are said to have no cluster structure; Markdown.

    python benchmarks/structure.py FOLDER [--noise 100] [--out benchmarks/results/structure.md]

Noise has 120 to 1500 samples in one to five views of 4 to 300 features, and is fitted with 2 to 15
clusters. The settings of the test were chosen on the seeds 77 and 1001 to 1004; the default seed
was first drawn for the report. Of labelled sets at most 2000 samples are taken, with the number of
classes.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path

import numpy as np
from labelled_sets import YARDSTICK, load
from scipy import sparse
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine

from omcal import OMCAL
from omcal.metrics import clustering_accuracy
from omcal.model import estimators
from omcal.model.structure import Structure

KINDS = {
    "Gaussian": lambda rng, n, d: rng.normal(size=(n, d)),
    "uniform": lambda rng, n, d: rng.uniform(size=(n, d)),
    "heavy tails (t, 3 degrees)": lambda rng, n, d: rng.standard_t(3, size=(n, d)),
    "log-normal": lambda rng, n, d: np.exp(1.2 * rng.normal(size=(n, d))),
    "counts (mean 3)": lambda rng, n, d: rng.poisson(3.0, size=(n, d)).astype(float),
    "counts (mean 0.3)": lambda rng, n, d: rng.poisson(0.3, size=(n, d)).astype(float),
    "five values": lambda rng, n, d: rng.randint(5, size=(n, d)).astype(float),
    "correlated (rank 3)": lambda rng, n, d: (
        rng.normal(size=(n, 3)) @ rng.normal(size=(3, d)) + 0.3 * rng.normal(size=(n, d))
    ),
    "binary": lambda rng, n, d: (rng.uniform(size=(n, d)) < rng.uniform(0.1, 0.9, size=d)).astype(
        float
    ),
    "sparse": lambda rng, n, d: sparse.random_array(
        (n, d), density=max(5 / max(d, 5), 0.02), format="csr", rng=rng
    ),
}
LOADERS = {
    "digits": load_digits,
    "iris": load_iris,
    "wine": load_wine,
    "breast cancer": load_breast_cancer,
}


def noise_sets(count: int, seed: int):
    """Yield kind, views and number of clusters."""
    rng = np.random.RandomState(seed)
    for i in range(count):
        kind = list(KINDS)[i % len(KINDS)]
        n, c = int(rng.choice([120, 300, 700, 1500])), int(rng.choice([2, 3, 4, 6, 10, 15]))
        widths = rng.choice([4, 8, 15, 40, 100, 300], size=rng.randint(1, 6))
        yield kind, [KINDS[kind](rng, n, int(d)) for d in widths], c


def labelled_sets(folder: Path):
    """Yield name, views and classes."""
    for name, loaded in LOADERS.items():
        yield name, [loaded().data], loaded().target
    for name in YARDSTICK:
        views, y = load(str(folder), name)
        rows = np.sort(np.random.RandomState(0).permutation(len(y))[:2000])
        yield name, [view[rows] for view in views], y[rows]


def fitted(views, c: int) -> tuple[OMCAL, float]:
    """Return a model and the share of the processor time of the fit that the test took."""
    spent, test = [0.0], estimators.structure_at

    def timed(*args) -> Structure | None:
        began = time.process_time()
        found = test(*args)
        spent[0] = time.process_time() - began
        return found

    estimators.structure_at = timed
    began = time.process_time()
    model = OMCAL(c, random_state=0).fit(views)
    estimators.structure_at = test
    return model, spent[0] / (time.process_time() - began - spent[0])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--noise", type=int, default=100)
    parser.add_argument("--seed", type=int, default=2001)
    default = Path(__file__).parent / "results" / "structure.md"
    parser.add_argument("--out", type=Path, default=default)
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    shares, said = [], {kind: [] for kind in KINDS}
    for kind, views, c in noise_sets(options.noise, options.seed):
        model, share = fitted(views, c)
        said[kind].append(model.structure_ is not None and not model.structure_.found)
        shares.append(share)
    total = sum(map(sum, said.values()))
    lines = ["| noise | sets | said to have no structure |", "|---|---|---|"]
    lines += [f"| {kind} | {len(found)} | {sum(found)} |" for kind, found in said.items()]
    lines += [f"| all | {options.noise} | {total} |", ""]
    lines += ["| labelled set | accuracy | separation | of data without clusters | said |"]
    lines += ["|---|---|---|---|---|"]
    for name, views, y in labelled_sets(options.folder):
        model, share = fitted(views, len(np.unique(y)))
        shares.append(share)
        found, accuracy = model.structure_, clustering_accuracy(y, model.labels_)
        word = "" if found.found else "no structure"
        scores = f"{found.separation:.2f} | {found.null:.2f} | {word}"
        lines.append(f"| {name} | {accuracy:.2f} | {scores} |")
    median, most = np.quantile(shares, [0.5, 0.9])
    lines += ["", "The test took this share of the processor time of the rest of the fit: "]
    lines[-1] += f"{median:.0%} in the median, {most:.0%} at the ninth decile."
    options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
