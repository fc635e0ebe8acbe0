"""The list of commands, their errors and exit codes."""

from __future__ import annotations

import io
import os
import re
import sys
from collections.abc import Sequence
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from omcal import __version__
from omcal.cli.cluster import cluster
from omcal.cli.compare import compare
from omcal.cli.console import report_line
from omcal.cli.convert import convert
from omcal.cli.demo import demo
from omcal.cli.explain import explain
from omcal.cli.inspect import inspect
from omcal.cli.options import in_options
from omcal.cli.places import with_dask_address
from omcal.cli.predict import predict
from omcal.cli.reproduce import reproduce
from omcal.cli.scores import score
from omcal.cli.tree import tree
from omcal.cli.tune import tune
from omcal.cli.update import update

# Typer's usage errors are click's or, in newer versions, those of its own copy of click.
UsageError: Any = typer.BadParameter.__mro__[1]


class Command(TyperCommand):
    """A command whose help lists its options under the titles of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, with their values in plain words."""
        panels: dict[str, list[tuple[str, str]]] = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            names, text = (_plain(part) for part in record)
            title = getattr(parameter, "rich_help_panel", None) or "Options"
            if parameter.param_type_name == "argument":
                names, title = names.split()[0], "Arguments"
            panels.setdefault(title, []).append((names, text))
        for title, records in panels.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _plain(text: str) -> str:
    """Return a help text without brackets around types and around defaults in words.

    Examples
    --------
    >>> _plain("--beta <float>"), _plain("--join <outer|inner>"), _plain("[default: (5); x>=1]")
    ('--beta X', '--join outer|inner', '[default: 5; x>=1]')
    """
    text = re.sub(r"\[default: \(([^()]*)\)", r"[default: \1", text)
    types = {"int": "N", "float": "X", "str": "TEXT"}
    return re.sub(r"<([^<>]+?)( range)?>", lambda found: types.get(found[1], found[1]), text)


# The modules of the commands load the rest of omcal only when they run: help, completion and
# mistyped words are answered at once.
app: typer.Typer = typer.Typer(
    name="omcal",
    help="Multi-view clustering in one step, in time linear in the number of samples.",
    context_settings={"help_option_names": ["-h", "--help"]},
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    invoke_without_command=True,
)
for _command in (
    demo,
    inspect,
    convert,
    cluster,
    explain,
    predict,
    update,
    score,
    tree,
    tune,
    compare,
    reproduce,
):
    app.command(cls=Command)(_command)

_BAD_INPUT = (ValueError, OSError, ImportError, MemoryError)
_INTERRUPTED = 130


@app.callback()
def start(
    context: typer.Context,
    version: Annotated[bool, typer.Option("--version", "-V", help="Print the version.")] = False,
) -> None:
    """Multi-view clustering in one step, in time linear in the number of samples."""
    if version:
        typer.echo(f"omcal {__version__}")
        raise typer.Exit()
    if context.invoked_subcommand is None:
        typer.echo(context.get_help())


def run(words: Sequence[str]) -> int:
    """Run one command; report bad input in one line, with exit code 2."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show must not stop the output.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    try:
        code = app(with_dask_address(words), prog_name="omcal", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        code = _INTERRUPTED
    except UsageError as error:
        command = getattr(getattr(error, "ctx", None), "command_path", "omcal")
        report_line(f"error: {error.format_message()} (see {command} --help)")
        code = 2
    except BrokenPipeError:  # the reader closed the pipe
        code = 0
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except _BAD_INPUT as error:
        report_line(f"error: {in_options(_message(error))}")
        code = 2
    if code == _INTERRUPTED:
        report_line("interrupted")
    return code if isinstance(code, int) else 0


def _message(error: BaseException) -> str:
    if isinstance(error, OSError) and error.strerror:
        return f"{error.filename}: {error.strerror}" if error.filename else error.strerror
    return str(error) or type(error).__name__
