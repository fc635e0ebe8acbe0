"""The data sets of the paper, on small files in their layouts and on the real ones."""

import numpy as np
import pytest
from dataset_files import write_mat5
from scipy import io, sparse

from omcal.datasets import PAPER_DATASETS, DataError, load_paper_dataset

TWELVE = [
    *("Coil", "Wiki", "USPS", "Reuters", "NoisyMNIST", "XMedia", "Cifar10", "Cifar100", "Mnist"),
    *("TDT2", "Scotus", "Caltech101"),
]


def test_all_twelve_are_listed():
    assert list(PAPER_DATASETS) == TWELVE


@pytest.mark.parametrize("name", TWELVE)
def test_absent_files_are_asked_for(tmp_path, name):
    dataset = PAPER_DATASETS[name]
    assert dataset.status(tmp_path) == "absent"
    with pytest.raises(DataError, match=f"put {dataset.sources[0].file}"):
        load_paper_dataset(name, tmp_path)
    with pytest.raises(DataError, match="is not in"):
        load_paper_dataset(name, tmp_path / "nowhere")


@pytest.mark.parametrize("name", ["Cifar10", "Cifar100", "XMedia", "Mnist", "Reuters"])
@pytest.mark.parametrize("turned", [False, True])
def test_circulating_layout(tmp_path, rng, name, turned):
    views = [rng.normal(size=(20, d)) for d in (6, 5, 4)]
    file = tmp_path / f"{name.upper()}.mat"
    write_mat5(file, views, np.arange(20) % 4, turned=turned, names=("data", "truelabel"))
    assert PAPER_DATASETS[name].status(tmp_path) == "exact"
    with pytest.raises(DataError, match=r"was published with .* strict=False"):
        load_paper_dataset(name, tmp_path)
    data = load_paper_dataset(name.lower(), tmp_path, strict=False)
    assert data.name == name and data.widths == (6, 5, 4) and data.n_classes == 4
    assert np.array_equal(data.views["view2"], views[1])


def test_unknown_name():
    with pytest.raises(DataError, match=r"name='Iris'.*'Coil'"):
        load_paper_dataset("Iris", ".")


def test_unit_length(tmp_path, rng):
    views = [rng.normal(size=(20, 3)), sparse.csr_array(np.eye(20, 5) * 7)]
    write_mat5(tmp_path / "Wiki.mat", views, np.arange(20))
    data = load_paper_dataset("Wiki", tmp_path, strict=False, unit_length=True)
    assert np.linalg.norm(data.views["view1"], axis=1) == pytest.approx(1)
    lengths = sparse.linalg.norm(data.views["view2"], axis=1)
    assert lengths.tolist() == [1.0] * 5 + [0.0] * 15


def test_tdt2_takes_the_classes_from_the_columns_behind_the_terms(tmp_path, rng):
    classes = np.repeat(np.arange(1, 31), 2)
    terms = sparse.random_array((60, 36771), density=1e-3, format="csr", random_state=rng)
    behind = sparse.csr_array(np.column_stack([classes, np.arange(60) + 100.0]))
    io.savemat(tmp_path / "TDT2.mat", {"fea": sparse.hstack([terms, behind], format="csc")})
    data = load_paper_dataset("TDT2", tmp_path, strict=False)
    assert data.labels.tolist() == classes[20:].tolist()
    assert data.widths == (36771,) and (data.views["terms"] != terms[20:]).nnz == 0
    io.savemat(tmp_path / "TDT2.mat", {"fea": terms.tocsc(), "gnd": classes[:, None]})
    again = load_paper_dataset("TDT2", tmp_path, strict=False)
    assert (again.views["terms"] != data.views["terms"]).nnz == 0
    assert again.labels.tolist() == data.labels.tolist()


def test_silhouettes_are_averaged_by_area(tmp_path, rng):
    images = rng.random((4, 28, 28))
    contents = {"X": images.reshape(4, -1), "Y": np.arange(4)[:, None]}
    io.savemat(tmp_path / "caltech101_silhouettes_28.mat", contents)
    data = load_paper_dataset("Caltech101", tmp_path)
    # Reference: repeat every pixel until both sizes divide it, then average blocks.
    fine = np.kron(images, np.ones((1, 4, 4))).reshape(4, 16, 7, 16, 7).mean(axis=(2, 4))
    assert data.views["silhouette"] == pytest.approx(fine.reshape(4, -1))


REAL = {
    "Coil": ("exact", 1440, 20, (30, 19, 30)),
    "Wiki": ("exact", 2866, 10, (128, 10)),
    "TDT2": ("exact", 1938, 20, (36771,)),
    "USPS": ("rebuilt", 9298, 10, (30, 9, 30)),
    "NoisyMNIST": ("rebuilt", 30000, 10, (784, 784)),
    "Reuters": ("subset", 600, 6, (21531, 24892, 34251, 15506, 11547)),
    "Scotus": ("rebuilt", 6400, 13, (112214,)),
    "Caltech101": ("rebuilt", 8671, 101, (256,)),
}


@pytest.mark.parametrize("name", REAL)
def test_real_files(shared, name):
    status, n, c, widths = REAL[name]
    assert PAPER_DATASETS[name].status(shared / "data") == status
    data = load_paper_dataset(name, shared / "data")
    assert (data.n_samples, data.n_classes, data.widths) == (n, c, widths)
    assert data.notes[0].startswith(status)
    if name == "TDT2":
        occurring = np.bincount(data.views["terms"].indices, minlength=36771) > 0
        assert (~occurring).sum() == 15926 and set(data.labels) == set(range(11, 31))
    if name == "Scotus":
        assert len(data.feature_names["terms"]) == 112214
    if name in ("NoisyMNIST", "Caltech101"):
        for view in data.views.values():
            assert view.min() >= 0 and 0.9 < view.max() <= 1
