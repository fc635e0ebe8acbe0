"""Zarr folders."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from omcal.datasets._contents import Contents, Variable, check_declared
from omcal.datasets._data import DataError
from omcal.datasets._names import listed
from omcal.datasets.readers._variables import gather

MAX_DEPTH = 4
DESCRIPTIONS = (".zarray", "zarr.json")  # of arrays in the formats 2 and 3

# Ways of packing numbers and text. Others, above all "pickle", could run code.
CODECS = {
    *("bytes", "vlen-utf8", "transpose", "crc32c", "sharding_indexed", "gzip", "zstd", "blosc"),
    *("zlib", "lz4", "lzma", "bz2", "shuffle", "delta", "fixedscaleoffset"),
}


def read_zarr(path: Path) -> Contents:
    """Every array of a zarr group by its path, or the one array that the folder is."""
    try:
        import zarr
    except ImportError as error:
        raise ImportError('zarr folders need zarr: pip install "omcal[io]".') from error
    variables: dict[str, Variable] = {}
    for folder, description in _arrays(path, 0):
        name = folder.relative_to(path).as_posix() if folder != path else "X"
        _check_codecs(description, name)
        array = _read(zarr.open_array(str(folder), mode="r"), name, folder)
        if array is not None:
            variables[name] = array
    return Contents("zarr", gather(variables))


def _arrays(folder: Path, depth: int) -> Iterator[tuple[Path, dict[str, Any]]]:
    """The folders below that are arrays, and how they describe themselves."""
    for name in DESCRIPTIONS:
        if (folder / name).is_file():
            description = json.loads((folder / name).read_text("utf-8"))
            if "shape" in description:
                yield folder, description
                return
    if depth < MAX_DEPTH:
        for inner in sorted(item for item in folder.iterdir() if item.is_dir()):
            yield from _arrays(inner, depth + 1)


def _check_codecs(description: dict[str, Any], name: str) -> None:
    packing = [description.get(key) for key in ("codecs", "filters", "compressor")]
    strange = sorted(_codec_names(packing) - CODECS)
    if strange:
        raise DataError(
            f"array {name!r} is packed with {listed(strange)}, which is not opened because it "
            "could run code; store it with gzip, zstd or blosc."
        )


def _codec_names(packing: Any) -> set[str]:
    """Names of the codecs in a description, those within other codecs included."""
    if isinstance(packing, list):
        return set().union(*(_codec_names(item) for item in packing))
    if not isinstance(packing, dict):
        return set()
    own = {str(packing[key]) for key in ("id", "name") if key in packing}
    inner = packing.get("configuration")
    nested = [inner.get(key) for key in ("codecs", "index_codecs")] if inner else []
    return own | _codec_names(nested)


def _read(array: Any, name: str, folder: Path) -> NDArray | None:
    if array.dtype.kind not in "biufUT":
        return None
    stored = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    for shape in (array.shape, array.shards or array.chunks):  # a chunk is unpacked as a whole
        n_bytes = math.prod(shape) * array.dtype.itemsize
        check_declared(n_bytes, stored, f"array {name!r} of shape {shape}")
    values = np.asarray(array[...])
    return values.astype(str) if values.dtype.kind == "T" else values
