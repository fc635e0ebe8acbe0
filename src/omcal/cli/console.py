"""Output of the commands: JSON or tables on stdout, single lines and progress on stderr."""

from __future__ import annotations

import json
import logging
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich import box
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)
from rich.table import Table

from omcal.cli.options import in_options

if TYPE_CHECKING:
    from omcal.experiments.plan import Cell
    from omcal.experiments.records import Record

# Control characters except tab and newline; 80 to 9f are those of 8-bit terminals.
_COMMANDS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")
_PIPED_WIDTH = 120  # a pipe has no width; with its default of 80, rich would cut tables


def visible(text: str) -> str:
    """Return a text with control characters escaped: names from files may contain them.

    Examples
    --------
    >>> visible("red\\x1b[31m")
    'red\\\\x1b[31m'
    """
    return _COMMANDS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def report_line(message: str) -> None:
    """Print a message as one line on stderr."""
    if sys.stderr is not None:  # closed by the parent process
        print("omcal:", visible(" ".join(message.split())), file=sys.stderr)


def report_progress(message: str) -> None:
    """Print a message as one line on stderr, if it is a terminal."""
    if sys.stderr is not None and sys.stderr.isatty():
        report_line(message)


def deliver(
    result: Mapping[str, Any], show: Callable[[Any], None], *, as_json: bool, quiet: bool = False
) -> None:
    """Print a result as JSON, or print its notes and call `show`, which prints its tables."""
    if as_json:
        print(json.dumps(result, indent=2, allow_nan=False, default=lambda one: one.to_dict()))
    elif not quiet:
        console = stdout()
        if hasattr(result.get("suggestion"), "sentence"):
            console.print(f"{result['suggestion'].sentence()}\n", soft_wrap=True)
        for note in result.get("notes", ()):
            console.print(f"Note: {note}")
        show(result)


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table on stdout; the first column is text, the others are numbers."""
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), pad_edge=False, show_edge=False)
    for position, column in enumerate(columns):
        # On a narrow terminal the titles of number columns wrap, not the names.
        table.add_column(column, justify="right" if position else "left", no_wrap=not position)
    for row in rows:
        table.add_row(*(visible(cell).replace("\n", r"\n") for cell in row))
    console = stdout()
    console.print(title, style="bold")
    console.print(table)
    console.print()


def stdout() -> Console:
    """Return a console on stdout that prints names unchanged, even with brackets."""
    width = None if sys.stdout is not None and sys.stdout.isatty() else _PIPED_WIDTH
    return _Console(highlight=False, markup=False, emoji=False, width=width)


class _Console(Console):
    """A console that escapes control characters."""

    def print(self, *objects: Any, **options: Any) -> None:
        shown = (visible(item) if isinstance(item, str) else item for item in objects)
        super().print(*shown, **options)

    def on_broken_pipe(self) -> None:
        raise BrokenPipeError  # the command handles it; rich would exit with code 1


@contextmanager
def collected_warnings(source: str = "") -> Iterator[list[str]]:
    """Collect the warnings of the block, each once, and report them when it ends without an error.

    `source` names their subject, for messages that do not name it.
    """
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        # These are for programmers, not for users of a command.
        for category in (DeprecationWarning, PendingDeprecationWarning, FutureWarning):
            warnings.simplefilter("ignore", category)
        yield notes
    about = f"{source}: " if source else ""
    notes.extend(dict.fromkeys(f"{about}{in_options(str(w.message))}" for w in caught))
    for note in notes:
        report_line(f"warning: {note}")


@contextmanager
def fit_progress(model: Any, *, shown: bool = True) -> Iterator[None]:
    """Show a bar of the iterations of a fit on a terminal."""
    console = Console(stderr=True)
    if not (shown and console.is_terminal):
        yield
        return
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[state]}"),
        TimeElapsedColumn(),
    )
    logger = logging.getLogger("omcal")
    level = logger.level
    with Progress(*columns, console=console, transient=True) as bar:
        handler = _BarHandler(bar, model)
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
        try:
            yield
        finally:
            logger.removeHandler(handler)
            logger.setLevel(level)


class _BarHandler(logging.Handler):
    """Log handler that advances a bar with each iteration, or with each of several runs."""

    def __init__(self, bar: Progress, model: Any) -> None:
        super().__init__()
        self._bar, self._model = bar, model
        self._task = bar.add_task("anchors and graphs", total=None, state="")

    def emit(self, record: logging.LogRecord) -> None:
        from omcal.model import progress

        shown: dict[str, Any] = {"state": visible(record.getMessage())}
        match (record.msg, record.args):
            case (progress.RUN_DONE, (int(run), int(n_runs), *_)):
                shown |= {"description": f"run {run}/{n_runs}", "completed": run, "total": n_runs}
            case (progress.ITERATION_DONE, (int(start), int(iteration), float(objective))):
                shown["state"] = f"iteration {iteration}, objective {objective:.6g}"
                if not hasattr(self._model, "n_runs"):  # iterations of several runs alternate
                    n_init = getattr(self._model, "n_init", 1)
                    shown |= {"description": f"start {start}/{n_init}", "completed": iteration}
                    shown["total"] = getattr(self._model, "max_iter", None)
        self._bar.update(self._task, **shown)


@contextmanager
def cell_progress(quiet: bool) -> Iterator[Any]:
    """Yield an observer of the runner: a line per finished cell and, on a terminal, a bar."""
    if quiet:
        yield None
        return
    console = Console(stderr=True)
    columns = (
        TextColumn("cells"),
        BarColumn(bar_width=30),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.fields[state]}"),
    )
    off = not console.is_terminal
    with Progress(*columns, console=console, transient=True, disable=off) as bar:
        yield _CellObserver(bar)


class _CellObserver:
    """Observer that prints a line per finished cell and advances a bar."""

    def __init__(self, bar: Progress) -> None:
        self._bar = bar
        self._task = bar.add_task("cells", total=None, state="")

    def begin(self, total: int, done: int, again: int) -> None:
        self._bar.update(self._task, total=total, completed=done)
        repeated = f"; {again} ended with an error and run again" if again else ""
        report_line(f"{total} cells, {done} of them finished before{repeated}")

    def update(self, running: Sequence[tuple[Cell, float]], waiting: int) -> None:
        cells = ", ".join(f"{cell} {seconds:.0f} s" for cell, seconds in running)
        self._bar.update(self._task, state=f"{waiting} waiting; running: {cells}")

    def finish(self, record: Record) -> None:
        from omcal.experiments.plan import Cell

        self._bar.advance(self._task)
        task = self._bar.tasks[self._task]
        if record["status"] == "ok":
            name, score = next(iter(record["scores"].items()))
            said = f"{name} {score:.3f}, {record['seconds']:.1f} s"
        else:
            said = f"{record['status']}, {record['error']}"
        report_line(f"[{task.completed:.0f}/{task.total:.0f}] {Cell.of(record)}: {said}")
