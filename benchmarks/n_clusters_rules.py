"""Rules that suggest a number of clusters, compared on the same fits to the same problems.

    python benchmarks/n_clusters_rules.py FOLDER --fits WHERE [--jobs 2]

The problems are those of `n_clusters.py --subsets`, and 28 with more classes and samples, as the
whole sets have: 7 to 24 random classes, never all, of the sets with ten or more, and at most 1500
samples. All numbers are fitted once, five runs each; labels and neighbours go to WHERE, and are
read from there the next time. The table has the difference to the first rule, with its standard
error over the sets, and goes to results/n_clusters_rules.md.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
from n_clusters import FEW, larger, subset
from scipy import sparse

from omcal import OMCAL, Consensus
from omcal.method.scaling import Scaling
from omcal.select.number import (
    _joined,
    best_of,
    curve_of,
    first,
    modularity_of,
    nearest,
    shares_of,
    turned,
)
from omcal.views.reading import validate_views


class Fits:
    """What the fits of all numbers gave, and the neighbours of each sample in each view."""

    def __init__(self, path: Path) -> None:
        with np.load(path) as stored:
            for name in stored.files:
                setattr(self, name, stored[name])
        self.n = self.joined.shape[1]

    def some(self, share: float) -> np.ndarray:
        """The share of √n nearest in each view."""
        return first(self.near, share * self.n**0.5)

    def modularity(self, share: float) -> np.ndarray:
        inside, by_chance = self.shares(share)
        return inside - by_chance

    def shares(self, share: float) -> np.ndarray:
        """Of the ties those inside clusters, and those of ties at random."""
        near = self.some(share)
        return np.transpose([shares_of(near, labels) for labels in self.joined])

    def in_use(self, run: int | None = None) -> np.ndarray:
        labels = self.joined if run is None else self.runs[:, run]
        return curve_of(self.near, self.numbers.tolist(), list(labels))

    def by_steps(self, share: Callable[[float], float]) -> np.ndarray:
        """Differences of each number to the next over the same neighbours, summed up."""
        curve = [0.0]
        for i, (c, after) in enumerate(pairwise(self.numbers.tolist())):
            near = self.some(share((c * after) ** 0.5))
            less, more = (modularity_of(near, self.joined[j]) for j in (i, i + 1))
            curve.append(curve[-1] + more - less)
        return np.array(curve) + modularity_of(self.some(0.5), self.joined[0])

    def sizes(self) -> list[np.ndarray]:
        """Shares of the samples by cluster."""
        return [np.bincount(labels)[np.unique(labels)] / self.n for labels in self.joined]

    def tables(self, share: float) -> list[np.ndarray]:
        """Shares of the ties by the clusters of both ends."""
        near = self.some(share)
        found = []
        for labels in self.joined.astype(int):
            c = labels.max() + 1
            pairs = labels[:, None] * c + labels[near]
            table = np.bincount(pairs.ravel(), minlength=c * c).reshape(c, c) / near.size
            found.append((table + table.T) / 2)
        return found


def shared(fits: Fits) -> np.ndarray:
    """Modularity of ties that count as many neighbours as both ends share, of √n / 2."""
    total = sparse.csr_array((fits.n, fits.n))
    for near in (
        first(fits.near, fits.n**0.5 / 2).reshape(fits.n, fits.near.shape[1], -1).swapaxes(0, 1)
    ):
        rows = np.repeat(np.arange(fits.n), near.shape[1])
        ones = np.ones(near.size)
        towards = sparse.csr_array((ones, (rows, near.ravel())), (fits.n, fits.n))
        reached = towards + sparse.eye_array(fits.n)
        total = total + (reached @ reached.T).multiply(towards + towards.T > 0)
    ties = sparse.coo_array(total)
    share = ties.data / ties.data.sum()
    found = []
    for labels in fits.joined:
        ends = np.bincount(labels[ties.row], share)
        found.append(share[labels[ties.row] == labels[ties.col]].sum() - np.square(ends).sum())
    return np.array(found)


def bits(shares: np.ndarray) -> float:
    some = shares[shares > 0]
    return float(-(some * np.log2(some)).sum())


def of_runs(fits: Fits) -> np.ndarray:
    """The mean modularity of the runs, and that of the joint result, in equal parts."""
    near = fits.some(0.5)
    runs = [np.mean([modularity_of(near, labels) for labels in some]) for some in fits.runs]
    return (np.array(runs) + fits.modularity(0.5)) / 2


def entropy_null(fits: Fits, share: float, worth: float) -> np.ndarray:
    """A cut pays where it crosses fewer of a cluster's ties than `worth`, whatever the number."""
    return fits.shares(share)[0] + worth * np.array([bits(sizes) for sizes in fits.sizes()])


