"""Scores and seconds of the multi-view methods on Coil and Wiki.

    python benchmarks/baselines_multiview.py FOLDER --datasets coil --methods AMGL MLAN --seeds 5

FOLDER holds Coil.mat and Wiki.mat. The tables have mean(sd) over the seeds, and beside ours the
values of the OMCAL paper; NMI is normalised by the larger entropy. "s" are the seconds of `fit`,
"cpu" those of all its threads together. A method gets no further seed once its runs on a data set
have taken --budget cpu seconds. Records go to NAME.json, NAME given by --out.
Runs that this minor version has recorded there are not repeated, unless --fresh is given.
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.io import loadmat

from omcal import OMCAL
from omcal.baselines.amgl import AMGL
from omcal.baselines.components import MCGC, MLAN
from omcal.baselines.plain import BestSingleView, ConcatKMeans, ConcatSpectral
from omcal.baselines.slmvgc import SLMVGC
from omcal.baselines.smc import SMC
from omcal.baselines.subspaces import FSMSC, MVSCHFD
from omcal.baselines.uomvsc import UOMvSC
from omcal.experiments.records import is_current
from omcal.experiments.runner import machine, versions
from omcal.metrics import evaluate

# A name may stand for a class with parameters other than its defaults.
METHODS: dict[str, tuple[Any, dict[str, Any]]] = {
    "ConcatKMeans": (ConcatKMeans, {}),
    "BestSingleView": (BestSingleView, {}),
    "ConcatSpectral": (ConcatSpectral, {}),
    "AMGL": (AMGL, {}),
    "AMGL n_init=10": (AMGL, {"n_init": 10}),
    "MLAN": (MLAN, {}),
    "MLAN compound": (MLAN, {"weights": "compound"}),
    "MLAN z-score": (MLAN, {"normalize": "sample"}),
    "MCGC": (MCGC, {}),
    "MCGC beta=5.6": (MCGC, {"beta": 5.6}),
    "MCGC mean": (MCGC, {"consensus": "mean"}),
    "SMC": (SMC, {}),
    "SMC m=40": (SMC, {"n_anchors": 40}),
    "FSMSC": (FSMSC, {}),
    "FSMSC n_init=1": (FSMSC, {"n_init": 1}),
    "SLMVGC": (SLMVGC, {}),
    "SLMVGC alm10": (SLMVGC, {"z_solver": "alm10"}),
    "UOMvSC": (UOMvSC, {}),
    "UOMvSC lam=0": (UOMvSC, {"lam": 0.0}),
    "UOMvSC lam=1": (UOMvSC, {"lam": 1.0}),
    "UOMvSC unaligned": (UOMvSC, {"align": False}),
    "MVSC-HFD": (MVSCHFD, {}),
    "MVSC-HFD unsquared": (MVSCHFD, {"weights": "unsquared"}),
    "OMCAL": (OMCAL.paper, {"scale": "sample"}),
    "OMCAL, defaults": (OMCAL, {}),
}
# What the paper says about its own method.
OMCAL_SETTINGS: dict[str, dict[str, Any]] = {
    "coil": {"n_anchors": 35, "beta": 0.3, "gamma": 0.01},
    "wiki": {"n_anchors": 30, "beta": 0.1, "gamma": 0.1},
}
DETERMINISTIC = (MLAN, MCGC)  # one seed tells all
SCORES = {"accuracy": "ACC", "nmi": "NMI", "purity": "Purity", "ari": "ARI"}
# ACC and NMI of the paper's table.
PAPER: dict[str, dict[str, tuple[str, str]]] = {
    "coil": {
        "AMGL": (".625(.000)", ".674(.000)"),
        "MLAN": ("1.000(.000)", "1.000(.000)"),
        "MCGC": ("1.000(.000)", "1.000(.000)"),
        "SMC": (".738(.069)", ".882(.035)"),
        "FSMSC": (".863(.000)", ".954(.000)"),
        "SLMVGC": (".338(.021)", ".534(.018)"),
        "UOMvSC": ("1.000(.000)", "1.000(.000)"),
        "MVSC-HFD": (".813(.000)", ".931(.000)"),
        "OMCAL": ("1.000(.000)", "1.000(.000)"),
    },
    "wiki": {
        "AMGL": (".159(.000)", ".022(.000)"),
        "MLAN": (".158(.010)", ".015(.003)"),
        "MCGC": (".366(.000)", ".344(.000)"),
        "SMC": (".171(.000)", ".040(.000)"),
        "FSMSC": (".209(.000)", ".069(.000)"),
        "SLMVGC": (".552(.000)", ".485(.000)"),
        "UOMvSC": (".581(.000)", ".548(.000)"),
        "MVSC-HFD": (".564(.000)", ".535(.000)"),
        "OMCAL": (".594(.015)", ".562(.004)"),
    },
}


def load_coil(folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """1440 samples, 20 classes, 30 + 19 + 30 features; samples are columns in the file."""
    stored = loadmat(folder / "Coil.mat")
    return [view.T.astype(np.float64) for view in stored["X"].ravel()], stored["Y"].ravel()


def load_wiki(folder: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """2866 samples, 10 classes, 128 + 10 features."""
    stored = loadmat(folder / "Wiki.mat")
    return [view.astype(np.float64) for view in stored["X"].ravel()], stored["Y"].ravel()


LOADERS = {"coil": load_coil, "wiki": load_wiki}


def run(data: str, method: str, X: list[np.ndarray], y: np.ndarray, seed: int) -> dict[str, float]:
    """Scores, seconds and the number of clusters of one fit."""
    cls, parameters = METHODS[method]
    if cls == OMCAL.paper:
        parameters = OMCAL_SETTINGS[data] | parameters
    model = cls(n_clusters=len(np.unique(y)), random_state=seed, **parameters)
    wall, cpu = time.perf_counter(), time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = model.fit(X).labels_
    seconds = {"s": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
    found = {"clusters": len(np.unique(labels)), "parameters": parameters}
    return evaluate(y, labels) | seconds | found | {"versions": versions(), "machine": machine()}


def summary(values: list[float], digits: int) -> str:
    """mean(sd), as in the paper; the mean alone of one value."""
    mean = f"{np.mean(values):.{digits}f}"
    return f"{mean}({np.std(values, ddof=1):.{digits}f})" if len(values) > 1 else mean


def table_row(data: str, method: str, records: list[dict[str, float]]) -> str:
    """One row of the Markdown table."""
    cells = [summary([record[score] for record in records], 3) for score in SCORES]
    cells += [f"{np.mean([record[kind] for record in records]):.1f}" for kind in ("s", "cpu")]
    cells.append("/".join(sorted({str(record["clusters"]) for record in records})))
    cells.append(str(len(records)))
    return f"| {' | '.join([method, *cells, *PAPER[data].get(method, ('', ''))])} |"


def run_method(
    options: argparse.Namespace, data: str, method: str, known: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """Records of one method, seed after seed, as long as the budget lasts."""
    same = [r for r in known if (r["data"], r["method"]) == (data, method)]
    records = [r for r in same if is_current(r)]
    X, y = LOADERS[data](options.folder)
    seeds = 1 if METHODS[method][0] in DETERMINISTIC else options.seeds
    for seed in range(len(records), seeds):
        if sum(record["cpu"] for record in records) > options.budget:
            break
        keys = {"data": data, "method": method, "seed": seed}
        records.append(keys | run(data, method, X, y, seed))
    return records


def main() -> None:
    """Run what is asked for and is not recorded; save records after each method."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the data files are")
    parser.add_argument("--datasets", nargs="+", choices=LOADERS, default=list(LOADERS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", type=int, default=5, help="runs of each random method")
    parser.add_argument(
        "--budget", type=float, default=600, help="cpu seconds before the last seed"
    )
    parser.add_argument("--fresh", action="store_true", help="forget the recorded runs")
    parser.add_argument(
        "--out", type=Path, default=Path(__file__).parent / "results" / "baselines_multiview"
    )
    options = parser.parse_args()
    options.out.parent.mkdir(exist_ok=True)
    path = options.out.with_suffix(".json")
    known = [] if options.fresh or not path.exists() else json.loads(path.read_text())
    for data in options.datasets:
        for method in options.methods:
            rows = run_method(options, data, method, known)
            known = [r for r in known if (r["data"], r["method"]) != (data, method)] + rows
            path.write_text(json.dumps(known, indent=1) + "\n")
            print(data, table_row(data, method, rows), flush=True)


if __name__ == "__main__":
    main()
