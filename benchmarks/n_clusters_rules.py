"""Rules that suggest a number of clusters, compared on the same fits to the same problems.

    python benchmarks/n_clusters_rules.py FOLDER --fits WHERE [--jobs 2]

The problems are those of `n_clusters.py --subsets`. All numbers are fitted once, five runs each;
the labels go to WHERE, and are read from there the next time. The table has the difference to the
first rule, with its standard error over the sets, and goes to results/n_clusters_rules.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from n_clusters import subset
from scipy import sparse
from sklearn.neighbors import NearestNeighbors

from omcal import OMCAL, Consensus
from omcal.method.scaling import Scaling
from omcal.select.number import _joined, best_of, modularity_of, turned
from omcal.views.reading import validate_views


class Fits:
    """What the fits of all numbers gave, and the neighbours of each sample in each view."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            for name in stored.files:
                setattr(self, name, stored[name])
        self.n = self.joined.shape[1]

    def ties(
        self, share: float, weights: Sequence[float] | None = None, shared: bool = False
    ) -> sparse.coo_array:
        """Ties to the share of √n nearest; by how many neighbours both ends share, if asked."""
        k = min(max(1, round(share * self.n**0.5)), self.near.shape[2])
        total = sparse.csr_array((self.n, self.n))
        for v, near in enumerate(self.near[:, :, :k]):
            rows = np.repeat(np.arange(self.n), k)
            towards = sparse.csr_array((np.ones(near.size), (rows, near.ravel())), (self.n, self.n))
            both = towards + towards.T
            if shared:
                reached = towards + sparse.eye_array(self.n)
                both = (reached @ reached.T).multiply(both > 0)
            total = total + (1 if weights is None else weights[v]) * both
        return sparse.coo_array(total)

    def modularity(self, share: float, **how: Any) -> np.ndarray:
        ties = self.ties(share, **how)
        return np.array([modularity_of(ties, labels) for labels in self.joined])

    def inside(self, share: float) -> np.ndarray:
        ties = self.ties(share)
        same = [labels[ties.row] == labels[ties.col] for labels in self.joined]
        return np.array([ties.data[among].sum() for among in same]) / ties.data.sum()

    def sizes(self) -> list[np.ndarray]:
        """Shares of the samples by cluster."""
        return [np.bincount(labels)[np.unique(labels)] / self.n for labels in self.joined]

    def tables(self, share: float) -> list[np.ndarray]:
        """Shares of the ties by the clusters of both ends."""
        ties = self.ties(share)
        found = []
        for labels in self.joined.astype(int):
            c = labels.max() + 1
            pairs = labels[ties.row] * c + labels[ties.col]
            found.append(np.bincount(pairs, ties.data, c * c).reshape(c, c) / ties.data.sum())
        return found


def bits(shares: np.ndarray) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())


def of_runs(fits: Fits) -> np.ndarray:
    """The mean modularity of the runs, and that of the joint result, in equal parts."""
    ties = fits.ties(0.5)
    runs = [np.mean([modularity_of(ties, labels) for labels in some]) for some in fits.runs]
    return (np.array(runs) + fits.modularity(0.5)) / 2


def entropy_null(fits: Fits, share: float, worth: float) -> np.ndarray:
    """A cut pays where it crosses fewer of a cluster's ties than `worth`, whatever the number."""
    return fits.inside(share) + worth * np.array([bits(sizes) for sizes in fits.sizes()])


def information(fits: Fits, share: float) -> np.ndarray:
    """I² / H: what one end of a tie tells of the cluster of the other, of the H bits to know."""
    tables = fits.tables(share)
    H = np.array([bits(table.sum(axis=1)) for table in tables])
    shared = 2 * H - np.array([bits(table) for table in tables])
    return shared**2 / np.maximum(H, 1e-12)


def z_score(fits: Fits, share: float) -> np.ndarray:
    null = np.array([np.square(table.sum(axis=1)).sum() for table in fits.tables(share)])
    return (fits.inside(share) - null) / np.sqrt(null * (1 - null))


def gap(fits: Fits) -> np.ndarray:
    """Gaps of the eigenvalues of how often two samples share a cluster, over all fits."""
    of_all = fits.runs.reshape(-1, fits.n).astype(int)
    clusters = np.hstack([np.eye(labels.max() + 1)[labels] for labels in of_all])
    weight = clusters @ clusters.sum(axis=0)
    values = np.linalg.svd(clusters / np.sqrt(weight)[:, None], compute_uv=False) ** 2
    values = np.append(values, np.zeros(fits.numbers[-1]))
    return values[fits.numbers - 1] - values[fits.numbers]


