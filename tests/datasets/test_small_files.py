"""Small files that would take much memory, and folders that would be waited for or never end."""

import contextlib
import json
import os
import tracemalloc
import warnings

import numpy as np
import pytest
from dataset_files import put_observations
from refusal import PEAK, assert_refused
from scipy import io

from omcal.datasets import DataError, describe, load_views, save_views
from omcal.datasets._data import text_array


def cell_of(*texts):
    cell = np.empty((1, len(texts)), dtype=object)
    cell[0] = texts
    return cell


def mat(path):
    texts = cell_of("x" * 60_000, *["y"] * 3000)
    io.savemat(path, {"X": np.eye(9), "names": texts}, do_compression=True, appendmat=False)


def csv_text(path):
    path.write_text(
        "v1_a,v1_b,v2_a,v2_b,remark\n" + "1,2,3,4,y\n" * 5000 + "1,2,3,4," + "x" * 130_000
    )


def csv_among_numbers(path):
    path.write_text("a,b\n" + "1,\n" * 12_000 + f"1,{'x' * 130_000}\n")


def csv_code(path):
    path.write_text("a,b,c\n" + "1.5,2,007\n" * 12_000 + f"1,2,{'7' * 130_000}\n")


def csv_header(path):
    names = [f"c{j}" for j in range(10_000)] + ["x" * 130_000]
    path.write_text(",".join(names) + "\n" + ",".join("1" * 0 + "1.5" for _ in names) + "\n")


def parquet(path, texts, **columns):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    numbers = {f"v{v}_{j}": np.arange(len(texts)) * 1.5 for v in (1, 2) for j in range(2)}
    pyarrow.parquet.write_table(pa.table({**numbers, "label": texts, **columns}), path)


def parquet_one_long(path):
    parquet(path, ["x" * 20_000] + ["y"] * 20_000)


def parquet_repeated(path):
    parquet(path, ["x" * 20_000] * 20_000)


def parquet_lists_of_text(path):
    parquet(path, ["y"] * 500, lists=[["x" * 100_000] * 4] * 500)


def h5_repeated(path):
    """All strings are one, of which the heap holds one copy."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["X"] = np.eye(9)
        strings = file.create_dataset("names", (60_000,), dtype=h5py.string_dtype())
        strings[0] = "x" * 60_000
        offset = strings.id.get_offset()
    content = bytearray(path.read_bytes())
    content[offset : offset + 16 * 60_000] = bytes(content[offset : offset + 16]) * 60_000
    path.write_bytes(content)


def h5_links(path):
    """Forty names for 8 MB."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros((1000, 1000))
        for i in range(40):
            file[f"X{i}"] = file["X"]


