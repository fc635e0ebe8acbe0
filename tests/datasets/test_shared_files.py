"""The real files beside the project: sizes as its list gives them, values as others read them."""

import gzip

import numpy as np
import pytest
from scipy import io, sparse

from omcal.datasets import DataError, describe, load_views

# file: samples, classes, widths
SIZES = {
    "100leaves.mat": (1600, 100, (64, 64, 64)),
    "BBC4view.mat": (685, 5, (4659, 4633, 4665, 4684)),
    "CESC.mat": (124, 3, (2000, 2000, 311, 219)),
    "CiteSeer.mat": (3312, 6, (3312, 3703)),
    "Coil.mat": (1440, 20, (30, 19, 30)),
    "Cora.mat": (2708, 7, (2708, 1433, 2706, 2706)),
    "Dermatology.mat": (358, 6, (12, 22)),
    "HW2sources.mat": (2000, 10, (784, 256)),
    "Handwritten.mat": (2000, 10, (216, 76, 64, 6, 240, 47)),
    "MNIST4.mat": (4000, 4, (30, 9, 30)),
    "MSRCv1.mat": (210, 7, (24, 576, 512, 256, 254)),
    "Movies.mat": (617, 17, (1878, 1398)),
    "NoisyMNIST_derived_30000_0.npz": (30000, 10, (784, 784)),
    "Prokaryotic.mat": (551, 4, (393, 3, 438)),
    "Reuters1200.mat": (1200, 6, (2000,) * 5),
    # The widths of the triplets end with the last column that has a value.
    "Reuters600.mat": (600, 6, (21526, 24892, 34121, 15487, 11539)),
    "SCOTUS_counts.npz": (8258, 13, (148349,)),
    "TDT2.mat": (9394, None, (36773,)),
    "USPS_raw.h5": (9298, 10, (256,)),
    "USPS_views_derived.npz": (9298, 10, (30, 9, 30)),
    "WebKB.mat": (1051, 2, (1840, 3000)),
    "Wiki.mat": (2866, 10, (128, 10)),
    "caltech101_silhouettes_28.mat": (8671, 101, (784,)),
    "htad.csv": (1386, 7, (36, 16)),
    "mnist": (70000, 10, (784,)),
}
MATLAB_5 = [name for name in SIZES if name.endswith(".mat") and name != "Dermatology.mat"]


@pytest.mark.parametrize("name", SIZES)
def test_opens_without_options(shared, name):
    path = shared / "data" / name
    data = load_views(path)
    assert (data.n_samples, data.n_classes, data.widths) == SIZES[name]
    assert data.present is None


def test_nothing_was_forgotten(shared):
    names = {path.name for path in (shared / "data").iterdir()} - {"README.md"}
    assert names == set(SIZES)


@pytest.mark.parametrize("name", MATLAB_5)
def test_the_same_values_as_scipy(shared, name):
    """Our reader of MATLAB files against an independent one."""
    path = shared / "data" / name
    known = io.loadmat(path, spmatrix=False)
    cell = next(known[key] for key in ("X", "fea", "data") if key in known)
    expected = list(cell.ravel()) if cell.dtype.hasobject else [cell]
    data = load_views(path)
    for view, other in zip(data.views.values(), expected, strict=True):
        if name == "Reuters600.mat":
            places = other[:, :2].astype(int) - 1
            other = sparse.coo_array((other[:, 2], places.T), shape=view.shape)
        oriented = other if other.shape == view.shape else other.T
        if sparse.issparse(view):
            assert (view != sparse.csr_array(oriented)).nnz == 0
        else:
            assert np.array_equal(view, oriented)
    names = [key for key in ("Y", "y", "truelabel") if key in known]
    if names:
        labels = known[names[0]]
        labels = labels.ravel()[0] if labels.dtype.hasobject else labels
        assert np.array_equal(data.labels, labels.ravel())


def test_the_same_values_as_h5py(shared):
    h5py = pytest.importorskip("h5py")
    data = load_views(shared / "data" / "Dermatology.mat")
    with h5py.File(shared / "data" / "Dermatology.mat") as file:
        for view, reference in zip(data.views.values(), file["X"][()].ravel(), strict=True):
            assert np.array_equal(view, file[reference][()].T)
        assert np.array_equal(data.labels, file["Y"][()].ravel())
    assert data.labels.dtype == np.int64
    usps = load_views(shared / "data" / "USPS_raw.h5")
    with h5py.File(shared / "data" / "USPS_raw.h5") as file:
        assert np.array_equal(usps.views["data"][:7291], file["train/data"][()])
        assert np.array_equal(usps.labels[7291:], file["test/target"][()])


def test_the_same_values_as_pandas(shared):
    pd = pytest.importorskip("pandas")
    table = pd.read_csv(shared / "data" / "htad.csv")
    data = load_views(shared / "data" / "htad.csv")
    assert data.labels.tolist() == table["class"].tolist()
    for name, view in data.views.items():
        columns = [column for column in table if column.startswith(f"{name}_")]
        assert data.feature_names[name].tolist() == columns
        # pandas rounds the last digit of some numbers in its quick parser
        assert np.allclose(view, table[columns], rtol=1e-14, atol=0)


def test_mnist_images_and_labels_belong_together(shared):
    folder = shared / "data" / "mnist"
    data = load_views(folder)
    with gzip.open(folder / "t10k-images-idx3-ubyte.gz") as file:
        assert file.read()[16:] == data.views["images"][60000:].tobytes()
    with gzip.open(folder / "train-labels-idx1-ubyte.gz") as file:
        assert file.read()[8:] == data.labels[:60000].tobytes()
    with pytest.raises(DataError, match="60000 labels and no view; open the folder"):
        load_views(folder / "train-labels-idx1-ubyte.gz")
    alone = load_views(folder / "train-images-idx3-ubyte.gz")
    assert alone.n_samples == 60000 and alone.labels is None


def test_descriptions_of_real_files(shared):
    found = describe(shared / "data" / "BBC4view.mat")
    assert found["format"] == "MATLAB 5" and all(view["sparse"] for view in found["views"])
    found = describe(shared / "data" / "Dermatology.mat")
    assert found["format"] == "MATLAB 7.3" and found["labels"] == "Y"
    assert describe(shared / "data" / "TDT2.mat")["labels"] is None
    candidates = describe(shared / "data" / "htad.csv")["label_candidates"]
    assert [(c["name"], c["n_classes"]) for c in candidates] == [("class", 7)]
