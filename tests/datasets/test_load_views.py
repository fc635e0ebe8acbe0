"""The formats that load_views reads, in files written here; MATLAB's have tests of their own."""

import io as streams
import sys

import numpy as np
import pytest
from dataset_files import same_views, write_idx
from scipy import sparse

from omcal import OMCAL
from omcal.datasets import DataError, MultiViewData, load_views, save_views


def test_npz_of_dense_and_sparse_arrays(tmp_path, mixed):
    s = mixed.views["s"]
    np.savez(
        tmp_path / "data.npz",
        **{"a": mixed.views["a"], "s_data": s.data, "s_indices": s.indices, "s_indptr": s.indptr},
        **{"s_shape": s.shape, "class": mixed.labels},
    )
    data = load_views(tmp_path / "data.npz")
    assert same_views(data, mixed) and data.label_name == "class"


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_npz_of_scipy(tmp_path, mixed, layout):
    sparse.save_npz(tmp_path / "data.npz", mixed.views["s"].asformat(layout))
    view = load_views(tmp_path / "data.npz").views["X"]
    assert view.format == "csr"
    assert np.array_equal(view.toarray(), mixed.views["s"].toarray())


def test_npz_with_text_dates_and_vocabulary(tmp_path, mixed):
    s = mixed.views["s"]
    words = np.array([f"word{i}" for i in range(20)])
    np.savez_compressed(
        tmp_path / "data.npz",
        **{"data": s.data, "indices": s.indices, "indptr": s.indptr, "shape": s.shape},
        **{"issueArea": mixed.labels, "date": np.array(["1946-11-18"] * 12), "vocab": words},
    )
    data = load_views(tmp_path / "data.npz")
    assert data.label_name == "issueArea" and list(data.views) == ["X"]
    assert data.feature_names["X"].tolist() == words.tolist()


def test_npz_of_images_with_train_and_test(tmp_path, rng):
    train, test = rng.integers(0, 255, size=(5, 4, 4)), rng.integers(0, 255, size=(3, 4, 4))
    np.savez(
        tmp_path / "data.npz", x_test=test, x_train=train, y_train=range(5), y_test=range(5, 8)
    )
    data = load_views(tmp_path / "data.npz")
    assert np.array_equal(data.views["x"], np.concatenate([train, test]).reshape(8, 16))
    assert data.labels.tolist() == list(range(8))


def test_npy_is_memory_mapped(tmp_path, rng):
    X = rng.normal(size=(20, 3))
    np.save(tmp_path / "data.npy", X)
    view = load_views(tmp_path / "data.npy").views["X"]
    assert isinstance(view, np.memmap) and np.array_equal(view, X)


def test_folder_of_npy(tmp_path, dense):
    folder = tmp_path / "folder"
    folder.mkdir()
    for name, view in dense.views.items():
        np.save(folder / f"{name}.npy", view)
    np.save(folder / "y.npy", dense.labels)
    data = load_views(folder)
    assert same_views(data, dense) and all(isinstance(v, np.memmap) for v in data.views.values())
    assert data.labels.tolist() == dense.labels.tolist()


def test_format_is_found_from_the_content(tmp_path, dense):
    save_views(tmp_path / "data.npz", dense)
    (tmp_path / "data.npz").rename(tmp_path / "data.mat")
    assert same_views(load_views(tmp_path / "data.mat"), dense)


CSV = "id;class;v1_a;v1_b;v2_a\ns1;cat;1;2.5;-3\ns2;dog;NA;0;1e3\n\ns3;cat;4;;7\n"


