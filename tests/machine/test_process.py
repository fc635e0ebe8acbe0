"""Settings of the process: as they were before, whichever way the blocks that change them end."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import pytest

from interrupts import interrupted_everywhere
from omcal.machine.process import ProcessSetting, once


@pytest.fixture
def state():
    return SimpleNamespace(first="user's", second="user's")


@pytest.fixture
def setting(state):
    def write(values):
        state.first, state.second = values

    return ProcessSetting(
        lambda: (state.first, state.second), lambda: write(("ours", "ours")), write
    )


def test_the_last_block_to_end_puts_it_back_whatever_their_order(setting, state):
    seen, rng = [], random.Random(0)

    def work(_):
        for _ in range(20):
            time.sleep(1e-4 * rng.random())
            with setting.held():
                time.sleep(1e-4 * rng.random())
                with setting.held():
                    seen.append((state.first, state.second))
                seen.append((state.first, state.second))

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(work, range(8)))
    assert seen == [("ours", "ours")] * 320
    assert (state.first, state.second) == ("user's", "user's")


def test_an_overlap_does_not_take_the_others_setting_for_the_users(setting, state):
    first, second = setting.held(), setting.held()
    first.__enter__()
    with ThreadPoolExecutor(1) as pool:
        pool.submit(second.__enter__).result()
        first.__exit__(None, None, None)
        assert state.first == "ours"  # the other thread is still in its block
        pool.submit(second.__exit__, None, None, None).result()
    assert state.first == "user's"


@pytest.mark.parametrize("before", [0, 1])
def test_ctrl_c_at_any_moment_leaves_it_as_it_was(setting, state, before):
    """Also where it is the second one, and the block is being left since the first."""

    def block():
        with setting.held():
            if before:
                raise KeyboardInterrupt

    count = 0
    for moment in interrupted_everywhere(block, "process.py", "contextlib.py", __file__):
        assert (state.first, state.second) == ("user's", "user's"), moment
        count += 1
    assert count > 20  # it did look at them all
    with setting.held():
        assert state.first == "ours"


def test_what_is_made_once_is_made_once_however_many_ask():
    made, together = [], threading.Barrier(8)

    @once
    def make(what):
        made.append(what)
        time.sleep(0.01)
        return object()

    def ask(_):
        together.wait()
        return make("a"), make("b")

    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(ask, range(8)))
    assert sorted(made) == ["a", "b"]
    assert len(set(results)) == 1
