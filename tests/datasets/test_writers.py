"""Whatever save_views writes, load_views reads back."""

import numpy as np
import pytest
from dataset_files import same_views
from numpy.testing import assert_array_equal
from scipy import io, sparse

from omcal.datasets import (
    DataError,
    MultiViewData,
    describe,
    load_views,
    make_multiview,
    save_views,
)

NEEDS = {".parquet": "pyarrow", ".h5": "h5py", ".h5ad": "h5py", ".zarr": "zarr"}
SPARSE = [".npz", ".mat", ".h5", ".h5ad", ".zarr"]
DENSE = [*SPARSE, ".csv", ".parquet", ""]


@pytest.mark.parametrize("ending", DENSE)
def test_dense_views_and_text_labels_return(tmp_path, dense, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    path = tmp_path / f"data{ending}"
    save_views(path, dense)
    data = load_views(path)
    assert same_views(data, dense)
    assert data.labels.tolist() == dense.labels.tolist()
    assert [item.name for item in tmp_path.iterdir()] == [path.name]


@pytest.mark.parametrize("ending", SPARSE)
def test_sparse_views_and_numbers_as_labels_return(tmp_path, mixed, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    save_views(tmp_path / f"data{ending}", mixed)
    data = load_views(tmp_path / f"data{ending}")
    assert same_views(data, mixed) and sparse.issparse(data.views["s"])
    assert data.labels.tolist() == mixed.labels.tolist() and data.labels.dtype.kind in "iu"


def test_a_dict_of_views_is_written_and_a_list_is_refused(tmp_path):
    views = {"a": np.eye(3), "b": np.ones((3, 2))}
    save_views(tmp_path / "made.npz", views)
    assert_array_equal(load_views(tmp_path / "made.npz").views["b"], views["b"])
    with pytest.raises(DataError, match=r"views is a list; give a dict, name -> array"):
        save_views(tmp_path / "other.npz", list(views.values()))


@pytest.mark.parametrize("ending", [".csv", ".parquet", ""])
def test_sparse_views_are_refused_where_they_cannot_go(tmp_path, mixed, ending):
    with pytest.raises(DataError, match=r"view 's' is sparse.*\.npz"):
        save_views(tmp_path / f"data{ending}", mixed)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", DENSE)
def test_absent_samples_return(tmp_path, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    made = make_multiview(40, n_views=2, missing=0.3, random_state=0)
    save_views(tmp_path / f"data{ending}", made)
    data = load_views(tmp_path / f"data{ending}")
    assert same_views(data, made)
    for name, mask in made.present.items():
        assert np.array_equal(data.present[name], mask)


@pytest.mark.parametrize("ending", [".npz", ".h5", ".h5ad", ".zarr"])
def test_absent_samples_of_a_sparse_view_return(tmp_path, mixed, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    mask = np.arange(12) != 4
    everywhere = {"a": np.ones(12, dtype=bool), "s": mask}
    path = tmp_path / f"data{ending}"
    save_views(path, MultiViewData(mixed.views, present=everywhere))
    data = load_views(path)
    assert list(data.views) == ["a", "s"] and data.labels is None
    assert np.array_equal(data.present["s"], mask) and data.present["a"].all()
    assert describe(path)["label_candidates"] == []


def test_absent_samples_of_a_sparse_view_do_not_get_lost(tmp_path, mixed):
    lacking = MultiViewData(mixed.views, present={"s": np.arange(12) != 4})
    with pytest.raises(DataError, match=r"'s' is sparse and lacks 1 of 12 samples.*\.h5ad"):
        save_views(tmp_path / "data.mat", lacking)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("ending", DENSE)
def test_views_keep_their_order_and_may_be_of_one_column(tmp_path, rng, ending):
    pytest.importorskip(NEEDS.get(ending, "numpy"))
    widths = {"X": 2, "shape": 2, "colour": 1, "X2": 3}
    views = {name: rng.normal(size=(6, width)) for name, width in widths.items()}
    save_views(tmp_path / f"data{ending}", MultiViewData(views))
    assert same_views(load_views(tmp_path / f"data{ending}"), MultiViewData(views))


@pytest.mark.parametrize("ending", [".h5ad", ".zarr"])
def test_labels_that_are_not_known_return(tmp_path, dense, ending):
    pytest.importorskip(NEEDS[ending])
    for i, labels in enumerate((np.array([*"ä" * 6, *"b" * 5, ""]), np.arange(12) % 3 * 1.0)):
        labels[0] = "" if i == 0 else np.nan
        save_views(tmp_path / f"data{i}{ending}", MultiViewData(dense.views, labels=labels))
        data = load_views(tmp_path / f"data{i}{ending}")
        np.testing.assert_array_equal(data.labels, labels)


def test_names_with_underscores_in_csv(tmp_path, rng):
    views = {"left_eye": rng.normal(size=(5, 2)), "right_eye": rng.normal(size=(5, 2))}
    save_views(tmp_path / "data.csv", MultiViewData(views))
    assert same_views(load_views(tmp_path / "data.csv"), MultiViewData(views))
    with pytest.raises(DataError, match="leave '_' and ':' out"):
        save_views(tmp_path / "data.csv", MultiViewData({"a_b": np.eye(2), "c:d": np.eye(2)}))


def test_feature_names_survive_csv(tmp_path):
    (tmp_path / "one.csv").write_text("class,v1_mean,v1_sd,v2_mean\na,1,2,3\nb,4,5,6\n")
    data = load_views(tmp_path / "one.csv")
    save_views(tmp_path / "two.csv", data)
    again = load_views(tmp_path / "two.csv")
    assert again.feature_names["v1"].tolist() == ["v1_mean", "v1_sd"]


def test_matlab_can_read_it(tmp_path, mixed):
    save_views(tmp_path / "data.mat", mixed)
    variables = io.loadmat(tmp_path / "data.mat", spmatrix=False)
    assert variables["Y"].ravel().tolist() == mixed.labels.tolist()
    assert np.array_equal(variables["X"][0, 1].toarray(), mixed.views["s"].toarray())


def test_a_failed_write_leaves_the_old_file(tmp_path, dense, monkeypatch):
    path = tmp_path / "data.npz"
    save_views(path, dense)
    before = path.read_bytes()

    def break_off(stream, array, **options):
        stream.write(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(np.lib.format, "write_array", break_off)
    with pytest.raises(OSError, match="disk full"):
        save_views(path, dense)
    assert path.read_bytes() == before and list(tmp_path.iterdir()) == [path]


def test_refusals(tmp_path, dense):
    with pytest.raises(DataError, match=r"ends in '\.xlsx'"):
        save_views(tmp_path / "data.xlsx", dense)
    for name in ("labels", "view_names", "ids", " ", "a\nb"):
        with pytest.raises(DataError, match="a view is called"):
            save_views(tmp_path / "data.npz", MultiViewData({name: np.eye(3)}))
    for name in ("a.present", "a.indptr"):
        with pytest.raises(DataError, match="a part of 'a' is stored there"):
            save_views(tmp_path / "data.npz", MultiViewData({"a": np.eye(3), name: np.eye(3)}))
    for target in ("new", "data.h5ad"):
        with pytest.raises(DataError, match="view 'rna/X' has a '/'"):
            save_views(tmp_path / target, MultiViewData({"rna/X": np.eye(3)}))
    save_views(tmp_path / "folder", dense)
    with pytest.raises(DataError, match="exists"):
        save_views(tmp_path / "folder", dense)
    (tmp_path / "data.zarr").mkdir()
    with pytest.raises(DataError, match="exists"):
        save_views(tmp_path / "data.zarr", dense)
    for names in (["X_pca"], ["a", "X"]):
        with pytest.raises(DataError, match=f"view '{names[-1]}' cannot go to .h5ad"):
            save_views(tmp_path / "data.h5ad", MultiViewData(dict.fromkeys(names, np.eye(3))))


def test_ids_in_csv_are_found_again_whatever_they_were_called(tmp_path, dense):
    for name in ("code", "labels", "a_1", None):
        ids = np.array([str(100 + i) for i in range(12)])
        save_views(
            tmp_path / "d.csv", MultiViewData(dense.views, dense.labels, ids=ids, id_name=name)
        )
        data = load_views(tmp_path / "d.csv")
        assert data.ids.tolist() == ids.tolist() and data.id_name == "id"
        assert same_views(data, dense)


@pytest.mark.parametrize("ending", [".zarr", ".h5"])
def test_views_that_would_be_a_folder_and_an_array_at_once_are_refused(tmp_path, ending):
    data = MultiViewData({"a/b": np.ones((3, 2)), "a": np.zeros((3, 2))})
    with pytest.raises(DataError, match=r"view 'a' .* folder of view 'a/b'"):
        save_views(tmp_path / f"data{ending}", data)
