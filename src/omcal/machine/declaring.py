"""Parameters declared once: signature, attributes and documentation follow from class bodies.

A subclass of `Declares` has a line per parameter, ``max_iter: int = 30`` or ``beta: float =
parameter(default=0.3, ...)``. Type checkers read it as a field of a dataclass. From it follow
`__init__` and its signature, the constraint (if the type implies one), and the entry in the
docstring (if there is a text). This module loads no library.
"""

from __future__ import annotations

import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, make_dataclass, replace
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import (
    Annotated,
    Any,
    Literal,
    NamedTuple,
    Union,
    dataclass_transform,
    get_args,
    get_origin,
)

_WIDTH = 92  # characters per line of an entry in a docstring


def require_integer(name: str, value: Any, least: int) -> None:
    """Refuse an argument of a function that is no integer, or below the least."""
    if not isinstance(value, Integral) or value < least:
        raise ValueError(f"{name}={value!r} must be an integer of at least {least}.")


class Range(NamedTuple):
    """Constraint: a number of this kind, from `least` to `most`."""

    kind: type
    least: float
    most: float | None = None
    closed: str = "left"


class Words(NamedTuple):
    """Constraint: one of the given words."""

    words: Collection[str]  # may be the keys of a table that grows later


class Methods(NamedTuple):
    """Constraint: an object with the given methods."""

    names: tuple[str, ...]


Positive = Annotated[float, Range(Real, 0, None, "neither")]
Natural = Annotated[int, Range(Integral, 0)]


@dataclass(frozen=True)
class Declared:
    """A parameter; `option` and the fields after it are for the command line."""

    default: Any
    constraint: tuple[Any, ...] = ()  # by default that of its type, `constraint_of`
    kind: str = ""  # its type in the docstring; by default the name of the type
    help: str = ""
    kw_only: bool = True
    late: bool = False  # whether it comes after the parameters of subclasses in the signature
    option: str | None = None
    brief: str = ""  # by default the first clause of `help`
    shown: str | None = None  # text of the default in the help
    metavar: str | None = None
    reads: Callable[[str], Any] | None = None  # parser of the option, if its type is not enough

    @property
    def entry(self) -> str:
        """Return the text of the parameter in a docstring."""
        default = f'"{self.default}"' if isinstance(self.default, str) else repr(self.default)
        tail = "optional" if self.default is None else f"default={default}"
        head = self.kind if "default=" in self.kind else f"{self.kind}, {tail}"
        return f"{head}\n{textwrap.indent(self.help, '    ')}"


def parameter(
    *,
    default: Any,
    help: str,
    kind: str = "",
    constraint: tuple[Any, ...] = (),
    kw_only: bool = True,
    **option: Any,
) -> Any:
    """Declare a parameter; see `Declared`."""
    text = " ".join(help.split())
    brief = text.split(".")[0].split(";")[0] + "."
    text = inspect.cleandoc(help) if "\n\n" in help else textwrap.fill(text, _WIDTH)
    return Declared(default, constraint, kind, text, kw_only, **{"brief": brief, **option})


def constraint_of(hint: Any) -> tuple[Any, ...]:
    """Return the constraint that a type implies: a whole number is at least 1, others at least 0.

    Examples
    --------
    >>> constraint_of(Literal["sum", "mean"] | None), constraint_of(bool)
    ((Words(words=('sum', 'mean')), None), ('boolean',))
    """
    if get_origin(hint) in (Union, UnionType):
        return sum(map(constraint_of, get_args(hint)), ())
    if get_origin(hint) is Annotated:
        return tuple(hint.__metadata__)
    if get_origin(hint) is Literal:
        return (Words(get_args(hint)),)
    known = {int: Range(Integral, 1), float: Range(Real, 0), bool: "boolean", NoneType: None}
    return (known[hint],)


@dataclass_transform(kw_only_default=True, field_specifiers=(parameter,))
class Declares:
    """A class whose parameters are declared in its body, or in the bodies of its bases."""

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        own: dict[str, Declared] = {}
        for name, hint in inspect.get_annotations(cls).items():
            if name in vars(cls) and not name.startswith("_"):
                own[name] = _complete(vars(cls)[name], hint, vars(sys.modules[cls.__module__]))
                delattr(cls, name)
        cls._own_parameters = own
        init = next(vars(base)["__init__"] for base in cls.__mro__ if "__init__" in vars(base))
        if init is object.__init__ or hasattr(init, "_declared"):
            setattr(cls, "__init__", _initialiser(cls))  # noqa: B010 - mypy forbids the assignment
        if cls.__doc__:
            cls.__doc__ = _documented(cls.__doc__, declared(cls))

    _own_parameters: Any = None


def _complete(value: Any, hint: Any, names: dict[str, Any]) -> Declared:
    """Return the declaration of a parameter; `value` may be its default alone."""
    declaration = value if isinstance(value, Declared) else Declared(value)
    if declaration.constraint:
        return declaration
    hint = eval(hint, names) if isinstance(hint, str) else hint
    first = hint if isinstance(hint, type) else get_args(hint)[0]
    kind = declaration.kind or getattr(first, "__name__", "")
    return replace(declaration, kind=kind, constraint=constraint_of(hint))


def declared(cls: type) -> dict[str, Declared]:
    """Return the parameters of a class by name: those of bases first, late ones last."""
    found: dict[str, Declared] = {}
    for base in reversed(cls.__mro__):
        found |= vars(base).get("_own_parameters") or {}
    return dict(sorted(found.items(), key=lambda item: item[1].late))


def _initialiser(cls: type) -> Any:
    """Return the `__init__` that sets all parameters as attributes."""
    hints: dict[str, Any] = {}
    for base in reversed(cls.__mro__):
        hints |= inspect.get_annotations(base)
    parameters = [
        (name, hints[name], field(default=one.default, kw_only=one.kw_only))
        for name, one in declared(cls).items()
    ]
    made: Any = vars(make_dataclass(cls.__name__, parameters, repr=False, eq=False))["__init__"]
    made._declared = True
    made.__qualname__ = f"{cls.__qualname__}.__init__"
    return made


def _documented(text: str, parameters: dict[str, Declared]) -> str:
    """Return a docstring with the entries of all parameters, or of the named ones, inserted."""
    entries = {name: f"{name} : {one.entry}" for name, one in parameters.items() if one.help}
    entries["parameters"] = "\n".join(entries.values())
    # Python 3.13 and later have removed the indentation.
    return re.sub(
        r"^( *)\{(\w+)\}$",
        lambda m: textwrap.indent(entries[m[2]], m[1]) if m[2] in entries else m[0],
        text,
        flags=re.M,
    )
