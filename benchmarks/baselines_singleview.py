"""Scores and seconds of the single-view methods on TDT2, SCOTUS and Caltech101 silhouettes.

    python benchmarks/baselines_singleview.py FOLDER --datasets tdt2 --seeds 2

FOLDER holds TDT2.mat, SCOTUS_counts.npz and caltech101_silhouettes_28.mat. Every cell (data,
method, seed) runs in a process of its own. "s" are the seconds of `fit`, "cpu" those of all its
threads together, which count for the limits; the memory is the peak of the process, with Python and
the data. --jobs cells run side by side, each with one thread. Records go to baselines_DATA.json;
cells that this minor version has recorded there are not run again, unless --fresh is given.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import resource
import signal
import time
import warnings
from concurrent.futures import ThreadPoolExecutor, as_completed
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import loadmat
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from omcal import OCAL
from omcal.baselines.cgfkm import CGFKM
from omcal.baselines.coclustering import BKM, FNMTF
from omcal.baselines.ecpcs import ECPCS
from omcal.baselines.kmm import KMM
from omcal.baselines.nmf import NMFClustering
from omcal.baselines.plain import SC
from omcal.experiments.records import is_current
from omcal.experiments.runner import machine, versions
from omcal.metrics import evaluate

METHODS: dict[str, Any] = {
    "NMF": NMFClustering,
    "SC": SC,
    "FNMTF": FNMTF,
    "BKM": BKM,
    "ECPCS": ECPCS,
    "KMM": KMM,
    "KMM-published": partial(KMM, prototype_step="published_code"),
    "CGFKM": CGFKM,
    "OCAL": OCAL.paper,
    "OCAL-thorough": partial(OCAL.paper, anchors="kmeans-full"),
    "OCAL-defaults": OCAL,
}
# The paper does not name OCAL's parameters; these were not searched for either.
OCAL_PARAMETERS: dict[str, dict[str, Any]] = {
    "tdt2": {"n_anchors": 60, "gamma": 0.1},
    "scotus": {},
    "caltech101": {},
}
SCORES = {
    "accuracy": "ACC",
    "nmi": "NMI",
    "purity": "Purity",
    "ari": "ARI",
    "f_score": "F",
    "precision": "Precision",
}
# ACC, NMI and seconds of the paper's table; None where it has none.
PAPER: dict[str, dict[str, tuple[str, str, str] | None]] = {
    "tdt2": {
        "NMF": (".816(.066)", ".867(.033)", "61.0"),
        "SC": (".093(.001)", ".022(.000)", "376.1"),
        "FNMTF": (".656(.068)", ".774(.037)", "1704.6"),
        "BKM": (".328(.078)", ".383(.120)", "1057.2"),
        "ECPCS": (".942(.025)", ".942(.010)", "88.5"),
        "KMM": (".911(.038)", ".912(.025)", "153.0"),
        "CGFKM": (".880(.051)", ".915(.023)", "4018.5"),
        "OCAL": (".952(.015)", ".940(.011)", "7.8"),
    },
    "scotus": {
        "NMF": (".210(.020)", ".083(.013)", "959.4"),
        "SC": (".206(.005)", ".004(.001)", "751.6"),
        "FNMTF": (".166(.020)", ".060(.023)", "13961.9"),
        "BKM": (".219(.002)", ".007(.001)", "5719.9"),
        "ECPCS": None,
        "KMM": (".220(.001)", ".012(.002)", "1428.1"),
        "CGFKM": None,
        "OCAL": (".322(.052)", ".171(.081)", "89.4"),
    },
    "caltech101": {
        "NMF": (".165(.013)", ".362(.009)", "18.6"),
        "SC": (".225(.032)", ".260(.041)", "22.1"),
        "FNMTF": (".304(.008)", ".535(.006)", "211.6"),
        "BKM": (".190(.004)", ".164(.004)", "145.0"),
        "ECPCS": (".291(.002)", ".531(.001)", "35.8"),
        "KMM": (".243(.033)", ".251(.056)", "223.7"),
        "CGFKM": (".273(.008)", ".522(.003)", "572.6"),
        "OCAL": (".311(.013)", ".537(.007)", "12.2"),
    },
}


def load_tdt2(folder: Path, term_weights: str) -> tuple[Any, np.ndarray]:
    """The 20 classes 11 … 30: 1938 documents, 36771 terms."""
    table = sparse.csr_array(loadmat(folder / "TDT2.mat")["fea"])
    topic = table[:, [36771]].toarray().ravel().astype(int)
    chosen = topic >= 11
    return unit_rows(table[chosen][:, :36771], term_weights), topic[chosen]


def load_scotus(folder: Path, term_weights: str) -> tuple[Any, np.ndarray]:
    """The 6400 earliest opinions, the terms that occur in them, and 13 issue areas."""
    stored = np.load(folder / "SCOTUS_counts.npz")
    parts = (stored["data"].astype(np.float64), stored["indices"], stored["indptr"])
    counts = sparse.csr_array(parts, shape=tuple(stored["shape"]))
    earliest = np.argsort(stored["date"], kind="stable")[:6400]
    counts = counts[earliest]
    occurs = np.asarray(counts.sum(axis=0)).ravel() > 0
    return unit_rows(counts[:, occurs], term_weights), stored["issueArea"][earliest]


def load_caltech101(folder: Path, term_weights: str) -> tuple[Any, np.ndarray]:
    """8671 silhouettes, 28×28 reduced to 16×16 by area averages; 101 classes."""
    stored = loadmat(folder / "caltech101_silhouettes_28.mat")
    images = stored["X"].reshape(-1, 28, 28).astype(np.float64)
    edges = np.linspace(0, 28, 17)
    pixel = np.arange(28)
    overlap = np.minimum(edges[1:, None], pixel + 1) - np.maximum(edges[:-1, None], pixel)
    mean = np.maximum(overlap, 0) / (28 / 16)
    return (mean @ images @ mean.T).reshape(-1, 256), stored["Y"].ravel()


def unit_rows(counts: Any, term_weights: str) -> Any:
    """Term counts, or tf-idf, with rows of length 1."""
    counts = counts.astype(np.float64)
    if term_weights == "tfidf":
        return TfidfTransformer().fit_transform(counts)
    return normalize(counts)


LOADERS = {"tdt2": load_tdt2, "scotus": load_scotus, "caltech101": load_caltech101}


def run_cell(
    folder: Path, data: str, method: str, seed: int, term_weights: str, limit: int, pipe: Any
) -> None:
    """Fit one method once and send its scores, seconds and warnings through `pipe`."""
    X, y = LOADERS[data](folder, term_weights)
    parameters = OCAL_PARAMETERS[data] if method in ("OCAL", "OCAL-thorough") else {}
    model = METHODS[method](n_clusters=len(np.unique(y)), random_state=seed, **parameters)
    most = int(time.process_time()) + limit
    resource.setrlimit(resource.RLIMIT_CPU, (most, most + 5))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        start, cpu = time.perf_counter(), time.process_time()
        try:
            labels = model.fit(X).labels_
        except MemoryError as error:
            made = {"versions": versions(), "machine": machine()}
            pipe.send({"failed": f"out of memory: {error}", **made})
            return
        seconds = {"s": time.perf_counter() - start, "cpu": time.process_time() - cpu}
    scores = evaluate(y, labels)
    record: dict[str, Any] = {name: float(scores[name]) for name in SCORES}
    record |= seconds | {"n_clusters_found": len(np.unique(labels))}
    record["peak_gb"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    record["warnings"] = sorted({str(warning.message) for warning in caught})
    record |= {"parameters": parameters, "versions": versions(), "machine": machine()}
    pipe.send(record)


def timed_cell(limit: int, *cell: Any) -> dict[str, Any]:
    """`run_cell` in a process of its own, ended at the limit."""
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=run_cell, args=(*cell, limit, sender))
    process.start()
    sender.close()
    try:
        return receiver.recv()
    except EOFError:
        process.join()
        late = process.exitcode in (-signal.SIGXCPU, -signal.SIGKILL)
        failed = f"more than {limit} s" if late else "crashed"
        return {"failed": failed, "versions": versions(), "machine": machine()}
    finally:
        process.kill()
        process.join()


def summary(values: list[float], digits: int = 3) -> str:
    """mean(sd), as in the paper; the mean alone of one value."""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean}({np.std(values, ddof=1):.{digits}f})" if len(values) > 1 else mean


def table(data: str, records: list[dict[str, Any]]) -> str:
    """Markdown: one row a method, ours and then the paper's; NMI is by the larger entropy."""
    ours = [*SCORES.values(), "s", "cpu", "GB", "clusters", "seeds"]
    header = ["method", *ours, "paper ACC", "paper NMI", "paper s"]
    lines = [f"### {data}", "", f"| {' | '.join(header)} |", "|---" * len(header) + "|"]
    for method in dict.fromkeys(record["method"] for record in records):
        cells = [record for record in records if record["method"] == method]
        done = [cell for cell in cells if "failed" not in cell]
        if done:
            row = [summary([cell[name] for cell in done]) for name in SCORES]
            row += [f"{np.mean([cell[kind] for cell in done]):.1f}" for kind in ("s", "cpu")]
            row.append(f"{max(cell['peak_gb'] for cell in done):.2f}")
            row.append("/".join(sorted({str(cell["n_clusters_found"]) for cell in done})))
            row.append(str(len(done)))
        else:
            row = ["---", *[""] * 5, cells[0]["failed"], *[""] * 4]
        paper = PAPER[data][method.split("-")[0]] or ("---", "---", "---")
        lines.append(f"| {' | '.join([method, *row, *paper])} |")
    return "\n".join(lines)


