"""The files that a command reads, and the options for reading them."""

from __future__ import annotations

import inspect
import shlex
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

import omcal
from omcal.cli import options
from omcal.cli.console import deliver, report_progress
from omcal.cli.options import Command, gathers

if TYPE_CHECKING:
    from omcal.datasets import MultiViewData
    from omcal.select import ClusterNumber

_how_read = partial(typer.Option, rich_help_panel="How the files are read")


Files = Annotated[
    list[str],
    typer.Argument(
        metavar="FILE",
        help="The views: one file or folder, or several to join. VIEW=FILE names the view of a "
        "file; - reads a CSV table from standard input.",
    ),
]
LabelSource = Annotated[
    str | None,
    typer.Option(
        "--labels",
        "-l",
        metavar="NAME|FILE",
        help="Name of the classes in FILE, or a file of their own; none: no classes.",
    ),
]
IdColumn = Annotated[
    str | None,
    _how_read(
        "--id",
        metavar="NAME",
        help="Name of the column of ids; none: ids and row numbers are features.",
    ),
]
JoinOption = Annotated[
    Literal["outer", "inner"],
    _how_read(
        "--join", help="Of several files: all samples (outer), or those in every file (inner)."
    ),
]
Transpose = Annotated[bool, _how_read("--transpose", help="Samples are in columns.")]
Header = Annotated[
    bool | None,
    _how_read(
        "--header/--no-header",
        help="Whether the first row of tables holds names; by default decided by its cells.",
        show_default=False,
    ),
]


@dataclass(frozen=True)
class Reading:
    """The files to read, the options for reading them, and how much a command prints."""

    files: Files
    views: options.ViewNames = None
    labels: LabelSource = None
    id: IdColumn = None
    join: JoinOption = "outer"
    transpose: Transpose = False
    header: Header = None
    quiet: options.Quiet = False
    as_json: options.Json = False
    stdin: Path | None = None  # a copy of standard input

    def load(self, **changes: Any) -> MultiViewData:
        """Load the data set; `changes` replace arguments of `load_views`."""
        paths, choices = self.arguments()
        return omcal.datasets.load_views(paths, **{**choices, **changes})

    def arguments(self) -> tuple[list[Path] | dict[str, Path], dict[str, Any]]:
        """Return the arguments of `load_views` and `describe`."""
        return self._named_files() or self.paths, {
            "views": options.names(self.views),
            "labels": self._labels(),
            "id": False if self.id == "none" else self.id,
            "join": self.join,
            "transpose": self.transpose,
            "header": self.header,
        }

    @property
    def paths(self) -> list[Path]:
        """Return the paths, without view names."""
        return [path for _, path in self._parts()]

    def _parts(self) -> list[tuple[str | None, Path]]:
        """Return (view name or None, path) of each file; the name is from VIEW=FILE."""
        parts = []
        for word in self.files:
            name, _, path = word.partition("=")
            if not name or not path or Path(word).exists():
                name, path = "", word
            parts.append((name or None, self.stdin if path == "-" and self.stdin else Path(path)))
        return parts

    def _named_files(self) -> dict[str, Path]:
        """Return the paths by view name; an empty dict if no view is named."""
        parts = self._parts()
        if all(name is None for name, _ in parts):
            return {}
        names = [name or path.stem for name, path in parts]
        twice = [name for name in names if names.count(name) > 1]
        if twice:
            raise omcal.datasets.DataError(f"two files are named {twice[0]!r}; rename one.")
        return dict(zip(names, self.paths, strict=True))

    def by_stem(self) -> Reading:
        """Return a copy in which the view of each file has the name of the file."""
        named = [f"{name or path.stem}={path}" for name, path in self._parts()]
        return replace(self, files=named)

    def _labels(self) -> str | bool | Path | None:
        if self.labels is None:
            return None
        if self.labels == "none":
            return False
        if self.labels == "-" and self.stdin is not None:
            return self.stdin
        return Path(self.labels) if Path(self.labels).is_file() else self.labels

    @property
    def inputs(self) -> list[Path]:
        """Return all files that are read."""
        labels = self._labels()
        return [*self.paths, *([labels] if isinstance(labels, Path) else [])]

    def print(self, result: Mapping[str, Any], show: Callable[[Any], None]) -> None:
        """Print a result as the user asked; `show` prints its tables.

        In JSON the files come first and the version last.
        """
        whole = {"file": self.source, **result, "version": omcal.__version__}
        deliver(whole, show, as_json=self.as_json, quiet=self.quiet)

    @property
    def source(self) -> str:
        """Return the files in one line."""
        return shlex.join(self.files) if len(self.files) > 1 else self.files[0]

    @property
    def title(self) -> str:
        """Return the names of the files, for a heading."""
        return " + ".join(path.name for path in self.paths)

    def words(self) -> list[str]:
        """Return the command-line arguments for the same files and options."""
        words = list(self.files)
        for option, value in {
            "--views": self.views,
            "--labels": self.labels,
            "--id": self.id,
            "--join": None if self.join == "outer" else self.join,
        }.items():
            words += [] if value is None else [option, value]
        words += ["--transpose"] if self.transpose else []
        if self.header is not None:
            words.append("--header" if self.header else "--no-header")
        return words


