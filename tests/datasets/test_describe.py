"""What describe says about files and data sets."""

import json

import numpy as np
import pytest
from scipy import sparse

from omcal.datasets import DataError, describe, load_views, make_multiview, save_views


def test_description_of_a_file(tmp_path, mixed):
    s = mixed.views["s"]
    a = mixed.views["a"].copy()
    a[3] = np.nan
    a[5, 1] = np.nan
    np.savez(
        tmp_path / "data.npz",
        **{"a": a, "s.data": s.data, "s.indices": s.indices, "s.indptr": s.indptr},
        **{"s.shape": s.shape, "y": mixed.labels, "batch": np.arange(12) // 6},
        **{"age": np.linspace(0, 1, 12), "name": [f"sample {i}" for i in range(12)]},
    )
    found = describe(tmp_path / "data.npz")
    assert json.loads(json.dumps(found)) == found
    assert (found["name"], found["format"]) == ("data.npz", "NumPy archive")
    assert (found["n_samples"], found["labels"], found["problem"]) == (12, "y", None)
    first, second = found["views"]
    assert first == {
        **{"name": "a", "shape": [12, 5], "dtype": "float32", "sparse": False, "density": None},
        **{"n_nan": 1, "n_missing_rows": 1},
    }
    assert second["sparse"] and second["density"] == pytest.approx(s.nnz / 240)
    assert found["label_candidates"] == [
        {"name": "y", "dtype": str(mixed.labels.dtype), "n_classes": 3},
        {"name": "batch", "dtype": "int64", "n_classes": 2},
    ]


def test_description_of_a_table(tmp_path):
    rows = "\n".join(f"{'ab'[i % 2]},{i / 2},{i % 3},{-i},{7 * i}" for i in range(12))
    (tmp_path / "data.csv").write_text("class,v1_a,v1_b,v2_a,v2_b\n" + rows)
    found = describe(tmp_path / "data.csv")
    assert [view["name"] for view in found["views"]] == ["v1", "v2"]
    assert found["label_candidates"] == [{"name": "class", "dtype": "<U1", "n_classes": 2}]


def test_a_file_that_needs_options_is_described_with_the_problem(tmp_path):
    np.savez(tmp_path / "data.npz", a=np.ones((3, 2)), b=np.ones((4, 5)), c=[0, 0, 1, 1])
    found = describe(tmp_path / "data.npz")
    assert "different numbers of samples" in found["problem"] and found["views"] == []
    assert [candidate["name"] for candidate in found["label_candidates"]] == ["c"]


def test_description_of_loaded_data():
    data = make_multiview(50, n_views=2, missing=0.2, random_state=0)
    found = describe(data)
    assert found["format"] is None and found["n_samples"] == 50
    assert sum(view["n_missing_rows"] for view in found["views"]) == 20
    assert all(view["n_nan"] == 0 for view in found["views"])
    assert found["label_candidates"] == [{"name": "cluster", "dtype": "int64", "n_classes": 4}]


def test_sparse_nan_are_counted(tmp_path, mixed):
    view = mixed.views["s"].copy()
    view.data[:2] = np.nan
    sparse.save_npz(tmp_path / "data.npz", view)
    assert describe(tmp_path / "data.npz")["views"][0]["n_nan"] == 2


def test_unreadable_file(tmp_path, dense):
    save_views(tmp_path / "data.npz", dense)
    (tmp_path / "data.npz").write_bytes((tmp_path / "data.npz").read_bytes()[:100])
    with pytest.raises(DataError):
        describe(tmp_path / "data.npz")


def test_options_that_there_are_not_are_refused(tmp_path):
    file = tmp_path / "a.csv"
    file.write_text("x,y\n1,2\n3,4\n")
    with pytest.raises(TypeError, match=r"no option 'idd'; see load_views"):
        describe(file, idd=False)
    with pytest.raises(TypeError, match="no option"):
        describe(load_views(file), heading=True)
