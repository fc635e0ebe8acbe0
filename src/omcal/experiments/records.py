"""Records of finished cells: JSON lines, each flushed to disk before the next cell starts.

`Summary` has their means and standard deviations over the seeds of each setting.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omcal import __version__
from omcal.experiments.plan import NOT_RUN, OVER_MEMORY, OVER_TIME, Cell, Measured

Record = dict[str, Any]
_WORDS = {"timeout": OVER_TIME, "memory": OVER_MEMORY, "error": "error"}


def is_current(record: Record) -> bool:
    """Whether a record was made with this minor version of omcal: others may give other results.

    Examples
    --------
    >>> [is_current({"versions": {"omcal": version}}) for version in (__version__, "0.1.7")]
    [True, False]
    """
    made_with = record.get("versions", {}).get("omcal", "")
    return bool(made_with.split(".")[:2] == __version__.split(".")[:2])


def made_with(record: Record) -> str:
    """Return the machine and the versions of a record in one line."""
    if "versions" not in record:
        return "not recorded"
    machine = record["machine"]
    versions = ", ".join(f"{name} {number}" for name, number in record["versions"].items())
    return f"{machine['system']}, {machine['processor']}, {machine['cores']} cores; {versions}"


def read_records(path: Path) -> list[Record]:
    """Return the complete records of a file in the order of writing; [] if there is no file.

    A line that a kill or a full disk has cut short is skipped.
    """
    if not path.exists():
        return []
    lines = map(_parse, path.read_bytes().splitlines())
    return [record for record in lines if record is not None]


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


@dataclass(frozen=True)
class RecordFile:
    """A file of records, locked so that only this process adds to it."""

    path: Path
    descriptor: int

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[RecordFile]:
        """Open or create the file for adding; raise if another process has it open."""
        import fcntl  # Unix only; reading records does not need it

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise OSError(
                    f"{path} is in use by another run; wait for it, or choose another --out."
                ) from error
            file = cls(path, descriptor)
            # The last line of a killed run may be incomplete, or lack only its line end.
            content = path.read_bytes()
            last = content[content.rfind(b"\n") + 1 :]
            os.ftruncate(descriptor, len(content) - len(last))
            if (record := _parse(last)) is not None:
                file.add(record)
            yield file
        finally:
            os.close(descriptor)

    def add(self, record: Record) -> None:
        """Append one record so that it survives a kill, a crash of the machine and a full disk."""
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        end = os.lseek(self.descriptor, 0, os.SEEK_END)
        try:
            written = os.write(self.descriptor, line)
            if written < len(line):
                raise OSError("the disk is full")
            os.fsync(self.descriptor)
        except OSError as error:
            # An incomplete record would damage the next one.
            os.ftruncate(self.descriptor, end)
            raise OSError(
                f"cannot save a record to {self.path} ({error.strerror or error}); the records "
                "before it are whole: make room and start the command again."
            ) from error


class Summary:
    """All records by setting; of repeated cells the last record counts.

    `status` is the status of each data set, a key of `contents.STATUS_WORDS`.
    """

    def __init__(self, records: Iterable[Record], status: Mapping[str, str] | None = None) -> None:
        self.records = list(records)
        # The status at the time of a run counts, even if the data were removed since.
        self.status: dict[str, str] = dict(status or {})
        self.status |= {record["dataset"]: record["data_status"] for record in self.records}
        self._by_setting: dict[str, dict[int, Record]] = {}
        for record in self.records:
            seeds = self._by_setting.setdefault(Cell.of(record).settings_key, {})
            seeds[record["seed"]] = record

    def runs(self, cell: Cell) -> list[Record]:
        """Return the records of all seeds of a cell's setting."""
        return list(self._by_setting.get(cell.settings_key, {}).values())

    def finished(self, cell: Cell) -> list[Record]:
        """Return the records with a result among `runs`, in the order of their seeds."""
        runs = [record for record in self.runs(cell) if record["status"] == "ok"]
        return sorted(runs, key=lambda record: record["seed"])

    def measure(self, cell: Cell, metric: str) -> Measured:
        """Return mean and spread of a metric, or of "seconds", over all seeds."""
        ends = [record["status"] for record in self.runs(cell)]
        for end in ("timeout", "memory"):
            if end in ends:
                return Measured(word=_WORDS[end])
        if "ok" in ends:
            return Measured.of([_value(record, metric) for record in self.finished(cell)])
        if ends:
            return Measured(word=_WORDS["error"])
        return Measured(word=NOT_RUN if self.is_present(cell.dataset) else "absent")

    def points(self, cells: Iterable[Cell], dataset: str, metric: str) -> list[tuple[Cell, float]]:
        """Return the cells of a data set with a result, each with the metric for its own seed.

        Points of a curve have one seed, but tables may have more seeds for one of these points.
        """
        return [
            (cell, _value(run, metric))
            for cell in cells
            if cell.dataset == dataset
            for run in self.finished(cell)
            if run["seed"] == cell.seed
        ]

    def is_present(self, dataset: str) -> bool:
        """Whether the data set exists, now or when its records were made."""
        return self.status.get(dataset, "absent") != "absent"

    def errors(self) -> list[Record]:
        """Return the records without a result, each setting once."""
        seen: dict[tuple[str, str, str], Record] = {}
        for runs in self._by_setting.values():
            for record in runs.values():
                if record["status"] != "ok":
                    seen.setdefault((record["dataset"], record["method"], record["status"]), record)
        return list(seen.values())


def _value(record: Record, metric: str) -> float:
    """Return a score of a record, its seconds, or, as "in VIEW", the agreement with a view."""
    values = {"seconds": record["seconds"], **record["scores"]}
    values |= {f"in {view}": share for view, share in record.get("view_agreement", {}).items()}
    return float(values[metric])
