"""A file of one JSON header and plain arrays: written atomically, and checked when it is read.

The file is a zip archive without compression: the declared size of a member is compared with its
stored bytes before it is read. NumPy opens it as an .npz. The last member is a checksum over the
names and bytes of all others.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, Self

import numpy as np

from omcal.machine.arrays import Array
from omcal.machine.files import replacing

HEADER = "model.json"
_CHECKSUM = "sha256"
_MAX_HEADER = 64 * 2**20
_MAX_DIRECTORY = 2**20
_END_SIZE = 22  # bytes of the record at the end of a zip file without a comment
_LOCATOR_SIZE = 20  # bytes of the record before it in files of more than 2 GiB
_END64_SIZE = 56  # bytes of the record before that one
_DATE = (1980, 1, 1, 0, 0, 0)  # the same content gives the same bytes
_BLOCK = 2**20


class ArchiveError(ValueError):
    """The file is not an archive of this kind, or is damaged."""


def write_archive(path: Path, header: Mapping[str, Any], arrays: Mapping[str, Array]) -> None:
    """Write a header and named arrays of numbers, without copying the arrays."""
    size = sum(array.nbytes + 512 for array in arrays.values())
    with replacing(path, size=size) as temporary:
        with zipfile.ZipFile(temporary, "w", zipfile.ZIP_STORED) as archive:
            content = json.dumps(header, indent=1).encode()
            archive.writestr(zipfile.ZipInfo(HEADER, _DATE), content)
            for name, array in arrays.items():
                member = zipfile.ZipInfo(f"{name}.npy", _DATE)
                member.file_size = array.nbytes + 512  # zipfile chooses the layout by it
                with archive.open(member, "w") as stream:
                    # Version 1.0 of the format is sufficient for all types that are written here.
                    np.lib.format.write_array(stream, array, (1, 0), allow_pickle=False)
        with zipfile.ZipFile(temporary, "a", zipfile.ZIP_STORED) as archive:
            checksum = _checksum(archive, archive.infolist())
            archive.writestr(zipfile.ZipInfo(_CHECKSUM, _DATE), checksum)


def _checksum(archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]) -> str:
    """Return the checksum over the names and the bytes of members."""
    digest = hashlib.sha256()
    for member in members:
        # Both lengths are hashed, so that no two lists of members give the same bytes.
        digest.update(f"{len(member.filename)}:{member.filename}{member.file_size}:".encode())
        with archive.open(member) as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
    return digest.hexdigest()


class Archive:
    """An open archive: its header, and its arrays, each of which can be taken once."""

    def __init__(self, archive: zipfile.ZipFile, size: int, what: str) -> None:
        members = archive.infolist()
        self._archive, self._what = archive, what
        self._left = {member.filename: member for member in members}
        if len(self._left) < len(members):
            raise ArchiveError("two of its members have the same name; the file is damaged.")
        if any(m.compress_type != zipfile.ZIP_STORED or m.flag_bits & 1 for m in members):
            raise ArchiveError(f"it is compressed or encrypted, which no {what} is.")
        # Members that overlap, or declare too many bytes, would make a small file fill the memory.
        declared = sum(member.file_size for member in members)
        if declared > size or any(m.file_size != m.compress_size for m in members):
            raise ArchiveError("it declares more than it holds; the file is damaged or hostile.")
        self.header: dict[str, Any] = self._read_header()
        self._compare_checksum(members)

    @classmethod
    @contextmanager
    def open(cls, stream: BinaryIO, what: str) -> Iterator[Self]:
        """Open the archive in a file; damage raises an exception, not always ArchiveError.

        `what` is the name of the kind of file for messages. The block must take all arrays.
        """
        size = stream.seek(0, os.SEEK_END)
        _check_ends(stream, size, what)
        with zipfile.ZipFile(stream) as archive:
            opened = cls(archive, size, what)
            yield opened
            if opened._left:
                unknown = min(opened._left)
                raise ArchiveError(f"its member {unknown!r:.80} is unknown; the file is damaged.")

    def take(self, name: str, shape: tuple[int, ...] | None, kinds: str = "f") -> Array:
        """Return the array of this name; check its shape (None: any) and kind of dtype."""
        member = self._left.pop(f"{name}.npy", None)
        if member is None:
            raise ArchiveError(f"the array {name!r} is missing; the file is damaged.")
        array = _parse_array(self._archive.read(member), name)
        if array.dtype.kind not in kinds or (shape is not None and array.shape != shape):
            raise ArchiveError(
                f"the array {name!r} has type {array.dtype} and shape {array.shape}, which does "
                f"not fit the header ({shape}); the file is damaged."
            )
        if array.dtype.kind == "f" and not np.isfinite(array).all():
            raise ArchiveError(f"the array {name!r} holds NaN or infinity; the file is damaged.")
        return array

    def _compare_checksum(self, members: list[zipfile.ZipInfo]) -> None:
        """Raise where members differ from the written ones in content or position."""
        if self._left.pop(_CHECKSUM, None) is None:
            raise ArchiveError("its checksum is missing; the file is damaged: get it again.")
        last, expected = members[-1], _checksum(self._archive, members[:-1]).encode()
        if last.filename != _CHECKSUM or last.file_size != len(expected):
            raise ArchiveError("its checksum is not at its end; the file is damaged.")
        if self._archive.read(last) != expected:
            raise ArchiveError("its checksum does not fit; the file is damaged: get it again.")

    def _read_header(self) -> dict[str, Any]:
        member = self._left.pop(HEADER, None)
        if member is not None and member.file_size > _MAX_HEADER:
            raise ArchiveError(f"its header has {member.file_size} bytes; damaged or hostile.")
        header = None if member is None else json.loads(self._archive.read(member))
        if not isinstance(header, dict):
            raise ArchiveError(f"this archive is not a {self._what}.")
        return header


def _check_ends(stream: BinaryIO, size: int, what: str) -> None:
    """Raise where a file is no archive, is truncated, or has too large a directory."""
    stream.seek(0)
    if stream.read(4) != b"PK\x03\x04":
        raise ArchiveError(f"this is not a {what}.")
    stream.seek(max(size - _END_SIZE - _LOCATOR_SIZE - _END64_SIZE, 0))
    tail = stream.read()
    before, end = tail[:-_END_SIZE], tail[-_END_SIZE:]
    locator, end64 = before[-_LOCATOR_SIZE:], before[:-_LOCATOR_SIZE]
    directory = int.from_bytes(end[12:16], "little")
    sound = end[:4] == b"PK\x05\x06" and end[-2:] == b"\0\0"
    if locator[:4] == b"PK\x06\x07":  # zip64: the larger record holds the sizes
        at = int.from_bytes(locator[8:16], "little")
        sound &= end64[:4] == b"PK\x06\x06" and at == size - len(tail)
        directory = max(directory, int.from_bytes(end64[40:48], "little"))
    if not sound:
        raise ArchiveError("it is cut off, or has something behind its end; the file is damaged.")
    if directory > _MAX_DIRECTORY:
        raise ArchiveError("its list of members is too long; the file is damaged or hostile.")


def _parse_array(raw: bytes, name: str) -> Array:
    """Return the array in the bytes of a .npy file, whose size must match exactly."""
    stream = io.BytesIO(raw)
    if np.lib.format.read_magic(stream) != (1, 0):
        raise ArchiveError(f"the array {name!r} has an unknown layout.")
    shape, by_column, dtype = np.lib.format.read_array_header_1_0(stream)
    if dtype.hasobject or dtype.kind not in "biuf" or not 1 <= dtype.itemsize <= 8:
        raise ArchiveError(f"the array {name!r} is of type {dtype}; only plain numbers are read.")
    start = stream.tell()
    n_bytes = len(raw) - start
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize != n_bytes:
        raise ArchiveError(
            f"the array {name!r} declares the shape {shape!s:.80}, but {n_bytes} bytes are stored "
            "for it; the file is damaged or hostile."
        )
    array = np.frombuffer(raw, dtype, offset=start).reshape(shape, order="F" if by_column else "C")
    return array.astype(dtype.newbyteorder("="))  # a writable copy