def run_cells(options: argparse.Namespace, data: str) -> list[dict[str, Any]]:
    """All records of a data set: those that are stored, and those of the cells still to run."""
    path = options.out / f"baselines_{data}.json"
    records = [] if options.fresh or not path.exists() else json.loads(path.read_text())
    records = [r for r in records if is_current(r) or r["method"] not in options.methods]
    known = {(record["method"], record["seed"]) for record in records}
    cells = [cell for cell in product(options.methods, range(options.seeds)) if cell not in known]

    def run(cell: tuple[str, int]) -> dict[str, Any]:
        where = (options.folder, data, *cell, options.term_weights)
        return dict(zip(("data", "method", "seed"), (data, *cell), strict=True)) | timed_cell(
            options.time_limit, *where
        )

    with ThreadPoolExecutor(options.jobs) as pool:
        for done in as_completed([pool.submit(run, cell) for cell in cells]):
            records.append(done.result())
            records.sort(key=lambda r: (list(METHODS).index(r["method"]), r["seed"]))
            path.write_text(json.dumps(records, indent=1) + "\n")
    return records


def main() -> None:
    """Run the cells asked for; print and save tables and records."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data files are")
    parser.add_argument("--datasets", nargs="+", choices=LOADERS, default=list(LOADERS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5, help="most runs of each method")
    parser.add_argument("--term-weights", choices=["tf", "tfidf"], default="tf")
    parser.add_argument("--time-limit", type=int, default=1500, help="CPU seconds for each cell")
    parser.add_argument("--jobs", type=int, default=1, help="cells side by side")
    parser.add_argument("--out", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--fresh", action="store_true", help="forget the recorded cells")
    options = parser.parse_args()
    options.out.mkdir(exist_ok=True)
    # Read by the libraries of the cells, which start as processes of their own.
    os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    for data in options.datasets:
        print(table(data, run_cells(options, data)), flush=True)


if __name__ == "__main__":
    main()
