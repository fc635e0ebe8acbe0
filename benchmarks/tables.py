"""Tables as analysts have them: missing cells and mixed columns, with standard errors.

python benchmarks/tables.py missing   loss of accuracy with 10 and 30 % of the cells missing
python benchmarks/tables.py mixed     drawn mixed tables against k-means on one-hot and, if they
                                      are installed, k-prototypes (kmodes) and FAMD (prince)
"""

from __future__ import annotations

import sys
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.cluster import KMeans
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from omcal import OMCAL
from omcal.datasets import load_views
from omcal.metrics import clustering_accuracy as accuracy

DATA = Path(__file__).resolve().parents[2] / "shared" / "data"
SETS = ("MSRCv1", "HW2sources", "Dermatology", "100leaves", "Handwritten")
SEEDS = 5


def error(values: np.ndarray) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def missing() -> None:
    """Print the accuracy with 0, 10 and 30 % of the cells missing, and the loss."""
    losses: dict[float, list[float]] = {0.1: [], 0.3: []}
    for name in SETS:
        data = load_views(DATA / f"{name}.mat")
        found: dict[float, list[float]] = {0.0: [], 0.1: [], 0.3: []}
        for seed in range(SEEDS):
            rng = np.random.default_rng(seed)
            for share, scores in found.items():
                holed = {
                    view: np.where(rng.random(array.shape) < share, np.nan, array)
                    for view, array in data.views.items()
                }
                model = OMCAL(data.n_classes, random_state=seed).fit(holed)
                scores.append(accuracy(data.labels, model.labels_))
        for share, lost in losses.items():
            lost += (np.array(found[0.0]) - found[share]).tolist()
        means = "  ".join(f"{share:.0%}: {np.mean(s):.3f}" for share, s in found.items())
        print(f"{name:12s} {means}")
    for share, lost in losses.items():
        print(f"loss at {share:.0%}: {np.mean(lost):+.4f} ± {error(np.array(lost)):.4f}")


def drawn(seed: int, overlap: float, carried: float, n: int = 600) -> tuple[Any, np.ndarray]:
    """Return a mixed table of four clusters, and the clusters.

    `carried` is the share of the categories that tell the clusters apart.
    """
    import pandas as pd

    rng = np.random.default_rng(seed)
    labels = rng.integers(4, size=n)
    centres = rng.normal(size=(4, 4))
    numbers = centres[labels] + overlap * rng.normal(size=(n, 4))
    columns: dict[str, Any] = {f"x{j}": numbers[:, j] for j in range(4)}
    for j in range(4):
        usual = rng.permutation(4)[labels] if j < round(4 * carried) else rng.integers(4, size=n)
        noise = rng.random(n) < 0.25 + 0.25 * overlap
        columns[f"c{j}"] = np.array(list("abcd"))[np.where(noise, rng.integers(4, size=n), usual)]
    return pd.DataFrame(columns), labels


def one_hot(table: Any) -> np.ndarray:
    """Return standardised numbers beside one-hot categories."""
    numbers = StandardScaler().fit_transform(table.select_dtypes("number"))
    texts = table.select_dtypes(exclude="number")
    return np.hstack([numbers, OneHotEncoder(sparse_output=False).fit_transform(texts)])


def methods(k: int, seed: int) -> dict[str, Any]:
    """Return the methods, each a function from a table to labels."""

    def kmeans(X: np.ndarray) -> np.ndarray:
        return KMeans(k, n_init=10, random_state=seed).fit_predict(X)

    found = {
        "OMCAL": lambda t: OMCAL(k, random_state=seed).fit(t).labels_,
        "k-means on one-hot": lambda t: kmeans(one_hot(t)),
    }
    try:
        from kmodes.kprototypes import KPrototypes

        places = [4, 5, 6, 7]
        found["k-prototypes"] = lambda t: KPrototypes(k, random_state=seed, n_init=3).fit_predict(
            t, categorical=places
        )
    except ImportError:
        print("kmodes is not installed: no k-prototypes")
    try:
        import prince

        found["FAMD and k-means"] = lambda t: kmeans(
            prince.FAMD(n_components=4, random_state=seed).fit(t).row_coordinates(t).to_numpy()
        )
    except ImportError:
        print("prince is not installed: no FAMD")
    return found


def mixed() -> None:
    """Print accuracy and seconds of each method by overlap and by what the categories carry."""
    scores: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    for overlap in (0.3, 0.6, 0.9):
        for carried in (0.0, 0.5, 1.0):
            for seed in range(SEEDS):
                table, labels = drawn(seed, overlap, carried)
                for name, method in methods(4, seed).items():
                    began = time.process_time()
                    score = accuracy(labels, method(table))
                    seconds.setdefault(name, []).append(time.process_time() - began)
                    scores.setdefault(name, []).append(score)
    for name, found in scores.items():
        values = np.array(found)
        print(
            f"{name:20s} {values.mean():.3f} ± {error(values):.3f}  {np.mean(seconds[name]):.2f} s"
        )


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    {"missing": missing, "mixed": mixed}[sys.argv[1] if len(sys.argv) > 1 else "missing"]()
