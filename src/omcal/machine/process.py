"""State shared by all threads: settings changed for a block, objects created once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import Any, ParamSpec, TypeVar

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")


class ProcessSetting:
    """A process-wide setting that blocks of code need, several threads at the same time.

    The first block to begin changes the setting, and the last one to end restores the value that
    `read` returned, in any threads and any order. `restore` may be called twice.

    Examples
    --------
    >>> import os
    >>> here = ProcessSetting(os.getcwd, lambda: os.chdir("/"), os.chdir)
    >>> before = os.getcwd()
    >>> with here.held():
    ...     os.getcwd()
    '/'
    >>> os.getcwd() == before
    True
    """

    def __init__(
        self,
        read: Callable[[], Any],
        change: Callable[[], None],
        restore: Callable[[Any], None],
    ) -> None:
        self._read, self._change, self._restore = read, change, restore
        self._lock = threading.RLock()  # a block that was cut short may end inside another's start
        self._threads: set[int] = set()  # that are in a block
        self._before: list[Any] = []  # the user's setting, while it is another

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the setting in the block."""
        me = threading.get_ident()
        if me in self._threads:
            yield
            return
        try:
            try:
                self._begin(me)
                yield
            finally:
                self._end(me)
        finally:  # Ctrl-C may have cut short the first call
            self._end(me)

    def _begin(self, thread: int) -> None:
        with self._lock:
            self._threads.add(thread)
            if not self._before:
                self._before = [self._read()]  # known before anything is changed
                self._change()

    def _end(self, thread: int) -> None:
        with self._lock:
            self._threads.discard(thread)
            if self._before and not self._threads:
                self._restore(*self._before)
                self._before = []


def once(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function to be called once per set of arguments, also by many threads.

    Threads that ask while it is being made wait for it.

    Examples
    --------
    >>> @once
    ... def compiled(name):
    ...     return print("compiling", name)
    >>> compiled("pass"), compiled("pass")
    compiling pass
    (None, None)
    """
    lock, known = threading.RLock(), cache(make)

    @wraps(make)
    def waiting(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Result:
        with lock:
            return known(*args, **kwargs)  # type: ignore[arg-type]

    return waiting
