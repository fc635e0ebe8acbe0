"""Atomic writing of files."""

from __future__ import annotations

import errno
import os
import re
import secrets
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import BinaryIO

from omcal.machine.memory import format_bytes

try:
    import fcntl
except ImportError:  # pragma: no cover - Windows: no locks, so leftovers stay where they are
    fcntl = None  # type: ignore[assignment]

AnyPath = str | os.PathLike[str]

_TEMPORARY = re.compile(r"\.omcal-[0-9a-f]{16}\.tmp")
_NO_FOLLOW = getattr(os, "O_NOFOLLOW", 0)
_NO_WAIT = getattr(os, "O_NONBLOCK", 0)
_BINARY = getattr(os, "O_BINARY", 0)  # prevents Windows from changing line ends


@contextmanager
def replacing(path: AnyPath, *, size: int | None = None, folder: bool = False) -> Iterator[Path]:
    """Yield a temporary name beside `path`; rename it to `path` when the block succeeds.

    The name is random and created exclusively, with the permissions of the file that it replaces,
    and synced to disk before the rename. If `path` is a link, its target is replaced. Temporary
    files of a killed process are removed by the next process that writes to the same folder. `size`
    is the expected number of bytes, for the message of a full disk; a `folder` must not exist yet.
    """
    final = _destination(path)
    _clear_leftovers(final.parent, os.getpid())
    reached = 0
    try:
        with _temporary_beside(final, folder) as temporary:
            try:
                yield temporary
                _flush(temporary)
            finally:
                reached = _size(temporary)
            temporary.replace(final)
            with suppress(OSError):  # some systems cannot sync a folder
                _sync(final.parent)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise _no_room(error, final, size, reached) from error


def write_whole(path: AnyPath, content: bytes | str) -> None:
    """Write bytes or text (UTF-8) to a file atomically."""
    # File names may contain bytes that are not UTF-8; the rest of the text must stay readable.
    data = content.encode("utf-8", "backslashreplace") if isinstance(content, str) else content
    with replacing(path, size=len(data)) as temporary:
        temporary.write_bytes(data)


def open_regular(path: AnyPath) -> BinaryIO:
    """Open a regular file for reading; refuse pipes and devices, where reading may never end."""
    file = os.open(path, os.O_RDONLY | _NO_WAIT | _BINARY)
    kind = os.fstat(file).st_mode
    if not stat.S_ISREG(kind):
        os.close(file)
        if stat.S_ISDIR(kind):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return os.fdopen(file, "rb")


def require_replaceable(path: AnyPath) -> None:
    """Raise the OSError that `replacing` would raise, if it can be predicted."""
    with _temporary_beside(_destination(path), False):
        pass


def _destination(path: AnyPath) -> Path:
    """Return the path of a file with symbolic links resolved."""
    final = Path(os.path.realpath(path))
    try:
        kind = final.lstat().st_mode
    except FileNotFoundError:
        return final
    if stat.S_ISLNK(kind):
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), str(path))
    if stat.S_ISDIR(kind):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(kind):
        raise OSError(errno.EINVAL, "not a regular file", str(path))
    return final


@contextmanager
def _temporary_beside(final: Path, folder: bool) -> Iterator[Path]:
    """Create a file or folder beside `final`, locked while the block writes it; remove it later.

    Windows has no lock: a file that is open there cannot be renamed.
    """
    known = final.stat() if final.exists() else None
    mode = 0o666 if known is None else stat.S_IMODE(known.st_mode)
    temporary, lock = _created(final, folder, mode)
    try:
        if lock is not None and known is not None:
            with suppress(OSError):  # only root may change the owner
                os.fchown(lock, known.st_uid, known.st_gid)
            with suppress(OSError):
                os.fchmod(lock, mode)
        yield temporary
    finally:
        _remove(temporary)
        if lock is not None:
            os.close(lock)


def _created(final: Path, folder: bool, mode: int) -> tuple[Path, int | None]:
    """Create a file or folder exclusively, and lock it if the system has locks."""
    try:
        while True:
            temporary = final.with_name(f".omcal-{secrets.token_hex(8)}.tmp")
            flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | _NO_FOLLOW
            if folder:
                temporary.mkdir()
                flags = os.O_RDONLY
            if fcntl is None:
                if not folder:
                    os.close(os.open(temporary, flags, mode))
                return temporary, None
            lock = os.open(temporary, flags, mode)
            _locked(lock)
            # Before the lock another process may have removed it as a leftover.
            if temporary.exists():
                return temporary, lock
            os.close(lock)
    except OSError as error:
        raise OSError(error.errno, error.strerror, str(final)) from error


def _locked(file: int) -> bool:
    """Try to lock an open file; return False if another process holds the lock."""
    if fcntl is None:
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


@cache
def _clear_leftovers(folder: Path, process: int) -> None:
    """Remove, once per process, the leftovers of processes that were killed while writing."""
    with suppress(OSError), os.scandir(folder) as entries:
        names = [entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)]
        for name in names:
            with suppress(OSError):
                _clear(folder / name)


def _clear(leftover: Path) -> None:
    file = os.open(leftover, os.O_RDONLY | _NO_FOLLOW | _NO_WAIT)
    try:
        if _locked(file):
            _remove(leftover)
    finally:
        os.close(file)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def _flush(path: Path) -> None:
    """Flush a file, or a folder with its contents, to the disk."""
    if path.is_dir():
        for inner in path.rglob("*"):
            _sync(inner)
    _sync(path)


def _sync(path: Path) -> None:
    if fcntl is None and path.is_dir():
        return  # Windows cannot open or sync folders
    file = os.open(path, os.O_RDWR if fcntl is None else os.O_RDONLY)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def _size(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.lstat().st_size for file in files if file.is_file())


def _no_room(error: OSError, final: Path, size: int | None, reached: int) -> OSError:
    """Return the error of a full disk, with the number of missing bytes."""
    free = shutil.disk_usage(final.parent).free
    needed = max(size or 0, reached)
    if needed > free:
        said = f"{format_bytes(needed)} are needed and {format_bytes(free)} are free; about "
        said += f"{needed - free} bytes are missing"
    else:
        said = f"more than the free {format_bytes(free)} are needed"
    said = f"no space left on its disk: {said}; free some, or choose another"
    return OSError(error.errno, said, str(final))
