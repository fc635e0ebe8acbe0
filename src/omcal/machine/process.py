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
    """A process-wide setting that blocks of code in several threads may need at the same time.

    The first block that begins changes the setting, and the last one that ends restores the value
    that `read` returned. Threads and order do not matter. `restore` may be called twice.

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
        self._lock = threading.RLock()  # an interrupted block may end while another one begins
        self._threads: set[int] = set()  # threads inside a block
        self._before: list[Any] = []  # the user's setting, while it is changed

    @contextmanager
    def held(self) -> Iterator[None]:
        """Change the setting for the block."""
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
        finally:  # Ctrl-C may have interrupted the first call
            self._end(me)

    def _begin(self, thread: int) -> None:
        with self._lock:
            self._threads.add(thread)
            if not self._before:
                self._before = [self._read()]  # registered before anything is changed
                self._change()

    def _end(self, thread: int) -> None:
        with self._lock:
            self._threads.discard(thread)
            if self._before and not self._threads:
                self._restore(*self._before)
                self._before = []


def once(make: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Decorate a function so that many threads call it only once per set of arguments.

    Threads that need a result that is being computed wait for it.

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
