"""Read zarr stores; metadata are parsed here, because zarr follows links and runs named codecs.

Compressed chunks are checked before zarr unpacks them, because damaged ones crash or hang it.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from omcal.datasets._data import Contents, check_declared, stored_bytes, text_array
from omcal.datasets.readers._trees import Node, gather, is_single_cell, read_single_cell, read_tree
from omcal.machine.arrays import Array
from omcal.machine.optional import require
from omcal.views.columns import listed
from omcal.views.pair import DataError

DESCRIPTIONS = (".zarray", "zarr.json")  # metadata files of arrays, formats 2 and 3
# Codecs of numbers and text. Others, above all "pickle", could run code.
CODECS = {
    *("bytes", "vlen-utf8", "transpose", "crc32c", "sharding_indexed", "gzip", "zstd", "blosc"),
    *("zlib", "lz4", "lzma", "bz2", "shuffle", "delta", "fixedscaleoffset"),
}
BLOSC_HEADER = 16
ABSENT = 2**64 - 1  # offset of a missing part of a shard


def is_zarr(path: Path, start: bytes) -> bool:
    """Whether a folder is a zarr group or array."""
    return any((path / name).is_file() for name in (*DESCRIPTIONS, ".zgroup"))


def read_zarr(path: Path) -> Contents:
    """Read every array of a zarr group by its path, or the one array of the folder."""
    require("zarr", "zarr folders")
    stored_bytes(path)  # refuses links, which may lead anywhere or in a circle
    root = ZarrNode(path)
    if is_single_cell(root.children()):
        return read_single_cell(root, lambda place: nullcontext(ZarrNode(path, place)), "zarr")
    return gather("zarr", read_tree(root) if root.shape is None else {"X": root.read()})


@dataclass(frozen=True)
class ZarrNode:
    """A group or array, at its path below the root."""

    root: Path
    place: str = ""

    @property
    def shape(self) -> tuple[int, ...] | None:
        described = self._describe(DESCRIPTIONS)
        return tuple(described["shape"]) if "shape" in described else None

    def attribute(self, name: str) -> Any:
        described = self._describe((".zattrs", "zarr.json"))
        return described.get("attributes", described).get(name)

    def children(self) -> dict[str, Node]:
        if self.shape is not None:
            return {}
        folders = sorted(item.name for item in self._folder.iterdir() if item.is_dir())
        return {name: ZarrNode(self.root, f"{self.place}/{name}".lstrip("/")) for name in folders}

    def read(self) -> Array | None:
        if self.shape is None:
            return None
        described = self._describe(DESCRIPTIONS)
        stored = stored_bytes(self._folder)
        _check_packing(described, self._folder, self.place)
        # If the folder has both descriptions, open the one that was checked.
        written_as = 2 if (self._folder / DESCRIPTIONS[0]).is_file() else 3
        array = require("zarr", "zarr folders").open_array(
            str(self._folder), mode="r", zarr_format=written_as
        )
        if array.dtype.kind not in "biufUT":
            return None
        for shape in (array.shape, array.shards or array.chunks):  # a chunk is unpacked as a whole
            n_bytes = math.prod(shape) * array.dtype.itemsize
            check_declared(n_bytes, stored, f"array {self.place!r} of shape {shape}")
        values = np.asarray(array[...])
        if values.dtype.kind != "T":
            return values
        texts = text_array(values.astype(object).ravel().tolist())
        return None if texts is None else texts.reshape(values.shape)

    @property
    def _folder(self) -> Path:
        return self.root / self.place

    def _describe(self, names: tuple[str, ...]) -> dict[str, Any]:
        """Return the metadata in the first of these files that exists."""
        for name in names:
            file = self._folder / name
            if file.is_file():
                return dict(json.loads(file.read_text("utf-8")))
        return {}


def _check_packing(described: dict[str, Any], folder: Path, name: str) -> None:
    """Refuse codecs that could run code, and chunks with false lengths."""
    packing = [described.get(key) for key in ("codecs", "filters", "compressor")]
    strange = sorted(_codec_names(packing) - CODECS)
    if strange:
        raise DataError(
            f"array {name!r} is packed with {listed(strange)}, which is not opened because it "
            "could run code; store it with gzip, zstd or blosc."
        )
    if "blosc" in _codec_names(packing):
        _check_blosc(described, folder, name)
    if "vlen-utf8" in _codec_names(packing):
        _check_texts(described, folder, name)


def _codec_names(packing: Any) -> set[str]:
    """Return the names of all codecs in a description, nested ones included."""
    if isinstance(packing, list):
        return set().union(*(_codec_names(item) for item in packing))
    if not isinstance(packing, dict):
        return set()
    own = {str(packing[key]) for key in ("id", "name") if key in packing}
    inner = packing.get("configuration")
    nested = [inner.get(key) for key in ("codecs", "index_codecs")] if inner else []
    return own | _codec_names(nested)


def _parts(folder: Path) -> Iterator[Path]:
    """Yield the files of an array that hold its chunks."""
    for file in folder.rglob("*"):
        if file.is_file() and not file.name.startswith(".z") and file.name != "zarr.json":
            yield file


def _check_blosc(described: dict[str, Any], folder: Path, name: str) -> None:
    """Refuse chunks shorter than their header says: Blosc would read beyond their end."""
    steps = described.get("codecs")
    steps = steps or [*(described.get("filters") or ()), described.get("compressor")]
    sharded = isinstance(steps[-1], dict) and steps[-1].get("name") == "sharding_indexed"
    *before, last = steps[-1]["configuration"]["codecs"] if sharded else steps
    is_last = isinstance(last, dict) and "blosc" in (last.get("id"), last.get("name"))
    if not is_last or "blosc" in _codec_names([*before, *steps[:-1]]):
        raise DataError(f"{name!r} is packed by Blosc and then again; pack it by Blosc alone.")
    for path in _parts(folder):
        size = path.stat().st_size
        with path.open("rb") as file:
            for start, length in _pieces(file, size, described) if sharded else [(0, size)]:
                file.seek(min(start, size))
                header = file.read(BLOSC_HEADER)
                said = int.from_bytes(header[12:], "little")
                if len(header) < BLOSC_HEADER or said != length or start + length > size:
                    raise DataError(f"a part of {name!r} is damaged: its length is wrong.")


def _pieces(file: BinaryIO, size: int, described: dict[str, Any]) -> list[tuple[int, int]]:
    """Return the start and length of each chunk of a shard, from its index."""
    shard = described["codecs"][-1]["configuration"]
    outer = described["chunk_grid"]["configuration"]["chunk_shape"]
    n_pieces = math.prod(outer) // math.prod(shard["chunk_shape"])
    codecs = [codec["name"] for codec in shard["index_codecs"]]
    length = 16 * n_pieces + 4 * (len(codecs) - 1)
    if codecs not in (["bytes"], ["bytes", "crc32c"]) or length > size:
        raise DataError("the index of a shard is damaged, or compressed in an unsupported way.")
    order = shard["index_codecs"][0]["configuration"]["endian"]
    file.seek(0 if shard.get("index_location") == "start" else size - length)
    index = np.frombuffer(file.read(16 * n_pieces), {"little": "<u8", "big": ">u8"}[order])
    return [(a, b) for a, b in index.reshape(-1, 2).tolist() if a != ABSENT or b != ABSENT]


def _check_texts(described: dict[str, Any], folder: Path, name: str) -> None:
    """Refuse text chunks that declare too many texts: zarr would allocate all of them."""
    if "codecs" in described:
        most = math.prod(described["chunk_grid"]["configuration"]["chunk_shape"])
        packing = [c for c in described["codecs"] if c["name"] not in ("vlen-utf8", "bytes")]
        ids = {"gzip": "zlib", "zstd": "zstd", "blosc": "blosc"}
        steps = [ids.get(codec["name"], "") for codec in packing]
    else:
        most = math.prod(described["chunks"])
        steps = [str(c["id"]) for c in [described.get("compressor")] if c is not None]
    if not set(steps) <= {"zlib", "gzip", "zstd", "blosc", "lz4", "bz2", "lzma"}:
        raise DataError(f"the texts in {name!r} have an unsupported compression; use gzip or zstd.")
    from numcodecs import get_codec  # type: ignore[import-untyped]

    for file in _parts(folder):
        raw = file.read_bytes()
        for step in reversed(steps):
            wrapped = step == "zlib" and raw[:2] == b"\x1f\x8b"
            raw = bytes(get_codec({"id": "gzip" if wrapped else step}).decode(raw))
        if int.from_bytes(raw[:4], "little") > most:
            raise DataError(f"a part of the texts in {name!r} is damaged.")
