"""The command line: one file per command, declared in `app`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn

from omcal import __version__


def main(args: Sequence[str] | None = None) -> NoReturn:
    """Run the command `omcal` and exit: 0, 2 for bad input, 130 where interrupted.

    Parameters
    ----------
    args : sequence of str, optional
        The arguments after `omcal`; by default those of the process.
    """
    words = sys.argv[1:] if args is None else list(args)
    if words in (["--version"], ["-V"]):  # for scripts; it needs nothing but Python
        print(f"omcal {__version__}")
        sys.exit(0)
    try:
        from omcal.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich"):
            raise
        print(
            f"omcal: error: the command line needs {error.name}: pip install typer rich",
            file=sys.stderr,
        )
        sys.exit(2)
    sys.exit(run(words))