def test_csv_with_prefixes_text_and_gaps(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text(CSV, encoding="utf-8-sig")
    data = load_views(path)
    assert data.labels.tolist() == ["cat", "dog", "cat"]
    expected = np.array([[1, 2.5], [np.nan, 0], [4, np.nan]])
    assert np.array_equal(data.views["v1"], expected, equal_nan=True)
    assert data.views["v2"].ravel().tolist() == [-3, 1000, 7]
    assert data.feature_names["v1"].tolist() == ["v1_a", "v1_b"]
    assert data.present is None and data.ids.tolist() == ["s1", "s2", "s3"] and not data.notes


def test_csv_without_prefixes_or_header_is_one_view(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("age,income,zip_code,label\n1,2,3,7\n4,5,6,8\n")
    data = load_views(path)
    assert data.views["X"].tolist() == [[1, 2, 3], [4, 5, 6]] and data.labels.tolist() == [7, 8]
    path.write_text("1,2.5\n3,4\n")
    assert load_views(path).views["X"].tolist() == [[1, 2.5], [3, 4]]


def test_fractions_are_no_labels(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("a,b,y\n1,2,0.5\n3,4,1\n")
    data = load_views(path)
    assert data.labels is None and data.widths == (2,)
    assert "columns that are neither features nor labels: 'y'" in data.notes
    assert load_views(path, labels="y").labels.tolist() == [0.5, 1]
    np.savez(tmp_path / "data.npz", a=np.eye(3), target=[0.1, 0.2, 0.3])
    assert load_views(tmp_path / "data.npz").labels is None


def test_coordinates_are_features(tmp_path):
    """y beside x is no label where it cannot be one, or where there is z."""
    path = tmp_path / "data.csv"
    path.write_text("x,y\n1,0.5\n3,4\n")
    assert load_views(path).widths == (2,) and load_views(path).labels is None
    path.write_text("X,Y,Z\n1,0,2\n3,4,1\n")
    assert load_views(path).views["X"].tolist() == [[1, 0, 2], [3, 4, 1]]
    assert load_views(path, labels="Y").labels.tolist() == [0, 4]
    path.write_text("x,y\n1,0\n3,4\n")
    assert load_views(path).labels.tolist() == [0, 4]
    path.write_text("x,y,z\n1,no,2\n3,yes,1\n")
    assert load_views(path).labels.tolist() == ["no", "yes"]


def test_csv_where_some_columns_have_no_prefix(tmp_path):
    path = tmp_path / "data.csv"
    path.write_text("depth,v1_a,v1_b,v2_a,v2_b\n1,2,3,4,5\n6,7,8,9,0\n")
    with pytest.raises(DataError, match=r"'depth'.*views=\[\.\.\.\]"):
        load_views(path)
    assert load_views(path, views=["v2"]).views["v2"].tolist() == [[4, 5], [9, 0]]
    assert load_views(path, views=["X"]).widths == (5,)
    assert load_views(path, labels="depth").widths == (2, 2)


def test_csv_longer_than_a_block(tmp_path):
    rows = "".join(f"{2 * i},{-i},c{i % 3}\n" for i in range(5000))
    (tmp_path / "data.csv").write_text("a,b,label\n" + rows)
    data = load_views(tmp_path / "data.csv")
    assert data.views["X"][4999].tolist() == [9998, -4999] and data.n_classes == 3


def test_parquet_by_prefix_and_by_lists(tmp_path, dense):
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet

    a, b = dense.views.values()
    columns = {f"a_{j}": a[:, j] for j in range(5)} | {f"b_{j}": b[:, j] for j in range(3)}
    pyarrow.parquet.write_table(
        pa.table(columns | {"label": pa.array(dense.labels).dictionary_encode()}),
        tmp_path / "prefix.parquet",
    )
    lists = {"a": a.tolist(), "b": [None] + b.tolist()[1:], "n": range(12), "label": dense.labels}
    pyarrow.parquet.write_table(pa.table(lists), tmp_path / "lists.parquet")
    by_prefix, by_lists = (load_views(tmp_path / f"{n}.parquet") for n in ("prefix", "lists"))
    assert same_views(by_prefix, dense)
    assert list(by_lists.views) == ["a", "b"] and np.array_equal(by_lists.views["a"], a)
    assert np.isnan(by_lists.views["b"][0]).all()
    assert by_lists.present["b"].tolist() == [False] + [True] * 11
    assert by_prefix.labels.tolist() == by_lists.labels.tolist() == dense.labels.tolist()


@pytest.mark.parametrize("packed", [False, True])
def test_idx_file_and_folder(tmp_path, rng, packed):
    images = rng.integers(0, 256, size=(7, 3, 3))
    write_idx(tmp_path / "train-images-idx3-ubyte.gz", images[:5], packed=packed)
    write_idx(tmp_path / "train-labels-idx1-ubyte.gz", np.arange(5), packed=packed)
    write_idx(tmp_path / "t10k-images-idx3-ubyte.gz", images[5:], packed=packed)
    write_idx(tmp_path / "t10k-labels-idx1-ubyte.gz", np.arange(5, 7), packed=packed)
    data = load_views(tmp_path)
    assert np.array_equal(data.views["images"], images.reshape(7, 9))
    assert data.labels.tolist() == list(range(7))
    alone = load_views(tmp_path / "train-images-idx3-ubyte.gz")
    assert alone.widths == (9,) and alone.labels is None
    with pytest.raises(DataError, match="open the folder"):
        load_views(tmp_path / "train-labels-idx1-ubyte.gz")


@pytest.mark.parametrize("n_words", [12, 12_000])
@pytest.mark.parametrize(
    "packing", [{}, {"compression": "gzip", "shuffle": True}, {"compression": "lzf"}]
)
def test_strings_of_hdf5(tmp_path, packing, n_words):
    h5py = pytest.importorskip("h5py")
    words = np.array([f"größe {i * i % 97}" for i in range(n_words)], dtype=object)
    words[3] = ""
    chunks = (n_words // 5,) if packing else None
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["a"] = np.ones((n_words, 2))
        file.create_dataset("label", data=words, chunks=chunks, **packing)
    data = load_views(tmp_path / "data.h5")
    assert data.labels.tolist() == words.tolist()
    assert "1 sample has no label in 'label'" in data.notes


def test_plain_hdf5(tmp_path, mixed):
    h5py = pytest.importorskip("h5py")
    s = mixed.views["s"]
    with h5py.File(tmp_path / "data.h5", "w") as file:
        file["a"] = mixed.views["a"]
        for part in ("data", "indices", "indptr"):
            file[f"s/{part}"] = getattr(s.tocsc(), part)
        file["s"].attrs["shape"] = s.shape
        file["label"] = np.array([f"class {i}".encode() for i in mixed.labels])
    data = load_views(tmp_path / "data.h5")
    assert same_views(data, mixed) and data.labels[:2].tolist() == ["class 0", "class 1"]


def test_hdf5_train_and_test(tmp_path, rng):
    h5py = pytest.importorskip("h5py")
    parts = {"test": rng.normal(size=(3, 4)), "train": rng.normal(size=(5, 4))}
    with h5py.File(tmp_path / "data.h5", "w") as file:
        for name, part in parts.items():
            file[f"{name}/data"], file[f"{name}/target"] = part, np.full(len(part), len(part))
    data = load_views(tmp_path / "data.h5")
    assert np.array_equal(data.views["data"], np.concatenate([parts["train"], parts["test"]]))
    assert data.labels.tolist() == [5] * 5 + [3] * 3


@pytest.mark.parametrize("zarr_format", [2, 3])
def test_zarr(tmp_path, mixed, zarr_format):
    zarr = pytest.importorskip("zarr")
    s = mixed.views["s"]
    group = zarr.open_group(str(tmp_path / "data"), mode="w", zarr_format=zarr_format)
    group.create_array("a", data=mixed.views["a"], chunks=(5, 5))
    inner = group.create_group("s")
    for part in ("data", "indices", "indptr"):
        inner.create_array(part, data=getattr(s, part))
    inner.create_array("shape", data=np.array(s.shape))
    group.create_array("y", data=mixed.labels)
    data = load_views(tmp_path / "data")
    assert same_views(data, mixed) and data.labels.tolist() == mixed.labels.tolist()


@pytest.mark.parametrize("zarr_format", [2, 3])
@pytest.mark.filterwarnings("ignore")  # of zarr, in words and classes of each version
def test_zarr_with_text_as_labels(tmp_path, dense, zarr_format):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "data"), mode="w", zarr_format=zarr_format)
    group.create_array("a", data=dense.views["a"])
    names = np.array(["left", "", "right"] * 4)
    group.create_array("label", shape=names.shape, dtype=str)[:] = names
    data = load_views(tmp_path / "data")
    assert data.labels.tolist() == names.tolist() and data.n_classes == 2


def test_options(tmp_path, dense):
    path = tmp_path / "data.npz"
    other = np.arange(12)
    np.savez(path, **dense.views, coarse=other // 6, fine=other // 3)
    plain = load_views(path)
    assert plain.labels is None
    assert load_views(path, labels="fine").n_classes == 4
    assert list(load_views(path, views=["b"]).views) == ["b"]
    with pytest.raises(DataError, match=r"labels='none'.*'coarse', 'fine'"):
        load_views(path, labels="none")
    with pytest.raises(DataError, match=r"views=\['c'\].*'a', 'b'"):
        load_views(path, views=["c"])
    with pytest.raises(DataError, match="pass a list"):
        load_views(path, views="a")
    with pytest.raises(DataError, match="no labels could be chosen"):
        load_views(path, labels=True)


def test_ambiguous_labels_are_not_guessed(tmp_path, dense):
    path = tmp_path / "data.npz"
    np.savez(path, **dense.views, y=np.arange(12) // 6, gt=np.arange(12) // 3)
    data = load_views(path)
    assert data.labels is None and any("several variables" in note for note in data.notes)
    assert load_views(path, labels="gt").n_classes == 4
    with pytest.raises(DataError, match="several could be"):
        load_views(path, labels=True)
    np.savez(path, **dense.views, y=np.arange(12) // 3, gt=np.arange(12) // 3)
    assert load_views(path).label_name == "y"
    assert load_views(path, labels=False).labels is None


def test_views_of_different_lengths(tmp_path, rng):
    path = tmp_path / "data.npz"
    np.savez(path, a=rng.normal(size=(5, 2)), b=rng.normal(size=(6, 3)))
    with pytest.raises(DataError, match=r"different numbers of samples.*views="):
        load_views(path)
    np.savez(path, a=rng.normal(size=(5, 2)), b=rng.normal(size=(6, 3)), y=np.arange(6))
    for views in (None, ["a", "b"]):
        with pytest.raises(DataError, match=r"without a side of 6.*'a': 5 × 2.*views=\['b'\]"):
            load_views(path, views=views)
    assert list(load_views(path, views=["b"]).views) == ["b"]
    np.savez(path, y=np.arange(6), **{f"x{i}": np.ones((5, 2)) for i in range(50)})
    with pytest.raises(DataError, match=r"'x11': 5 × 2 and 38 more;") as caught:
        load_views(path)
    assert len(str(caught.value)) < 500


def test_rows_of_nan_are_absent_samples(tmp_path, rng):
    X = rng.normal(size=(6, 3))
    X[2] = np.nan
    X[4, 0] = np.nan
    np.savez(tmp_path / "data.npz", a=X, b=rng.normal(size=(6, 2)))
    data = load_views(tmp_path / "data.npz")
    assert data.present["a"].tolist() == [True, True, False, True, True, True]
    assert data.present["b"].all()


@pytest.mark.parametrize(
    ("module", "name"), [("h5py", "data.h5"), ("pyarrow", "data.parquet"), ("zarr", "data")]
)
def test_missing_library_is_named_with_its_installation(tmp_path, dense, monkeypatch, module, name):
    pytest.importorskip(module)
    if module == "zarr":
        (tmp_path / name).mkdir()
        (tmp_path / name / "zarr.json").write_text("{}")
    else:
        save_views(tmp_path / name, dense)
    monkeypatch.setitem(sys.modules, module, None)
    monkeypatch.setitem(sys.modules, f"{module}.parquet", None)
    with pytest.raises(ImportError, match=f"pip install {module}"):
        load_views(tmp_path / name)


def test_data_checks_itself(dense):
    with pytest.raises(DataError, match="no view"):
        MultiViewData({})
    with pytest.raises(DataError, match="different numbers"):
        MultiViewData({"a": np.ones((2, 2)), "b": np.ones((3, 2))})
    with pytest.raises(DataError, match="one label per sample"):
        MultiViewData(dense.views, labels=np.arange(3))
    with pytest.raises(DataError, match="2-D"):
        MultiViewData({"a": np.ones(3)})
    with pytest.raises(DataError, match="present='a'"):
        MultiViewData(dense.views, present={"a": np.ones(3, dtype=bool)})


def test_error_names_the_file(tmp_path):
    with pytest.raises(DataError, match=r"nowhere\.mat: there is no such file"):
        load_views(tmp_path / "nowhere.mat")
    buffer = streams.BytesIO()
    np.save(buffer, np.ones((2, 2)))
    (tmp_path / "cut.npy").write_bytes(buffer.getvalue()[:-8])
    with pytest.raises(DataError, match=r"cut\.npy"):
        load_views(tmp_path / "cut.npy")


def test_a_file_may_list_its_views(tmp_path, rng):
    arrays = {name: rng.normal(size=(8, 4)) for name in ("a", "class", "spare")}
    path = tmp_path / "data.npz"
    np.savez(path, one=np.ones((8, 1)), view_names=["one", "class", "a"], y=[0, 1] * 4, **arrays)
    data = load_views(path)
    assert list(data.views) == ["one", "class", "a"] and data.label_name == "y"
    assert "not taken as views: 'spare'" in data.notes
    assert list(load_views(path, labels="one").views) == ["class", "a"]
    np.savez(path, view_names=["a", "absent"], **arrays)
    assert list(load_views(path).views) == ["a", "spare"]


@pytest.mark.parametrize("layout", ["csr", "csc"])
def test_sparse_groups_of_zarr_say_their_shape_in_an_attribute(tmp_path, layout):
    zarr = pytest.importorskip("zarr")
    matrix = sparse.random_array((5, 5), density=0.4, rng=0)
    stored = matrix.asformat(layout)
    root = zarr.open_group(str(tmp_path / "data.zarr"), mode="w")
    group = root.create_group("counts")
    for part in ("data", "indices", "indptr"):
        group.create_array(part, data=getattr(stored, part))
    group.attrs.update({"shape": [5, 5], "encoding-type": f"{layout}_matrix"})
    (view,) = load_views(tmp_path / "data.zarr").views.values()
    assert sparse.issparse(view) and np.array_equal(view.toarray(), matrix.toarray())


def test_a_saved_model_is_no_data(tmp_path):
    OMCAL(2, random_state=0).fit(np.random.default_rng(0).normal(size=(40, 3))).save(
        tmp_path / "model.omcal"
    )
    with pytest.raises(
        DataError, match=r"it is a saved model; pass it to omcal predict or omcal update"
    ):
        load_views(tmp_path / "model.omcal")
