"""True and suggested numbers of clusters, on artificial clusters and on labelled sets.

    python benchmarks/n_clusters.py FOLDER
    python benchmarks/n_clusters.py --draws 348 [--jobs 2]
    python benchmarks/n_clusters.py FOLDER --subsets 81 [--jobs 2]
    python benchmarks/n_clusters.py FOLDER --many 20 [--jobs 2]

The artificial ones lie apart: clusters of make_multiview with noise 0.3 in three views, and round
clusters in one view of six features whose centres are at least eight standard deviations from one
another, 2 to 30 of each. Labels of the sets in FOLDER are used to compare only. The table goes to
NAME.md and the records to NAME.json, NAME given by --out, after each set; recorded sets are not
repeated, unless --fresh is given.

--draws takes other artificial sets instead: 2 to 30 round clusters, the centres at least eight
standard deviations apart in every view; one to four views of 2 to 20 features each, 300 to 1500
samples, sizes equal or different by up to three times. Its table goes to NAME_draws.md.

--subsets takes some of the classes of the labelled sets, never all: of one set after another, and
of digits, wine and iris of scikit-learn, 3 to 12 random classes (2 of sets with three) and at most
600 random samples of them, 1500 in every third round of the sets. This is what to develop on: many
problems, whose answers are not those of the whole sets. Its table goes to NAME_subsets.md; problems
of one set are alike, so standard errors are over the sets.

--many takes more and smaller clusters than the root of the samples: in turn 25 to 150 round
clusters of 10 to 19 samples, the centres at least eight or five standard deviations apart in one to
three views, and 25 to 100 random classes of 100leaves, which have 16 samples each. The numbers to
choose from are shares of the true one, from .15 to 1.5. Its table goes to NAME_many.md.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.datasets import load_digits, load_iris, load_wine

from omcal.datasets import load_paper_dataset, load_views, make_multiview
from omcal.select import n_clusters

SETS = (
    *("Coil.mat", "Wiki.mat", "Handwritten.mat", "MNIST4.mat", "MSRCv1.mat", "HW2sources.mat"),
    *("Dermatology.mat", "htad.csv", "Prokaryotic.mat", "CESC.mat", "WebKB.mat", "Movies.mat"),
    *("BBC4view.mat", "Reuters1200.mat", "Reuters600.mat", "Cora.mat", "CiteSeer.mat"),
    *("USPS_views_derived.npz", "USPS_raw.h5", "NoisyMNIST_derived_30000_0.npz", "mnist"),
    *("SCOTUS_counts.npz", "TDT2", "100leaves.mat", "caltech101_silhouettes_28.mat"),
)
SHARES = (0.15, 0.25, 0.4, 0.6, 0.8, 0.9, 1.0, 1.1, 1.2, 1.5)  # of the true number, with --many
BUNDLED = {"digits": load_digits, "wine": load_wine, "iris": load_iris}
LARGER = (  # ten classes or more
    *("Coil.mat", "Wiki.mat", "Handwritten.mat", "HW2sources.mat", "Movies.mat"),
    *("USPS_views_derived.npz", "USPS_raw.h5", "NoisyMNIST_derived_30000_0.npz", "mnist"),
    *("SCOTUS_counts.npz", "TDT2", "100leaves.mat", "caltech101_silhouettes_28.mat", "digits"),
)
SOURCES = (*(name for name in SETS if name != "WebKB.mat"), *BUNDLED)  # three classes or more


def centres_apart(
    rng: np.random.RandomState, c: int, width: int, side: float, growth: float = 1.0
) -> np.ndarray:
    """Centres at least eight apart, drawn in a cube that grows whenever there is no room."""
    centres: list[np.ndarray] = []
    while len(centres) < c:
        centre = rng.uniform(-side, side, size=width)
        if all(np.linalg.norm(centre - other) >= 8.0 for other in centres):
            centres.append(centre)
        else:
            side *= growth
    return np.array(centres)


def round_clusters(c: int, n: int = 1200) -> np.ndarray:
    """Round clusters of standard deviation 1 in six features, their centres kept apart."""
    rng = np.random.RandomState(c)
    return centres_apart(rng, c, 6, side=12)[np.arange(n) % c] + rng.normal(size=(n, 6))


def draw(seed: int) -> tuple[int, list[np.ndarray], dict[str, Any]]:
    """The true number, the views, and what there is to know of such a set."""
    rng = np.random.RandomState(seed)
    c, n = rng.randint(2, 31), int(rng.choice([300, 600, 1000, 1500]))
    widths = rng.randint(2, 21, size=rng.randint(1, 5))
    equal = bool(rng.randint(2))
    share = np.ones(c) if equal else rng.uniform(1, 3, size=c)
    # Each cluster gets its share, to a sample; whoever is left over goes to any.
    cluster = np.repeat(np.arange(c), (share / share.sum() * n).astype(int))
    cluster = np.append(cluster, rng.randint(c, size=n - len(cluster)))
    views = [
        centres_apart(rng, c, d, side=8, growth=1.01)[cluster] + rng.normal(size=(n, d))
        for d in widths
    ]
    known = {
        "samples": n,
        "widths": widths.tolist(),
        "equal": equal,
        "smallest": int(np.bincount(cluster).min()),
    }
    return c, views, known


def run_draw(seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    c, views, known = draw(seed)
    return run("draw", f"seed {seed}", c, views, None) | known


def table_of_draws(records: list[dict[str, Any]]) -> str:
    lines = ["| samples | right | of |", "|---|---|---|"]
    for n in sorted({r["samples"] for r in records}):
        some = [r for r in records if r["samples"] == n]
        right = sum(r["suggested"] == r["true"] for r in some)
        lines.append(f"| {n} | {right} | {len(some)} |")
    wrong = [r for r in records if r["suggested"] != r["true"]]
    lines.append(f"| all | {len(records) - len(wrong)} | {len(records)} |")
    if not wrong:
        return "\n".join(lines) + "\n"
    lines += ["", "Those that are wrong:", ""]
    columns = ("set", "samples", "widths", "equal", "smallest", "true", "suggested", "confidence")
    lines += [f"| {' | '.join(columns)} |", "|---" * len(columns) + "|"]
    lines += [f"| {' | '.join(str(r[column]) for column in columns)} |" for r in wrong]
    return "\n".join(lines) + "\n"


@lru_cache(maxsize=2)
def source(folder: Path, name: str) -> tuple[list[Any], np.ndarray]:
    """Views and classes of at most 3000 samples; those of scikit-learn cut into two views."""
    if name not in BUNDLED:
        return load(folder, name, 3000)
    X, y = BUNDLED[name](return_X_y=True)
    half = X.shape[1] // 2
    return [X[:, :half], X[:, half:]], y


def subset(folder: Path, seed: int) -> tuple[int, list[Any], dict[str, Any]]:
    """The true number, the views, and what there is to know of some classes of a set."""
    most = 1500 if seed // len(SOURCES) % 3 == 2 else 600
    return some_classes(folder, SOURCES[seed % len(SOURCES)], seed, range(3, 13), most)


def larger(folder: Path, seed: int) -> tuple[int, list[Any], dict[str, Any]]:
    """The same of more classes and samples."""
    return some_classes(folder, LARGER[seed % len(LARGER)], seed, range(7, 25), 1500)


def some_classes(
    folder: Path, name: str, seed: int, numbers: range, most: int
) -> tuple[int, list[Any], dict[str, Any]]:
    views, y = source(folder, name)
    rng = np.random.RandomState(seed)
    classes, sizes = np.unique(y, return_counts=True)
    classes = classes[sizes >= 12]
    all_but_one = min(numbers[-1], len(classes) - 1)
    c = rng.randint(min(numbers[0], all_but_one), all_but_one + 1)
    chosen = rng.choice(classes, c, replace=False)
    rows = rng.permutation(np.flatnonzero(np.isin(y, chosen)))[:most]
    sizes = np.unique(y[rows], return_counts=True)[1]
    known = {"source": name, "samples": len(rows), "smallest": int(sizes.min())}
    return len(sizes), [view[rows] for view in views], known


def run_subset(folder: Path, seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    c, views, known = subset(folder, seed)
    return run("subset", f"seed {seed}", c, views, None) | known


def many(folder: Path, seed: int) -> tuple[str, int, list[np.ndarray]]:
    """What they are, the true number, and the views of many small clusters."""
    rng = np.random.RandomState(seed)
    if seed % 2:
        c = rng.randint(25, 101)
        views, y = source(folder, "100leaves.mat")
        rows = np.flatnonzero(np.isin(y, rng.choice(np.unique(y), c, replace=False)))
        return "classes of 100leaves", c, [view[rows] for view in views]
    c, size, gap = rng.randint(25, 151), rng.randint(10, 20), rng.choice([5, 8])
    centres = [
        centres_apart(rng, c, d, side=8, growth=1.01) * gap / 8
        for d in rng.randint(4, 20, size=rng.randint(1, 4))
    ]
    views = [np.repeat(some, size, axis=0) for some in centres]
    kind = f"round, {gap} apart, {size} each, in {len(views)} view{'s' * (len(views) > 1)}"
    return kind, c, [view + rng.normal(size=view.shape) for view in views]


def run_many(folder: Path, seed: int) -> dict[str, Any]:
    warnings.simplefilter("ignore")
    kind, c, views = many(folder, seed)
    return run(kind, f"seed {seed}", c, views, [round(share * c) for share in SHARES])


def table_of_many(records: list[dict[str, Any]]) -> str:
    lines = ["| clusters | their number | suggested | next | confidence |", "|---" * 5 + "|"]
    for r in records:
        cells = (r["kind"], r["true"], r["suggested"], *r["next"], r["confidence"])
        lines.append("| {} | {} | {} | {}, {} | {:.2f} |".format(*cells))
    right, among, _ = np.sum([measures(r) for r in records], axis=0)
    lines += ["", f"Right: {right:.0f} of {len(records)}; among the first three: {among:.0f}."]
    return "\n".join(lines) + "\n"


def measures(record: dict[str, Any]) -> tuple[float, float, float]:
    """Right, among the first three, and by what factor (its logarithm) the suggestion is off."""
    true, found = record["true"], record["suggested"]
    return true == found, true in (found, *record["next"]), abs(np.log(found / true))


def table_of_subsets(records: list[dict[str, Any]]) -> str:
    lines = ["| set | problems | right | among the first three | off by the factor |"]
    lines.append("|---" * 5 + "|")
    means = []
    for name in dict.fromkeys(r["source"] for r in records):
        some = [measures(r) for r in records if r["source"] == name]
        means.append(np.mean(some, axis=0))
        lines.append(f"| {name} | {len(some)} | {_cells(means[-1])} |")
    mean, error = np.mean(means, axis=0), np.std(means, axis=0, ddof=1) / len(means) ** 0.5
    lines.append(f"| all | {len(records)} | {_cells(mean)} |")
    lines += ["", "Standard errors, over the sets: {:.3f}, {:.3f} and {:.3f} of the".format(*error)]
    lines[-1] += f" logarithm. Mean seconds: {np.mean([r['seconds'] for r in records]):.1f}."
    return "\n".join(lines) + "\n"


def _cells(means: np.ndarray) -> str:
    return f"{means[0]:.2f} | {means[1]:.2f} | {np.exp(means[2]):.2f}"


def artificial() -> Iterator[tuple[str, int, Any]]:
    for c in range(2, 31):
        yield "three views", c, make_multiview(1200, c, noise=0.3, random_state=c).views
        yield "one view", c, round_clusters(c)


def load(folder: Path, name: str, most: int | None = None) -> tuple[list[Any], np.ndarray]:
    data = load_paper_dataset(name, folder) if name == "TDT2" else load_views(folder / name)
    assert data.labels is not None
    rows = np.random.RandomState(0).permutation(data.n_samples)[:most]
    views = [
        v.tocsr()[rows].astype(np.float64) if sparse.issparse(v) else v[rows]
        for v in data.views.values()
    ]
    return views, data.labels[rows]


def run(
    kind: str, name: str, true: int, views: Any, numbers: list[int] | None, **settings: int
) -> dict[str, Any]:
    began = time.perf_counter()
    few_enough = numbers and [c for c in numbers if 2 * c < _samples(views)]
    found = n_clusters(views, few_enough, **settings)
    return {
        "kind": kind,
        "set": name,
        "true": true,
        "suggested": found.suggestion,
        "next": list(found.ranking[1:3]),
        "confidence": round(found.confidence, 3),
        "seconds": round(time.perf_counter() - began, 1),
    }


def _samples(views: Any) -> int:
    first = views if isinstance(views, np.ndarray) else next(iter(_members(views)))
    return int(first.shape[0])


def _members(views: Any) -> Any:
    return views.values() if isinstance(views, dict) else views


def tables(records: list[dict[str, Any]]) -> str:
    made = [r for r in records if r["kind"] == "artificial"]
    lines = ["### Artificial clusters that lie apart", ""] if made else []
    for name in dict.fromkeys(r["set"] for r in made):
        rows = [r for r in made if r["set"] == name]
        wrong = [f"{r['suggested']} for {r['true']}" for r in rows if r["suggested"] != r["true"]]
        sure = np.mean([r["confidence"] for r in rows])
        lines.append(
            f"- {name}: {len(rows) - len(wrong)} of {len(rows)} numbers right"
            f"{'; wrong: ' + ', '.join(wrong) if wrong else ''}; mean confidence {sure:.2f}"
        )
    real = [r for r in records if r["kind"] == "real"]
    right = sum(r["true"] == r["suggested"] for r in real)
    among = sum(r["true"] in (r["suggested"], *r["next"]) for r in real)
    lines += ["", "### Labelled sets", "", "| set | classes | suggested | next | confidence | s |"]
    lines.append("|---" * 6 + "|")
    for r in real:
        found = f"**{r['suggested']}**" if r["suggested"] == r["true"] else str(r["suggested"])
        others = ", ".join(map(str, r["next"]))
        cells = (r["set"], r["true"], found, others, f"{r['confidence']:.2f}", r["seconds"])
        lines.append(f"| {' | '.join(map(str, cells))} |")
    lines += ["", f"Right: {right} of {len(real)}; among the first three: {among}."]
    return "\n".join(lines) + "\n"


def side_by_side(options: argparse.Namespace, kind: str, work: Any, table: Any) -> None:
    """Run the problems with the first seeds, several at once, and write their table."""
    with ProcessPoolExecutor(options.jobs) as pool:
        text = table(list(pool.map(work, range(getattr(options, kind)))))
    options.out.with_name(f"{options.out.name}_{kind}.md").write_text(text)
    print(text, end="")


def main() -> None:
    """Run what is not recorded yet; save after each set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, nargs="?", help="where the data files are")
    parser.add_argument("--draws", type=int, help="so many other artificial sets instead")
    parser.add_argument("--subsets", type=int, help="so many problems of some of the classes")
    parser.add_argument("--many", type=int, help="so many problems of many small clusters")
    parser.add_argument("--jobs", type=int, default=2, help="draws or problems side by side")
    parser.add_argument("--fresh", action="store_true", help="forget the recorded runs")
    results = Path(__file__).parent / "results" / "n_clusters"
    parser.add_argument("--out", type=Path, default=results)
    options = parser.parse_args()
    if options.folder is None and not options.draws:
        parser.error("name the folder with the data files, or give --draws")
    if options.draws:
        side_by_side(options, "draws", run_draw, table_of_draws)
        return
    if options.subsets:
        side_by_side(options, "subsets", partial(run_subset, options.folder), table_of_subsets)
        return
    if options.many:
        side_by_side(options, "many", partial(run_many, options.folder), table_of_many)
        return
    path = options.out.with_suffix(".json")
    records = [] if options.fresh or not path.exists() else json.loads(path.read_text())
    warnings.simplefilter("ignore")

    def keep(record: dict[str, Any]) -> None:
        records.append(record)
        path.write_text(json.dumps(records, indent=1) + "\n")
        path.with_suffix(".md").write_text(tables(records))
        print(record, flush=True)

    known = {(r["set"], r["true"]) for r in records}
    for name in SETS:
        if not any(name == known_name for known_name, _ in known):
            views, y = load(options.folder, name)
            keep(run("real", name, len(np.unique(y)), views, None))
    for name, c, views in artificial():
        if (name, c) not in known:
            keep(run("artificial", name, c, views, None))


if __name__ == "__main__":
    main()
