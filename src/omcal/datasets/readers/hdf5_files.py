"""Read HDF5 files: MATLAB 7.3, AnnData, MuData, and plain ones."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from omcal.datasets._contents import Contents, Variable, check_declared, csr_from_parts
from omcal.datasets._data import Matrix
from omcal.datasets.readers._hdf5 import (
    H5Object,
    attribute,
    h5py,
    is_group,
    is_sparse,
    members,
    read_array,
    read_child,
    read_sparse,
)
from omcal.datasets.readers._variables import gather
from omcal.datasets.readers.single_cell import Node, is_single_cell, read_single_cell
from omcal.machine.arrays import Array
from omcal.views.pair import DataError

MAX_DEPTH = 8
MAGIC = b"\x89HDF\r\n\x1a\n"
OFFSETS = (0, 512, 1024, 2048)  # MATLAB writes 512 bytes before the signature


def is_hdf5(path: Path, start: bytes) -> bool:
    """Whether a file is HDF5."""
    return any(start[at:].startswith(MAGIC) for at in OFFSETS)


def read_hdf5(path: Path) -> Contents:
    """Read every variable of an HDF5 file in the layout of the program that wrote it."""
    with h5py().File(path, "r") as file:
        if is_single_cell(Hdf5Node(file)):
            return read_single_cell(Hdf5Node(file), partial(_reopened, path), "HDF5")
        items = dict(members(file))
        if any(attribute(item, "MATLAB_class") is not None for item in items.values()):
            return _read_matlab(items)
        variables: dict[str, Variable] = {}
        _collect(file, "", variables, set(), 0)
    return gather("HDF5", variables)


@dataclass(frozen=True)
class Hdf5Node:
    """A group or dataset, as the single-cell reader needs it."""

    item: H5Object

    @property
    def place(self) -> str:
        return str(self.item.name)

    @property
    def shape(self) -> tuple[int, ...] | None:
        return None if is_group(self.item) else self.item.shape or ()

    @property
    def index_name(self) -> str:
        named = attribute(self.item, "_index")
        return named.decode("utf-8", "replace") if isinstance(named, bytes) else str(named or "")

    def children(self) -> dict[str, Node]:
        inside = members(self.item) if is_group(self.item) else ()
        return {name: Hdf5Node(item) for name, item in inside}

    def read(self) -> Array | None:
        return None if is_group(self.item) else read_array(self.item)

    def read_sparse(self) -> Matrix | None:
        return read_sparse(self.item) if is_sparse(self.item) else None


@contextmanager
def _reopened(path: Path, place: str) -> Iterator[Node]:
    with h5py().File(path, "r") as file:
        yield Hdf5Node(file[place])


def _collect(
    group: H5Object, prefix: str, variables: dict[str, Variable], known: set[int], depth: int
) -> None:
    """Collect the datasets below a group by path, each once despite links."""
    if depth > MAX_DEPTH:
        raise DataError(f"the groups are nested more than {MAX_DEPTH} deep.")
    for name, item in members(group, known):
        if is_sparse(item):
            variables[prefix + name] = read_sparse(item)
        elif is_group(item):
            _collect(item, f"{prefix}{name}/", variables, known, depth + 1)
        else:
            array = read_array(item)
            if array is not None:
                variables[prefix + name] = array


def _read_matlab(items: dict[str, H5Object]) -> Contents:
    variables: dict[str, Variable] = {}
    notes = []
    for name, item in items.items():
        if name.startswith("#"):  # where MATLAB keeps the members of cells
            continue
        value = _matlab_value(item, 0)
        if value is None:
            notes.append(f"variable {name!r} is a struct or object, not used")
        else:
            variables[name] = value
    return Contents("MATLAB 7.3", variables, notes=tuple(notes))


def _matlab_value(item: H5Object, depth: int) -> Variable | None:
    if is_group(item):
        return _matlab_sparse(item)
    if attribute(item, "MATLAB_empty"):
        return np.empty((0, 0))
    if h5py().check_ref_dtype(item.dtype) is not None:
        return _matlab_cell(item, depth)
    array = read_array(item)
    if array is None:
        return None
    # HDF5 is row-major, MATLAB column-major.
    if bytes(attribute(item, "MATLAB_class") or b"") == b"char":
        return _matlab_text(array.T)
    return array.T


def _matlab_cell(item: H5Object, depth: int) -> list[Variable] | None:
    if depth > MAX_DEPTH:
        raise DataError(f"cell {item.name!r} is nested more than {MAX_DEPTH} deep.")
    check_declared(8 * item.size, item.id.get_storage_size(), f"cell {item.name!r}")
    references = item[()].ravel()
    if not all(references):
        raise DataError(f"cell {item.name!r} refers to nothing; the file is damaged.")
    targets = [item.file[reference] for reference in references]
    # Only empty arrays are shared; many references to one large array would fill the memory.
    full = [target for target in targets if not attribute(target, "MATLAB_empty")]
    if len(set(full)) < len(full):
        raise DataError(f"cell {item.name!r} refers to one thing twice; the file is damaged.")
    values = [_matlab_value(target, depth + 1) for target in targets]
    return None if any(value is None for value in values) else values


def _matlab_sparse(group: H5Object) -> Variable | None:
    n_rows = attribute(group, "MATLAB_sparse")
    if n_rows is None:
        return None
    pointers = read_child(group, "jc")
    # A matrix of zeros has no entries to store.
    nothing = np.empty(0, dtype=np.int64)
    indices, values = (read_child(group, p) if p in group else nothing for p in ("ir", "data"))
    shape = (int(n_rows), len(pointers) - 1)
    return csr_from_parts(values, indices, pointers, shape, by_column=True)


def _matlab_text(codes: Array) -> str | Array:
    if codes.dtype.kind not in "iu" or codes.ndim != 2:
        raise DataError("a text of MATLAB is not stored as characters; the file is damaged.")
    lines = ["".join(chr(int(code)) for code in line).rstrip() for line in codes]
    return lines[0] if len(lines) == 1 else np.array(lines)
