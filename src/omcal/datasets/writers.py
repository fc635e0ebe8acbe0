"""Write data sets to files that `load_views` reads back."""

from __future__ import annotations

import csv
import io
import os
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse
from scipy.io import savemat

from omcal.datasets._columns import PRESENT_SUFFIX
from omcal.datasets._data import Matrix, MultiViewData
from omcal.datasets._writable import (
    IDS,
    LABELS,
    TITLES,
    Form,
    csv_header,
    csv_id_name,
    require_features,
    require_free_names,
    require_storable,
)
from omcal.datasets.readers._cells import guarded
from omcal.datasets.readers._trees import SPARSE_PARTS, is_computed
from omcal.datasets.readers.hdf5_files import H5Object, h5py
from omcal.machine.arrays import Array
from omcal.machine.files import replacing
from omcal.machine.optional import require
from omcal.machine.threads import row_blocks
from omcal.views.pair import DataError
from omcal.views.stored import StoredTable, in_memory

_BLOCK_BYTES = 1 << 26


def save_views(path: str | os.PathLike[str], data: MultiViewData | Mapping[str, Matrix]) -> None:
    """Write a data set to a file, or to a folder of .npy files.

    The file appears under its name only when it is complete; a file that was there is replaced.

    Parameters
    ----------
    path : str or path-like
        Its ending sets the format: ``.npz``, ``.mat`` (MATLAB 5), ``.h5`` or ``.hdf5``, ``.zarr``
        (a new folder), ``.h5ad`` (AnnData, the views in ``obsm``, one called X as X), ``.csv``,
        ``.parquet``. Without an ending it is a new folder with one .npy file per view. Sparse views
        cannot be written to .csv, .parquet and .npy.
    data : MultiViewData or dict of views
        Views, labels, ids and the absent samples are written. In .mat only rows of NaN can mark
        absent samples, so sparse views that lack samples cannot be written to it.

    Examples
    --------
    >>> import tempfile
    >>> from omcal.datasets import load_views, make_multiview
    >>> path = Path(tempfile.mkdtemp()) / "made.csv"
    >>> save_views(path, make_multiview(30, n_views=2, random_state=0))
    >>> load_views(path).widths
    (10, 10)
    """
    path = Path(path)
    data = data if isinstance(data, MultiViewData) else MultiViewData(data)
    form = WRITERS.get(path.suffix.lower())
    if form is None:
        raise DataError(
            f"path={str(path)!r} ends in {path.suffix!r}; use one of {[*filter(None, WRITERS)]}, "
            "or no ending for a folder."
        )
    require_free_names(data)
    if form.folder and path.exists():
        raise DataError(f"path={str(path)!r} exists; name a new folder.")
    require_storable(data, path, form)
    path.parent.mkdir(parents=True, exist_ok=True)
    size = sum(v.data.nbytes if sparse.issparse(v) else v.nbytes for v in data.views.values())
    with replacing(path, size=size, folder=form.folder) as temporary:
        form.write(temporary, data)


