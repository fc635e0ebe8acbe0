"""Fixtures of the tests of models."""

import logging
import signal

import pytest


class CtrlC(logging.Handler):
    """Presses Ctrl-C so many times when an iteration is logged."""

    def __init__(self, iteration, times=1):
        super().__init__()
        self.due = [iteration] * times

    def emit(self, record):
        while record.args and self.due and record.args[1:2] == (self.due[0],):
            self.due.pop()
            signal.raise_signal(signal.SIGINT)


@pytest.fixture
def press():
    """Press Ctrl-C in the fits of the test: press(iteration=5, times=1)."""
    logger = logging.getLogger("omcal")
    level, before = logger.level, signal.signal(signal.SIGINT, signal.default_int_handler)
    handlers = []

    def add(**when):
        handlers.append(CtrlC(**when))
        logger.addHandler(handlers[-1])
        logger.setLevel(logging.DEBUG)

    yield add
    for handler in handlers:
        logger.removeHandler(handler)
    logger.setLevel(level)
    signal.signal(signal.SIGINT, before)