def information(fits: Fits, share: float) -> np.ndarray:
    """I² / H: what one end of a tie tells of the cluster of the other, of the H bits to know."""
    tables = fits.tables(share)
    H = np.array([bits(table.sum(axis=1)) for table in tables])
    shared = 2 * H - np.array([bits(table) for table in tables])
    return shared**2 / np.maximum(H, 1e-12)


def z_score(fits: Fits, share: float) -> np.ndarray:
    inside, null = fits.shares(share)
    return (inside - null) / np.sqrt(null * (1 - null))


def gap(fits: Fits) -> np.ndarray:
    """Gaps of the eigenvalues of how often two samples share a cluster, over all fits."""
    of_all = fits.runs.reshape(-1, fits.n).astype(int)
    clusters = np.hstack([np.eye(labels.max() + 1)[labels] for labels in of_all])
    weight = clusters @ clusters.sum(axis=0)
    values = np.linalg.svd(clusters / np.sqrt(weight)[:, None], compute_uv=False) ** 2
    values = np.append(values, np.zeros(fits.numbers[-1]))
    return values[fits.numbers - 1] - values[fits.numbers]


def half_a_cluster(fits: Fits) -> np.ndarray:
    """For each number as many neighbours as half a cluster has samples, at most 5 √n."""
    near = [fits.some(share) for share in fits.n**0.5 / (2 * fits.numbers)]
    return np.array([modularity_of(k, labels) for k, labels in zip(near, fits.joined, strict=True)])


def third_of_a_cluster(fits: Fits) -> np.ndarray:
    return fits.by_steps(lambda c: fits.n**0.5 / (3 * c))


