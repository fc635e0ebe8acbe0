"""Ctrl-C in compiled code, which makes another error of it."""

import numpy as np
import pytest

from large_fits import overlapping, sweeps
from omcal import OMCAL
from omcal.model.progress import plain_interrupts

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def as_compiled_code_does():
    """The error that Python makes of an interrupt that a C function did not pass on."""
    try:
        raise KeyboardInterrupt
    except KeyboardInterrupt as interrupt:
        raise SystemError("returned a result with an exception set") from interrupt


def test_an_interrupt_in_compiled_code_is_a_keyboard_interrupt(monkeypatch):
    views = overlapping(600)
    model = OMCAL(4, n_anchors=9, tol=0.0, max_iter=9, random_state=0)
    model.fit(views[::-1])
    before = model.labels_.copy()

    def at_the_third(count):
        if count == 3:
            as_compiled_code_does()

    with sweeps(monkeypatch, at_the_third), pytest.raises(KeyboardInterrupt):
        model.fit(views)
    np.testing.assert_array_equal(model.labels_, before)  # the model is as it was


def test_other_system_errors_stay():
    with pytest.raises(SystemError, match="mine"), plain_interrupts():
        raise SystemError("mine")
