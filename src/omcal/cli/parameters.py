"""The parameters of OMCAL as options of the commands, from their declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from omcal.machine.declaring import Declared, Words, declared
from omcal.model.parameters import MultiViewParameters

Command = Callable[..., None]


PARAMETERS: dict[str, Declared] = {
    name: one for name, one in declared(MultiViewParameters).items() if one.option
}

_OPTIONS = {name: str(one.option).split("/")[0] for name, one in PARAMETERS.items()}
_OPTIONS |= {"n_clusters": "--clusters", "random_state": "--seed", "n_resamples": "--resamples"}
# Names that are no words of a sentence.
_NAMES = "|".join(name for name in _OPTIONS if "_" in name or name in ("beta", "gamma", "tol"))


# Attributes and methods in Python, and their counterpart on the command line.
_ELSEWHERE = {
    "estimate(n, dims)": "--dry-run",
    "explain_views()": "`omcal explain`",
    "view_scales_": "how the views are scaled",
    "certainty_": "the certainty in a --report",
}


def _annotation(name: str) -> Any:
    """Return the type of the parameter `name` for typer; its Python name is an option, too."""
    one = PARAMETERS[name]
    also = "--" + name.replace("_", "-")
    others = {declared.option for declared in PARAMETERS.values()} | {_OPTIONS[name]}
    words = [rule.words for rule in one.constraint if isinstance(rule, Words)]
    kind: Any = one.reads or (Literal[*words[0]] if words else type(one.default))
    default = "" if one.default is None else str(one.default)
    option = typer.Option(
        *(str(one.option), *({also} - others)),
        help=one.brief,
        show_default=(default if one.shown is None else one.shown) or False,
        metavar=one.metavar,
        rich_help_panel="Parameters of OMCAL",
    )
    return Annotated[kind | None, option]


def takes(*names: str) -> Callable[[Command], Command]:
    """Give a command the options of the named parameters; left out, the estimator's default holds.

    The command gets the given ones as one mapping, `parameters`, ready for OMCAL.
    """

    def given(**chosen: Any) -> Any:
        plain = {n: str(v) if isinstance(v, Path) else v for n, v in chosen.items()}
        return nullcontext({n: value for n, value in plain.items() if value is not None})

    return gathers("parameters", {name: (_annotation(name), None) for name in names}, given)


def gathers(
    name: str,
    options: Mapping[str, tuple[Any, Any]],
    value_of: Callable[..., AbstractContextManager[Any]],
) -> Callable[[Command], Command]:
    """Replace the parameter `name` of a command by options, of which `value_of` makes its value.

    `options` has their types and defaults.
    """

    def decorate(command: Command) -> Command:
        own = inspect.signature(command, eval_str=True).parameters

        @wraps(command)
        def call(**given: Any) -> None:
            with value_of(**{option: given.pop(option) for option in options}) as value:
                command(**{name: value}, **given)

        kind = inspect.Parameter.KEYWORD_ONLY
        added = [
            inspect.Parameter(option, kind, default=default, annotation=annotation)
            for option, (annotation, default) in options.items()
        ]
        # Arguments stand in the place of the parameter, options after those of the command.
        arguments = [one for one in added if one.default is inspect.Parameter.empty]
        shown = [one.replace(kind=kind) for one in own.values()]
        place = list(own).index(name)
        shown[place : place + 1] = arguments
        shown += [one for one in added if one not in arguments]
        call.__signature__ = inspect.Signature(shown)  # type: ignore[attr-defined]
        call.__annotations__ = {one.name: one.annotation for one in shown}
        return call

    return decorate


def words_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the arguments of the command line that set the parameters.

    Examples
    --------
    >>> words_of({"n_anchors": 20, "scale": None, "accelerate": False})
    ['--anchors', '20', '--scale', 'none', '--no-accelerate']
    """
    words = []
    for name, value in parameters.items():
        yes, _, no = str(PARAMETERS[name].option).partition("/")
        words.append(no if value is False else yes)
        if not isinstance(value, bool):
            words.append("none" if value is None else str(value))
    return words


def in_options(message: str) -> str:
    """Return a message of the estimator with its parameters spelled as options.

    Examples
    --------
    >>> in_options("n_clusters=121 must be at most 120; raise n_anchors.")
    '--clusters 121 must be at most 120; raise --anchors.'
    >>> in_options("The 'beta' parameter of OMCAL must be a float in the range [0.0, inf).")
    '--beta must be a number in the range [0.0, inf).'
    """
    message, checked = re.subn(
        r"The '(\w+)' parameter of \w+ must be",
        lambda found: f"{_OPTIONS.get(found[1], found[1])} must be",
        message,
    )
    if checked:
        message = message.replace(" an int ", " a whole number ").replace(" a float ", " a number ")
    for asked, elsewhere in _ELSEWHERE.items():
        message = message.replace(asked, elsewhere)
    message = re.sub(
        rf"(?<![\w-])({'|'.join(_OPTIONS)})=(\S*[^\s;,.)])?",
        lambda found: " ".join(filter(None, (_OPTIONS[found[1]], found[2]))),
        message,
    )
    return re.sub(rf"(?<![\w-])({_NAMES})\b", lambda found: _OPTIONS[found[1]], message)