def _blocks(view: Matrix, name: str) -> Iterator[tuple[slice, Array]]:
    """Yield blocks of rows of a dense view; a mapped file is read, not paged in."""
    table = StoredTable(view, name)
    for rows in row_blocks(len(view), max(1, _BLOCK_BYTES // max(1, view[:1].nbytes))):
        yield rows, table.read(rows)


def _write_npz(path: Path, data: MultiViewData) -> None:
    # numpy.savez takes names as keyword arguments, which may clash with its parameters.
    with path.open("wb") as file, zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, array in _named_arrays(data).items():
            with archive.open(f"{name}.npy", "w", force_zip64=True) as member:
                np.lib.format.write_array(member, np.asarray(array), allow_pickle=False)


def _vectors(data: MultiViewData) -> dict[str, Array]:
    """Return the arrays to write besides the views: their names, labels, ids and presence."""
    vectors = {TITLES: np.array(list(data.views)), LABELS: data.labels, IDS: data.ids}
    masks = {name + PRESENT_SUFFIX: mask for name, mask in (data.present or {}).items()}
    return {name: values for name, values in (vectors | masks).items() if values is not None}


def _named_arrays(data: MultiViewData) -> dict[str, Any]:
    """Return all arrays to write, sparse views in parts, for formats of plain arrays."""
    arrays: dict[str, Any] = _vectors(data)
    for name, view in data.views.items():
        if sparse.issparse(view):
            csr = sparse.csr_array(view)
            arrays[f"{name}.data"], arrays[f"{name}.indices"] = csr.data, csr.indices
            arrays[f"{name}.indptr"], arrays[f"{name}.shape"] = csr.indptr, np.array(csr.shape)
        else:
            arrays[name] = in_memory(view, name)
    return arrays


def _write_zarr(path: Path, data: MultiViewData) -> None:
    zarr = require("zarr", "zarr folders")
    # Write through memory: on a full disk, zarr's own threads would continue to write.
    files: dict[str, Any] = {}
    # Every version of zarr reads format 2, and only format 2 has text of fixed length.
    root = zarr.open_group(zarr.storage.MemoryStore(files), mode="w", zarr_format=2)
    for name, array in _named_arrays(data).items():
        root.create_array(name, data=array)
        for place, content in files.items():
            (path / place).parent.mkdir(parents=True, exist_ok=True)
            (path / place).write_bytes(content.to_bytes())
        files.clear()


def _write_folder(path: Path, data: MultiViewData) -> None:
    for name, array in {**_vectors(data), **data.views}.items():
        # numpy.save is not used, because it loses the cause of a failed write.
        with (path / f"{name}.npy").open("wb") as file:
            header = {"descr": array.dtype.str, "fortran_order": False, "shape": array.shape}
            np.lib.format.write_array_header_1_0(file, header)
            for _, block in _blocks(array, name) if array.ndim == 2 else [((), array)]:
                file.write(block.tobytes())


def _write_mat(path: Path, data: MultiViewData) -> None:
    cell = np.empty((1, len(data.views)), dtype=object)
    for i, view in enumerate(in_memory(v, name) for name, v in data.views.items()):
        # MATLAB has no half precision, and sparse arrays of doubles only.
        small = view.dtype == np.float16 or sparse.issparse(view)
        cell[0, i] = view.astype(np.float64) if small else view
    variables: dict[str, Any] = {"X": cell, TITLES: np.array(list(data.views), dtype=object)}
    if data.labels is not None:
        is_text = data.labels.dtype.kind in "UST"
        variables["Y"] = (data.labels.astype(object) if is_text else data.labels)[:, None]
    if data.ids is not None:
        variables[IDS] = data.ids.astype(object)[:, None]
    with path.open("wb") as file:
        savemat(file, variables, do_compression=True)


def _write_hdf5(path: Path, data: MultiViewData) -> None:
    with _new_hdf5(path) as file:
        for name, values in _vectors(data).items():
            file[name] = np.char.encode(values, "utf-8") if values.dtype.kind in "UST" else values
        for name, view in data.views.items():
            _put_matrix(file, name, view)


@contextmanager
def _new_hdf5(path: Path, **options: Any) -> Iterator[H5Object]:
    """Open a new HDF5 file; a full disk raises an error when it is closed."""
    with _Unfailing(path, "r+b") as disk:
        with h5py().File(disk, "w", **options) as file:
            yield file
        disk.raise_error()


class _Unfailing(io.FileIO):
    """A file that drops data it cannot write, because HDF5 aborts the process on a failed write."""

    _error: OSError | None = None
    _end = 0

    def write(self, data: Any) -> int:
        rest = memoryview(data).cast("B")
        size, start = len(rest), self.tell()
        self._end = max(self._end, start + size)
        try:
            while len(rest) and self._error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self._error = error
        self.seek(start + size)
        return size

    def raise_error(self) -> None:
        """Raise the first write error, after extending the file to its intended size."""
        if self._error is not None:
            self.truncate(self._end)
            raise self._error


def _put_matrix(group: H5Object, name: str, view: Matrix) -> None:
    """Write a view to an HDF5 group with the attributes that AnnData expects."""
    if not sparse.issparse(view):
        dataset = group.create_dataset(name, shape=view.shape, dtype=view.dtype)
        for rows, block in _blocks(view, name):
            dataset[rows] = block
        _encode(dataset, "array", "0.2.0")
        return
    parts = _encode(group.create_group(name), "csr_matrix", "0.1.0", shape=view.shape)
    for part in SPARSE_PARTS:
        parts[part] = getattr(view, part)


def _encode(item: H5Object, kind: str, version: str, **attributes: Any) -> H5Object:
    attributes |= {"encoding-type": kind, "encoding-version": version}
    for name, value in attributes.items():
        item.attrs[name] = value
    return item


def _write_h5ad(path: Path, data: MultiViewData) -> None:
    """Write the file of an AnnData object, following anndata's description of the format."""
    first, *others = data.views
    for name in [first] * (first != "X") + others:
        if is_computed(name):
            raise DataError(
                f"view {name!r} cannot go to .h5ad, where X is the first view and X_... was "
                "computed from it; rename it, or use .h5."
            )
    with _new_hdf5(path, track_order=True) as file:
        _encode(file, "anndata", "0.1.0")
        masks = (data.present or {}).items()
        columns = {name + PRESENT_SUFFIX: mask for name, mask in masks if not mask.all()}
        if data.labels is not None:
            columns[LABELS] = data.labels
        names = np.arange(data.n_samples) if data.ids is None else data.ids
        _put_table(file, "obs", names, columns)
        width = data.widths[0] if first == "X" else 0
        _put_table(file, "var", (data.feature_names or {}).get("X", np.arange(width)), {})
        views = _encode(file.create_group("obsm", track_order=True), "dict", "0.1.0")
        for name, view in data.views.items():
            _put_matrix(file if name == "X" else views, name, view)


def _put_table(file: H5Object, name: str, index: Array, columns: dict[str, Array]) -> None:
    """Write a data frame; text columns are categories, with code -1 for an unknown label."""
    table = file.create_group(name)
    order = np.array(list(columns), dtype=h5py().string_dtype())
    _encode(table, "dataframe", "0.2.0", **{"_index": "_index", "column-order": order})
    _put_text(table, "_index", index.astype(str))
    for title, values in columns.items():
        if values.dtype.kind not in "UST":
            table[title] = values
            _encode(table[title], "array", "0.2.0")
            continue
        text = values.astype(str)
        known = np.unique(text[text != ""])
        codes = np.where(text == "", -1, np.searchsorted(known, text)).astype(np.int32)
        column = _encode(table.create_group(title), "categorical", "0.2.0", ordered=False)
        column["codes"] = codes
        _encode(column["codes"], "array", "0.2.0")
        _put_text(column, "categories", known)


def _put_text(group: H5Object, name: str, values: Array) -> None:
    group.create_dataset(name, data=values.astype(object), dtype=h5py().string_dtype())
    _encode(group[name], "string-array", "0.2.0")


def _write_csv(path: Path, data: MultiViewData) -> None:
    header = csv_header(data)
    tables = [in_memory(view, name).astype(np.float64) for name, view in data.views.items()]
    rows = np.hstack(tables)
    require_features(header, rows)
    columns: dict[str, Array] = {}
    if data.ids is not None:
        columns[csv_id_name(data, header)] = data.ids
    if data.labels is not None:
        columns[LABELS] = data.labels
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow([guarded(name) for name in (*columns, *header)])
        for *own, row in zip(*(values.tolist() for values in columns.values()), rows, strict=True):
            texts = [guarded(cell) if isinstance(cell, str) else cell for cell in own]
            writer.writerow(texts + row.tolist())


def _write_parquet(path: Path, data: MultiViewData) -> None:
    pa, parquet = require("pyarrow", "Parquet files"), require("pyarrow.parquet", "Parquet files")
    vectors = {IDS: data.ids, LABELS: data.labels}
    columns = {name: pa.array(values) for name, values in vectors.items() if values is not None}
    for name, view in data.views.items():
        flat = pa.array(np.ascontiguousarray(in_memory(view, name)).reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, int(view.shape[1]))
    parquet.write_table(pa.table(columns), path)


WRITERS = {
    ".npz": Form(_write_npz),
    ".mat": Form(_write_mat, masks=False),
    ".h5": Form(_write_hdf5, names="nested"),
    ".hdf5": Form(_write_hdf5, names="nested"),
    ".zarr": Form(_write_zarr, names="nested", folder=True),
    ".h5ad": Form(_write_h5ad, names="plain"),
    ".csv": Form(_write_csv, sparse=False),
    ".parquet": Form(_write_parquet, sparse=False),
    "": Form(_write_folder, sparse=False, names="plain", folder=True),
}
