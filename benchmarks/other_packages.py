"""Other packages for data of several views, beside OMCAL, with their defaults.

    pip install snfpy mofapy2 mvlearn imml
    python benchmarks/other_packages.py FOLDER --seeds 3 --budget 3000

FOLDER holds the files of the sets; of the yardstick those with at most 700 samples and 5000
features are taken, as several of these methods are slow. All but OMCAL and Consensus get the views
as OMCAL scales them by itself, dense, so that the methods are compared and not what is done to the
data before. Packages that are not installed are left out. A method whose first seed takes more than
--slow CPU seconds gets no further one on that set. snfpy 0.2.2 needs scikit-learn before 1.8.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import labelled_sets as sets
import numpy as np
from scipy import sparse
from sklearn.cluster import KMeans, SpectralClustering

from omcal import OMCAL, Consensus
from omcal.method.scaling import Scaling
from omcal.views.reading import read_views

MOST_SAMPLES, MOST_FEATURES = 700, 5000


def snf(views: list[np.ndarray], c: int, seed: int) -> Any:
    """Similarity network fusion, then spectral clustering of the fused network."""
    import snf

    fused = snf.snf(snf.make_affinity(*views))
    return SpectralClustering(c, affinity="precomputed", random_state=seed).fit_predict(fused)


def mofa(views: list[np.ndarray], c: int, seed: int) -> Any:
    """Ten factors of MOFA+, then k-means."""
    from mofapy2.run.entry_point import entry_point

    model = entry_point()
    model.set_data_options(scale_views=True)
    model.set_data_matrix([[view] for view in views])
    model.set_model_options(factors=10)
    model.set_train_options(seed=seed, quiet=True)
    model.build()
    model.run()
    factors = model.model.nodes["Z"].getExpectation()
    return KMeans(c, n_init=10, random_state=seed).fit_predict(factors)


def co_regularised(views: list[np.ndarray], c: int, seed: int) -> Any:
    """Co-regularised multi-view spectral clustering."""
    from mvlearn.cluster import MultiviewCoRegSpectralClustering

    return MultiviewCoRegSpectralClustering(c, random_state=seed).fit_predict(views)


def co_trained(views: list[np.ndarray], c: int, seed: int) -> Any:
    """Multi-view spectral clustering by co-training."""
    from mvlearn.cluster import MultiviewSpectralClustering

    return MultiviewSpectralClustering(c, random_state=seed).fit_predict(views)


def nemo(views: list[np.ndarray], c: int, seed: int) -> Any:
    """NEMO: neighbourhoods of several omics."""
    from imml.cluster import NEMO

    return NEMO(n_clusters=c, random_state=seed).fit_predict(views)


def simc_adc(views: list[np.ndarray], c: int, seed: int) -> Any:
    """SIMC-ADC: anchor graphs of incomplete views."""
    from imml.cluster import SIMCADC

    return SIMCADC(n_clusters=c, random_state=seed).fit_predict(views)


OTHERS = {
    "SNF + spectral (snfpy)": ("snf", snf),
    "MOFA+ + k-means (mofapy2)": ("mofapy2", mofa),
    "co-regularised spectral (mvlearn)": ("mvlearn", co_regularised),
    "co-trained spectral (mvlearn)": ("mvlearn", co_trained),
    "NEMO (imml)": ("imml", nemo),
    "SIMC-ADC (imml)": ("imml", simc_adc),
}
TITLES = ["Consensus", "OMCAL", *OTHERS]


@dataclass
class Other:
    """A function of scaled views as an estimator."""

    title: str
    n_clusters: int
    seed: int

    def fit(self, views: list[Any]) -> Other:
        """Scale, cluster; what the packages print is not shown."""
        checked = read_views(OMCAL(), views, min_samples=2)
        scaled = [Scaling.fit(view, "auto").apply(view.rows(slice(None))) for view in checked]
        dense = [view.toarray() if sparse.issparse(view) else np.asarray(view) for view in scaled]
        with contextlib.redirect_stdout(io.StringIO()):
            _, cluster = OTHERS[self.title]
            try:
                self.labels_ = np.asarray(cluster(dense, self.n_clusters, self.seed))
            except Exception as error:  # whatever a package ends with is a result of this table
                raise ValueError(f"{type(error).__name__}: {error}") from error
        return self


def make(title: str, n_clusters: int, seed: int) -> Any:
    """The method with its defaults."""
    if title == "Consensus":
        return Consensus(OMCAL(n_clusters), random_state=seed)
    if title == "OMCAL":
        return OMCAL(n_clusters, random_state=seed)
    return Other(title, n_clusters, seed)


def work(name: str, title: str, seed: int, folder: str) -> sets.Record:
    """One fit."""
    found = sets.accuracy(folder, name, lambda c, s: make(title, c, s), seed)
    return {"set": name, "method": title, "seed": seed, **found}


def table(records: list[sets.Record], names: list[str]) -> str:
    """Sets by methods, the means over the sets that all have, and CPU seconds."""
    columns = [t for t in TITLES if any(r["method"] == t for r in records)]

    def values(name: str, title: str, key: str) -> list[float]:
        found = [r[key] for r in records if (r["set"], r["method"]) == (name, title)]
        return [value for value in found if value is not None]

    mean = np.array(
        [[np.mean(values(n, t, "accuracy") or [np.nan]) for t in columns] for n in names]
    )
    cpu = np.array([[np.mean(values(n, t, "cpu") or [np.nan]) for t in columns] for n in names])
    lines = [f"| set | samples | {' | '.join(columns)} |", "|---" * (len(columns) + 2) + "|"]
    sizes = {r["set"]: r["samples"] for r in records}
    for name, row in zip(names, mean, strict=True):
        shown = [
            "-" if np.isnan(v) else f"**{v:.3f}**" if v == np.nanmax(row) else f"{v:.3f}"
            for v in row
        ]
        lines.append(f"| {name} | {sizes.get(name, '')} | {' | '.join(shown)} |")
    common = ~np.isnan(mean).any(axis=1)
    lines += [
        "",
        f"| method | mean of {common.sum()} sets | best on | CPU seconds: median set | slowest |",
        "|---" * 5 + "|",
    ]
    best = np.nanmax(mean, axis=1)
    for j in np.argsort(-mean[common].mean(axis=0)):
        lines.append(
            f"| {columns[j]} | {mean[common, j].mean():.3f} | {(mean[:, j] == best).sum()} | "
            f"{np.nanmedian(cpu[:, j]):.1f} | {np.nanmax(cpu[:, j]):.1f} |"
        )
    failed = sorted({(r["method"], r["set"], r["error"]) for r in records if r["accuracy"] is None})
    lines += ["", *(f"- {method} on {name}: {error}" for method, name, error in failed)]
    return "\n".join(lines).rstrip() + "\n"


def main() -> None:
    """Run what is not recorded yet, and write the tables."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the data files are")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--slow", type=float, default=60)
    parser.add_argument("--budget", type=float, default=3000, help="seconds")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "other_packages"
    )
    options = parser.parse_args()
    shapes = {
        name: [view.shape for view in sets.load(options.folder, name)[0]] for name in sets.YARDSTICK
    }
    sizes = {
        name: shape[0][0]
        for name, shape in shapes.items()
        if shape[0][0] <= MOST_SAMPLES and sum(width for _, width in shape) <= MOST_FEATURES
    }
    names = sorted(sizes, key=sizes.__getitem__)
    there = [t for t in TITLES if t not in OTHERS or importlib.util.find_spec(OTHERS[t][0])]
    path = options.out.with_suffix(".json")
    records: list[sets.Record] = []
    for seeds in ([0], list(range(1, options.seeds))):
        slow = {
            (r["set"], r["method"])
            for r in records
            if r["cpu"] > options.slow or r["accuracy"] is None
        }
        cells = [
            (name, title, seed, options.folder)
            for seed in seeds
            for name in names
            for title in there
            if (name, title) not in slow
        ]
        records = sets.run(work, cells, path, jobs=options.jobs, budget=options.budget / 2)
    for record in records:
        record["samples"] = sizes[record["set"]]
    options.out.with_suffix(".md").write_text(table(records, names))


if __name__ == "__main__":
    main()
