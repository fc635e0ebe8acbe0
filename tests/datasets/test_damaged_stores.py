"""Damaged or hostile HDF5, Parquet and zarr: an error that says so, and nothing else."""

import json
import pickle
import struct

import numpy as np
import pytest
from dataset_files import put_observations, write_mat73
from refusal import Payload, assert_refused, cut

from omcal.datasets import DataError, load_views, save_views

# Each refusal is watched for the memory that it takes.
pytestmark = pytest.mark.memory

HUGE = 10**7


def hdf5_cut(h5py, path, views):
    with h5py.File(path, "w") as file:
        file["X"] = np.ones((500, 10))
    cut(path)


def hdf5_never_stored(h5py, path, views):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", (HUGE, HUGE), chunks=(1000, 1000), dtype="f8")


def hdf5_huge_chunk(h5py, path, views):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", (9, 9), chunks=(2**14, 2**14), maxshape=(None, None), dtype="f8")


def hdf5_external_link(h5py, path, views):
    with h5py.File(path, "w") as file:
        file["X"] = h5py.ExternalLink("/etc/hostname", "X")


def hdf5_external_data(h5py, path, views):
    with h5py.File(path, "w") as file:
        file.create_dataset("X", (8, 5), dtype="u1", external=[("/etc/hostname", 0, 40)])


def hdf5_virtual(h5py, path, views):
    layout = h5py.VirtualLayout((8, 5), "f8")
    layout[:] = h5py.VirtualSource("other.h5", "X", shape=(8, 5))
    with h5py.File(path, "w") as file:
        file.create_virtual_dataset("X", layout)


def hdf5_loop(h5py, path, views):
    with h5py.File(path, "w") as file:
        file["group/again"] = file["/"]


def hdf5_without_views(h5py, path, views):
    with h5py.File(path, "w") as file:
        file["X"] = np.array([1j, 2j])


def mat73_nothing_referred_to(h5py, path, views):
    write_mat73(path, views, np.arange(8))
    with h5py.File(path, "r+") as file:
        file["X"][0, 0] = h5py.Reference()


def mat73_one_thing_many_times(h5py, path, views):
    write_mat73(path, [np.ones((500, 40))] * 2, np.arange(500))
    with h5py.File(path, "r+") as file:
        file["X"][1, 0] = file["X"][0, 0]


def hdf5_many_never_stored(h5py, path, views):
    """Each is small enough to let pass; all together they are not."""
    with h5py.File(path, "w") as file:
        for i in range(60):
            file.create_dataset(f"X{i}", (10, 10**5), dtype="f8")


def h5ad_codes_from_elsewhere(h5py, path, views):
    other = path.with_name("other.h5")
    with h5py.File(other, "w") as file:
        file["codes"] = np.zeros(8, dtype=np.int8)
    with h5py.File(path, "w") as file:
        file["X"] = views[0]
        put_observations(file, "abcdefgh", cell_type=np.array(list("xyxyxyxy")))
        del file["obs/cell_type/codes"]
        file["obs/cell_type/codes"] = h5py.ExternalLink(str(other), "codes")


def hdf5_string_too_long(h5py, path, views):
    """A string that claims four billion letters."""
    with h5py.File(path, "w") as file:
        file["X"] = views[0]
        file["label"] = np.array(["abc"] * 8, dtype=object)
        offset = file["label"].id.get_offset()
    content = bytearray(path.read_bytes())
    content[offset : offset + 4] = b"\xff" * 4
    path.write_bytes(content)


def hdf5_string_elsewhere(h5py, path, views):
    hdf5_string_too_long(h5py, path, views)
    with h5py.File(path, "r") as file:
        offset = file["label"].id.get_offset()
    content = bytearray(path.read_bytes())
    content[offset : offset + 12] = struct.pack("<IQ", 3, 8)
    path.write_bytes(content)


HDF5 = [
    *(hdf5_cut, hdf5_never_stored, hdf5_huge_chunk, hdf5_external_link, hdf5_external_data),
    *(hdf5_virtual, hdf5_loop, hdf5_without_views, mat73_nothing_referred_to),
    *(hdf5_string_too_long, hdf5_string_elsewhere, hdf5_many_never_stored),
    *(mat73_one_thing_many_times, h5ad_codes_from_elsewhere),
]


@pytest.mark.parametrize("damage", HDF5, ids=lambda damage: damage.__name__)
def test_damaged_hdf5_is_refused(tmp_path, views, damage):
    h5py = pytest.importorskip("h5py")
    damage(h5py, tmp_path / "file", views)
    assert_refused(tmp_path / "file")


