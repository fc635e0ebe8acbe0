"""The parts of typer that omcal uses beyond its public interface."""

from __future__ import annotations

import inspect
import re
from typing import Any

import typer
from typer.core import TyperCommand

# Typer's usage errors are click's or, in newer versions, those of its own copy of click.
UsageError: type[Exception] = typer.BadParameter.__mro__[1]


def set_parameters(call: Any, parameters: list[inspect.Parameter]) -> None:
    """Show typer `parameters` instead of the function's own."""
    call.__signature__ = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}


def usage_message(error: BaseException) -> str:
    """Return the text of a usage error, and the command that explains the options."""
    command = getattr(getattr(error, "ctx", None), "command_path", "omcal")
    said = error.format_message() if hasattr(error, "format_message") else str(error)
    return f"{said} (see {command} --help)"


class Command(TyperCommand):
    """A command whose help lists its options under the titles of their panels."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments and options, each with its values in plain words."""
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
    """Return a part of a help text without the brackets of types and of worded defaults.

    Examples
    --------
    >>> _plain("--beta <float>"), _plain("--join <outer|inner>"), _plain("[default: (5); x>=1]")
    ('--beta X', '--join outer|inner', '[default: 5; x>=1]')
    """
    text = re.sub(r"\[default: \(([^()]*)\)", r"[default: \1", text)
    types = {"int": "N", "float": "X", "str": "TEXT"}
    return re.sub(r"<([^<>]+?)( range)?>", lambda found: types.get(found[1], found[1]), text)