@contextmanager
def standard_input(words: Sequence[str | None]) -> Iterator[Path | None]:
    """Copy standard input to a file for the duration of the block, if one of `words` is "-"."""
    times = sum(word == "-" or (word or "").endswith("=-") for word in words)
    if not times:
        yield None
        return
    if times > 1:
        raise omcal.datasets.DataError("standard input (-) is given twice; it can be read once.")
    if sys.stdin is None or sys.stdin.isatty():
        raise omcal.datasets.DataError("standard input (-) is a terminal; pipe a table into it.")
    with tempfile.TemporaryDirectory(prefix="omcal-") as folder:
        path = Path(folder) / "stdin.csv"
        with path.open("wb") as file:
            shutil.copyfileobj(sys.stdin.buffer, file)
        try:
            yield path
        except omcal.datasets.DataError as error:
            message = str(error).replace(str(path), "standard input")
            raise omcal.datasets.DataError(message) from error.__cause__


def reads(*without: str, views: Any = options.ViewNames) -> Callable[[Command], Command]:
    """Replace the parameter `reading` of a command by files and options, the fields of `Reading`.

    The command lacks the options `without`; `views` is its option --views.
    """
    types = get_type_hints(Reading, include_extras=True)
    left_out = {"stdin", *without}
    parameters = {
        field.name: (types[field.name], field.default)
        for field in fields(Reading)
        if field.name not in left_out
    }
    parameters |= {"files": (Files, inspect.Parameter.empty), "views": (views, None)}

    @contextmanager
    def reading_of(**arguments: Any) -> Iterator[Reading]:
        with standard_input([*arguments["files"], arguments.get("labels")]) as stdin:
            yield Reading(**arguments, stdin=stdin)

    return gathers("reading", parameters, reading_of)


def remarks(data: MultiViewData, *, new: bool = False) -> list[str]:
    """Return remarks on ids, labels, columns and absent samples.

    The columns of `new` samples are encoded as in the model, so there are no remarks on them.
    """
    from omcal.datasets._data import other_notes

    notes = other_notes(data) if new else data.notes
    taken = [f"ids: {data.id_name}"] if data.ids is not None else []
    taken += [f"labels: {data.label_name}"] if data.labels is not None else []
    lacking = {name: int((~here).sum()) for name, here in (data.present or {}).items()}
    listed = ", ".join(f"{name} lacks {count}" for name, count in lacking.items() if count)
    return [*taken, *notes, *([f"of {data.n_samples} samples {listed}"] if listed else [])]


def suggested(
    number: int | None, data: MultiViewData, parameters: Mapping[str, Any], seed: int
) -> tuple[int, ClusterNumber | None]:
    """Return the number of clusters: as given, or as suggested by the data, with the suggestion."""
    if number is not None:
        return number, None
    same = {name: parameters[name] for name in ("scale", "weighting") if name in parameters}
    found = omcal.select.n_clusters(data.views, random_state=seed, progress=report_progress, **same)
    return found.suggestion, found
