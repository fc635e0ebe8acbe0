"""What omcal uses of typer beyond its public interface: if that changes, it is here."""

from __future__ import annotations

import typer

# Typer's usage errors are click's or, in newer versions, those of its own copy of click.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def usage_message(error: BaseException) -> str:
    """What a usage error says, with the command that would explain it."""
    command = getattr(getattr(error, "ctx", None), "command_path", "omcal")
    said = error.format_message() if hasattr(error, "format_message") else str(error)
    return f"{said} (see {command} --help)"
