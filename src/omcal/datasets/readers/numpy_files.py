"""Read NumPy files: .npy, .npz and folders of .npy."""

from __future__ import annotations

import math
import zipfile
from pathlib import Path
from typing import IO

import numpy as np

from omcal.datasets._contents import Contents, check_declared
from omcal.datasets.readers._variables import gather
from omcal.machine.arrays import Array
from omcal.views.pair import DataError


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
    # Labels and the parts of sparse matrices are short: read them.
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
            raise DataError(f"array {member.filename!r} is packed in a way that NumPy never uses.")


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
    # The size first: reading to the end makes zipfile compare the checksum.
    if stream.tell() + n_bytes != member.file_size:
        raise DataError(f"array {name!r} of shape {shape} and its bytes differ in length.")
    stream.seek(0)
    return np.lib.format.read_array(stream, allow_pickle=False)