RULES: dict[str, Callable[[Fits], np.ndarray]] = {
    "in use": Fits.in_use,
    "modularity, √n / 4 neighbours": lambda f: f.modularity(0.25),
    "modularity, √n / 2": lambda f: f.modularity(0.5),
    "modularity, 0.75 √n": lambda f: f.modularity(0.75),
    "modularity, √n": lambda f: f.modularity(1),
    "modularity, 1.5 √n": lambda f: f.modularity(1.5),
    "modularity, 2 √n": lambda f: f.modularity(2),
    "mean of √n / 2, √n and 2 √n": lambda f: sum(f.modularity(s) for s in (0.5, 1, 2)) / 3,
    "by steps, a third of a cluster": third_of_a_cluster,
    "by steps, 3 roots of a cluster": lambda f: f.by_steps(lambda c: 3 / c**0.5),
    "by steps, 6 √n / c, at least √n / 2": lambda f: f.by_steps(lambda c: max(0.5, 6 / c)),
    "by steps, 24 √n / c², at least √n / 2": lambda f: f.by_steps(lambda c: max(0.5, 24 / c**2)),
    "by steps, 24 √n / c², at least .6 √n": lambda f: f.by_steps(lambda c: max(0.6, 24 / c**2)),
    "by steps, 24 √n / c², at least .75 √n": lambda f: f.by_steps(lambda c: max(0.75, 24 / c**2)),
    "by steps, 36 √n / c², at least .6 √n": lambda f: f.by_steps(lambda c: max(0.6, 36 / c**2)),
    "mean of the runs and the joint result": of_runs,
    "ties weighted by shared neighbours": shared,
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
    return best_of(curve, fits.stability, *fits.shares(0.6))[0]


def never(_: Fits, curve: np.ndarray) -> int:
    return int(curve.argmax())


def whatever_the_modularity(fits: Fits, curve: np.ndarray, among: np.ndarray | bool = True) -> int:
    agreed = (fits.stability >= 0.99) & among
    if not agreed.any():
        return never(fits, curve)
    agreed &= fits.stability >= fits.stability[agreed].max() - 0.001
    return int(np.where(agreed, curve, -np.inf).argmax())


def where_few_ties_cross(fits: Fits, curve: np.ndarray) -> int:
    return whatever_the_modularity(fits, curve, fits.shares(0.6)[0] >= 0.975)


# When a number is taken because the runs agree on its clusters, for the rule in use.
CHOICES: dict[str, Callable[[Fits, np.ndarray], int]] = {
    "…, agreement where few ties are between clusters": where_few_ties_cross,
    "…, agreement whatever the modularity": whatever_the_modularity,
    "…, no agreement": never,
}


def measured(true: int, fits: Fits, order: np.ndarray, best: int) -> tuple[float, float, float]:
    """Right, among the first three, off by which factor."""
    order = np.argsort(-order, kind="stable")
    found = fits.numbers[np.append(best, order[order != best])]
    return found[0] == true, true in found[:3], abs(np.log(found[0] / true))


def all_measured(true: int, fits: Fits) -> list[tuple[float, float, float]]:
    """In the order of NAMES."""
    curves = [rule(fits) for rule in RULES.values()]
    ranked = curves[0] + np.mean([fits.in_use(run) for run in range(fits.runs.shape[1])], axis=0)
    ways = [(curves[0], ranked, choice) for choice in (as_in_use, *CHOICES.values())]
    ways += [(curve, curve, as_in_use) for curve in curves]
    return [measured(true, fits, order, choice(fits, curve)) for curve, order, choice in ways]


def fit(
    folder: Path, where: Path, problem: tuple[str, int]
) -> tuple[str, int, list[tuple[float, float, float]]]:
    """The set, its classes, and how right each rule is; what is not fitted yet is."""
    warnings.simplefilter("ignore")
    kind, seed = problem
    path = where / f"{kind}_{seed}.npz"
    true, given, known = (larger if kind == "larger" else subset)(folder, seed)
    if not path.exists():
        views = validate_views(OMCAL(), given, min_samples=2, lazy=True)
        scaled = [turned(Scaling.fit(v, "auto").apply(v.rows(slice(None)))) for v in views]
        numbers = np.arange(2, max(2, min(30, int(views.n**0.5))) + 1)
        if kind == "larger":
            numbers = np.array([c for c in FEW if 2 * c < views.n])
        draw = np.random.RandomState(0)
        draw.permutation(views.n)  # as n_clusters does, so that the seed is the same
        start = int(draw.randint(2**31 - 1))
        models: list[Consensus] = [_joined(scaled, int(c), "distinct", 5, start) for c in numbers]
        np.savez_compressed(
            path,
            numbers=numbers,
            joined=[model.labels_ for model in models],
            runs=[[run.labels for run in model.runs_] for model in models],
            stability=np.maximum([model.stability_ for model in models], 0),
            near=nearest(scaled, 2),
        )
    return known["source"], true, all_measured(true, Fits(path))


# The curve in use comes twice: with the ranking in use, and ranked by itself as the others are.
NAMES = ("in use", *CHOICES, "…, ranked by its own curve", *list(RULES)[1:])


def table_by_number(results: list[tuple[str, int, list[tuple[float, float, float]]]]) -> str:
    """Right and among the first three for few and for many classes."""
    true = np.array([c for _, c, _ in results])
    scores = np.array([score for _, _, score in results], dtype=float)
    parts = {"2, 3": true < 4, "4, 5": (true > 3) & (true < 6)}
    parts |= {"6 to 8": (true > 5) & (true < 9), "9 to 12": (true > 8) & (true < 13)}
    parts |= {"13 to 24": true > 12}
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
    parser.add_argument("--larger", type=int, default=28)
    parser.add_argument("--fits", type=Path, required=True, help="where the fits are kept")
    parser.add_argument("--jobs", type=int, default=2)
    results = Path(__file__).parent / "results" / "n_clusters_rules.md"
    parser.add_argument("--out", type=Path, default=results)
    options = parser.parse_args()
    options.fits.mkdir(parents=True, exist_ok=True)
    with ProcessPoolExecutor(options.jobs) as pool:
        work = partial(fit, options.folder, options.fits)
        problems = [("subset", seed) for seed in range(options.subsets)]
        problems += [("larger", seed) for seed in range(options.larger)]
        found = list(pool.map(work, problems))
    text = table(found) + table_by_number(found)
    options.out.write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
