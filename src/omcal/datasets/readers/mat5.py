"""Read MATLAB 5 to 7 files without SciPy, because `loadmat` crashes the process on damaged files.

Every count in the file is compared with the stored bytes before anything is allocated.
"""

from __future__ import annotations

import math
import zlib
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

from omcal.datasets._data import Contents, Variable, check_declared, csr_from_parts
from omcal.machine.arrays import Array
from omcal.views.pair import DataError

HEADER_SIZE = 128
MAX_DEPTH = 8  # of nested cells

# Element types: the numbers that tags begin with.
NUMERIC = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8"}
NUMERIC |= {12: "i8", 13: "u8"}
MATRIX, COMPRESSED = 14, 15
TEXT = {2: "utf-8", 1: "utf-8", 4: "utf-16", 16: "utf-8", 17: "utf-16", 18: "utf-32"}

# Array classes: the kinds of matrix elements.
CELL, CHAR, SPARSE = 1, 4, 5
NUMERIC_CLASSES = range(6, 16)
OPAQUE = 17
OTHER_CLASSES = {2: "struct", 3: "object", 16: "function", OPAQUE: "object"}
COMPLEX_FLAG = 0x08

Element: TypeAlias = tuple[int, memoryview]  # element: type and bytes


def is_mat5(path: Path, start: bytes) -> bool:
    """Whether a file is a MATLAB file of versions 5 to 7."""
    return start[124:HEADER_SIZE] in (b"\x00\x01IM", b"\x01\x00MI")


class Unsupported(NamedTuple):
    """A variable that is neither numbers nor text."""

    kind: str


def read_mat5(path: Path) -> Contents:
    """Read every variable that is numbers, text or a cell of them."""
    file = path.read_bytes()
    order = "<" if file[126:128] == b"IM" else ">"
    scan = Scan(memoryview(file)[HEADER_SIZE:], order)
    variables: dict[str, Variable] = {}
    notes = []
    while scan.more():
        kind, payload = scan.next()
        if kind == COMPRESSED:
            kind, payload = _inflate(payload, order)
        if kind != MATRIX:
            raise DataError(f"an element of type {kind} stands where a variable should be.")
        name, value = _read_matrix(payload, order)
        if isinstance(value, Unsupported):
            notes.append(f"variable {name!r} is a {value.kind}, which is ignored")
        elif name:  # MATLAB stores the data of objects in a variable without a name
            variables[name] = value
    return Contents("MATLAB 5", variables, notes=tuple(notes))


class Scan:
    """Iterate over the elements in a range of bytes."""

    def __init__(self, data: memoryview, order: str) -> None:
        self.data, self.order, self.at = data, order, 0

    def more(self) -> bool:
        return self.at < len(self.data)

    def next(self) -> Element:
        if len(self.data) - self.at < 8:
            raise DataError("the file ends within a tag; it is cut off.")
        tag = np.frombuffer(self.data, self.order + "u4", count=2, offset=self.at)
        word, n_bytes = int(tag[0]), int(tag[1])
        if word >> 16:  # up to four bytes of data are stored inside the eight bytes of the tag
            kind, n_bytes, start, step = word & 0xFFFF, word >> 16, self.at + 4, 8
        else:
            kind, start = word, self.at + 8
            # Only compressed elements are not padded to eight bytes.
            step = 8 + n_bytes + (-n_bytes % 8 if kind != COMPRESSED else 0)
        if start + n_bytes > len(self.data) or (step == 8 and n_bytes > 4):
            raise DataError(
                f"an element of {n_bytes} bytes goes beyond the end; the file is cut off or "
                "damaged."
            )
        self.at += step
        return kind, self.data[start : start + n_bytes]


def _inflate(payload: memoryview, order: str) -> Element:
    """Decompress one element, whose own header gives its length."""
    unpack = zlib.decompressobj()
    tag = unpack.decompress(payload, 8)
    if len(tag) < 8:
        raise DataError("a compressed variable is cut off.")
    kind, n_bytes = (int(word) for word in np.frombuffer(tag, order + "u4"))
    check_declared(n_bytes, len(payload), "a compressed variable")
    body = unpack.decompress(unpack.unconsumed_tail, n_bytes) if n_bytes else b""
    if len(body) < n_bytes:
        raise DataError(f"a compressed variable is cut off after {len(body)} of {n_bytes} bytes.")
    # Reading past the end makes zlib compare the checksum.
    unpack.decompress(unpack.unconsumed_tail, 1)
    return kind, memoryview(body)


