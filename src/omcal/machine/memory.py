"""Available memory, and an early error for work that would not fit."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from pathlib import Path


def available_memory() -> int:
    """Return the bytes of memory available to this process, by machine and control group."""
    free = _machine_memory()
    limit, used = _group_number("memory.max"), _group_number("memory.current")
    if limit is not None and used is not None:
        free = min(free, max(limit - used, 0))
    return free


def require_memory(n_bytes: float, what: str, remedy: str) -> None:
    """Raise MemoryError where `n_bytes` exceed the available memory.

    `what` is the subject of the message, "AMGL on 50000 samples"; `remedy` is its last sentence.
    """
    free = available_memory()
    if n_bytes > free:
        raise MemoryError(
            f"{what} needs about {format_bytes(n_bytes)} of memory and "
            f"{format_bytes(free)} are available. {remedy}"
        )


def format_bytes(n_bytes: float) -> str:
    """Return a human-readable size.

    Examples
    --------
    >>> format_bytes(1.5e9)
    '1.5 GB'
    """
    for unit, size in (("TB", 1e12), ("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if n_bytes >= size:
            return f"{n_bytes / size:.1f} {unit}"
    return f"{n_bytes:.0f} B"


def parse_bytes(size: str | float) -> int:
    """Return the number of bytes in a text such as "4GB" or "512 MiB"; numbers are bytes.

    Examples
    --------
    >>> parse_bytes("4GB"), parse_bytes("1.5 KiB"), parse_bytes(1e6)
    (4000000000, 1536, 1000000)
    """
    if not isinstance(size, str):
        return int(size)
    match = re.fullmatch(r"\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(?:([kKMGT])(i?))?B?\s*", size)
    number = float(match[1]) if match else 0.0
    if match is None or number <= 0:
        raise ValueError(f"{size!r} is not a size; write it like '4GB', '500MB' or '2GiB'.")
    power = " kMGT".index(match[2].replace("K", "k")) if match[2] else 0
    return int(number * (1024 if match[3] else 1000) ** power)


def memory_line(name: str, file: str = "self/status") -> int | None:
    """Return the bytes that Linux reports in a file of /proc under a name such as VmData."""
    with suppress(OSError):
        for line in Path("/proc", file).read_text(encoding="ascii").splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) * 1024
    return None


def _machine_memory() -> int:
    """Return the free memory on Linux and Windows, all memory elsewhere, inf if unknown."""
    if (free := memory_line("MemAvailable", "meminfo")) is not None:
        return free
    if hasattr(ctypes, "windll"):
        return _windows_memory()
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return sys.maxsize


class _MemoryStatus(ctypes.Structure):
    """MEMORYSTATUSEX of Windows, up to the fields in use."""

    _fields_ = (
        ("length", ctypes.c_uint32),
        ("load", ctypes.c_uint32),
        ("total_physical", ctypes.c_uint64),
        ("free_physical", ctypes.c_uint64),
        ("rest", ctypes.c_uint64 * 5),
    )


def _windows_memory() -> int:
    status = _MemoryStatus(length=ctypes.sizeof(_MemoryStatus))
    if not ctypes.windll.kernel32.GlobalMemoryStatusEx(ctypes.byref(status)):  # type: ignore[attr-defined,unused-ignore]
        return sys.maxsize
    return int(status.free_physical)


def _group_number(name: str) -> int | None:
    try:
        return int(Path("/sys/fs/cgroup", name).read_text(encoding="ascii"))
    except (OSError, ValueError):  # no control group, or "max": no limit
        return None
