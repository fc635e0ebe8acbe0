"""Progress of experiments on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text

from omcal.cli.console import report_line

if TYPE_CHECKING:
    from omcal.experiments.plan import Cell
    from omcal.experiments.records import Record


@contextmanager
def cell_progress(quiet: bool) -> Iterator[Any]:
    """Give an observer of the runner: a bar on a terminal, else one line per finished cell."""
    from omcal.experiments.runner import Observer

    console = Console(stderr=True)
    if quiet:
        yield Observer()
    elif console.is_terminal:
        with Live(console=console, refresh_per_second=4, transient=True) as live:
            yield _Display(live)
    else:
        yield _Lines()


class _Lines:
    """Print one line per finished cell, for logs."""

    def __init__(self) -> None:
        self._total = self._done = 0

    def begin(self, total: int, done: int, again: int) -> None:
        self._total, self._done = total, done
        report_line(_beginning(total, done, again))

    def update(self, running: Sequence[tuple[Cell, float]], waiting: int) -> None:
        pass

    def finish(self, record: Record) -> None:
        self._done += 1
        report_line(f"[{self._done}/{self._total}] {describe(record)}")


class _Display:
    """Show a bar, the running cells, and the last finished one."""

    def __init__(self, live: Live) -> None:
        self._live = live
        self._bar = Progress(
            TextColumn("cells"), BarColumn(bar_width=40), MofNCompleteColumn(), TimeElapsedColumn()
        )
        self._task = self._bar.add_task("cells", total=None)
        self._last = ""

    def begin(self, total: int, done: int, again: int) -> None:
        self._bar.update(self._task, total=total, completed=done)
        if again:
            self._live.console.print(_beginning(total, done, again))

    def update(self, running: Sequence[tuple[Cell, float]], waiting: int) -> None:
        lines = [f"  running {seconds:4.0f} s  {cell}" for cell, seconds in running]
        lines += [f"  waiting {waiting}", f"  last: {self._last}" if self._last else ""]
        self._live.update(Group(self._bar, Text("\n".join(lines))))

    def finish(self, record: Record) -> None:
        self._bar.advance(self._task)
        self._last = describe(record)


def _beginning(total: int, done: int, again: int) -> str:
    """Return the numbers of all, of finished and of repeated cells in one line."""
    repeated = f"; {again} ended with an error and run again" if again else ""
    return f"{total} cells, {done} of them finished before{repeated}"


def describe(record: Record) -> str:
    """Return a record in one line."""
    from omcal.experiments.plan import Cell

    cell = Cell.of(record)
    if record["status"] == "ok":
        name, score = next(iter(record["scores"].items()))
        return f"{cell}: {name} {score:.3f}, {record['seconds']:.1f} s"
    return f"{cell}: {record['status']}, {record['error']}"