def _read_matrix(
    payload: memoryview, order: str, depth: int = 0
) -> tuple[str, Variable | Unsupported]:
    """Return the name and value of a matrix element; `Unsupported` for structs and objects."""
    scan = Scan(payload, order)
    if not scan.more():
        return "", np.empty((0, 0))
    flags = _numbers(scan.next(), order)
    if len(flags) < 1:
        raise DataError("a variable has no class; the file is damaged.")
    array_class, is_complex = int(flags[0]) & 0xFF, bool(int(flags[0]) >> 8 & COMPLEX_FLAG)
    if array_class == OPAQUE:
        return "", Unsupported(OTHER_CLASSES[OPAQUE])  # objects have no dimensions
    shape = tuple(int(size) for size in _numbers(scan.next(), order))
    if len(shape) < 2 or min(shape) < 0:
        raise DataError(f"a variable declares the shape {shape}; the file is damaged.")
    name = bytes(scan.next()[1]).decode("latin-1")
    if array_class in OTHER_CLASSES:
        return name, Unsupported(OTHER_CLASSES[array_class])
    if is_complex:
        return name, Unsupported("complex array")
    if array_class == CELL:
        return name, _read_cell(scan, shape, name, depth)
    if array_class == CHAR:
        return name, _read_text(scan.next(), shape, order) if math.prod(shape) else ""
    if array_class == SPARSE:
        indices, pointers = _numbers(scan.next(), order), _numbers(scan.next(), order)
        values = _numbers(scan.next(), order)
        return name, csr_from_parts(values, indices, pointers, shape, by_column=True)
    if array_class not in NUMERIC_CLASSES:
        raise DataError(f"variable {name!r} is of the unknown class {array_class}.")
    values = _numbers(scan.next(), order) if math.prod(shape) else np.empty(0)
    if len(values) != math.prod(shape):
        raise DataError(f"variable {name!r} declares {shape} but holds {len(values)} numbers.")
    return name, values.reshape(shape, order="F")


def _numbers(element: Element, order: str) -> Array:
    kind, payload = element
    if kind not in NUMERIC:
        raise DataError(f"an element of type {kind} stands where numbers should be.")
    return np.frombuffer(payload, order + NUMERIC[kind])


def _read_cell(
    scan: Scan, shape: tuple[int, ...], name: str, depth: int
) -> list[Variable] | Unsupported:
    # Even an empty member takes eight bytes.
    if math.prod(shape) * 8 > len(scan.data) - scan.at:
        raise DataError(f"cell {name!r} declares {shape} members, more than its bytes can hold.")
    if depth == MAX_DEPTH:
        raise DataError(f"cell {name!r} is nested more than {MAX_DEPTH} deep.")
    members = []
    for _ in range(math.prod(shape)):
        kind, payload = scan.next()
        if kind != MATRIX:
            raise DataError(f"an element of type {kind} stands where a cell's member should be.")
        members.append(_read_matrix(payload, scan.order, depth + 1)[1])
    if any(isinstance(member, Unsupported) for member in members):
        return Unsupported("cell of structs or objects")
    return members


def _read_text(element: Element, shape: tuple[int, ...], order: str) -> str | Array:
    kind, payload = element
    if kind not in TEXT:
        raise DataError(f"an element of type {kind} stands where text should be.")
    codec = TEXT[kind]
    if codec != "utf-8":
        codec += "-le" if order == "<" else "-be"
    text = bytes(payload).decode(codec, "replace")
    if len(shape) == 2 and shape[0] > 1 and len(text) == math.prod(shape):
        # Several lines of text are stored by columns.
        lines = [text[i :: shape[0]].rstrip() for i in range(shape[0])]
        return np.array(lines)
    return text
