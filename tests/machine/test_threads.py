"""Threads of BLAS and of ours: as the user left them, whoever works at once, and after Ctrl-C."""

import sys
import threading
import time
import weakref
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from itertools import permutations

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from interrupts import interrupted_everywhere
from omcal.machine import threads
from omcal.machine.threads import blas_as_before, map_blocks, one_blas_thread


class OfProcess:
    """A library with one number of threads for the process."""

    def __init__(self, number):
        self.num_threads = number

    def set_num_threads(self, number):
        self.num_threads = number


class OfThread(OfProcess, threading.local):
    """A library with one for each thread."""


class OfOwner(OfProcess):
    """As OfProcess, but the first thread that sets it owns it, and others set nothing."""

    owner = None

    def set_num_threads(self, number):
        self.owner = self.owner or threading.current_thread()
        if self.owner is threading.current_thread():
            self.num_threads = number

    def clear_controlling_thread(self, force):
        self.owner = None


@pytest.fixture
def libraries(monkeypatch):
    """One library of each kind instead of those that are loaded."""
    made = [OfProcess(3), OfThread(4), OfOwner(5)]
    monkeypatch.setattr(threads, "_blas_libraries", lambda modules: made)
    return made


def numbers():
    return [library.num_threads for library in threads._blas_libraries(len(sys.modules))]


@pytest.fixture
def users():
    """Ways to call something: in the main thread, and in two of the user's."""
    with ExitStack() as stack:
        pools = [stack.enter_context(ThreadPoolExecutor(1)) for _ in range(2)]
        yield [
            lambda call, *args: call(*args),
            *(lambda call, *args, pool=pool: pool.submit(call, *args).result() for pool in pools),
        ]


def check_overlaps(users):
    """Blocks of three threads that begin in one order and end in another leave no trace."""
    before = [user(numbers) for user in users]
    for begin, end in permutations(permutations(range(3)), 2):
        blocks = [one_blas_thread() for _ in users]
        for i in begin:
            users[i](blocks[i].__enter__)
            assert set(users[i](numbers)) == {1}
        for i in end:
            users[i](blocks[i].__exit__, None, None, None)
        assert [user(numbers) for user in users] == before, (begin, end)


def test_blocks_that_overlap_leave_the_users_numbers(libraries, users):
    libraries[2].set_num_threads(6)  # the main thread owns it
    check_overlaps(users)
    users[1](libraries[1].set_num_threads, 7)
    users[2](libraries[1].set_num_threads, 1)
    check_overlaps(users)


@pytest.fixture
def two_blas_threads():
    """Two threads for the BLAS libraries that are loaded, and none that owns them."""
    loaded = ThreadpoolController().select(user_api="blas").lib_controllers
    before = [library.num_threads for library in loaded]
    for library in loaded:
        threads._set_threads(library, 2)
    yield
    for library, number in zip(loaded, before, strict=True):
        threads._set_threads(library, number)


def test_blocks_that_overlap_leave_the_numbers_of_loaded_libraries(two_blas_threads, users):
    check_overlaps(users)


def test_blocks_that_overlap_leave_the_numbers_of_pytorch(torch, two_blas_threads, users):
    before = [user(torch.get_num_threads) for user in users]
    check_overlaps(users)
    assert [user(torch.get_num_threads) for user in users] == before


def test_a_block_inside_another_leaves_the_limit_to_that(libraries):
    with one_blas_thread():
        with one_blas_thread():
            assert numbers() == [1, 1, 1]
        assert numbers() == [1, 1, 1]
    assert numbers() == [3, 4, 5]


def test_no_thread_owns_a_library_after_a_block(libraries, users):
    users[1](lambda: one_blas_thread().__enter__())
    assert libraries[2].owner is None


def test_helpers_keep_blas_to_one_thread_too(libraries, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "3")
    together, seen = threading.Barrier(3), []

    def work(rows):
        together.wait(timeout=20)
        seen.append(numbers())

    map_blocks(work, 3, 1)
    assert seen == [[1, 1, 1]] * 3
    assert numbers() == [3, 4, 5]


@pytest.mark.parametrize("presses", [1, 2])
def test_ctrl_c_at_any_moment_leaves_the_users_numbers(libraries, presses):
    def block():
        with one_blas_thread():
            if presses == 2:
                raise KeyboardInterrupt

    files = "machine/threads.py", "contextlib.py", __file__
    for moment in interrupted_everywhere(block, *files):
        assert numbers() == [3, 4, 5], moment
        assert libraries[2].owner is None
    assert moment > 20  # it did look at them all


def test_a_block_without_an_end_is_taken_back_by_what_is_around_it(libraries):
    with blas_as_before():
        cut_short = one_blas_thread()  # Ctrl-C came before its end began
        cut_short.__enter__()
        assert numbers() == [1, 1, 1]
    assert numbers() == [3, 4, 5]


@pytest.mark.slow
@pytest.mark.parametrize("presses", [1, 2])
def test_after_ctrl_c_at_any_moment_nothing_goes_on(libraries, monkeypatch, presses):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    main, done = threading.current_thread(), []

    def work(rows):
        if presses == 2 and rows.start and threading.current_thread() is main:
            raise KeyboardInterrupt
        time.sleep(0.0005)
        done.append(rows.start)

    for moment in interrupted_everywhere(lambda: map_blocks(work, 4, 1), "machine/threads.py"):
        ended = len(done)
        assert numbers() == [3, 4, 5], moment
        time.sleep(0.001)
        assert len(done) == ended, moment
    monkeypatch.setenv("OMP_NUM_THREADS", "4")  # the threads serve the next, too
    assert map_blocks(lambda rows: rows.start, 50, 1) == list(range(50))


def test_work_shared_out_within_work_is_forgotten_while_all_threads_are_busy(monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    began, over = threading.Event(), threading.Event()
    alive = []

    def inner(block):
        large = np.zeros(4)
        map_blocks(lambda rows: large[rows].sum(), 4, 2)
        alive.append(weakref.ref(large))

    def work(rows):
        if threading.current_thread() is not threading.main_thread():
            began.set()
            over.wait(30)
            return
        began.wait(30)  # the only helper has work of its own: no other can begin
        for block in range(3):
            inner(block)
        alive.append([known() for known in alive])
        over.set()

    map_blocks(work, 2, 1)
    assert alive[3] == [None] * 3
