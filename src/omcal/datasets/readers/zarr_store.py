"""Read zarr descriptions here, because zarr follows links and runs codecs that a file names."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from omcal.datasets._contents import (
    Contents,
    Variable,
    check_declared,
    csr_from_parts,
    stored_bytes,
    text_array,
)
from omcal.datasets._data import Matrix
from omcal.datasets.readers._variables import gather
from omcal.datasets.readers._zarr_packing import check_packing
from omcal.datasets.readers.single_cell import Node, is_single_cell, read_single_cell
from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.pair import DataError

MAX_DEPTH = 4
DESCRIPTIONS = (".zarray", "zarr.json")  # of arrays in the formats 2 and 3


def is_zarr(path: Path, start: bytes) -> bool:
    """Whether a folder is a zarr group or array."""
    return any((path / name).is_file() for name in (*DESCRIPTIONS, ".zgroup"))


def read_zarr(path: Path) -> Contents:
    """Read every array of a zarr group by its path, or the one array of the folder."""
    require_zarr()
    root = ZarrNode(path)
    if is_single_cell(root):
        return read_single_cell(root, lambda place: nullcontext(ZarrNode(path, place)), "zarr")
    variables: dict[str, Variable] = {}
    for node in _arrays(root, 0):
        array = node.read()
        if array is not None:
            variables[node.place or "X"] = array
    return gather("zarr", variables)


def require_zarr() -> Any:
    """Import zarr."""
    return require("zarr", "zarr folders")


@dataclass(frozen=True)
class ZarrNode:
    """A group or array, at its path below the root."""

    root: Path
    place: str = ""

    @property
    def shape(self) -> tuple[int, ...] | None:
        described = self._describe(DESCRIPTIONS)
        return tuple(described["shape"]) if "shape" in described else None

    @property
    def index_name(self) -> str:
        return str(self._attributes.get("_index", ""))

    def children(self) -> dict[str, Node]:
        if self.shape is not None:
            return {}
        with os.scandir(self._folder) as entries:
            folders = sorted(item.name for item in entries if _is_folder(item))
        return {name: ZarrNode(self.root, f"{self.place}/{name}".lstrip("/")) for name in folders}

    def read(self) -> Array | None:
        if self.shape is None:
            return None
        described = self._describe(DESCRIPTIONS)
        stored = stored_bytes(self._folder)
        check_packing(described, self._folder, self.place)
        # Open the description that was checked where the folder has both.
        written_as = 2 if (self._folder / DESCRIPTIONS[0]).is_file() else 3
        array = require_zarr().open_array(str(self._folder), mode="r", zarr_format=written_as)
        return _read(array, self.place, stored)

    def read_sparse(self) -> Matrix | None:
        parts = self.children()
        if not {"data", "indices", "indptr"} <= set(parts):
            return None
        values, indices, pointers = (parts[part].read() for part in ("data", "indices", "indptr"))
        attributes = self._attributes
        shape: Any = attributes.get("shape")
        if values is None or indices is None or pointers is None or np.shape(shape) != (2,):
            raise DataError(f"the sparse matrix {self.place!r} is damaged.")
        by_column = attributes.get("encoding-type") == "csc_matrix"
        return csr_from_parts(values, indices, pointers, shape, by_column=by_column)

    @property
    def _attributes(self) -> dict[str, Any]:
        described = self._describe((".zattrs", "zarr.json"))
        return dict(described.get("attributes", described))

    @property
    def _folder(self) -> Path:
        return self.root / self.place

    def _describe(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the metadata in the first of these files that exists."""
        for name in names:
            file = self._folder / name
            if file.is_symlink():
                raise DataError(f"{self.place}/{name} is a link, which is not followed.")
            if file.is_file():
                return dict(json.loads(file.read_text("utf-8")))
        return {}


def _is_folder(entry: os.DirEntry[str]) -> bool:
    """Whether an entry is a folder; links are refused, since they may lead in a circle."""
    if entry.is_symlink():
        raise DataError(f"{entry.name} is a link, which is not followed; copy its target here.")
    return entry.is_dir()


def _arrays(node: Node, depth: int) -> Iterator[Node]:
    """Yield the arrays below a node."""
    if node.shape is not None:
        yield node
    elif depth < MAX_DEPTH:
        for inner in node.children().values():
            yield from _arrays(inner, depth + 1)


def _read(array: Any, name: str, stored: int) -> Array | None:
    if array.dtype.kind not in "biufUT":
        return None
    for shape in (array.shape, array.shards or array.chunks):  # a chunk is unpacked as a whole
        n_bytes = math.prod(shape) * array.dtype.itemsize
        check_declared(n_bytes, stored, f"array {name!r} of shape {shape}")
    values = np.asarray(array[...])
    if values.dtype.kind != "T":
        return values
    texts = text_array(values.astype(object).ravel().tolist())
    return None if texts is None else texts.reshape(values.shape)