def half_a_cluster(fits: Fits) -> np.ndarray:
    """For each number as many neighbours as half a cluster has samples, at most 2 √n."""
    shares = fits.n**0.5 / (2 * fits.numbers)
    ties = [fits.ties(share) for share in shares]
    return np.array([modularity_of(t, labels) for t, labels in zip(ties, fits.joined, strict=True)])


RULES: dict[str, Callable[[Fits], np.ndarray]] = {
    "modularity, √n / 2 neighbours": lambda f: f.modularity(0.5),
    "modularity, √n / 4": lambda f: f.modularity(0.25),
    "modularity, 0.75 √n": lambda f: f.modularity(0.75),
    "modularity, √n": lambda f: f.modularity(1),
    "modularity, 1.5 √n": lambda f: f.modularity(1.5),
    "modularity, 2 √n": lambda f: f.modularity(2),
    "mean of √n / 4, √n / 2 and √n": lambda f: sum(f.modularity(s) for s in (0.25, 0.5, 1)) / 3,
    "mean of the runs and the joint result": of_runs,
    "ties weighted by shared neighbours": lambda f: f.modularity(0.5, shared=True),
    "ties weighted as the views": lambda f: f.modularity(0.5, weights=f.weights.mean(axis=0)),
    "half a cluster's neighbours": half_a_cluster,
    "entropy for the null, .1, √n / 2": lambda f: entropy_null(f, 0.5, 0.1),
    "entropy for the null, .125, √n": lambda f: entropy_null(f, 1, 0.125),
    "information of the ties, √n / 2": lambda f: information(f, 0.5),
    "information of the ties, √n": lambda f: information(f, 1),
    "z-score, √n / 2": lambda f: z_score(f, 0.5),
    "gap of the eigenvalues of all runs": gap,
    "stability": lambda f: f.stability,
    "modularity × stability, √n / 2": lambda f: f.modularity(0.5) * f.stability,
    "modularity × stability, √n": lambda f: f.modularity(1) * f.stability,
    "modularity × √stability, √n / 2": lambda f: f.modularity(0.5) * np.sqrt(f.stability),
    "modularity × √stability, √n": lambda f: f.modularity(1) * np.sqrt(f.stability),
    "modularity × √stability, 1.5 √n": lambda f: f.modularity(1.5) * np.sqrt(f.stability),
}


def as_in_use(fits: Fits, curve: np.ndarray) -> int:
    return best_of(curve, fits.stability, fits.inside(0.5))[0]


def never(_: Fits, curve: np.ndarray) -> int:
    return int(curve.argmax())


def whatever_the_modularity(fits: Fits, curve: np.ndarray, among: Any = True) -> int:
    agreed = (fits.stability >= 0.99) & among
    if not agreed.any():
        return never(fits, curve)
    agreed &= fits.stability >= fits.stability[agreed].max() - 0.001
    return int(np.where(agreed, curve, -1).argmax())


def where_few_ties_cross(fits: Fits, curve: np.ndarray) -> int:
    return whatever_the_modularity(fits, curve, fits.inside(0.5) >= 0.975)


# When a number is taken because the runs agree on its clusters, for the rule in use.
CHOICES: dict[str, Callable[[Fits, np.ndarray], int]] = {
    "…, agreement where few ties are between clusters": where_few_ties_cross,
    "…, agreement whatever the modularity": whatever_the_modularity,
    "…, no agreement": never,
}


def measured(true: int, fits: Fits, curve: np.ndarray, best: int) -> tuple[float, float, float]:
    """Right, among the first three, off by which factor."""
    order = np.argsort(-curve, kind="stable")
    found = fits.numbers[np.append(best, order[order != best])]
    return found[0] == true, true in found[:3], abs(np.log(found[0] / true))


def all_measured(true: int, fits: Fits) -> list[tuple[float, float, float]]:
    """In the order of NAMES."""
    curves = [rule(fits) for rule in RULES.values()]
    ways = [(curves[0], as_in_use)]
    ways += [(curves[0], choice) for choice in CHOICES.values()]
    ways += [(curve, as_in_use) for curve in curves[1:]]
    return [measured(true, fits, curve, choice(fits, curve)) for curve, choice in ways]


