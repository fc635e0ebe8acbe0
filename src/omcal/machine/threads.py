"""Threads over blocks of rows; the results do not depend on the number of threads."""

from __future__ import annotations

import os
import sys
import weakref
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache, lru_cache
from threading import Condition, RLock, local
from typing import Any, Generic, TypeVar

import joblib
import numpy as np
from threadpoolctl import ThreadpoolController

from omcal.machine.arrays import Array

Result = TypeVar("Result")

IN_CACHE = 1 << 22  # bytes
_COLUMNS_READ_ONCE = 96


def row_blocks(n: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of nearly equal length that cover range(n), of at most `size` rows.

    No slice is longer than the first.
    """
    count = -(-n // size)
    cuts = [-(-i * n // count) for i in range(count + 1)] if n else []
    yield from map(slice, cuts, cuts[1:])


def map_blocks(work: Callable[[slice], Result], n: int, size: int) -> list[Result]:
    """Return the results of `work` on blocks of `size` of the n rows, in order.

    Threads divide the blocks; blocks and rounding do not depend on the number of threads.
    """
    results: list[Result] = []
    _share_out(work, list(row_blocks(n, size)), results.append)
    return results


def sum_blocks(work: Callable[[slice], Result], n: int, size: int) -> Result:
    """Return the sum of the results of `work` on the same blocks, added in order.

    Only a few results exist at the same time, so they may be large.
    """
    total: list[Result] = []

    def add(result: Result) -> None:
        total[:] = [total[0] + result] if total else [result]  # type: ignore[operator]

    _share_out(work, list(row_blocks(n, size)), add)
    return total[0]


def row_slice(X: Any, rows: slice) -> Any:
    """Return X[rows] as a view of X; SciPy would copy sparse rows."""
    if getattr(X, "format", None) != "csr" or rows.step not in (None, 1):
        return X[rows]
    start, stop, _ = rows.indices(X.shape[0])
    first, last = X.indptr[start], X.indptr[stop]
    part = type(X)((stop - start, X.shape[1]), dtype=X.dtype)
    part.data, part.indices = X.data[first:last], X.indices[first:last]
    part.indptr = X.indptr[start : stop + 1] - first
    return part


def sparse_product(X: Any, W: Array) -> Array:
    """Return X W for a block of sparse rows; read a large W of many columns only once.

    With 100 or 150 columns of W, 30000 × 50000 counts then take 14 or 23 % less CPU time. With 30
    or 65 columns they take more: court opinions of 1330 terms take up to three times as long.
    """
    once = W.shape[1] >= _COLUMNS_READ_ONCE and W.nbytes > IN_CACHE
    return np.asarray((X.tocsc() if once else X) @ W)


def _share_out(
    work: Callable[[slice], Result], blocks: list[slice], take: Callable[[Result], None]
) -> None:
    """Pass the results to `take` in the order of the blocks; only a few results wait."""
    workers = min(thread_count(), len(blocks)) if len(blocks) > 1 else 1
    if workers == 1:
        for rows in blocks:
            take(work(rows))
        return
    shared = _SharedBlocks(work, blocks, take, 2 * workers)
    with one_blas_thread():
        done = False
        try:
            # This thread works, too: waking one more thread would take as long as a short block.
            for _ in range(workers - 1):
                _pool(thread_count() - 1, os.getpid()).submit(_help, weakref.ref(shared))
            shared.process()
            done = True
        finally:  # after an error no work continues in the background
            try:
                shared.end(done)
            finally:  # Ctrl-C may have interrupted the first call
                shared.end(done)
    if shared.error is not None:
        raise shared.error


def _help(shared: weakref.ref[_SharedBlocks[Any]]) -> None:
    """Process remaining blocks, if the caller still waits for some.

    Drop references before queueing: a nested task may wait for a long time.
    """
    if (blocks := shared()) is not None:
        blocks.help()


class _SharedBlocks(Generic[Result]):
    """Blocks that several threads process together."""

    def __init__(
        self,
        work: Callable[[slice], Result],
        blocks: list[slice],
        take: Callable[[Result], None],
        most_waiting: int,
    ) -> None:
        self.error: BaseException | None = None  # of a helper
        self._work, self._take, self._most_waiting = work, take, most_waiting
        self._blocks = iter(enumerate(blocks))
        self._lock = RLock()  # unlike that of a condition, Ctrl-C cannot interrupt its `with`
        self._changed = Condition(self._lock)
        self._waiting: dict[int, Result] = {}
        self._taken = 0
        self._helpers = 0
        self._failed = self._ended = False

    def process(self) -> None:
        """Process one block after another until none is left."""
        while (block := self._next()) is not None:
            number, rows = block
            self._hand_in(number, self._work(rows))

    def help(self) -> None:
        """Process blocks in another thread."""
        with self._lock:
            if self._ended:
                return
            self._helpers += 1
        try:
            with one_blas_thread():
                self.process()
        except BaseException as error:
            self.error, self._failed = error, True
        finally:
            with self._lock:
                self._helpers -= 1
                self._changed.notify_all()

    def end(self, done: bool) -> None:
        """Wait until the helpers have finished their blocks, and let no other helper begin.

        In nested calls, a helper that never began may be queued behind this thread.
        """
        with self._lock:
            self._ended = True
            self._failed = self._failed or not done
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._helpers)

    def _next(self) -> tuple[int, slice] | None:
        with self._lock:
            block = None if self._failed else next(self._blocks, None)
        return block

    def _hand_in(self, number: int, result: Result) -> None:
        with self._lock:
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
    """Return a pool of threads; starting threads would take a third of the time of a short sweep.

    A forked process has no threads of its parent, so the process id is part of the key.
    """
    return ThreadPoolExecutor(workers, thread_name_prefix="omcal")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Limit BLAS to one thread: inside our own threads, and for small matrices.

    BLAS threads keep a core busy for about 25 ms after each product, so this block also covers the
    work between two parallel parts. Without it, fits take 5 to 120 % more CPU time
    (benchmarks/ablations.py).

    Some libraries have one number of threads per process, others one per thread. Each block
    restores its own changes, so both are the user's again when all blocks have ended. A thread may
    thus lift the limit of another one, whose next block sets it again.
    """
    with blas_as_before():
        for library in _blas_libraries(len(sys.modules)):
            if (number := library.num_threads) != 1:
                _thread.changed.append((library, number))
                _set_threads(library, 1)
        yield


@contextmanager
def blas_as_before() -> Iterator[None]:
    """Restore at the end the settings that inner blocks of `one_blas_thread` have changed.

    It surrounds each public call: Ctrl-C in the last product of an inner block is raised at the
    exit of that block, and would skip its cleanup.
    """
    outer = len(_thread.changed)
    try:
        try:
            yield
        finally:
            _restore(outer)
    finally:  # Ctrl-C may have interrupted the first call
        _restore(outer)


class _ThreadChanges(local):
    """Changes of this thread that are not yet restored: libraries and numbers of threads."""

    def __init__(self) -> None:
        self.changed: list[tuple[Any, int]] = []


_thread = _ThreadChanges()


def _restore(outer: int) -> None:
    """Restore all changes but the first `outer`."""
    while len(_thread.changed) > outer:
        _set_threads(*_thread.changed[-1])
        _thread.changed.pop()


def _set_threads(library: Any, number: int) -> None:
    """Set the number of threads of a library, from any thread.

    From threadpoolctl 3.8 on, the first thread that sets a number for OpenBLAS owns the library,
    and other threads are ignored; so the owner is cleared before and after.
    """
    release = getattr(library, "clear_controlling_thread", lambda force: None)
    release(force=True)
    library.set_num_threads(number)
    release(force=True)


def small_blas(size: int) -> AbstractContextManager[None]:
    """Limit BLAS to one thread for matrices of up to 400 rows and columns.

    For small matrices threads cost more than they save, much more on a busy machine. On a quiet
    machine, two threads take as long as one for 300 rows, since BLAS threads keep a core from the
    next pass, and a fifth less time for 500 rows if a pass is short.
    """
    return one_blas_thread() if size <= 400 else nullcontext()


@lru_cache(maxsize=1)
def _blas_libraries(modules: int) -> list[Any]:
    """Return the loaded BLAS libraries.

    The search takes milliseconds and is repeated only after modules were loaded: PyTorch has its
    own BLAS, and may be loaded after the first fit.
    """
    return list(ThreadpoolController().select(user_api="blas").lib_controllers)


def thread_count() -> int:
    """Return the number of threads: OMP_NUM_THREADS if set, else the available cores."""
    setting: Any = os.environ.get("OMP_NUM_THREADS", "")
    return int(setting) if setting.isdigit() and int(setting) > 0 else _cores(os.getpid())


@cache
def _cores(process: int) -> int:
    """Return the number of available cores, cached: the system call is as slow as a short sweep."""
    return int(joblib.cpu_count())
