"""Work on blocks of rows by threads, with results that do not depend on their number."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, nullcontext
from functools import cache
from itertools import repeat
from threading import Condition
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from numpy.typing import DTypeLike
from threadpoolctl import ThreadpoolController

from omcal.machine.arrays import Array
from omcal.machine.process import ProcessSetting

Result = TypeVar("Result")

_TURNED = 1 << 16  # entries of a block that is transposed
_IN_CACHE = 1 << 22  # bytes
ARM = platform.machine().lower() in ("aarch64", "arm64")


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Consecutive slices that cover range(n), each of at most `size` rows, as even as can be.

    None has more rows than the first.
    """
    count = -(-n // size)
    cuts = [-(-i * n // count) for i in range(count + 1)] if n else []
    yield from map(slice, cuts, cuts[1:])


def map_blocks(work: Callable[[slice], Result], n: int, size: int) -> list[Result]:
    """Results of `work` on blocks of `size` of the n rows, in their order.

    Threads share the blocks out; the blocks, and so every rounding, are the same for any number.
    """
    results: list[Result] = []
    _share_out(work, list(row_blocks(n, size)), results.append)
    return results


def sum_blocks(work: Callable[[slice], Result], n: int, size: int) -> Result:
    """Sum of the results of `work` on the same blocks, added in their order.

    Only a few results exist at a time, so they may be large.
    """
    total: list[Result] = []

    def add(result: Result) -> None:
        total[:] = [total[0] + result] if total else [result]  # type: ignore[operator]

    _share_out(work, list(row_blocks(n, size)), add)
    return total[0]


def transposed(A: Array, dtype: DTypeLike) -> Array:
    """A copy of Aᵀ in this type, row by row, made in blocks that stay in the cache."""
    turned = np.empty(A.shape[::-1], dtype)

    def work(some: slice) -> None:
        turned[some] = A[:, some].T

    map_blocks(work, len(turned), max(1, _TURNED // max(len(A), 1)))
    return turned


def thin_product(X: Array, W: Array) -> Array:
    """X W for few columns of W: row by row in memory, or column by column where that is quicker.

    With 24 to 50 columns OpenBLAS takes 3 to 16 % less time so on ARM, and 6 to 50 % more on x86.
    """
    return np.asarray((W.T @ X.T).T if ARM else X @ W)


def sparse_product(X: Any, W: Array) -> Array:
    """X W for a block of sparse rows: a W that is larger than the cache is then read once.

    2000 rows with 60 of 50000 columns take a quarter less time so, with 100 columns of W.
    """
    return np.asarray((X.tocsc() if W.nbytes > _IN_CACHE else X) @ W)


def _share_out(
    work: Callable[[slice], Result], blocks: list[slice], take: Callable[[Result], None]
) -> None:
    """Let `take` have the results in the order of the blocks; only a few wait for their turn."""
    workers = min(thread_count(), len(blocks)) if len(blocks) > 1 else 1
    if workers == 1:
        for rows in blocks:
            take(work(rows))
        return
    line = _Line(work, blocks, take, 2 * workers)
    with one_blas_thread():
        # This thread works, too: to wake one more would cost as much as a short block.
        pool = _pool(workers - 1, os.getpid())
        helpers = [pool.submit(line.work_off) for _ in range(workers - 1)]
        try:
            line.work_off()
        finally:  # after an error nothing goes on in the background
            # Those that never began are not waited for: where work shares out work, they may
            # stand in line behind this thread.
            begun = [helper for helper in helpers if not helper.cancel()]
            wait(begun)
    for helper in begun:
        helper.result()


class _Line(Generic[Result]):
    """Blocks that threads work off together."""

    def __init__(
        self,
        work: Callable[[slice], Result],
        blocks: list[slice],
        take: Callable[[Result], None],
        most_waiting: int,
    ) -> None:
        self._work, self._take, self._most_waiting = work, take, most_waiting
        self._blocks = iter(enumerate(blocks))
        self._changed = Condition()
        self._waiting: dict[int, Result] = {}
        self._taken = 0
        self._failed = False

    def work_off(self) -> None:
        """Work on one block after another until there is none."""
        try:
            while (block := self._next()) is not None:
                number, rows = block
                self._hand_in(number, self._work(rows))
        except BaseException:
            with self._changed:
                self._failed = True
                self._changed.notify_all()
            raise

    def _next(self) -> tuple[int, slice] | None:
        with self._changed:
            return None if self._failed else next(self._blocks, None)

    def _hand_in(self, number: int, result: Result) -> None:
        with self._changed:
            self._changed.wait_for(
                lambda: self._failed or number - self._taken <= self._most_waiting
            )
            self._waiting[number] = result
            while self._taken in self._waiting and not self._failed:
                self._take(self._waiting.pop(self._taken))
                self._taken += 1
            self._changed.notify_all()


@cache
def _pool(workers: int, process: int) -> ThreadPoolExecutor:
    """Threads that wait for the next pass: to start them would take a third of a short one.

    A process that was forked off has none of them, hence its number.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="omcal")


def one_blas_thread() -> AbstractContextManager[None]:
    """Keep BLAS to one thread: inside our own threads, and for matrices too small to share out.

    Its threads go on waiting for work for some 25 ms, and keep a core from ours all that time: so
    this is also for what comes between one sharing out and the next.
    """
    return _BLAS.held()


def small_blas(size: int) -> AbstractContextManager[None]:
    """BLAS for matrices of this many rows and columns: one thread, unless they are large.

    For small ones the threads cost more than they save, and much more on a busy machine. With 300
    rows an iteration takes as long with two as with one on a quiet one, as they keep a core from
    the pass that comes next; with 500 two take a fifth less where a pass is short.
    """
    return one_blas_thread() if size <= 400 else nullcontext()


class _BlasThreads:
    """Numbers of threads of the BLAS libraries that are loaded.

    They are looked for again only after modules were loaded, as that takes milliseconds: PyTorch
    brings a BLAS of its own, and may come after the first fit.
    """

    def __init__(self) -> None:
        self._modules = 0
        self._libraries: list[Any] = []

    def read(self) -> list[int]:
        if self._modules != len(sys.modules):
            self._libraries = ThreadpoolController().select(user_api="blas").lib_controllers
            self._modules = len(sys.modules)
        return [library.num_threads for library in self._libraries]

    def write(self, numbers: Iterable[int]) -> None:
        for library, number in zip(self._libraries, numbers, strict=False):
            library.set_num_threads(number)


_threads = _BlasThreads()
# Once the main thread has set a number, OpenBLAS does not heed other threads.
_BLAS = ProcessSetting(
    _threads.read, lambda: _threads.write(repeat(1)), _threads.write, by_main=True
)


def thread_count() -> int:
    """Threads to use: OMP_NUM_THREADS where it is set, else the cores this process may use."""
    asked: Any = os.environ.get("OMP_NUM_THREADS", "")
    return int(asked) if asked.isdigit() and int(asked) > 0 else _cores(os.getpid())


@cache
def _cores(process: int) -> int:
    """Cores this process may use; to ask the system takes as long as a pass over few rows."""
    return int(joblib.cpu_count())
