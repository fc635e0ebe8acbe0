"""The files that a command reads, and the options that say how."""

from __future__ import annotations

import inspect
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

import omcal
from omcal.cli import options

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData

_PANEL = "How the files are read"


class Join(str, Enum):  # noqa: UP042 - its members are the words themselves
    """Which samples of several files."""

    outer = "outer"
    inner = "inner"


Files = Annotated[
    list[Path],
    typer.Argument(metavar="FILE", help="The views: one file or folder, or several to join."),
]
LabelSource = Annotated[
    str | None,
    typer.Option(
        "--labels",
        "-l",
        metavar="NAME|FILE",
        help="What the classes are called, or a file of their own; none: there are none.",
    ),
]
IdColumn = Annotated[
    str | None,
    typer.Option(
        "--id",
        metavar="NAME",
        help="The column of ids; none: ids and row numbers are features.",
        rich_help_panel=_PANEL,
    ),
]
JoinOption = Annotated[
    Join,
    typer.Option(
        "--join",
        help="Of several files: all samples (outer), or those in every file (inner).",
        rich_help_panel=_PANEL,
    ),
]
Transpose = Annotated[
    bool,
    typer.Option("--transpose", help="The samples are in the columns.", rich_help_panel=_PANEL),
]
Header = Annotated[
    bool | None,
    typer.Option(
        "--header/--no-header",
        help="Whether tables have names in their first row; by default their cells say it.",
        show_default=False,
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Reading:
    """What a user said about the files to read."""

    files: list[Path]
    views: str | None = None
    labels: str | None = None
    id: str | None = None
    join: Join = Join.outer
    transpose: bool = False
    header: bool | None = None

    def load(self, views: list[str] | None = None) -> MultiViewData:
        """The data set; `views` stand in for those of the option."""
        paths, choices = self.arguments()
        return omcal.datasets.load_views(paths, **{**choices, "views": views or choices["views"]})

    def without_labels(self) -> MultiViewData:
        """The data set for a command that must not know the classes."""
        paths, choices = self.arguments()
        return omcal.datasets.load_views(paths, **{**choices, "labels": False})

    def arguments(self) -> tuple[list[Path], dict[str, Any]]:
        """What `load_views` and `describe` take."""
        return self.files, {
            "views": options.names(self.views),
            "labels": self._labels(),
            "id": False if self.id == "none" else self.id,
            "join": self.join.value,
            "transpose": self.transpose,
            "header": self.header,
        }

    def _labels(self) -> str | bool | Path | None:
        if self.labels is None:
            return None
        if self.labels == "none":
            return False
        return Path(self.labels) if Path(self.labels).is_file() else self.labels

    @property
    def inputs(self) -> list[Path]:
        """Every file that is read."""
        labels = self._labels()
        return [*self.files, *([labels] if isinstance(labels, Path) else [])]

    @property
    def source(self) -> str:
        """The files in one line."""
        return shlex.join(map(str, self.files)) if len(self.files) > 1 else str(self.files[0])

    @property
    def title(self) -> str:
        """The names of the files, for a heading."""
        return " + ".join(path.name for path in self.files)

    def words(self) -> list[str]:
        """The words of the command line that read the same."""
        words = [str(path) for path in self.files]
        for option, value in {
            "--views": self.views,
            "--labels": self.labels,
            "--id": self.id,
            "--join": None if self.join is Join.outer else self.join.value,
        }.items():
            words += [] if value is None else [option, value]
        words += ["--transpose"] if self.transpose else []
        if self.header is not None:
            words.append("--header" if self.header else "--no-header")
        return words


def reads(*, labels: bool = True) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command files in the place of its argument `reading`, and the options to read them.

    `labels` says whether it may know the classes. A command that declares --views itself gives
    it another meaning; it is part of the reading all the same.
    """
    added: dict[str, tuple[Any, Any]] = {"views": (options.ViewNames, None)}
    if labels:
        added["labels"] = (LabelSource, None)
    added |= {"id": (IdColumn, None), "join": (JoinOption, Join.outer)}
    added |= {"transpose": (Transpose, False), "header": (Header, None)}

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        own = inspect.signature(command, eval_str=True)

        @wraps(command)
        def call(**given: Any) -> None:
            said = {name: given.pop(name) for name in ("files", *added)}
            if "views" in own.parameters:
                given["views"] = said["views"]
            command(reading=Reading(**said), **given)

        shown = [
            parameter.replace(name="files", annotation=Files) if name == "reading" else parameter
            for name, parameter in own.parameters.items()
        ]
        shown += [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
            )
            for name, (annotation, default) in added.items()
            if name not in own.parameters
        ]
        call.__signature__ = own.replace(parameters=shown)  # type: ignore[attr-defined]
        call.__annotations__ = {parameter.name: parameter.annotation for parameter in shown}
        return call

    return decorate
