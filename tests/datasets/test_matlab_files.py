"""MATLAB files of both kinds, in the layouts that circulate."""

import numpy as np
import pytest
from dataset_files import to_dense, write_mat5, write_mat73
from scipy import io, sparse

from omcal.datasets import DataError, load_views

WRITE_MATLAB = {"5": write_mat5, "7.3": write_mat73}


@pytest.mark.parametrize("version", WRITE_MATLAB)
@pytest.mark.parametrize("turned", [False, True])
def test_matlab_cells_in_either_orientation(tmp_path, mixed, version, turned):
    path = tmp_path / "data.mat"
    WRITE_MATLAB[version](path, list(mixed.views.values()), mixed.labels, turned=turned)
    data = load_views(path)
    assert list(data.views) == ["view1", "view2"]
    assert sparse.issparse(data.views["view2"]) and data.views["view2"].format == "csr"
    for read, written in zip(data.views.values(), mixed.views.values(), strict=True):
        assert np.array_equal(to_dense(read), to_dense(written))
    assert data.views["view1"].flags.c_contiguous and data.views["view1"].flags.writeable
    assert data.labels.tolist() == mixed.labels.tolist() and data.labels.dtype.kind in "iu"
    assert data.source.startswith(f"MATLAB {version}")


@pytest.mark.parametrize("version", WRITE_MATLAB)
def test_square_view_goes_the_way_of_the_others(tmp_path, rng, version):
    square, wide = rng.normal(size=(7, 7)), rng.normal(size=(7, 4))
    path = tmp_path / "data.mat"
    for turned in (False, True):
        WRITE_MATLAB[version](path, [square, wide], np.arange(7), turned=turned)
        assert np.array_equal(load_views(path).views["view1"], square)


def test_matlab_uncompressed_and_big_endian(tmp_path, rng):
    X = rng.normal(size=(4, 2))
    write_mat5(tmp_path / "plain.mat", [X, X], np.arange(4), compress=False)
    assert np.array_equal(load_views(tmp_path / "plain.mat").views["view2"], X)

    def element(kind, payload):
        return (
            np.array([kind, len(payload)], ">u4").tobytes() + payload + b"\0" * (-len(payload) % 8)
        )

    flags, dims = np.array([6, 0], ">u4").tobytes(), np.array(X.shape, ">i4").tobytes()
    values = np.asarray(X, ">f8").tobytes(order="F")
    matrix = element(6, flags) + element(5, dims) + element(1, b"fea") + element(9, values)
    big = tmp_path / "big.mat"
    big.write_bytes(b"MATLAB 5.0".ljust(124) + b"\x01\x00MI" + element(14, matrix))
    view = load_views(big).views["fea"]
    assert np.array_equal(view, X) and view.dtype.isnative


@pytest.mark.parametrize("order", ["<", ">"])
def test_matlab_labels_as_lines_of_wide_characters(tmp_path, order):
    def element(kind, payload):
        tag = np.array([kind, len(payload)], f"{order}u4").tobytes()
        return tag + payload + b"\0" * (-len(payload) % 8)

    def matrix(array_class, shape, name, kind, values):
        flags = np.array([array_class, 0], f"{order}u4").tobytes()
        parts = element(6, flags) + element(5, np.array(shape, f"{order}i4").tobytes())
        return element(14, parts + element(1, name) + element(kind, values.tobytes(order="F")))

    lines = np.array([[ord(letter) for letter in line] for line in ("über", "ab  ", "über")])
    end = b"\x00\x01IM" if order == "<" else b"\x01\x00MI"
    content = matrix(6, (3, 2), b"X", 9, np.ones((3, 2), f"{order}f8"))
    content += matrix(4, (3, 4), b"label", 4, lines.astype(f"{order}u2"))
    (tmp_path / "data.mat").write_bytes(b"MATLAB 5.0".ljust(124) + end + content)
    assert load_views(tmp_path / "data.mat").labels.tolist() == ["über", "ab", "über"]


