"""Records of finished cells: JSON lines, each on the disk before the next cell is started."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omcal import __version__

Record = dict[str, Any]


class RecordError(OSError):
    """A record could not be saved; earlier records are whole."""


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
    """Return the whole records of a file in the order of writing; [] if there is no file.

    A line that was cut short, by a kill or a full disk, is no record and is passed over.
    """
    if not path.exists():
        return []
    records = []
    for line in path.read_bytes().splitlines():
        record = _parse(line)
        if record is not None:
            records.append(record)
    return records


def _parse(line: bytes) -> Record | None:
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


class RecordFile:
    """A file of records that this process alone may add to."""

    def __init__(self, path: Path, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    @contextmanager
    def open(cls, path: Path) -> Iterator[RecordFile]:
        """Open or create the file for adding; raise if another process has it open."""
        import fcntl  # of Unix; reading records does not need it

        descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise RecordError(
                    f"{path} is in use by another run; wait for it, or choose another --out."
                ) from error
            file = cls(path, descriptor)
            file._drop_cut_line()
            yield file
        finally:
            os.close(descriptor)

    def add(self, record: Record) -> None:
        """Save one record so that it outlives a kill, a crash of the machine and a full disk."""
        line = (json.dumps(record, allow_nan=False) + "\n").encode()
        end = os.lseek(self._descriptor, 0, os.SEEK_END)
        try:
            written = os.write(self._descriptor, line)
            if written < len(line):
                raise OSError("the disk is full")
            os.fsync(self._descriptor)
        except OSError as error:
            # Half a record would spoil the next one.
            os.ftruncate(self._descriptor, end)
            raise RecordError(
                f"cannot save a record to {self.path} ({error.strerror or error}); the records "
                "before it are whole: make room and start the command again."
            ) from error

    def _drop_cut_line(self) -> None:
        """Remove the incomplete last line of a killed run; end a whole line that lacks its end."""
        content = self.path.read_bytes()
        if not content or content.endswith(b"\n"):
            return
        start = content.rfind(b"\n") + 1
        if _parse(content[start:]) is None:
            os.ftruncate(self._descriptor, start)
        else:
            os.lseek(self._descriptor, 0, os.SEEK_END)
            os.write(self._descriptor, b"\n")
