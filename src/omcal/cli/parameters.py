"""The parameters of OMCAL as options of the commands, from their declarations."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, NamedTuple, cast

import typer

from omcal.machine.declaring import Declared, Words, declared
from omcal.model.parameters import MultiViewParameters


class Parameter(NamedTuple):
    """A parameter of the estimator on the command line; left out, the estimator's default holds."""

    option: str
    type: Any
    help: str
    default: str  # as the help shows it
    metavar: str | None = None

    def annotation(self, name: str) -> Any:
        """Return the type of the parameter `name` for typer; its Python name is an option, too."""
        also = "--" + name.replace("_", "-")
        others = {parameter.option for parameter in PARAMETERS.values()}
        option = typer.Option(
            *(self.option, *({also} - others - {self.option.split("/")[0]})),
            help=self.help,
            show_default=self.default or False,
            metavar=self.metavar,
            rich_help_panel="Parameters of OMCAL",
        )
        return Annotated[self.type | None, option]


def _one_of(*words: str) -> Any:
    return Enum("Words", {word: word for word in words}, type=str)


def _of(one: Declared) -> Parameter:
    """Return the option of a declared parameter."""
    assert one.option is not None
    shown = one.shown if one.shown is not None else str("" if one.default is None else one.default)
    words = [rule.words for rule in one.constraint if isinstance(rule, Words)]
    kind: Any = one.reads or (_one_of(*words[0]) if words else type(one.default))
    return Parameter(one.option, kind, one.brief, shown, one.metavar)


PARAMETERS: dict[str, Parameter] = {
    name: _of(one) for name, one in declared(MultiViewParameters).items() if one.option
}

_OPTIONS = {name: parameter.option.split("/")[0] for name, parameter in PARAMETERS.items()}
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


def takes(*names: str) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command the options of the named parameters.

    The command gets the given ones as one mapping, `parameters`, ready for OMCAL.
    """

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        @wraps(command)
        def call(**given: Any) -> None:
            chosen = {name: given.pop(name) for name in names}
            parameters = {n: _plain(value) for n, value in chosen.items() if value is not None}
            command(parameters=parameters, **given)

        added = {name: (PARAMETERS[name].annotation(name), None) for name in names}
        return with_options(call, command, added, {"parameters": None})

    return decorate


def with_options(
    call: Any,
    command: Callable[..., None],
    added: Mapping[str, tuple[Any, Any]],
    instead: Mapping[str, inspect.Parameter | None],
) -> Callable[..., None]:
    """Show typer the parameters of `command` as those of `call`, which wraps it.

    `added` are the types and defaults of further options; parameters in `instead` are replaced, or
    hidden by None.
    """
    own = inspect.signature(command, eval_str=True).parameters
    shown = [instead.get(name, parameter) for name, parameter in own.items()]
    shown += [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
        )
        for name, (annotation, default) in added.items()
        if name not in own
    ]
    parameters = [parameter for parameter in shown if parameter is not None]
    call.__signature__ = inspect.Signature(parameters)
    call.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return cast(Callable[..., None], call)


def _plain(value: Any) -> Any:
    """Return a value as the estimator takes it: the word of a member of an enumeration."""
    if isinstance(value, Enum):
        return None if value.value == "none" else value.value
    return str(value) if isinstance(value, Path) else value


def words_of(parameters: Mapping[str, Any]) -> list[str]:
    """Return the arguments of the command line that set the parameters.

    Examples
    --------
    >>> words_of({"n_anchors": 20, "scale": None, "accelerate": False})
    ['--anchors', '20', '--scale', 'none', '--no-accelerate']
    """
    words = []
    for name, value in parameters.items():
        yes, _, no = PARAMETERS[name].option.partition("/")
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