@pytest.mark.parametrize(
    ("views_name", "labels_name"),
    [("X", "gt"), ("fea", "gnd"), ("data", "truelabel"), ("X", "truth"), ("X", "label")],
)
def test_usual_names_of_matlab_variables(tmp_path, dense, views_name, labels_name):
    path = tmp_path / "data.mat"
    numbers = np.arange(12) % 3
    write_mat5(path, list(dense.views.values()), numbers, names=(views_name, labels_name))
    data = load_views(path)
    assert data.widths == (5, 3) and data.label_name == labels_name
    assert data.labels.tolist() == numbers.tolist()


def test_matlab_plain_matrices_strings_and_leftovers(tmp_path, rng):
    X1, X2 = rng.normal(size=(6, 3)), rng.normal(size=(6, 4))
    io.savemat(
        tmp_path / "data.mat",
        {
            "X1": X1,
            "X2": X2,
            "centres": rng.normal(size=(2, 3)),
            "label": np.array(list("ababab"), dtype=object)[:, None],
            "options": {"k": 3.0},
            "title": "six samples",
        },
    )
    sides = r"without a side of 6.*'centres': 2 × 3.*views=\['X1', 'X2'\]"
    with pytest.raises(DataError, match=sides):
        load_views(tmp_path / "data.mat")
    data = load_views(tmp_path / "data.mat", views=["X1", "X2"])
    assert list(data.views) == ["X1", "X2"] and np.array_equal(data.views["X2"], X2)
    assert data.labels.tolist() == list("ababab")
    notes = " ".join(data.notes)
    assert "'centres'" in notes and "'options' is a struct" in notes


def test_labels_repeated_for_each_view(tmp_path, dense):
    cell, labels = np.empty((1, 2), dtype=object), np.empty((1, 2), dtype=object)
    for i, view in enumerate(dense.views.values()):
        cell[0, i], labels[0, i] = view.T, np.arange(12.0)[:, None] % 4
    io.savemat(tmp_path / "data.mat", {"data": cell, "truelabel": labels})
    data = load_views(tmp_path / "data.mat")
    assert data.widths == (5, 3) and data.labels.tolist() == [0, 1, 2, 3] * 3


@pytest.mark.parametrize("version", WRITE_MATLAB)
@pytest.mark.parametrize("labelled", [False, True])
def test_triplets_become_a_sparse_view(tmp_path, rng, version, labelled):
    views = [
        sparse.random_array((9, d), density=0.4, format="coo", random_state=rng) for d in (11, 30)
    ]
    views = [(view + sparse.eye_array(9, view.shape[1])).tocoo() for view in views]
    triplets = [np.column_stack([v.row + 1, v.col + 1, v.data]).astype(float) for v in views]
    path = tmp_path / "data.mat"
    WRITE_MATLAB[version](path, triplets, np.arange(9) % 3 if labelled else None)
    for read, written in zip(load_views(path).views.values(), views, strict=True):
        width = written.col.max() + 1
        assert np.array_equal(read.toarray(), written.toarray()[:, :width])


def test_three_dense_features_are_no_triplets(tmp_path, rng):
    X = rng.integers(1, 5, size=(8, 3))
    write_mat5(tmp_path / "data.mat", [X, X], np.arange(8))
    assert np.array_equal(load_views(tmp_path / "data.mat").views["view1"], X)


def test_nothing_is_turned_without_labels(tmp_path, rng):
    views = [rng.normal(size=(d, 6)) for d in (3, 4)]
    write_mat5(tmp_path / "data.mat", views)
    with pytest.raises(DataError, match=r"'view1': 3 × 6, 'view2': 4 × 6.*--transpose"):
        load_views(tmp_path / "data.mat")
    data = load_views(tmp_path / "data.mat", transpose=True)
    assert data.widths == (3, 4) and data.n_samples == 6
    assert any("transposed" in note for note in data.notes)
    # The same width, as of two embeddings, is no common number of samples.
    np.savez(tmp_path / "data.npz", image=np.ones((10, 4)), text=np.ones((9, 4)))
    with pytest.raises(DataError, match=r"'image': 10 × 4, 'text': 9 × 4"):
        load_views(tmp_path / "data.npz")
