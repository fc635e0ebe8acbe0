"""Read arrays: .npy, .npz and folders of .npy; idx files (MNIST), and folders of them."""

from __future__ import annotations

import gzip
import math
import re
import zipfile
from pathlib import Path
from typing import IO, cast

import numpy as np

from omcal.datasets._data import Contents, check_declared
from omcal.datasets.readers._trees import gather, join_splits
from omcal.machine.archive import HEADER
from omcal.machine.arrays import Array
from omcal.views.pair import DataError

TYPES = {0x08: ">u1", 0x09: ">i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}
GZIP_MAGIC = b"\x1f\x8b"


def is_npy_folder(path: Path, start: bytes) -> bool:
    """Whether a folder holds NumPy arrays."""
    return path.is_dir() and any(path.glob("*.npy"))


def read_npy(path: Path) -> Contents:
    """Map one array into memory."""
    return Contents("NumPy array", {"X": _mapped(path)})


def read_npy_folder(path: Path) -> Contents:
    """Map every .npy file of a folder into memory, under its name."""
    files = sorted(path.glob("*.npy"))
    for file in files:
        if not file.is_file():
            raise DataError(f"{file.name} is a pipe, a device, a folder or a link to nothing.")
    return gather("folder of NumPy arrays", {file.stem: _mapped(file) for file in files})


def _mapped(path: Path) -> Array:
    try:
        # An object array would be unpickled, which can run code; NumPy refuses it here.
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception as error:
        raise DataError(
            f"array {path.name!r} cannot be read ({error}); it is cut off, damaged or no array of "
            "numbers: save it again with numpy.save."
        ) from error
    # Labels and parts of sparse matrices are small, and are read.
    return array if array.ndim > 1 else np.array(array)


def read_npz(path: Path) -> Contents:
    """Read every array of a NumPy archive."""
    variables = {}
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        _check_archive(members, path.stat().st_size)
        for member in members:
            name = member.filename.removesuffix(".npy")
            with archive.open(member) as stream:
                variables[name] = _read_member(stream, name, member)
    return gather("NumPy archive", variables)


def _check_archive(members: list[zipfile.ZipInfo], size: int) -> None:
    if not members:
        raise DataError("the archive is empty.")
    strange = [member.filename for member in members if not member.filename.endswith(".npy")]
    if HEADER in strange:
        raise DataError("it is a saved model; pass it to omcal predict or omcal update with data.")
    if strange:
        raise DataError(
            f"the archive holds {strange[0]!r}, which is no NumPy array; unpack it and open its "
            "members."
        )
    if len({member.filename for member in members}) < len(members):
        raise DataError("the archive holds two arrays of the same name.")
    # Overlapping members would let a small file expand many times.
    if sum(member.compress_size for member in members) > size:
        raise DataError("the members of the archive overlap; it is damaged or hostile.")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise DataError(f"array {member.filename!r} has a compression that NumPy never uses.")


def _read_member(stream: IO[bytes], name: str, member: zipfile.ZipInfo) -> Array:
    version = np.lib.format.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = np.lib.format.read_array_header_2_0(stream)
    else:
        raise DataError(f"array {name!r} has the unknown header version {version}.")
    if dtype.hasobject:
        raise DataError(
            f"array {name!r} holds Python objects, which would have to be unpickled and could run "
            "code; save it as an array of numbers or strings."
        )
    if min(shape, default=0) < 0:
        raise DataError(f"array {name!r} declares the shape {shape}.")
    n_bytes = math.prod(shape) * dtype.itemsize
    check_declared(n_bytes, member.compress_size, f"array {name!r} of shape {shape}")
    # Compare the size first; reading to the end makes zipfile compare the checksum.
    if stream.tell() + n_bytes != member.file_size:
        raise DataError(f"array {name!r} of shape {shape} does not match its number of bytes.")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)


def is_idx_file(path: Path, start: bytes = b"") -> bool:
    """Whether a file begins like an idx file, with or without gzip."""
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
    """Open a file, decompressed if it is gzip."""
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
            raise DataError("the file ends within its header.")
        shape = tuple(int(size) for size in np.frombuffer(sizes, ">u4"))
        n_bytes = math.prod(shape) * dtype.itemsize
        check_declared(n_bytes, path.stat().st_size, f"{path.name!r} of shape {shape}")
        raw = stream.read(n_bytes)
        if len(raw) < n_bytes or stream.read(1):
            raise DataError(f"{path.name!r} of shape {shape} does not match its number of bytes.")
    array = np.frombuffer(raw, dtype).reshape(shape)
    return array.astype(dtype.newbyteorder("="))
