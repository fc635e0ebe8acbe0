from collections import namedtuple

import pytest

from omcal.cli import main

Ended = namedtuple("Ended", "code out err")


@pytest.fixture
def omcal(capsys):
    """Run the command line in this process."""

    def call(*args):
        with pytest.raises(SystemExit) as end:
            main([str(arg) for arg in args])
        return Ended(end.value.code, *capsys.readouterr())

    return call
