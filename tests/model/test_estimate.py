"""The expected memory and time of a fit: never below the measured peak, and refused in time."""

import json
import os
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import omcal.machine.memory
import omcal.machine.unrolled
import omcal.model.cost
from omcal import OCAL, OMCAL
from omcal.datasets import make_multiview
from omcal.machine.compiled import compiled_pays
from omcal.model.cost import ViewSize, view_sizes
from omcal.views.view import View

# Runs in a process of its own: makes views, fits them, prints bytes expected and measured.
MEASURE = """
import ctypes, gc, json, sys, warnings
import numpy as np
from scipy import sparse
from omcal import OMCAL, Consensus
warnings.simplefilter("ignore")
spec = json.loads(sys.argv[1])
n, dims, densities, dtype = spec["n"], spec["dims"], spec["density"], np.dtype(spec["dtype"])
rng = np.random.default_rng(0)

def status(key):
    with open("/proc/self/status") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))

def made(width, density):
    if density is None:
        return rng.integers(0, 200, size=(n, width), dtype=np.uint8).astype(dtype)
    per_row = int(width * density)
    columns = np.sort(rng.integers(0, width, size=(n, per_row), dtype=np.int32), axis=1).ravel()
    starts = np.arange(0, n * per_row + 1, per_row, dtype=np.int32)
    view = sparse.csr_array((rng.random(n * per_row).astype(dtype), columns, starts), (n, width))
    view.sum_duplicates()
    return view

views = [made(*size) for size in zip(dims, densities)]
model = OMCAL(10, max_iter=3, beta=0.0, random_state=0).set_params(**spec.get("params", {}))
if "runs" in spec:
    model = Consensus(model, n_runs=spec["runs"], random_state=0)
np.linalg.svd(np.ones((99, 99)))  # BLAS takes its own memory the first time
gc.collect()
ctypes.CDLL(None).malloc_trim(0)
before = status("VmRSS")
with open("/proc/self/clear_refs", "w") as file:
    file.write("5")  # the peak counts from here
model.fit(views)
peak = status("VmHWM") - before
print(json.dumps([model.estimate(n, dims, dtype=dtype, density=densities).bytes, peak]))
"""

SHAPES = {
    "two dense views": {"n": 40_000, "dims": [200, 90], "density": [None, None], "dtype": "f8"},
    "dense bytes": {"n": 20_000, "dims": [400, 400], "density": [None, None], "dtype": "u1"},
    "few and wide": {"n": 1500, "dims": [4000, 3000], "density": [None] * 2, "dtype": "f4"},
    "few, sparse beside dense": {
        "n": 3000,
        "dims": [8000, 500],
        "density": [0.02, None],
        "dtype": "f8",
    },
    "sparse": {"n": 10_000, "dims": [20_000], "density": [0.01], "dtype": "f8"},
    "two sparse views": {"n": 20_000, "dims": [5000, 3000], "density": [0.02] * 2, "dtype": "f4"},
    "sparse beside dense": {
        "n": 20_000,
        "dims": [5000, 99],
        "density": [0.02, None],
        "dtype": "f8",
    },
    "joined runs in a span": {
        "n": 40_000,
        "dims": [300, 200],
        "density": [None, None],
        "dtype": "f4",
        "runs": 10,
    },
    "joined runs": {"n": 40_000, "dims": [20, 9], "density": [None] * 2, "dtype": "f8", "runs": 5},
    "joined runs of narrow views": {  # much of it for the products of their graphs
        "n": 48_000,
        "dims": [4, 3],
        "density": [None] * 2,
        "dtype": "f4",
        "runs": 4,
    },
    "many anchors of many views": {  # most of it for the products of their graphs
        "n": 30_000,
        "dims": [10] * 8,
        "density": [None] * 8,
        "dtype": "f8",
        "params": {"n_anchors": 400, "anchors": "random"},
    },
    "many samples": {"n": 200_000, "dims": [20, 9], "density": [None, None], "dtype": "f4"},
}
# Shapes, and threads, that are measured in each run of the tests.
FEW = {"two dense views": 2, "few and wide": 1, "sparse beside dense": 2, "joined runs": 1}


@pytest.mark.memory
@pytest.mark.skipif(
    not os.access("/proc/self/clear_refs", os.W_OK), reason="the peak is measured on Linux only"
)
# How much of more threads than cores is in work at once is a matter of luck.
@pytest.mark.long
@pytest.mark.parametrize(
    ("shape", "threads"),
    [
        pytest.param(shape, threads, marks=[pytest.mark.long] * (threads != FEW.get(shape)))
        for shape in SHAPES
        for threads in (1, 2)
    ],
)
def test_memory_is_not_underestimated_nor_by_far_too_much(shape, threads, tmp_path, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(threads))
    if shape == "many samples":
        pytest.importorskip("numba")
        if not os.access(omcal.machine.unrolled.__file__, os.W_OK):
            monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path))
        measure(shape)  # compiles the loops where no fit has yet, which takes memory of its own
    expected, measured = measure(shape)
    if expected / measured >= 3:  # the system may have taken pages back meanwhile
        measured = max(measured, measure(shape)[1])
    assert measured > 2e7
    assert 1 <= expected / measured < 3