def h5_linked_groups(path):
    """Eight floors of groups, on each of which twenty names lead to the next."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["floor0/X"] = np.eye(9)
        for i in range(1, 7):
            for j in range(20):
                file[f"floor{i}/{j}"] = file[f"floor{i - 1}"]
        for i in range(6):
            del file[f"floor{i}"]


def h5ad_category(path):
    """A class with a name of 60000 letters, in each of 60000 cells."""
    h5py = pytest.importorskip("h5py")
    with h5py.File(path, "w") as file:
        file["X"] = np.zeros((60_000, 2), np.int8)
        put_observations(file, ["c"] * 60_000, cell_type=np.zeros(60_000, int))
        del file["obs/cell_type"]
        group = file.create_group("obs/cell_type")
        group["codes"] = np.zeros(60_000, np.int8)
        group["categories"] = np.array(["x" * 60_000], dtype=object)


def zarr_text(path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(path), mode="w", zarr_format=2)
    group.create_array("X", data=np.eye(9))
    texts = np.array(["x" * 60_000] + ["y"] * 3000, dtype=object)
    group.create_array("names", shape=texts.shape, dtype=str)[:] = texts.astype(str)


LARGE = [
    *(mat, csv_text, csv_among_numbers, csv_code, csv_header, parquet_one_long, parquet_repeated),
    *(parquet_lists_of_text, h5_repeated, h5_links, h5_linked_groups),
    *(h5ad_category, zarr_text),
]


@pytest.mark.long
@pytest.mark.memory
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("make", LARGE, ids=lambda make: make.__name__)
def test_small_files_take_little_memory(tmp_path, make):
    """They load, or a DataError says why not."""
    path = tmp_path / "file"
    make(path)
    tracemalloc.start()
    for read in (load_views, describe):
        with contextlib.suppress(DataError):
            read(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    size = path.stat().st_size if path.is_file() else 0
    assert peak < PEAK + 8 * size


def test_long_texts_do_not_cost_the_rest(tmp_path):
    for make in (csv_text, parquet_one_long):
        path = tmp_path / make.__name__
        make(path)
        data = load_views(path)
        assert data.widths == (2, 2) and data.labels is None
        assert any("long texts" in note for note in data.notes)
    h5_links(tmp_path / "links")
    assert list(load_views(tmp_path / "links").views) == ["X"]


@pytest.mark.slow
def test_ordinary_texts_are_kept():
    assert text_array(["cell type one"] * 500_000).shape == (500_000,)
    assert text_array(["a text of some length, as abstracts have it" * 30] * 20_000) is not None
    assert text_array([]).shape == (0,)


@pytest.fixture
def store(tmp_path, dense):
    pytest.importorskip("zarr")
    save_views(tmp_path / "data.zarr", dense)
    assert load_views(tmp_path / "data.zarr").n_samples == dense.n_samples
    return tmp_path / "data.zarr"


def chunk_of(store):
    return next(path for path in sorted((store / "a").iterdir()) if path.name[0].isdigit())


def linked_to_itself(store):
    (store / "again").symlink_to(store)


def linked_array(store):
    (store / "a").rename(store.parent / "elsewhere")
    (store / "a").symlink_to(store.parent / "elsewhere")


def linked_chunk(store):
    chunk = chunk_of(store)
    chunk.unlink()
    chunk.symlink_to("/etc/hostname")


def device_for_a_chunk(store):
    chunk = chunk_of(store)
    chunk.unlink()
    chunk.symlink_to("/dev/zero")


def pipe_for_a_chunk(store):
    chunk = chunk_of(store)
    chunk.unlink()
    os.mkfifo(chunk)


def linked_description(store):
    (store / "a" / ".zarray").rename(store.parent / "zarray")
    (store / "a" / ".zarray").symlink_to(store.parent / "zarray")


@pytest.mark.parametrize("version", [2, 3])
def test_a_part_that_claims_a_billion_texts(tmp_path, version):
    zarr = pytest.importorskip("zarr")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # version 3 has no agreed texts yet
        group = zarr.open_group(str(tmp_path / "data"), mode="w", zarr_format=version)
        group.create_array("X", data=np.eye(9))
        group.create_array("y", shape=(9,), dtype=str, compressors=None)[:] = np.array(["a"] * 9)
        assert load_views(tmp_path / "data").labels.tolist() == ["a"] * 9
        chunk = tmp_path / "data" / "y" / ("0" if version == 2 else "c/0")
        content = chunk.read_bytes()
        chunk.write_bytes((10**9).to_bytes(4, "little") + content[4:])
        with pytest.raises(DataError, match="part of the texts in 'y' is damaged"):
            load_views(tmp_path / "data")


STORES = [linked_to_itself, linked_array, linked_chunk, device_for_a_chunk, pipe_for_a_chunk]
STORES += [linked_description]


@pytest.mark.memory
@pytest.mark.parametrize("damage", STORES, ids=lambda damage: damage.__name__)
def test_links_pipes_and_devices_in_a_store_are_refused(store, damage):
    damage(store)
    assert_refused(store)
    with pytest.raises(DataError, match="is not followed"):
        load_views(store)


def test_of_two_descriptions_the_checked_one_is_opened(store):
    """The second would have zarr run a codec that may run code."""
    described = {
        **{"zarr_format": 3, "node_type": "array", "shape": [12, 4], "data_type": "float64"},
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [12, 4]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        **{"fill_value": 0, "codecs": [{"name": "numcodecs.pickle"}], "attributes": {}},
    }
    before = load_views(store).views["a"]
    (store / "a" / "zarr.json").write_text(json.dumps(described))
    np.testing.assert_array_equal(load_views(store).views["a"], before)


@pytest.mark.memory
def test_pipes_in_a_folder_are_not_waited_for(tmp_path, dense):
    save_views(tmp_path / "data", dense)
    os.mkfifo(tmp_path / "data" / "other")
    assert load_views(tmp_path / "data").n_samples == dense.n_samples
    os.mkfifo(tmp_path / "data" / "pipe.npy")
    assert_refused(tmp_path / "data")
    (tmp_path / "data" / "pipe.npy").unlink()
    (tmp_path / "data" / "pipe.npy").symlink_to("/dev/zero")
    assert_refused(tmp_path / "data")
    (tmp_path / "tables").mkdir()
    os.mkfifo(tmp_path / "tables" / "a.csv")
    assert_refused(tmp_path / "tables")
    os.mkfifo(tmp_path / "alone.csv")
    assert_refused(tmp_path / "alone.csv")
