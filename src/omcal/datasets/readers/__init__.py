"""Readers of files, one module per family, and the registry of formats.

To add a format, write a module with a function that recognises it and one that reads it, and add
one entry to `FORMATS`.
"""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from omcal.datasets._data import Contents
from omcal.datasets.readers.array_files import (
    is_idx_file,
    is_idx_folder,
    is_npy_folder,
    read_idx,
    read_idx_folder,
    read_npy,
    read_npy_folder,
    read_npz,
)
from omcal.datasets.readers.hdf5_files import is_hdf5, read_hdf5
from omcal.datasets.readers.mat5 import is_mat5, read_mat5
from omcal.datasets.readers.table_files import is_excel, is_text, read_csv, read_excel, read_parquet
from omcal.datasets.readers.zarr_store import is_zarr, read_zarr
from omcal.views.pair import DataError

START = 4096  # bytes at the beginning of a file that are used to recognise its format


@dataclass(frozen=True)
class Format:
    """A file format.

    `start` holds the first bytes of every such file, or is a function of the path and the first
    bytes (none for a folder) that recognises the format. `read` returns the contents, or for
    several tables a dict of contents by name; it takes `header` if `has_header`. The `endings` of
    names find the tables in a folder.
    """

    name: str
    start: bytes | Callable[[Path, bytes], bool]
    read: Callable[..., Contents | dict[str, Contents]]
    endings: tuple[str, ...] = ()
    has_header: bool = False

    def recognise(self, path: Path, start: bytes) -> bool:
        """Whether a file or folder has this format."""
        known = self.start
        return start.startswith(known) if isinstance(known, bytes) else known(path, start)


# The first entry that recognises a file reads it, so text comes last.
FORMATS = [
    Format("zarr", is_zarr, read_zarr),
    Format("folder of NumPy arrays", is_npy_folder, read_npy_folder),
    Format("folder of idx files", is_idx_folder, read_idx_folder),
    Format("HDF5", is_hdf5, read_hdf5),
    Format("MATLAB 5", is_mat5, read_mat5),
    Format("NumPy array", b"\x93NUMPY", read_npy),
    Format("Excel", is_excel, read_excel, (".xlsx",), has_header=True),
    Format("NumPy archive", b"PK", read_npz),
    Format("Parquet", b"PAR1", read_parquet, (".parquet",)),
    Format("idx", is_idx_file, read_idx),
    Format("CSV", is_text, read_csv, (".csv", ".tsv"), has_header=True),
]

# Known formats that are refused: by their first bytes, and by a member of a zip archive.
REFUSED = {
    b"\x80": "a Python pickle, which could run code; save the arrays with numpy.savez",
    b"ARROW1": "an Arrow or Feather file; save it as Parquet",
    b"\xd0\xcf\x11\xe0": "a workbook of the old kind, .xls; save it as .xlsx or CSV",
    b"RDX": "an R workspace; save the tables as CSV or Parquet",
    b"%PDF": "a PDF",
    b"Rar!": "a RAR archive; unpack it first",
    b"7z\xbc\xaf": "a 7-Zip archive; unpack it first",
    b"\x1f\x8b": "a gzip file that holds no idx array; unpack it first",
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file itself with git lfs pull",
}
REFUSED_ARCHIVES = {
    "word/": "a Word document; save its table as CSV",
    "ppt/": "a presentation",
    "content.xml": "an OpenDocument file; save it as .xlsx or CSV",
}
PAGES = (b"<!doctype", b"<html", b"<?xml")


def find_format(path: Path) -> Format:
    """Return the format of a file or folder, by its content."""
    start = b""
    if not path.is_dir():
        if not path.is_file():
            raise DataError("there is no such file or folder; check the path.")
        with path.open("rb") as file:
            start = file.read(START)
        if not start:
            raise DataError("the file is empty.")
    found = next((format for format in FORMATS if format.recognise(path, start)), None)
    unsure = found is None or found.name in ("CSV", "NumPy archive")
    meaning = _refusal(path, start) if unsure else ""
    if meaning:
        raise DataError(f"this is {meaning}.")
    if found is None:
        raise DataError(_unknown(path))
    return found


def tables_in(folder: Path) -> list[Path]:
    """Return the tables in a folder that is not itself a format, in the order of their names."""
    if not folder.is_dir() or any(format.recognise(folder, b"") for format in FORMATS):
        return []
    endings = {ending for format in FORMATS for ending in format.endings}
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in endings)


def _refusal(path: Path, start: bytes) -> str:
    """Return the description of a known format that is refused; empty for others."""
    if start.startswith(b"PK"):
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
        known = REFUSED_ARCHIVES.items()
        return next((text for part, text in known if any(n.startswith(part) for n in names)), "")
    if start.lstrip().lower().startswith(PAGES):
        return "a page of HTML or XML, perhaps an error message of a download"
    return next((text for magic, text in REFUSED.items() if start.startswith(magic)), "")


def _unknown(path: Path) -> str:
    if path.is_dir():
        return (
            "the folder holds no .npy files, no idx files, no zarr group and no tables (.csv, "
            ".tsv, .parquet, .xlsx); name a file in it instead."
        )
    return (
        "the format is not known; files of MATLAB 5 to 7.3, HDF5, NumPy, CSV, Excel (.xlsx), "
        "Parquet, idx, h5ad and h5mu and folders of .npy, idx, zarr or tables can be read "
        "(MATLAB 4: save again with -v7)."
    )
