"""The commands, and how they end."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from omcal import __version__
from omcal.cli.cluster import cluster
from omcal.cli.console import report_line
from omcal.cli.convert import convert
from omcal.cli.demo import demo
from omcal.cli.explain import explain
from omcal.cli.inspect import inspect
from omcal.cli.places import with_dask_address
from omcal.cli.predict import predict
from omcal.cli.reproduce import reproduce
from omcal.cli.score import score
from omcal.cli.tune import tune

app = typer.Typer(
    name="omcal",
    help="Multi-view clustering in one step, in time linear in the number of samples.",
    add_completion=False,
    pretty_exceptions_enable=False,
    invoke_without_command=True,
)
for command in (demo, inspect, convert, cluster, explain, predict, score, tune, reproduce):
    app.command()(command)

# Typer's usage errors are click's or, in newer versions, those of its own copy of click.
_UsageError: type[Exception] = typer.BadParameter.__mro__[1]
_BAD_INPUT = (ValueError, OSError, ImportError, MemoryError)
_INTERRUPTED = 130


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False,
) -> None:
    """Multi-view clustering in one step, in time linear in the number of samples."""
    if version:
        typer.echo(f"omcal {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(args: Sequence[str] | None = None) -> int:
    """Run one command; what is wrong with its input becomes one line and exit code 2."""
    try:
        words = with_dask_address(sys.argv[1:] if args is None else args)
        code = app(words, prog_name="omcal", standalone_mode=False)
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except _UsageError as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "omcal")
        report_line(f"error: {_message(error)} (see {command} --help)")
        return 2
    except _BAD_INPUT as error:
        report_line(f"error: {_message(error)}")
        return 2
    if code == _INTERRUPTED:
        report_line("interrupted")
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    if hasattr(error, "format_message"):
        return str(error.format_message())
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
