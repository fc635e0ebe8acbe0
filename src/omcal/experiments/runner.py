"""Run cells side by side, each in its own process under its limits, and save every record."""

from __future__ import annotations

import multiprocessing
import os
import platform
import signal
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from omcal.experiments.plan import Cell
from omcal.experiments.records import Record, RecordFile, is_current, read_records
from omcal.experiments.worker import Limits, Source, run_cell
from omcal.machine import versions as required

_POLL_SECONDS = 0.25
_LOG_TAIL = 400
_LIMITS = {"timeout": "seconds", "memory": "gigabytes"}


class Observer:
    """Receiver of the progress of the runner; this base class ignores it."""

    def begin(self, total: int, done: int, again: int) -> None:
        """Receive the numbers of cells: all, finished before, and repeated after an error."""

    def update(self, running: Sequence[tuple[Cell, float]], waiting: int) -> None:
        """Receive the running cells with their seconds, and the number of waiting cells."""

    def finish(self, record: Record) -> None:
        """Receive the record of a cell that ended."""


@dataclass
class _Running:
    cell: Cell
    process: Any
    results: Connection
    log: Path
    began: float = field(default_factory=time.monotonic)

    @property
    def age(self) -> float:
        return time.monotonic() - self.began


def run_cells(
    cells: Sequence[Cell],
    source: Source,
    limits: Limits,
    path: Path,
    jobs: int = 1,
    *,
    budget: float = float("inf"),
    observer: Observer | None = None,
) -> list[Cell]:
    """Run the cells that have no record or an error, `jobs` at a time; return the cells left.

    After `budget` seconds no further cell is started.
    """
    if "forkserver" not in multiprocessing.get_all_start_methods():
        raise OSError(
            "the experiments limit the memory and time of their processes, which this system "
            "cannot do; run them on Linux or macOS."
        )
    # Each cell is forked from a process that has loaded the libraries and computed nothing.
    multiprocessing.set_forkserver_preload(["omcal.experiments.worker"])
    checksums = source.checksums()
    with RecordFile.open(path) as records:
        run = _Run(source, checksums, limits, jobs, records, observer or Observer())
        waiting = run.waiting([cell for cell in cells if cell.dataset in checksums])
        return run.work_through(waiting, time.monotonic() + budget)