def test_damaged_parquet_is_refused(tmp_path, dense):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    path = tmp_path / "file.parquet"
    save_views(path, dense)
    cut(path)
    assert_refused(path)
    pyarrow.parquet.write_table(pa.table({"a": [[1.0], [1.0, 2.0]]}), path)
    assert_refused(path)
    pyarrow.parquet.write_table(pa.table({"a": pa.array([], pa.float64())}), path)
    assert_refused(path)
    # A column of one value takes next to no space, however long it is.
    one = pa.table({f"c{j}": pa.array(np.zeros(10**6)) for j in range(20)})
    pyarrow.parquet.write_table(one, path, row_group_size=10**6)
    with pytest.raises(DataError, match="declares"):
        load_views(path)


def describe_zarr(path, **changes):
    path.mkdir()
    description = {
        **{"zarr_format": 2, "shape": [2, 2], "chunks": [2, 2], "dtype": "<f8", "order": "C"},
        **{"compressor": None, "filters": None, "fill_value": 0},
    }
    (path / ".zarray").write_text(json.dumps(description | changes))


@pytest.mark.parametrize(
    "changes",
    [
        {"filters": [{"id": "pickle", "protocol": 5}]},
        {"shape": [HUGE, HUGE]},
        {"chunks": [HUGE, HUGE]},
        {"dtype": "|O"},
        {"dtype": "nonsense"},
        {"shape": [-1, 2]},
    ],
)
def test_damaged_zarr_is_refused(tmp_path, changes):
    pytest.importorskip("zarr")
    describe_zarr(tmp_path / "data", **changes)
    (tmp_path / "data" / "0.0").write_bytes(pickle.dumps(Payload(tmp_path / "executed")))
    assert_refused(tmp_path / "data")


def test_zarr_with_pickle_is_not_even_given_to_zarr(tmp_path):
    pytest.importorskip("zarr")
    describe_zarr(tmp_path / "data", compressor={"id": "pickle"})
    with pytest.raises(DataError, match=r"packed with 'pickle'.*could run code"):
        load_views(tmp_path / "data")


def test_zarr_without_a_readable_description(tmp_path):
    pytest.importorskip("zarr")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "zarr.json").write_text("{not json")
    assert_refused(tmp_path / "data")


def put_blosc(zarr, path, layout):
    """An array of numbers or texts that Blosc packed, in one file."""
    group = zarr.open_group(str(path), mode="w", zarr_format=2 if layout == "v2" else 3)
    blosc = zarr.codecs.BloscCodec(cname="lz4")
    if layout == "texts":
        words = np.array([f"c{i}" for i in range(9)])
        texts = group.create_array("id", shape=(9,), dtype=str, compressors=blosc)
        texts[:] = words
        group.create_array("X", data=np.ones((9, 2)))
        return path / "id"
    options = {"chunks": (3, 6), "shards": (9, 6)} if layout == "shards" else {"chunks": (9, 6)}
    if layout == "v2":
        from numcodecs import Blosc

        blosc = Blosc()
    data = np.random.default_rng(0).normal(size=(9, 6))  # noise, which Blosc keeps as it is
    group.create_array("X", data=data, compressors=blosc, **options)
    return path / "X"


@pytest.mark.parametrize("layout", ["v2", "v3", "shards", "texts"])
def test_a_part_by_blosc_that_was_cut_short_is_never_read_beyond_its_end(tmp_path, layout):
    """Blosc takes the length that a part says, and gave what lay behind it in memory."""
    zarr = pytest.importorskip("zarr")
    folder = put_blosc(zarr, tmp_path / "data", layout)
    load_views(tmp_path / "data")
    (part,) = [
        file
        for file in folder.rglob("*")
        if file.is_file() and file.name not in (".zarray", ".zattrs", "zarr.json")
    ]
    content = part.read_bytes()
    for length in range(0, len(content), 7):
        part.write_bytes(content[:length])
        with pytest.raises(DataError, match=r"damaged"):
            load_views(tmp_path / "data")
    if layout == "shards":  # the index is as it was, and the pieces are not where it says
        part.write_bytes(content[200:])
        with pytest.raises(DataError, match="its length is wrong"):
            load_views(tmp_path / "data")


def test_numbers_packed_twice_are_refused(tmp_path):
    pytest.importorskip("zarr")
    describe_zarr(tmp_path / "data", filters=[{"id": "blosc"}], compressor={"id": "zlib"})
    with pytest.raises(DataError, match="Blosc alone"):
        load_views(tmp_path / "data")
