"""Work on blocks by threads: the same results in the same order, and no work after an error."""

import threading
import time

import pytest

from omcal.machine import threads as parallel
from omcal.machine.threads import map_blocks, sum_blocks


@pytest.fixture(params=[1, 2, 5], autouse=True)
def threads(request, monkeypatch):
    monkeypatch.setenv("OMP_NUM_THREADS", str(request.param))
    return request.param


def uneven(rows):
    """Later blocks end first."""
    time.sleep(0.002 if rows.start % 20 == 0 else 0)
    return [rows.start]


@pytest.mark.parametrize("n", [1, 9, 10, 11, 200])
def test_results_are_in_the_order_of_the_blocks(n):
    expected = [rows.start for rows in parallel.row_blocks(n, 10)]
    assert map_blocks(uneven, n, 10) == [[start] for start in expected]
    assert sum_blocks(uneven, n, 10) == expected


def test_the_calling_thread_works_too(threads):
    who = set()

    def work(rows):
        who.add(threading.current_thread())
        time.sleep(0.005)

    map_blocks(work, 100, 5)
    assert threading.current_thread() in who
    assert len(who) <= threads


def test_few_results_wait_for_their_turn(threads):
    done, before_first = [], []

    def work(rows):
        if rows.start == 0:
            time.sleep(0.1)  # the others go on meanwhile, but not for ever
            before_first.append(len(done))
        done.append(rows.start)
        return 1

    assert sum_blocks(work, 1000, 1) == 1000
    assert before_first[0] <= 4 * threads


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
@pytest.mark.parametrize("bad", [0, 3, 19])
def test_an_error_ends_the_work_and_comes_out(error, bad):
    done = []

    def work(rows):
        if rows.start == bad:
            raise error("bad block")
        time.sleep(0.001)
        done.append(rows.start)
        return 1

    with pytest.raises(error, match="bad block"):
        sum_blocks(work, 20, 1)
    ended = len(done)
    time.sleep(0.02)
    assert len(done) == ended
    assert map_blocks(uneven, 30, 10) == [[0], [10], [20]]  # and the threads serve the next


def test_an_error_in_the_sum_comes_out():
    with pytest.raises(TypeError):
        sum_blocks(lambda rows: 1 if rows.start else "a", 50, 1)


def test_work_that_shares_out_work_does_not_wait_for_itself():
    inner = map_blocks(lambda rows: sum_blocks(lambda part: 1, 40, 1), 40, 1)
    assert inner == [40] * 40
