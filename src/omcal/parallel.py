"""Work on blocks of rows by threads, with results that do not depend on their number."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
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
    workers = min(len(blocks), thread_count())
    if workers == 1:
        return [work(rows) for rows in blocks]
    with one_blas_thread(), ThreadPoolExecutor(workers) as pool:
        return list(pool.map(work, blocks))


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