def fit(folder: Path, where: Path, seed: int) -> tuple[str, int, list[tuple[float, float, float]]]:
    """The set, its classes, and how right each rule is; what is not fitted yet is."""
    warnings.simplefilter("ignore")
    path = where / f"subset_{seed}.npz"
    true, given, known = subset(folder, seed)
    if not path.exists():
        views = validate_views(OMCAL(), given, min_samples=2, lazy=True)
        scaled = [turned(Scaling.fit(v, "auto").apply(v.rows(slice(None)))) for v in views]
        numbers = np.arange(2, max(2, min(30, int(views.n**0.5))) + 1)
        draw = np.random.RandomState(0)
        draw.permutation(views.n)  # as n_clusters does, so that the seed is the same
        start = int(draw.randint(2**31 - 1))
        models: list[Consensus] = [_joined(scaled, int(c), "distinct", 5, start) for c in numbers]
        neighbours = NearestNeighbors(n_neighbors=min(round(2 * views.n**0.5), views.n - 1))
        np.savez_compressed(
            path,
            numbers=numbers,
            joined=[model.labels_ for model in models],
            runs=[[run.labels for run in model.runs_] for model in models],
            stability=np.maximum([model.stability_ for model in models], 0),
            weights=[model.view_weights_ for model in models],
            near=[neighbours.fit(X).kneighbors(return_distance=False) for X in scaled],
        )
    fits = Fits(path)
    return known["source"], true, all_measured(true, fits)


NAMES = (next(iter(RULES)), *CHOICES, *list(RULES)[1:])


def table_by_number(results: list[tuple[str, int, list[tuple[float, float, float]]]]) -> str:
    """Right and among the first three for few and for many classes."""
    true = np.array([c for _, c, _ in results])
    scores = np.array([score for _, _, score in results], dtype=float)
    parts = {"2, 3": true < 4, "4, 5": (true > 3) & (true < 6)}
    parts |= {"6 to 8": (true > 5) & (true < 9), "9 to 12": true > 8}
    lines = ["", "Right, and among the first three, by the number of classes (problems):", ""]
    heads = [f"{name} ({among.sum()})" for name, among in parts.items()]
    lines += [f"| rule | {' | '.join(heads)} |", "|---" * (len(parts) + 1) + "|"]
    for i, rule in enumerate(NAMES):
        means = [scores[among, i].mean(axis=0) for among in parts.values()]
        lines.append(f"| {rule} | {' | '.join(f'{m[0]:.2f}, {m[1]:.2f}' for m in means)} |")
    return "\n".join(lines) + "\n"


def table(results: list[tuple[str, int, list[tuple[float, float, float]]]]) -> str:
    names = np.array([name for name, _, _ in results])
    scores = np.array([score for _, _, score in results], dtype=float)
    by_set = np.array([scores[names == name].mean(axis=0) for name in np.unique(names)])
    means, change = by_set.mean(axis=0), by_set - by_set[:, :1]
    error = change.std(axis=0, ddof=1) / len(by_set) ** 0.5
    lines = [
        f"{len(results)} problems of {len(by_set)} sets; differences to the first rule ± their"
    ]
    lines += ["standard error over the sets.", ""]
    lines.append("| rule | right | | among the first three | | off by the factor | logarithm |")
    lines.append("|---" * 7 + "|")
    for i, rule in enumerate(NAMES):
        cells = [
            f"{means[i, 0]:.3f}",
            "",
            f"{means[i, 1]:.3f}",
            "",
            f"{np.exp(means[i, 2]):.2f}",
            "",
        ]
        if i:
            cells[1::2] = [
                f"{d:+.3f} ± {e:.3f}" for d, e in zip(change.mean(axis=0)[i], error[i], strict=True)
            ]
        lines.append(f"| {rule} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    """Fit what is not fitted yet, and compare."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data files are")
    parser.add_argument("--subsets", type=int, default=81)
    parser.add_argument("--fits", type=Path, required=True, help="where the fits are kept")
    parser.add_argument("--jobs", type=int, default=2)
    results = Path(__file__).parent / "results" / "n_clusters_rules.md"
    parser.add_argument("--out", type=Path, default=results)
    options = parser.parse_args()
    options.fits.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        work = partial(fit, options.folder, options.fits)
        found = list(pool.map(work, range(options.subsets)))
    text = table(found) + table_by_number(found)
    options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