def measure(shape):
    command = [sys.executable, "-c", MEASURE, json.dumps(SHAPES[shape])]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_it_grows_with_what_it_is_for():
    model = OMCAL(10)
    small = model.estimate(10_000, [50, 30])
    for larger in (
        model.estimate(40_000, [50, 30]),
        model.estimate(10_000, [500, 300]),
        OMCAL(10, n_anchors=300).estimate(10_000, [50, 30]),
        OMCAL(10, anchors="kmeans-full").estimate(10_000, [50, 30]),
    ):
        assert larger.bytes > small.bytes
        assert larger.seconds > small.seconds
    assert OMCAL(10, n_init=3).estimate(10_000, [50, 30]).seconds > small.seconds
    assert model.estimate(10_000, [500], dtype="f4").bytes < model.estimate(10_000, [500]).bytes
    stored = model.estimate(10_000, [5000], density=0.001)
    assert stored.bytes < model.estimate(10_000, [5000]).bytes


def test_few_wide_rows_are_multiplied_once_for_all_runs():
    """Products of the rows with each other are what anchors take there."""
    one, ten = (
        replace(OMCAL(10).estimate(1200, [10_000], dtype="float32"), n_runs=n_runs).time["anchors"]
        for n_runs in (1, 10)
    )
    assert one < ten < 2 * one


def test_its_parts_add_up_and_it_reads_well():
    expected = OMCAL(10).estimate(20_000, [100, 50])
    assert expected.bytes == max(sum(parts.values()) for parts in expected.memory.values())
    assert expected.seconds == sum(expected.time.values())
    text = str(expected)
    assert "20000 samples, 100 + 50 features, 50 anchors" in text
    assert "the rows would live in the memory of this machine" in text
    assert f"about {omcal.machine.memory.format_bytes(expected.bytes)}" in text
    assert "100 iterations" in text
    large = OMCAL(10).estimate(200_000, [100, 50])
    assert ("loading compiled loops" in str(large)) == compiled_pays(200_000)
    assert max(map(len, text.splitlines())) < 200
    assert OCAL(5).estimate(1000, 20).views[0].width == 20


def test_it_says_where_the_rows_would_live():
    limited = OMCAL(10, memory_limit="50MB")
    assert limited.estimate(10_000, [9]).rows_in == "the memory of this machine"
    many = limited.estimate(5_000_000, [9])
    assert many.rows_in == "files, 50.0 MB of them in memory at a time"
    assert many.bytes < OMCAL(10).estimate(5_000_000, [9]).bytes


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((1e6, [5]), {}, "n=1000000.0"),
        ((1, [5]), {}, "n=1 "),
        ((100, []), {}, "at least one width"),
        ((100, [0]), {}, "dims has the entry 0"),
        ((100, [2.5]), {}, "dims has the entry 2.5"),
        ((100, [5, 5]), {"density": [0.1]}, "density=\\[0.1\\]"),
        ((100, [5]), {"density": 7}, "density=7"),
        ((3, [5]), {}, "n_clusters=8"),
    ],
)
def test_bad_sizes_are_named(arguments, options, message):
    with pytest.raises(ValueError, match=message):
        OMCAL().estimate(*arguments, **options)


def test_a_fit_that_cannot_fit_is_refused_at_once(monkeypatch):
    data = make_multiview(300, n_clusters=3, random_state=0)
    model = OMCAL(3, random_state=0).fit(data.views)
    before = dict(vars(model))
    monkeypatch.setattr(omcal.machine.memory, "available_memory", lambda: 100_000)
    monkeypatch.setattr(
        "omcal.places.memory.InMemory.learn", lambda *_: pytest.fail("the work was started")
    )
    with pytest.raises(MemoryError, match=r"OMCAL on 300 samples needs about .* 100\.0 kB are"):
        model.fit(data.views)
    assert vars(model) == before


def test_speed_is_measured_once(monkeypatch):
    omcal.model.cost._operations_per_second()
    monkeypatch.setattr("omcal.model.cost.repeat", lambda *_, **__: pytest.fail("measured again"))
    assert OMCAL().estimate(1000, [5]).seconds > 0


def test_memory_of_views_at_hand_is_that_of_their_description():
    size = ViewSize.of(View("", np.ones((10, 4), dtype=np.uint8)))
    assert (size,) == view_sizes([4], np.uint8, None)
    size = ViewSize.of(View("", sparse.csr_array(np.eye(5))))
    assert (size,) == view_sizes([5], np.float64, 0.2)
