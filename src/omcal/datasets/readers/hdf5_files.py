"""Read HDF5 files: MATLAB 7.3, AnnData, MuData, and plain ones.

Text heaps and LZF are parsed here, because the library loops or crashes on damaged ones.

The HDF5 library trusts the declarations of a file. Here no other files are opened, and no memory is
allocated for sizes that are declared without stored bytes.
"""

from __future__ import annotations

import math
import struct
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from omcal.datasets._data import (
    Contents,
    Variable,
    check_declared,
    csr_from_parts,
    text_array,
)
from omcal.datasets.readers._trees import (
    MAX_DEPTH,
    MAX_OBJECTS,
    Node,
    gather,
    is_single_cell,
    read_part,
    read_single_cell,
    read_tree,
)
from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.pair import DataError

MAGIC = b"\x89HDF\r\n\x1a\n"
OFFSETS = (0, 512, 1024, 2048)  # MATLAB writes 512 bytes before the signature
DEFLATE, SHUFFLE, LZF = 1, 2, 32000  # numbers of HDF5 filters

H5Object = Any  # an h5py Group or Dataset


def is_hdf5(path: Path, start: bytes) -> bool:
    """Whether a file is HDF5."""
    return any(start[at:].startswith(MAGIC) for at in OFFSETS)


def read_hdf5(path: Path) -> Contents:
    """Read every variable of an HDF5 file, by the layout of the program that wrote it."""
    with h5py().File(path, "r") as file:
        root = Hdf5Node(file)
        if is_single_cell(root.children()):
            return read_single_cell(root, partial(_reopened, path), "HDF5")
        items = root.children()
        if any(item.attribute("MATLAB_class") is not None for item in items.values()):
            return _read_matlab(items)
        return gather("HDF5", read_tree(root))


@dataclass(frozen=True)
class Hdf5Node:
    """A group or dataset."""

    item: H5Object

    @property
    def place(self) -> str:
        return str(self.item.name)

    @property
    def shape(self) -> tuple[int, ...] | None:
        return None if isinstance(self.item, h5py().Group) else self.item.shape or ()

    def attribute(self, name: str) -> Any:
        """Return an attribute of fixed size; attributes of variable length count as absent."""
        if name not in self.item.attrs:
            return None
        dtype = self.item.attrs.get_id(name).dtype
        # Strings of variable length may crash HDF5; only encodings are read nevertheless.
        if name != "encoding-type" and (dtype.hasobject or dtype.itemsize > 2**16):
            return None
        value = self.item.attrs[name]
        return value.decode("utf-8", "replace") if isinstance(value, bytes) else value

    def children(self) -> dict[str, Node]:
        """Return the objects in a group, each once; external links are not followed."""
        if self.shape is not None:
            return {}
        found: dict[Node, str] = {}
        for count, name in enumerate(self.item):
            if count == MAX_OBJECTS:
                raise DataError(f"group {self.place!r} holds more than {MAX_OBJECTS} objects.")
            if isinstance(self.item.get(name, getlink=True), h5py().HardLink):
                found.setdefault(Hdf5Node(self.item[name]), name)
        return {name: node for node, name in found.items()}

    def read(self) -> Array | None:
        item, name, library = self.item, self.place, h5py()
        if isinstance(item, library.Group) or item.shape is None:
            return None
        if item.is_virtual or item.external is not None:
            raise DataError(
                f"dataset {name!r} lies in other files, which are not opened; copy it here."
            )
        for shape in (item.shape, item.chunks or ()):  # a chunk is unpacked as a whole
            n_bytes = math.prod(shape) * item.dtype.itemsize
            check_declared(n_bytes, item.id.get_storage_size(), f"dataset {name!r} of {shape}")
        strings = library.check_string_dtype(item.dtype)
        if strings is not None and strings.length is None:
            return _variable_strings(item)
        if item.dtype.kind == "S":
            return np.char.decode(item[()], "utf-8", "replace")
        return np.asarray(item[()]) if item.dtype.kind in "biufU" else None


@contextmanager
def _reopened(path: Path, place: str) -> Iterator[Node]:
    with h5py().File(path, "r") as file:
        yield Hdf5Node(file[place])


def _read_matlab(items: dict[str, Node]) -> Contents:
    variables: dict[str, Variable] = {}
    notes = []
    for name, item in items.items():
        if name.startswith("#"):  # MATLAB stores the members of cells here
            continue
        value = _matlab_value(item, 0)
        if value is None:
            notes.append(f"variable {name!r} is a struct or object, which is ignored")
        else:
            variables[name] = value
    return Contents("MATLAB 7.3", variables, notes=tuple(notes))


