"""Parameters declared once: signature, attributes and documentation follow from class bodies.

A class that derives from `Declares` has a line per parameter,
``beta: float = parameter(default=0.3, ...)``. Type checkers read it as the field of a dataclass;
`__init__`, its signature and the entry in the docstring are made from it. No library is loaded.
"""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, NamedTuple, dataclass_transform

_WIDTH = 92  # of the text of an entry in a docstring


class Range(NamedTuple):
    """Constraint: a number of this kind, from `least` to `most`."""

    kind: type
    least: float
    most: float | None = None
    closed: str = "left"


class Words(NamedTuple):
    """Constraint: one of these words."""

    words: Collection[str]  # also a view of a table that may grow


class Methods(NamedTuple):
    """Constraint: an object with these methods."""

    names: tuple[str, ...]


@dataclass(frozen=True)
class Declared:
    """A parameter; `option` and the entries after it are for the command line."""

    default: Any
    constraint: tuple[Any, ...]
    kind: str  # as the docstring names it
    help: str
    kw_only: bool = True
    option: str | None = None
    brief: str = ""  # by default the first clause of `help`
    shown: str | None = None  # default, as the help shows it
    metavar: str | None = None
    reads: Callable[[str], Any] | None = None  # type of the option, where the default has none

    @property
    def entry(self) -> str:
        """Return the text of the parameter in a docstring."""
        default = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        tail = "optional" if self.default is None else f"default={default}"
        head = self.kind if "default=" in self.kind else f"{self.kind}, {tail}"
        return f"{head}\n{textwrap.indent(textwrap.fill(self.help, _WIDTH), '    ')}"


def parameter(
    *,
    default: Any,
    constraint: tuple[Any, ...],
    kind: str,
    help: str,
    kw_only: bool = True,
    **option: Any,
) -> Any:
    """Declare a parameter; see `Declared`."""
    text = " ".join(help.split())
    brief = text.split(".")[0].split(";")[0] + "."
    return Declared(default, constraint, kind, text, kw_only, **{"brief": brief, **option})


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
class Declares:
    """A class whose parameters are declared in its body, or in those of its bases."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own = {name: value for name, value in vars(cls).items() if isinstance(value, Declared)}
        for name in own:
            delattr(cls, name)
        cls._own_parameters = own
        by_hand = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
        if by_hand is object.__init__ or hasattr(by_hand, "_declared"):
            setattr(cls, "__init__", _initialiser(cls))  # noqa: B010 - mypy forbids the assignment
        if cls.__doc__:
            cls.__doc__ = cls.__doc__.replace("{parameters}", _entries(cls))

    _own_parameters: Any = None


def declared(cls: type) -> dict[str, Declared]:
    """Return the parameters of a class by name, those of its last base first."""
    found: dict[str, Declared] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_own_parameters") or {}
    return found


def _initialiser(cls: type) -> Any:
    """Return the `__init__` that sets all parameters as attributes."""
    kinds = {True: inspect.Parameter.KEYWORD_ONLY, False: inspect.Parameter.POSITIONAL_OR_KEYWORD}
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        hints |= vars(base).get("__annotations__", {})
    shown = [inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)]
    shown += [
        inspect.Parameter(name, kinds[one.kw_only], default=one.default, annotation=hints[name])
        for name, one in declared(cls).items()
    ]
    signature = inspect.Signature(shown)

    def initialise(self: Any, *args: Any, **given: Any) -> None:
        bound = signature.bind(self, *args, **given)
        bound.apply_defaults()
        del bound.arguments["self"]
        for name, value in bound.arguments.items():
            setattr(self, name, value)

    initialise.__signature__ = signature  # type: ignore[attr-defined]
    initialise._declared = True  # type: ignore[attr-defined]
    initialise.__name__, initialise.__qualname__ = "__init__", f"{cls.__qualname__}.__init__"
    return initialise


def _entries(cls: type) -> str:
    """Return the section of the docstring, indented as the docstring is, but for its first line."""
    text = "\n".join(f"{name} : {one.entry}" for name, one in declared(cls).items())
    return textwrap.indent(text, "    ").lstrip()
