"""Ctrl-C while a fit iterates: it ends after the iteration in progress, with what was reached."""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

logger = logging.getLogger("omcal")


class Interruption:
    """Remembers the first Ctrl-C in its blocks; the second interrupts at once.

    Examples
    --------
    >>> interruption = Interruption()
    >>> with interruption.held():
    ...     interruption.asked
    False
    """

    def __init__(self) -> None:
        self.asked = False

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold Ctrl-C back in the block, unless someone else already decides what it does."""
        here = threading.current_thread() is threading.main_thread()
        if not here or signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
            yield
            return
        signal.signal(signal.SIGINT, self._ask)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, signal.default_int_handler)

    def _ask(self, number: int, frame: FrameType | None) -> None:
        if self.asked:
            signal.default_int_handler(number, frame)
        self.asked = True
        logger.warning("ending after this iteration; Ctrl-C again ends at once")
