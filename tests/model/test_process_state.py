"""A fit leaves the process as it found it: alone, beside others in threads, and interrupted."""

import logging
import signal
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from interrupts import interrupted_everywhere
from omcal import OMCAL, Consensus
from omcal.machine import compiled, threads
from omcal.model import estimators
from omcal.model.estimators import AnchorClusterer
from omcal.model.progress import FitMonitor, logger
from omcal.places import memory

pytestmark = pytest.mark.filterwarnings("ignore:tol=0 ran all")
RNG = np.random.default_rng(0)
VIEWS = [RNG.normal(size=(900, 8)).astype(np.float32), RNG.normal(size=(900, 5))]
OPTIONS = {"n_anchors": 20, "max_iter": 4, "tol": 0, "random_state": 0}


def settings_of_the_process():
    """Everything of the process that a fit touches."""
    found = {
        "BLAS threads": [
            library["num_threads"]
            for library in ThreadpoolController().info()
            if library["user_api"] == "blas"
        ],
        "log level": logger.level,
        "log handlers": list(logger.handlers),
        "signals": signal.getsignal(signal.SIGINT),
        "NumPy errors": np.geterr(),
    }
    if "numba" in sys.modules:
        found["Numba"] = sys.modules["numba"].config.SLP_VECTORIZE
    if "torch" in sys.modules:
        matmul = sys.modules["torch"].backends.cuda.matmul
        found["TF32"] = getattr(matmul, "fp32_precision", None) or matmul.allow_tf32
    return found


@pytest.fixture(autouse=True)
def two_threads(monkeypatch):
    """BLAS and fits with two threads each, whatever the machine has, and blocks for both."""
    libraries = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [library.num_threads for library in libraries]
    for library in libraries:
        library.set_num_threads(2)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    monkeypatch.setattr("omcal.places.memory._BLOCK", 300)
    yield
    for library, number in zip(libraries, before, strict=True):
        library.set_num_threads(number)


