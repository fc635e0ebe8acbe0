"""Files written from a data set; whatever is written, `load_views` reads back."""

from __future__ import annotations

import csv
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from omcal.datasets._data import DataError, MultiViewData
from omcal.datasets._names import PRESENCE_SUFFIX
from omcal.datasets.readers._hdf5 import h5py

LABELS = "labels"


def save_views(path: str | os.PathLike[str], data: MultiViewData) -> None:
    """Write a data set to a file, or to a folder of .npy files.

    The file appears under its name only when it is complete; a file that was there is replaced.

    Parameters
    ----------
    path : str or path-like
        Its ending says the format: ``.npz``, ``.mat`` (MATLAB 5), ``.h5`` or ``.hdf5``, ``.csv``,
        ``.parquet``. Without an ending it is a new folder with one .npy file per view. Sparse
        views can go to .npz, .mat and .h5 only.
    data : MultiViewData
        Views and labels are written. Which samples are absent is kept by the rows of NaN; for
        sparse views only .npz can say it.

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
    write = WRITERS.get(path.suffix.lower())
    if write is None:
        raise DataError(
            f"path={str(path)!r} ends in {path.suffix!r}; use one of {[*filter(None, WRITERS)]}, "
            "or no ending for a folder."
        )
    if LABELS in data.views:
        raise DataError(f"a view is called {LABELS!r}; rename it, this is where the labels go.")
    is_folder = write is _write_folder
    if is_folder and path.exists():
        raise DataError(f"path={str(path)!r} exists; name a new folder.")
    if write not in (_write_npz, _write_mat, _write_hdf5):
        _require_dense(data, path)
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(dir=path.parent, prefix=".writing-"))
    try:
        target = scratch / path.name
        write(target, data)
        os.replace(target, path)
    finally:
        shutil.rmtree(scratch)


def _require_dense(data: MultiViewData, path: Path) -> None:
    for name, view in data.views.items():
        if sparse.issparse(view):
            raise DataError(
                f"view {name!r} is sparse, which {path.suffix or 'a folder of .npy files'} cannot "
                "hold; use .npz, .mat or .h5, or make it dense with toarray()."
            )


def _write_npz(path: Path, data: MultiViewData) -> None:
    arrays: dict[str, Any] = {}
    for name, view in data.views.items():
        if sparse.issparse(view):
            csr = sparse.csr_array(view)
            arrays[f"{name}.data"], arrays[f"{name}.indices"] = csr.data, csr.indices
            arrays[f"{name}.indptr"], arrays[f"{name}.shape"] = csr.indptr, np.array(csr.shape)
        else:
            arrays[name] = view
    for name, mask in (data.presence or {}).items():
        arrays[name + PRESENCE_SUFFIX] = mask
    if data.labels is not None:
        arrays[LABELS] = data.labels
    np.savez_compressed(path, **arrays)


def _write_folder(path: Path, data: MultiViewData) -> None:
    path.mkdir()
    for name, array in {**data.views, LABELS: data.labels}.items():
        if array is not None:
            np.save(path / f"{name}.npy", array, allow_pickle=False)


def _write_mat(path: Path, data: MultiViewData) -> None:
    cell = np.empty((1, len(data.views)), dtype=object)
    for i, view in enumerate(data.views.values()):
        # MATLAB knows neither half precision nor sparse arrays of other types than double.
        small = view.dtype == np.float16 or sparse.issparse(view)
        cell[0, i] = view.astype(np.float64) if small else np.asarray(view)
    variables: dict[str, Any] = {"X": cell, "view_names": np.array(list(data.views), dtype=object)}
    if data.labels is not None:
        is_text = data.labels.dtype.kind in "UST"
        variables["Y"] = (data.labels.astype(object) if is_text else data.labels)[:, None]
    io.savemat(path, variables, do_compression=True)


def _write_hdf5(path: Path, data: MultiViewData) -> None:
    with h5py().File(path, "w") as file:
        for name, view in data.views.items():
            if sparse.issparse(view):
                group = file.create_group(name)
                group.attrs["shape"] = view.shape
                for part in ("data", "indices", "indptr"):
                    group[part] = getattr(view, part)
            else:
                file[name] = view
        if data.labels is not None:
            is_text = data.labels.dtype.kind in "UST"
            file[LABELS] = np.char.encode(data.labels, "utf-8") if is_text else data.labels


def _write_csv(path: Path, data: MultiViewData) -> None:
    separator = _separator(data)
    header = [column for name in data.views for column in _column_names(data, name, separator)]
    rows = np.hstack([np.asarray(view, dtype=np.float64) for view in data.views.values()])
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(([LABELS] if data.labels is not None else []) + header)
        for i, row in enumerate(rows):
            label = [] if data.labels is None else [data.labels[i]]
            writer.writerow(label + row.tolist())


def _separator(data: MultiViewData) -> str:
    """What stands between view and feature in a column's name: "_", or ":" where names have "_"."""
    separator = "_" if not any("_" in name for name in data.views) else ":"
    if any(separator in name for name in data.views):
        raise DataError(f"view names with both '_' and ':' cannot go to CSV: {list(data.views)}.")
    return separator


def _column_names(data: MultiViewData, name: str, separator: str) -> list[str]:
    known = (data.feature_names or {}).get(name)
    width = int(data.views[name].shape[1])
    features = [str(feature) for feature in known] if known is not None else range(1, width + 1)
    return [f"{name}{separator}{str(f).removeprefix(name + separator)}" for f in features]


def _write_parquet(path: Path, data: MultiViewData) -> None:
    try:
        import pyarrow as pa
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError('Parquet files need pyarrow: pip install "omcal[io]".') from error
    columns: dict[str, Any] = {}
    if data.labels is not None:
        columns[LABELS] = pa.array(data.labels)
    for name, view in data.views.items():
        flat = pa.array(np.ascontiguousarray(view).reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, int(view.shape[1]))
    pyarrow.parquet.write_table(pa.table(columns), path)


WRITERS: dict[str, Callable[[Path, MultiViewData], None]] = {
    ".npz": _write_npz,
    ".mat": _write_mat,
    ".h5": _write_hdf5,
    ".hdf5": _write_hdf5,
    ".csv": _write_csv,
    ".parquet": _write_parquet,
    "": _write_folder,
}