def _matlab_value(node: Any, depth: int) -> Variable | None:
    if node.shape is None:
        return _matlab_sparse(node)
    if node.attribute("MATLAB_empty"):
        return np.empty((0, 0))
    if h5py().check_ref_dtype(node.item.dtype) is not None:
        return _matlab_cell(node.item, depth)
    array = node.read()
    if array is None:
        return None
    # HDF5 is row-major, MATLAB column-major.
    return _matlab_text(array.T) if node.attribute("MATLAB_class") == "char" else array.T


def _matlab_cell(item: H5Object, depth: int) -> list[Variable] | None:
    if depth > MAX_DEPTH:
        raise DataError(f"cell {item.name!r} is nested more than {MAX_DEPTH} deep.")
    check_declared(8 * item.size, item.id.get_storage_size(), f"cell {item.name!r}")
    references = item[()].ravel()
    if not all(references):
        raise DataError(f"cell {item.name!r} refers to nothing; the file is damaged.")
    targets = [Hdf5Node(item.file[reference]) for reference in references]
    # Only empty arrays may be shared: many references to one large array would fill the memory.
    full = [target for target in targets if not target.attribute("MATLAB_empty")]
    if len(set(full)) < len(full):
        raise DataError(f"cell {item.name!r} refers to one object twice; the file is damaged.")
    values = [_matlab_value(target, depth + 1) for target in targets]
    return None if any(value is None for value in values) else values


def _matlab_sparse(group: Node) -> Variable | None:
    n_rows = group.attribute("MATLAB_sparse")
    if n_rows is None:
        return None
    pointers, parts = read_part(group, "jc"), group.children()
    # A matrix of zeros has no entries to store.
    nothing = np.empty(0, dtype=np.int64)
    indices, values = (read_part(group, p) if p in parts else nothing for p in ("ir", "data"))
    shape = (int(n_rows), len(pointers) - 1)
    return csr_from_parts(values, indices, pointers, shape, by_column=True)


def _matlab_text(codes: Array) -> str | Array:
    if codes.dtype.kind not in "iu" or codes.ndim != 2:
        raise DataError("a text of MATLAB is not stored as characters; the file is damaged.")
    lines = ["".join(chr(int(code)) for code in line).rstrip() for line in codes]
    return lines[0] if len(lines) == 1 else np.array(lines)


def h5py() -> Any:
    """Import h5py."""
    return require("h5py", "HDF5 files (MATLAB 7.3, .h5, .h5ad, .h5mu)")


def _variable_strings(dataset: H5Object) -> Array | None:
    """Read strings of variable length from the global heap of the file.

    The dataset itself holds 16 bytes per string: length, address of a heap, index in the heap.
    """
    heaps: dict[int, dict[int, bytes]] = {}
    strings: dict[tuple[int, int, int], str] = {}  # many references may point to one stored string
    with Path(dataset.file.filename).open("rb") as file:
        places = list(struct.iter_unpack("<IQI", _descriptors(dataset, file)))
        for length, address, number in set(places):
            if length and address not in heaps:
                heaps[address] = _heap_at(int(dataset.file.userblock_size) + address, file)
            value = heaps[address].get(number) if length else b""
            if value is None or length > len(value):
                raise DataError("a string lies outside its heap; the file is damaged.")
            text = value[:length].split(b"\0")[0].decode("utf-8", "replace")
            strings[length, address, number] = text
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
        raise DataError(
            f"the strings in {dataset.name!r} have the shape {dataset.shape}; a list is needed."
        )
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


def _heap_at(start: int, file: BinaryIO) -> dict[int, bytes]:
    """Return the objects of the global heap at a place in the file, by their index."""
    room = file.seek(0, 2) - start
    header = b""
    if room >= 16:
        file.seek(start)
        header = file.read(16)
    n_bytes = int.from_bytes(header[8:], "little")
    if header[:4] != b"GCOL" or not 16 <= n_bytes <= room:
        raise DataError("a heap of strings is missing; the file is damaged.")
    body = file.read(n_bytes - 16)
    objects: dict[int, bytes] = {}
    at = 0
    while at + 16 <= len(body):
        number, size = struct.unpack_from("<H6xQ", body, at)
        if number == 0 or at + 16 + size > len(body):  # the free space at the end
            break
        objects[number] = body[at + 16 : at + 16 + size]
        at += 16 + size + -size % 8
    return objects
