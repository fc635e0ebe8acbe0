"""Valid files of every kind, and what changes a few of their bytes; for tests and `make fuzz`."""

import numpy as np
import pytest
from dataset_files import (
    copy_to_zarr,
    put_observations,
    put_sparse,
    write_idx,
    write_mat5,
    write_mat73,
)

from omcal.datasets import save_views


def write_h5ad(path, mixed):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        put_sparse(file, "X", mixed.views["s"])
        put_observations(file, [f"c{i}" for i in range(12)], cell_type=np.array(list("abc" * 4)))


def write_h5mu(path, mixed):
    """Two modalities, of which one lacks two cells."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        put_observations(file, [f"c{i}" for i in range(12)])
        for name, n in (("whole", 12), ("part", 10)):
            group = file.create_group(f"mod/{name}")
            put_observations(group, [f"c{i}" for i in range(n)], label=np.array(list("ab" * 6))[:n])
            put_sparse(group, "X", mixed.views["s"][:n])
            file[f"obsmap/{name}"] = np.where(np.arange(12) < n, np.arange(1, 13), 0)


def write_anndata_zarr(path, mixed):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    with h5py.File("table", "w", driver="core", backing_store=False) as file:
        put_sparse(file, "X", mixed.views["s"])
        put_observations(file, [f"c{i}" for i in range(12)], cell_type=np.array(list("abc" * 4)))
        copy_to_zarr(file, zarr.open_group(str(path), mode="w", zarr_format=2))


def write_zarr(path, mixed):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w")
    group.create_array("a", data=mixed.views["a"], chunks=(5, 5))
    group.create_array("y", data=mixed.labels)


def write_h5_text(path, dense):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["a"] = dense.views["a"]
        file.create_dataset("b", data=dense.views["b"], compression="gzip")
        file["label"] = dense.labels.astype(object)


FILES = {
    "npz": lambda path, dense, mixed: save_views(path.with_suffix(".npz"), mixed),
    "npy": lambda path, dense, mixed: np.save(path.with_suffix(".npy"), dense.views["a"]),
    "mat5": lambda path, dense, mixed: write_mat5(path, mixed.views.values(), mixed.labels),
    "mat5 not packed": lambda path, dense, mixed: write_mat5(
        path, mixed.views.values(), mixed.labels, compress=False
    ),
    "mat5 with text": lambda path, dense, mixed: save_views(path.with_suffix(".mat"), dense),
    "mat7.3": lambda path, dense, mixed: write_mat73(path, list(mixed.views.values()), range(12)),
    "hdf5": lambda path, dense, mixed: save_views(path.with_suffix(".h5"), mixed),
    "hdf5 with text": lambda path, dense, mixed: write_h5_text(path, dense),
    "h5ad": lambda path, dense, mixed: write_h5ad(path, mixed),
    "h5mu": lambda path, dense, mixed: write_h5mu(path, mixed),
    "AnnData in zarr": lambda path, dense, mixed: write_anndata_zarr(path, mixed),
    "csv": lambda path, dense, mixed: save_views(path.with_suffix(".csv"), dense),
    "parquet": lambda path, dense, mixed: save_views(path.with_suffix(".parquet"), dense),
    "idx": lambda path, dense, mixed: write_idx(path, np.ones((6, 2, 2)), packed=False),
    "idx packed": lambda path, dense, mixed: write_idx(path, np.ones((6, 2, 2))),
    "zarr": lambda path, dense, mixed: write_zarr(path, mixed),
}


def mutate(content, rng):
    """Change some bytes; now and then set a few in a row, or cut the end off."""
    changed = bytearray(content)
    for place in rng.integers(len(changed), size=rng.integers(1, 6)):
        changed[place] = rng.integers(256)
    chance = rng.random()
    if chance < 0.15:
        start, length = rng.integers(len(changed)), rng.integers(1, 9)
        changed[start : start + length] = b"\xff" * length
    elif chance < 0.25:
        del changed[rng.integers(len(changed)) :]
    return bytes(changed)
