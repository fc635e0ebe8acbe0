"""Other packages for data of several views, beside OMCAL, with their defaults.

    pip install mvlearn imml control cvxpy mofapy2 muon scanpy igraph leidenalg
    python benchmarks/other_packages.py FOLDER --seeds 3 --budget 300

FOLDER holds the files of the sets; of the yardstick five are taken, with at most 1000 samples, and
made cells with RNA and protein counts. All but OMCAL and Consensus get the views as OMCAL scales
them by itself, dense, so that the methods are compared and not their preprocessing. Leiden and
HDBSCAN choose the number of clusters themselves; all others are given it. Packages that are not
installed are left out and named. A method whose first seed takes more than --slow CPU seconds gets
no further seed on that set.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.metadata
import importlib.util
import io
import json
import warnings
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import labelled_sets as sets
import numpy as np
from scipy import sparse
from sklearn.cluster import HDBSCAN, KMeans

import omcal
from omcal import OMCAL, Consensus
from omcal.baselines import NEMO, SNF
from omcal.machine.memory import memory_line
from omcal.method.scaling import Scaling
from omcal.views.reading import read_views

NAMES = ("CESC", "MSRCv1", "Dermatology", "Prokaryotic", "Movies", "cells")
Views = list[np.ndarray]


def made_cells(n: int = 1000) -> tuple[list[np.ndarray], np.ndarray]:
    """Return counts of 400 genes and 20 proteins in cells of eight types, and the types.

    Two types share their proteins. Means of types differ by a factor of about 1.6 (e^0.5), so that
    k-means of all features finds most of them, but not all.
    """
    rng = np.random.default_rng(0)
    y = rng.choice(8, n, p=np.array([30, 20, 15, 10, 10, 6, 5, 4]) / 100)
    genes = rng.lognormal(-1, 1, 400) * np.exp(rng.normal(0, 0.5, (8, 400)))
    proteins = rng.lognormal(2, 0.5, 20) * np.exp(rng.normal(0, 0.5, (8, 20)))
    proteins[7] = proteins[0]
    depth = rng.lognormal(0, 0.3, (2, n, 1))
    rna, protein = (
        rng.poisson(rng.gamma(2, d * means[y] / 2))
        for d, means in zip(depth, (genes, proteins), strict=True)
    )
    return [rna.astype(np.float64), protein.astype(np.float64)], y


def mofa(views: Views, c: int, seed: int) -> Any:
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


def co_regularised(views: Views, c: int, seed: int) -> Any:
    """Co-regularised multi-view spectral clustering."""
    from mvlearn.cluster import MultiviewCoRegSpectralClustering

    return MultiviewCoRegSpectralClustering(c, random_state=seed).fit_predict(views)


def co_trained(views: Views, c: int, seed: int) -> Any:
    """Multi-view spectral clustering by co-training."""
    from mvlearn.cluster import MultiviewSpectralClustering

    return MultiviewSpectralClustering(c, random_state=seed).fit_predict(views)


def imml_nemo(views: Views, c: int, seed: int) -> Any:
    """NEMO in imml."""
    import imml.cluster

    return imml.cluster.NEMO(n_clusters=c, random_state=seed).fit_predict(views)


def simc_adc(views: Views, c: int, seed: int) -> Any:
    """SIMC-ADC: anchor graphs of incomplete views."""
    from imml.cluster import SIMCADC

    return SIMCADC(n_clusters=c, random_state=seed).fit_predict(views)


def concat_leiden(views: Views, c: int, seed: int) -> Any:
    """Principal components of all features, a neighbour graph, Leiden at resolution 1."""
    import anndata
    import scanpy

    cells = anndata.AnnData(np.hstack(views))
    if cells.n_vars > 50:
        scanpy.pp.pca(cells, random_state=seed)
    scanpy.pp.neighbors(cells, random_state=seed)
    return _leiden(cells, seed)


def wnn_leiden(views: Views, c: int, seed: int) -> Any:
    """Weighted nearest neighbours of muon, then Leiden at resolution 1.

    The default of 200 neighbours per modality ends the process where there are fewer samples.
    """
    import anndata
    import mudata
    import muon
    import scanpy

    modalities = {f"m{v}": anndata.AnnData(view) for v, view in enumerate(views)}
    for cells in modalities.values():
        if cells.n_vars > 50:
            scanpy.pp.pca(cells, random_state=seed)
        scanpy.pp.neighbors(cells, random_state=seed)
    joined = mudata.MuData(modalities)
    most = min(200, len(views[0]) - 1)
    muon.pp.neighbors(joined, n_multineighbors=most, random_state=seed)
    return _leiden(joined, seed)


def _leiden(data: Any, seed: int) -> Any:
    """Return the clusters of the neighbour graph of AnnData or MuData."""
    import scanpy

    graph = data.obsp["connectivities"]
    cells = data
    if not hasattr(data, "X"):
        import anndata

        cells = anndata.AnnData(obs=data.obs[[]].copy())
    scanpy.tl.leiden(
        cells, adjacency=graph, random_state=seed, flavor="igraph", n_iterations=2, directed=False
    )
    return cells.obs["leiden"].astype(int)


def hdbscan(views: Views, c: int, seed: int) -> Any:
    """HDBSCAN of all features; noise is a cluster of its own."""
    return HDBSCAN(copy=True).fit_predict(np.hstack(views))


ABSENT, NEW = "samples absent from views", "new samples"
# Title -> package, function, and the abilities it lacks.
OTHERS: dict[str, tuple[str, Any, str]] = {
    "SNF (omcal)": (
        "omcal",
        lambda views, c, seed: SNF(c, scale=None, random_state=seed).fit_predict(views),
        f"{ABSENT}; {NEW}; memory n²",
    ),
    "NEMO (omcal)": (
        "omcal",
        lambda views, c, seed: NEMO(c, scale=None, random_state=seed).fit_predict(views),
        f"{NEW}; memory n²",
    ),
    "NEMO (imml)": ("imml", imml_nemo, f"{NEW}; sparse views; memory n²"),
    "SIMC-ADC (imml)": ("imml", simc_adc, f"{NEW}; sparse views"),
    "MOFA+ + k-means (mofapy2)": ("mofapy2", mofa, f"{NEW}; clusters without a second method"),
    "co-regularised spectral (mvlearn)": (
        "mvlearn",
        co_regularised,
        f"{ABSENT}; {NEW}; memory n²",
    ),
    "co-trained spectral (mvlearn)": ("mvlearn", co_trained, f"{ABSENT}; {NEW}; memory n²"),
    "WNN + Leiden (muon)": ("muon", wnn_leiden, f"{NEW}; a given number of clusters"),
    "concatenation + Leiden (scanpy)": (
        "scanpy",
        concat_leiden,
        f"{ABSENT}; {NEW}; a given number of clusters",
    ),
    "concatenation + HDBSCAN": (
        "sklearn",
        hdbscan,
        f"{ABSENT}; {NEW}; a given number of clusters",
    ),
}
# In the order in which they run.
OWN = {"Consensus": "", "OMCAL": ""}
TITLES = [*OWN, *OTHERS]


@dataclass
class Other:
    """A function of scaled views as an estimator."""

    title: str
    n_clusters: int
    seed: int

    def fit(self, views: list[Any]) -> Other:
        """Scale and cluster; output of the packages is hidden."""
        checked = read_views(OMCAL(), views, min_samples=2, home="memory")
        scaled = [Scaling.fit(view, "auto").apply(view.rows(slice(None))) for view in checked]
        dense = [view.toarray() if sparse.issparse(view) else np.asarray(view) for view in scaled]
        with contextlib.redirect_stdout(io.StringIO()):
            _, cluster, _ = OTHERS[self.title]
            try:
                self.labels_ = np.asarray(cluster(dense, self.n_clusters, self.seed))
            except Exception as error:  # any failure of a package is a result of this table
                raise ValueError(f"{type(error).__name__}: {error}") from error
        return self


def make(title: str, n_clusters: int, seed: int) -> Any:
    """Return the method with its defaults."""
    if title == "Consensus":
        return Consensus(OMCAL(n_clusters), random_state=seed)
    if title == "OMCAL":
        return OMCAL(n_clusters, random_state=seed)
    return Other(title, n_clusters, seed)


@cache
def load(folder: str, name: str) -> tuple[list[Any], np.ndarray]:
    """Return views and classes of a set."""
    return made_cells() if name == "cells" else sets.load(folder, name)


@cache
def warm_up(title: str) -> None:
    """Fit 60 samples once per process, which imports and compiles."""
    y = np.arange(60) % 2
    rng = np.random.default_rng(0)
    noise = [rng.normal(size=(60, width)) for width in (4, 55)]  # above 50 some take components
    with contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        make(title, 2, 0).fit([view + 4 * y[:, None] for view in noise])


def work(name: str, title: str, seed: int, folder: str) -> sets.Record:
    """Fit once and score."""
    views, y = load(folder, name)
    warm_up(title)
    before = _memory("VmRSS")
    with contextlib.suppress(OSError):  # Linux alone: 5 resets the peak of this process
        Path("/proc/self/clear_refs").write_text("5")
    found = sets.score(views, y, lambda c, s: make(title, c, s), seed)
    found["megabytes"] = (_memory("VmHWM") - before) / 1e6
    run = {"set": name, "method": title, "seed": seed, "package": _package(title)}
    return {**run, "samples": len(y), **found}


def _package(title: str) -> str:
    """Return the package of a method and its version."""
    name = "omcal" if title in OWN else OTHERS[title][0]
    distribution = "scikit-learn" if name == "sklearn" else name
    version = omcal.__version__ if name == "omcal" else importlib.metadata.version(distribution)
    return f"{distribution} {version}"


def _memory(line: str) -> float:
    """Return the bytes that Linux reports for this process, NaN elsewhere."""
    found = memory_line(line)
    return float("nan") if found is None else float(found)


def cell(values: list[float]) -> str:
    """Return mean and standard error over the seeds."""
    if not values:
        return "-"
    error = np.std(values, ddof=1) / np.sqrt(len(values)) if len(values) > 1 else None
    return f"{np.mean(values):.3f}" + ("" if error is None else f" ± {error:.3f}")


def table(records: list[sets.Record], missing: list[str]) -> str:
    """Return the page: scores by set, then means, times and limits by method, the best first."""
    columns = [t for t in TITLES if any(r["method"] == t and r["set"] != "all" for r in records)]
    names = [n for n in NAMES if any(r["set"] == n for r in records)]

    def values(name: str, title: str, key: str) -> list[float]:
        found = [r.get(key) for r in records if (r["set"], r["method"]) == (name, title)]
        return [value for value in found if value is not None]

    def mean(title: str, key: str) -> str:
        by_set = [values(name, title, key) for name in names]
        return f"{np.mean([np.mean(v) for v in by_set]):.3f}" if all(by_set) else "-"

    def behind(title: str) -> str:
        """Return the ARI less that of Consensus, with its standard error over the sets."""
        both = [[values(name, one, "ari") for one in (title, "Consensus")] for name in names]
        return cell([np.mean(a) - np.mean(b) for a, b in both]) if all(map(all, both)) else "-"

    lines = ["# Other packages beside OMCAL", "", *_introduction(records, missing)]
    for key, heading in (("accuracy", "Accuracy"), ("ari", "Adjusted Rand index")):
        lines += ["", f"## {heading}", "", f"| {heading.lower()} | {' | '.join(names)} | mean |"]
        lines.append("|---" * (len(names) + 2) + "|")
        for title in columns:
            entries = [cell(values(name, title, key)) for name in names]
            lines.append(f"| {title} | {' | '.join(entries)} | {mean(title, key)} |")
    failed = sorted({(r["method"], r["set"], r["error"]) for r in records if r["accuracy"] is None})
    lines += ["", *(f"- {method} on {name}: {error}" for method, name, error in failed)]
    lines += ["", "## In short", ""]
    lines += [
        "| method | accuracy | ARI | less Consensus's | CPU seconds, median set | slowest "
        "| most memory, MB | lacks |",
        "|---" * 8 + "|",
    ]
    for title in sorted(columns, key=lambda title: mean(title, "ari"), reverse=True):
        cpu = [np.mean(v) for name in names if (v := values(name, title, "cpu"))]
        peak = max((max(v) for name in names if (v := values(name, title, "megabytes"))), default=0)
        lacks = OWN.get(title, OTHERS.get(title, ("", None, ""))[2]) or "-"
        difference = "-" if title == "Consensus" else behind(title)
        scores = f"{mean(title, 'accuracy')} | {mean(title, 'ari')} | {difference}"
        times = f"{np.median(cpu):.1f} | {max(cpu):.1f} | {peak:.0f}"
        lines.append(f"| {title} | {scores} | {times} | {lacks} |")
    return "\n".join(lines).rstrip() + "\n"


def _introduction(records: list[sets.Record], missing: list[str]) -> list[str]:
    sizes = {r["set"]: r["samples"] for r in records}
    packages = sorted({r["package"] for r in records})
    return [
        f"Made by `benchmarks/other_packages.py` with {', '.join(packages)}, on one core. Samples: "
        + ", ".join(f"{name} {sizes[name]}" for name in NAMES if name in sizes)
        + ".",
        "",
        "Each method has its defaults and gets the views as OMCAL scales them. Entries are the "
        "mean over the seeds ± its standard error. Leiden and HDBSCAN choose the number of "
        "clusters: compare them by the adjusted Rand index. `cells` are made counts of 400 genes "
        "and 20 proteins in eight cell types. CPU seconds and memory, which is counted beyond the "
        "loaded libraries and the data, include the scaling.",
        *(["", f"Not installed, hence not run: {', '.join(missing)}."] if missing else []),
    ]


def _without_records(records: list[sets.Record]) -> list[str]:
    """Return the methods that have no record: their packages were never installed."""
    return [title for title in TITLES if all(r["method"] != title for r in records)]


def main() -> None:
    """Run the cells that are not recorded yet, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", help="where the data files are")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--slow", type=float, default=20)
    parser.add_argument("--budget", type=float, default=300, help="seconds per method")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "other_packages"
    )
    options = parser.parse_args()
    there = [t for t in TITLES if t in OWN or importlib.util.find_spec(OTHERS[t][0])]
    path = options.out.with_suffix(".json")
    records: list[sets.Record] = json.loads(path.read_text()) if path.exists() else []
    for title in there:
        for seeds in ([0], list(range(1, options.seeds))):
            chosen = {"names": NAMES, "titles": [title], "seeds": seeds}
            cells = sets.quick_cells(records, options.slow, **chosen, folder=options.folder)
            try:  # a process per method: one that crashes ends only itself
                records = sets.run(work, cells, path, jobs=1, budget=options.budget)
            except BrokenProcessPool:
                failed = {"accuracy": None, "error": "its process crashed", "cpu": 0.0}
                run = {"set": "all", "method": title, "seed": 0, "package": _package(title)}
                records.append({**run, "samples": 0, **failed})
                path.write_text(json.dumps(records) + "\n")
                break
        options.out.with_suffix(".md").write_text(table(records, _without_records(records)))


if __name__ == "__main__":
    main()
