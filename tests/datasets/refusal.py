"""What the tests of damaged files share."""

import contextlib
import tracemalloc
from pathlib import Path

import pytest

from omcal.datasets import DataError, describe, load_views

PEAK = 64 * 2**20


class Payload:
    """Leaves a trace where it is unpickled."""

    def __init__(self, trace):
        self.trace = trace

    def __reduce__(self):
        return Path.touch, (self.trace,)


def cut(path, keep=0.6):
    content = path.read_bytes()
    path.write_bytes(content[: int(len(content) * keep)])


def assert_refused(path):
    """Reading fails with a DataError that names the file, in little memory, and runs nothing."""
    tracemalloc.start()
    with pytest.raises(DataError) as caught:
        load_views(path)
    # A file that is in order but holds no views is described, with the reason.
    with contextlib.suppress(DataError):
        assert describe(path)["problem"]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert str(path) in str(caught.value) and len(str(caught.value)) < 1000
    assert peak < PEAK
    assert not (path.parent / "executed").exists()
