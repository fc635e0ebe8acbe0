"""The main costs beside a yardstick of NumPy's, compared with ratios that were stored before.

    make watch            # fails where a cost has grown by more than a fifth, or is beside k-means
                          # more than it was by a third
    make watch KEEP=1     # stores the ratios of this machine, to be compared with later

Cost and yardstick take turns, so that a busy machine slows both, and the smaller half of their
ratios is what counts: noise only ever adds. Ratios belong to a kind of machine; on one without
stored ratios there is nothing to compare with, and the tests skip.
"""

import json
import os
import platform
import time
from pathlib import Path

import numpy as np
import pytest
from speed import DIGITS, LEAVES, MNIST_WIDTHS, beside_kmeans

from omcal import OMCAL, Consensus
from omcal.machine.compiled import compiled_pays
from omcal.machine.threads import thread_count
from omcal.method.anchors import choose_for_runs
from omcal.method.graph import anchor_graphs
from omcal.method.scaling import Scaling
from omcal.places.memory import MemoryRows
from omcal.views.view import View, Views

STORED = Path(__file__).parent / "results" / "costs.json"
ROUNDS = 15
ALLOWED = 1.2
MACHINE = f"{platform.machine()}, {thread_count()} cores"
N, WIDTHS, CLUSTERS, ANCHORS, NEIGHBOURS = 20_000, (60, 200), 10, 60, 5

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def made(n):
    rng = np.random.default_rng(0)
    cluster = rng.integers(CLUSTERS, size=n)
    return [
        (3 * rng.normal(size=(CLUSTERS, d))[cluster] + rng.normal(size=(n, d))).astype(np.float32)
        for d in WIDTHS
    ]


SOME = np.random.default_rng(1).normal(size=(4000, 300))


def yardstick():
    """Products, sorting and gathering, as the fits have them."""
    D = SOME @ SOME[:200].T
    order = np.argpartition(D, NEIGHBOURS, axis=1)[:, :NEIGHBOURS]
    return np.take_along_axis(D, order, axis=1).sum() + np.sort(SOME, axis=0)[0, 0]


class Costs:
    """The parts of a fit on data that stay the same."""

    def __init__(self):
        self.X = made(N)
        self.few = [view[:500] for view in self.X]
        self.views = Views(tuple(View(f"v{v}", view) for v, view in enumerate(self.X)))
        self.scalings = self.scale()
        rng = np.random.RandomState(0)
        self.anchors = choose_for_runs(self.views, self.scalings, ANCHORS, "kmeans", [rng])[0]
        self.rows = MemoryRows(self.graph(), CLUSTERS, compiled=compiled_pays(N))
        self.P = np.linalg.qr(rng.normal(size=(ANCHORS, CLUSTERS)))[0]
        self.R = 0.1 * np.eye(CLUSTERS)
        self.model = OMCAL(CLUSTERS, random_state=0).fit(self.X)

    def scale(self):
        return [Scaling.fit(view, "feature") for view in self.views]

    def choose(self):
        rng = np.random.RandomState(0)
        return choose_for_runs(self.views, self.scalings, ANCHORS, "kmeans", [rng])[0]

    def graph(self):
        compiled = compiled_pays(N)
        return anchor_graphs(self.views, self.scalings, self.anchors, NEIGHBOURS, compiled=compiled)

    def gram(self):
        return self.rows.gram()

    def sweep(self):
        return self.rows.sweep(np.array([0.5, 0.5]), self.P, self.R)

    def fit(self):
        return OMCAL(CLUSTERS, random_state=0, tol=0, max_iter=20).fit(self.X)

    def fit_few(self):
        return OMCAL(CLUSTERS, random_state=0, tol=0, max_iter=20).fit(self.few)

    def consensus(self):
        return Consensus(OMCAL(CLUSTERS), random_state=0).fit(self.few)

    def predict(self):
        return self.model.predict(self.X)


@pytest.fixture(scope="module")
def costs():
    return Costs()


def of_name(name):
    stored = json.loads(STORED.read_text(encoding="utf-8")) if STORED.exists() else {}
    return stored, stored.get(MACHINE, {}).get(name)


NAMES = [name for name in vars(Costs) if not name.startswith("_")]


@pytest.mark.parametrize("name", NAMES)
def test_costs_what_it_did(benchmark, costs, name):
    taken = []

    def measure_yardstick():
        start = time.perf_counter()
        yardstick()
        taken.append(time.perf_counter() - start)

    work = getattr(costs, name)
    work()  # compiled and loaded
    benchmark.pedantic(work, setup=measure_yardstick, rounds=ROUNDS)
    ratios = np.sort(np.array(benchmark.stats.stats.data) / taken)
    ratio = float(np.median(ratios[: ROUNDS // 2 + 1]))
    benchmark.extra_info["ratio"] = ratio
    stored, before = of_name(name)
    if os.environ.get("KEEP"):
        stored.setdefault(MACHINE, {})[name] = float(f"{ratio:.3g}")
        STORED.write_text(json.dumps(stored, indent=1, sort_keys=True) + "\n", encoding="utf-8")
        return
    if before is None:
        pytest.skip(f"no ratios are stored for {MACHINE}; make watch KEEP=1 stores them")
    assert ratio <= ALLOWED * before, f"{name}: {ratio:.3g} yardsticks, {before:.3g} before"


# Times KMeans with as many starts as there are runs, on two cores of any machine, and a third more.
BESIDE_KMEANS = [
    ((1000, MNIST_WIDTHS, 10), 1, 1.9),
    ((1000, MNIST_WIDTHS, 10), 10, 1.1),
    ((5000, MNIST_WIDTHS, 10), 1, 1.4),
    ((5000, MNIST_WIDTHS, 10), 10, 0.5),
    (DIGITS, 1, 4.5),
    (DIGITS, 10, 2.0),
    (LEAVES, 10, 4.0),
]


@pytest.mark.parametrize(("size", "runs", "most"), BESIDE_KMEANS)
def test_costs_beside_kmeans(size, runs, most):
    t = beside_kmeans(*size, 3, runs=(runs,))
    ratio = float(np.median(t[f"ours{runs}"] / t[f"kmeans{runs}"]))
    assert ratio <= most, f"{size}, {runs} runs: {ratio:.3g} times k-means, at most {most} before"
