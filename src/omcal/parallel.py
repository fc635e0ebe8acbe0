"""Work on blocks of rows by threads, with results that do not depend on their number."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache, reduce
from operator import add
from typing import Any, TypeVar

import joblib
from threadpoolctl import ThreadpoolController

from omcal.views import row_blocks

Result = TypeVar("Result")


def map_blocks(work: Callable[[slice], Result], n: int, size: int) -> list[Result]:
    """Results of `work` on blocks of `size` of the n rows, in their order.

    Threads share the blocks out; the blocks, and so every rounding, are the same for any number.
    """
    blocks = list(row_blocks(n, size))
    if len(blocks) == 1 or thread_count() == 1:
        return [work(rows) for rows in blocks]
    with one_blas_thread():
        return list(_in_order(work, blocks))


def sum_blocks(work: Callable[[slice], Result], n: int, size: int) -> Result:
    """Sum of the results of `work` on the same blocks, added in their order.

    Only a few results exist at a time, so they may be large.
    """
    blocks = list(row_blocks(n, size))
    if len(blocks) == 1 or thread_count() == 1:
        return reduce(add, map(work, blocks))
    with one_blas_thread():
        return reduce(add, _in_order(work, blocks))


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Threads that wait for the next pass: to start them would take a third of a short one.

    A process that was forked off has none of them, hence its number.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="omcal")


def _in_order(work: Callable[[slice], Result], blocks: list[slice]) -> Iterator[Result]:
    """Results in the order of the blocks, of which only a few are begun beforehand."""
    workers = thread_count()
    pool = _pool(workers, os.getpid())
    begun: deque[Future[Result]] = deque()
    try:
        for rows in blocks:
            begun.append(pool.submit(work, rows))
            if len(begun) > 2 * workers:
                yield begun.popleft().result()
        while begun:
            yield begun.popleft().result()
    finally:  # after an error nothing goes on in the background
        for future in begun:
            future.cancel()
        wait(begun)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep BLAS to one thread: inside our own threads, and for matrices too small to share out."""
    with _controller().limit(limits=1, user_api="blas"):
        yield


@contextmanager
def small_blas(size: int) -> Iterator[None]:
    """BLAS for matrices of this many rows and columns: one thread, unless they are large.

    For small ones the threads cost more than they save, and much more on a busy machine.
    """
    if size < 256:
        with one_blas_thread():
            yield
    else:
        yield


@cache
def _controller() -> ThreadpoolController:
    return ThreadpoolController()


def thread_count() -> int:
    """Threads to use: OMP_NUM_THREADS where it is set, else the cores this process may use."""
    asked: Any = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else joblib.cpu_count()
