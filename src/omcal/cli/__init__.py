"""The command line: one file a command, declared in `app`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command `omcal` and exit: 0, 2 for bad input, 130 where interrupted.

    Parameters
    ----------
    args : sequence of str, optional
        The words after `omcal`; those of the process by default.
    """
    try:
        from omcal.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f'omcal: error: the command line needs {error.name}; pip install "omcal[cli]"',
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(run(args))