@dataclass
class _Run:
    source: Source
    checksums: dict[str, str]
    limits: Limits
    jobs: int
    records: RecordFile
    observer: Observer
    over: set[str] = field(default_factory=set)  # settings that exceeded a limit with some seed

    def waiting(self, cells: list[Cell]) -> list[Cell]:
        """Return the cells to run.

        A record counts if file and minor version are the same, and its limits were not tighter.
        """
        ended = {}
        for record in read_records(self.records.path):
            same_data = record.get("file_print") == self.checksums.get(record["dataset"])
            if not same_data or not is_current(record):
                continue
            limit = _LIMITS.get(record["status"])
            if limit and record["limits"][limit] < getattr(self.limits, limit):
                continue
            cell = Cell.of(record)
            ended[cell.key] = record["status"]
            if limit:
                self.over.add(cell.settings_key)
        waiting = [cell for cell in cells if ended.get(cell.key, "error") == "error"]
        again = sum(cell.key in ended for cell in waiting)
        self.observer.begin(len(cells), len(cells) - len(waiting), again)
        return waiting

    def work_through(self, waiting: list[Cell], end: float) -> list[Cell]:
        """Run cells until the time `end`; return the cells left."""
        running: list[_Running] = []
        with tempfile.TemporaryDirectory(prefix="omcal-") as logs:
            try:
                while waiting or running:
                    while waiting and len(running) < self.jobs and time.monotonic() <= end:
                        cell = waiting.pop(0)
                        if cell.settings_key in self.over:
                            continue  # if one seed exceeds a limit, all seeds are skipped
                        with _interrupts_deferred():  # until `running` has it
                            running.append(self._start(cell, Path(logs)))
                    if not running:
                        break
                    self.observer.update([(r.cell, r.age) for r in running], len(waiting))
                    signs = [sign for r in running for sign in (r.results, r.process.sentinel)]
                    wait(signs, timeout=_POLL_SECONDS)
                    running = [task for task in running if not self._collect(task)]
            finally:
                for task in running:
                    _stop(task)
        return [cell for cell in waiting if cell.settings_key not in self.over]

    def _start(self, cell: Cell, logs: Path) -> _Running:
        context = multiprocessing.get_context("forkserver")
        receiver, sender = context.Pipe(duplex=True)
        log = logs / f"{time.monotonic_ns()}.log"
        arguments = (cell, self.source, self.limits, sender, log)
        process = context.Process(target=run_cell, args=arguments, daemon=True)
        process.start()
        sender.close()
        return _Running(cell, process, receiver, log)

    def _collect(self, task: _Running) -> bool:
        """Save the record of a cell that ended or is over a limit; return whether there is one."""
        if task.results.poll():
            try:
                outcome = task.results.recv()
            except EOFError:  # the process died, which closed its end of the pipe
                task.process.join()
                outcome = _died(task)
        elif not task.process.is_alive():
            outcome = _died(task)
        elif task.age > self.limits.seconds:
            outcome = {"status": "timeout", "error": f"over {self.limits.seconds:g} s"}
        else:
            return False
        _stop(task)
        if outcome["status"] in _LIMITS:
            self.over.add(task.cell.settings_key)
        record = {
            **asdict(task.cell),
            **outcome,
            "file_print": self.checksums[task.cell.dataset],
            "data_status": self.source.status(task.cell.dataset, outcome),
            "limits": {name: getattr(self.limits, name) for name in _LIMITS.values()},
            "threads": self.limits.threads,
            "jobs": self.jobs,
            "versions": versions(),
            "machine": machine(),
            "load": round(os.getloadavg()[0], 1),  # of the whole machine; it makes times longer
            "finished": datetime.now(UTC).isoformat(timespec="seconds"),
        }
        self.records.add(record)
        self.observer.finish(record)
        return True


@contextmanager
def _interrupts_deferred() -> Iterator[None]:
    """Defer Ctrl-C to the end of the block, and block it in processes that start in the block.

    A terminal sends Ctrl-C to all its processes; a cell that is importing would print a traceback.
    """
    resource_tracker.ensure_running()  # starting it later would unblock the signal
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})  # processes inherit it
    # Threads of libraries do not block the signal; a handler of ours keeps it from this thread.
    came: list[int] = []
    in_main = threading.current_thread() is threading.main_thread()
    handler = signal.getsignal(signal.SIGINT)
    if in_main:
        signal.signal(signal.SIGINT, lambda number, _: came.append(number))
    try:
        yield
    finally:
        if in_main:
            signal.signal(signal.SIGINT, handler)
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
    if came:
        raise KeyboardInterrupt


def _died(task: _Running) -> dict[str, Any]:
    """Return the outcome of a process that ended without sending an outcome."""
    code = task.process.exitcode
    tail = task.log.read_text(errors="replace")[-_LOG_TAIL:].strip() if task.log.exists() else ""
    if code == -9:
        return {"status": "memory", "error": "killed by the system, most likely for its memory"}
    if "memory" in tail.lower():  # C libraries abort the process if an allocation fails
        return {"status": "memory", "error": " ".join(tail.split())}
    how = f"signal {-code}" if code is not None and code < 0 else f"exit code {code}"
    return {"status": "error", "error": " ".join(f"the process died ({how}) {tail}".split())}


def _stop(task: _Running) -> None:
    task.results.close()
    if task.process.is_alive():
        task.process.kill()
    task.process.join()


@cache
def versions() -> dict[str, str]:
    """Return the versions of this package and of its numerical libraries."""
    found = required.versions()
    with suppress(PackageNotFoundError):
        found["numba"] = version("numba")
    return found


@cache
def machine() -> dict[str, Any]:
    """Return processor, number of cores and system."""
    return {"processor": _processor(), "cores": os.cpu_count(), "system": platform.system()}


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()
