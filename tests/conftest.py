"""Fixtures shared by all tests."""

import gc
import logging
import math
import multiprocessing.process
import os
import platform
import random
import signal
import subprocess
import time
import tracemalloc
from collections import Counter, namedtuple
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import hypothesis
import pytest
from _pytest.doctest import DoctestModule


def multiply_examples(factor):
    """Multiply the number of examples of every property test, whether it sets one or not."""
    settings = hypothesis.settings
    plain = settings.__init__

    def multiplied(self, parent=None, **options):
        if parent is None and "max_examples" in options:
            options["max_examples"] = math.ceil(options["max_examples"] * factor)
        plain(self, parent, **options)

    settings.__init__ = multiplied
    return settings.default.max_examples


def pytest_configure(config):
    """Say how many examples the property tests draw, and which.

    No test is timed. Each run draws the same examples, so that a change alone decides whether it
    fails; a quick run draws the first quarter of them. With more examples they are new ones every
    time, and those that failed are kept where the source tree can be written to.
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:  # as in the background of a shell
        signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.setdefault(ORDER, time.strftime("%F"))  # the workers must not find another day
    factor = int(os.environ.get("OMCAL_EXAMPLES", "1"))
    options = {"deadline": None}
    if factor == 1:
        options["derandomize"] = True
    elif not os.access(Path(__file__).parents[1], os.W_OK):
        options["database"] = None
    if config.getoption("quick"):
        factor /= 4
    if factor != 1:
        options["max_examples"] = multiply_examples(factor)
    hypothesis.settings.register_profile("omcal", **options)
    hypothesis.settings.load_profile("omcal")


Ended = namedtuple("Ended", "code out err")


# Kinds of rows by their names in `kinds_of_rows`, which only tests import: the process that hands
# tests out to others starts without it, and so earlier.
ROWS = {
    "memory": "MemoryRows",
    "compiled": "compiled",
    "1 chunk": "one_chunk",
    "3 chunks": "three_chunks",
    "n chunks": "n_chunks",
    "scratch files": "Scratched",
    "one rank": "OnOneRank",
    "torch": "on_torch",
    "GPU": "OnGPU",
}


# Fixtures that only tests of one kind use.
KINDS_OF_FIXTURES = {
    "shared": "data",
    "client": "process",
    "lone_cluster": "process",
    "team": "process",
    "torch": "torch",
}
NOT_QUICK = {"data", "process", "memory", "slow", "long"}
# Of a test that is marked so, a quick run has each fifth set of parameters. Five is prime to the
# numbers of most parameters, so that all of their values occur.
SAMPLED, EACH = "sampled", 5
# How to run skipped tests, by a word of the reason for the skip.
REMEDIES = {
    "PyTorch": "make test-torch",
    "omics": "make test-omics",
    "scanpy": "make test-omics",
    "muon": "make test-omics",
    "../shared": "place that folder beside the repository",
    "chromium": "install Chromium",
    "no time": "make test-all",
    "CUDA": "benchmarks/gpu_checks.py on a machine with one",
}
START = time.monotonic()
ORDER = "OMCAL_ORDER"  # of the tests where time is short
LEFT_OUT = pytest.StashKey[int]()  # number of long tests that were deselected
EXAMPLES_WITH_PROCESSES = "src/omcal/experiments/comparison.py"


def pytest_addoption(parser):
    parser.addoption(
        "--quick",
        action="store_true",
        help=f"leave out the tests that are marked {', '.join(sorted(NOT_QUICK))}",
    )
    parser.addoption("--all", action="store_true", help="run the tests that are marked long, too")
    parser.addoption(
        "--seconds",
        type=float,
        default=math.inf,
        help="run tests in another order each day, and skip those that begin after this time",
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_setupnodes():
    """Give each worker one thread of BLAS: more would only wait for those of the other workers.

    The package's own threads go by OMP_NUM_THREADS and stay; those of scikit-learn sleep while they
    wait, where they would keep a core busy that another worker needs.
    """
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")


@pytest.hookimpl(wrapper=True)
def pytest_collect_file(file_path):
    """Leave out modules without examples, which would be imported to look for them."""
    collectors = yield
    if file_path.suffix != ".py" or ">>>" in file_path.read_text(encoding="utf-8"):
        return collectors
    return [each for each in collectors if not isinstance(each, DoctestModule)]


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config, items):
    """Mark tests by the fixtures they use, and deselect those that this run leaves out."""
    for item in items:
        mark_by_use(item)
    named = any("::" in argument for argument in config.args)
    if config.getoption("quick"):
        excluded = NOT_QUICK
    elif config.getoption("all") or named:
        excluded = set()
    else:
        excluded = {"long"}
    left = [item for item in items if excluded & {mark.name for mark in item.iter_markers()}]
    if config.getoption("quick"):
        gone = set(left)
        left += beyond_the_sample(item for item in items if item not in gone)
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
    if config.getoption("seconds") < math.inf:  # or it would always be the same ones
        random.Random(os.environ[ORDER]).shuffle(items)
    config.stash[LEFT_OUT] = sum("long" in item.keywords for item in left)


def beyond_the_sample(items):
    """Return the tests that a quick run leaves out of those that are marked sampled."""
    seen = Counter()
    left = []
    for item in items:
        if item.get_closest_marker(SAMPLED):
            test = item.nodeid.partition("[")[0]
            if seen[test] % EACH:
                left.append(item)
            seen[test] += 1
    return left


@pytest.hookimpl(trylast=True)
def pytest_collection_finish():
    """Let the garbage collector pass over modules and tests, which stay until the end."""
    gc.collect()
    gc.freeze()


def mark_by_use(item):
    """Mark a test by its fixtures, the kind of its rows and its file."""
    for fixture in set(getattr(item, "fixturenames", ())) & KINDS_OF_FIXTURES.keys():
        item.add_marker(KINDS_OF_FIXTURES[fixture])
    rows = item.callspec.params.get("make_rows") if hasattr(item, "callspec") else None
    if rows in ("one rank", "torch", "GPU") or item.path.name.startswith("test_torch"):
        item.add_marker("torch")
    if item.nodeid.startswith("src/omcal/tl.py") and not find_spec("anndata"):
        item.add_marker(pytest.mark.skip(reason="the extra omics is not installed"))
    if item.nodeid.startswith(EXAMPLES_WITH_PROCESSES):
        item.add_marker("process")
    if rows in ("compiled", "n chunks"):  # compilation takes long, and so does a sum of single rows
        item.add_marker("slow")
    if (mark := item.get_closest_marker("long_rows")) and rows in mark.args:
        item.add_marker("long")


def pytest_runtest_setup(item):
    """Skip the tests that begin too late."""
    if time.monotonic() - START > item.config.getoption("seconds"):
        pytest.skip("no time was left")


def pytest_sessionfinish(session):
    """Send the number of deselected tests from a worker to the process that writes the summary."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["left_out"] = session.config.stash.get(LEFT_OUT, 0)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    """Receive the number of deselected tests, which is the same for every worker."""
    node.config.stash[LEFT_OUT] = getattr(node, "workeroutput", {}).get("left_out", 0)


@pytest.fixture(scope="session", autouse=True)
def nothing_slow_unmarked(request):
    """In a quick run, a test that starts a process or measures memory fails: it lacks its mark."""
    if not request.config.getoption("quick"):
        yield
        return

    import joblib

    # Libraries ask for these once, and that takes a process of its own.
    platform.processor()
    joblib.cpu_count(only_physical_cores=True)
    if find_spec("matplotlib"):
        import_module("matplotlib.font_manager")

    def refusal(mark):
        def refuse(*args, **kwargs):
            raise AssertionError(f"a quick test does not do this; mark it with pytest.mark.{mark}")

        return refuse

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess.Popen, "__init__", refusal("process"))
        patch.setattr(multiprocessing.process.BaseProcess, "start", refusal("process"))
        patch.setattr(tracemalloc, "start", refusal("memory"))
        yield


@pytest.fixture(scope="session", autouse=True)
def commands_built_once():
    """Keep the command line that Typer builds for each call: that takes longer than most calls."""
    if not find_spec("typer"):
        yield
        return
    from typer import main

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(main, "get_command", cache(main.get_command))
        yield


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_terminal_summary(terminalreporter, config):
    """List, after everything else, which tests were skipped, why, and how to run them."""
    result = yield
    skipped = terminalreporter.stats.get("skipped", [])
    texts = (report.longrepr[2].removeprefix("Skipped: ") for report in skipped)
    reasons = Counter(" ".join(text.split()) for text in texts)
    lines = [f"{count} × {reason}{remedy_for(reason)}" for reason, count in reasons.most_common()]
    if left_out := config.stash.get(LEFT_OUT, 0):
        how = "" if config.getoption("quick") else ": make test-all"
        lines.insert(0, f"{left_out} × marked long{how}")
    if config.getoption("quick"):
        marks = ", ".join(sorted(NOT_QUICK))
        lines.insert(0, f"marked {marks}, most marked {SAMPLED}: make test, make test-all")
    if lines:
        terminalreporter.write_line("not run:")
        for line in lines:
            terminalreporter.write_line(f"  {line}")
    return result


def remedy_for(reason):
    """Return how to run the tests that were skipped for this reason, where that is known."""
    return next((f": {remedy}" for word, remedy in REMEDIES.items() if word in reason), "")


@pytest.fixture(scope="session")
def shared():
    """The folder of real data and reference results beside the project; skips without it."""
    folder = Path(__file__).resolve().parents[1].parent / "shared"
    if not folder.is_dir():
        pytest.skip("the folder ../shared with real data and reference results is absent")
    return folder


@pytest.fixture(params=list(ROWS))
def make_rows(request):
    """Every way to hold the rows: (graphs, n_clusters) -> rows."""
    if request.param == "compiled":
        pytest.importorskip("numba", reason="the extra fast (Numba) is not installed")
    if request.param in ("one rank", "torch", "GPU"):
        torch = import_torch()
        if request.param == "GPU" and not torch.cuda.is_available():
            pytest.skip("there is no CUDA GPU here")
    return getattr(import_module("kinds_of_rows"), ROWS[request.param])


@pytest.fixture
def omcal(capsys):
    """Run the command line in this process: words -> exit code, output, errors."""
    from omcal.cli import main

    def call(*words):
        with pytest.raises(SystemExit) as end:
            main([str(word) for word in words])
        return Ended(end.value.code, *capsys.readouterr())

    return call


@pytest.fixture(scope="session")
def torch():
    """PyTorch; skips without it."""
    return import_torch()


def import_torch():
    """Import PyTorch with one thread: more would spin while threads of other workers run."""
    torch = pytest.importorskip("torch", reason="the extra gpu (PyTorch) is not installed")
    torch.set_num_threads(1)
    return torch


@pytest.fixture(scope="session")
def team(torch):
    """Seven processes on this machine that form groups of torch.distributed."""
    from rank_team import SIZES, Team

    team = Team(max(SIZES))
    yield team
    team.close()


@pytest.fixture(scope="session")
def client():
    """Two processes of Dask on this machine, reachable from nowhere else."""
    distributed = pytest.importorskip("distributed", reason="the extra dask is not installed")
    import dask

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    patience = {f"distributed.comm.timeouts.{what}": "120s" for what in ("connect", "tcp")}
    options = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "memory_limit": "1GB"}
    with (
        dask.config.set(patience),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, **options) as cluster,
        distributed.Client(cluster, timeout="120s") as client,
    ):
        yield client
