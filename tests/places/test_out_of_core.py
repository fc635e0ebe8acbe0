"""Views on disk: the same result as in memory, two reads, little memory, and clear errors."""

import errno
import os
import pickle
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from large_fits import assert_same_fit, file_size_limit, mapped, overlapping, sweeps
from omcal import OCAL, OMCAL
from omcal.machine.memory import parse_bytes
from omcal.places import disk as out_of_core
from omcal.places.data_scan import DataScan
from omcal.views.kinds import SAMPLE_ROWS
from omcal.views.stored import MappedRows, ParquetRows

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SETTINGS = {"n_clusters": 4, "n_anchors": 9, "max_iter": 20, "random_state": 0}


class Source:
    """Anything with a shape, a dtype and slices of rows; counts how often each row is read."""

    def __init__(self, array):
        self._array = array
        self.shape, self.dtype = array.shape, array.dtype
        self.reads = np.zeros(len(array), dtype=int)

    def __getitem__(self, rows):
        assert isinstance(rows, slice)
        self.reads[rows] += 1
        return self._array[rows]


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks where a test has little data."""
    monkeypatch.setattr(out_of_core, "_READ_BYTES", 20_000)


# The same result


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("scale", ["auto", "unit", "feature", "sample", "view", None])
@pytest.mark.parametrize("memory_limit", [None, "50kB"])
@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.long)])
def test_files_give_the_result_of_memory(tmp_path, scale, memory_limit, dtype):
    views = overlapping(dtype=dtype)
    expected = OMCAL(**SETTINGS, scale=scale).fit(views)
    files = mapped(tmp_path, views)
    found = OMCAL(**SETTINGS, scale=scale, memory_limit=memory_limit, scratch_dir=tmp_path)
    assert_same_fit(found.fit(files), expected)
    np.testing.assert_array_equal(found.predict(files), expected.predict(views))
    np.testing.assert_allclose(found.transform(files), expected.transform(views), atol=1e-12)
    in_memory = clone(found).fit(views)
    assert_same_fit(in_memory, expected)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.filterwarnings(
    "ignore:view .* contradicts"
)  # by anchors that have nothing to do with it
@pytest.mark.parametrize("anchors", ["kmeans", "random", "kmeans-full", "given"])
def test_every_kind_of_anchors(tmp_path, anchors):
    views = overlapping()
    if anchors == "given":
        rng = np.random.default_rng(1)
        anchors = [rng.normal(size=(9, X.shape[1])) for X in views]
    settings = {**SETTINGS, "anchors": anchors, "n_init": 2}
    expected = OMCAL(**settings).fit(views)
    assert_same_fit(OMCAL(**settings).fit(mapped(tmp_path, views)), expected)


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_stores_of_other_libraries(tmp_path):
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    A, B = overlapping()
    expected = OMCAL(**SETTINGS).fit([A, B])
    with h5py.File(tmp_path / "a.h5", "w") as file:
        stored = file.create_dataset("a", data=A, chunks=(700, 6))
        other = zarr.create_array(tmp_path / "b.zarr", data=B, chunks=(450, 4))
        found = OMCAL(**SETTINGS).fit({"view1": stored, "view2": other})
        assert_same_fit(found, expected)
        np.testing.assert_array_equal(found.predict([stored, B]), expected.predict([A, B]))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
def test_one_parquet_table_with_views(tmp_path):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    A, B = overlapping()
    frame = pd.DataFrame(np.hstack([A, B]), columns=[f"a_{i}" for i in range(6)] + list("wxyz"))
    frame = frame.rename(columns=lambda name: name if "_" in name else f"b_{name}")
    frame.to_parquet(tmp_path / "table.parquet", row_group_size=1100)
    table = ParquetRows(tmp_path / "table.parquet")
    assert table.shape == (6000, 10)
    np.testing.assert_array_equal(table[1000:3500], frame.to_numpy()[1000:3500])
    expected = OMCAL(**SETTINGS, views="prefix_").fit(frame)
    found = OMCAL(**SETTINGS, views="prefix_").fit(table)
    assert found.view_names_ == ["a", "b"]
    assert_same_fit(found, expected)
    swapped = ParquetRows(tmp_path / "table.parquet", [*table.columns[1::-1], *table.columns[2:]])
    np.testing.assert_array_equal(found.predict(swapped), found.predict(table))


@pytest.mark.slow
@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("split", [[slice(0, 6), slice(6, 10)], [[0, 2, 4], [9, 1]]])
def test_one_file_with_views(tmp_path, split):
    table = np.hstack(overlapping())
    expected = OMCAL(**SETTINGS, views=split).fit(table)
    source = Source(table)
    for X in (*mapped(tmp_path, [table]), source):
        assert_same_fit(OMCAL(**SETTINGS, views=split).fit(X), expected)
    assert source.reads.max() == 3  # although two views share it; some rows tell their kind


def test_parts_of_a_mapped_file(tmp_path):
    (whole,) = mapped(tmp_path, [np.arange(600.0).reshape(60, 10)])
    private = np.load(tmp_path / "0.npy", mmap_mode="c")
    private[3] = -1
    raw = np.memmap(tmp_path / "raw", dtype=np.int16, mode="w+", offset=10_006, shape=(9, 3))
    raw[:] = np.arange(27).reshape(9, 3)
    parts = (whole, whole[5:50], whole[::3], whole[:, 2:7], whole[4:, ::4], whole[7:8, 9:])
    for part in (*parts, whole[::-1], whole.T, raw, raw[2:]):
        for rows in (MappedRows.of(part), pickle.loads(pickle.dumps(MappedRows.of(part)))):
            np.testing.assert_array_equal(rows[0:6], part[0:6])
            np.testing.assert_array_equal(rows[1 : len(part)], part[1:])
    np.testing.assert_array_equal(MappedRows.of(private)[0:6], private[0:6])
    assert (private[3] == -1).all()
    with pytest.raises(OSError, match="not the file that was mapped"):
        pickle.dumps(MappedRows.of(private))  # it differs from its file


def test_a_file_that_was_replaced_is_not_read(tmp_path):
    views = overlapping()
    files = mapped(tmp_path, views)
    expected = OMCAL(**SETTINGS).fit(views)
    np.save(tmp_path / "new.npy", views[1][::-1])
    os.replace(tmp_path / "new.npy", tmp_path / "1.npy")
    assert_same_fit(OMCAL(**SETTINGS).fit(files), expected)
    with pytest.raises(OSError, match="not the file that was mapped"):
        pickle.dumps(MappedRows.of(files[1]))


def test_a_mapping_whose_file_is_gone(tmp_path):
    views = overlapping()
    files = mapped(tmp_path, views)
    for path in tmp_path.glob("*.npy"):
        path.unlink()
    assert_same_fit(OMCAL(**SETTINGS).fit(files), OMCAL(**SETTINGS).fit(views))


def test_a_stored_view_beside_a_sparse_one(tmp_path):
    from scipy import sparse

    A, B = overlapping(n=3000)
    B = sparse.csr_array(np.where(B > 0, B, 0))
    expected = OMCAL(**SETTINGS).fit([A, B])
    assert_same_fit(OMCAL(**SETTINGS).fit([*mapped(tmp_path, [A]), B]), expected)


# Reads and memory


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("scale", ["auto", "feature"])
def test_the_data_are_read_twice_by_fit_and_once_by_predict(scale):
    sources = [Source(X) for X in overlapping()]
    model = OMCAL(**SETTINGS, scale=scale, n_init=3).fit(sources)
    looked_at = SAMPLE_ROWS if scale == "auto" else 0  # to tell the kinds of the views
    for source in sources:
        assert (source.reads >= 2).all()
        assert (source.reads - 2).sum() == looked_at
    before = [source.reads.copy() for source in sources]
    model.predict(sources)
    for source, reads in zip(sources, before, strict=True):
        assert (source.reads == reads + 1).all()


@pytest.mark.usefixtures("small_blocks")
def test_given_anchors_and_no_scaling_need_one_read():
    sources = [Source(X) for X in overlapping()]
    anchors = [np.random.default_rng(0).normal(size=(9, s.shape[1])) for s in sources]
    OMCAL(**SETTINGS, scale=None, anchors=anchors).fit(sources)
    assert all((source.reads == 1).all() for source in sources)


def peak_memory(work):
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.memory
@pytest.mark.parametrize("compiled", [pytest.param(True, marks=pytest.mark.long), False])
def test_memory_stays_below_the_limit(tmp_path, monkeypatch, compiled):
    if compiled:
        pytest.importorskip("numba")
    else:
        monkeypatch.setattr("omcal.places.base.compiled_pays", lambda n: False)
    monkeypatch.setattr(out_of_core, "_READ_BYTES", 1 << 21)
    n, widths, limit = 120_000, (100, 60), 8_000_000
    rng = np.random.default_rng(0)
    files = mapped(tmp_path, [rng.random((n, d), dtype=np.float32) for d in widths])
    model = OMCAL(3, n_anchors=10, max_iter=2, random_state=0, scratch_dir=tmp_path)
    fit = clone(model).set_params(memory_limit=limit).fit
    fit([X[:60_000] for X in files])  # loads what is loaded once
    size = n * sum(widths) * 4
    beyond = 2 * 4 * n + 4 * 256 * 10 * sum(widths) * 4  # labels and their parts; the sample
    assert peak_memory(lambda: fit(files)) < limit + beyond < 0.25 * size
    # Without a limit the graphs are in memory, the data still are not.
    assert limit < peak_memory(lambda: clone(model).fit(files)) < 0.5 * size


def test_labels_are_written_as_they_come(tmp_path):
    views = overlapping()
    files = mapped(tmp_path, views)
    model = OMCAL(**SETTINGS).fit(files)
    out = np.lib.format.open_memmap(tmp_path / "labels.npy", "w+", np.int32, (6000,))
    assert model.predict(files, out=out) is out
    np.testing.assert_array_equal(np.load(tmp_path / "labels.npy"), model.predict(views))
    with pytest.raises(ValueError, match=r"out has shape \(6000,\); X has 10 samples"):
        model.predict([X[:10] for X in views], out=out)


def test_labels_that_an_array_does_not_hold_are_not_written():
    """NumPy would store -1 as 255, and 300 as 44."""
    X = np.random.default_rng(0).normal(size=(400, 5))
    out = np.full(400, 7, np.uint8)
    few = OMCAL(3, n_anchors=10, random_state=0).fit(X)
    with pytest.raises(ValueError, match=r"dtype uint8, which does not hold all .* -1 to 2; give"):
        few.predict(X, out=out, outliers=-1)
    np.testing.assert_array_equal(
        few.predict(X, out=out, outliers=255) == 255, few.predict(X, outliers=-1) == -1
    )
    many = OMCAL(300, n_anchors=310, n_neighbors=2, random_state=0).fit(X)
    out[:] = 7
    X[0, 0] = np.nan  # filled after a first look
    with pytest.raises(ValueError, match="does not hold all of the labels 0 to 299"):
        many.predict(X, out=out)
    assert (out == 7).all()


# Scratch files


def scratch_mappings(folder):
    return [
        line for line in Path("/proc/self/maps").read_text().splitlines() if str(folder) in line
    ]


@pytest.mark.sampled
@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="needs the proc file system")
@pytest.mark.parametrize("error", [None, ValueError, KeyboardInterrupt])
def test_scratch_files_have_no_name_and_are_gone_at_the_end(tmp_path, monkeypatch, error):
    seen = []

    def before(count):
        seen.append((len(list(tmp_path.iterdir())), len(scratch_mappings(tmp_path))))
        if error is not None and count == 3:
            raise error

    model = OMCAL(**SETTINGS, memory_limit=50_000, scratch_dir=tmp_path)
    with sweeps(monkeypatch, before):
        if error is None:
            model.fit(overlapping())
        else:
            with pytest.raises(error):
                model.fit(overlapping())
    # While it ran there were files, of which the folder shows nothing, not even to a kill.
    assert all(names == 0 and mappings >= 3 for names, mappings in seen)
    assert not scratch_mappings(tmp_path)
    assert not list(tmp_path.iterdir())
    assert hasattr(model, "labels_") == (error is None)


def test_a_full_disk(tmp_path, monkeypatch):
    model = OMCAL(**SETTINGS, memory_limit=50_000, scratch_dir=tmp_path)
    message = r"scratch_dir='.*' has no room for .* more; free some, choose another folder"
    with file_size_limit(10_000), pytest.raises(OSError, match=message):
        model.fit(overlapping())

    def full(*args):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=message) as caught:
        model.fit(overlapping())
    assert caught.value.errno == errno.ENOSPC
    assert not list(tmp_path.iterdir())
    assert not hasattr(model, "labels_")


@pytest.mark.slow
def test_without_fallocate_the_room_is_written(tmp_path, monkeypatch):
    monkeypatch.delattr(os, "posix_fallocate")
    model = OMCAL(**SETTINGS, memory_limit=50_000, scratch_dir=tmp_path)
    assert_same_fit(model.fit(overlapping()), OMCAL(**SETTINGS).fit(overlapping()))
    with file_size_limit(10_000), pytest.raises(OSError, match="has no room"):
        model.fit(overlapping())


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("memory_limit", "4 XB", r"memory_limit: '4 XB' is not a size; write it like '4GB'"),
        ("memory_limit", "0GB", r"memory_limit: '0GB' is not a size"),
        ("memory_limit", -1, r"memory_limit.*range \(0"),
        ("scratch_dir", "/no/such/folder", r"scratch_dir='/no/such/folder' is not a folder"),
        ("checkpoint", "/no/such/folder/x", r"checkpoint='/no/such/folder/x' lies in no folder"),
        ("client", "tcp://1.2.3.4", r"client"),
    ],
)
def test_wrong_parameters(name, value, message):
    settings = {**SETTINGS, "memory_limit": 10_000, name: value}
    with pytest.raises(ValueError, match=message):
        OMCAL(**settings).fit(overlapping())


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("4GB", 4 * 10**9), ("1.5 MiB", 3 * 2**19), ("12", 12), ("7kB", 7000), (2.5e3, 2500)],
)
def test_sizes(text, n_bytes):
    assert parse_bytes(text) == n_bytes


# What is wrong with the data


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("given_anchors", [False, True])
def test_nan_in_a_block_is_counted_in_its_view(tmp_path, given_anchors):
    views = overlapping()
    model = OMCAL(**SETTINGS)
    if given_anchors:
        model.set_params(scale=None, anchors=[np.eye(9)[:, :6], np.eye(9)[:, :4]])
    clean = clone(model).fit(views)
    views[1][4321, 2], views[1][5900, :2], views[1][7, 0] = np.nan, np.inf, np.nan
    files = dict(zip(("image", "text"), mapped(tmp_path, views), strict=True))
    message = r"view 'text' contains 2 NaN and 2 infinity \(inf\) values; remove or impute"
    with pytest.raises(ValueError, match=message):
        model.fit(files)
    with pytest.raises(ValueError, match=message.replace("text", "view2")):
        clean.predict(list(files.values()))


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_values_too_large_to_square(tmp_path):
    files = mapped(tmp_path, [1e30 * X for X in overlapping()])
    with pytest.raises(ValueError, match="large"):
        OMCAL(**SETTINGS, scale=None).fit(files)


class Unreadable(Source):
    def __getitem__(self, rows):
        if rows.stop > 4000:
            raise OSError("Input/output error")
        return super().__getitem__(rows)


@pytest.mark.usefixtures("small_blocks")
def test_a_block_that_cannot_be_read(tmp_path):
    A, B = overlapping()
    message = r"view 'view2': rows \d+ to \d+ cannot be read \(OSError: Input/output error\)"
    with pytest.raises(OSError, match=message):
        OMCAL(**SETTINGS).fit([A, Unreadable(B)])
    zarr = pytest.importorskip("zarr")
    stored = zarr.create_array(tmp_path / "b.zarr", data=B, chunks=(1000, 4))
    max((tmp_path / "b.zarr" / "c").rglob("0")).write_bytes(b"damaged")
    with pytest.raises(OSError, match=r"view 'view2': rows \d+ to \d+ cannot be read"):
        OMCAL(**SETTINGS).fit([A, stored])


@pytest.mark.usefixtures("small_blocks")
@pytest.mark.parametrize("change", ["overwritten", "cut short"])
def test_a_file_that_changes_between_the_reads(tmp_path, monkeypatch, change):
    files = mapped(tmp_path, overlapping())
    plain = DataScan.finish

    def finish(self, *args):
        path = tmp_path / "1.npy"
        if change == "overwritten":
            np.save(path, overlapping(seed=1)[1])
        else:
            os.truncate(path, 50_000)
        return plain(self, *args)

    monkeypatch.setattr(DataScan, "finish", finish)
    expected = {
        "overwritten": (ValueError, r"rows 0 to \d+ have changed since they were first read"),
        "cut short": (OSError, r"view 'view2': rows \d+ to \d+ cannot be read .* bytes too early"),
    }
    error, message = expected[change]
    model = OMCAL(**SETTINGS, memory_limit=50_000, scratch_dir=tmp_path)
    with pytest.raises(error, match=message):
        model.fit(files)
    assert {path.suffix for path in tmp_path.iterdir()} == {".npy"}


def test_a_source_that_loses_rows():
    class Shrinking(Source):
        def __getitem__(self, rows):
            return super().__getitem__(rows)[:-1]

    with pytest.raises(ValueError, match=r"view 'view1': rows 0 to 63 have shape \(63, 6\)"):
        OMCAL(**SETTINGS).fit([Shrinking(X) for X in overlapping()])
    with pytest.raises(ValueError, match=r"view 'view1': rows 0 to 5999 have shape \(5999, 6\)"):
        OMCAL(**SETTINGS, scale="feature").fit([Shrinking(X) for X in overlapping()])


def test_views_that_do_not_fit_together(tmp_path):
    A, B = mapped(tmp_path, overlapping())
    with pytest.raises(
        ValueError, match=r"'view1': 6000 × 6, 'view2': 5000 × 4.*row i must be the same"
    ):
        OMCAL(**SETTINGS).fit([A, B[:5000]])
    with pytest.raises(ValueError, match=r"view 'b' holds <U1 values; a view must be numeric"):
        OMCAL(**SETTINGS).fit({"a": A, "b": Source(np.full((6000, 2), "x"))})
    with pytest.raises(ValueError, match=r"0 feature\(s\)"):
        OMCAL(**SETTINGS).fit([A, B[:, :0]])
    with pytest.raises(ValueError, match=r"1 sample\(s\).*minimum of 2"):
        OCAL(2).fit(A[:1])
    with pytest.raises(ValueError, match=r"'kmeans-full' takes all rows into memory.*raise memory"):
        OMCAL(**SETTINGS, anchors="kmeans-full", memory_limit=10_000).fit([A, B])


def test_too_few_iterations_are_reported_for_files_too(tmp_path):
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        OMCAL(**{**SETTINGS, "max_iter": 2}).fit(mapped(tmp_path, overlapping()))
