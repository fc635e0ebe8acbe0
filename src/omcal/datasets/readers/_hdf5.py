"""Parse HDF5 text heaps and LZF here, because the library loops or crashes on damaged ones.

The HDF5 library trusts the declarations of a file. Arrays are read only as far as the file
justifies them: no other files, and no declared size without stored bytes.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeGuard

import numpy as np

from omcal.datasets._contents import check_declared, csr_from_parts, text_array
from omcal.datasets._data import Matrix
from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.pair import DataError

MAX_OBJECTS = 20_000
SPARSE_PARTS = ("data", "indices", "indptr")
DEFLATE, SHUFFLE, LZF = 1, 2, 32000  # HDF5's numbers for its filters

H5Object = Any  # an h5py Group or Dataset


def h5py() -> Any:
    """Import h5py."""
    return require("h5py", "HDF5 files (MATLAB 7.3, .h5, .h5ad, .h5mu)")


def members(group: H5Object, known: set[int] | None = None) -> Iterator[tuple[str, H5Object]]:
    """Yield the objects in a group, each once; objects in `known` are skipped."""
    known = set() if known is None else known
    for count, name in enumerate(group):
        if count == MAX_OBJECTS or len(known) > MAX_OBJECTS:
            raise DataError(f"group {group.name!r} holds more than {MAX_OBJECTS} objects.")
        item = child(group, name)
        if item is not None and (place := address(item)) not in known:
            known.add(place)
            yield name, item


def child(group: H5Object, name: str) -> H5Object | None:
    """Return the object of this name in a group, or None; external links are not followed."""
    link = group.get(name, getlink=True) if name in group else None
    return group[name] if isinstance(link, h5py().HardLink) else None


def address(item: H5Object) -> int:
    """Return the address of an object in the file, the same for all its names."""
    return int(h5py().h5o.get_info(item.id).addr)


def is_group(item: H5Object | None) -> TypeGuard[H5Object]:
    """Whether an item is a group, not a dataset or None."""
    return isinstance(item, h5py().Group)


def attribute(item: H5Object, name: str) -> Any:
    """Return an attribute of fixed size, or None; variable length counts as absent."""
    if name not in item.attrs:
        return None
    dtype = item.attrs.get_id(name).dtype
    return None if dtype.hasobject or dtype.itemsize > 2**16 else item.attrs[name]


def read_array(dataset: H5Object) -> Array | None:
    """Read the numbers or strings of a dataset; None where it holds another type."""
    name, dtype, library = dataset.name, dataset.dtype, h5py()
    if dataset.shape is None:
        return None
    if dataset.is_virtual or dataset.external is not None:
        raise DataError(f"dataset {name!r} lies in other files, which are not opened; copy it in.")
    for shape in (dataset.shape, dataset.chunks or ()):  # a chunk is unpacked as a whole
        n_bytes = math.prod(shape) * dtype.itemsize
        check_declared(n_bytes, dataset.id.get_storage_size(), f"dataset {name!r} of {shape}")
    strings = library.check_string_dtype(dtype)
    if strings is not None and strings.length is None:
        return _variable_strings(dataset)
    if dtype.kind == "S":
        return np.char.decode(dataset[()], "utf-8", "replace")
    if dtype.kind in "biufU":
        return np.asarray(dataset[()])
    return None


def is_sparse(group: H5Object) -> bool:
    """Whether a group holds a compressed sparse matrix."""
    return is_group(group) and all(part in group for part in SPARSE_PARTS)


def read_sparse(group: H5Object) -> Matrix:
    """Read the matrix in a group of data, indices and indptr, whose shape is an attribute."""
    shape = attribute(group, "shape")
    shape = attribute(group, "h5sparse_shape") if shape is None else shape
    shape = read_child(group, "shape") if shape is None and "shape" in group else shape
    values, indices, pointers = (read_child(group, part) for part in SPARSE_PARTS)
    if np.shape(shape) != (2,):
        raise DataError(f"the sparse matrix {group.name!r} does not say its shape.")
    by_row, by_column = (len(pointers) == int(size) + 1 for size in shape)
    if by_row and by_column:
        # Only a square matrix needs the encoding name, which HDF5 stores as a string.
        by_column = "csc" in str(group.attrs.get("encoding-type", "csr_matrix"))
    return csr_from_parts(values, indices, pointers, shape, by_column=by_column)


def read_child(group: H5Object, name: str) -> Array:
    """Read the numbers or strings of a dataset that must be in a group."""
    item = child(group, name)
    array = None if item is None or is_group(item) else read_array(item)
    if array is None:
        raise DataError(f"{group.name!r} has no usable {name!r}; the file is damaged.")
    return array


def _variable_strings(dataset: H5Object) -> Array | None:
    """Read strings of variable length from the global heap of the file.

    The dataset itself holds 16 bytes per string: length, address of a heap, index in the heap.
    """
    with Path(dataset.file.filename).open("rb") as file:
        heaps = _Heaps(file, int(dataset.file.userblock_size))
        places = list(struct.iter_unpack("<IQI", _descriptors(dataset, file)))
        # Many references may name one stored string.
        strings = {place: heaps.string(*place) for place in set(places)}
    texts = text_array([strings[place] for place in places])
    return None if texts is None else texts.reshape(dataset.shape)


def _descriptors(dataset: H5Object, file: BinaryIO) -> bytes:
    n_bytes = 16 * dataset.size
    if n_bytes == 0:
        return b""
    if dataset.chunks is None:
        offset = dataset.id.get_offset()
        if offset is None:
            raise DataError(f"the strings in {dataset.name!r} are stored in an unusual way.")
        file.seek(offset)
        raw = file.read(n_bytes)
    elif dataset.ndim == 1:
        starts = range(0, dataset.size, dataset.chunks[0])
        raw = b"".join(_chunk(dataset, start) for start in starts)[:n_bytes]
    else:
        raise DataError(f"the strings in {dataset.name!r} are no list but of {dataset.shape}.")
    if len(raw) < n_bytes:
        raise DataError(f"the strings in {dataset.name!r} are cut off.")
    return raw


def _chunk(dataset: H5Object, start: int) -> bytes:
    """Return the bytes of a chunk after undoing its filters in reverse order."""
    n_bytes = 16 * dataset.chunks[0]
    plan = dataset.id.get_create_plist()
    steps = [plan.get_filter(i)[0] for i in range(plan.get_nfilters())]
    raw: bytes
    skipped, raw = dataset.id.read_direct_chunk((start,))
    for i, step in reversed(list(enumerate(steps))):
        if skipped >> i & 1:
            continue
        if step == DEFLATE:
            raw = zlib.decompressobj().decompress(raw, n_bytes)
        elif step == LZF:
            raw = _unpack_lzf(raw, n_bytes)
        elif step == SHUFFLE and len(raw) == n_bytes:
            raw = np.frombuffer(raw, np.uint8).reshape(16, -1).T.tobytes()
        else:
            raise DataError(
                f"the strings in {dataset.name!r} are packed in an unknown way; use gzip or none."
            )
    return raw


def _unpack_lzf(raw: bytes, n_bytes: int) -> bytes:
    """Decompress LZF: runs of literal bytes, and copies from `back` bytes before."""
    out = bytearray()
    at = 0
    while at < len(raw) and len(out) < n_bytes:
        control = raw[at]
        at += 1
        if control < 32:
            out += raw[at : at + control + 1]
            at += control + 1
            continue
        length = (control >> 5) + 2
        if length == 9:
            length += raw[at]
            at += 1
        back = ((control & 31) << 8) + raw[at] + 1
        at += 1
        if back > len(out):
            raise DataError("a packed list of strings refers to nothing; the file is damaged.")
        for _ in range(length):  # byte by byte, because a copy may overlap itself
            out.append(out[-back])
    return bytes(out)


class _Heaps:
    """Global heaps of a file, which store strings of variable length."""

    def __init__(self, file: BinaryIO, base: int) -> None:
        self.file, self.base = file, base
        self.size = file.seek(0, 2)
        self.known: dict[int, dict[int, bytes]] = {}

    def string(self, length: int, address: int, number: int) -> str:
        if length == 0:
            return ""
        if address not in self.known:
            self.known[address] = self._read(address)
        value = self.known[address].get(number)
        if value is None or length > len(value):
            raise DataError("a string lies outside its heap; the file is damaged.")
        return value[:length].split(b"\0")[0].decode("utf-8", "replace")

    def _read(self, address: int) -> dict[int, bytes]:
        """Return the objects of one heap by index."""
        start = self.base + address
        header = b""
        if start + 16 <= self.size:
            self.file.seek(start)
            header = self.file.read(16)
        n_bytes = int.from_bytes(header[8:], "little")
        if header[:4] != b"GCOL" or not 16 <= n_bytes <= self.size - start:
            raise DataError("a heap of strings is not where it should be; the file is damaged.")
        body = self.file.read(n_bytes - 16)
        objects: dict[int, bytes] = {}
        at = 0
        while at + 16 <= len(body):
            number, size = struct.unpack_from("<H6xQ", body, at)
            if number == 0 or at + 16 + size > len(body):  # the free space at the end
                break
            objects[number] = body[at + 16 : at + 16 + size]
            at += 16 + size + -size % 8
        return objects
