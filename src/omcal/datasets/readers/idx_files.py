"""Read idx files (MNIST), compressed with gzip or not, and folders of them."""

from __future__ import annotations

import gzip
import math
import re
from pathlib import Path
from typing import IO, cast

import numpy as np

from omcal.datasets._contents import Contents, check_declared
from omcal.datasets.readers._variables import join_splits
from omcal.machine.arrays import Array
from omcal.views.pair import DataError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP_MAGIC = b"\x1f\x8b"


def is_idx_file(path: Path, start: bytes = b"") -> bool:
    """Whether a file begins like an idx file, compressed with gzip or not."""
    try:
        with open_maybe_packed(path) as stream:
            start = stream.read(4)
    except (OSError, EOFError):
        return False
    return len(start) == 4 and start[:2] == b"\0\0" and start[2] in TYPES and 1 <= start[3] <= 8


def is_idx_folder(path: Path, start: bytes) -> bool:
    """Whether a folder holds idx files."""
    return path.is_dir() and bool(idx_files(path))


def open_maybe_packed(path: Path) -> IO[bytes]:
    """Open a file, decompressed where it is gzip."""
    with path.open("rb") as file:
        packed = file.read(2) == GZIP_MAGIC
    return cast(IO[bytes], gzip.open(path, "rb")) if packed else path.open("rb")


def read_idx(path: Path) -> Contents:
    """Read one array of images or features; labels alone are refused."""
    array = _read_array(path)
    if array.ndim == 1:
        raise DataError(
            f"it holds {len(array)} labels and no view; open the folder with the images instead."
        )
    return Contents("idx", {"X": array})


def read_idx_folder(path: Path) -> Contents:
    """Read the images and labels of a folder; train precedes test."""
    found = {}
    for file in idx_files(path):
        # train-images-idx3-ubyte.gz
        name = re.sub(r"[-.]idx\d.*$", "", file.name)
        found[name] = _read_array(file)
    return Contents("folder of idx files", join_splits(found))


def idx_files(folder: Path) -> list[Path]:
    """Return the idx files in a folder."""
    return [file for file in sorted(folder.iterdir()) if file.is_file() and is_idx_file(file)]


def _read_array(path: Path) -> Array:
    with open_maybe_packed(path) as stream:
        start = stream.read(4)
        dtype, n_dims = np.dtype(TYPES[start[2]]), start[3]
        sizes = stream.read(4 * n_dims)
        if len(sizes) < 4 * n_dims:
            raise DataError("it ends within its header.")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        n_bytes = math.prod(shape) * dtype.itemsize
        check_declared(n_bytes, path.stat().st_size, f"{path.name!r} of shape {shape}")
        raw = stream.read(n_bytes)
        if len(raw) < n_bytes or stream.read(1):
            raise DataError(f"{path.name!r} of shape {shape} and its bytes differ in length.")
    array = np.frombuffer(raw, dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="))