@pytest.fixture
def ctrl_c():
    """Press Ctrl-C in so many seconds."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    timers = []

    def press(seconds):
        timers.append(threading.Timer(seconds, signal.raise_signal, [signal.SIGINT]))
        timers[-1].start()
        return timers[-1]

    yield press
    for timer in timers:
        timer.cancel()
        timer.join()
    signal.signal(signal.SIGINT, before)


@pytest.mark.long
@pytest.mark.slow
def test_fits_that_overlap_in_threads_leave_no_trace(monkeypatch):
    if compiled._numba_works():  # loops that no fit has compiled yet, in all threads at once
        monkeypatch.setattr(compiled, "MIN_ROWS", 0)
    before = settings_of_the_process()

    def fit(i):
        time.sleep(0.003 * i)
        return OMCAL(3, verbose=i % 2, **OPTIONS).fit(VIEWS).labels_

    with ThreadPoolExecutor(4) as pool:
        labels = list(pool.map(fit, range(8)))
    assert settings_of_the_process() == before
    assert all(np.array_equal(found, labels[0]) for found in labels)


@pytest.mark.filterwarnings("ignore")  # of views that say nothing
@pytest.mark.parametrize("joined", [False, True])
def test_blas_has_one_thread_from_the_anchors_to_the_doubts(joined, monkeypatch):
    """Its others, once awake, wait for work for longer than a small fit takes."""
    seen = {}

    def watched(owner, name):
        work = getattr(owner, name)

        def note(*args, **kwargs):
            seen[name] = settings_of_the_process()["BLAS threads"]
            return work(*args, **kwargs)

        monkeypatch.setattr(owner, name, note)

    watched(memory, "learn_in_memory")
    watched(memory.MemoryRows, "gram")
    watched(memory.MemoryRows, "assign")
    watched(estimators, "doubts")
    watched(AnchorClusterer, "_doubts")
    before = settings_of_the_process()
    model = OMCAL(3, **OPTIONS)
    (Consensus(model, n_runs=2, random_state=0) if joined else model).fit(VIEWS)
    assert len(seen) == 5
    assert {number for numbers in seen.values() for number in numbers} == {1}, seen
    assert settings_of_the_process() == before


def check_interrupted_fits(ctrl_c):
    """Fits that are interrupted leave no trace, nor do those beside them in another thread."""
    start = time.perf_counter()
    OMCAL(3, **OPTIONS).fit(VIEWS)
    whole = time.perf_counter() - start
    interrupted = 0
    with ThreadPoolExecutor(1) as pool:
        before = settings_of_the_process(), pool.submit(settings_of_the_process).result()
        for attempt in range(10):
            other = pool.submit(OMCAL(3, **OPTIONS).fit, VIEWS)
            try:
                timer = ctrl_c(whole * (attempt + 1) / 10)
                for _ in range(5):
                    OMCAL(3, verbose=1, **OPTIONS).fit(VIEWS)
                timer.join()  # what came too late for the fits does not reach the checks
            except KeyboardInterrupt:
                interrupted += 1
            other.result()
            after = settings_of_the_process(), pool.submit(settings_of_the_process).result()
            assert after == before
    assert interrupted > 5


@pytest.mark.slow
def test_interrupted_fits_leave_no_trace(ctrl_c):
    check_interrupted_fits(ctrl_c)


def test_interrupted_fits_leave_no_trace_beside_pytorch(torch, two_threads, ctrl_c):
    check_interrupted_fits(ctrl_c)


def test_a_fit_takes_back_what_blocks_without_an_end_have_set(monkeypatch):
    """As where Ctrl-C comes in the last product of such a block, and its traceback is kept."""
    kept = []

    def cut_short(*args):
        kept.extend([np.errstate(over="ignore"), threads.one_blas_thread()])
        for block in kept:
            block.__enter__()
        raise KeyboardInterrupt

    before = settings_of_the_process()
    monkeypatch.setattr("omcal.places.memory.InMemory.learn", cut_short)
    with pytest.raises(KeyboardInterrupt):
        OMCAL(3, **OPTIONS).fit(VIEWS)
    assert settings_of_the_process() == before


def test_ctrl_c_has_its_meaning_again_after_one_at_any_moment(ctrl_c):
    def block():
        with FitMonitor(OMCAL(), None, None).held():
            assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler

    for moment in interrupted_everywhere(block, "progress.py", "contextlib.py"):
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, moment
    assert moment > 10  # it did look at them all


def test_progress_is_shown_while_the_fit_runs_and_not_after(capfd, monkeypatch):
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    monkeypatch.setattr(logger, "handlers", [])
    OMCAL(3, verbose=2, **OPTIONS).fit(VIEWS)
    assert "900 samples in 2 views" in capfd.readouterr().err
    OMCAL(3, **OPTIONS).fit(VIEWS)
    logger.info("not of a fit")
    assert capfd.readouterr().err == ""


def test_small_matrices_are_worked_on_by_one_thread_and_large_ones_by_all():
    def numbers():
        return set(settings_of_the_process()["BLAS threads"])

    with threads.small_blas(10):
        assert numbers() == {1}
    with threads.small_blas(1000):
        assert numbers() == {2}


def test_a_blas_that_is_loaded_after_a_fit_is_kept_to_one_thread_too(monkeypatch):
    class Late:
        num_threads = 2

        def set_num_threads(self, number):
            self.num_threads = number

    library, select = Late(), ThreadpoolController.select

    def with_late(self, **kinds):
        found = select(self, **kinds)
        found.lib_controllers.insert(0, library)
        return found

    OMCAL(3, **OPTIONS).fit(VIEWS)
    monkeypatch.setattr(ThreadpoolController, "select", with_late)
    monkeypatch.setitem(sys.modules, "brings_a_blas", sys)
    before = settings_of_the_process()
    with threads.one_blas_thread():
        assert library.num_threads == 1
    assert library.num_threads == 2
    assert settings_of_the_process() == before


def test_precision_of_pytorch_is_the_users_again_after_overlapping_blocks(torch):
    from omcal.places.gpu.devices import _precision_switches, working_on

    matmul = torch.backends.cuda.matmul
    new = hasattr(matmul, "fp32_precision")
    name, tf32 = ("fp32_precision", "tf32") if new else ("allow_tf32", True)
    exact = next(value for switch, at, value in _precision_switches() if at == name)
    before = getattr(matmul, name)
    setattr(matmul, name, tf32)
    try:
        first, second = working_on(torch.device("cpu")), working_on(torch.device("cpu"))
        first.__enter__()
        with ThreadPoolExecutor(1) as pool:
            pool.submit(second.__enter__).result()
            first.__exit__(None, None, None)
            assert getattr(matmul, name) == exact
            pool.submit(second.__exit__, None, None, None).result()
        assert getattr(matmul, name) == tf32
    finally:
        setattr(matmul, name, before)
