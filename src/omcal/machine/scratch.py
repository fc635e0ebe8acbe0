"""Arrays in unlinked files, which disappear when the process ends for any reason."""

from __future__ import annotations

import errno
import mmap
import os
import tempfile
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import DTypeLike

from omcal.machine.arrays import Array
from omcal.machine.memory import format_bytes

_ZEROS = bytes(1 << 20)


class Scratch:
    """Memory-mapped arrays in a folder, by default the system's folder for temporary files.

    The files are deleted right after they are created. Their space is freed with the last array
    that uses it, even after an error, an interrupt or a kill.
    """

    def __init__(self, folder: str | os.PathLike[str] | None = None) -> None:
        self.folder: Path = Path(tempfile.gettempdir() if folder is None else folder)
        if not self.folder.is_dir():
            raise ValueError(f"scratch_dir={str(folder)!r} is not a folder; create it first.")
        self._mappings: list[mmap.mmap] = []

    def array(self, shape: tuple[int, ...], dtype: DTypeLike) -> Array:
        """Return a new array of zeros; its disk space is reserved at once."""
        dtype = np.dtype(dtype)
        n_bytes = int(np.prod(shape)) * dtype.itemsize
        try:
            with tempfile.TemporaryFile(dir=self.folder) as file:
                # If a mapped file cannot grow, the first write would kill the process.
                _take_room(file, n_bytes)
                mapping = mmap.mmap(file.fileno(), n_bytes)
        except OSError as error:
            if error.errno not in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                raise
            raise OSError(
                error.errno,
                f"scratch_dir={str(self.folder)!r} has no room for {format_bytes(n_bytes)} more; "
                "free some, choose another folder, or raise memory_limit",
            ) from error
        self._mappings.append(mapping)
        return np.frombuffer(mapping, dtype=dtype).reshape(shape)

    def release(self) -> None:
        """Release the memory of the arrays; their files keep the values."""
        if hasattr(mmap, "MADV_DONTNEED"):
            for mapping in self._mappings:
                mapping.madvise(mmap.MADV_DONTNEED)


def _take_room(file: IO[bytes], n_bytes: int) -> None:
    if hasattr(os, "posix_fallocate"):
        os.posix_fallocate(file.fileno(), 0, n_bytes)
        return
    for start in range(0, n_bytes, len(_ZEROS)):
        file.write(_ZEROS[: n_bytes - start])
    file.flush()
