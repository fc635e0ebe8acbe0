"""Readers of files, one module a family; the first bytes of a file say which one is meant."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path

from omcal.datasets._contents import Contents
from omcal.datasets._data import DataError
from omcal.datasets.readers.csv_files import read_csv, text_encoding
from omcal.datasets.readers.hdf5_files import read_hdf5
from omcal.datasets.readers.idx_files import (
    GZIP_MAGIC,
    idx_files,
    is_idx,
    open_maybe_packed,
    read_idx,
    read_idx_folder,
)
from omcal.datasets.readers.mat5 import HEADER_SIZE, read_mat5
from omcal.datasets.readers.numpy_files import read_npy, read_npy_folder, read_npz
from omcal.datasets.readers.parquet_files import read_parquet
from omcal.datasets.readers.zarr_store import read_zarr

READERS: dict[str, Callable[..., Contents]] = {
    "MATLAB 5": read_mat5,
    "HDF5": read_hdf5,
    "NumPy array": read_npy,
    "NumPy archive": read_npz,
    "folder of NumPy arrays": read_npy_folder,
    "CSV": read_csv,
    "Parquet": read_parquet,
    "idx": read_idx,
    "folder of idx files": read_idx_folder,
    "zarr": read_zarr,
}

# Those that hold tables with a header, and one or several of them.
HEADERED = ("CSV", "Excel", "folder of tables")
TABLE_ENDINGS = (".csv", ".tsv", ".parquet", ".xlsx")

# What the ending of a name promises; the content decides.
ENDINGS: dict[str, tuple[str, ...]] = {
    ".mat": ("MATLAB 5", "HDF5"),
    ".h5": ("HDF5",),
    ".h5ad": ("HDF5",),
    ".h5mu": ("HDF5",),
    ".npy": ("NumPy array",),
    ".npz": ("NumPy archive",),
    ".csv": ("CSV",),
    ".tsv": ("CSV",),
    ".parquet": ("Parquet",),
    ".xlsx": ("Excel",),
}

HDF5_MAGIC = b"\x89HDF\r\n\x1a\n"
HDF5_OFFSETS = (0, 512, 1024, 2048)  # MATLAB puts 512 bytes of its own before
ZARR_FILES = ("zarr.json", ".zgroup", ".zarray")

# Formats that are known and not read, by their first bytes.
REFUSED = {
    b"\x80": "a Python pickle, which could run code; save the arrays with numpy.savez",
    b"ARROW1": "an Arrow or Feather file; save it as Parquet",
    b"\xd0\xcf\x11\xe0": "a workbook of the old kind, .xls; save it as .xlsx or CSV",
    b"RDX": "an R workspace; save the tables as CSV or Parquet",
    b"%PDF": "a PDF",
    b"Rar!": "a RAR archive; unpack it first",
    b"7z\xbc\xaf": "a 7-Zip archive; unpack it first",
    b"version https://git-lfs": "a pointer of Git LFS; fetch the file itself with git lfs pull",
}


def find_format(path: Path) -> str:
    """The key of `READERS` for what a file or folder holds."""
    if path.is_dir():
        return _folder_format(path)
    if not path.is_file():
        raise DataError("there is no such file or folder; check the path.")
    with path.open("rb") as file:
        start = file.read(max(HDF5_OFFSETS) + len(HDF5_MAGIC))
    if not start:
        raise DataError("the file is empty.")
    if any(start[at:].startswith(HDF5_MAGIC) for at in HDF5_OFFSETS):
        return "HDF5"
    if start[124:HEADER_SIZE] in (b"\x00\x01IM", b"\x01\x00MI"):
        return "MATLAB 5"
    if start.startswith(b"\x93NUMPY"):
        return "NumPy array"
    if start.startswith(b"PK"):
        return _archive_format(path)
    if start.startswith(b"PAR1"):
        return "Parquet"
    if is_idx(start):
        return "idx"
    if start.startswith(GZIP_MAGIC):
        return _packed_format(path)
    for magic, meaning in REFUSED.items():
        if start.startswith(magic):
            raise DataError(f"this is {meaning}.")
    if text_encoding(start) is not None:
        if start.lstrip().lower().startswith((b"<!doctype", b"<html", b"<?xml")):
            raise DataError("this is a page of HTML or XML, perhaps an error of the download.")
        return "CSV"
    raise DataError(
        "the format is not known; files of MATLAB 5 to 7.3, HDF5, NumPy, CSV, Excel (.xlsx), "
        "Parquet, idx, h5ad and h5mu and folders of .npy, idx, zarr or tables can be read "
        "(MATLAB 4: save again with -v7)."
    )


def _folder_format(path: Path) -> str:
    if any((path / name).is_file() for name in ZARR_FILES):
        return "zarr"
    if any(path.glob("*.npy")):
        return "folder of NumPy arrays"
    if idx_files(path):
        return "folder of idx files"
    if any(file.suffix.lower() in TABLE_ENDINGS for file in path.iterdir()):
        return "folder of tables"
    raise DataError(
        "the folder holds no .npy files, no idx files, no zarr group and no tables (.csv, .tsv, "
        ".parquet, .xlsx); name a file in it instead."
    )


# What else is a zip archive, by a part that it has.
ARCHIVES = {
    "xl/": "Excel",
    "word/": "a Word document; save its table as CSV",
    "ppt/": "a presentation",
    "content.xml": "an OpenDocument file; save it as .xlsx or CSV",
}


def _archive_format(path: Path) -> str:
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
    for part, meaning in ARCHIVES.items():
        if any(name.startswith(part) for name in names):
            if meaning == "Excel":
                return meaning
            raise DataError(f"this is {meaning}.")
    return "NumPy archive"


def _packed_format(path: Path) -> str:
    with open_maybe_packed(path) as stream:
        if is_idx(stream.read(4)):
            return "idx"
    raise DataError("of gzip files only idx files are read; unpack it first.")
